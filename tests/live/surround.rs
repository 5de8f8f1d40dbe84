//! A surround channel in a live graph: the bytes of a replay, the state of each camera, and
//! what a missing camera costs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use det_post::node::Change;
use det_post_ros::bag::BagReader;
use det_post_ros::messages::Image;
use det_post_ros::{NodeName, Remaps};

use crate::common::session::{PATIENCE, Session, messages};
use crate::common::surround_rig::{Fixture, NUM_FRAMES, calibration_file};
use crate::diagnostics::decode;

const OUTPUT: &str = "/det_post/rig/detections";

fn open(fixture: &Fixture, overrides: &[&str]) -> Session {
    let node = NodeName::new("", "det_post").unwrap();
    let file = fixture.path("rig.param.yaml");
    let session = Session::open_file(node, Remaps::default(), &file, overrides);
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();
    session
}

/// The messages of the drive by topic, in order.
fn by_topic(fixture: &Fixture) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut topics = BTreeMap::new();
    for (topic, _, data) in messages(&fixture.drive()) {
        topics.entry(topic).or_insert_with(Vec::new).push(data);
    }
    topics
}

fn send_transforms(session: &Session, drive: &BTreeMap<String, Vec<Vec<u8>>>) {
    for topic in ["/tf_static", "/tf"] {
        for data in &drive[topic] {
            session.graph.send(topic, data);
        }
    }
}

/// The value `state` of the status of each camera in a message.
fn states(diagnostics: &[u8]) -> Vec<String> {
    let statuses = decode(diagnostics).into_iter();
    let inputs = statuses.filter(|(name, _)| name.contains(": input "));
    inputs.map(|(_, status)| status.values["state"].clone()).collect()
}

/// Waits for a message with these states; some last for one message.
#[track_caller]
fn await_states(session: &Session, expected: [&str; 6]) {
    let start = Instant::now();
    let mut found = Vec::new();
    while !found.iter().any(|states| *states == expected) {
        assert!(start.elapsed() < PATIENCE, "{found:?}, expected {expected:?}");
        std::thread::sleep(Duration::from_millis(20));
        found.extend(session.graph.take("/diagnostics").iter().map(|cdr| states(cdr)));
    }
}

#[test]
fn live_frames_have_the_bytes_of_a_replay() {
    let fixture = Fixture::new();
    let paths = vec![calibration_file(&fixture).display().to_string(); 6].join(", ");
    let paths = format!("rig.calibration_paths:=[{paths}]");
    fixture.replay(&fixture.drive(), "out", &[&paths]).expect_code(0);
    let mut reader = BagReader::open(&fixture.path("out").join("detections")).unwrap();
    reader.select(&[OUTPUT]);
    let mut expected = Vec::new();
    while let Some(message) = reader.next_message().unwrap() {
        expected.push(message.data.to_vec());
    }
    assert_eq!(expected.len(), NUM_FRAMES);
    // Images are sent one after the other: their frame waits for all.
    let session = open(&fixture, &[&paths, "rig.sync.deadline_s:=10.0"]);
    let drive = by_topic(&fixture);
    send_transforms(&session, &drive);
    session.graph.set_subscribers(&format!("{OUTPUT}/debug_image"), 1);
    for (frame, expected) in expected.iter().enumerate() {
        for camera in 0..6 {
            let topic = format!("/camera_{camera}/image");
            assert_eq!(session.graph.send(&topic, &drive[&topic][frame]), 1);
        }
        assert!(session.next(OUTPUT) == *expected, "frame {frame}");
    }
    {
        // Six images in two rows of three.
        let image = session.wait(&format!("{OUTPUT}/debug_image"), 1).remove(0);
        let image = Image::decode(&image).unwrap();
        assert_eq!((image.width, image.height), (3 * 640, 2 * 360));
        assert_eq!(image.header.frame_id, "base_link");
    }
}

#[test]
fn each_camera_has_its_state_and_a_missing_one_is_named() {
    let fixture = Fixture::new();
    let session = open(&fixture, &["rig.gap_warn_s:=60.0", "rig.gap_error_s:=61.0"]);
    let drive = by_topic(&fixture);
    send_transforms(&session, &drive);
    await_states(&session, ["no_camera_info"; 6]);
    for camera in 0..5 {
        let topic = format!("/camera_{camera}/camera_info");
        session.graph.send(&topic, &drive[&topic][0]);
    }
    let none = "no_message";
    await_states(&session, [none, none, none, none, none, "no_camera_info"]);
    let topic = "/camera_5/camera_info";
    session.graph.send(topic, &drive[topic][0]);
    for frame in [0, 1] {
        // Camera 3 misses the first frame.
        for camera in (0..6).filter(|camera| frame == 1 || *camera != 3) {
            let topic = format!("/camera_{camera}/image");
            session.graph.send(&topic, &drive[&topic][frame]);
        }
    }
    // Only the second frame comes out.
    session.next(OUTPUT);
    let image = "/camera_2/image";
    // An image that comes twice is refused.
    session.graph.send(image, &drive[image][1]);
    await_states(&session, ["ok", "ok", "refused", "ok", "ok", "ok"]);
}
