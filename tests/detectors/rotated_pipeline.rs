//! A camera channel with rotated boxes, from the message to its detections: the same
//! detections and counts on both devices.

use det_post::detectors::image2d::{CpuDetector, CudaDetector};
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_ops::device::cuda::CudaDevice;
use det_post_types::{
    Count, Detection2d, Detections, Encoding, FrameReport, Header, ImagePayload, RotatedBox2d, Size,
};

use super::camera_pipeline::{Mirror, TestImage, channel, config};
use det_post_testing::random::Random;

const HEAD: &str = "yolo_obb";
const NUM_ROWS: usize = 900;

/// The same channel on both devices.
struct Pair {
    on_cpu: CpuDetector<RotatedBox2d>,
    on_gpu: CudaDetector<RotatedBox2d>,
}

impl Pair {
    fn new(device: &CudaDevice, more: &[&str]) -> Self {
        let (stream, config) = (device.stream().unwrap(), config(HEAD, more));
        let mirror = || Box::new(Mirror::new(HEAD, NUM_ROWS));
        let engine = DeviceEngine::on_host(mirror(), &stream, fixed_shape).unwrap();
        Self {
            on_cpu: CpuDetector::new(&config, mirror()).unwrap(),
            on_gpu: CudaDetector::new(&config, &stream, engine).unwrap(),
        }
    }

    /// Number of detections of an image, once both sides agree.
    fn check(&mut self, payload: &ImagePayload<'_>, context: &str) -> usize {
        let expected = detect(&mut self.on_cpu, payload);
        let found = detect(&mut self.on_gpu, payload);
        assert_eq!(found, expected, "{context}");
        found.0.len()
    }
}

/// Detections as bits, and counts.
fn detect(detector: &mut dyn Detector, payload: &ImagePayload<'_>) -> (Vec<[u32; 7]>, Vec<u64>) {
    let input = [Some(FrameInput::image(Header::default(), *payload))];
    let mut report = FrameReport::new();
    let detections = detector.detect(&FrameSet::single(&input), &mut report).unwrap();
    let Detections::RotatedBoxes2d(boxes) = detections else { panic!("not rotated") };
    let bits = |d: &Detection2d<RotatedBox2d>| {
        let RotatedBox2d { cx, cy, width, height, angle_rad } = d.bbox;
        let [cx, cy, width, height, angle] = [cx, cy, width, height, angle_rad].map(f32::to_bits);
        [d.class, d.score.to_bits(), cx, cy, width, height, angle]
    };
    (boxes.iter().map(bits).collect(), Count::ALL.map(|count| report.count(count)).to_vec())
}

#[test]
fn images_limits_and_thresholds_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(77);
    let images = [
        TestImage::new(&mut random, Size::new(98, 50), Encoding::Bgr8),
        TestImage::new(&mut random, Size::new(640, 482), Encoding::Nv12),
        TestImage::new(&mut random, Size::new(50, 400), Encoding::Mono8),
    ];
    let cases: [&[&str]; 6] = [
        &[],
        &["c.nms.kind:=none", "c.max_detections:=1000"],
        &["c.nms.class_mode:=agnostic", "c.nms.iou_threshold:=0.1"],
        &["c.max_detections:=3"],
        &["c.pre_nms_top_k:=40"],
        &["c.class_filter:=[ship, plane, harbor]", "c.score_threshold:=0.3"],
    ];
    let mut pair = Pair::new(&device, &[]);
    let mut num_detections = 0;
    for more in cases {
        let mut at_start = Pair::new(&device, more);
        let config = channel(HEAD, more);
        pair.on_cpu.reconfigure(&config).unwrap();
        pair.on_gpu.reconfigure(&config).unwrap();
        for image in images.iter().chain(&images) {
            let context = format!("{more:?} {:?}", image.size);
            let num = pair.check(&image.payload(), &context);
            assert_eq!(at_start.check(&image.payload(), &context), num, "{context}");
            num_detections += num;
        }
    }
    assert!(num_detections > 500, "{num_detections} detections");

    // A capacity holds from the start: it does not change in a running channel.
    let mut pair = Pair::new(&device, &["c.candidate_capacity:=100"]);
    for image in &images {
        assert!(pair.check(&image.payload(), "at capacity") > 0);
    }
}

#[test]
fn heads_and_detectors_have_boxes_of_one_kind() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let engine = DeviceEngine::on_host(Box::new(Mirror::new(HEAD, 10)), &stream, fixed_shape);
    assert!(<CudaDetector>::new(&config(HEAD, &[]), &stream, engine.unwrap()).is_err());
}
