//! Diagnostics of the node.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use det_post::node::Change;
use det_post_ros::cdr::Reader;
use det_post_ros::messages::{Detection2DArray, read_header};
use det_post_ros::middleware::MiddlewareEvent;
use det_post_ros::{NodeName, ParameterValue, Remaps};
use det_post_types::Stamp;

use super::common::counting_voxels::{self, Expected, FIELDS};
use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::session::{CAMERA_OUT, PATIENCE, Session, image_message};
use super::stand_in;

/// A status: level, message, values.
#[derive(Debug)]
pub struct Status {
    pub level: u8,
    pub message: String,
    pub values: BTreeMap<String, String>,
}

impl Status {
    pub fn number(&self, key: &str) -> f64 {
        self.values[key].parse().unwrap()
    }
}

/// The statuses of a message by name.
pub fn decode(cdr: &[u8]) -> BTreeMap<String, Status> {
    let mut reader = Reader::new("test", cdr).unwrap();
    read_header(&mut reader).unwrap();
    let num = reader.sequence_len(1).unwrap();
    let mut statuses = BTreeMap::new();
    for _ in 0..num {
        let level = reader.u8().unwrap();
        let [name, message, _hardware] = [(); 3].map(|()| reader.str().unwrap().to_owned());
        let num_values = reader.sequence_len(1).unwrap();
        let pair = |_| {
            let key = reader.str().unwrap().to_owned();
            (key, reader.str().unwrap().to_owned())
        };
        let values = (0..num_values).map(pair).collect();
        statuses.insert(name, Status { level, message, values });
    }
    // Padding, no more.
    assert!(reader.remaining() < 4);
    statuses
}

/// Waits for diagnostics in which a status is as wanted.
#[track_caller]
pub fn await_status(session: &Session, name: &str, wanted: impl Fn(&Status) -> bool) -> Status {
    await_status_while(session, name, || (), wanted)
}

/// As [`await_status`]; does `act` again and again in the meantime.
#[track_caller]
fn await_status_while(
    session: &Session,
    name: &str,
    act: impl Fn(),
    wanted: impl Fn(&Status) -> bool,
) -> Status {
    let start = Instant::now();
    let mut last = None;
    while start.elapsed() < PATIENCE {
        act();
        for cdr in session.graph.take("/diagnostics") {
            let status = decode(&cdr).remove(name);
            match status {
                Some(status) if wanted(&status) => return status,
                other => last = other.or(last),
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{name}: {last:?}")
}

const INPUT: &str = "det_post: camera: input";
const FRAMES: &str = "det_post: camera: frames";

#[test]
fn a_silent_input_is_a_warning_then_an_error_with_a_reason() {
    let session = Session::active(&["camera.gap_warn_s:=0.5", "camera.gap_error_s:=2.0"]);
    session.graph.set_publishers(IMAGE_TOPIC, 0);
    let warned = await_status(&session, INPUT, |status| status.level == 1);
    assert!(warned.message.contains("no message yet"), "{warned:?}");
    assert!(warned.message.contains("no publisher is matched"), "{warned:?}");
    let failed = await_status(&session, INPUT, |status| status.level == 2);
    assert!(failed.number("silence_s") >= 2.0, "{failed:?}");

    session.graph.report(&MiddlewareEvent::IncompatibleQos {
        topic: IMAGE_TOPIC.into(),
        policy: "reliability".into(),
    });
    await_status(&session, INPUT, |status| status.message.contains("another reliability"));
    await_status(&session, "det_post: node", |status| status.message.contains("reliability"));
    // Another peer that does match does not make that one go.
    session.graph.report(&MiddlewareEvent::PeerFound { topic: IMAGE_TOPIC.into() });
    await_status(&session, "det_post: node", |status| status.message.contains("reliability"));
    session.graph.report(&MiddlewareEvent::Compatible { topic: IMAGE_TOPIC.into() });
    await_status(&session, "det_post: node", |status| status.message == "active");

    session.graph.set_publishers(IMAGE_TOPIC, 1);
    let send = || session.graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)));
    let well =
        await_status_while(&session, INPUT, || assert_eq!(send(), 1), |status| status.level == 0);
    assert!(well.number("received") >= 1.0, "{well:?}");
    let stuck = await_status(&session, INPUT, |status| status.level == 2);
    assert!(
        stuck.message.contains("1 matched publishers are silent, or their messages are lost"),
        "{stuck:?}"
    );
}

#[test]
fn frames_latency_and_losses_have_their_numbers() {
    let session = Session::active(&["camera.latency_budget_ms:=0.001"]);
    for second in 0..5 {
        session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0)), CAMERA_OUT);
    }
    session.graph.send(IMAGE_TOPIC, &[0, 1, 0, 0, 9]);
    let input = await_status(&session, INPUT, |status| {
        status.values.contains_key("refused.malformed_message")
    });
    assert_eq!((input.number("refused.malformed_message"), input.number("received")), (1.0, 5.0));
    let latency = "det_post: camera: latency";
    for second in 5..10 {
        session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0)), CAMERA_OUT);
    }
    let over = await_status(&session, latency, |status| status.level == 1);
    assert!(over.message.contains("budget"), "{over:?}");
    assert!(over.number("infer_p50_ms") <= over.number("total_p99_ms") + 0.01, "{over:?}");
    assert!(over.number("response_p99_ms") >= over.number("response_p50_ms"));
}

#[test]
fn device_engine_and_networks_are_named() {
    let session = Session::active(&["camera.engine.kind:=rten", "device:=cpu"]);
    let camera = await_status(&session, "det_post: camera: device", |_| true);
    assert_eq!((camera.level, &*camera.values["health"]), (0, "good"), "{camera:?}");
    assert_eq!((&*camera.values["device"], &*camera.values["process"]), ("cpu", "the node's"));
    assert!(camera.message.contains("rten") && camera.message.ends_with("on cpu"), "{camera:?}");
    assert!(camera.values["engine"].contains("rten"), "{camera:?}");
    assert!(camera.values["model"].ends_with("blobs_yolov8.onnx"), "{camera:?}");
    assert_eq!(camera.number("failures"), 0.0);
    let lidar = await_status(&session, "det_post: lidar: device", |_| true);
    assert!(lidar.values["encoder"].ends_with("pillar_encoder.onnx"), "{lidar:?}");
    assert!(lidar.values["model"].ends_with("pillar_head.onnx"), "{lidar:?}");
}

#[test]
fn input_without_output_is_an_error_that_ends_with_the_output() {
    let start = Instant::now();
    let session = Session::active(&["camera.gap_error_s:=0.4", "camera.max_age_s:=1.0"]);
    // Every frame is too old, and they keep coming.
    let send = || {
        session.graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)));
    };
    let failed = await_status_while(&session, FRAMES, send, |status| {
        status.message.contains("input arrives, but no output")
    });
    assert!(start.elapsed() >= Duration::from_millis(400), "{failed:?}");
    assert_eq!(failed.level, 2);
    session.set("camera.max_age_s", ParameterValue::Number(0.0)).unwrap();
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)), CAMERA_OUT);
    await_status(&session, FRAMES, |status| !status.message.contains("no output"));
}

#[test]
fn overflows_and_repeated_stamps_are_warnings() {
    let session = Session::active(&["camera.max_detections:=1"]);
    for _ in 0..3 {
        session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(7, 0)), CAMERA_OUT);
    }
    let frames = await_status(&session, FRAMES, |status| status.level == 1);
    assert!(frames.message.contains("detections_over_limit"), "{frames:?}");
    session.set("camera.max_detections", ParameterValue::Integer(300)).unwrap();
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(7, 0)), CAMERA_OUT);
    await_status(&session, FRAMES, |status| {
        status.level == 1 && status.message.contains("stamps equal")
    });
}

#[test]
fn the_status_of_the_node_has_its_state_and_failures() {
    let session = Session::open(&["camera.model_path:=/none/such.onnx"]);
    let node = "det_post: node";
    let waiting = await_status(&session, node, |_| true);
    assert_eq!((waiting.level, &*waiting.values["state"]), (1, "unconfigured"), "{waiting:?}");
    session.node.change(Change::Configure).unwrap_err();
    let failed = await_status(&session, node, |status| status.level == 2);
    assert!(failed.message.contains("/none/such.onnx"), "{failed:?}");
    // What cannot begin changes nothing of that.
    session.node.change(Change::Activate).unwrap_err();
    session.graph.take("/diagnostics");
    for _ in 0..2 {
        let still = await_status(&session, node, |_| true);
        assert!(still.message.contains("/none/such.onnx"), "{still:?}");
    }
    session.graph.report(&MiddlewareEvent::Failed { reason: "the service thread ended".into() });
    await_status(&session, node, |status| status.message.contains("service thread"));
}

#[test]
fn lost_messages_are_counted_with_their_channel() {
    let session = Session::active(&[]);
    session.graph.report(&MiddlewareEvent::Lost { topic: CLOUD_TOPIC.into(), count: 3 });
    session.graph.report(&MiddlewareEvent::Lost { topic: CLOUD_TOPIC.into(), count: 4 });
    let lidar = await_status(&session, "det_post: lidar: input", |status| {
        status.values["lost_in_middleware"] != "0"
    });
    assert_eq!(lidar.number("lost_in_middleware"), 7.0);
}

#[test]
fn messages_missing_by_their_stamps_are_a_warning() {
    let session = Session::active(&[]);
    for count in [1, 2] {
        session.graph.report(&MiddlewareEvent::Missing { topic: CLOUD_TOPIC.into(), count });
    }
    let lidar = await_status(&session, "det_post: lidar: input", |status| {
        status.message.contains("missing by their stamps")
    });
    assert_eq!(lidar.level, 1, "{lidar:?}");
    let later = await_status(&session, "det_post: lidar: input", |status| {
        status.values["missing_by_stamps"] == "3"
    });
    assert_eq!(later.number("lost_in_middleware"), 0.0);
}

#[test]
fn scores_above_1_are_published_counted_and_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    for (score, expected) in [(0.9, None), (1.0, None), (7.5, Some("1"))] {
        let model = folder.path().join("camera.onnx");
        stand_in::camera(score).save(&model).unwrap();
        let model_path = format!("camera.model_path:={}", model.display());
        let session = Session::active(&["camera.head:=demo_camera", &model_path]);
        let image = image_message(Stamp::from_ros(1, 0));
        let cdr = session.send_for(IMAGE_TOPIC, &image, CAMERA_OUT);
        let array = Detection2DArray::decode(&cdr).unwrap();
        let scores: Vec<f64> = array.detections.map(|d| d.unwrap().best.unwrap().score).collect();
        assert_eq!(scores, [score, 0.8].map(f64::from));
        let status =
            await_status(&session, FRAMES, |status| status.values["frames_out_total"] == "1");
        let counted = status.values.get("scores_out_of_range").map(String::as_str);
        if let (Some(_), Some(_)) = (counted, expected) {
            assert_eq!(status.level, 1, "{status:?}");
            assert!(status.message.contains("1 scores_out_of_range"), "{status:?}");
        }
        assert_eq!(counted, expected, "{status:?}");
    }
}

#[test]
fn nan_scores_are_counted_and_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("camera.onnx");
    stand_in::camera(f32::NAN).save(&model).unwrap();
    let model_path = format!("camera.model_path:={}", model.display());
    let session = Session::active(&["camera.head:=demo_camera", &model_path]);
    let cdr = session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)), CAMERA_OUT);
    let array = Detection2DArray::decode(&cdr).unwrap();
    let scores: Vec<f64> = array.detections.map(|d| d.unwrap().best.unwrap().score).collect();
    assert_eq!(scores, [f64::from(0.8_f32)], "the box without a score is no detection");
    let status = await_status(&session, FRAMES, |status| status.values["frames_out_total"] == "1");
    assert_eq!((status.level, &*status.values["scores_nan"]), (1, "1"), "{status:?}");
    assert!(status.message.contains("1 scores_nan"), "{status:?}");
}

#[test]
fn full_levels_of_a_sparse_encoder_are_a_warning_with_the_sites_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let file = counting_voxels::write(folder.path());
    let node = NodeName::new("", "det_post").unwrap();
    let overrides = ["lidar.encoder.level_capacities:=[3500, 60, 1400]"];
    let session = Session::open_file(node, Remaps::default(), &file, &overrides);
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();
    let points = counting_voxels::cloud(6, 2000);
    let cloud = counting_voxels::message(Stamp::from_ros(5, 0), &FIELDS, points.as_flattened());
    session.send_for(counting_voxels::TOPIC, &cloud, "/perception/lidar/detections");
    let status = await_status(&session, "det_post: lidar: frames", |status| {
        status.values.contains_key("level_3_sites_max")
    });
    let expected = Expected::new(&points, [2000, 3500, 60, 1400]);
    for (level, [sites, _]) in expected.levels.into_iter().enumerate() {
        for key in ["mean", "max"] {
            assert_eq!(status.number(&format!("level_{level}_sites_{key}")), sites as f64);
        }
    }
    let [sites, over] = expected.levels[2];
    assert!(sites == 60 && over > 0, "{expected:?}");
    assert_eq!(status.number("sites_over_capacity"), over as f64);
    assert_eq!(status.level, 1);
    assert!(status.message.contains(&format!("{over} sites_over_capacity")), "{status:?}");
}
