//! Camera channels of networks with a final box in a row, from the message to the detections: the
//! same on both devices, also where the number of rows differs between frames and labels are
//! integers.

use det_post::detectors::image2d::{CpuDetector, CudaDetector, DeviceBoxes};
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post::{ErrorKind, Result};
use det_post_infer::Engine;
use det_post_infer::device::{DeviceEngine, StagedOutput, fixed_shape};
use det_post_ops::device::cuda::CudaDevice;
use det_post_types::{
    Box2d, Count, Detections, Dim, ElementType, Encoding, FrameReport, Header, RotatedBox2d, Size,
    Stage, TensorSpec, TensorValues, TensorView, Transfer,
};

use super::camera_pipeline::{TestImage, channel, config};
use det_post_testing::random::Random;

const NETWORK: usize = 64;

/// How many rows a network gives.
#[derive(Clone, Copy)]
enum NumRows {
    /// As many in every frame: the file states it.
    Fixed(usize),
    /// From 0 to this, by the image; none for an image of zeros.
    UpTo(usize),
}

/// A network whose rows are taken from the pixels of its input.
struct Rows {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    head: &'static str,
    num_rows: NumRows,
    shape: Vec<usize>,
    values: Vec<f32>,
    labels_shape: [usize; 2],
    labels: Vec<i64>,
}

impl Rows {
    fn new(head: &'static str, num_rows: NumRows) -> Self {
        let rows = match num_rows {
            NumRows::Fixed(num) => Dim::Fixed(num),
            NumRows::UpTo(_) => Dim::Dynamic,
        };
        let of = |name: &str, element, dims: &[Dim]| TensorSpec {
            name: name.into(),
            element: Some(element),
            shape: Some(dims.to_vec()),
        };
        let (one, float) = (Dim::Fixed(1), ElementType::F32);
        let outputs = match head {
            "mmdeploy" => vec![
                of("dets", float, &[one.clone(), rows.clone(), Dim::Fixed(5)]),
                of("labels", ElementType::I64, &[one, rows]),
            ],
            "yolov7_end2end" => vec![of("output", float, &[rows, Dim::Fixed(7)])],
            _ => vec![of("output0", float, &[one, rows, Dim::Fixed(7)])],
        };
        let image = [1, 3, NETWORK, NETWORK].map(Dim::Fixed);
        Self {
            inputs: vec![of("images", float, &image)],
            outputs,
            head,
            num_rows,
            shape: Vec::new(),
            values: Vec::new(),
            labels_shape: [1, 0],
            labels: Vec::new(),
        }
    }

    /// The numbers of a row, by their column.
    fn row(&self, number: impl Fn(usize) -> f32) -> Vec<f32> {
        let side = NETWORK as f32;
        let (x, y) = (number(0) * side, number(1) * side);
        let (width, height) = (number(2) * 16.0 - 0.5, number(3) * 16.0 - 0.5);
        let (score, class) = (number(4), (number(5) * 20.0).floor() - 1.0);
        match self.head {
            "yolo26_obb" => vec![x, y, width, height, score, class, 3.0 * number(6) - 0.75],
            "yolov7_end2end" => vec![0.0, x, y, x + width, y + height, class, score],
            _ => vec![x, y, x + width, y + height, score],
        }
    }
}

impl Engine for Rows {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        let TensorValues::F32(pixels) = inputs[0].values() else { panic!("not f32") };
        // Pixels of any normalization, as a number in [0, 1).
        let number = |place: usize| (pixels[place % pixels.len()] * 37.0).rem_euclid(1.0);
        let num_rows = match self.num_rows {
            NumRows::Fixed(num) => num,
            NumRows::UpTo(num) => (number(NETWORK * NETWORK / 2) * num as f32) as usize,
        };
        self.values.clear();
        self.labels.clear();
        for row in 0..num_rows {
            let numbers = self.row(|column| number(row * 7919 + column * 104_729));
            self.values.extend(numbers);
            self.labels.push((number(row * 7919 + 11) * 90.0) as i64 - 4);
        }
        self.labels_shape = [1, num_rows];
        self.shape = match self.head {
            "yolov7_end2end" => vec![num_rows, 7],
            "mmdeploy" => vec![1, num_rows, 5],
            _ => vec![1, num_rows, 7],
        };
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        match index {
            0 => TensorView::new(&self.shape, TensorValues::F32(&self.values)),
            _ => TensorView::new(&self.labels_shape, TensorValues::I64(&self.labels)),
        }
    }

    fn name(&self) -> &str {
        "rows"
    }
}

/// The same channel on both devices.
struct Pair<B: DeviceBoxes> {
    on_cpu: CpuDetector<B>,
    on_gpu: CudaDetector<B>,
}

type Answer = (Vec<Vec<u32>>, Vec<u64>);

impl<B: DeviceBoxes> Pair<B> {
    fn new(device: &CudaDevice, head: &'static str, num_rows: NumRows, more: &[&str]) -> Self {
        let (stream, config) = (device.stream().unwrap(), config(head, more));
        let rows = || Box::new(Rows::new(head, num_rows));
        let engine = DeviceEngine::on_host(rows(), &stream, fixed_shape).unwrap();
        Self {
            on_cpu: CpuDetector::new(&config, rows()).unwrap(),
            on_gpu: CudaDetector::new(&config, &stream, engine).unwrap(),
        }
    }

    /// The answer to an image, once both sides agree.
    fn check(&mut self, image: &TestImage, context: &str) -> Answer {
        let expected = detect(&mut self.on_cpu, image, &mut FrameReport::new()).unwrap();
        let found = detect(&mut self.on_gpu, image, &mut FrameReport::new()).unwrap();
        assert_eq!(found, expected, "{context}");
        found
    }
}

/// Detections as bits, and counts.
fn detect(
    detector: &mut dyn Detector,
    image: &TestImage,
    report: &mut FrameReport,
) -> Result<Answer> {
    let input = [Some(FrameInput::image(Header::default(), image.payload()))];
    let detections = match detector.detect(&FrameSet::single(&input), report)? {
        Detections::Boxes2d(found) => {
            let numbers = |b: Box2d| vec![b.x1, b.y1, b.x2, b.y2];
            found.iter().map(|d| bits(d.class, d.score, numbers(d.bbox))).collect()
        }
        Detections::RotatedBoxes2d(found) => {
            let numbers = |b: RotatedBox2d| vec![b.cx, b.cy, b.width, b.height, b.angle_rad];
            found.iter().map(|d| bits(d.class, d.score, numbers(d.bbox))).collect()
        }
        _ => panic!("no boxes in an image"),
    };
    Ok((detections, Count::ALL.map(|count| report.count(count)).to_vec()))
}

fn bits(class: u32, score: f32, numbers: Vec<f32>) -> Vec<u32> {
    [class, score.to_bits()].into_iter().chain(numbers.into_iter().map(f32::to_bits)).collect()
}

fn images(seed: u64) -> Vec<TestImage> {
    let mut random = Random::new(seed);
    let sizes = [(98, 50), (640, 482), (50, 400), (64, 64), (200, 120), (333, 90)];
    sizes
        .into_iter()
        .flat_map(|(width, height)| {
            [(width, height, Encoding::Bgr8), (width, height, Encoding::Mono8)]
        })
        .map(|(width, height, encoding)| {
            TestImage::new(&mut random, Size::new(width, height), encoding)
        })
        .collect()
}

/// Images, limits, thresholds and changes between them.
fn agrees<B: DeviceBoxes>(head: &'static str, num_rows: NumRows, classes: &str) {
    let Some(device) = det_post_testing::gpu() else { return };
    let filter = format!("c.class_filter:={classes}");
    let cases: [&[&str]; 6] = [
        &[],
        &["c.score_threshold:=0.0", "c.max_detections:=1000"],
        &["c.max_detections:=3"],
        &["c.pre_nms_top_k:=20"],
        &[filter.as_str(), "c.score_threshold:=0.1"],
        &["c.score_threshold:=1.0"],
    ];
    let images = images(78);
    let mut pair = Pair::<B>::new(&device, head, num_rows, &[]);
    let (mut num_detections, mut counted) = (0, vec![0; Count::ALL.len()]);
    for more in cases {
        let mut at_start = Pair::<B>::new(&device, head, num_rows, more);
        let config = channel(head, more);
        pair.on_cpu.reconfigure(&config).unwrap();
        pair.on_gpu.reconfigure(&config).unwrap();
        for (index, image) in images.iter().chain(&images).enumerate() {
            let context = format!("{head} {more:?} image {index}");
            let found = pair.check(image, &context);
            assert_eq!(at_start.check(image, &context), found, "{context}");
            num_detections += found.0.len();
            counted.iter_mut().zip(found.1).for_each(|(all, num)| *all += num);
        }
    }
    assert!(num_detections > 200, "{head}: {num_detections} detections");
    for needed in [Count::BoxesInvalid, Count::ClassesUnknown, Count::DetectionsOverLimit] {
        let place = Count::ALL.iter().position(|&count| count == needed).unwrap();
        assert!(counted[place] > 0, "{head}: {} was never counted", needed.name());
    }
    // A capacity holds from the start: it does not change in a running channel.
    let mut pair = Pair::<B>::new(&device, head, num_rows, &["c.candidate_capacity:=5"]);
    let at_capacity = |image| pair.check(image, "at capacity").0.len();
    assert!(images.iter().map(at_capacity).max().unwrap() > 2, "{head}");
}

#[test]
fn yolo26_obb_rows_agree() {
    agrees::<RotatedBox2d>("yolo26_obb", NumRows::Fixed(300), "[ship, plane, harbor]");
}

#[test]
fn yolov7_end2end_rows_agree() {
    agrees::<Box2d>("yolov7_end2end", NumRows::UpTo(300), "[person, car, dog]");
    agrees::<Box2d>("yolov7_end2end", NumRows::Fixed(100), "[person, car, dog]");
}

#[test]
fn mmdeploy_rows_agree() {
    agrees::<Box2d>("mmdeploy", NumRows::UpTo(300), "[person, car, dog]");
    agrees::<Box2d>("mmdeploy", NumRows::Fixed(100), "[person, car, dog]");
}

#[test]
fn more_rows_than_a_gpu_reads_fail_that_frame() {
    let Some(device) = det_post_testing::gpu() else { return };
    let max = StagedOutput::MAX_ROWS;
    let images = images(79);
    for head in ["yolov7_end2end", "mmdeploy"] {
        let mut pair = Pair::<Box2d>::new(&device, head, NumRows::UpTo(2 * max), &[]);
        let mut num_failed = 0;
        for (index, image) in images.iter().enumerate() {
            let mut report = FrameReport::new();
            match detect(&mut pair.on_gpu, image, &mut report) {
                Ok(_) => {
                    pair.check(image, &format!("{head} image {index}"));
                    assert!(report.bytes(Stage::Infer, Transfer::Upload) > 0);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Inference);
                    assert!(error.message().contains("a GPU reads up to"), "{error}");
                    num_failed += 1;
                }
            }
        }
        assert!(num_failed > 0 && num_failed < images.len(), "{head}: {num_failed} failed");
    }
}
