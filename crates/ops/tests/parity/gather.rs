//! Gathering: the same detections in the same order, and the same counts.

use det_post_ops::decode::gather::cuda::{Gather, Workspace};
use det_post_ops::decode::gather::{GatherCounts, gather_2d, gather_rotated};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, Graph};
use det_post_ops::nms::cuda::NmsCounts;
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    Affine2, Box2d, Candidate, Detection2d, FrameReport, Kept, Letterbox, Placement, RotatedBox2d,
    Size,
};

use super::nms_iou::clustered;
use super::nms_rotated;
use det_post_testing::random::Random;

type Reference<B> =
    fn(&[Candidate<B>], &[Kept], &Affine2, Size, usize, &mut Vec<Detection2d<B>>) -> GatherCounts;

/// Boxes with their reference on the CPU.
trait Boxes: Gather + Copy + Send + 'static {
    const GATHER: Reference<Self>;
}

impl Boxes for Box2d {
    const GATHER: Reference<Self> = gather_2d;
}

impl Boxes for RotatedBox2d {
    const GATHER: Reference<Self> = gather_rotated;
}

struct Problem<B> {
    candidates: Vec<Candidate<B>>,
    keep: Vec<Kept>,
    source_from_network: Affine2,
    source: Size,
    max_detections: usize,
}

impl<B: Boxes> Problem<B> {
    fn reference(&self) -> (Vec<Detection2d<B>>, GatherCounts) {
        let mut out = Vec::new();
        let Self { candidates, keep, source_from_network, source, max_detections } = self;
        let over =
            B::GATHER(candidates, keep, source_from_network, *source, *max_detections, &mut out);
        (out, over)
    }

    /// `numbers`: those of a box.
    fn check<const N: usize>(&self, device: &CudaDevice, numbers: impl Fn(&B) -> [f32; N]) {
        let stream = device.stream().unwrap();
        let mut workspace = Workspace::<B>::new(&stream, self.max_detections).unwrap();
        workspace.set_placement(&self.source_from_network, self.source).unwrap();
        let capacity = self.candidates.len().max(1);
        let mut candidates = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
        candidates.write(&self.candidates).unwrap();
        let mut kept = DeviceBuffer::zeros(&stream, self.keep.len()).unwrap();
        kept.write(&self.keep).unwrap();
        let mut nms_counts = DeviceBuffer::zeros(&stream, 1).unwrap();
        let num_kept = self.keep.len() as u32;
        nms_counts.write(&[NmsCounts { num_kept, class_over: 0 }]).unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();

        let graph = Graph::capture(&stream, || {
            workspace.enqueue(&candidates, (&kept, &nms_counts), &mut counters)
        })
        .unwrap();
        let (expected, dropped) = self.reference();
        let mut out = Vec::new();
        for _ in 0..2 {
            graph.enqueue().unwrap();
            let gathered = workspace.read(&mut out).unwrap();
            let context = format!("{} kept, at most {}", self.keep.len(), self.max_detections);
            let bits = |d: &Detection2d<B>| {
                (d.class, d.score.to_bits(), numbers(&d.bbox).map(f32::to_bits))
            };
            let are_equal = out.iter().map(bits).eq(expected.iter().map(bits));
            assert!(are_equal, "{context}: {} and {}", out.len(), expected.len());
            assert_eq!(gathered.num_detections as usize, out.len(), "{context}");
            assert_eq!(gathered.suppressed.num_kept, num_kept, "{context}");
            let mut report = FrameReport::new();
            counters.add_to(&mut report);
            let mut counts = FrameReport::new();
            dropped.add_to(&mut counts);
            assert_eq!(report, counts, "{context}");
        }
    }
}

fn aligned(b: &Box2d) -> [f32; 4] {
    [b.x1, b.y1, b.x2, b.y2]
}

fn rotated(b: &RotatedBox2d) -> [f32; 5] {
    [b.cx, b.cy, b.width, b.height, b.angle_rad]
}

fn problem<B>(
    random: &mut Random,
    candidates: Vec<Candidate<B>>,
    num_kept: usize,
    max_detections: usize,
) -> Problem<B> {
    let source = Size::new(1242, 375);
    let letterbox = Letterbox::new(source, Size::new(640, 480), Placement::Center);
    let num = candidates.len();
    // Positions past the candidates are left out.
    let keep = (0..num_kept)
        .map(|_| Kept { index: random.below(num + 3) as u32, score: random.range(0.0, 1.0) })
        .collect();
    let source_from_network = letterbox.source_from_network();
    Problem { candidates, keep, source_from_network, source, max_detections }
}

#[test]
fn sizes_around_every_block_and_limits_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(40);
    for num_kept in [0, 1, 2, 31, 32, 33, 300, 511, 512, 513, 1024, 1025, 3000] {
        for max_detections in [0, 1, 17, 300, 512, 513, 5000] {
            let boxes = clustered(&mut random, 900, 4);
            problem(&mut random, boxes, num_kept, max_detections).check(&device, aligned);
            let boxes = nms_rotated::scene(&mut random, 900, 640.0);
            problem(&mut random, boxes, num_kept, max_detections).check(&device, rotated);
        }
    }
}

#[test]
fn boxes_outside_empty_and_not_finite_are_left_out() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(41);
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38, -3e38, -0.0, 0.0, -50.0, 9e4];
    let affines = [
        Affine2::IDENTITY,
        Affine2 { scale: [2.0, 3.0], offset: [-10.0, -30.0] },
        Affine2 { scale: [1e3, 0.0], offset: [0.0, 5.0] },
    ];
    for source_from_network in affines {
        let boxes = clustered(&mut random, 2000, 4);
        let mut problem = problem(&mut random, boxes, 2000, 700);
        problem.source_from_network = source_from_network;
        for candidate in &mut problem.candidates {
            let value = values[random.below(values.len())];
            match random.below(8) {
                0 => candidate.bbox.x1 = value,
                1 => candidate.bbox.y1 = value,
                2 => candidate.bbox.x2 = value,
                3 => candidate.bbox.y2 = value,
                _ => {}
            }
        }
        problem.check(&device, aligned);
    }
}

#[test]
fn rotated_boxes_outside_empty_and_not_finite_are_left_out() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(42);
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38, -3e38, -0.0, 0.0, -50.0, 9e4];
    for source_from_network in [
        Affine2::IDENTITY,
        Affine2 { scale: [2.0, 2.0], offset: [-10.0, -30.0] },
        Affine2 { scale: [1.5, 1.6], offset: [-400.0, -300.0] },
        Affine2 { scale: [1e30, 1e3], offset: [0.0, 5.0] },
    ] {
        let boxes = nms_rotated::scene(&mut random, 2000, 800.0);
        let mut problem = problem(&mut random, boxes, 2000, 700);
        problem.source_from_network = source_from_network;
        for candidate in &mut problem.candidates {
            let value = values[random.below(values.len())];
            match random.below(10) {
                0 => candidate.bbox.cx = value,
                1 => candidate.bbox.cy = value,
                2 => candidate.bbox.width = value,
                3 => candidate.bbox.height = value,
                4 => candidate.bbox.angle_rad = value,
                _ => {}
            }
        }
        problem.check(&device, rotated);
    }
}
