//! Decoding of heads with several tensors, with logits, and with final answers:
//! the same candidates, in any order.

use det_post_ops::decode::yolo::cuda::{Selection, Workspace};
use det_post_ops::decode::yolo::decode_yolo;
use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, DeviceValues, Stream};
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    AnchorLevel, Box2d, Candidate, Candidates, Count, DetrBoxes, DetrClasses, ElementType, Size,
    Tensor, YoloLayout,
};
use half::f16;

use det_post_testing::bounds::bound;
use det_post_testing::random::Random;

/// Room for all rows of every head here.
const CAPACITY: usize = 40_000;
const SIZE: Size = Size::new(640, 384);

/// Rows with a NaN score; rows that pass and are no boxes, or of a class that is none.
type Counts = [u64; 3];

struct Problem {
    layout: YoloLayout,
    num_classes: usize,
    tensors: Vec<Tensor>,
}

impl Problem {
    /// The candidates, and what was counted.
    fn reference(&self, threshold: f32) -> (Vec<Candidate<Box2d>>, Counts) {
        let mut candidates = Candidates::with_capacity(CAPACITY);
        let outputs: Vec<_> = self.tensors.iter().map(|tensor| tensor.view()).collect();
        let Self { layout, num_classes, .. } = self;
        decode_yolo(&outputs, layout, SIZE, *num_classes, threshold, &mut candidates).unwrap();
        let counts = [
            candidates.num_nan_scores(),
            candidates.num_invalid_boxes(),
            candidates.num_unknown_classes(),
        ];
        (candidates.as_slice().to_vec(), counts.map(|num| num as u64))
    }

    fn workspace(&self, stream: &Stream) -> det_post_types::Result<Workspace> {
        let shapes: Vec<&[usize]> = self.tensors.iter().map(|tensor| tensor.shape()).collect();
        Workspace::new(stream, &self.layout, SIZE, self.num_classes, &shapes)
    }

    fn on_device(&self, device: &CudaDevice, threshold: f32) -> (Vec<Candidate<Box2d>>, Counts) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let mut workspace = self.workspace(&stream).unwrap();
        let mut candidates = DeviceCandidates::with_capacity(&stream, CAPACITY).unwrap();
        let tensors: Vec<_> = self.tensors.iter().map(|tensor| upload(&stream, tensor)).collect();
        let outputs: Vec<_> = tensors.iter().collect();
        workspace
            .set(&Selection {
                score_threshold: threshold,
                class_filter: &[],
                candidate_capacity: CAPACITY,
                pre_nms_top_k: CAPACITY,
            })
            .unwrap();
        let (mut answer, mut counts) = (Vec::new(), Counts::default());
        for _ in 0..2 {
            workspace.enqueue(&outputs, &mut candidates, &mut counters).unwrap();
            let num = candidates.num.read().unwrap()[0] as usize;
            answer = candidates.items.read().unwrap();
            assert!(num <= answer.len(), "{num} candidates");
            answer.truncate(num);
            let report = counters.take().unwrap();
            let all = [Count::ScoresNan, Count::BoxesInvalid, Count::ClassesUnknown];
            counts = all.map(|count| report.count(count));
        }
        (answer, counts)
    }

    fn check(&self, device: &CudaDevice, threshold: f32) {
        let ((mut found, counts), (mut expected, expected_counts)) =
            (self.on_device(device, threshold), self.reference(threshold));
        found.sort_by_key(|c| (c.source, c.class));
        expected.sort_by_key(|c| (c.source, c.class));
        let shapes: Vec<_> = self.tensors.iter().map(|tensor| tensor.shape()).collect();
        let context = format!("{:?} {shapes:?}, threshold {threshold}", self.layout);
        assert_eq!((found.len(), counts), (expected.len(), expected_counts), "{context}");
        for (a, b) in found.iter().zip(&expected) {
            let equal = (a.class, a.source) == (b.class, b.source) && self.is_near(a, b);
            assert!(equal, "{context}: {a:?}, expected {b:?}");
        }
    }

    /// Equal, but within the bounds of docs/numerics.md where a sigmoid occurs.
    fn is_near(&self, a: &Candidate<Box2d>, b: &Candidate<Box2d>) -> bool {
        let corners = |c: &Candidate<Box2d>| [c.bbox.x1, c.bbox.y1, c.bbox.x2, c.bbox.y2];
        let part = match self.layout {
            YoloLayout::V5Raw { .. } => "YOLOv5, raw",
            YoloLayout::Detr { logits: true, .. } => "DETR, logits",
            _ => "",
        };
        let scores_agree = match part {
            "" => a.score.to_bits() == b.score.to_bits(),
            _ => bound("decode/yolo", part, "score").holds(a.score, b.score, 0.0),
        };
        let (a, b) = (corners(a), corners(b));
        let side = (b[2] - b[0]).abs().max((b[3] - b[1]).abs());
        let corners_agree = match self.layout {
            YoloLayout::V5Raw { .. } => {
                let bound = bound("decode/yolo", part, "corner");
                a.into_iter().zip(b).all(|(a, b)| bound.holds(a, b, side))
            }
            _ => a.map(f32::to_bits) == b.map(f32::to_bits),
        };
        scores_agree && corners_agree
    }
}

pub fn upload(stream: &Stream, tensor: &Tensor) -> DeviceTensor {
    let element = match tensor {
        Tensor::F16 { .. } => ElementType::F16,
        _ => ElementType::F32,
    };
    let mut on_device = DeviceTensor::zeros(stream, element, tensor.shape()).unwrap();
    match (on_device.values_mut(), tensor) {
        (DeviceValues::F32(to), Tensor::F32 { values, .. }) => to.write(values).unwrap(),
        (DeviceValues::F16(to), Tensor::F16 { values, .. }) => to.write(values).unwrap(),
        _ => unreachable!("of the same element"),
    }
    on_device
}

/// A tensor of numbers that `number` makes, some of them broken.
fn tensor(
    random: &mut Random,
    shape: &[usize],
    half: bool,
    mut number: impl FnMut(&mut Random, usize) -> f32,
) -> Tensor {
    let broken = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 3e38, -1.0];
    let values: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|i| match random.below(300) {
            0 => broken[random.below(broken.len())],
            _ => number(random, i),
        })
        .collect();
    let shape = shape.to_vec();
    if half {
        let values = values.into_iter().map(f16::from_f32).collect();
        return Tensor::F16 { shape, values };
    }
    Tensor::F32 { shape, values }
}

const THRESHOLDS: [f32; 5] = [-1.0, 0.05, 0.3, 0.9, 2.0];

#[test]
fn raw_levels_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(80);
    for half in [false, true] {
        for num_classes in [1, 3, 80] {
            let levels: Vec<AnchorLevel> = [(8, 3), (16, 2), (32, 3)]
                .map(|(stride, num)| AnchorLevel {
                    stride,
                    anchors: (1..=num).map(|a| [3.5 * a as f32, 1.5 * stride as f32]).collect(),
                })
                .to_vec();
            let mut tensors = Vec::new();
            for (position, level) in levels.iter().enumerate() {
                let (columns, lines) = (640 / level.stride as usize, 384 / level.stride as usize);
                let (num, length) = (level.anchors.len(), 5 + num_classes);
                let shape = if position == 1 {
                    vec![1, num, lines, columns, length]
                } else {
                    vec![1, num * length, lines, columns]
                };
                tensors.push(tensor(&mut random, &shape, half, |r, _| r.range(-6.0, 3.0)));
            }
            let problem = Problem { layout: YoloLayout::V5Raw { levels }, num_classes, tensors };
            THRESHOLDS.iter().for_each(|&threshold| problem.check(&device, threshold));
        }
    }
}

#[test]
fn final_answers_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(81);
    for half in [false, true] {
        for num_rows in [0, 1, 31, 300, 1000] {
            let tensors = vec![tensor(&mut random, &[1, num_rows, 6], half, |r, i| match i % 6 {
                4 => r.range(0.0, 1.0),
                5 => r.range(-0.9, 10.9),
                _ => r.range(-20.0, 660.0),
            })];
            let problem = Problem { layout: YoloLayout::EndToEnd, num_classes: 10, tensors };
            THRESHOLDS.iter().for_each(|&threshold| problem.check(&device, threshold));
        }
    }
}

#[test]
fn detr_boxes_scores_and_labels_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(82);
    for half in [false, true] {
        for num_rows in [0, 1, 33, 300] {
            for num_classes in [1, 31, 80] {
                for logits in [false, true] {
                    for boxes in [DetrBoxes::CenterNormalized, DetrBoxes::CornerPixels] {
                        let classes = DetrClasses::Best;
                        let layout = YoloLayout::Detr { boxes, logits, classes };
                        let side = if boxes == DetrBoxes::CornerPixels { 640.0 } else { 1.0 };
                        let low = if logits { -5.0 } else { 0.0 };
                        let mut make = |shape: &[usize], low, high| {
                            tensor(&mut random, shape, half, |r, _| r.range(low, high))
                        };
                        let corners = make(&[1, num_rows, 4], 0.0, side);
                        let scores = make(&[1, num_rows, num_classes], low, 1.0);
                        let best = make(&[1, num_rows], low, 1.0);
                        let labels = make(&[1, num_rows], -0.5, num_classes as f32 + 0.5);
                        for tensors in [vec![corners.clone(), scores], vec![corners, best, labels]]
                        {
                            let problem = Problem { layout: layout.clone(), num_classes, tensors };
                            for threshold in THRESHOLDS {
                                problem.check(&device, threshold);
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_class_of_a_detr_row_agrees() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(83);
    // Blocks have 8 rows; 91 classes make several rounds of a block.
    for (num_rows, num_classes) in [(0, 3), (1, 1), (7, 3), (8, 91), (33, 31), (300, 91)] {
        for (half, logits) in [(false, false), (false, true), (true, false), (true, true)] {
            let classes = DetrClasses::All;
            let layout = YoloLayout::Detr { boxes: DetrBoxes::CenterNormalized, logits, classes };
            let low = if logits { -5.0 } else { 0.0 };
            let boxes = tensor(&mut random, &[1, num_rows, 4], half, |r, _| r.range(-0.02, 1.0));
            let shape = [1, num_rows, num_classes];
            let scores = tensor(&mut random, &shape, half, |r, _| match r.below(50) {
                0 => f32::NAN,
                _ => r.range(low, 1.0),
            });
            let problem = Problem { layout, num_classes, tensors: vec![boxes, scores] };
            THRESHOLDS.iter().for_each(|&threshold| problem.check(&device, threshold));
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let refused = |layout: YoloLayout, shapes: &[&[usize]]| {
        assert!(
            <Workspace>::new(&stream, &layout, SIZE, 3, shapes).is_err(),
            "{layout:?} {shapes:?}"
        );
    };
    let level = |stride| AnchorLevel { stride, anchors: vec![[1.0, 1.0]; 2] };
    let raw = YoloLayout::V5Raw { levels: vec![level(16), level(32)] };
    refused(raw.clone(), &[&[1, 16, 24, 40]]);
    refused(raw.clone(), &[&[1, 16, 24, 40], &[1, 16, 12, 21]]);
    refused(raw.clone(), &[&[1, 2, 24, 40, 8], &[1, 2, 12, 20, 9]]);
    assert!(
        <Workspace>::new(&stream, &raw, SIZE, 3, &[&[1, 16, 24, 40], &[1, 2, 12, 20, 8]]).is_ok()
    );
    refused(YoloLayout::V5Raw { levels: vec![level(7)] }, &[&[1, 16, 24, 40]]);
    refused(YoloLayout::V5Raw { levels: vec![] }, &[]);
    refused(YoloLayout::EndToEnd, &[&[1, 9, 7]]);
    let detr =
        |classes| YoloLayout::Detr { boxes: DetrBoxes::CornerPixels, logits: false, classes };
    refused(detr(DetrClasses::All), &[&[1, 9, 4], &[1, 8, 3]]);
    refused(detr(DetrClasses::All), &[&[1, 2_000_000, 4], &[1, 2_000_000, 3]]);
    let detr = detr(DetrClasses::Best);
    refused(detr.clone(), &[&[1, 9, 4]]);
    refused(detr.clone(), &[&[1, 9, 4], &[1, 9, 4]]);
    refused(detr.clone(), &[&[1, 9, 4], &[1, 9], &[1, 8]]);
    refused(detr, &[&[1, 9, 4], &[1, 8, 3]]);
}
