//! What nodes of Autoware, Isaac ROS and yolo_ros publish, take and serve.

use std::time::{Duration, Instant};

use det_post::config::{Config, Source};
use det_post::node::{Change, LiveNode};
use det_post_ros::cdr::Reader;
use det_post_ros::messages::{Detection2DArray, Detection3DArray, read_header};
use det_post_ros::middleware::{InputKind, MiddlewareOptions, Request, Response};
use det_post_ros::{NodeName, ParameterValue, Remaps};
use det_post_types::{Header, Stamp};

use super::common::vocabulary::{network, vocabulary};
use super::common::yolov8_tensor::{CANDIDATES, FOUND, message};
use super::diagnostics::{await_status, decode};
use super::memory_middleware::MemoryMiddleware;
use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::session::{CAMERA_OUT, LIDAR_OUT, Session, cloud, image_message};

const CAMERA_FRAMES: &str = "det_post: camera: frames";

#[test]
fn a_lidar_channel_publishes_as_autoware_does() {
    let session = Session::active(&[
        "lidar.output_type:=detected_objects",
        "lidar.publish.vision_msgs:=true",
        "lidar.publish.debug_times:=lidar_centerpoint",
        "lidar.publish.published_time:=true",
        "lidar.processing_time_diagnostics.max_ms:=100000",
        "lidar.processing_time_diagnostics.interval_ms:=20",
        "lidar.processing_time_diagnostics.pillars_status:=centerpoint_trt",
    ]);
    let vision = format!("{LIDAR_OUT}/detections");
    let published = format!("{LIDAR_OUT}/debug/published_time");
    let times = ["cyclic_time_ms", "processing_time_ms", "pipeline_latency_ms"]
        .map(|name| format!("/lidar_centerpoint/debug/{name}"));
    let outputs = session.graph.outputs();
    let type_of = |topic: &str| {
        let found = outputs.iter().find(|(of, ..)| of == topic);
        found.unwrap_or_else(|| panic!("no {topic}")).1
    };
    assert_eq!(type_of(LIDAR_OUT), "autoware_perception_msgs/msg/DetectedObjects");
    assert_eq!(type_of(&vision), Detection3DArray::TYPE);
    assert_eq!(type_of(&published), "autoware_internal_msgs/msg/PublishedTime");
    for topic in &times {
        assert_eq!(type_of(topic), "autoware_internal_debug_msgs/msg/Float64Stamped");
        session.graph.set_subscribers(topic, 1);
    }
    session.graph.set_subscribers(&published, 1);

    let stamp = Stamp::from_ros(7, 5);
    let objects = session.send_for(CLOUD_TOPIC, &cloud(stamp), LIDAR_OUT);
    let boxes = session.next(&vision);
    let boxes = Detection3DArray::decode(&boxes).unwrap();
    let mut reader = Reader::new("test", &objects).unwrap();
    assert_eq!(read_header(&mut reader).unwrap(), boxes.header);
    let num_objects = reader.sequence_len(1).unwrap();
    assert_eq!(num_objects, boxes.detections.len());
    let best = boxes.detections.clone().next().unwrap().unwrap();
    // The score in single precision, then one classification.
    let score = f64::from(reader.f32().unwrap());
    assert_eq!((score, reader.u32().unwrap()), (best.best.unwrap().score, 1));
    assert!(num_objects > 0);

    // Stamps of now, and a time since the stamp of the cloud.
    let mut values = Vec::new();
    for topic in &times {
        let cdr = session.next(topic);
        let mut reader = Reader::new("test", &cdr).unwrap();
        let now = Stamp::from_ros(reader.i32().unwrap(), reader.u32().unwrap());
        assert!(now > Stamp::from_ros(1_600_000_000, 0), "{topic}: {now}");
        values.push(reader.f64().unwrap());
    }
    assert_eq!(values[0], 0.0, "the first frame has no cycle");
    assert!(values[1] > 0.0 && values[1] < 60_000.0, "{values:?}");
    assert!(values[2] > 1e12, "{values:?}");
    let cdr = session.next(&published);
    let mut reader = Reader::new("test", &cdr).unwrap();
    assert_eq!(read_header(&mut reader).unwrap(), boxes.header);
    assert!(reader.i32().unwrap() > 1_600_000_000);

    let status = await_status(&session, "det_post: processing_time_status", |status| {
        status.values.contains_key("processing_time_ms")
    });
    assert_eq!(status.level, 0);
    assert_eq!(status.values["is_processing_time_ms_in_expected_range"], "True");
    session.graph.take("/diagnostics");
    assert_eq!(session.graph.send(CLOUD_TOPIC, &cloud(Stamp::from_ros(8, 0))), 1);
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < super::session::PATIENCE, "no status of the frame");
        let own = |cdr: &Vec<u8>| {
            let mut reader = Reader::new("test", cdr).unwrap();
            let stamp = read_header(&mut reader).unwrap().stamp;
            let status = decode(cdr).remove("det_post: centerpoint_trt")?;
            Some((stamp, status))
        };
        if let Some((stamp, status)) = session.graph.take("/diagnostics").iter().find_map(own) {
            assert_eq!((stamp, status.level), (Stamp::from_ros(8, 0), 0));
            assert_eq!(status.values["is_num_pillars_within_range"], "True");
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for diagnostics with a frame of the camera that is skipped.
#[track_caller]
fn await_skipped(session: &Session) {
    let status = await_status(session, CAMERA_FRAMES, |status| status.number("skipped") > 0.0);
    assert_eq!(status.number("skipped"), 1.0);
}

#[test]
fn frames_are_skipped_without_subscribers() {
    let session = Session::active(&["camera.idle_without_subscribers:=true"]);
    for second in 1..=3 {
        session.graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0)));
        await_skipped(&session);
    }
    assert!(session.graph.take(CAMERA_OUT).is_empty());
    // Detections, or what shows them.
    let debug_image = format!("{CAMERA_OUT}/debug_image");
    for (second, topic) in [(4, CAMERA_OUT), (5, &debug_image)] {
        session.graph.set_subscribers(topic, 1);
        session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0)), CAMERA_OUT);
        session.graph.set_subscribers(topic, 0);
    }
    await_status(&session, CAMERA_FRAMES, |status| {
        assert_eq!(status.number("skipped"), 0.0);
        status.values["frames_out_total"] == "2"
    });
}

#[test]
fn a_switch_stops_and_starts_the_frames() {
    let session = Session::active(&[
        "camera.output_type:=yolo_detection_array",
        "camera.enable_service:=enable",
        "camera.publish.class_id:=index",
    ]);
    let found = session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)), CAMERA_OUT);
    let mut reader = Reader::new("test", &found).unwrap();
    assert_eq!(read_header(&mut reader).unwrap().stamp, Stamp::from_ros(1, 0));
    assert!(reader.sequence_len(1).unwrap() > 0);
    let class = reader.i32().unwrap() as usize;
    assert_eq!(reader.str().unwrap(), super::camera_net::CLASSES[class]);

    assert_eq!(session.graph.switch("/enable", false), Some(Ok(())));
    session.graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(2, 0)));
    await_skipped(&session);
    // The switch is the parameter.
    session.set("camera.enabled", ParameterValue::Flag(true)).unwrap();
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(3, 0)), CAMERA_OUT);
    assert_eq!(session.graph.switch("/other", true), None);
}

/// YOLO-World in place of yolo_ros: its service changes the classes; names without a vector change
/// nothing and are counted.
#[test]
fn the_service_of_yolo_ros_sets_the_classes() {
    let folder = tempfile::tempdir().unwrap();
    network(&folder.path().join("world.onnx"), -1);
    vocabulary(&folder.path().join("words.safetensors"));
    let of = |name: &str| folder.path().join(name).display().to_string();
    let overrides = [
        "model_type:=World".to_owned(),
        format!("model:={}", of("world.pt")),
        format!("vocabulary_path:={}", of("words.safetensors")),
        "classes:=[dog, car]".to_owned(),
        "device:=cpu".to_owned(),
        "diagnostics_period_s:=0.1".to_owned(),
    ];
    let node = NodeName::new("yolo", "yolo_node").unwrap();
    let like = Some("yolo_ros".parse().unwrap());
    let source = Source { overrides: overrides.into(), like, ..Source::default() };
    let config = Config::read(&node, &source).unwrap();
    let options = MiddlewareOptions { node, remaps: Remaps::default() };
    let (middleware, graph) = MemoryMiddleware::open(options);
    let session = Session { node: LiveNode::open(config, Box::new(middleware)).unwrap(), graph };
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();

    let (input, output) = ("/yolo/image_raw", "/yolo/detections");
    let num_found = |second| {
        let image = image_message(Stamp::from_ros(second, 0));
        let found = session.send_for(input, &image, output);
        let mut reader = Reader::new("test", &found).unwrap();
        read_header(&mut reader).unwrap();
        reader.sequence_len(1).unwrap()
    };
    let set = |classes: &[&str]| {
        let classes = classes.iter().map(|&name| name.to_owned()).collect();
        let answer = session.graph.ask_named("/yolo/set_classes", Request::SetClasses(classes));
        assert_eq!(answer, Some(Response::Nothing));
    };
    assert_eq!(num_found(1), 2);
    set(&["cat"]);
    assert_eq!(num_found(2), 1);
    set(&["bus", "cat", "dog", "car"]);
    assert_eq!(num_found(3), 3);
    // The service is the parameter.
    let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    session.set("classes", ParameterValue::Texts(texts(&["dog"]))).unwrap();
    assert_eq!(num_found(4), 1);
    for refused in [&["dog", "zeppelin", "catt"][..], &[], &["dog", "dog"]] {
        set(refused);
    }
    assert_eq!(num_found(5), 1);
    let names = vec!["classes".to_owned()];
    let kept = Response::Values(vec![ParameterValue::Texts(texts(&["dog"]))]);
    assert_eq!(session.ask(Request::GetParameters(names)), kept);
    await_status(&session, "yolo/yolo_node: node", |status| {
        status.values["refused_requests"] == "3"
    });
}

#[test]
fn tensors_are_decoded_or_refused_with_their_reason() {
    let overrides = [
        "camera.head:=isaac_ros_yolov8",
        "camera.input:=tensor_sub",
        "camera.output:=detections_output",
        "diagnostics_period_s:=0.1",
    ]
    .map(str::to_owned);
    let node = NodeName::new("", "det_post").unwrap();
    let config = Config::load_for(&node, &[], &overrides).unwrap();
    let options = MiddlewareOptions { node, remaps: Remaps::default() };
    let (middleware, graph) = MemoryMiddleware::open(options);
    let session = Session { node: LiveNode::open(config, Box::new(middleware)).unwrap(), graph };
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();
    let inputs = session.graph.inputs();
    assert!(
        inputs
            .iter()
            .any(|(topic, kind, _)| { topic == "/tensor_sub" && *kind == InputKind::TensorList })
    );

    let header = Header { stamp: Stamp::from_ros(3, 4), frame_id: "camera0" };
    let good = message(&header, "output_tensor", &CANDIDATES);
    let cdr = session.send_for("/tensor_sub", &good, "/detections_output");
    let array = Detection2DArray::decode(&cdr).unwrap();
    assert_eq!(array.header, header);
    let found: Vec<_> = array.detections.map(Result::unwrap).collect();
    assert_eq!(found.len(), FOUND.len());
    for (found, (class, score, [x, y, width, height])) in found.iter().zip(FOUND) {
        let best = found.best.unwrap();
        assert_eq!((best.class_id, best.score), (&*class.to_string(), f64::from(score)));
        let expected = [x, y, width, height].map(f64::from);
        assert_eq!([found.center, found.size].concat(), expected);
    }

    // A frame without the tensor is dropped, a message that contradicts itself is refused.
    let other_name = message(&header, "output0", &CANDIDATES);
    session.graph.send("/tensor_sub", &other_name);
    let dropped = await_status(&session, "det_post: camera: frames", |status| status.level > 0);
    let reason = "no tensor output_tensor; found: other u8 [3], output0 f32 [1, 84, 4]";
    assert!(dropped.message.contains(reason), "{dropped:?}");
    let mut cut = good.clone();
    cut.truncate(good.len() - 100);
    session.graph.send("/tensor_sub", &cut);
    let refused = await_status(&session, "det_post: camera: input", |status| status.level == 1);
    assert!(refused.message.contains("1 messages refused: malformed_message"), "{refused:?}");
    // The next is served.
    session.send_for("/tensor_sub", &good, "/detections_output");
}
