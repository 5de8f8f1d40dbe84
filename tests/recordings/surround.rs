//! Six cameras of a simulated drive through a small StreamPETR: frames, calibration, poses
//! and refusals.

use std::collections::BTreeMap;

use det_post_ros::messages::CameraInfo;
use serde_json::Value;

use crate::common::replay::Run;
use crate::common::shared_data::shared_data;
use crate::common::surround_rig::{Fixture, NUM_FRAMES, calibration_file, nuscenes_parameters};

/// Frames out, and dropped frames by reason.
pub(super) fn frames(run: &Run) -> (u64, BTreeMap<String, u64>) {
    frames_of(run, "rig")
}

/// As [`frames`], of a channel.
pub(super) fn frames_of(run: &Run, channel: &str) -> (u64, BTreeMap<String, u64>) {
    let report = run.report();
    let channel = &report["channels"][channel];
    let dropped = channel["dropped"].as_object().unwrap();
    let count = |(reason, of): (&String, &Value)| (reason.clone(), of["count"].as_u64().unwrap());
    let num_out = channel["frames_out"].as_u64().unwrap();
    // A channel that could use no frame is no success.
    run.expect_code(if num_out == 0 { 1 } else { 0 });
    (num_out, dropped.iter().map(count).collect())
}

pub(super) fn reasons(reasons: &[(&str, u64)]) -> BTreeMap<String, u64> {
    reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
}

/// The CameraInfo of the drive precedes no image of its camera: the last camera of the
/// first frame has none.
pub(super) const NUM_SERVED: u64 = NUM_FRAMES as u64 - 1;

#[test]
fn six_cameras_become_boxes_in_the_frame_of_the_vehicle() {
    let fixture = Fixture::new();
    let run = fixture.replay(&fixture.drive(), "out", &[]);
    assert_eq!(frames(&run), (NUM_SERVED, reasons(&[("uncalibrated", 1)])));
    let lines = run.lines();
    assert_eq!(lines.len() as u64, NUM_SERVED);
    for line in &lines {
        assert_eq!(line["frame_id"], "base_link", "{line}");
        assert!(!line["detections_3d"].as_array().unwrap().is_empty(), "{line}");
    }
    let report = run.report();
    let inputs = report["channels"]["rig"]["inputs"].as_array().unwrap();
    assert_eq!(inputs.len(), 6);
    for (camera, input) in inputs.iter().enumerate() {
        assert_eq!(input["received"], NUM_FRAMES as u64, "{input}");
        let [skew, age] = ["skew_ms", "age_ms"].map(|what| &input[what]);
        let [min, median, max] = ["min", "median", "max"].map(|part| skew[part].as_f64().unwrap());
        // The cameras of the drive fire at the same time, after which frames are complete.
        assert!((min, max) == (0.0, 0.0) && median == 0.0, "camera {camera}: {skew}");
        assert!(age["min"].as_f64().unwrap() >= 0.0, "camera {camera}: {age}");
    }
    // Equal bytes again, in a process of its own, and with files in place of CameraInfo.
    let again = fixture.replay(&fixture.drive(), "again", &[]);
    let isolated = fixture.replay(&fixture.drive(), "isolated", &["rig.isolate:=true"]);
    for run in [&again, &isolated] {
        assert_eq!(run.expect_code(0).lines(), lines);
    }
}

#[test]
fn calibration_and_transforms_come_from_files_where_a_recording_has_none() {
    let fixture = Fixture::new();
    let calibration = calibration_file(&fixture);
    let paths = vec![calibration.display().to_string(); 6].join(", ");
    let paths = format!("rig.calibration_paths:=[{paths}]");
    let served = fixture.replay(&fixture.drive(), "served", &[&paths]);
    // The first frame is not lost.
    assert_eq!(frames(&served), (NUM_FRAMES as u64, reasons(&[])));
    let without = fixture.rewrite("without", |topic, _, data| {
        let keeps = !topic.ends_with("camera_info") && topic != "/tf_static";
        keeps.then(|| data.to_vec())
    });
    let bare = fixture.replay(&without, "bare", &[]);
    assert_eq!(frames(&bare), (0, reasons(&[("uncalibrated", NUM_FRAMES as u64)])));
    let no_mounts = fixture.replay(&without, "no_mounts", &[&paths]);
    assert_eq!(frames(&no_mounts), (0, reasons(&[("missing_transform", NUM_FRAMES as u64)])));
    // A rig of six cameras at the origin of the vehicle, looking around.
    let mut text = "base_link:\n".to_owned();
    for camera in 0..6 {
        let yaw = f64::from(camera) * std::f64::consts::FRAC_PI_3 - std::f64::consts::FRAC_PI_2;
        text += &format!(
            "  camera_{camera}_optical_frame: {{x: 0, y: 0, z: 1.5, roll: -1.5708, pitch: 0, yaw: {yaw}}}\n"
        );
    }
    let transforms = fixture.path("rig.yaml");
    std::fs::write(&transforms, text).unwrap();
    let transforms = format!("rig.transforms_path:={}", transforms.display());
    let filed = fixture.replay(&without, "filed", &[&paths, &transforms]);
    assert_eq!(frames(&filed), (NUM_FRAMES as u64, reasons(&[])));
    // Transforms of the recording go before transforms of the file.
    let both = fixture.replay(&fixture.drive(), "both", &[&paths, &transforms]);
    assert_eq!(both.expect_code(0).lines(), served.lines());
    assert_ne!(filed.lines(), served.lines());
}

#[test]
fn frames_without_a_fitting_calibration_or_pose_are_dropped() {
    let fixture = Fixture::new();
    let all = NUM_FRAMES as u64;
    let info = |change: fn(&mut CameraInfo<'_>)| {
        move |topic: &str, _: usize, data: &[u8]| {
            if topic != "/camera_2/camera_info" {
                return Some(data.to_vec());
            }
            let mut info = CameraInfo::decode(data).unwrap();
            change(&mut info);
            let mut message = Vec::new();
            info.encode(&mut message).unwrap();
            Some(message)
        }
    };
    let first = ("uncalibrated", 1);
    for (name, bag, expected) in [
        (
            "size",
            fixture.rewrite("size_bag", info(|info| info.width = 640)),
            "calibration_mismatch",
        ),
        ("k", fixture.rewrite("k_bag", info(|info| info.k = [0.0; 9])), "uncalibrated"),
        (
            "model",
            fixture.rewrite("model_bag", info(|info| info.distortion_model = "division")),
            "unsupported_distortion",
        ),
    ] {
        let run = fixture.replay(&bag, name, &[]);
        assert_eq!(frames(&run), (0, reasons(&[(expected, all)])), "{name}");
        let report = run.report();
        let messages = report["channels"]["rig"]["dropped"].to_string();
        assert!(messages.contains("camera 2 (camera_2_optical_frame)"), "{messages}");
    }
    let no_tf =
        fixture.rewrite("no_tf_bag", |topic, _, data| (topic != "/tf").then(|| data.to_vec()));
    let run = fixture.replay(&no_tf, "no_tf", &[]);
    assert_eq!(frames(&run), (0, reasons(&[first, ("missing_transform", all - 1)])));
    // One camera without its third image.
    let gap = fixture.rewrite("gap_bag", |topic, count, data| {
        (topic != "/camera_4/image" || count != 2).then(|| data.to_vec())
    });
    let run = fixture.replay(&gap, "gap", &[]);
    assert_eq!(frames(&run), (all - 2, reasons(&[("incomplete_views", 1), first])));
    // A camera of another size, and a network for other cameras.
    let two = "rig.inputs:=[/camera_0/image, /camera_1/image]";
    let run = fixture.replay(&fixture.drive(), "two", &[two]);
    assert!(run.code != 0 && run.stderr.contains("takes 6 cameras"), "{}", run.stderr);
}

#[test]
fn a_changed_calibration_holds_from_its_frame_on() {
    let fixture = Fixture::new();
    // From the fourth CameraInfo on, another focal length.
    let zoom = |from: usize| {
        move |topic: &str, count: usize, data: &[u8]| {
            if !topic.ends_with("camera_info") || count < from {
                return Some(data.to_vec());
            }
            let mut info = CameraInfo::decode(data).unwrap();
            for matrix in [&mut info.k[..], &mut info.p[..]] {
                matrix[0] *= 1.2;
            }
            let mut message = Vec::new();
            info.encode(&mut message).unwrap();
            Some(message)
        }
    };
    // Without the memory, so that a frame depends only on its own calibration.
    let single = ["rig.memory.max_gap_s:=0.05"];
    let plain = fixture.replay(&fixture.drive(), "plain", &single).lines();
    let changed = fixture.replay(&fixture.rewrite("zoom", zoom(3)), "changed", &single).lines();
    let zoomed = fixture.replay(&fixture.rewrite("zoomed_bag", zoom(0)), "zoomed", &single).lines();
    assert_eq!([plain.len(), changed.len(), zoomed.len()], [NUM_SERVED as usize; 3]);
    // The CameraInfo number n comes after the image number n: the last frames have it all.
    assert_eq!(changed[..2], plain[..2]);
    assert_eq!(changed[3..], zoomed[3..]);
    assert_ne!(changed[3..], plain[3..]);
}

#[test]
fn compressed_cameras_without_camera_info_run_with_calibration_files() {
    let Some(data) = shared_data() else { return };
    let fixture = Fixture::new();
    let parameters = nuscenes_parameters(&fixture);
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let bag = data.join("bags/nuscenes_surround_mcap");
    let run = fixture.replay(&bag, "nuscenes", &parameters);
    assert_eq!(frames(&run), (5, reasons(&[])));
    let lines = run.lines();
    assert_eq!(lines.len(), 5);
    // The images repeat, so what changes is the memory's doing.
    assert_ne!(lines[0]["detections_3d"], lines[1]["detections_3d"]);
    let report = &run.report()["channels"]["rig"];
    assert_eq!(report["truncated"].get("memory_cleared"), None);
    // Each camera fires at its own time of the reference's period, the same in every round.
    for (camera, input) in report["inputs"].as_array().unwrap().iter().enumerate() {
        let skew = |part: &str| input["skew_ms"][part].as_f64().unwrap();
        assert!(skew("max") - skew("min") < 1e-3 && skew("max").abs() < 50.0, "{input}");
        assert!((skew("median") - skew("min")).abs() <= 0.01 * skew("min").abs() + 1e-3);
        assert_eq!(skew("max") == 0.0, camera == 0, "{input}");
    }
    // With less skew than the cameras have, no frame is whole.
    let strict = [&parameters[..], &["rig.sync.max_skew_s:=0.01"]].concat();
    let run = fixture.replay(&bag, "strict", &strict);
    assert_eq!(frames(&run), (0, reasons(&[("incomplete_views", 5)])));
}
