//! Decoding of YOLO heads: the same candidates, in any order, and the same
//! counts of what was lost.

use det_post_ops::decode::select::select;
use det_post_ops::decode::yolo::cuda::{Decoded, Selection, Workspace};
use det_post_ops::decode::yolo::{decode_yolo, decode_yolo_rotated};
use det_post_ops::device::cuda::{CudaDevice, Graph};
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    Box2d, Candidate, Candidates, Count, FrameReport, Result, RotatedBox2d, Size, Tensor,
    TensorView, YoloLayout, total_order,
};

use det_post_testing::bounds::bound;
use det_post_testing::heads::{self, Filling, Head};
use det_post_testing::random::Random;

pub struct Problem<'a> {
    pub head: &'a Head,
    pub capacity: usize,
    pub selection: Selection<'a>,
}

/// The numbers of a box.
type Decode<B> =
    fn(&[TensorView<'_>], &YoloLayout, Size, usize, f32, &mut Candidates<B>) -> Result<()>;

/// Boxes with their reference on the CPU.
pub trait Boxes: Decoded + Copy + Send + 'static {
    const DECODE: Decode<Self>;

    fn numbers(&self) -> Vec<f32>;
}

impl Boxes for Box2d {
    const DECODE: Decode<Self> = decode_yolo;

    fn numbers(&self) -> Vec<f32> {
        vec![self.x1, self.y1, self.x2, self.y2]
    }
}

impl Boxes for RotatedBox2d {
    const DECODE: Decode<Self> = decode_yolo_rotated;

    fn numbers(&self) -> Vec<f32> {
        vec![self.cx, self.cy, self.width, self.height, self.angle_rad]
    }
}

impl Problem<'_> {
    /// As the camera's frame does it: decoded, filtered, selected.
    pub fn reference<B: Boxes>(&self) -> (Vec<Candidate<B>>, FrameReport) {
        let Self { head, selection, .. } = self;
        let outputs = [head.tensor.view()];
        let decoded = |capacity| {
            let mut candidates = Candidates::with_capacity(capacity);
            let (layout, classes) = (&head.layout, head.num_classes);
            let threshold = selection.score_threshold;
            B::DECODE(&outputs, layout, head.network, classes, threshold, &mut candidates).unwrap();
            candidates
        };
        let mut candidates = decoded(self.capacity);
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
    fn on_device<B: Boxes>(&self, device: &CudaDevice) -> (Vec<Candidate<B>>, FrameReport) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let mut workspace = self.head.workspace::<B>(&stream);
        let selection = Selection { candidate_capacity: self.capacity, ..self.selection };
        workspace.set(&selection).unwrap();
        let tensor = self.head.upload(&stream);
        // No more room than can go on.
        let room = self.capacity.min(selection.pre_nms_top_k).max(1);
        let mut candidates = DeviceCandidates::with_capacity(&stream, room).unwrap();
        let read = |candidates: &DeviceCandidates<B>, counters: &mut DeviceCounters| {
            let num = candidates.num.read().unwrap()[0] as usize;
            let mut items = candidates.items.read().unwrap();
            assert!(num <= items.len(), "{num} candidates, room for {}", items.len());
            items.truncate(num);
            items.sort_by(total_order);
            (items, counters.take().unwrap())
        };
        workspace.enqueue(&[&tensor], &mut candidates, &mut counters).unwrap();
        let (answer, counts): (Vec<Candidate<B>>, _) = read(&candidates, &mut counters);
        let graph = Graph::capture(&stream, || {
            workspace.enqueue(&[&tensor], &mut candidates, &mut counters)
        })
        .unwrap();
        for _ in 0..2 {
            graph.enqueue().unwrap();
            let (again, counts_again) = read(&candidates, &mut counters);
            assert!(again.iter().map(bits).eq(answer.iter().map(bits)), "a second run differs");
            assert_eq!(counts_again, counts);
        }
        (answer, counts)
    }

    /// Number of candidates on the CPU.
    pub fn num_expected(&self) -> usize {
        match self.head.layout.has_rotated_boxes() {
            true => self.reference::<RotatedBox2d>().0.len(),
            false => self.reference::<Box2d>().0.len(),
        }
    }

    /// A count of the CPU.
    fn count(&self, count: Count) -> u64 {
        let counts = match self.head.layout.has_rotated_boxes() {
            true => self.reference::<RotatedBox2d>().1,
            false => self.reference::<Box2d>().1,
        };
        counts.count(count)
    }

    /// Compares both devices, with the boxes that the layout has.
    pub fn check(&self, device: &CudaDevice) {
        let has_exponential = matches!(self.head.layout, YoloLayout::Yolox { .. });
        if self.head.layout.has_rotated_boxes() {
            self.check_boxes::<RotatedBox2d>(device, |a, b| bits(a) == bits(b));
        } else if has_exponential {
            self.check_boxes::<Box2d>(device, is_near);
        } else {
            self.check_boxes::<Box2d>(device, |a, b| bits(a) == bits(b));
        }
    }

    fn check_boxes<B: Boxes + std::fmt::Debug>(
        &self,
        device: &CudaDevice,
        are_equal: impl Fn(&Candidate<B>, &Candidate<B>) -> bool,
    ) {
        let ((found, counts), (expected, expected_counts)) =
            (self.on_device::<B>(device), self.reference::<B>());
        let context =
            format!("{}, capacity {}, {:?}", self.head.describe(), self.capacity, self.selection);
        assert_eq!(counts, expected_counts, "{context}");
        assert_eq!(found.len(), expected.len(), "{context}");
        for (a, b) in found.iter().zip(&expected) {
            assert!(are_equal(a, b), "{context}: {a:?}, expected {b:?}");
        }
    }
}

pub fn bits<B: Boxes>(c: &Candidate<B>) -> Vec<u32> {
    let numbers = c.bbox.numbers().into_iter().chain([c.score]).map(f32::to_bits);
    numbers.chain([c.class, c.source]).collect()
}

/// Equal but for corners, whose size comes from an exponential.
fn is_near(a: &Candidate<Box2d>, b: &Candidate<Box2d>) -> bool {
    let corners = |c: &Candidate<Box2d>| [c.bbox.x1, c.bbox.y1, c.bbox.x2, c.bbox.y2];
    let size = (b.bbox.x2 - b.bbox.x1).abs().max((b.bbox.y2 - b.bbox.y1).abs());
    let bound = bound("decode/yolo", "YOLOX", "corner");
    let near = |(x, y): (f32, f32)| bound.holds(x, y, size);
    bits(a)[4..] == bits(b)[4..] && corners(a).into_iter().zip(corners(b)).all(near)
}

/// Everything that reaches a score.
pub fn all(score_threshold: f32) -> Selection<'static> {
    Selection {
        score_threshold,
        class_filter: &[],
        candidate_capacity: usize::MAX,
        pre_nms_top_k: usize::MAX,
    }
}

#[test]
fn every_layout_element_and_size_agrees() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(30);
    for half in [false, true] {
        for num_rows in [0, 1, 31, 32, 33, 255, 256, 257, 1000, 8400] {
            for num_classes in [1, 2, 5, 31, 32, 33, 80, 130] {
                for layout in heads::layouts() {
                    let filling = Filling { passing: 0.03, ..Filling::default() };
                    let mut head = heads::head(layout, num_rows, num_classes);
                    head.fill(&mut random, filling, half);
                    let capacity = num_rows.max(1);
                    Problem { head: &head, capacity, selection: all(0.25) }.check(&device);
                }
            }
        }
        for (size, strides) in [
            (Size::new(64, 32), vec![8, 16, 32]),
            (Size::new(448, 256), vec![8, 16, 32, 64]),
            (Size::new(96, 96), vec![8]),
        ] {
            let mut head = heads::yolox(size, strides, 7);
            head.fill(&mut random, Filling { passing: 0.2, ..Filling::default() }, half);
            Problem { head: &head, capacity: 8400, selection: all(0.25) }.check(&device);
        }
    }
}

#[test]
fn thresholds_none_one_and_all_passing_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(31);
    for layout in heads::layouts() {
        for passing in [0.0, 1.0] {
            let mut head = heads::head(layout.clone(), 3000, 12);
            head.fill(&mut random, Filling { passing, ..Filling::default() }, false);
            for threshold in [-1.0, 0.0, 0.25, 0.9, 1.0, 1.5, f32::NAN, f32::INFINITY] {
                Problem { head: &head, capacity: 3000, selection: all(threshold) }.check(&device);
            }
        }
        let mut head = heads::head(layout, 3000, 12);
        head.fill(&mut random, Filling { passing: 0.0, ..Filling::default() }, false);
        head.raise_row(1234, 11, 0.75);
        Problem { head: &head, capacity: 3000, selection: all(0.25) }.check(&device);
        let problem = Problem { head: &head, capacity: 1, selection: all(0.25) };
        assert_eq!(problem.num_expected(), 1);
    }
}

#[test]
fn values_that_are_no_numbers_and_ties_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(33);
    for half in [false, true] {
        for layout in heads::layouts() {
            let mut head = heads::head(layout, 2000, 40);
            head.fill(&mut random, Filling { passing: 0.6, num_scores: 4, broken: 0.02 }, half);
            for threshold in [-0.5, 0.0, 0.3] {
                Problem { head: &head, capacity: 2000, selection: all(threshold) }.check(&device);
            }
        }
        let mut head = heads::yolox(Size::new(320, 320), vec![8, 16, 32], 6);
        head.fill(&mut random, Filling { passing: 0.6, num_scores: 4, broken: 0.02 }, half);
        Problem { head: &head, capacity: 3000, selection: all(0.3) }.check(&device);
    }
}

#[test]
fn tensors_of_nan_are_counted_row_by_row() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(34);
    for half in [false, true] {
        for layout in heads::layouts() {
            for num_rows in [1, 33, 8400] {
                let mut head = heads::head(layout.clone(), num_rows, 80);
                head.fill(&mut random, Filling { passing: 1.0, ..Filling::default() }, half);
                match &mut head.tensor {
                    Tensor::F32 { values, .. } => values.fill(f32::NAN),
                    Tensor::F16 { values, .. } => values.fill(half::f16::NAN),
                }
                let problem = Problem { head: &head, capacity: 100, selection: all(0.25) };
                assert_eq!(problem.count(Count::ScoresNan), num_rows as u64);
                problem.check(&device);
            }
        }
    }
}

#[test]
fn boxes_that_are_none_are_counted_row_by_row() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(35);
    for half in [false, true] {
        for layout in heads::layouts() {
            for num_rows in [1, 33, 8400] {
                let mut head = heads::head(layout.clone(), num_rows, 80);
                head.fill(&mut random, Filling { passing: 1.0, ..Filling::default() }, half);
                head.turn_widths();
                let problem = Problem { head: &head, capacity: 100, selection: all(0.25) };
                assert_eq!(problem.count(Count::BoxesInvalid), num_rows as u64);
                problem.check(&device);
            }
        }
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let size = Size::new(640, 640);
    let head = heads::head(YoloLayout::V5, 100, 3);
    let mut workspace = head.workspace::<Box2d>(&stream);
    let mut candidates = DeviceCandidates::with_capacity(&stream, 10).unwrap();
    for other in [
        heads::head(YoloLayout::V5, 99, 3),
        heads::head(YoloLayout::V5, 100, 4),
        heads::head(YoloLayout::V8, 100, 4),
    ] {
        let tensor = other.upload(&stream);
        assert!(workspace.enqueue(&[&tensor], &mut candidates, &mut counters).is_err());
    }
    let tensor = head.upload(&stream);
    assert!(workspace.enqueue(&[], &mut candidates, &mut counters).is_err());
    assert!(workspace.enqueue(&[&tensor, &tensor], &mut candidates, &mut counters).is_err());
    let mut none = DeviceCandidates::with_capacity(&stream, 0).unwrap();
    assert!(workspace.enqueue(&[&tensor], &mut none, &mut counters).is_err());
    assert!(<Workspace>::new(&stream, &YoloLayout::V5, size, 0, &[&[1, 10, 5]]).is_err());
    let yolox = |stride, num_rows| {
        let layout = YoloLayout::Yolox { strides: vec![stride] };
        <Workspace>::new(&stream, &layout, size, 3, &[&[1, num_rows, 8]])
    };
    assert!(yolox(8, 6400).is_ok());
    // Layouts have boxes of one kind.
    let planes: &[&[usize]] = &[&[1, 8, 100]];
    assert!(<Workspace>::new(&stream, &YoloLayout::Obb, size, 3, planes).is_err());
    assert!(Workspace::<RotatedBox2d>::new(&stream, &YoloLayout::Obb, size, 3, planes).is_ok());
    assert!(Workspace::<RotatedBox2d>::new(&stream, &YoloLayout::V8, size, 4, planes).is_err());
    assert!(Workspace::<RotatedBox2d>::new(&stream, &YoloLayout::Obb, size, 4, planes).is_err());
    assert!(yolox(8, 6399).is_err() && yolox(0, 6400).is_err() && yolox(7, 6400).is_err());
}
