//! A LiDAR channel with a sparse encoder, from the message to its detections: the same
//! detections, counts and sites on both devices, whatever clouds come one after another.

use std::path::Path;

use det_post::config::{ChannelConfig, ChannelKind, Config, LidarConfig};
use det_post::detectors::voxels::{CpuDetector, CudaDetector, plan};
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post::runtime::isolated::Proxy;
use det_post_infer::Engine;
use det_post_infer::device::DeviceEngine;
use det_post_ops::device::cuda::{CudaDevice, Stream};
use det_post_types::{
    Count, Detections, DeviceChoice, FrameReport, Header, Stage, Stamp, TensorSpec, Transfer,
};
use nalgebra::Isometry3;

use crate::common::counting_voxels::{self, Point};
use crate::common::detect::{Detected, in_cloud};
use det_post_testing::check_near;
use det_post_testing::clouds::Cloud;

fn channel(folder: &Path, anchors: bool, more: &[&str]) -> ChannelConfig {
    let file = match anchors {
        false => counting_voxels::write(folder),
        true => counting_voxels::write_anchors(folder),
    };
    let more: Vec<String> = more.iter().map(|text| format!("lidar.{text}")).collect();
    Config::load(&[file], &more).unwrap().channels.remove(0)
}

fn lidar(channel: &ChannelConfig) -> &LidarConfig {
    match &channel.kind {
        ChannelKind::Lidar(config) => config,
        _ => panic!("a lidar head"),
    }
}

/// The same channel on both devices.
struct Pair {
    on_cpu: CpuDetector,
    on_gpu: CudaDetector,
    stream: Stream,
    folder: tempfile::TempDir,
}

impl Pair {
    fn new(device: &CudaDevice, anchors: bool, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let exact = [&["encoder.precision:=f32"], more].concat();
        let channel = channel(folder.path(), anchors, &exact);
        Self::of(device, &channel, folder)
    }

    fn of(device: &CudaDevice, channel: &ChannelConfig, folder: tempfile::TempDir) -> Self {
        let config = lidar(channel);
        let stream = device.stream().unwrap();
        let engine = || det_post_infer::load(&config.model_path, &config.engine).unwrap();
        Self {
            on_cpu: CpuDetector::new(config, plan(config).unwrap(), engine()).unwrap(),
            on_gpu: on_gpu(config, &stream, engine()),
            stream,
            folder,
        }
    }

    /// Number of detections of a sweep, once both sides agree.
    fn check(&mut self, points: &[Point], sweep: usize, context: &str) -> usize {
        let cloud = cloud(points);
        let (view, stamp) = (cloud.view(), Stamp::from_nanos(100_000_000 * sweep as i64));
        let pose = (sweep != 3).then(|| Isometry3::translation(0.3 * sweep as f64, -0.2, 0.01));
        let expected = in_cloud(&mut self.on_cpu, &view, stamp, pose.as_ref()).unwrap();
        let found = in_cloud(&mut self.on_gpu, &view, stamp, pose.as_ref()).unwrap();
        compare(&found, &expected, context);
        found.detections.len()
    }
}

fn on_gpu(config: &LidarConfig, stream: &Stream, engine: Box<dyn Engine>) -> CudaDetector {
    let shape_of = |input: &TensorSpec| det_post_infer::device::fixed_shape(input);
    let engine = DeviceEngine::on_host(engine, stream, shape_of).unwrap();
    CudaDetector::new(config, plan(config).unwrap(), stream, engine).unwrap()
}

fn cloud(points: &[Point]) -> Cloud {
    Cloud::plain(points.as_flattened(), &["intensity"])
}

fn compare(
    found: &Detected<det_post_types::Detection3d>,
    expected: &Detected<det_post_types::Detection3d>,
    context: &str,
) {
    for count in Count::ALL {
        let (found, expected) = (found.report.count(count), expected.report.count(count));
        assert_eq!(found, expected, "{context}: {}", count.name());
    }
    assert_eq!(found.report.levels(), expected.report.levels(), "{context}");
    assert_eq!(found.detections.len(), expected.detections.len(), "{context}");
    for (a, b) in found.detections.iter().zip(&expected.detections) {
        assert_eq!(a.class, b.class, "{context}");
        check_near((a.score, &a.object), (b.score, &b.object), context);
    }
}

fn clouds() -> Vec<Vec<Point>> {
    let mut clouds: Vec<Vec<Point>> = [1500, 0, 1, 700, 9000, 3000, 400]
        .into_iter()
        .zip(1..)
        .map(|(num, seed)| counting_voxels::cloud(seed, num))
        .collect();
    // No point inside.
    clouds.insert(3, vec![[100.0, 0.0, 0.0, 0.5]; 50]);
    clouds
}

#[test]
fn clouds_of_any_size_one_after_another() {
    let Some(device) = det_post_testing::gpu() else { return };
    for (anchors, past) in [(false, 0), (false, 2), (true, 0)] {
        let past = format!("densification.num_past_sweeps:={past}");
        let mut pair = Pair::new(&device, anchors, &[&past]);
        let mut num_detections = 0;
        for (sweep, points) in clouds().iter().enumerate() {
            num_detections += pair.check(points, sweep, &format!("{past}, sweep {sweep}"));
            if sweep == 5 {
                pair.on_cpu.reset().unwrap();
                pair.on_gpu.reset().unwrap();
            }
        }
        assert!(num_detections > 60, "{past}: {num_detections} detections");
    }
}

#[test]
fn limits_cut_and_count_alike() {
    let Some(device) = det_post_testing::gpu() else { return };
    let points = counting_voxels::cloud(9, 3000);
    let cases: [&[&str]; 5] = [
        &["voxel_capacity:=300"],
        &["voxel_capacity:=1"],
        &["encoder.level_capacities:=[150, 60, 10]"],
        &["voxel_capacity:=400", "encoder.level_capacities:=[1, 1, 1]"],
        &["point_capacity:=700", "max_detections:=4"],
    ];
    for more in cases {
        let mut pair = Pair::new(&device, false, more);
        for sweep in [0, 1] {
            let num_detections = pair.check(&points, sweep, &format!("{more:?}"));
            assert!(num_detections > 0, "{more:?}");
        }
    }
}

#[test]
fn voxels_of_all_points_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = counting_voxels::write(folder.path());
    let head = folder.path().join("counting.yaml");
    let limited = format!("max_points_per_voxel: {}", counting_voxels::NUM_POINTS);
    let facts = std::fs::read_to_string(&head).unwrap();
    std::fs::write(&head, facts.replace(&limited, "max_points_per_voxel: 0")).unwrap();
    let exact = ["lidar.encoder.precision:=f32".to_owned()];
    let channel = Config::load(&[file], &exact).unwrap().channels.remove(0);
    let mut pair = Pair::of(&device, &channel, folder);
    // The same clouds, and one whose points are in one voxel, as those of sensors that report
    // no return as zeros.
    let mut points = counting_voxels::cloud(11, 3000);
    let mut num_detections = pair.check(&points, 0, "scattered");
    let place = points[0];
    points.extend(std::iter::repeat_n(place, 15_000));
    num_detections += pair.check(&points, 1, "one voxel");
    assert!(num_detections > 0);
}

#[test]
fn thresholds_change_between_frames_without_new_memory() {
    let Some(device) = det_post_testing::gpu() else { return };
    // Columns of few voxels and of many, so that scores differ.
    let points = counting_voxels::cloud(10, 500);
    let mut pair = Pair::new(&device, false, &[]);
    let all = pair.check(&points, 0, "at first");
    let num_allocations = pair.stream.num_allocations();
    let strict = channel(pair.folder.path(), false, &["score_thresholds:=0.9"]);
    pair.on_cpu.reconfigure(&strict).unwrap();
    pair.on_gpu.reconfigure(&strict).unwrap();
    let few = pair.check(&points, 1, "stricter");
    assert!(0 < few && few < all, "{few} of {all}");
    assert_eq!(pair.stream.num_allocations(), num_allocations);
}

#[test]
fn precisions_of_16_bits_find_the_same_objects() {
    let Some(device) = det_post_testing::gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let stream = device.stream().unwrap();
    // Relative error of a sum of values that are rounded once a level.
    for (precision, tolerance) in [("auto", 4e-3), ("f16", 4e-3), ("bf16", 3e-2), ("tf32", 4e-3)] {
        let precision = format!("encoder.precision:={precision}");
        let channel = channel(folder.path(), false, &[&precision]);
        let config = lidar(&channel);
        let engine = || det_post_infer::load(&config.model_path, &config.engine).unwrap();
        let mut rounded = on_gpu(config, &stream, engine());
        let mut exact = Pair::new(&device, false, &[]).on_cpu;
        for points in clouds() {
            let cloud = cloud(&points);
            let view = cloud.view();
            let of = |detector: &mut dyn Detector| {
                in_cloud(detector, &view, Stamp::from_nanos(1), None).unwrap()
            };
            let (found, expected) = (of(&mut rounded), of(&mut exact));
            assert_eq!(found.report.levels(), expected.report.levels(), "{precision}");
            assert_eq!(found.detections.len(), expected.detections.len(), "{precision}");
            for expected in &expected.detections {
                // Scores are of whole numbers; ties may be in another order.
                let [x, y, z] = expected.object.bbox.center;
                let near = found.detections.iter().any(|found| {
                    let [a, b, c] = found.object.bbox.center;
                    // Means of up to 6 m, from sums of 16 bits.
                    let limit = 8.0 * tolerance;
                    (a - x).abs() < limit && (b - y).abs() < limit && (c - z).abs() < limit
                });
                assert!(near, "{precision}: {expected:?}");
            }
        }
    }
}

#[test]
fn the_encoder_is_one_stage_and_its_counts_are_the_only_download() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut pair = Pair::new(&device, false, &[]);
    let cloud = cloud(&counting_voxels::cloud(11, 800));
    let found = in_cloud(&mut pair.on_gpu, &cloud.view(), Stamp::from_nanos(1), None).unwrap();
    let stages = &pair.on_gpu.info().stages;
    assert!(!stages.contains(&Stage::Voxelize) && stages.contains(&Stage::Encode));
    assert!(found.report.duration(Stage::Encode).is_some());
    // Four counts of four levels.
    assert_eq!(found.report.bytes(Stage::Encode, Transfer::Download), 64);
    assert_eq!(found.report.bytes(Stage::Encode, Transfer::Upload), 0);
}

#[test]
fn an_isolated_channel_gives_the_same() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut pair = Pair::new(&device, false, &[]);
    let channel = channel(pair.folder.path(), false, &["encoder.precision:=f32"]);
    let program = Path::new(env!("CARGO_BIN_EXE_det_post"));
    let mut apart = Proxy::start(program, &channel, DeviceChoice::Cuda(0)).unwrap();
    assert!(apart.info().process_id.is_some());
    for points in clouds() {
        let cloud = cloud(&points);
        let view = cloud.view();
        let header = Header { stamp: Stamp::from_nanos(1), frame_id: "lidar" };
        let input = [Some(FrameInput::cloud(header, &view))];
        let frame = FrameSet::single(&input);
        let detect = |detector: &mut dyn Detector| {
            let mut report = FrameReport::new();
            match detector.detect(&frame, &mut report).unwrap() {
                Detections::Boxes3d(boxes) => (boxes.to_vec(), report),
                _ => panic!("boxes in an image"),
            }
        };
        let (expected, here) = detect(&mut pair.on_gpu);
        let (found, there) = detect(&mut apart);
        assert_eq!(found, expected);
        assert_eq!(there.levels(), here.levels());
        assert!(Count::ALL.iter().all(|&count| there.count(count) == here.count(count)));
    }
}
