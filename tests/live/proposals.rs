//! Autoware's TransFusion and BEVFusion live: the message that a replay of the cloud gives.

use det_post::config::{Config, Source};
use det_post::node::{Change, LiveNode};
use det_post_ros::middleware::MiddlewareOptions;
use det_post_ros::{NodeName, Remaps};

use super::common::drop_in::proposals::{
    LIMITS, NODES, TOPIC, assert_objects, cases, cloud, clouds, last_message, write_clouds,
};
use super::common::shared_data::shared_data;
use super::memory_middleware::MemoryMiddleware;
use super::session::Session;

#[test]
fn a_live_cloud_gives_the_message_of_its_replay() {
    let Some(data) = shared_data() else { return };
    for node in &NODES {
        let case = &cases(&data, node)[0];
        let npz = clouds(&data, node, case);
        let package: det_post::config::Package = node.package.parse().unwrap();
        let source = Source {
            files: node.paths(&data),
            overrides: node.parameters(&data, &[LIMITS, "device:=cpu"]),
            arguments: vec![format!("model_path:={}", data.display())],
            like: Some(package),
            ..Source::default()
        };
        let (namespace, name) = package.node();
        let name = NodeName::new(namespace, name).unwrap();
        let config = Config::read(&name, &source).unwrap();
        let options = MiddlewareOptions { node: name, remaps: Remaps::default() };
        let (middleware, graph) = MemoryMiddleware::open(options);
        let live = LiveNode::open(config, Box::new(middleware)).unwrap();
        let session = Session { node: live, graph };
        session.node.change(Change::Configure).unwrap();
        session.node.change(Change::Activate).unwrap();
        session.graph.set_subscribers(node.topic, 1);
        let found = session.send_for(TOPIC, &cloud(&npz), node.topic);
        assert_objects(&found, case["objects"].as_array().unwrap(), node.package);

        let folder = tempfile::tempdir().unwrap();
        let bag = folder.path().join("drive");
        write_clouds(&bag, &npz);
        let run = node.replay(&data, &bag, folder.path().join("out"), &[LIMITS, "device:=cpu"]);
        run.expect_code(0);
        assert_eq!(found, last_message(&run, node.topic), "{}", node.package);
    }
}
