//! Decoding of layouts with a final box in a row: the same candidates as on the CPU, with the
//! same limits, and the same counts of what was lost.

use det_post_ops::decode::select::select;
use det_post_ops::decode::yolo::cuda::{Selection, Workspace};
use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, Graph};
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_testing::random::Random;
use det_post_types::{
    Box2d, Candidate, Candidates, Count, FrameReport, RotatedBox2d, Size, Tensor, YoloLayout,
    total_order,
};
use half::f16;

use super::decode_yolo::{Boxes, all, bits};
use super::decode_yolo_outputs::upload;

const NETWORK: Size = Size::new(640, 384);
const NUM_CLASSES: usize = 10;
const NUM_ROWS: [usize; 8] = [0, 1, 31, 255, 256, 257, 300, 1500];
const THRESHOLDS: [f32; 7] = [-1.0, 0.0, 0.25, 0.9, 2.0, f32::NAN, f32::INFINITY];

struct Problem {
    layout: YoloLayout,
    tensors: Vec<Tensor>,
}

impl Problem {
    /// A tensor of so many rows, and labels where the layout has them. `number` gives the numbers
    /// of a box from 0, then the score, the class or label, and the angle.
    fn new(
        layout: &YoloLayout,
        num_rows: usize,
        half: bool,
        mut number: impl FnMut(usize, usize) -> f32,
    ) -> Self {
        let rows = layout.final_rows().unwrap();
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        for row in 0..num_rows {
            for column in 0..rows.num_columns {
                let of_box = column.checked_sub(rows.first_of_box).filter(|&i| i < 4);
                values.push(match of_box {
                    Some(i) => number(row, i),
                    None if column == rows.score => number(row, SCORE),
                    None if Some(column) == rows.class => number(row, CLASS),
                    None if Some(column) == rows.angle => number(row, ANGLE),
                    // The image's index, which is not read.
                    None => f32::NAN,
                });
            }
            if rows.class.is_none() {
                labels.push(number(row, CLASS));
            }
        }
        let tensor = |shape: Vec<usize>, values: Vec<f32>| match half {
            true => Tensor::F16 { shape, values: values.into_iter().map(f16::from_f32).collect() },
            false => Tensor::F32 { shape, values },
        };
        let shape = match rows.has_batch {
            true => vec![1, num_rows, rows.num_columns],
            false => vec![num_rows, rows.num_columns],
        };
        let mut tensors = vec![tensor(shape, values)];
        if rows.class.is_none() {
            tensors.push(tensor(vec![1, num_rows], labels));
        }
        Self { layout: layout.clone(), tensors }
    }

    /// Rows of any kind, some of them broken; `num_scores`: different scores, 0 for any.
    fn random(
        layout: &YoloLayout,
        num_rows: usize,
        half: bool,
        num_scores: usize,
        random: &mut Random,
    ) -> Self {
        let broken = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 3e38, -1.0];
        Self::new(layout, num_rows, half, |_, number| {
            if random.below(60) == 0 {
                return broken[random.below(broken.len())];
            }
            match number {
                SCORE if num_scores > 0 => {
                    (1 + random.below(num_scores)) as f32 / num_scores as f32
                }
                SCORE => random.range(0.0, 1.0),
                // Also below 0, beyond the classes, and between two of them.
                CLASS => random.range(-1.5, NUM_CLASSES as f32 + 0.9),
                ANGLE => random.range(-7.0, 7.0),
                // Few of the boxes are reversed.
                0 | 1 => random.range(0.0, 330.0),
                _ => random.range(300.0, 640.0),
            }
        })
    }

    /// Rows that all pass, of a valid box.
    fn valid(layout: &YoloLayout, num_rows: usize, half: bool) -> Self {
        Self::new(layout, num_rows, half, valid)
    }

    /// As the camera's frame does it: decoded, filtered, selected.
    fn reference<B: Boxes>(&self, selection: &Selection<'_>) -> (Vec<Candidate<B>>, FrameReport) {
        let outputs: Vec<_> = self.tensors.iter().map(Tensor::view).collect();
        let (layout, threshold) = (&self.layout, selection.score_threshold);
        let capacity = selection.candidate_capacity.min(1 << 16);
        let mut candidates = Candidates::with_capacity(capacity);
        B::DECODE(&outputs, layout, NETWORK, NUM_CLASSES, threshold, &mut candidates).unwrap();
        candidates.finish(usize::MAX);
        if !selection.class_filter.is_empty() {
            candidates.retain(|c| selection.class_filter.contains(&c.class));
        }
        let cut = select(&mut candidates, selection.pre_nms_top_k);
        let mut counts = FrameReport::new();
        cut.add_to(&mut counts);
        (candidates.as_slice().to_vec(), counts)
    }

    /// Queued, then twice as a recorded graph; all three must agree.
    fn on_device<B: Boxes>(
        &self,
        device: &CudaDevice,
        selection: &Selection<'_>,
    ) -> (Vec<Candidate<B>>, FrameReport) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let shapes: Vec<_> = self.tensors.iter().map(Tensor::shape).collect();
        let mut workspace =
            Workspace::<B>::new(&stream, &self.layout, NETWORK, NUM_CLASSES, &shapes).unwrap();
        workspace.set(selection).unwrap();
        let tensors: Vec<_> = self.tensors.iter().map(|tensor| upload(&stream, tensor)).collect();
        let outputs: Vec<&DeviceTensor> = tensors.iter().collect();
        let room = selection.candidate_capacity.min(selection.pre_nms_top_k).clamp(1, 1 << 16);
        let mut candidates = DeviceCandidates::with_capacity(&stream, room).unwrap();
        let read = |candidates: &DeviceCandidates<B>, counters: &mut DeviceCounters| {
            let num = candidates.num.read().unwrap()[0] as usize;
            let mut items = candidates.items.read().unwrap();
            assert!(num <= items.len(), "{num} candidates, room for {}", items.len());
            items.truncate(num);
            items.sort_by(total_order);
            (items, counters.take().unwrap())
        };
        workspace.enqueue(&outputs, &mut candidates, &mut counters).unwrap();
        let (answer, counts): (Vec<Candidate<B>>, _) = read(&candidates, &mut counters);
        let graph =
            Graph::capture(&stream, || workspace.enqueue(&outputs, &mut candidates, &mut counters))
                .unwrap();
        for _ in 0..2 {
            graph.enqueue().unwrap();
            let (again, counts_again) = read(&candidates, &mut counters);
            assert!(again.iter().map(bits).eq(answer.iter().map(bits)), "a second run differs");
            assert_eq!(counts_again, counts);
        }
        (answer, counts)
    }

    fn check_boxes<B: Boxes + std::fmt::Debug>(
        &self,
        device: &CudaDevice,
        selection: &Selection<'_>,
    ) -> (usize, FrameReport) {
        let (expected, expected_counts) = self.reference::<B>(selection);
        let (found, counts) = self.on_device::<B>(device, selection);
        let (shape, element) = (self.tensors[0].shape(), self.tensors[0].element());
        let context = format!("{:?} {element} {shape:?}, {selection:?}", self.layout);
        assert_eq!(counts, expected_counts, "{context}");
        assert_eq!(found.len(), expected.len(), "{context}");
        for (a, b) in found.iter().zip(&expected) {
            assert_eq!(bits(a), bits(b), "{context}: {a:?}, expected {b:?}");
        }
        (expected.len(), expected_counts)
    }

    /// Compares both devices; the number of candidates and what was counted.
    fn check(&self, device: &CudaDevice, selection: &Selection<'_>) -> (usize, FrameReport) {
        match self.layout.has_rotated_boxes() {
            true => self.check_boxes::<RotatedBox2d>(device, selection),
            false => self.check_boxes::<Box2d>(device, selection),
        }
    }
}

const SCORE: usize = 4;
const CLASS: usize = 5;
const ANGLE: usize = 6;

/// The numbers of valid boxes, all of one score and with the class of their row.
fn valid(row: usize, number: usize) -> f32 {
    match number {
        SCORE => 0.5,
        CLASS => (row % NUM_CLASSES) as f32,
        ANGLE => 0.25,
        0 | 1 => 10.0,
        _ => 20.0 + (row % 8) as f32,
    }
}

/// All that is compared of a layout.
fn agrees(layout: &YoloLayout, seed: u64) {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(seed);
    for half in [false, true] {
        for num_rows in NUM_ROWS {
            for num_scores in [0, 5] {
                let problem = Problem::random(layout, num_rows, half, num_scores, &mut random);
                for threshold in THRESHOLDS {
                    problem.check(&device, &all(threshold));
                }
                limits_agree(&problem, &device);
            }
        }
        counts_agree(layout, half, &device);
    }
}

/// Capacities around the number of rows that pass, with ties, and wanted classes.
fn limits_agree(problem: &Problem, device: &CudaDevice) {
    let (num, _) = problem.check(device, &all(0.25));
    for limit in [1, num / 2, num.saturating_sub(1), num, num + 1].map(|limit| limit.max(1)) {
        for class_filter in [&[][..], &[3], &[0, 2, 9]] {
            let wanted = Selection { class_filter, ..all(0.25) };
            problem.check(device, &Selection { candidate_capacity: limit, ..wanted });
            problem.check(device, &Selection { pre_nms_top_k: limit, ..wanted });
            let both = Selection { pre_nms_top_k: limit.div_ceil(2), ..wanted };
            problem.check(device, &Selection { candidate_capacity: limit, ..both });
        }
    }
}

/// Rows of one fault each: every one is counted, and nothing else.
fn counts_agree(layout: &YoloLayout, half: bool, device: &CudaDevice) {
    const NUM: usize = 600;
    let num = NUM as u64;
    let (count, _) = Problem::valid(layout, NUM, half).check(device, &all(0.25));
    assert_eq!(count, NUM);
    let faulty = |number: usize, value: f32| {
        Problem::new(layout, NUM, half, |row, of| if of == number { value } else { valid(row, of) })
    };
    let is_rotated = layout.has_rotated_boxes();
    // A corner before the opposite one, or a negative side.
    let reversed = if is_rotated { -1.0 } else { 5.0 };
    let mut faults = vec![
        (SCORE, f32::NAN, Count::ScoresNan),
        (SCORE, f32::INFINITY, Count::BoxesInvalid),
        (0, f32::NAN, Count::BoxesInvalid),
        (3, f32::NEG_INFINITY, Count::BoxesInvalid),
        (2, reversed, Count::BoxesInvalid),
        (3, reversed, Count::BoxesInvalid),
        (CLASS, f32::NAN, Count::ClassesUnknown),
        (CLASS, NUM_CLASSES as f32, Count::ClassesUnknown),
    ];
    if is_rotated {
        faults.push((ANGLE, f32::NAN, Count::BoxesInvalid));
        faults.push((ANGLE, f32::INFINITY, Count::BoxesInvalid));
    }
    for (number, value, counted) in faults {
        let (found, counts) = faulty(number, value).check(device, &all(0.25));
        assert_eq!((found, counts.count(counted)), (0, num), "{layout:?} {number} {value}");
    }
    // A negative label is padding; a negative class is none of the head.
    let (found, counts) = faulty(CLASS, -1.0).check(device, &all(0.25));
    let is_padding = layout.final_rows().unwrap().class.is_none();
    let expected = if is_padding { 0 } else { num };
    assert_eq!((found, counts.count(Count::ClassesUnknown)), (0, expected));
    // One over the capacity.
    let selection = Selection { candidate_capacity: NUM - 1, ..all(0.25) };
    let (found, counts) = Problem::valid(layout, NUM, half).check(device, &selection);
    assert_eq!((found, counts.count(Count::CandidatesOverCapacity)), (NUM - 1, 1));
}

#[test]
fn end_to_end_rows_agree() {
    agrees(&YoloLayout::EndToEnd, 90);
}

#[test]
fn yolo26_obb_rows_agree() {
    agrees(&YoloLayout::ObbEndToEnd, 91);
}

#[test]
fn yolov7_end2end_rows_agree() {
    agrees(&YoloLayout::V7EndToEnd, 92);
}

#[test]
fn mmdeploy_rows_and_labels_agree() {
    agrees(&YoloLayout::Mmdeploy, 93);
}

#[test]
fn final_rows_that_do_not_fit_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let aligned = |layout: &YoloLayout, shapes: &[&[usize]]| {
        Workspace::<Box2d>::new(&stream, layout, NETWORK, NUM_CLASSES, shapes).map(drop)
    };
    let rotated = |layout: &YoloLayout, shapes: &[&[usize]]| {
        Workspace::<RotatedBox2d>::new(&stream, layout, NETWORK, NUM_CLASSES, shapes).map(drop)
    };
    let (v7, mmdeploy, obb) =
        (&YoloLayout::V7EndToEnd, &YoloLayout::Mmdeploy, &YoloLayout::ObbEndToEnd);
    aligned(v7, &[&[9, 7]]).unwrap();
    aligned(mmdeploy, &[&[1, 9, 5], &[1, 9]]).unwrap();
    rotated(obb, &[&[1, 300, 7]]).unwrap();
    let refused = |found: det_post_types::Result<()>, expected: &str| {
        let error = found.unwrap_err();
        assert!(error.message().contains(expected), "{error}");
    };
    refused(aligned(v7, &[&[1, 9, 7]]), "[N, 7] expected");
    refused(aligned(v7, &[&[9, 6]]), "[N, 7] expected");
    refused(aligned(v7, &[]), "[N, 7] expected");
    let expected = "[1, N, 5] and labels [1, N] expected";
    refused(aligned(mmdeploy, &[&[1, 9, 5]]), expected);
    refused(aligned(mmdeploy, &[&[1, 9, 5], &[1, 8]]), expected);
    refused(aligned(mmdeploy, &[&[1, 9, 5], &[9]]), expected);
    refused(aligned(mmdeploy, &[&[2, 9, 5], &[1, 9]]), expected);
    refused(rotated(obb, &[&[1, 300, 6]]), "[1, N, 7] expected");
    refused(rotated(obb, &[&[300, 7]]), "[1, N, 7] expected");
    assert!(aligned(obb, &[&[1, 300, 7]]).is_err() && rotated(v7, &[&[9, 7]]).is_err());
}
