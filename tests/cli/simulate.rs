//! `det_post simulate` as its users see it: the recording is the same every
//! time, says when and where everything was measured, and other programs read
//! it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common::require;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use det_post_ros::bag::BagReader;
use det_post_ros::messages::{CameraInfo, Clock, CompressedImage, Image, PointCloud2, TfMessage};
use det_post_ros::tf::{TfBuffer, TfLimits, isometry};
use det_post_ros::truth::{decode_2d, decode_3d};
use det_post_sim::{Class, Drive, Options, START, Scan, TRUTH_RANGE_M};
use det_post_types::{Evidence, Stamp};
use require::{Need, skip};

fn simulate(out: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_det_post"))
        .args(["simulate", "--seed", "9003", "--out"])
        .arg(out)
        .args(arguments)
        .output()
        .unwrap()
}

#[track_caller]
fn simulated(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let bag = folder.join(name);
    let output = simulate(&bag, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), bag.to_str().unwrap());
    bag
}

/// Every message of a recording, by its topic, with its log time.
fn messages(bag: &Path) -> BTreeMap<String, Vec<(Stamp, Vec<u8>)>> {
    let mut reader = BagReader::open(bag).unwrap();
    let topics = reader.topics().to_vec();
    let mut messages: BTreeMap<String, Vec<(Stamp, Vec<u8>)>> = BTreeMap::new();
    let mut last = START;
    while let Some(message) = reader.next_message().unwrap() {
        assert!(message.log_time >= last);
        last = message.log_time;
        let of_topic = messages.entry(topics[message.topic].name.clone()).or_default();
        of_topic.push((message.log_time, message.data.to_vec()));
    }
    messages
}

const SHORT: [&str; 4] = ["--seconds", "0.3", "--points", "32000"];

#[test]
fn the_same_seed_writes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |name: &str, mcap: &str| {
        let bag = simulated(folder.path(), name, &[&SHORT[..], &["--compressed"]].concat());
        (std::fs::read(bag.join(mcap)).unwrap(), std::fs::read(bag.join("metadata.yaml")).unwrap())
    };
    let first = bytes("drive", "drive_0.mcap");
    // The second replaces the first.
    let second = bytes("drive", "drive_0.mcap");
    assert!(first == second, "two runs differ");
    assert!(first.0.len() > 500_000, "{} bytes", first.0.len());
}

#[test]
fn the_recording_says_when_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [&SHORT[..], &["--cameras", "2", "--lidars", "2"]].concat();
    let messages = messages(&simulated(folder.path(), "drive", &arguments));
    let nanos = |stamp: Stamp| stamp.nanos() - START.nanos();
    let mut tf = TfBuffer::new(TfLimits::default());
    for (topic, is_static) in [("/tf_static", true), ("/tf", false)] {
        for (_, data) in &messages[topic] {
            for transform in TfMessage::decode(data).unwrap().transforms {
                let transform = transform.unwrap();
                let at = isometry(transform.translation, transform.rotation).unwrap();
                let (parent, child) = (transform.header.frame_id, transform.child_frame_id);
                tf.insert(parent, child, transform.header.stamp, at, is_static).unwrap();
            }
        }
    }
    for (log_time, data) in &messages["/clock"] {
        assert_eq!(Clock::decode(data).unwrap().clock, *log_time);
    }
    for sensor in ["lidar_0", "lidar_1"] {
        let clouds = &messages[&format!("/{sensor}/points")];
        assert_eq!(clouds.len(), 3);
        for (i, (log_time, data)) in clouds.iter().enumerate() {
            let cloud = PointCloud2::decode(data).unwrap();
            assert_eq!(cloud.header.frame_id, sensor);
            let stamp = cloud.header.stamp;
            assert_eq!(nanos(stamp), 50_000_000 + 100_000_000 * i as i64);
            assert_eq!(nanos(*log_time) - nanos(stamp), 50_000_000);
            assert!(cloud.view().unwrap().num_points() > 20_000);
            assert!(tf.lookup("map", sensor, stamp).is_ok());
        }
    }
    for sensor in ["camera_0", "camera_1"] {
        let images = &messages[&format!("/{sensor}/image")];
        let infos = &messages[&format!("/{sensor}/camera_info")];
        assert_eq!((images.len(), infos.len()), (3, 3));
        for ((log_time, data), (_, info)) in images.iter().zip(infos) {
            let image = Image::decode(data).unwrap();
            let size = image.view().unwrap().size();
            assert_eq!((size.width, size.height), (1280, 720));
            assert_eq!(image.header.stamp, *log_time);
            assert_eq!(CameraInfo::decode(info).unwrap().header, image.header);
            assert!(tf.lookup("map", image.header.frame_id, *log_time).is_ok());
        }
    }
}

#[test]
fn the_truth_of_the_recording_is_that_of_the_drive() {
    let folder = tempfile::tempdir().unwrap();
    let messages = messages(&simulated(folder.path(), "drive", &SHORT));
    let options = Options { num_points: 32_000, ..Options::default() };
    let drive = Drive::new(9003, &options).unwrap();
    let mut scan = Scan::default();
    let pairs = messages["/truth/lidar_0"].iter().zip(&messages["/truth/lidar_0/attributes"]);
    let mut num_objects = 0;
    for (i, ((_, detections), (_, attributes))) in pairs.enumerate() {
        let (header, mut found) = decode_3d(detections, attributes).unwrap();
        drive.cloud(0, i as u64, &mut scan);
        assert_eq!(header.stamp, drive.rig().scan_stamp(i as u64));
        assert_eq!(found.len(), scan.truth.len());
        for (found, expected) in found.iter_mut().zip(&scan.truth) {
            // The angle went through a quaternion.
            assert!((found.bbox.yaw_rad - expected.bbox.yaw_rad).sin().abs() < 1e-6);
            found.bbox.yaw_rad = expected.bbox.yaw_rad;
            assert_eq!(found, expected);
        }
        num_objects += found.len();
    }
    assert!(num_objects > 60, "{num_objects}");

    let pairs = messages["/truth/camera_0"].iter().zip(&messages["/truth/camera_0/attributes"]);
    for ((log_time, detections), (_, attributes)) in pairs {
        let (header, found) = decode_2d(detections, attributes).unwrap();
        assert_eq!((header.stamp, header.frame_id), (*log_time, "camera_0_optical_frame"));
        assert!(!found.is_empty());
        for object in found {
            assert!(Class::ALL.iter().any(|class| class.name() == object.class_name));
            let b = object.bbox.bounds();
            assert!(b.x1 >= 0.0 && b.x2 <= 1280.0 && b.y1 >= 0.0 && b.y2 <= 720.0 && b.x1 < b.x2);
        }
    }
}

#[test]
fn compressed_images_come_at_their_rate() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--seconds", "0.2", "--points", "1024", "--compressed", "--camera-rate", "30"];
    let messages = messages(&simulated(folder.path(), "drive", &arguments));
    assert!(!messages.contains_key("/camera_0/image"));
    let images = &messages["/camera_0/image/compressed"];
    assert_eq!(images.len(), 6);
    for pair in images.windows(2) {
        let [first, second] = [0, 1].map(|i: usize| CompressedImage::decode(&pair[i].1).unwrap());
        assert!((second.header.stamp.seconds_since(first.header.stamp) - 1.0 / 30.0).abs() < 1e-8);
        assert!(first.view().is_ok() && first.data.len() > 20_000);
    }
}

#[test]
fn wrong_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("drive");
    for (arguments, word) in [
        (&["--seconds", "0"][..], "found 0"),
        (&["--seconds", "nan"], "found NaN"),
        (&["--lidars", "9"], "at most 8"),
        (&["--cameras", "9"], "at most 8"),
        (&["--points", "10"], "1024"),
        (&["--actors", "2001"], "at most 2000"),
        (&["--image-size", "1001x720"], "multiples of 8"),
        (&["--camera-rate", "1000"], "1 to 60"),
    ] {
        let output = simulate(&out, arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(word), "{arguments:?}: {text}");
        assert!(!out.exists());
    }
}

#[test]
fn peers_read_the_recording() {
    let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
        skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, more) in [("raw", &[][..]), ("jpeg", &["--compressed"])] {
        let arguments = [&["--seconds", "0.5"][..], more].concat();
        let bag = simulated(folder.path(), name, &arguments);
        let output = Command::new(&python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/check_simulation.py"))
            .arg(bag)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{name}: {text}");
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn several_cameras_share_a_truth_around_the_vehicle() {
    let folder = tempfile::tempdir().unwrap();
    let size = ["--cameras", "3", "--lidars", "0", "--image-size", "320x184"];
    let bag = simulated(folder.path(), "rig", &[&["--seconds", "0.2"][..], &size].concat());
    let messages = messages(&bag);
    let truth = |name: &str, at: usize| {
        let topic = format!("/truth/{name}");
        [&topic, &format!("{topic}/attributes")].map(|topic| messages[topic][at].1.clone())
    };
    let options = Options { num_cameras: 3, num_lidars: 0, ..Options::default() };
    let drive = Drive::new(9003, &options).unwrap();
    let arrays = &messages["/truth/surround"];
    assert_eq!(arrays.len(), 2);
    let mut num_seen = 0;
    for (at, (log_time, _)) in arrays.iter().enumerate() {
        let [array, attributes] = truth("surround", at);
        let (header, found) = decode_3d(&array, &attributes).unwrap();
        let stamp = drive.rig().image_stamp(at as u64);
        assert_eq!((header.frame_id, header.stamp), ("base_link", stamp));
        assert_eq!(*log_time, stamp);
        // Of each object the image that shows it best.
        let mut best: BTreeMap<u32, (f32, u32)> = BTreeMap::new();
        for camera in 0..3 {
            let [array, attributes] = truth(&format!("camera_{camera}"), at);
            for object in decode_2d(&array, &attributes).unwrap().1 {
                let best = best.entry(object.track_id).or_default();
                *best = (best.0.max(object.visibility), best.1.max(object.num_pixels));
            }
        }
        let ego = drive.ego(stamp);
        let (sin, cos) = ego.yaw_rad.sin_cos();
        let objects = drive.objects(stamp);
        for object in &found {
            let (visibility, num_pixels) = best.get(&object.track_id).copied().unwrap_or_default();
            assert_eq!(object.evidence, Evidence::Pixels(num_pixels));
            assert_eq!(object.visibility, visibility);
            num_seen += usize::from(num_pixels > 0);
            let expected = objects.iter().find(|o| o.track_id == object.track_id).unwrap();
            let [x, y, _] = object.bbox.center.map(f64::from);
            assert!(x.hypot(y) <= TRUTH_RANGE_M);
            let in_map = [cos * x - sin * y, sin * x + cos * y];
            for (axis, at) in in_map.into_iter().enumerate() {
                let error = at + ego.position_m[axis] - f64::from(expected.bbox.center[axis]);
                assert!(error.abs() < 1e-4, "{error}");
            }
        }
        let ids: Vec<u32> = found.iter().map(|object| object.track_id).collect();
        assert!(ids.is_sorted() && ids.len() > 20, "{ids:?}");
    }
    assert!(num_seen > 10, "{num_seen}");
    let image = Image::decode(&messages["/camera_2/image"][0].1).unwrap();
    assert_eq!((image.width, image.height), (320, 184));
    let one = simulated(folder.path(), "one", &["--seconds", "0.1", "--lidars", "0"]);
    let topics = BagReader::open(&one).unwrap().topics().to_vec();
    assert!(topics.iter().all(|topic| !topic.name.contains("surround")));
    let wrong = simulate(&folder.path().join("wrong"), &["--image-size", "640"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("a size is written 640x360"));
}
