//! After warm-up, our own stages allocate nothing.
//!
//! The engines here only hand out tensors that were made before, so what is
//! counted is the pipelines' own. Real engines allocate inside their runs, and
//! so does the JPEG decoder.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped")]

use crate::common::counting_voxels;
#[cfg(feature = "cuda")]
use crate::common::require;
use std::cell::Cell;

use super::allocator::NUM_ALLOCATIONS;
use crate::common::view_networks;
use det_post::config::{ChannelConfig, ChannelKind, Config, LidarConfig};
use det_post::detectors::{Detector, FrameInput, FrameSet, image2d, pillars, voxels};
use det_post::{Error, ErrorKind, Result};
use det_post_infer::Engine;
use det_post_infer::sparse::Plan;
use det_post_infer::view_decoder::{self, CpuViewDecoder, DecodedQueries};
use det_post_ops::decode::query;
use det_post_types::{
    Box2d, Candidates, CloudView, Dim, ElementType, Encoding, FrameReport, Header, ImagePayload,
    ImageView, Motion, PointField, PointFields, QueryDecode, RotatedBox2d, ScoreThresholds, Size,
    SizeOrder, Stage, Stamp, TensorSpec, TensorValues, TensorView, ViewDecoder, YawConvention,
};
use nalgebra::{Isometry3, Vector3};

/// Name and shape of an output, and its value at a place.
type Answer<'a> = (&'a str, &'a [usize], fn(usize) -> f32);

/// A network with fixed outputs.
struct Prepared {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    answers: Vec<(Vec<usize>, Vec<f32>)>,
}

impl Prepared {
    fn new(input: &[usize], outputs: &[Answer<'_>]) -> Box<Self> {
        let spec = |name: &str, shape: &[usize]| TensorSpec {
            name: name.into(),
            element: Some(ElementType::F32),
            shape: Some(shape.iter().map(|&n| Dim::Fixed(n)).collect()),
        };
        let answer = |shape: &[usize], value: fn(usize) -> f32| {
            (shape.to_vec(), (0..shape.iter().product()).map(value).collect())
        };
        Box::new(Self {
            inputs: vec![spec("input", input)],
            outputs: outputs.iter().map(|(name, shape, _)| spec(name, shape)).collect(),
            answers: outputs.iter().map(|(_, shape, value)| answer(shape, *value)).collect(),
        })
    }
}

impl Engine for Prepared {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        let expected = self.inputs[0].shape.as_ref().unwrap();
        assert_eq!(inputs[0].shape().len(), expected.len());
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let (shape, values) = self
            .answers
            .get(index)
            .ok_or_else(|| Error::new(ErrorKind::Inference, "prepared", "no such output"))?;
        TensorView::new(shape, TensorValues::F32(values))
    }

    fn name(&self) -> &str {
        "prepared"
    }
}

/// A number in [0, 1) that looks random.
pub(super) fn noise(i: usize) -> f32 {
    (i.wrapping_mul(2_654_435_761) % 1_000_003) as f32 / 1_000_003.0
}

fn channel(overrides: &[&str]) -> ChannelKind {
    channel_config(overrides).kind
}

fn channel_config(overrides: &[&str]) -> ChannelConfig {
    let overrides: Vec<String> = overrides.iter().map(|&o| o.into()).collect();
    Config::load(&[], &overrides).unwrap().channels.remove(0)
}

/// Number of detections of a frame.
pub(super) fn detect(detector: &mut dyn Detector, frame: &FrameSet<'_>) -> usize {
    let mut report = FrameReport::new();
    let num_detections = detector.detect(frame, &mut report).unwrap().len();
    let reports = |stage: &&Stage| report.duration(**stage).is_some();
    let is_named = |stage: &Stage| detector.info().stages.contains(stage);
    assert!(Stage::ALL.iter().filter(reports).all(is_named));
    num_detections
}

/// Allocations of `work` once it ran a few times.
pub(super) fn allocations_after_warm_up(mut work: impl FnMut()) -> u64 {
    (0..3).for_each(|_| work());
    let before = NUM_ALLOCATIONS.with(Cell::get);
    (0..5).for_each(|_| work());
    NUM_ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn a_camera_frame_allocates_nothing() {
    const NUM_ROWS: usize = 1000;
    let aligned = ["iou", "fast", "soft_linear", "soft_gaussian", "none"].map(|k| ("yolov5", k));
    for (head, kind) in aligned.into_iter().chain([("yolo_obb", "rotated"), ("yolo_obb", "none")]) {
        let (head_key, nms) = (format!("c.head:={head}"), format!("c.nms.kind:={kind}"));
        let ChannelKind::Camera(config) =
            channel(&["c.input:=/i", &head_key, "c.model_path:=m", "c.score_threshold:=0.2", &nms])
        else {
            panic!("a camera head")
        };
        // Boxes all over a 64x64 input, scores on both sides of the threshold.
        let rows = |i: usize| match i % 85 {
            0 | 1 => noise(i) * 64.0,
            2 | 3 => noise(i) * 16.0 + 1.0,
            _ => noise(i),
        };
        let planes = |i: usize| match i / NUM_ROWS {
            0 | 1 => noise(i) * 64.0,
            2 | 3 => noise(i) * 16.0 + 1.0,
            19 => noise(i) * 3.0,
            _ => noise(i),
        };
        let mut pipeline: Box<dyn Detector> = if head == "yolov5" {
            let engine = Prepared::new(&[1, 3, 64, 64], &[("output", &[1, NUM_ROWS, 85], rows)]);
            Box::new(image2d::CpuDetector::<Box2d>::new(&config, engine).unwrap())
        } else {
            let engine = Prepared::new(&[1, 3, 64, 64], &[("output", &[1, 20, NUM_ROWS], planes)]);
            Box::new(image2d::CpuDetector::<RotatedBox2d>::new(&config, engine).unwrap())
        };
        let pixels: Vec<u8> = (0..97 * 50 * 3).map(|i| i as u8).collect();
        let image = ImageView::new(Size::new(97, 50), 97 * 3, Encoding::Bgr8, false, &pixels);
        let payload = ImagePayload::Raw(image.unwrap());
        let input = [Some(FrameInput::image(Header::default(), payload))];
        let mut num_detections = 0;
        let num_allocations = allocations_after_warm_up(|| {
            num_detections = detect(pipeline.as_mut(), &FrameSet::single(&input));
        });
        assert!(num_detections > 20, "{head} {kind}: {num_detections} detections");
        assert_eq!(num_allocations, 0, "{head} {kind}");

        // Its frame is collected before the next is submitted.
        let (frame, mut report) = (FrameSet::single(&input), FrameReport::new());
        assert!(pipeline.collect(&mut report).is_err());
        pipeline.submit(&frame, &mut report).unwrap();
        for refused in [
            pipeline.submit(&frame, &mut report).unwrap_err(),
            pipeline.detect(&frame, &mut report).unwrap_err(),
        ] {
            assert!(refused.message().contains("collect"), "{refused}");
        }
        assert_eq!(pipeline.collect(&mut report).unwrap().len(), num_detections);
        assert_eq!((pipeline.num_in_flight(), pipeline.allow_in_flight(2)), (0, 1));
    }
}

/// The answers of an engine on a GPU, in place of it.
#[cfg(feature = "cuda")]
fn given(
    stream: &det_post_ops::device::cuda::Stream,
    engine: &Prepared,
) -> det_post_infer::device::DeviceEngine {
    let answer = |(shape, values): &(Vec<usize>, Vec<f32>)| det_post_types::Tensor::F32 {
        shape: shape.clone(),
        values: values.clone(),
    };
    let answers: Vec<_> = engine.answers.iter().map(answer).collect();
    let names = engine.outputs.iter().map(|output| output.name.as_str());
    let named: Vec<_> = names.zip(&answers).collect();
    det_post_infer::device::DeviceEngine::fixed(stream, engine.inputs.clone(), &named).unwrap()
}

/// Waits until no other test uses the GPU, whose memory would mix with that of the caller.
pub(super) fn by_itself() -> std::sync::MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The GPU for only one test, or `None` with the reason printed.
#[cfg(feature = "cuda")]
pub(super) fn gpu()
-> Option<(std::sync::MutexGuard<'static, ()>, det_post_ops::device::cuda::CudaDevice)> {
    use det_post_ops::device::Device;
    use det_post_types::DeviceChoice;

    let by_itself = by_itself();
    match Device::open(DeviceChoice::Cuda(0)) {
        Ok(Device::Cuda(device)) => Some((by_itself, device)),
        Ok(Device::Cpu) => panic!("a GPU was asked for by number"),
        Err(reason) => {
            require::skip(require::Need::Cuda, reason);
            None
        }
    }
}

/// The number of allocations of a stream, and the free memory of its GPU.
#[cfg(feature = "cuda")]
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceMemory {
    num_allocations: usize,
    num_free_bytes: usize,
}

#[cfg(feature = "cuda")]
impl DeviceMemory {
    pub(super) fn of(stream: &det_post_ops::device::cuda::Stream) -> Self {
        let num_free_bytes = stream.device().free_memory().unwrap();
        Self { num_allocations: stream.num_allocations(), num_free_bytes }
    }

    /// Whether nothing was allocated since. The driver takes memory for its own use, in pieces
    /// of 2 MiB and at times of its own: two of them are allowed.
    pub(super) fn is_as(&self, before: &Self) -> bool {
        self.num_allocations == before.num_allocations
            && self.num_free_bytes + (4 << 20) >= before.num_free_bytes
    }
}

#[cfg(feature = "cuda")]
const CAMERA: [&str; 4] =
    ["c.input:=/i", "c.head:=yolov5", "c.model_path:=m", "c.score_threshold:=0.2"];

/// A camera's detector with a network whose outputs were made before.
#[cfg(feature = "cuda")]
fn camera_on(stream: &det_post_ops::device::cuda::Stream) -> image2d::CudaDetector {
    let ChannelKind::Camera(config) = channel(&CAMERA) else { panic!("a camera head") };
    let rows = |i: usize| if i % 85 < 4 { noise(i) * 16.0 + 1.0 } else { noise(i) };
    let engine = Prepared::new(&[1, 3, 64, 64], &[("output", &[1, 1000, 85], rows)]);
    image2d::CudaDetector::new(&config, stream, given(stream, &engine)).unwrap()
}

#[test]
#[cfg(feature = "cuda")]
fn a_camera_frame_on_a_gpu_allocates_nothing() {
    let Some((_by_itself, device)) = gpu() else { return };
    let stream = device.stream().unwrap();
    let mut pipeline = camera_on(&stream);
    // Two layouts in turn would be recorded anew: a channel has one.
    let pixels: Vec<u8> = (0..640 * 480 * 3).map(|i| i as u8).collect();
    let image = ImageView::new(Size::new(640, 480), 640 * 3, Encoding::Bgr8, false, &pixels);
    let payload = ImagePayload::Raw(image.unwrap());
    let input = [Some(FrameInput::image(Header::default(), payload))];
    let mut num_detections = 0;
    let mut frame = || num_detections = detect(&mut pipeline, &FrameSet::single(&input));
    (0..3).for_each(|_| frame());
    let before = DeviceMemory::of(&stream);
    let num_allocations = allocations_after_warm_up(&mut frame);
    assert!(DeviceMemory::of(&stream).is_as(&before), "{before:?}");
    assert_eq!(num_allocations, 0);
    assert!(num_detections > 20, "{num_detections} detections");
}

#[test]
#[cfg(feature = "cuda")]
fn a_replaced_post_processing_is_freed() {
    let Some((_by_itself, device)) = gpu() else { return };
    let stream = device.stream().unwrap();
    let mut pipeline = camera_on(&stream);
    assert_eq!(pipeline.allow_in_flight(2), 2);
    let of = |top_k: usize| {
        let limits = ["pre_nms_top_k", "max_detections"].map(|key| format!("c.{key}:={top_k}"));
        channel_config(&[&CAMERA[..], &limits.each_ref().map(String::as_str)].concat())
    };
    let mut free = Vec::new();
    for round in 0..40 {
        for top_k in [4000, 4001] {
            pipeline.reconfigure(&of(top_k)).unwrap();
        }
        if round % 20 == 3 {
            free.push(device.free_memory().unwrap());
        }
    }
    // 80 of more than 2 MB each, of which the driver kept 8 MiB on one H200.
    assert!(free[1] + (24 << 20) >= free[0], "{free:?}");
}

#[test]
#[cfg(feature = "cuda")]
fn camera_frames_in_flight_on_a_gpu_allocate_nothing_and_agree() {
    let Some((_by_itself, device)) = gpu() else { return };
    let stream = device.stream().unwrap();
    let mut pipeline = camera_on(&stream);
    let pixels: Vec<u8> = (0..640 * 480 * 3).map(|i| i as u8).collect();
    let image = ImageView::new(Size::new(640, 480), 640 * 3, Encoding::Bgr8, false, &pixels);
    let input = [Some(FrameInput::image(Header::default(), ImagePayload::Raw(image.unwrap())))];
    let frame = FrameSet::single(&input);
    let num_expected = detect(&mut pipeline, &frame);
    assert_eq!(pipeline.allow_in_flight(2), 2);
    let mut reports = [FrameReport::new(), FrameReport::new()];
    pipeline.submit(&frame, &mut reports[0]).unwrap();
    let mut num_frames = 0;
    let mut step = || {
        num_frames += 1;
        let next = num_frames % 2;
        pipeline.submit(&frame, &mut reports[next]).unwrap();
        let refused = num_frames == 1 && pipeline.submit(&frame, &mut reports[next]).is_err();
        assert!(refused || num_frames > 1, "a third frame in flight");
        let report = &mut reports[1 - next];
        assert_eq!(pipeline.collect(report).unwrap().len(), num_expected);
        assert!(report.duration(Stage::Infer).is_some());
        *report = FrameReport::new();
    };
    (0..3).for_each(|_| step());
    let (before, waits) = (DeviceMemory::of(&stream), stream.num_waits());
    let num_allocations = allocations_after_warm_up(&mut step);
    assert!(DeviceMemory::of(&stream).is_as(&before), "{before:?}");
    assert_eq!(num_allocations, 0);
    let waits = stream.num_waits() - waits;
    assert!(waits as usize <= num_frames, "{waits} waits in {num_frames} frames");
    pipeline.collect(&mut FrameReport::new()).unwrap();
    assert!(pipeline.collect(&mut FrameReport::new()).is_err());
    assert_eq!(detect(&mut pipeline, &frame), num_expected);
}

/// A cloud of x, y, z, intensity.
fn cloud_bytes(num_points: usize) -> Vec<u8> {
    let point = |i: usize| {
        let (x, y) = (noise(4 * i) * 100.0 - 50.0, noise(4 * i + 1) * 100.0 - 50.0);
        [x, y, noise(4 * i + 2) * 4.0 - 2.0, noise(4 * i + 3)]
    };
    (0..num_points).flat_map(point).flat_map(f32::to_le_bytes).collect()
}

/// The encoder and the network of a lidar channel.
fn lidar_engines(config: &LidarConfig) -> [Box<Prepared>; 2] {
    let facts = &config.facts;
    let [nx, ny, _] = facts.grid.grid_size().map(|n| n as usize);
    let (num_voxels, num_features) = (facts.voxel_capacity, facts.num_features());
    let encoder = Prepared::new(
        &[num_voxels, facts.max_points_per_voxel, num_features],
        &[("pillar_features", &[num_voxels, 32], noise)],
    );
    let map = |channels| [1, channels, ny, nx];
    let heat = |i: usize| if noise(i) > 0.999 { 2.0 } else { -5.0 };
    let head = Prepared::new(
        &map(32),
        &[
            ("reg", &map(2), noise),
            ("height", &map(1), noise),
            ("dim", &map(3), noise),
            ("rot", &map(2), noise),
            ("vel", &map(2), noise),
            ("heatmap", &map(facts.class_names.len()), heat),
        ],
    );
    let rename = |mut engine: Box<Prepared>, name: &str| {
        engine.inputs[0].name = name.into();
        engine
    };
    [rename(encoder, "input_features"), rename(head, "spatial_features")]
}

fn lidar_config(nms: &str) -> LidarConfig {
    let nms = format!("l.nms.kind:={nms}");
    let ChannelKind::Lidar(config) = channel(&[
        "l.input:=/p",
        "l.head:=centerpoint_autoware",
        "l.encoder_path:=e",
        "l.model_path:=m",
        "l.densification.num_past_sweeps:=2",
        "l.point_capacity:=100000",
        &nms,
    ]) else {
        panic!("a lidar head")
    };
    *config
}

/// A drive, sweep after sweep: each call is a frame, and gives its detections.
fn drive(bytes: &[u8]) -> impl FnMut(&mut dyn Detector) -> usize {
    let mut fields = PointFields::new();
    for (i, name) in ["x", "y", "z", "intensity"].into_iter().enumerate() {
        fields.push(PointField { name, offset: 4 * i as u32, datatype: 7, count: 1 }).unwrap();
    }
    let cloud = CloudView::new([20_000, 1], [16, 320_000], false, fields, bytes).unwrap();
    let mut sweep = 0;
    move |detector| {
        sweep += 1;
        let pose = Isometry3::new(Vector3::new(sweep as f64, 0.0, 0.0), Vector3::zeros());
        let header = Header { stamp: Stamp::from_nanos(sweep * 100_000_000), frame_id: "lidar" };
        let input = [Some(FrameInput::cloud(header, &cloud).with_pose(pose))];
        detect(detector, &FrameSet::single(&input))
    }
}

#[test]
fn a_lidar_frame_with_past_sweeps_allocates_nothing() {
    for kind in ["circle", "bev", "iou_3d"] {
        let config = lidar_config(kind);
        let [encoder, head] = lidar_engines(&config);
        let mut pipeline = pillars::CpuDetector::new(&config, encoder, head).unwrap();
        let bytes = cloud_bytes(20_000);
        let mut frame = drive(&bytes);
        let mut num_detections = 0;
        let num_allocations = allocations_after_warm_up(|| num_detections = frame(&mut pipeline));
        assert!(num_detections > 20, "{kind}: {num_detections} detections");
        assert_eq!(num_allocations, 0, "{kind}");
    }
}

/// A channel with a sparse encoder on one thread: its parameters, encoder and network.
fn voxel_channel() -> (LidarConfig, Plan, Box<Prepared>) {
    let folder = tempfile::tempdir().unwrap();
    let file = counting_voxels::write(folder.path());
    let parameters = ["engine.threads:=1", "densification.num_past_sweeps:=2"];
    let parameters = parameters.map(|parameter| format!("lidar.{parameter}"));
    let mut config = Config::load(&[file], &parameters).unwrap();
    let ChannelKind::Lidar(config) = config.channels.remove(0).kind else { panic!("a lidar head") };
    let map = |channels| [1, channels, 3, 6];
    let outputs: [Answer<'_>; 5] = [
        ("reg", &map(2), noise),
        ("height", &map(1), noise),
        ("dim", &map(3), |i| noise(i) + 0.5),
        ("rot", &map(2), noise),
        ("heatmap", &map(1), |_| 0.0),
    ];
    let mut head = Prepared::new(&map(5), &outputs);
    head.inputs[0].name = "spatial_features".into();
    let plan = voxels::plan(&config).unwrap();
    (*config, plan, head)
}

/// A cloud that fills the channel's grid.
fn voxel_bytes() -> Vec<u8> {
    let points = counting_voxels::cloud(1, 20_000);
    points.as_flattened().iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn a_frame_of_voxels_allocates_nothing() {
    let (config, plan, head) = voxel_channel();
    let mut pipeline = voxels::CpuDetector::new(&config, plan, head).unwrap();
    let bytes = voxel_bytes();
    let mut frame = drive(&bytes);
    let mut num_detections = 0;
    let num_allocations = allocations_after_warm_up(|| num_detections = frame(&mut pipeline));
    assert_eq!(num_detections, 18);
    assert_eq!(num_allocations, 0);
}

#[test]
#[cfg(feature = "cuda")]
fn a_frame_of_voxels_on_a_gpu_allocates_nothing() {
    let Some((_by_itself, device)) = gpu() else { return };
    let stream = device.stream().unwrap();
    let (config, plan, head) = voxel_channel();
    let engine = given(&stream, &head);
    let mut pipeline = voxels::CudaDetector::new(&config, plan, &stream, engine).unwrap();
    let bytes = voxel_bytes();
    let mut frame = drive(&bytes);
    let mut num_detections = 0;
    (0..4).for_each(|_| num_detections = frame(&mut pipeline));
    let before = DeviceMemory::of(&stream);
    let num_allocations = allocations_after_warm_up(|| num_detections = frame(&mut pipeline));
    assert!(DeviceMemory::of(&stream).is_as(&before), "{before:?}");
    assert_eq!(num_allocations, 0);
    assert_eq!(num_detections, 18);
}

#[test]
#[cfg(feature = "cuda")]
fn a_lidar_frame_on_a_gpu_allocates_nothing() {
    let Some((_by_itself, device)) = gpu() else { return };
    let stream = device.stream().unwrap();
    let config = lidar_config("circle");
    let [encoder, head] = lidar_engines(&config).map(|engine| given(&stream, &engine));
    let mut pipeline = pillars::CudaDetector::new(&config, &stream, encoder, head).unwrap();
    let bytes = cloud_bytes(20_000);
    let mut frame = drive(&bytes);
    let mut num_detections = 0;
    (0..4).for_each(|_| num_detections = frame(&mut pipeline));
    let before = DeviceMemory::of(&stream);
    let num_allocations = allocations_after_warm_up(|| num_detections = frame(&mut pipeline));
    assert!(DeviceMemory::of(&stream).is_as(&before), "{before:?}");
    assert_eq!(num_allocations, 0);
    assert!(num_detections > 20, "{num_detections} detections");
}

#[test]
fn a_frame_of_a_view_decoder_allocates_nothing() {
    let [detr3d, sparse4d] = [
        (
            view_networks::detr3d(&view_networks::detr3d_facts()),
            ViewDecoder::Detr3d(view_networks::detr3d_facts()),
        ),
        (
            view_networks::sparse4d(&view_networks::sparse4d_facts()),
            ViewDecoder::Sparse4d(view_networks::sparse4d_facts()),
        ),
    ];
    let params = QueryDecode {
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(0.1, 3),
        yaw_norm_thresholds: Vec::new(),
        center_range: None,
    };
    let motion = Motion {
        interval_s: 0.1,
        current_from_past: [[1.0, 0.0, 0.0, -0.4], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
    };
    for (weights, facts) in [detr3d, sparse4d] {
        let network = view_decoder::parse(&weights.to_safetensors(), &facts).unwrap();
        let mut decoder = CpuViewDecoder::new(&network);
        let (views, maps) = (view_networks::two_views(), view_networks::two_maps(1));
        let mut workspace = query::Workspace::new(8);
        let mut candidates = Candidates::with_capacity(8);
        let num_allocations = allocations_after_warm_up(|| {
            decoder.set_views(&views).unwrap();
            let DecodedQueries { logits, boxes, quality } =
                decoder.run(&maps, Some(&motion)).unwrap();
            let queries = query::Queries { logits, boxes, quality };
            query::decode_query(&queries, &params, &mut workspace, &mut candidates).unwrap();
            candidates.finish(usize::MAX);
        });
        assert!(!candidates.as_slice().is_empty());
        assert_eq!(num_allocations, 0, "{facts:?}");
    }
}
