//! A live node on the sample's channels, and the graph around it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use det_post::config::Config;
use det_post::node::Change;
use det_post::node::LiveNode;
use det_post_ros::bag::BagReader;
use det_post_ros::cdr::Reader;
use det_post_ros::messages::{Image, PointCloud2, read_header};
use det_post_ros::middleware::{MiddlewareOptions, Request, Response};
use det_post_ros::{NodeName, Parameter, ParameterValue, Remaps, SetResult};
use det_post_types::Stamp;

use super::memory_middleware::{MemoryGraph, MemoryMiddleware};
use super::{camera_net, lidar_nets, parameters, recording};

pub const CAMERA_OUT: &str = "/det_post/camera/detections";
pub const LIDAR_OUT: &str = "/det_post/lidar/detections";

/// How long anything may take here before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The folder of the sample, written once.
pub fn sample() -> &'static Path {
    static SAMPLE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, folder) = SAMPLE.get_or_init(|| {
        let keeper = tempfile::tempdir().unwrap();
        let folder = keeper.path().to_owned();
        let (models, heads) = (folder.join("models"), folder.join("heads"));
        std::fs::create_dir_all(&models).unwrap();
        std::fs::create_dir_all(&heads).unwrap();
        camera_net::graph().save(&models.join("blobs_yolov8.onnx")).unwrap();
        lidar_nets::encoder().save(&models.join("pillar_encoder.onnx")).unwrap();
        lidar_nets::head().save(&models.join("pillar_head.onnx")).unwrap();
        std::fs::write(heads.join("blobs_yolov8.yaml"), parameters::camera_head()).unwrap();
        std::fs::write(heads.join("pillars.yaml"), parameters::lidar_head()).unwrap();
        let deployment = parameters::deployment(&folder);
        std::fs::write(folder.join("sample.param.yaml"), deployment).unwrap();
        recording::write(&folder.join("drive")).unwrap();
        (keeper, folder)
    });
    folder
}

/// Topic, log time and bytes of every message of a recording.
pub fn messages(bag: &Path) -> Vec<(String, Stamp, Vec<u8>)> {
    let mut reader = BagReader::open(bag).unwrap();
    let topics: Vec<String> = reader.topics().iter().map(|topic| topic.name.clone()).collect();
    let mut messages = Vec::new();
    while let Some(message) = reader.next_message().unwrap() {
        let topic = topics[message.topic].clone();
        messages.push((topic, message.log_time, message.data.to_vec()));
    }
    messages
}

/// The first image of the sample with another stamp.
pub fn image_message(stamp: Stamp) -> Vec<u8> {
    static FIRST: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = FIRST.get_or_init(|| first(recording::IMAGE_TOPIC));
    let mut image = Image::decode(bytes).unwrap();
    image.header.stamp = stamp;
    let mut restamped = Vec::new();
    image.encode(&mut restamped).unwrap();
    restamped
}

/// The first cloud of the sample with another stamp.
pub fn cloud(stamp: Stamp) -> Vec<u8> {
    static FIRST: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = FIRST.get_or_init(|| first(recording::CLOUD_TOPIC));
    let mut cloud = PointCloud2::decode(bytes).unwrap();
    cloud.header.stamp = stamp;
    let mut restamped = Vec::new();
    cloud.encode(&mut restamped).unwrap();
    restamped
}

fn first(topic: &str) -> Vec<u8> {
    let all = messages(&sample().join("drive"));
    all.into_iter().find(|(of, ..)| of == topic).unwrap().2
}

/// The stamp of a message that starts with a header.
pub fn stamp_of(cdr: &[u8]) -> Stamp {
    read_header(&mut Reader::new("test", cdr).unwrap()).unwrap().stamp
}

/// A node and its graph.
pub struct Session {
    pub node: LiveNode,
    pub graph: MemoryGraph,
}

impl Session {
    /// A node that is in the graph, with nothing loaded.
    pub fn open(overrides: &[&str]) -> Self {
        Self::open_as("", "det_post", Remaps::default(), overrides)
    }

    /// As [`Session::open`], under another name.
    pub fn open_as(namespace: &str, name: &str, remaps: Remaps, overrides: &[&str]) -> Self {
        let node = NodeName::new(namespace, name).unwrap();
        Self::open_file(node, remaps, &sample().join("sample.param.yaml"), overrides)
    }

    /// As [`Session::open_as`], with another parameter file.
    pub fn open_file(node: NodeName, remaps: Remaps, file: &Path, overrides: &[&str]) -> Self {
        let mut all = vec!["diagnostics_period_s:=0.1".to_owned()];
        all.extend(overrides.iter().map(|text| (*text).to_owned()));
        let config = Config::load_for(&node, &[file.to_owned()], &all).unwrap();
        let (middleware, graph) = MemoryMiddleware::open(MiddlewareOptions { node, remaps });
        Self { node: LiveNode::open(config, Box::new(middleware)).unwrap(), graph }
    }

    /// A node that takes inputs.
    pub fn active(overrides: &[&str]) -> Self {
        let session = Self::open(overrides);
        session.node.change(Change::Configure).unwrap();
        session.node.change(Change::Activate).unwrap();
        session
    }

    /// Sends a message and waits for what comes of it on `output`.
    #[track_caller]
    pub fn send_for(&self, topic: &str, cdr: &[u8], output: &str) -> Vec<u8> {
        assert_eq!(self.graph.send(topic, cdr), 1, "nobody takes {topic}");
        self.next(output)
    }

    /// Waits for the next message on a topic, the only one.
    #[track_caller]
    pub fn next(&self, topic: &str) -> Vec<u8> {
        let mut messages = self.wait(topic, 1);
        assert_eq!(messages.len(), 1, "{topic}");
        messages.remove(0)
    }

    /// Waits for at least `num` messages on a topic.
    #[track_caller]
    pub fn wait(&self, topic: &str, num: usize) -> Vec<Vec<u8>> {
        let start = Instant::now();
        let mut messages = Vec::new();
        while messages.len() < num {
            assert!(start.elapsed() < PATIENCE, "{topic}: {} of {num}", messages.len());
            messages.append(&mut self.graph.take(topic));
            std::thread::sleep(Duration::from_millis(1));
        }
        messages
    }

    /// Asks a service.
    pub fn ask(&self, request: Request) -> Response {
        self.graph.call(request).unwrap()
    }

    /// Sets one parameter.
    pub fn set(&self, name: &str, value: ParameterValue) -> SetResult {
        let parameter = Parameter { name: name.into(), value };
        match self.ask(Request::SetParameters(vec![parameter])) {
            Response::SetResults(mut results) => results.remove(0),
            other => panic!("{other:?}"),
        }
    }
}
