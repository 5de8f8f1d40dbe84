//! Four LiDARs in a live graph: the bytes of a replay of their merged cloud, and what diagnostics
//! say of a sensor that stops and starts again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use det_post::node::Change;
use det_post_ros::bag::BagReader;
use det_post_ros::{NodeName, Remaps};

use crate::common::session::{PATIENCE, Session, messages};
use crate::common::several_lidars::{Fixture, NUM_FRAMES, NUM_LIDARS, OUTPUT, TWIST, topic};
use crate::diagnostics::decode;

fn open(fixture: &Fixture, overrides: &[&str]) -> Session {
    let node = NodeName::new("", "det_post").unwrap();
    let file = fixture.path("several.yaml");
    let session = Session::open_file(node, Remaps::default(), &file, overrides);
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();
    session
}

/// Sends the transforms of the drive, and returns its messages by topic.
fn start(fixture: &Fixture, session: &Session) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut drive = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for (topic, _, data) in messages(&fixture.drive()) {
        drive.entry(topic).or_default().push(data);
    }
    for topic in ["/tf_static", "/tf"] {
        for data in &drive[topic] {
            session.graph.send(topic, data);
        }
    }
    drive
}

#[test]
fn live_frames_have_the_bytes_of_a_replay_of_the_merged_cloud() {
    let fixture = Fixture::new(false);
    let sweeps = ["densification.num_past_sweeps:=1"];
    fixture.replay(&fixture.drive(), "one", "out", &sweeps).expect_code(0);
    let mut reader = BagReader::open(&fixture.path("out").join("detections")).unwrap();
    reader.select(&[OUTPUT]);
    let mut expected = Vec::new();
    while let Some(message) = reader.next_message().unwrap() {
        expected.push(message.data.to_vec());
    }
    assert_eq!(expected.len(), NUM_FRAMES);
    let overrides = ["lidar.densification.num_past_sweeps:=1", "lidar.sync.deadline_s:=10.0"];
    let session = open(&fixture, &overrides);
    let drive = start(&fixture, &session);
    for (frame, expected) in expected.iter().enumerate() {
        for lidar in 0..NUM_LIDARS {
            let topic = topic(lidar);
            assert_eq!(session.graph.send(&topic, &drive[&topic][frame]), 1);
        }
        assert!(session.next(OUTPUT) == *expected, "frame {frame}");
    }
}

#[test]
fn live_velocities_move_points_as_in_a_replay() {
    let fixture = Fixture::new(true);
    let bag = fixture.with_motion("motion");
    let options = ["deskew.enabled:=true", "densification.motion_topic:=/vehicle/twist"];
    let run = fixture.replay(&bag, "several", "out", &options);
    let expected = run.expect_code(0).lines();
    let options = options.map(|of| format!("lidar.{of}"));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let session = open(&fixture, &[&options[..], &["lidar.sync.deadline_s:=10.0"]].concat());
    let mut drive = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for (topic, _, data) in messages(&bag) {
        drive.entry(topic).or_default().push(data);
    }
    for topic in ["/tf_static", TWIST] {
        for data in &drive[topic] {
            assert_eq!(session.graph.send(topic, data), 1, "{topic}");
        }
    }
    let mut reader = BagReader::open(&fixture.path("out").join("detections")).unwrap();
    reader.select(&[OUTPUT]);
    let clouds = [0, 1, 2, 3].map(|lidar| &drive[&topic(lidar)]);
    for frame in 0..expected.len() {
        for (lidar, clouds) in clouds.iter().enumerate() {
            session.graph.send(&topic(lidar), &clouds[frame]);
        }
        let expected = reader.next_message().unwrap().unwrap().data.to_vec();
        assert!(session.next(OUTPUT) == expected, "frame {frame}");
    }
}

/// Waits for diagnostics of an input with this text.
#[track_caller]
fn await_message(session: &Session, input: usize, part: &str) {
    let (start, mut seen) = (Instant::now(), Vec::new());
    let name = format!("det_post: lidar: input {input}");
    while !seen.iter().any(|message: &String| message.contains(part)) {
        assert!(start.elapsed() < PATIENCE, "{part}: {seen:?}");
        std::thread::sleep(Duration::from_millis(20));
        let diagnostics = session.graph.take("/diagnostics");
        let of_input = diagnostics.iter().filter_map(|cdr| decode(cdr).remove(&name));
        seen.extend(of_input.map(|status| status.message));
    }
}

#[test]
fn a_sensor_that_stops_is_reported_and_comes_back() {
    let fixture = Fixture::new(false);
    let quiet = ["lidar.gap_warn_s:=60.0", "lidar.gap_error_s:=61.0", "lidar.sync.deadline_s:=0.2"];
    let session = open(&fixture, &quiet);
    let drive = start(&fixture, &session);
    let send = |frame: usize, without: Option<usize>| {
        for lidar in (0..NUM_LIDARS).filter(|lidar| Some(*lidar) != without) {
            let topic = topic(lidar);
            session.graph.send(&topic, &drive[&topic][frame]);
        }
        session.next(OUTPUT)
    };
    send(0, None);
    send(1, Some(2));
    await_message(&session, 2, "1 frames processed without it");
    // Whole again: the same bytes as if nothing had happened.
    let again = send(2, None);
    let other = open(&fixture, &quiet);
    start(&fixture, &other);
    for lidar in 0..NUM_LIDARS {
        let topic = topic(lidar);
        other.graph.send(&topic, &drive[&topic][2]);
    }
    assert!(other.next(OUTPUT) == again);
    await_message(&session, 2, "Hz");
}
