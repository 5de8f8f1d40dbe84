//! A lidar channel from the message to its detections: the same detections and
//! counts on both devices, whatever clouds come one after another.

use det_post::config::{ChannelConfig, ChannelKind, Config, LidarConfig};
use det_post::detectors::Detector;
use det_post::detectors::pillars::{CpuDetector, CudaDetector};
use det_post::{ErrorKind, Result};
use det_post_infer::Engine;
use det_post_infer::device::DeviceEngine;
use det_post_ops::device::cuda::{CudaDevice, Stream};
use det_post_types::{
    Count, Dim, ElementType, Stage, Stamp, TensorSpec, TensorValues, TensorView, Transfer,
};
use nalgebra::{Isometry3, Translation3, UnitQuaternion};

use crate::common::detect::in_cloud;
use det_post_testing::check_near;
use det_post_testing::clouds::{Cloud, uniform};
use det_post_testing::random::Random;

const NUM_CHANNELS: usize = 8;
const NUM_VOXELS: usize = 900;
const NUM_POINTS: usize = 6;
const SIDE: usize = 64;

/// Both kinds of heads on a grid of 64 x 64.
pub const CENTER: &str = "
sensor: lidar
kind: center
class_names: [car, bus, walker]
point_range_m: [-10.24, -10.24, -3.0, 10.24, 10.24, 5.0]
voxel_size_m: [0.32, 0.32, 8.0]
max_points_per_voxel: 6
voxel_capacity: 900
point_channels: [intensity, time_lag]
center_offset_z: true
tasks:
  - [car, bus]
  - [walker]
downsample_factor: 2
size_order: width_length_height
yaw: clockwise_from_minus_y
has_velocity: true
has_variance: true
defaults:
  score_thresholds: 0.4
  yaw_norm_thresholds: [0.1, 0.2, 0.0]
  nms:
    kind: circle
    circle_radius_m: [0.7, 1.5, 0.2]
    class_mode: task
";

const ANCHOR: &str = "
sensor: lidar
kind: anchor
class_names: [car, walker]
point_range_m: [-10.24, -10.24, -3.0, 10.24, 10.24, 5.0]
voxel_size_m: [0.32, 0.32, 8.0]
max_points_per_voxel: 6
voxel_capacity: 900
point_channels: [intensity]
center_offset_z: false
anchor_sizes_m:
  - [3.9, 1.6, 1.56]
  - [0.8, 0.6, 1.73]
anchor_center_z_m: [-1.0, 0.265]
rotations_rad: [0.0, 1.57]
direction_offset_rad: 0.78539
align_center: false
channels_last: true
defaults:
  score_thresholds: 0.4
  nms:
    kind: circle
    circle_radius_m: 0.7
    class_mode: agnostic
  densification:
    num_past_sweeps: 0
";

/// A network whose answers are taken from its input, so that a value that
/// differs shows in the detections.
struct Mirror {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    shapes: Vec<Vec<usize>>,
    answers: Vec<Vec<f32>>,
    /// Whether rows of the answer come from the same rows of the input.
    by_row: bool,
}

impl Mirror {
    fn new(input: &[Dim], outputs: &[Vec<usize>], by_row: bool) -> Self {
        let spec = |shape: Vec<Dim>| TensorSpec {
            name: "tensor".into(),
            element: Some(ElementType::F32),
            shape: Some(shape),
        };
        let open = |shape: &Vec<usize>| match by_row {
            true => vec![Dim::Dynamic, Dim::Fixed(shape[1])],
            false => shape.iter().map(|&n| Dim::Fixed(n)).collect(),
        };
        Self {
            inputs: vec![spec(input.to_vec())],
            outputs: outputs.iter().map(|shape| spec(open(shape))).collect(),
            shapes: outputs.to_vec(),
            answers: outputs.iter().map(|shape| vec![0.0; shape.iter().product()]).collect(),
            by_row,
        }
    }

    fn encoder(num_features: usize, is_dynamic: bool) -> Self {
        let rows = if is_dynamic { Dim::Dynamic } else { Dim::Fixed(NUM_VOXELS + 20) };
        let input = [rows, Dim::Fixed(NUM_POINTS), Dim::Fixed(num_features)];
        Self::new(&input, &[vec![NUM_VOXELS + 20, NUM_CHANNELS]], true)
    }

    fn head(config: &LidarConfig) -> Self {
        let input = [1, NUM_CHANNELS, SIDE, SIDE].map(Dim::Fixed);
        let half = SIDE / 2;
        let map = |channels| vec![1, channels, half, half];
        let outputs = if config.head.contains("center") {
            let task = |num_classes| [4, 2, 6, 4, 4, num_classes].map(map);
            [task(2), task(1)].concat()
        } else {
            [4 * 2, 4 * 7, 4 * 2].map(|channels| vec![1, half, half, channels]).to_vec()
        };
        Self::new(&input, &outputs, false)
    }
}

impl Engine for Mirror {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        let TensorValues::F32(values) = inputs[0].values() else { panic!("not f32") };
        if self.by_row {
            let row_len = values.len() / inputs[0].shape()[0];
            self.shapes[0][0] = inputs[0].shape()[0];
            let rows = self.answers[0].chunks_exact_mut(NUM_CHANNELS);
            for (out, row) in rows.zip(values.chunks_exact(row_len)) {
                for (channel, out) in out.iter_mut().enumerate() {
                    // Each value of the row has its part in one channel.
                    *out = row.iter().skip(channel).step_by(NUM_CHANNELS).sum::<f32>();
                }
            }
            return Ok(());
        }
        for (index, answer) in self.answers.iter_mut().enumerate() {
            for (i, out) in answer.iter_mut().enumerate() {
                let value = values[(i * 7919 + index * 104_729) % values.len()];
                // A number in [-3, 3); empty cells say no object.
                *out = if value == 0.0 { -3.0 } else { (value * 37.0).rem_euclid(1.0) * 6.0 - 3.0 };
            }
        }
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let shape = &self.shapes[index];
        let num = shape.iter().product();
        TensorView::new(shape, TensorValues::F32(&self.answers[index][..num]))
    }

    fn name(&self) -> &str {
        "mirror"
    }
}

fn channel(head: &str, more: &[&str]) -> ChannelConfig {
    let folder = tempfile::tempdir().unwrap();
    let name = if head == CENTER { "center.yaml" } else { "anchor.yaml" };
    let path = folder.path().join(name);
    std::fs::write(&path, head).unwrap();
    let mut overrides = vec![format!("c.head:={}", path.display())];
    if !more.iter().any(|parameter| parameter.starts_with("c.inputs:=")) {
        overrides.push("c.input:=/p".into());
    }
    let fixed = ["c.encoder_path:=e", "c.model_path:=m", "c.point_capacity:=5000"];
    overrides.extend(fixed.map(String::from));
    overrides.extend(more.iter().map(|&parameter| parameter.to_owned()));
    Config::load(&[], &overrides).unwrap().channels.remove(0)
}

pub fn config(head: &str, more: &[&str]) -> LidarConfig {
    match channel(head, more).kind {
        ChannelKind::Lidar(config) => *config,
        _ => panic!("a lidar head"),
    }
}

/// The same channel on both devices.
pub struct Pair {
    pub on_cpu: CpuDetector,
    pub on_gpu: CudaDetector,
    pub stream: Stream,
}

/// A sweep: its cloud, seconds, pose.
type Sweep<'a> = (&'a Cloud, f64, Option<Isometry3<f64>>);

impl Pair {
    pub fn new(device: &CudaDevice, config: &LidarConfig, is_dynamic: bool) -> Self {
        let stream = device.stream().unwrap();
        let num_features = config.facts.num_features();
        let encoder = || Box::new(Mirror::encoder(num_features, is_dynamic));
        let head = || Box::new(Mirror::head(config));
        let shape_of = |input: &TensorSpec| -> Result<Vec<usize>> {
            let dims = input.shape.as_ref().unwrap().iter();
            Ok(dims.map(|dim| if let Dim::Fixed(n) = dim { *n } else { NUM_VOXELS }).collect())
        };
        let on_device = |engine: Box<Mirror>| DeviceEngine::on_host(engine, &stream, shape_of);
        let (encode, infer) = (on_device(encoder()).unwrap(), on_device(head()).unwrap());
        Self {
            on_cpu: CpuDetector::new(config, encoder(), head()).unwrap(),
            on_gpu: CudaDetector::new(config, &stream, encode, infer).unwrap(),
            stream,
        }
    }

    /// Number of detections of a sweep, once both sides agree.
    fn check(&mut self, (cloud, seconds, pose): &Sweep<'_>, context: &str) -> usize {
        let view = cloud.view();
        let stamp = Stamp::from_nanos((seconds * 1e9) as i64);
        let expected = in_cloud(&mut self.on_cpu, &view, stamp, pose.as_ref()).unwrap();
        let found = in_cloud(&mut self.on_gpu, &view, stamp, pose.as_ref()).unwrap();
        for count in Count::ALL {
            let (found, expected) = (found.report.count(count), expected.report.count(count));
            assert_eq!(found, expected, "{context}: {}", count.name());
        }
        assert_eq!(found.detections.len(), expected.detections.len(), "{context}");
        for (a, b) in found.detections.iter().zip(&expected.detections) {
            assert_eq!(a.class, b.class, "{context}");
            check_near((a.score, &a.object), (b.score, &b.object), context);
        }
        found.detections.len()
    }
}

pub fn pose(random: &mut Random) -> Isometry3<f64> {
    let mut number = || f64::from(random.range(-1.0, 1.0));
    let rotation = UnitQuaternion::from_euler_angles(0.02 * number(), 0.02 * number(), number());
    Isometry3::from_parts(Translation3::new(number(), number(), 0.1 * number()), rotation)
}

/// A lidar channel on the GPU, of single sweeps.
pub fn on_gpu(device: &CudaDevice) -> (CudaDetector, Stream) {
    let pair = Pair::new(device, &config(CENTER, &["c.densification.num_past_sweeps:=0"]), false);
    (pair.on_gpu, pair.stream)
}

pub fn cloud(random: &mut Random, num: usize) -> Cloud {
    let points = uniform(random, num, 4, 11.0);
    Cloud::plain(points.values(), &["intensity"])
}

#[test]
fn clouds_of_any_kind_one_after_another() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(160);
    for (head, past) in [(CENTER, "0"), (CENTER, "1"), (CENTER, "3"), (ANCHOR, "0"), (ANCHOR, "2")]
    {
        for is_dynamic in [false, true] {
            let config = config(head, &[&format!("c.densification.num_past_sweeps:={past}")]);
            let mut pair = Pair::new(&device, &config, is_dynamic);
            let clouds: Vec<Cloud> = [1500, 0, 1, 700, 9000, 3000, 400]
                .map(|num| cloud(&mut random, num))
                .into_iter()
                .chain([1, 2, 3].map(|height| Cloud::random(&mut random, [300, height], 0.05)))
                .collect();
            let mut num_detections = 0;
            for (index, cloud) in clouds.iter().enumerate() {
                let pose = (index != 3).then(|| pose(&mut random));
                let sweep = (cloud, 50.0 + 0.1 * index as f64, pose);
                let context = format!("{past} past, {is_dynamic}, sweep {index}");
                num_detections += pair.check(&sweep, &context);
                if index == 5 {
                    pair.on_cpu.reset().unwrap();
                    pair.on_gpu.reset().unwrap();
                }
            }
            assert!(num_detections > 300, "{past} past: {num_detections} detections");
        }
    }
}

#[test]
fn limits_cut_and_count_alike() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(161);
    let cloud = cloud(&mut random, 4000);
    let cases: [&[&str]; 8] = [
        &["c.candidate_capacity:=50"],
        &["c.candidate_capacity:=1"],
        &["c.pre_nms_top_k:=20"],
        &["c.pre_nms_top_k:=3000"],
        &["c.max_detections:=3"],
        &["c.point_capacity:=500"],
        &["c.pre_nms_top_k:=4", "c.candidate_capacity:=300"],
        &["c.nms.class_mode:=agnostic", "c.nms.circle_radius_m:=5.0"],
    ];
    for head in [CENTER, ANCHOR] {
        for more in cases {
            let mut pair = Pair::new(&device, &config(head, more), false);
            let num_detections = pair.check(&(&cloud, 1.0, None), &format!("{more:?}"));
            assert!(num_detections > 0, "{more:?}");
        }
    }
}

#[test]
fn thresholds_change_between_frames_without_new_memory() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(162);
    let cloud = cloud(&mut random, 2500);
    for head in [CENTER, ANCHOR] {
        let mut pair = Pair::new(&device, &config(head, &[]), false);
        pair.check(&(&cloud, 1.0, None), "at first");
        let num_allocations = pair.stream.num_allocations();
        for (more, is_in_place) in [
            (&["c.score_thresholds:=0.7"][..], true),
            (&["c.nms.circle_radius_m:=3.0"], true),
            (&[], true),
            (&["c.max_detections:=2"], false),
            (&["c.pre_nms_top_k:=30"], false),
            (&["c.nms.kind:=none"], false),
        ] {
            let config = channel(head, more);
            pair.on_cpu.reconfigure(&config).unwrap();
            pair.on_gpu.reconfigure(&config).unwrap();
            pair.check(&(&cloud, 2.0, None), &format!("{more:?}"));
            let is_same = pair.stream.num_allocations() == num_allocations;
            assert!(is_same || !is_in_place, "{more:?} took memory");
        }
    }
}

#[test]
fn a_bad_cloud_leaves_the_channel_usable() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(163);
    let good = cloud(&mut random, 2500);
    let mut bad = cloud(&mut random, 100);
    bad.fields.remove(1);
    let mut pair = Pair::new(&device, &config(CENTER, &[]), true);
    let pose = pose(&mut random);
    let expected = pair.check(&(&good, 1.0, Some(pose)), "before");
    assert!(expected > 20);
    for index in 0..2 {
        let view = bad.view();
        let stamp = Stamp::from_nanos(1_050_000_000);
        for detector in [&mut pair.on_cpu as &mut dyn Detector, &mut pair.on_gpu] {
            let refused = in_cloud(detector, &view, stamp, None).err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::PointField);
        }
        pair.check(&(&good, 1.1 + 0.1 * f64::from(index), Some(pose)), "after");
    }
}

#[test]
fn a_frame_refused_halfway_leaves_no_counts_behind() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(165);
    let cloud = cloud(&mut random, 2500);
    let more = ["c.densification.num_past_sweeps:=1", "c.point_capacity:=500"];
    let mut pair = Pair::new(&device, &config(CENTER, &more), false);
    let pose = pose(&mut random);
    pair.check(&(&cloud, 1.0, Some(pose)), "before");
    let nowhere = Isometry3::translation(f64::NAN, 0.0, 0.0);
    let view = cloud.view();
    let stamp = Stamp::from_nanos(1_050_000_000);
    // Points are unpacked, and counted, before the pose is refused.
    for detector in [&mut pair.on_cpu as &mut dyn Detector, &mut pair.on_gpu] {
        let refused = in_cloud(detector, &view, stamp, Some(&nowhere)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Argument);
    }
    pair.check(&(&cloud, 1.1, Some(pose)), "after");
}

#[test]
fn a_frame_moves_its_bytes_once_and_waits_once() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(164);
    let sweeps = [1500, 1400].map(|num| cloud(&mut random, num));
    let mut pair = Pair::new(&device, &config(CENTER, &[]), false);
    let pose = pose(&mut random);
    for index in 0..3 {
        pair.check(&(&sweeps[index % 2], 1.0 + 0.1 * index as f64, Some(pose)), "warm-up");
    }
    let (waits, memory) = (pair.stream.num_waits(), pair.stream.num_allocations());
    let view = sweeps[0].view();
    let stamp = Stamp::from_nanos(1_400_000_000);
    let processed = in_cloud(&mut pair.on_gpu, &view, stamp, Some(&pose)).unwrap();
    // One for the answer, one by each of the two engines on the CPU.
    assert_eq!(pair.stream.num_waits() - waits, 3);
    assert_eq!(pair.stream.num_allocations(), memory);
    let bytes = |stage, transfer| processed.report.bytes(stage, transfer);
    let num_bytes = sweeps[0].data.len() as u64;
    assert_eq!(bytes(Stage::Upload, Transfer::HostCopy), num_bytes);
    assert_eq!(bytes(Stage::Upload, Transfer::Upload), num_bytes);
    // What was gathered and the counters; class, score, box, velocity, variances.
    let answer = bytes(Stage::Postprocess, Transfer::Download);
    let (fixed, num_detections) = (12 + 4 * Count::ALL.len(), processed.detections.len());
    assert_eq!(answer, (fixed + 4 * 20 * num_detections) as u64);
    assert!(!processed.detections.is_empty());
    for stage in [Stage::Upload, Stage::Voxelize, Stage::Infer, Stage::Postprocess] {
        let duration = processed.report.duration(stage);
        assert!(duration.is_some_and(|d| !d.is_zero()), "{}: {duration:?}", stage.name());
    }
}
