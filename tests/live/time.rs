//! Stamps, clocks and transforms.

use std::time::{Duration, Instant};

use det_post::node::Change;
use det_post_ros::cdr::Writer;
use det_post_ros::messages::{
    Detection3D, Detection3DArray, PointCloud2, TfMessage, TransformStamped,
};
use det_post_ros::{NodeName, ParameterValue, Remaps};
use det_post_types::{Header, PointFields, Stamp};

use super::counting_pillars;
use super::diagnostics::{Status, await_status};
use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::session::{CAMERA_OUT, LIDAR_OUT, Session, cloud, image_message, stamp_of};

const FRAMES: &str = "det_post: camera: frames";
const LIDAR_FRAMES: &str = "det_post: lidar: frames";

/// Past sweeps whose poses are not waited for.
const PAST_SWEEPS: [&str; 3] = [
    "diagnostics_period_s:=0.3",
    "lidar.densification.num_past_sweeps:=2",
    "lidar.densification.transform_wait_s:=0.05",
];

fn clock(stamp: Stamp) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    let (sec, nanosec) = stamp.to_ros();
    writer.i32(sec);
    writer.u32(nanosec);
    writer.finish("clock").unwrap();
    bytes
}

fn pose(seconds: i32) -> Vec<u8> {
    let transform = TransformStamped {
        header: Header { stamp: Stamp::from_ros(seconds, 0), frame_id: "map" },
        child_frame_id: "base_link",
        translation: [f64::from(seconds), 0.0, 0.0],
        rotation: [0.0, 0.0, 0.0, 1.0],
    };
    let mut bytes = Vec::new();
    TfMessage::encode(&[transform], &mut bytes).unwrap();
    bytes
}

#[test]
fn frames_of_every_stamp_are_served_and_counted() {
    let session = Session::active(&["diagnostics_period_s:=0.3"]);
    for (second, nanos) in [(10, 0), (10, 0), (9, 600_000_000), (11, 0), (2, 0), (3, 0)] {
        let stamp = Stamp::from_ros(second, nanos);
        let cdr = session.send_for(IMAGE_TOPIC, &image_message(stamp), CAMERA_OUT);
        assert_eq!(stamp_of(&cdr), stamp);
    }
    let frames =
        await_status(&session, FRAMES, |status| status.values.contains_key("stamps_restart"));
    let number = |key: &str| frames.values.get(key).map_or("0", String::as_str);
    println!("{:?}", frames.values);
    assert_eq!(number("stamps_restart"), "1");
}

#[test]
fn frames_that_are_too_old_are_dropped_by_the_time_of_clock() {
    let session = Session::active(&["use_sim_time:=true", "camera.max_age_s:=2.0"]);
    let send = |second| session.graph.send(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0)));
    // Without a clock no age is known.
    let node = await_status(&session, "det_post: node", |status| status.message.contains("/clock"));
    assert_eq!(node.level, 1);
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(100, 0)), CAMERA_OUT);
    session.graph.send("/clock", &clock(Stamp::from_ros(110, 0)));
    send(107);
    let dropped = await_status(&session, FRAMES, |status| {
        status.values.get("dropped.too_old").is_some_and(|count| count == "1")
    });
    assert!(dropped.message.contains("exceeds max_age_s = 2.000 s"), "{dropped:?}");
    assert!(session.graph.take(CAMERA_OUT).is_empty());
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(109, 0)), CAMERA_OUT);
    // The future is served, and said.
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(150, 0)), CAMERA_OUT);
    await_status(&session, FRAMES, |status| status.message.contains("in the future"));
    // The loop of a recording: time and stamps go back together.
    session.graph.send("/clock", &clock(Stamp::from_ros(100, 0)));
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(100, 0)), CAMERA_OUT);
    let went_back = |status: &Status| status.message == "/clock went back, 1 times";
    assert_eq!(await_status(&session, "det_post: node", went_back).level, 1);
    let node = await_status(&session, "det_post: node", |status| status.level == 0);
    assert_eq!(node.number("clock_jumps"), 1.0);
    session.set("camera.max_age_s", ParameterValue::Integer(0)).unwrap();
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)), CAMERA_OUT);
}

#[test]
fn sweeps_wait_for_their_pose_and_are_served_single_without() {
    let session = Session::active(&[
        "lidar.densification.num_past_sweeps:=2",
        "lidar.densification.transform_wait_s:=10.0",
    ]);
    // The pose comes after the sweep, and the middleware is not held up.
    session.graph.send("/tf", &pose(1));
    let start = Instant::now();
    session.graph.send(CLOUD_TOPIC, &cloud(Stamp::from_ros(2, 0)));
    session.graph.send("/tf", &pose(2));
    assert_eq!(stamp_of(&session.next(LIDAR_OUT)), Stamp::from_ros(2, 0));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());

    session.set("lidar.densification.transform_wait_s", ParameterValue::Number(0.05)).unwrap();
    session.send_for(CLOUD_TOPIC, &cloud(Stamp::from_ros(3, 0)), LIDAR_OUT);
    let single = await_status(&session, LIDAR_FRAMES, |status| {
        status.values.contains_key("degraded.missing_transform")
    });
    assert!(single.message.contains("frames degraded"), "{single:?}");
}

#[test]
fn stamps_of_a_camera_that_start_over_leave_transforms_single() {
    let session = Session::active(&PAST_SWEEPS);
    for second in [1, 3] {
        session.graph.send("/tf", &pose(second));
    }
    for second in [5, 0] {
        session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0)), CAMERA_OUT);
    }
    session.send_for(CLOUD_TOPIC, &cloud(Stamp::from_ros(2, 0)), LIDAR_OUT);
    let lidar = await_status(&session, LIDAR_FRAMES, |status| {
        status.values.get("frames_out").is_some_and(|num| num == "1")
    });
    assert!(!lidar.values.contains_key("degraded.missing_transform"), "{lidar:?}");
}

#[test]
fn poses_are_forgotten_when_stamps_start_over_with_a_frame_that_is_dropped() {
    let session = Session::active(&PAST_SWEEPS);
    for second in [10, 11] {
        session.graph.send("/tf", &pose(second));
        session.send_for(CLOUD_TOPIC, &cloud(Stamp::from_ros(second, 0)), LIDAR_OUT);
    }
    session.graph.send("/tf", &pose(5));
    let bytes = cloud(Stamp::from_ros(5, 0));
    let mut without_fields = PointCloud2::decode(&bytes).unwrap();
    without_fields.fields = PointFields::new();
    let mut damaged = Vec::new();
    without_fields.encode(&mut damaged).unwrap();
    session.graph.send(CLOUD_TOPIC, &damaged);
    let frames = await_status(&session, LIDAR_FRAMES, |status| {
        status.values.keys().any(|key| key.starts_with("dropped."))
    });
    assert!(!frames.values.contains_key("degraded.missing_transform"), "{frames:?}");
    // Between the pose of 5 s and those of before there is none.
    session.send_for(CLOUD_TOPIC, &cloud(Stamp::from_ros(6, 500_000_000)), LIDAR_OUT);
    await_status(&session, LIDAR_FRAMES, |status| {
        status.values.contains_key("degraded.missing_transform")
    });
}

#[test]
fn when_stamps_start_over_the_past_is_forgotten() {
    // Networks whose boxes tell of every past sweep.
    let folder = tempfile::tempdir().unwrap();
    let file = counting_pillars::write(folder.path(), counting_pillars::NUM_ROWS, true);
    let overrides =
        ["lidar.densification.num_past_sweeps:=2", "lidar.densification.max_sweep_age_s:=60.0"];
    let node = NodeName::new("", "det_post").unwrap();
    let session = Session::open_file(node, Remaps::default(), &file, &overrides);
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();
    let sweep = |second: i32| {
        session.graph.send("/tf", &pose(second));
        let cloud = cloud(Stamp::from_ros(second, 0));
        objects(&session.send_for(CLOUD_TOPIC, &cloud, "/perception/lidar/detections"))
    };
    let first = sweep(10);
    let second = sweep(11);
    assert!(second.len() > first.len(), "{} {}", first.len(), second.len());
    // As the very first: with nothing of the past in it.
    assert_eq!(sweep(5), first);
    assert_eq!(sweep(6).len(), second.len());
}

/// Class, score and centre of every detection.
fn objects(cdr: &[u8]) -> Vec<(String, f64, [f64; 3])> {
    let array = Detection3DArray::decode(cdr).unwrap();
    let object = |detection: det_post::Result<Detection3D<'_>>| {
        let detection = detection.unwrap();
        let best = detection.best.unwrap();
        (best.class_id.to_owned(), best.score, detection.center.position)
    };
    array.detections.map(object).collect()
}
