//! A camera channel from the message to its detections: the same detections and
//! counts on both devices, whatever images come one after another.

use det_post::config::{CameraConfig, ChannelConfig, ChannelKind, Config, YoloFacts};
use det_post::detectors::Detector;
use det_post::detectors::image2d::{CpuDetector, CudaDetector};
use det_post::{ErrorKind, Result};
use det_post_infer::Engine;
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_ops::device::cuda::{CudaDevice, Stream};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_ops::image::letterbox::{LetterboxParams, Workspace, letterbox};
use det_post_types::{
    CompressedFormat, CompressedView, Count, Detection2d, Dim, ElementType, Encoding, ImagePayload,
    ImageView, Size, Stage, Tensor, TensorSpec, TensorValues, TensorView, Transfer,
};

use crate::common::detect::in_image;
use det_post_testing::random::Random;

const NETWORK: usize = 64;
const NUM_CLASSES: usize = 80;
const NUM_ROTATED_CLASSES: usize = 15;

/// A network whose answers are taken from the pixels of its input, so that a
/// pixel that differs shows in the detections.
pub struct Mirror {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    shape: [usize; 3],
    answer: Vec<f32>,
    is_planes: bool,
    is_rotated: bool,
}

impl Mirror {
    pub fn new(head: &str, num_rows: usize) -> Self {
        let shape = match head {
            "yolo_obb" => [1, 4 + NUM_ROTATED_CLASSES + 1, num_rows],
            "yolov8" => [1, 4 + NUM_CLASSES, num_rows],
            _ => [1, num_rows, 5 + NUM_CLASSES],
        };
        let (is_rotated, is_planes) = (head == "yolo_obb", head != "yolov5");
        let spec = |name: &str, shape: &[usize]| TensorSpec {
            name: name.into(),
            element: Some(ElementType::F32),
            shape: Some(shape.iter().map(|&n| Dim::Fixed(n)).collect()),
        };
        Self {
            inputs: vec![spec("images", &[1, 3, NETWORK, NETWORK])],
            outputs: vec![spec("output", &shape)],
            shape,
            answer: vec![0.0; shape.iter().product()],
            is_planes,
            is_rotated,
        }
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
        let TensorValues::F32(pixels) = inputs[0].values() else { panic!("not f32") };
        let [_, columns, rows] =
            if self.is_planes { self.shape } else { [1, self.shape[2], self.shape[1]] };
        for row in 0..rows {
            for column in 0..columns {
                let place =
                    if self.is_planes { column * rows + row } else { row * columns + column };
                let pixel = pixels[(row * 7919 + column * 104_729) % pixels.len()];
                // Pixels of any normalisation, as a number in [0, 1).
                let value = (pixel * 37.0).rem_euclid(1.0);
                self.answer[place] = match column {
                    0 | 1 => value * NETWORK as f32,
                    2 | 3 => 1.0 + value * 15.0,
                    _ if self.is_rotated && column + 1 == columns => 3.0 * value - 0.75,
                    _ => value,
                };
            }
        }
        Ok(())
    }

    fn output(&self, _index: usize) -> Result<TensorView<'_>> {
        TensorView::new(&self.shape, TensorValues::F32(&self.answer))
    }

    fn name(&self) -> &str {
        "mirror"
    }
}

pub fn channel(head: &str, more: &[&str]) -> ChannelConfig {
    let mut overrides = vec!["c.input:=/i".into(), format!("c.head:={head}")];
    overrides.extend(["c.model_path:=m", "c.score_threshold:=0.6"].map(String::from));
    overrides.extend(more.iter().map(|&parameter| parameter.to_owned()));
    Config::load(&[], &overrides).unwrap().channels.remove(0)
}

pub fn config(head: &str, more: &[&str]) -> CameraConfig {
    match channel(head, more).kind {
        ChannelKind::Camera(config) => *config,
        _ => panic!("a camera head"),
    }
}

/// What a network answers to an image.
fn answer_to(mirror: &mut Mirror, image: &ImageView<'_>) -> Tensor {
    let YoloFacts { placement, channel_order, normalization, pad_value, resize, .. } =
        config("yolov8", &[]).facts;
    let params = LetterboxParams { placement, channel_order, normalization, pad_value, resize };
    let mut input = Tensor::zeros(ElementType::F32, &[1, 3, NETWORK, NETWORK]).unwrap();
    letterbox(image, &params, &mut Workspace::new(), &mut input).unwrap();
    mirror.run(&[input.view()]).unwrap();
    Tensor::F32 { shape: mirror.shape.to_vec(), values: mirror.answer.clone() }
}

/// The same channel on both devices.
struct Pair {
    on_cpu: CpuDetector,
    on_gpu: CudaDetector,
    stream: Stream,
}

impl Pair {
    fn new(device: &CudaDevice, config: &CameraConfig, head: &str, num_rows: usize) -> Self {
        let stream = device.stream().unwrap();
        let mirror = || Box::new(Mirror::new(head, num_rows));
        let engine = DeviceEngine::on_host(mirror(), &stream, fixed_shape).unwrap();
        Self {
            on_cpu: CpuDetector::new(config, mirror()).unwrap(),
            on_gpu: CudaDetector::new(config, &stream, engine).unwrap(),
            stream,
        }
    }

    /// Number of detections of an image, once both sides agree.
    fn check(&mut self, payload: &ImagePayload<'_>, context: &str) -> usize {
        let expected = in_image(&mut self.on_cpu, payload).unwrap();
        let found = in_image(&mut self.on_gpu, payload).unwrap();
        for count in Count::ALL {
            let (found, expected) = (found.report.count(count), expected.report.count(count));
            assert_eq!(found, expected, "{context}: {}", count.name());
        }
        assert_eq!(bits(&found.detections), bits(&expected.detections), "{context}");
        found.detections.len()
    }
}

/// A camera channel on a stream of the GPU.
pub fn on_gpu(device: &CudaDevice) -> (CudaDetector, Stream) {
    let pair = Pair::new(device, &config("yolov8", &[]), "yolov8", 500);
    (pair.on_gpu, pair.stream)
}

pub fn bits(detections: &[Detection2d]) -> Vec<[u32; 6]> {
    let bits = |d: &Detection2d| {
        let [x1, y1, x2, y2] = [d.bbox.x1, d.bbox.y1, d.bbox.x2, d.bbox.y2].map(f32::to_bits);
        [d.class, d.score.to_bits(), x1, y1, x2, y2]
    };
    detections.iter().map(bits).collect()
}

pub struct TestImage {
    pub size: Size,
    step: usize,
    encoding: Encoding,
    data: Vec<u8>,
}

impl TestImage {
    pub fn new(random: &mut Random, size: Size, encoding: Encoding) -> Self {
        let step = encoding.row_bytes(size.width) + random.below(3) * 8;
        let data = random.bytes(step * encoding.num_rows(size.height));
        Self { size, step, encoding, data }
    }

    pub fn payload(&self) -> ImagePayload<'_> {
        let Self { size, step, encoding, ref data } = *self;
        ImagePayload::Raw(ImageView::new(size, step, encoding, false, data).unwrap())
    }
}

fn png(random: &mut Random, width: u32, height: u32, color: png::ColorType) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    let num_bytes = width as usize * height as usize * color.samples();
    writer.write_image_data(&random.bytes(num_bytes)).unwrap();
    writer.finish().unwrap();
    file
}

fn compressed(data: &[u8]) -> ImagePayload<'_> {
    ImagePayload::Compressed(CompressedView::new(CompressedFormat::Png, data))
}

/// Heads and a number of rows that their grids have.
const HEADS: [(&str, usize); 2] = [("yolov5", 900), ("yolov8", 1300)];

#[test]
fn images_of_any_kind_one_after_another() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(70);
    for (head, num_rows) in HEADS {
        let mut pair = Pair::new(&device, &config(head, &[]), head, num_rows);
        let small = Size::new(98, 50);
        let large = Size::new(640, 482);
        let sources = [
            TestImage::new(&mut random, small, Encoding::Bgr8),
            TestImage::new(&mut random, small, Encoding::Rgb8),
            TestImage::new(&mut random, large, Encoding::Nv12),
            TestImage::new(&mut random, large, Encoding::BayerGrbg8),
            TestImage::new(&mut random, small, Encoding::Mono16),
            TestImage::new(&mut random, large, Encoding::Rgba8),
            TestImage::new(&mut random, Size::new(2, 2), Encoding::Uyvy),
        ];
        let files = [
            png(&mut random, 77, 131, png::ColorType::Rgb),
            png(&mut random, 130, 40, png::ColorType::GrayscaleAlpha),
        ];
        let mut num_detections = 0;
        for round in 0..3 {
            for source in sources.iter().chain(&sources[..2]) {
                let context = format!("{head} {:?} {:?} {round}", source.size, source.encoding);
                num_detections += pair.check(&source.payload(), &context);
            }
            for file in &files {
                num_detections += pair.check(&compressed(file), head);
            }
        }
        assert!(num_detections > 1000, "{head}: {num_detections} detections");
    }
}

#[test]
fn limits_cut_and_count_alike() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(71);
    let source = TestImage::new(&mut random, Size::new(200, 120), Encoding::Bgr8);
    let cases: [&[&str]; 7] = [
        &["c.candidate_capacity:=100"],
        &["c.candidate_capacity:=1"],
        &["c.pre_nms_top_k:=50"],
        &["c.pre_nms_top_k:=5000"],
        &["c.max_detections:=3"],
        &["c.class_filter:=[person, car, dog]", "c.pre_nms_top_k:=4", "c.candidate_capacity:=300"],
        &["c.nms.class_mode:=agnostic", "c.nms.iou_threshold:=0.0", "c.nms.offset:=1"],
    ];
    for (head, num_rows) in HEADS {
        for more in cases {
            let mut pair = Pair::new(&device, &config(head, more), head, num_rows);
            let num_detections = pair.check(&source.payload(), &format!("{head} {more:?}"));
            assert!(num_detections > 0, "{head} {more:?}");
        }
    }
}

#[test]
fn thresholds_change_between_frames_without_new_memory() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(72);
    let source = TestImage::new(&mut random, Size::new(200, 120), Encoding::Bgr8);
    for (head, num_rows) in HEADS {
        let mut pair = Pair::new(&device, &config(head, &[]), head, num_rows);
        pair.check(&source.payload(), head);
        let num_allocations = pair.stream.num_allocations();
        let thresholds: [&[&str]; 4] = [
            &["c.score_threshold:=0.9"],
            &["c.class_filter:=[person, cat]"],
            &["c.nms.iou_threshold:=0.1", "c.nms.class_mode:=agnostic"],
            &[],
        ];
        for more in thresholds {
            let config = channel(head, more);
            pair.on_cpu.reconfigure(&config).unwrap();
            pair.on_gpu.reconfigure(&config).unwrap();
            pair.check(&source.payload(), &format!("{head} {more:?}"));
        }
        assert_eq!(pair.stream.num_allocations(), num_allocations);
        for more in [&["c.pre_nms_top_k:=30"], &["c.max_detections:=2"]] {
            let config = channel(head, more);
            pair.on_cpu.reconfigure(&config).unwrap();
            pair.on_gpu.reconfigure(&config).unwrap();
            pair.check(&source.payload(), &format!("{head} {more:?}"));
        }
    }
}

#[test]
fn a_bad_image_leaves_the_channel_usable() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(73);
    let mut pair = Pair::new(&device, &config("yolov8", &[]), "yolov8", 500);
    let file = png(&mut random, 77, 131, png::ColorType::Rgb);
    let expected = pair.check(&compressed(&file), "before");
    for _ in 0..2 {
        let error = in_image(&mut pair.on_gpu, &compressed(&file[..file.len() / 2])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Codec);
        assert_eq!(pair.check(&compressed(&file), "after"), expected);
    }
}

#[test]
fn a_frame_moves_its_bytes_once_and_waits_once() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(74);
    let source = TestImage::new(&mut random, Size::new(320, 200), Encoding::Bgr8);
    let mut pair = Pair::new(&device, &config("yolov8", &[]), "yolov8", 500);
    for _ in 0..2 {
        pair.check(&source.payload(), "warm-up");
    }
    let before = pair.stream.num_waits();
    let processed = in_image(&mut pair.on_gpu, &source.payload()).unwrap();
    let num_waits = pair.stream.num_waits() - before;
    // One for the answer, one by the engine on the CPU for its input.
    assert_eq!(num_waits, 2);
    let expected = bits(&processed.detections);
    let bytes = |stage, transfer| processed.report.bytes(stage, transfer);
    let num_bytes = source.data.len() as u64;
    assert_eq!(bytes(Stage::Upload, Transfer::HostCopy), num_bytes);
    assert_eq!(bytes(Stage::Upload, Transfer::Upload), num_bytes);
    assert_eq!(bytes(Stage::Letterbox, Transfer::Upload), 0);
    let answer = bytes(Stage::Postprocess, Transfer::Download);
    // What was gathered, the counters and detections, and from the suppression a
    // count and survivors.
    let num_detections = processed.detections.len() as u64;
    let survivors = answer - (12 + 4 * Count::ALL.len() as u64 + 24 * num_detections);
    assert!(survivors.is_multiple_of(8) && survivors / 8 > num_detections, "{answer} bytes");
    for stage in [Stage::Upload, Stage::Letterbox, Stage::Infer, Stage::Postprocess] {
        let duration = processed.report.duration(stage);
        assert!(duration.is_some_and(|d| !d.is_zero()), "{}: {duration:?}", stage.name());
    }

    // The same answers without an engine on the CPU: one wait in all, or none when the frame is
    // complete before the host asks.
    let ImagePayload::Raw(image) = source.payload() else { panic!("pixels") };
    let mut mirror = Mirror::new("yolov8", 500);
    let stream = &pair.stream;
    let answer = answer_to(&mut mirror, &image);
    let engine = DeviceEngine::fixed(stream, mirror.inputs, &[("output", &answer)]).unwrap();
    let mut pipeline = <CudaDetector>::new(&config("yolov8", &[]), stream, engine).unwrap();
    in_image(&mut pipeline, &source.payload()).unwrap();
    let before = stream.num_waits();
    let processed = in_image(&mut pipeline, &source.payload()).unwrap();
    assert!(stream.num_waits() - before <= 1);
    assert_eq!(bits(&processed.detections), expected);
    let num_moved = |transfer| processed.report.bytes(Stage::Infer, transfer);
    assert_eq!(Transfer::ALL.map(num_moved), [0; 3]);

    // Live, out of page-locked memory, one wait as well.
    let mut memory = PayloadMemory::of(&Device::Cuda(device));
    memory.copy_from(image.data());
    let (size, step, encoding) = (image.size(), image.step(), image.encoding());
    let live = ImageView::new(size, step, encoding, false, memory.bytes()).unwrap();
    let before = stream.num_waits();
    let processed = in_image(&mut pipeline, &ImagePayload::Raw(live)).unwrap();
    assert!(stream.num_waits() - before <= 1);
    assert_eq!(bits(&processed.detections), expected);
    assert_eq!(processed.report.bytes(Stage::Upload, Transfer::HostCopy), 0);
}

#[test]
fn every_suppression_and_a_change_between_them() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(75);
    let source = TestImage::new(&mut random, Size::new(200, 120), Encoding::Bgr8);
    let mut pair = Pair::new(&device, &config("yolov8", &[]), "yolov8", 700);
    for kind in ["iou", "none", "fast", "soft_linear", "soft_gaussian", "iou"] {
        let nms = format!("c.nms.kind:={kind}");
        let more = [nms.as_str(), "c.max_detections:=1000"];
        let config = channel("yolov8", &more);
        pair.on_cpu.reconfigure(&config).unwrap();
        pair.on_gpu.reconfigure(&config).unwrap();
        assert!(pair.check(&source.payload(), kind) > 20, "{kind}");
        let mut at_start = Pair::new(&device, &self::config("yolov8", &more), "yolov8", 700);
        assert!(at_start.check(&source.payload(), kind) > 20, "{kind}");
    }
}

#[test]
fn an_engine_of_another_stream_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let mirror = Box::new(Mirror::new("yolov8", 100));
    let engine = DeviceEngine::on_host(mirror, &other, fixed_shape).unwrap();
    let config = config("yolov8", &[]);
    let error = <CudaDetector>::new(&config, &stream, engine).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Device);
}
