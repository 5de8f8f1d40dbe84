//! Autoware's TransFusion and BEVFusion live: the message that a replay of the cloud gives.

use std::path::Path;

use det_post::config::{Config, Package, Source};
use det_post::node::{Change, LiveNode};
#[cfg(feature = "dds")]
use det_post_ros::messages::PointCloud2;
use det_post_ros::middleware::MiddlewareOptions;
#[cfg(feature = "dds")]
use det_post_ros::middleware::{Middleware, Qos};
use det_post_ros::{NodeName, Remaps};

#[cfg(feature = "dds")]
use super::common::domain::Domain;
use super::common::drop_in::proposals::{
    LIMITS, NODES, Node, TOPIC, assert_objects, cases, cloud, clouds, last_message, write_clouds,
};
use super::common::npz::Npz;
use super::common::shared_data::shared_data;
#[cfg(feature = "dds")]
use super::inputs_over_dds::{InputsOverDds, Published, middleware, of_topic, wait_until};
use super::memory_middleware::MemoryMiddleware;
use super::session::Session;

#[test]
fn a_live_cloud_gives_the_message_of_its_replay() {
    let Some(data) = shared_data() else { return };
    for node in &NODES {
        let case = &cases(&data, node)[0];
        let npz = clouds(&data, node, case);
        let (name, config) = configuration(node, &data, &[]);
        let options = MiddlewareOptions { node: name, remaps: Remaps::default() };
        let (middleware, graph) = MemoryMiddleware::open(options);
        let live = LiveNode::open(config, Box::new(middleware)).unwrap();
        let session = Session { node: live, graph };
        session.node.change(Change::Configure).unwrap();
        session.node.change(Change::Activate).unwrap();
        session.graph.set_subscribers(node.topic, 1);
        let found = session.send_for(TOPIC, &cloud(&npz), node.topic);
        assert_objects(&found, case["objects"].as_array().unwrap(), node.package);

        assert_eq!(found, replayed(node, &data, &npz), "{}", node.package);
    }
}

/// Name and configuration of a node, with further parameters.
fn configuration(node: &Node, data: &Path, more: &[&str]) -> (NodeName, Config) {
    let package: Package = node.package.parse().unwrap();
    let source = Source {
        files: node.paths(data),
        overrides: node.parameters(data, &[&[LIMITS, "device:=cpu"], more].concat()),
        arguments: vec![format!("model_path:={}", data.display())],
        like: Some(package),
        ..Source::default()
    };
    let (namespace, name) = package.node();
    let name = NodeName::new(namespace, name).unwrap();
    let config = Config::read(&name, &source).unwrap();
    (name, config)
}

/// The last message of a replay of clouds.
fn replayed(node: &Node, data: &Path, npz: &Npz) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    write_clouds(&bag, npz);
    let run = node.replay(data, &bag, folder.path().join("out"), &[LIMITS, "device:=cpu"]);
    run.expect_code(0);
    last_message(&run, node.topic)
}

#[cfg(feature = "dds")]
#[test]
fn a_cloud_over_dds_gives_the_message_of_its_replay() {
    let Some(data) = shared_data() else { return };
    for node in &NODES {
        let npz = clouds(&data, node, &cases(&data, node)[0]);
        let more = ["qos.reliability:=reliable", "idle_without_subscribers:=false"];
        let (name, config) = configuration(node, &data, &more);
        let (domain, published) = (Domain::reserve(), Published::default());
        let dds = middleware(&domain, name.name(), Remaps::default());
        let inputs = InputsOverDds { dds, published: published.clone() };
        let live = LiveNode::open(config, Box::new(inputs)).unwrap();
        live.change(Change::Configure).unwrap();
        live.change(Change::Activate).unwrap();
        let mut sensor = middleware(&domain, "lidar", Remaps::default());
        let mut publisher = sensor.advertise(TOPIC, PointCloud2::TYPE, Qos::DEFAULT).unwrap();
        wait_until(|| publisher.num_subscribers(), |&num| num > 0);
        publisher.publish(&cloud(&npz)).unwrap();
        wait_until(|| of_topic(&published, node.topic).len(), |&num| num > 0);
        let found = of_topic(&published, node.topic).remove(0);
        assert_eq!(found, replayed(node, &data, &npz), "{}", node.package);
    }
}
