//! Outputs of the node for given inputs.

use det_post::node::Change;
use det_post_ros::cdr::Reader;
use det_post_ros::messages::{Detection2DArray, Detection3DArray, Image, read_header};
use det_post_ros::middleware::{Durability, InputKind, Qos, Reliability};
use det_post_ros::{ParameterValue, Remaps};
use det_post_types::Stamp;

use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::replay;
use super::session::{
    CAMERA_OUT, LIDAR_OUT, Session, cloud, image_message, messages, sample, stamp_of,
};

#[test]
fn replay_and_live_give_the_same_bytes() {
    let out = tempfile::tempdir().unwrap();
    let config = sample().join("sample.param.yaml").display().to_string();
    replay::replay(&sample().join("drive"), &config, &[], out.path()).expect_code(0);
    let replayed = messages(&out.path().join("detections"));

    let session = Session::active(&["camera.engine.kind:=rten", "lidar.engine.kind:=rten"]);
    let mut num_compared = 0;
    for (topic, log_time, cdr) in messages(&sample().join("drive")) {
        let output = if topic == IMAGE_TOPIC { CAMERA_OUT } else { LIDAR_OUT };
        let live = session.send_for(&topic, &cdr, output);
        let of_replay =
            replayed.iter().find(|(topic, time, _)| topic == output && *time == log_time).unwrap();
        assert!(live == of_replay.2, "{output} at {log_time}");
        num_compared += 1;
    }
    assert_eq!(num_compared, 2 * super::drive::NUM_FRAMES);
}

#[test]
fn outputs_carry_the_stamp_and_the_frame_of_the_input() {
    let session = Session::active(&[]);
    for stamp in [Stamp::from_ros(1, 2), Stamp::from_ros(2_000_000_000, 999_999_999)] {
        let cdr = session.send_for(IMAGE_TOPIC, &image_message(stamp), CAMERA_OUT);
        let found = Detection2DArray::decode(&cdr).unwrap();
        assert_eq!((found.header.stamp, found.header.frame_id), (stamp, "camera"));
        assert!(!found.detections.is_empty());
        let cdr = session.send_for(CLOUD_TOPIC, &cloud(stamp), LIDAR_OUT);
        let found = Detection3DArray::decode(&cdr).unwrap();
        assert_eq!((found.header.stamp, found.header.frame_id), (stamp, "base_link"));
        assert!(!found.detections.is_empty());
    }
}

#[test]
fn labels_are_published_once_and_kept_for_late_joiners() {
    let session = Session::active(&[]);
    let topic = format!("{CAMERA_OUT}/label_info");
    let labels = session.next(&topic);
    let mut reader = Reader::new("test", &labels).unwrap();
    read_header(&mut reader).unwrap();
    assert_eq!(reader.sequence_len(6).unwrap(), super::camera_net::CLASSES.len());
    assert_eq!((reader.u16().unwrap(), reader.str().unwrap()), (0, super::camera_net::CLASSES[0]));
    let (_, _, qos) = session.graph.outputs().into_iter().find(|output| output.0 == topic).unwrap();
    assert_eq!(qos.durability, Durability::TransientLocal);

    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)), CAMERA_OUT);
    assert!(session.graph.take(&topic).is_empty());
    // A threshold is part of what the labels say.
    session.set("camera.score_threshold", ParameterValue::Number(0.5)).unwrap();
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(2, 0)), CAMERA_OUT);
    assert_eq!(session.graph.take(&topic).len(), 1);
}

#[test]
fn markers_and_images_are_made_while_someone_looks() {
    let session = Session::active(&[]);
    let (markers, debug) = (format!("{LIDAR_OUT}/markers"), format!("{LIDAR_OUT}/debug_image"));
    let camera_debug = format!("{CAMERA_OUT}/debug_image");
    let frame = |second| {
        let stamp = Stamp::from_ros(second, 0);
        session.send_for(CLOUD_TOPIC, &cloud(stamp), LIDAR_OUT);
        session.send_for(IMAGE_TOPIC, &image_message(stamp), CAMERA_OUT)
    };
    frame(1);
    for topic in [&markers, &debug, &camera_debug] {
        assert!(session.graph.take(topic).is_empty(), "{topic}");
        session.graph.set_subscribers(topic, 1);
    }
    frame(2);
    // What is drawn of a frame may come after somebody looked in the next.
    let drawn = |topic: &str, second, stamp: fn(&[u8]) -> Stamp| loop {
        let mut messages = session.wait(topic, 1);
        messages.retain(|cdr| stamp(cdr) == Stamp::from_ros(second, 0));
        if let Some(cdr) = messages.pop() {
            break cdr;
        }
    };
    let shown = drawn(&markers, 2, marker_stamp);
    let (num_markers, first_action) = first_marker(&shown);
    assert!(num_markers > 3 && first_action == 3, "{num_markers} {first_action}");
    for topic in [&debug, &camera_debug] {
        let bytes = drawn(topic, 2, stamp_of);
        let image = Image::decode(&bytes).unwrap();
        assert_eq!(image.header.stamp, Stamp::from_ros(2, 0));
        let view = image.view().unwrap();
        assert!(view.data().iter().any(|byte| *byte != 0));
    }

    // Without subscribers the markers are removed, then nothing is published.
    session.graph.set_subscribers(&markers, 0);
    frame(3);
    assert_eq!(first_marker(&session.next(&markers)), (1, 3));
    frame(4);
    assert!(session.graph.take(&markers).is_empty());

    // Switched off, although someone looks.
    session.set("camera.publish.debug_image", ParameterValue::Flag(false)).unwrap();
    frame(5);

    // At the end nothing is left in the view.
    session.graph.set_subscribers(&markers, 1);
    frame(6);
    drawn(&markers, 6, marker_stamp);
    // An image follows its detections, and all of frame 5 came before frame 6.
    let last = session.graph.take(&camera_debug).iter().map(|cdr| stamp_of(cdr)).max();
    assert!(last.is_none_or(|stamp| stamp < Stamp::from_ros(5, 0)), "{last:?}");
    session.node.change(Change::Deactivate).unwrap();
    assert_eq!(first_marker(&session.next(&markers)), (1, 3));
}

/// Boxes in an image reach viewers as annotations with the stamp of the image.
#[test]
fn annotations_are_made_while_someone_looks() {
    let session = Session::active(&[]);
    let annotations = format!("{CAMERA_OUT}/annotations");
    let types: Vec<_> = session.graph.outputs();
    let of_topic = types.iter().find(|(topic, ..)| *topic == annotations).unwrap();
    assert_eq!(of_topic.1, "foxglove_msgs/msg/ImageAnnotations");
    assert!(types.iter().all(|(topic, ..)| *topic != format!("{LIDAR_OUT}/annotations")));
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)), CAMERA_OUT);
    assert!(session.graph.take(&annotations).is_empty());
    session.graph.set_subscribers(&annotations, 1);
    let stamp = Stamp::from_ros(2, 0);
    let cdr = session.send_for(IMAGE_TOPIC, &image_message(stamp), CAMERA_OUT);
    let num_detections = Detection2DArray::decode(&cdr).unwrap().detections.count();
    assert!(num_detections > 0);
    // The annotations of the first frame may come after the subscriber, too.
    let num_outlines = loop {
        let shown = session.wait(&annotations, 1).pop().unwrap();
        let mut reader = Reader::new("test", &shown).unwrap();
        let (num_circles, num_outlines) =
            (reader.sequence_len(1).unwrap(), reader.sequence_len(1).unwrap());
        assert_eq!(num_circles, 0);
        let shown = Stamp::from_ros(reader.i32().unwrap(), reader.u32().unwrap());
        if shown == stamp {
            break num_outlines;
        }
    };
    assert_eq!(num_outlines, num_detections);
}

/// The stamp of the first marker.
fn marker_stamp(cdr: &[u8]) -> Stamp {
    let mut reader = Reader::new("test", cdr).unwrap();
    reader.sequence_len(1).unwrap();
    read_header(&mut reader).unwrap().stamp
}

/// How many markers there are, and the action of the first.
fn first_marker(cdr: &[u8]) -> (usize, i32) {
    let mut reader = Reader::new("test", cdr).unwrap();
    let num = reader.sequence_len(1).unwrap();
    read_header(&mut reader).unwrap();
    reader.str().unwrap();
    reader.i32().unwrap();
    reader.i32().unwrap();
    (num, reader.i32().unwrap())
}

#[test]
fn names_follow_the_namespace_and_the_remaps() {
    let mut remaps = Remaps::default();
    remaps.push(IMAGE_TOPIC, "/front/image");
    remaps.push("~/camera/detections", "boxes");
    let overrides = ["camera.qos.reliability:=reliable", "camera.qos.depth:=2"];
    let session = Session::open_as("car", "eyes", remaps, &overrides);
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();
    let inputs = session.graph.inputs();
    let qos = Qos { reliability: Reliability::Reliable, depth: 2, ..Qos::SENSOR_DATA };
    assert!(inputs.contains(&("/front/image".into(), InputKind::Image, qos)), "{inputs:?}");
    assert!(inputs.contains(&(CLOUD_TOPIC.into(), InputKind::PointCloud2, Qos::SENSOR_DATA)));
    let outputs: Vec<String> = session.graph.outputs().into_iter().map(|out| out.0).collect();
    for topic in
        ["/car/boxes", "/car/eyes/lidar/detections", "/diagnostics", "/car/eyes/transition_event"]
    {
        assert!(outputs.iter().any(|output| output == topic), "{topic}: {outputs:?}");
    }
    let stamp = Stamp::from_ros(7, 0);
    let cdr = session.send_for("/front/image", &image_message(stamp), "/car/boxes");
    assert_eq!(stamp_of(&cdr), stamp);
}
