//! The topics of channels: remaps, debug images as JPEG, class ids, the log, and
//! nothing after the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use det_post::Result;
use det_post::config::{ChannelConfig, Config};
use det_post::detectors::{Detector, DetectorInfo, FrameSet};
use det_post::node::{Change, LiveNode, LogRecord, Logs};
use det_post::runtime::open_detector;
use det_post_ops::device::PayloadMemory;
use det_post_ops::image::decompress::{DecodedImage, decompress};
use det_post_ros::cdr::Reader;
use det_post_ros::messages::{BondStatus, CompressedImage, Detection2DArray, Image};
use det_post_ros::middleware::{
    Durability, MiddlewareOptions, Qos, Reliability, Request, Response,
};
use det_post_ros::{LifecycleState, LogLevel, LoggerLevel, NodeName, ParameterValue, Remaps};
use det_post_types::{Detections, DeviceChoice, FrameReport, Header, Stamp};

use super::camera_net;
use super::memory_middleware::{MemoryGraph, MemoryMiddleware};
use super::recording::IMAGE_TOPIC;
use super::session::{CAMERA_OUT, Session, image_message, sample};

#[test]
fn topics_below_an_output_follow_its_remap() {
    let mut remaps = Remaps::default();
    remaps.push("/det_post/camera/detections", "/boxes");
    remaps.push("~/lidar/detections", "/objects");
    remaps.push("/det_post/lidar/detections/markers", "/cubes");
    remaps.push("/det_post/lidar/detections/debug_image", "/view");
    let session = Session::open_as("", "det_post", remaps, &[]);
    session.node.change(Change::Configure).unwrap();
    let mut topics: Vec<String> =
        session.graph.outputs().into_iter().map(|(topic, ..)| topic).collect();
    topics.retain(|topic| {
        !["/diagnostics", "/parameter_events", "/rosout", "/det_post/transition_event"]
            .contains(&topic.as_str())
    });
    assert_eq!(
        topics,
        [
            "/boxes",
            "/boxes/annotations",
            "/boxes/debug_image",
            "/boxes/debug_image/compressed",
            "/boxes/label_info",
            "/cubes",
            "/objects",
            "/objects/label_info",
            "/view",
            "/view/compressed",
        ]
    );
}

#[test]
fn a_debug_image_has_the_topic_that_is_configured() {
    let session = Session::open(&["camera.publish.debug_image_topic:=~/out/image"]);
    session.node.change(Change::Configure).unwrap();
    let topics: Vec<String> =
        session.graph.outputs().into_iter().map(|(topic, ..)| topic).collect();
    for (topic, is_there) in [
        ("/det_post/out/image", true),
        ("/det_post/out/image/compressed", true),
        ("/det_post/camera/detections/debug_image", false),
        ("/det_post/lidar/detections/debug_image", true),
    ] {
        assert_eq!(topics.iter().any(|of| of == topic), is_there, "{topic}");
    }
}

#[test]
fn two_outputs_that_are_exchanged_keep_their_topics_apart() {
    let mut remaps = Remaps::default();
    remaps.push("/det_post/camera/detections", "/det_post/lidar/detections");
    remaps.push("/det_post/lidar/detections", "/det_post/camera/detections");
    let session = Session::open_as("", "det_post", remaps, &[]);
    session.node.change(Change::Configure).unwrap();
    let types = |wanted: &str| {
        let outputs = session.graph.outputs().into_iter();
        let found: Vec<_> = outputs.filter(|(topic, ..)| topic == wanted).collect();
        found.first().map(|(_, type_name, _)| *type_name)
    };
    let markers = "visualization_msgs/msg/MarkerArray";
    assert_eq!(types("/det_post/camera/detections/markers"), Some(markers));
    assert_eq!(types("/det_post/lidar/detections/markers"), None);
}

#[test]
fn a_debug_image_is_a_jpeg_for_those_who_ask_for_one() {
    let session = Session::active(&[]);
    let [plain, compressed] =
        ["debug_image", "debug_image/compressed"].map(|name| format!("{CAMERA_OUT}/{name}"));
    session.graph.set_subscribers(&compressed, 1);
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(7, 5)), CAMERA_OUT);
    let cdr = session.next(&compressed);
    let message = CompressedImage::decode(&cdr).unwrap();
    assert_eq!(message.header.stamp, Stamp::from_ros(7, 5));
    assert!(message.format.contains("jpeg"), "{}", message.format);
    let mut decoded = DecodedImage::new();
    decompress(&message.view().unwrap(), &mut decoded).unwrap();
    assert!(session.graph.take(&plain).is_empty(), "nobody asked for the plain image");

    // Close to the plain image, pixel by pixel.
    session.graph.set_subscribers(&plain, 1);
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(8, 0)), CAMERA_OUT);
    let cdr = session.next(&plain);
    let image = Image::decode(&cdr).unwrap();
    let view = decoded.view().unwrap();
    assert_eq!((view.size().width, view.size().height), (image.width, image.height));
    let difference: u64 = (0..image.height)
        .flat_map(|row| {
            view.row(row as usize).iter().zip(&image.data[(row * image.step) as usize..])
        })
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    let mean = difference as f64 / image.data.len() as f64;
    assert!(mean < 4.0, "{mean}");
    assert!(message.data.len() < image.data.len() / 2, "{} bytes", message.data.len());

    // Both images of a frame are published before the next one is processed.
    session.next(&compressed);
    session.set("camera.publish.debug_image", ParameterValue::Flag(false)).unwrap();
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(9, 0)), CAMERA_OUT);
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(10, 0)), CAMERA_OUT);
    assert!(session.graph.take(&compressed).is_empty());
}

#[test]
fn a_class_id_is_a_name_or_an_index() {
    let ids = |overrides: &[&str]| {
        let session = Session::active(overrides);
        let cdr = session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)), CAMERA_OUT);
        let found = Detection2DArray::decode(&cdr).unwrap().detections;
        found.map(|d| d.unwrap().best.unwrap().class_id.to_owned()).collect::<Vec<_>>()
    };
    let names = ids(&[]);
    assert!(!names.is_empty());
    let indices = ids(&["camera.publish.class_id:=index"]);
    let named: Vec<&str> =
        indices.iter().map(|index| camera_net::CLASSES[index.parse::<usize>().unwrap()]).collect();
    assert_eq!(named, names);
}

#[test]
fn the_log_is_published_as_rcl_publishes_it() {
    let session = Session::open_as("front", "eyes", Remaps::default(), &[]);
    let outputs = session.graph.outputs();
    let (_, type_name, qos) = outputs.iter().find(|(topic, ..)| topic == "/rosout").unwrap();
    let latched = Durability::TransientLocal;
    let expected = Qos { reliability: Reliability::Reliable, durability: latched, depth: 1000 };
    assert_eq!((*type_name, *qos), ("rcl_interfaces/msg/Log", expected));

    Logs::process().add(&LogRecord {
        stamp: Stamp::from_ros(3, 4),
        level: LogLevel::Warn,
        message: "of the test of the log".into(),
        file: "a.rs",
        module: "a",
        line: 5,
    });
    // Other nodes of this process may log, too.
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < super::session::PATIENCE);
        let found = session.graph.take("/rosout").into_iter().find(|cdr| {
            let mut reader = Reader::new("test", cdr).unwrap();
            let stamp = (reader.i32().unwrap(), reader.u32().unwrap());
            let (level, name) = (reader.u8().unwrap(), reader.str().unwrap());
            let text = reader.str().unwrap();
            text == "of the test of the log" && (stamp, level, name) == ((3, 4), 30, "front.eyes")
        });
        if found.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn levels_of_the_logger_are_set_by_service() {
    let session = Session::open(&[]);
    let level = |name: &str, level| LoggerLevel { name: name.into(), level };
    let set = Request::SetLoggerLevels(vec![level("det_post", 10), level("other", 10)]);
    let Response::SetResults(results) = session.ask(set) else { panic!() };
    assert!(results[0].is_ok(), "{results:?}");
    assert!(results[1].as_ref().unwrap_err().contains("other"), "{results:?}");
    let names = ["det_post", "", "other"].map(String::from).to_vec();
    assert_eq!(
        session.ask(Request::GetLoggerLevels(names)),
        Response::LoggerLevels(vec![level("det_post", 10), level("", 0), level("other", 0)])
    );
}

/// Detectors that hold their frames until they are let go, and how many there are of them.
#[derive(Default)]
struct Held {
    are_let_go: AtomicBool,
    num_frames: AtomicUsize,
    num_detectors: AtomicUsize,
    /// Whether frames panic.
    panic: AtomicBool,
}

struct Holding(Box<dyn Detector>, Arc<Held>);

impl Holding {
    fn new(detector: Box<dyn Detector>, held: &Arc<Held>) -> Self {
        held.num_detectors.fetch_add(1, Ordering::SeqCst);
        Self(detector, Arc::clone(held))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.1.num_detectors.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Detector for Holding {
    fn info(&self) -> &DetectorInfo {
        self.0.info()
    }

    fn num_in_flight(&self) -> usize {
        self.0.num_in_flight()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.1.num_frames.fetch_add(1, Ordering::SeqCst);
        assert!(!self.1.panic.load(Ordering::SeqCst), "as the test asks");
        wait_until(|| self.1.are_let_go.load(Ordering::SeqCst));
        self.0.submit(frame, report)
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        self.0.collect(report)
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        self.0.reconfigure(config)
    }

    fn reset(&mut self) -> Result<()> {
        self.0.reset()
    }

    fn warm_up(&mut self) -> Result<()> {
        Ok(())
    }

    fn payload_memory(&self) -> PayloadMemory {
        self.0.payload_memory()
    }
}

/// An active node whose detectors do as `held` says, and its graph.
fn active(config: Config, held: &Arc<Held>) -> (LiveNode, MemoryGraph) {
    let node = NodeName::new("", "det_post").unwrap();
    let (middleware, graph) =
        MemoryMiddleware::open(MiddlewareOptions { node, remaps: Remaps::default() });
    let shared = Arc::clone(held);
    let open = move |config: &ChannelConfig, device: DeviceChoice| {
        Ok(Box::new(Holding::new(open_detector(config, device)?, &shared)) as Box<dyn Detector>)
    };
    let live = LiveNode::with_factory(config, Box::new(middleware), Arc::new(open)).unwrap();
    live.change(Change::Configure).unwrap();
    live.change(Change::Activate).unwrap();
    (live, graph)
}

#[test]
fn a_shutdown_under_load_publishes_nothing_afterwards() {
    const NUM_CHANNELS: usize = 10;
    let folder = sample().display();
    let overrides: Vec<String> = (0..NUM_CHANNELS)
        .flat_map(|n| {
            [
                format!("c{n}.input:=/image_{n}"),
                format!("c{n}.head:={folder}/heads/blobs_yolov8.yaml"),
                format!("c{n}.model_path:={folder}/models/blobs_yolov8.onnx"),
                format!("c{n}.engine.kind:=rten"),
            ]
        })
        .collect();
    let config = Config::load(&[], &overrides).unwrap();
    let held = Arc::new(Held::default());
    let (live, graph) = active(config, &held);
    for n in 0..NUM_CHANNELS {
        graph.send(&format!("/image_{n}"), &image_message(Stamp::from_ros(1, 0)));
    }
    wait_until(|| held.num_frames.load(Ordering::SeqCst) == NUM_CHANNELS);
    let error = live.shut_down(Duration::from_millis(20)).unwrap_err();
    assert!(error.to_string().contains("did not finish in time"), "{error}");
    drop(live);
    // The frames in flight end some time after the node, and their detectors with their channels.
    held.are_let_go.store(true, Ordering::SeqCst);
    wait_until(|| held.num_detectors.load(Ordering::SeqCst) == 0);
    for n in 0..NUM_CHANNELS {
        let messages = graph.take(&format!("/det_post/c{n}/detections"));
        assert!(messages.is_empty(), "channel {n} published {}", messages.len());
    }
}

#[test]
fn deactivating_leads_to_inactive_also_when_a_channel_is_lost() {
    let folder = sample().display();
    let overrides = [
        "c.input:=/image".to_owned(),
        format!("c.head:={folder}/heads/blobs_yolov8.yaml"),
        format!("c.model_path:={folder}/models/blobs_yolov8.onnx"),
        "c.engine.kind:=rten".to_owned(),
    ];
    let config = Config::load(&[], &overrides).unwrap();
    let held = Arc::new(Held::default());
    held.are_let_go.store(true, Ordering::SeqCst);
    held.panic.store(true, Ordering::SeqCst);
    let (live, graph) = active(config, &held);
    graph.send("/image", &image_message(Stamp::from_ros(1, 0)));
    wait_until(|| held.num_frames.load(Ordering::SeqCst) == 1);
    live.change(Change::Deactivate).unwrap();
    assert_eq!(live.state(), LifecycleState::Inactive);
    // The channel is made anew.
    assert!(live.change(Change::Activate).unwrap_err().to_string().contains("c: "));
    held.panic.store(false, Ordering::SeqCst);
    for change in [Change::Cleanup, Change::Configure, Change::Activate] {
        live.change(change).unwrap();
    }
    graph.send("/image", &image_message(Stamp::from_ros(2, 0)));
    wait_until(|| !graph.take("/det_post/c/detections").is_empty());
}

#[test]
fn the_quality_of_service_of_a_topic_is_overridden() {
    let overrides = [
        "qos_overrides./image_raw.subscription.reliability:=reliable",
        "qos_overrides./boxes.publisher.depth:=3",
        "qos_overrides./boxes/label_info.publisher.durability:=volatile",
    ];
    let mut remaps = Remaps::default();
    remaps.push(IMAGE_TOPIC, "/image_raw");
    remaps.push("/det_post/camera/detections", "/boxes");
    let session = Session::open_as("", "det_post", remaps, &overrides);
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();
    let inputs = session.graph.inputs();
    let (.., qos) = inputs.iter().find(|(topic, ..)| topic == "/image_raw").unwrap();
    assert_eq!(*qos, Qos { reliability: Reliability::Reliable, ..Qos::SENSOR_DATA });
    let outputs = session.graph.outputs();
    let qos_of = |wanted: &str| outputs.iter().find(|(topic, ..)| topic == wanted).unwrap().2;
    assert_eq!(qos_of("/boxes"), Qos { depth: 3, ..Qos::DEFAULT });
    let labels = Qos { durability: Durability::Volatile, ..Qos::LATCHED };
    assert_eq!(qos_of("/boxes/label_info"), labels);

    // As read-only parameters, for topics without an override, too.
    let value = |name: &str| {
        let names = vec![format!("qos_overrides.{name}")];
        match session.ask(Request::GetParameters(names)) {
            Response::Values(mut values) => values.remove(0),
            other => panic!("{other:?}"),
        }
    };
    let text = |text: &str| ParameterValue::Text(text.into());
    assert_eq!(value("/image_raw.subscription.reliability"), text("reliable"));
    assert_eq!(value("/image_raw.subscription.depth"), ParameterValue::Integer(5));
    assert_eq!(value("/boxes.publisher.history"), text("keep_last"));
    assert_eq!(value("/det_post/lidar/detections.publisher.durability"), text("volatile"));
    assert_eq!(value("/parameter_events.publisher.depth"), ParameterValue::Integer(1000));
    let name = "qos_overrides./boxes.publisher.depth";
    // As `ros2 param load` sets what `ros2 param dump` wrote.
    session.set(name, ParameterValue::Integer(3)).unwrap();
    let refused = session.set(name, ParameterValue::Integer(7)).unwrap_err();
    assert!(refused.contains(name) && refused.contains("read-only"), "{refused}");
}

fn wait_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < super::session::PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A heartbeat of a lifecycle manager.
fn heartbeat(active: bool, heartbeat_timeout_s: f32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let status = BondStatus {
        header: Header::default(),
        id: "det_post",
        instance_id: "a manager",
        active,
        heartbeat_timeout_s,
        heartbeat_period_s: 0.1,
    };
    status.encode(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_manager_of_nav2_is_answered_by_heartbeats() {
    let session = Session::active(&[]);
    let is_active = |cdr: &Vec<u8>| {
        let status = BondStatus::decode(cdr).unwrap();
        assert_eq!(status.id, "det_post");
        assert_ne!(status.instance_id, "a manager");
        status.active
    };
    std::thread::sleep(Duration::from_millis(150));
    assert!(session.graph.take("/bond").is_empty(), "no manager has asked");

    // Heartbeats of others say nothing.
    let mut of_another = Vec::new();
    let mine = heartbeat(true, 60.0);
    let status = BondStatus { id: "controller", ..BondStatus::decode(&mine).unwrap() };
    status.encode(&mut of_another).unwrap();
    session.graph.send("/bond", &of_another);
    session.graph.send("/bond", &mine);
    assert!(session.wait("/bond", 3).iter().all(is_active));

    // The manager ends it: confirmed, then silence.
    session.graph.send("/bond", &heartbeat(false, 60.0));
    let mut last = session.wait("/bond", 1).pop().unwrap();
    while is_active(&last) {
        last = session.wait("/bond", 1).pop().unwrap();
    }
    std::thread::sleep(Duration::from_millis(150));
    assert!(session.graph.take("/bond").is_empty());

    // The manager is silent for longer than its timeout.
    let start = Instant::now();
    session.graph.send("/bond", &heartbeat(true, 0.5));
    while session.wait("/bond", 1).iter().all(is_active) {
        assert!(start.elapsed() < super::session::PATIENCE);
    }
    assert!(start.elapsed() >= Duration::from_millis(500), "{:?}", start.elapsed());

    // The node ends it as it is deactivated.
    session.graph.take("/bond");
    session.graph.send("/bond", &heartbeat(true, 60.0));
    assert!(session.wait("/bond", 1).iter().all(is_active));
    session.node.change(Change::Deactivate).unwrap();
    assert!(!is_active(session.graph.take("/bond").last().unwrap()));
    assert!(session.graph.inputs().is_empty(), "{:?}", session.graph.inputs());
}
