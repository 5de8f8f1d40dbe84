//! Lidar channels through the whole program. The networks are set by hand, not
//! trained: each pillar becomes one box that says what its features held, so a
//! plain grouping of the raw points foretells every detection.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common;

use std::ops::Range;
use std::path::{Path, PathBuf};

use common::counting_pillars::{self, Cloud, Expected, NUM_ROWS};
use common::replay::{Run, det_post, replay};
use common::shared_data::shared_data;
use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_ros::messages::{PointCloud2, TfMessage, TransformStamped, definition};
use det_post_types::{Header, PointField, PointFields, Stamp};
use serde_json::Value;
use tempfile::TempDir;

/// A folder with the networks, and a finished run in it.
struct Replayed {
    run: Run,
    _folder: TempDir,
}

/// Replays with `voxel_capacity` and overrides of the channel `lidar`.
fn replayed(bag: &Path, voxel_capacity: usize, overrides: &[&str]) -> Replayed {
    replayed_with(bag, voxel_capacity, false, overrides)
}

fn replayed_with(
    bag: &Path,
    voxel_capacity: usize,
    is_dynamic: bool,
    overrides: &[&str],
) -> Replayed {
    let folder = tempfile::tempdir().unwrap();
    let config = counting_pillars::write(folder.path(), voxel_capacity, is_dynamic);
    let overrides: Vec<String> = overrides.iter().map(|o| format!("lidar.{o}")).collect();
    let run = replay(bag, config.to_str().unwrap(), &overrides, &folder.path().join("out"));
    Replayed { run, _folder: folder }
}

fn channel(report: &Value) -> &Value {
    &report["channels"]["lidar"]
}

fn truncated(report: &Value, name: &str) -> usize {
    channel(report)["truncated"][name].as_u64().unwrap_or(0) as usize
}

/// One line per cloud, with its stamp and frame, and the report's frame counts.
#[track_caller]
fn check_frames(run: &Run, clouds: &[Cloud]) {
    let (lines, report) = (run.lines(), run.report());
    assert_eq!(lines.len(), clouds.len());
    for (line, cloud) in lines.iter().zip(clouds) {
        assert_eq!(line["channel"], "lidar");
        assert_eq!(line["topic"], "/perception/lidar/detections");
        assert_eq!(line["stamp_ns"], cloud.stamp_ns);
        assert_eq!(line["frame_id"], cloud.frame_id);
        assert!(line.get("detections_2d").is_none());
    }
    let channel = channel(&report);
    assert_eq!(channel["frames_in"], clouds.len());
    assert_eq!(channel["frames_out"], clouds.len());
    assert_eq!(channel["dropped"], serde_json::json!({}));
    assert_eq!(report["num_messages"], clouds.len());
    let num_detections: usize =
        lines.iter().map(|line| line["detections_3d"].as_array().unwrap().len()).sum();
    assert_eq!(channel["detections"], num_detections);
}

/// Every point of the recording is kept or counted where the grouping says.
#[track_caller]
fn check_counts(report: &Value, expected: &[Expected], num_points: usize) {
    let sum = |of: fn(&Expected) -> usize| expected.iter().map(of).sum::<usize>();
    for (name, expected) in [
        ("points_not_finite", sum(|e| e.num_not_finite)),
        ("points_out_of_range", sum(|e| e.num_out_of_range)),
        ("points_over_capacity", 0),
        ("points_over_voxel", sum(|e| e.num_over_voxel)),
        ("points_over_voxel_capacity", sum(|e| e.num_over_voxel_capacity)),
        ("voxels_over_capacity", sum(|e| e.num_voxels_over_capacity)),
        ("candidates_over_capacity", 0),
        ("candidates_over_top_k", 0),
        ("detections_over_limit", 0),
    ] {
        assert_eq!(truncated(report, name), expected, "{name}");
    }
    let lost = ["not_finite", "out_of_range", "over_capacity", "over_voxel", "over_voxel_capacity"]
        .map(|name| truncated(report, &format!("points_{name}")));
    assert_eq!(num_points, lost.iter().sum::<usize>() + sum(|e| e.num_kept));
}

fn run_recording(bag: &str, topic: &str, num_clouds: usize, voxel_capacity: usize) {
    let Some(data) = shared_data() else { return };
    let bag = data.join("bags").join(bag);
    let clouds = counting_pillars::clouds(&bag, topic);
    assert_eq!(clouds.len(), num_clouds);
    let replayed = replayed(&bag, voxel_capacity, &[&format!("input:={topic}")]);
    replayed.run.expect_code(0);
    check_frames(&replayed.run, &clouds);
    let expected: Vec<_> = clouds.iter().map(|c| Expected::of(c, voxel_capacity)).collect();
    for (line, expected) in replayed.run.lines().iter().zip(&expected) {
        assert!(expected.num_pillars() > 100, "{}", expected.num_pillars());
        expected.compare(line);
    }
    let num_points = clouds.iter().map(|cloud| cloud.points.len()).sum();
    check_counts(&replayed.run.report(), &expected, num_points);
    println!("{num_clouds} clouds, {} pillars in the first", expected[0].num_pillars());
}

#[test]
fn hand_set_pillar_networks_run_the_waymo_recording() {
    run_recording("waymo_5_db3", "/sensing/lidar/points", 4, NUM_ROWS);
}

#[test]
fn hand_set_pillar_networks_run_the_kitti_recording() {
    run_recording("kitti_000008_mcap", "/sensing/lidar/points", 10, NUM_ROWS);
}

#[test]
fn hand_set_pillar_networks_run_the_unaligned_nuscenes_recording() {
    run_recording("nuscenes_surround_mcap", "/lidar_top", 5, NUM_ROWS);
}

#[test]
fn hand_set_pillar_networks_count_what_is_over_the_voxel_capacity() {
    run_recording("waymo_5_db3", "/sensing/lidar/points", 4, 1000);
}

#[test]
fn hand_set_pillar_networks_count_what_is_over_every_other_limit() {
    let Some(data) = shared_data() else { return };
    let bag = data.join("bags/kitti_000008_mcap");
    let clouds = counting_pillars::clouds(&bag, "/sensing/lidar/points");
    let limits = [
        "point_capacity:=9000",
        "candidate_capacity:=700",
        "pre_nms_top_k:=500",
        "max_detections:=400",
    ];
    let replayed = replayed(&bag, NUM_ROWS, &limits);
    replayed.run.expect_code(0);
    check_frames(&replayed.run, &clouds);
    let report = replayed.run.report();
    let whole = Expected::of(&clouds[0], NUM_ROWS);
    let num_usable = clouds[0].points.len() - whole.num_out_of_range - whole.num_not_finite;
    // The first usable points stay.
    let inside = |p: &&[f32; 4]| Expected::new([[p[0], p[1], p[2], p[3], 0.0]], 1).num_kept == 1;
    let first = clouds[0].points.iter().filter(inside).take(9000);
    let expected = Expected::new(first.map(|&[x, y, z, i]| [x, y, z, i, 0.0]), NUM_ROWS);
    let num_pillars = expected.num_pillars();
    assert!(num_pillars > 700);
    for (name, of_frame) in [
        ("points_over_capacity", num_usable - 9000),
        ("candidates_over_capacity", num_pillars - 700),
        ("candidates_over_top_k", 200),
        ("detections_over_limit", 100),
    ] {
        assert_eq!(truncated(&report, name), 10 * of_frame, "{name}");
    }
    for line in replayed.run.lines() {
        expected.best(400).compare(&line);
    }
}

#[test]
fn hand_set_pillar_networks_give_the_same_bytes_twice_and_with_an_encoder_of_any_rows() {
    let Some(data) = shared_data() else { return };
    let bag = data.join("bags/waymo_5_db3");
    let past = ["densification.num_past_sweeps:=1"];
    let runs = [false, false, true].map(|dynamic| replayed_with(&bag, NUM_ROWS, dynamic, &past));
    for file in ["detections.jsonl", "detections/detections_0.mcap", "detections/metadata.yaml"] {
        let bytes = runs[0].run.expect_code(0).bytes(file);
        assert!(!bytes.is_empty());
        assert!(runs[1..].iter().all(|other| other.run.bytes(file) == bytes), "{file}");
    }
}

#[test]
fn clouds_are_drawn_from_above() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    write_drive(&bag, 0..NUM_SWEEPS, |_| true);
    let config = counting_pillars::write(folder.path(), NUM_ROWS, true);
    let out = folder.path().join("out");
    let [bag, config, out_text] = [&bag, &config, &out].map(|path| path.to_str().unwrap());
    let arguments = ["replay", bag, "-c", config, "--out", out_text, "--images", "2"];
    det_post(&arguments).expect_code(0);
    let images: Vec<_> = std::fs::read_dir(out.join("images")).unwrap().collect();
    assert_eq!(images.len(), 2);
    for image in images {
        let file = std::fs::File::open(image.unwrap().path()).unwrap();
        let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let [width, height] = [reader.info().width, reader.info().height];
        reader.next_frame(&mut pixels).unwrap();
        assert!(width >= 100 && height >= 100, "{width}x{height}");
        assert!(pixels.iter().any(|&value| value != pixels[0]));
    }
}

#[test]
fn a_frame_that_is_dropped_is_not_served_single() {
    let Some(data) = shared_data() else { return };
    let bag = data.join("bags/broken/no_xyz_fields");
    let past = ["densification.num_past_sweeps:=1"];
    let replayed = replayed(&bag, NUM_ROWS, &past);
    replayed.run.expect_code(0);
    let report = replayed.run.report();
    assert_eq!(channel(&report)["dropped"]["unusable_point_field"]["count"], 1);
    assert_eq!(channel(&report)["degraded"]["missing_transform"]["count"], 2);
}

#[test]
fn past_waymo_sweeps_join_with_their_time_lags() {
    let Some(data) = shared_data() else { return };
    let bag = data.join("bags/waymo_5_db3");
    let clouds = counting_pillars::clouds(&bag, "/sensing/lidar/points");
    let replayed = replayed(&bag, NUM_ROWS, &["densification.num_past_sweeps:=2"]);
    replayed.run.expect_code(0);
    check_frames(&replayed.run, &clouds);
    let report = replayed.run.report();
    assert_eq!(channel(&report)["degraded"], serde_json::json!({}));
    assert_eq!(truncated(&report, "sweeps_dropped"), 0);

    let mut expected = Vec::new();
    let mut num_points = 0;
    for (now, cloud) in clouds.iter().enumerate() {
        // The current sweep first, then the newest past one: the poses of this
        // recording are the identity.
        let sweeps = (now.saturating_sub(2)..=now).rev().map(|past| &clouds[past]);
        let points = sweeps.flat_map(|sweep| {
            let lag = (cloud.stamp_ns - sweep.stamp_ns) as f32 * 1e-9;
            sweep.points.iter().map(move |&[x, y, z, i]| [x, y, z, i, lag])
        });
        let points: Vec<_> = points.collect();
        num_points += points.len();
        expected.push(Expected::new(points, NUM_ROWS));
    }
    for (line, expected) in replayed.run.lines().iter().zip(&expected) {
        expected.compare(line);
    }
    check_counts(&report, &expected, num_points);
}

#[test]
fn without_transforms_every_sweep_is_served_single() {
    let Some(data) = shared_data() else { return };
    let bag = data.join("bags/waymo_5_db3");
    let past = "densification.num_past_sweeps:=2";
    let lost = replayed(&bag, NUM_ROWS, &[past, "densification.world_frame:=nowhere"]);
    lost.run.expect_code(0);
    let report = lost.run.report();
    let degraded = &channel(&report)["degraded"];
    assert_eq!(degraded.as_object().unwrap().len(), 1);
    assert_eq!(degraded["missing_transform"]["count"], 4);
    let first = degraded["missing_transform"]["first"].as_str().unwrap();
    assert!(first.contains("nowhere"), "{first}");
    assert_eq!(channel(&report)["frames_out"], 4);

    let single = replayed(&bag, NUM_ROWS, &[]);
    single.run.expect_code(0);
    assert_eq!(channel(&single.run.report())["degraded"], serde_json::json!({}));
    assert!(lost.run.bytes("detections.jsonl") == single.run.bytes("detections.jsonl"));
    let joined = replayed(&bag, NUM_ROWS, &[past]);
    assert!(joined.run.bytes("detections.jsonl") != single.run.bytes("detections.jsonl"));
}

const START_NS: i64 = 1_700_000_000_000_000_000;
const PERIOD_NS: i64 = 100_000_000;
const NUM_SWEEPS: usize = 6;
/// Where the lidar stands on the vehicle, turned by a quarter to the left.
const MOUNT: [f64; 3] = [1.5, 0.25, 1.75];

/// Where the vehicle stands: one metre along x and 0.3 m along y a sweep, and
/// turning, from a place far from the origin.
fn vehicle(stamp_ns: i64) -> ([f64; 2], f64) {
    let sweeps = (stamp_ns - START_NS) as f64 / PERIOD_NS as f64;
    ([700.0 + sweeps, -300.0 + 0.3 * sweeps], 0.4 + 0.05 * sweeps)
}

/// A place in the world as the lidar sees it.
fn seen(world: [f64; 3], stamp_ns: i64) -> [f64; 3] {
    let ([x, y], yaw) = vehicle(stamp_ns);
    let (sine, cosine) = yaw.sin_cos();
    let [dx, dy] = [world[0] - x, world[1] - y];
    let base = [cosine * dx + sine * dy - MOUNT[0], cosine * dy - sine * dx - MOUNT[1]];
    // The mount turns by +90 degrees: lidar x is vehicle y.
    [base[1], -base[0], world[2] - MOUNT[2]]
}

/// What stands still in the world: four posts, told apart by intensity.
fn posts() -> [[f64; 3]; 4] {
    [[712.0, -295.5, 1.0], [697.0, -291.0, 0.5], [704.0, -309.0, 2.0], [722.0, -301.0, 3.75]]
}

/// A recording of a driving lidar that sees the posts. Poses lie between the
/// sweeps, the last one after the last sweep. Sweeps that are not known stand
/// in a frame that no transform names.
fn write_drive(path: &Path, sweeps: Range<usize>, is_sweep_known: impl Fn(usize) -> bool) {
    let mut bag = BagWriter::create(path, BagCompression::None).unwrap();
    let mut topic = |name: &str, type_name: &str| {
        let text = definition(type_name).unwrap();
        bag.add_topic(name, type_name, &text, OfferedQos::default()).unwrap()
    };
    let fixed = topic("/tf_static", TfMessage::TYPE);
    let moving = topic("/tf", TfMessage::TYPE);
    let clouds = topic("/sensing/lidar/points", PointCloud2::TYPE);
    let mut bytes = Vec::new();
    let mut transform = |stamp_ns, [parent, child]: [&str; 2], translation, yaw: f64| {
        let (sine, cosine) = (yaw / 2.0).sin_cos();
        let header = Header { stamp: Stamp::from_nanos(stamp_ns), frame_id: parent };
        let rotation = [0.0, 0.0, sine, cosine];
        let transform = TransformStamped { header, child_frame_id: child, translation, rotation };
        TfMessage::encode(&[transform], &mut bytes).unwrap();
        bytes.clone()
    };
    let quarter = std::f64::consts::FRAC_PI_2;
    let mount = transform(START_NS, ["base_link", "lidar"], MOUNT, quarter);
    bag.write(fixed, Stamp::from_nanos(START_NS - PERIOD_NS), &mount).unwrap();
    for sweep in sweeps.start..=sweeps.end {
        let stamp_ns = START_NS + sweep as i64 * PERIOD_NS;
        let pose_ns = stamp_ns - PERIOD_NS / 2;
        let ([x, y], yaw) = vehicle(pose_ns);
        let pose = transform(pose_ns, ["map", "base_link"], [x, y, 0.0], yaw);
        bag.write(moving, Stamp::from_nanos(pose_ns), &pose).unwrap();
        if sweep < sweeps.end {
            let frame_id = if is_sweep_known(sweep) { "lidar" } else { "unknown" };
            let cloud = encode_posts(stamp_ns, frame_id);
            bag.write(clouds, Stamp::from_nanos(stamp_ns), &cloud).unwrap();
        }
    }
    bag.finish().unwrap();
}

fn encode_posts(stamp_ns: i64, frame_id: &str) -> Vec<u8> {
    let mut fields = PointFields::new();
    for (name, offset) in [("x", 0), ("y", 4), ("z", 8), ("intensity", 12)] {
        fields.push(PointField { name, offset, datatype: 7, count: 1 }).unwrap();
    }
    let data: Vec<u8> = posts()
        .iter()
        .enumerate()
        .flat_map(|(post, &world)| {
            let [x, y, z] = seen(world, stamp_ns);
            [x, y, z, 10.0 * (post + 1) as f64]
        })
        .flat_map(|value| (value as f32).to_le_bytes())
        .collect();
    let cloud = PointCloud2 {
        header: Header { stamp: Stamp::from_nanos(stamp_ns), frame_id },
        height: 1,
        width: 4,
        fields,
        is_bigendian: false,
        point_step: 16,
        row_step: data.len() as u32,
        data: &data,
        is_dense: true,
    };
    let mut bytes = Vec::new();
    cloud.encode(&mut bytes).unwrap();
    bytes
}

/// The box of a post in a line: centre, number of points, largest time lag.
fn post_of(line: &Value, post: usize) -> ([f64; 3], f64, f64) {
    let number = |value: &Value| value.as_f64().unwrap();
    let intensity = 1.0 + 10.0 * (post + 1) as f64;
    let of_post = |d: &&Value| (number(&d["size"][2]) - intensity).abs() < 1e-3;
    let boxes = line["detections_3d"].as_array().unwrap();
    let found: Vec<_> = boxes.iter().filter(of_post).collect();
    let [found] = found[..] else { panic!("post {post} is in {} pillars", found.len()) };
    let center = [0, 1, 2].map(|axis: usize| number(&found["center"][axis]));
    (center, number(&found["size"][1]), number(&found["size"][0]) - 1.0)
}

#[track_caller]
fn check_posts(line: &Value, now: usize, num_past: usize, max_lag_s: f64) {
    assert_eq!(line["detections_3d"].as_array().unwrap().len(), posts().len());
    for (post, &world) in posts().iter().enumerate() {
        let (center, num_points, lag) = post_of(line, post);
        let expected = seen(world, START_NS + now as i64 * PERIOD_NS);
        for axis in 0..3 {
            let difference = (center[axis] - expected[axis]).abs();
            // Yaw between two poses is interpolated on the same circle.
            assert!(difference < 2e-4, "sweep {now} post {post}: {center:?}, {expected:?}");
        }
        assert_eq!(num_points, (1 + num_past) as f64, "sweep {now} post {post}");
        assert!((lag - max_lag_s).abs() < 1e-6, "sweep {now} post {post}: {lag}");
    }
}

#[test]
fn sweeps_of_a_moving_lidar_land_where_the_world_stands_still() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    write_drive(&bag, 0..NUM_SWEEPS, |_| true);
    let replayed = replayed(&bag, NUM_ROWS, &["densification.num_past_sweeps:=2"]);
    replayed.run.expect_code(0);
    let lines = replayed.run.lines();
    assert_eq!(lines.len(), NUM_SWEEPS);
    for (now, line) in lines.iter().enumerate() {
        assert_eq!(line["frame_id"], "lidar");
        check_posts(line, now, now.min(2), 0.1 * now.min(2) as f64);
    }
    let report = replayed.run.report();
    assert_eq!(channel(&report)["degraded"], serde_json::json!({}));
    assert_eq!(channel(&report)["truncated"], serde_json::json!({}));
}

#[test]
fn a_sweep_without_a_transform_is_single_and_never_joins_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    write_drive(&bag, 0..NUM_SWEEPS, |sweep| sweep != 2);
    let replayed = replayed(&bag, NUM_ROWS, &["densification.num_past_sweeps:=2"]);
    replayed.run.expect_code(0);
    let lines = replayed.run.lines();
    assert_eq!(lines.len(), NUM_SWEEPS);
    // (past sweeps that join, age of the oldest)
    let expected = [(0, 0.0), (1, 0.1), (0, 0.0), (2, 0.3), (2, 0.3), (2, 0.2)];
    for (now, (line, (num_past, max_lag_s))) in lines.iter().zip(expected).enumerate() {
        check_posts(line, now, num_past, max_lag_s);
    }
    let report = replayed.run.report();
    assert_eq!(channel(&report)["degraded"]["missing_transform"]["count"], 1);
    assert_eq!(truncated(&report, "sweeps_dropped"), 2);
}

#[test]
fn sweeps_that_are_too_old_do_not_join() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    write_drive(&bag, 0..NUM_SWEEPS, |_| true);
    let settings = ["densification.num_past_sweeps:=2", "densification.max_sweep_age_s:=0.15"];
    let replayed = replayed(&bag, NUM_ROWS, &settings);
    replayed.run.expect_code(0);
    for (now, line) in replayed.run.lines().iter().enumerate() {
        check_posts(line, now, now.min(1), 0.1 * now.min(1) as f64);
    }
    assert_eq!(truncated(&replayed.run.report(), "sweeps_dropped"), NUM_SWEEPS - 2);
}

/// Cuts an MCAP file behind its messages and begins another chunk.
fn end_inside_a_chunk(bytes: &mut Vec<u8>) {
    // Footer: start of the summary, start of its offsets, checksum; then magic.
    let footer = bytes.len() - 8 - 20;
    let summary = u64::from_le_bytes(bytes[footer..footer + 8].try_into().unwrap());
    let data_end = 13;
    bytes.truncate(summary as usize - data_end);
    bytes.push(0x06);
    bytes.extend(1000_u64.to_le_bytes());
    bytes.extend([0; 10]);
}

#[test]
fn transforms_behind_a_damaged_file_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    std::fs::create_dir(&bag).unwrap();
    for (name, sweeps) in [("a", 0..3), ("b", 3..NUM_SWEEPS)] {
        let part = folder.path().join(name);
        write_drive(&part, sweeps, |_| true);
        let mut bytes = std::fs::read(part.join(format!("{name}_0.mcap"))).unwrap();
        if name == "a" {
            end_inside_a_chunk(&mut bytes);
        }
        std::fs::write(bag.join(format!("{name}.mcap")), &bytes).unwrap();
    }
    let replayed = replayed(&bag, NUM_ROWS, &["densification.num_past_sweeps:=2"]);
    replayed.run.expect_code(3);
    let report = replayed.run.report();
    assert_eq!(report["damage"].as_array().unwrap().len(), 1);
    assert_eq!(channel(&report)["degraded"], serde_json::json!({}));
    for (now, line) in replayed.run.lines().iter().enumerate() {
        check_posts(line, now, now.min(2), 0.1 * now.min(2) as f64);
    }
    assert_eq!(channel(&report)["frames_out"], NUM_SWEEPS);
}

/// A recording of two files: the clouds of a drive, and its transforms, compressed, each
/// `num_copies` times. Gives the file of the transforms.
fn write_drive_in_two_files(bag: &Path, num_copies: usize) -> PathBuf {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    write_drive(&whole, 0..NUM_SWEEPS, |_| true);
    std::fs::create_dir(bag).unwrap();
    let files = [(false, BagCompression::None, 1), (true, BagCompression::Zstd, num_copies)];
    let [_, transforms] = files.map(|(is_transforms, compression, num_copies)| {
        let mut reader = BagReader::open(&whole).unwrap();
        let part = folder.path().join(if is_transforms { "transforms" } else { "clouds" });
        let mut writer = BagWriter::create(&part, compression).unwrap();
        let mut topics = Vec::new();
        for topic in reader.topics() {
            let is_wanted = (topic.type_name == TfMessage::TYPE) == is_transforms;
            let text = definition(&topic.type_name).unwrap();
            let mut add =
                || writer.add_topic(&topic.name, &topic.type_name, &text, OfferedQos::default());
            topics.push(is_wanted.then(|| add().unwrap()));
        }
        while let Some(message) = reader.next_message().unwrap() {
            let Some(topic) = topics[message.topic] else { continue };
            for _ in 0..num_copies {
                writer.write(topic, message.log_time, message.data).unwrap();
            }
        }
        writer.finish().unwrap();
        let name = format!("{}_0.mcap", part.file_name().unwrap().display());
        let file = bag.join(&name);
        std::fs::rename(part.join(&name), &file).unwrap();
        file
    });
    transforms
}

/// Flips a bit in the contents of the first chunk of an MCAP file.
fn flip_a_bit_of_a_chunk(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let len = |at: usize| u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap()) as usize;
    let mut at = 8;
    while bytes[at] != 0x06 {
        at += 9 + len(at);
    }
    let middle = at + 9 + len(at) / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(path, &bytes).unwrap();
}

/// The chunks of the transforms hold no topic of a channel, so that the channels' messages are
/// all there.
#[test]
fn damage_among_transforms_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let config = counting_pillars::write(folder.path(), NUM_ROWS, true);
    let replay = |bag: &Path, more: &[&str]| {
        let out = bag.with_extension("out");
        let [bag, config, out_text] =
            [bag, &config, &out].map(|path| path.to_str().unwrap().to_owned());
        let past = "lidar.densification.num_past_sweeps:=2";
        let arguments = ["replay", &bag, "-c", &config, "-p", past, "--out", &out_text];
        Run { out, ..det_post(&[&arguments[..], more].concat()) }
    };
    let whole = folder.path().join("whole");
    write_drive_in_two_files(&whole, 1);
    let run = replay(&whole, &[]);
    run.expect_code(0);
    assert_eq!(channel(&run.report())["degraded"], serde_json::json!({}));

    let flipped = folder.path().join("flipped");
    flip_a_bit_of_a_chunk(&write_drive_in_two_files(&flipped, 1));
    let large = folder.path().join("large");
    write_drive_in_two_files(&large, 2000);
    let budget: &[&str] = &["--recording-memory-mib", "1"];
    for (bag, more, num_frames, part) in [
        (&flipped, &[][..], NUM_SWEEPS, "transforms_0.mcap at byte "),
        // Transforms are read before the slice, too.
        (&flipped, &["--from", "+0.4"], NUM_SWEEPS - 3, "transforms_0.mcap at byte "),
        (&large, budget, NUM_SWEEPS, "--recording-memory-mib"),
    ] {
        let run = replay(bag, more);
        run.expect_code(3);
        let report = run.report();
        let damage = report["damage"].as_array().unwrap();
        assert_eq!(damage.len(), 1, "{damage:?}");
        let text = damage[0].as_str().unwrap();
        assert!(text.contains(part), "{text}");
        assert!(run.stderr.contains(text), "{}", run.stderr);
        assert_eq!(report["num_messages"], num_frames);
        assert_eq!(channel(&report)["frames_out"], num_frames);
        assert_eq!(channel(&report)["degraded"]["missing_transform"]["count"], num_frames);
    }
}
