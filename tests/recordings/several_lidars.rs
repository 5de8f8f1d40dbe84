//! Clouds of four simulated LiDARs in one channel: the bytes of their merged cloud, and what a
//! sensor costs that is cut, late, without a mount or seen by the vehicle.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::counting_pillars;
use crate::common::replay::Run;
use crate::common::several_lidars::{
    Becomes, Fixture, NUM_FRAMES, NUM_LIDARS, ODOMETRY, TWIST, topic,
};

fn channel(run: &Run) -> Value {
    run.report()["channels"]["lidar"].clone()
}

fn truncated(run: &Run, name: &str) -> u64 {
    channel(run)["truncated"][name].as_u64().unwrap_or(0)
}

/// The points of all inputs that became `what`.
fn points(run: &Run, what: &str) -> u64 {
    let channel = channel(run);
    let inputs = channel["inputs"].as_array().unwrap().iter();
    inputs.map(|input| input["points"][what].as_u64().unwrap()).sum()
}

#[track_caller]
fn check_equal(several: &Run, one: &Run) {
    several.expect_code(0);
    one.expect_code(0);
    let (found, expected) = (several.lines(), one.lines());
    assert_eq!(found.len(), NUM_FRAMES);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found["frame_id"], "base_link");
        assert!(expected["detections_3d"].as_array().unwrap().len() > 100);
        assert_eq!(found, expected);
    }
    for name in ["points_not_finite", "points_out_of_range", "points_over_capacity"] {
        assert_eq!(truncated(several, name), truncated(one, name), "{name}");
    }
}

#[test]
fn four_clouds_have_the_bytes_of_the_merged_one() {
    let fixture = Fixture::new(false);
    let drive = fixture.drive();
    for (name, overrides) in [
        ("plain", &[][..]),
        ("sweeps", &["densification.num_past_sweeps:=2"][..]),
        ("isolated", &["isolate:=true", "densification.num_past_sweeps:=1"]),
    ] {
        let one = fixture.replay(&drive, "one", &format!("{name}_one"), overrides);
        let several = fixture.replay(&drive, "several", &format!("{name}_several"), overrides);
        check_equal(&several, &one);
        assert_eq!(several.bytes("detections.jsonl"), one.bytes("detections.jsonl"), "{name}");
        // Each LiDAR has its account.
        let channel = channel(&several);
        let inputs = channel["inputs"].as_array().unwrap();
        assert_eq!(inputs.len(), NUM_LIDARS);
        for input in inputs {
            assert_eq!((&input["received"], &input["missing"]), (&6.into(), &0.into()), "{input}");
            assert!(input["points"]["used"].as_u64().unwrap() > 1000, "{input}");
        }
        // With past sweeps the range is that of all points together.
        if name == "plain" {
            let num = truncated(&several, "points_out_of_range");
            assert_eq!(points(&several, "out_of_range"), num);
            assert!(num > 0);
        }
    }
}

#[test]
fn points_of_the_vehicle_are_cropped_and_counted() {
    let fixture = Fixture::new(false);
    let crop = ["crop_boxes:=[-8.0, -6.0, -1.0, 9.0, 6.0, 3.0]"];
    let one = fixture.replay(&fixture.drive(), "one", "one", &crop);
    let several = fixture.replay(&fixture.drive(), "several", "several", &crop);
    check_equal(&several, &one);
    let num_cropped = truncated(&several, "points_cropped");
    assert!(num_cropped > 100, "{num_cropped}");
    assert_eq!(num_cropped, truncated(&one, "points_cropped"));
    assert_eq!(num_cropped, points(&several, "cropped"));
    // A box for each LiDAR: all but the second keep their points.
    let far = "9.0, 9.0, 90.0, 9.5, 9.5, 91.0";
    let boxes = format!("crop_boxes:=[{far}, -90.0, -90.0, -9.0, 90.0, 90.0, 9.0, {far}, {far}]");
    let second = fixture.replay(&fixture.drive(), "several", "second", &[&boxes]);
    let inputs = channel(second.expect_code(0))["inputs"].clone();
    for (index, input) in inputs.as_array().unwrap().iter().enumerate() {
        let [used, cropped] =
            ["used", "cropped"].map(|what| input["points"][what].as_u64().unwrap());
        assert_eq!((used == 0, cropped == 0), (index == 1, index != 1), "{input}");
    }
}

#[test]
fn a_sensor_that_is_cut_or_late_is_reported_and_comes_back() {
    let fixture = Fixture::new(false);
    let (cut, late) = (topic(1), topic(2));
    // The second LiDAR lacks two scans; a scan of the third comes after the deadline.
    let bag = fixture.rewrite("damaged", |topic, number| match number {
        2 | 3 if topic == cut => Becomes::Nothing,
        2 if topic == late => Becomes::Late(80_000_000),
        _ => Becomes::Same,
    });
    let whole = fixture.replay(&fixture.drive(), "several", "whole", &[]);
    let run = fixture.replay(&bag, "several", "out", &[]);
    let (lines, expected) = (run.expect_code(0).lines(), whole.expect_code(0).lines());
    assert_eq!(lines.len(), NUM_FRAMES);
    for (frame, (line, expected)) in lines.iter().zip(&expected).enumerate() {
        let is_whole = line["detections_3d"] == expected["detections_3d"];
        assert_eq!(is_whole, ![2, 3].contains(&frame), "frame {frame}");
    }
    assert_eq!(truncated(&run, "inputs_missing"), 3);
    let inputs = channel(&run)["inputs"].clone();
    let count = |what| [0, 1, 2, 3].map(|lidar| inputs[lidar][what].as_u64().unwrap());
    assert_eq!(count("missing"), [0, 2, 1, 0]);
    assert_eq!(count("unused"), [0, 0, 1, 0]);
    assert_eq!(count("received"), [6, 4, 6, 6]);
    // Where all are needed, these frames are dropped.
    let all = fixture.replay(&bag, "several", "all", &["sync.min_lidars:=4"]);
    assert_eq!(all.expect_code(0).lines().len(), NUM_FRAMES - 2);
    let dropped = channel(&all)["dropped"]["incomplete_views"].clone();
    assert_eq!(dropped["count"], 2);
    let first = dropped["first"].as_str().unwrap();
    assert!(first.contains(&format!("missing: {cut}, {late}")), "{first}");
}

#[test]
fn without_a_mount_frames_are_dropped_and_without_motion_they_are_degraded() {
    let fixture = Fixture::new(false);
    let without = |lost: &'static str| {
        fixture.rewrite(lost.trim_start_matches('/'), move |topic, _| match topic == lost {
            true => Becomes::Nothing,
            false => Becomes::Same,
        })
    };
    let run = fixture.replay(&without("/tf_static"), "several", "no_mounts", &[]);
    run.expect_code(1);
    let dropped = channel(&run)["dropped"]["missing_transform"].clone();
    assert_eq!(dropped["count"], NUM_FRAMES);
    let first = dropped["first"].as_str().unwrap();
    assert!(first.contains("input 0 (lidar_0)") && first.contains("base_link"), "{first}");
    let sweeps = ["densification.num_past_sweeps:=2"];
    let run = fixture.replay(&without("/tf"), "several", "no_motion", &sweeps);
    let degraded = channel(&run)["degraded"]["missing_transform"].clone();
    assert_eq!(degraded["count"], NUM_FRAMES, "{degraded}");
    let plain = fixture.replay(&fixture.drive(), "several", "plain", &[]);
    assert_eq!(run.expect_code(0).lines(), plain.expect_code(0).lines());
}

#[test]
fn moving_scans_are_deskewed_where_points_have_times() {
    let fixture = Fixture::new(true);
    let deskew = ["deskew.enabled:=true"];
    let run = fixture.replay(&fixture.drive(), "several", "deskewed", &deskew);
    assert_eq!(run.expect_code(0).lines().len(), NUM_FRAMES);
    assert_eq!(channel(&run)["degraded"], serde_json::json!({}));
    assert_eq!(truncated(&run, "points_without_time"), 0);
    let skewed = fixture.replay(&fixture.drive(), "several", "skewed", &[]);
    assert_ne!(run.lines(), skewed.expect_code(0).lines());
    // Equal bytes in a separate process.
    let isolated = ["deskew.enabled:=true", "isolate:=true"];
    let isolated = fixture.replay(&fixture.drive(), "several", "isolated", &isolated);
    assert_eq!(isolated.expect_code(0).lines(), run.lines());
    // A field that is not there: every point is counted and stays where it is.
    let missing = ["deskew.enabled:=true", "deskew.time_field:=firing"];
    let without = fixture.replay(&fixture.drive(), "several", "without", &missing);
    assert_eq!(without.expect_code(0).lines(), skewed.lines());
    let num = truncated(&without, "points_without_time");
    assert!(num > 10_000 && num == points(&without, "without_time"), "{num}");
}

/// The means of the points of pillars, a detection each, by frame and pillar.
fn means(run: &Run) -> BTreeMap<(usize, i64, i64), [f64; 2]> {
    let lines = run.expect_code(0).lines();
    let means = lines.iter().enumerate().flat_map(|(frame, line)| {
        let detections = line["detections_3d"].as_array().unwrap().iter();
        let means = detections.map(move |one| {
            let mean = [0, 1].map(|axis| one["center"][axis].as_f64().unwrap());
            let pillar = [0, 1].map(|axis| {
                let (from, size) = (counting_pillars::MIN[axis], counting_pillars::SIZE[axis]);
                ((mean[axis] - f64::from(from)) / f64::from(size)).floor() as i64
            });
            ((frame, pillar[0], pillar[1]), mean)
        });
        means.collect::<Vec<_>>()
    });
    means.collect()
}

/// Of the pillars of `expected`, those whose mean `found` has within 2 mm, in per mille.
fn equal_pillars(found: &Run, expected: &Run) -> usize {
    let [found, expected] = [found, expected].map(means);
    let is_equal = |(pillar, mean): &(&_, &[f64; 2])| {
        let other = found.get(pillar).copied().unwrap_or([f64::NAN; 2]);
        (mean[0] - other[0]).hypot(mean[1] - other[1]) < 0.002
    };
    1000 * expected.iter().filter(is_equal).count() / expected.len()
}

#[test]
fn odometry_and_velocities_stand_in_for_transforms() {
    let fixture = Fixture::new(true);
    let bag = fixture.with_motion("motion");
    let options = ["deskew.enabled:=true", "densification.num_past_sweeps:=2"];
    let replayed = |bag: &std::path::Path, out: &str, more: &[String]| {
        let all: Vec<&str> = options.into_iter().chain(more.iter().map(String::as_str)).collect();
        fixture.replay(bag, "several", out, &all)
    };
    let motion = |topic: &str, kind: &str| {
        [
            format!("densification.motion_topic:={topic}"),
            format!("densification.motion_type:={kind}"),
        ]
    };
    let expected = replayed(&fixture.drive(), "transforms", &[]);
    let odometry = replayed(&bag, "odometry", &motion(ODOMETRY, "odometry"));
    assert_eq!(odometry.expect_code(0).lines(), expected.lines());
    assert_eq!(channel(&odometry)["degraded"], serde_json::json!({}));

    let twist = replayed(&bag, "twist", &motion(TWIST, "twist_with_covariance"));
    assert_eq!(channel(&twist)["degraded"], serde_json::json!({}));
    let without = replayed(&bag, "without", &[]);
    assert_eq!(channel(&without)["degraded"]["missing_transform"]["count"], NUM_FRAMES);
    let [of_twist, of_none] = [&twist, &without].map(|run| equal_pillars(run, &expected));
    assert!(of_twist > 980 && of_none < 900, "{of_twist} with velocities, {of_none} without");

    let wrong = replayed(&bag, "wrong", &motion(TWIST, "twist"));
    let message = "its messages are geometry_msgs/msg/TwistWithCovarianceStamped; set densification.motion_type";
    assert!(wrong.stderr.contains(message), "{}", wrong.stderr);
    let elsewhere = replayed(&bag, "elsewhere", &motion("/none", "odometry"));
    let message = "set densification.motion_topic to one of /odom, /vehicle/twist";
    assert!(elsewhere.stderr.contains(message), "{}", elsewhere.stderr);
}
