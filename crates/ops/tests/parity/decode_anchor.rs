//! Decoding of anchor heads: the same candidates, in any order, and the same
//! counts of what was lost.

use det_post_ops::decode::anchor::cuda::Workspace;
use det_post_ops::decode::anchor::{AnchorOutputs, decode_anchor};
use det_post_ops::decode::select::{Limits, select};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, Graph};
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    Anchor, AnchorDecode, Box3d, Candidate, Candidates, ElementType, FrameReport, Object3d,
    PointRange, ScoreThresholds, Tensor, total_order,
};

use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_testing::tensors::{tensor, upload};

struct Head {
    params: AnchorDecode,
    classes: Tensor,
    boxes: Tensor,
    directions: Option<Tensor>,
}

/// How maps are filled.
#[derive(Clone, Copy, Debug)]
struct Filling {
    element: ElementType,
    /// Share of logits that are high.
    passing: f32,
    /// Share of numbers that are none, or far too large.
    broken: f32,
    has_directions: bool,
}

const PLAIN: Filling =
    Filling { element: ElementType::F32, passing: 0.02, broken: 0.0, has_directions: true };

fn params(num_classes: usize) -> AnchorDecode {
    let sizes = [[3.9, 1.6, 1.56], [0.8, 0.6, 1.73], [1.76, 0.6, 1.73], [10.0, 2.5, 3.0]];
    let anchor = |index: usize| Anchor { size_m: sizes[index % 4], center_z_m: -1.0 };
    AnchorDecode {
        range: PointRange { min: [0.0, -39.68, -3.0], max: [69.12, 39.68, 1.0] },
        align_center: false,
        anchors: (0..num_classes).map(anchor).collect(),
        rotations_rad: vec![0.0, 1.57],
        direction_offset_rad: std::f32::consts::FRAC_PI_4,
        channels_last: false,
        score_thresholds: ScoreThresholds::uniform(0.3, num_classes),
    }
}

impl Head {
    fn new(
        random: &mut Random,
        params: AnchorDecode,
        [height, width]: [usize; 2],
        filling: Filling,
    ) -> Self {
        let strange = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 0.0, -0.0];
        let num_anchors = params.anchors.len() * params.rotations_rad.len();
        let mut map = |per_anchor: usize, is_logit: bool| {
            let channels = num_anchors * per_anchor;
            let shape = match params.channels_last {
                true => [1, height, width, channels],
                false => [1, channels, height, width],
            };
            let values: Vec<f32> = (0..shape.iter().product())
                .map(|_| match is_logit {
                    _ if random.range(0.0, 1.0) < filling.broken => {
                        strange[random.below(strange.len())]
                    }
                    true if random.range(0.0, 1.0) < filling.passing => random.range(-1.0, 5.0),
                    true => random.range(-9.0, -1.0),
                    false => random.range(-2.0, 2.0),
                })
                .collect();
            tensor(filling.element, &shape, &values)
        };
        let classes = map(params.anchors.len(), true);
        let boxes = map(7, false);
        let directions = filling.has_directions.then(|| map(2, false));
        Self { params, classes, boxes, directions }
    }

    fn num_cells(&self) -> usize {
        let shape = self.classes.shape();
        if self.params.channels_last { shape[1] * shape[2] } else { shape[2] * shape[3] }
    }

    fn reference(&self, limits: Limits) -> (Candidates<Object3d>, FrameReport) {
        let outputs = AnchorOutputs {
            classes: self.classes.view(),
            boxes: self.boxes.view(),
            directions: self.directions.as_ref().map(Tensor::view),
        };
        let mut candidates = Candidates::with_capacity(limits.candidate_capacity);
        decode_anchor(&outputs, &self.params, &mut candidates).unwrap();
        let cut = select(&mut candidates, limits.pre_nms_top_k);
        let mut counts = FrameReport::new();
        cut.add_to(&mut counts);
        (candidates, counts)
    }

    fn check(&self, device: &CudaDevice, limits: Limits) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let mut workspace = Workspace::new(&stream, &self.params, self.num_cells()).unwrap();
        workspace.set(&self.params, limits).unwrap();
        let classes = upload(&stream, &self.classes);
        let boxes = upload(&stream, &self.boxes);
        let directions = self.directions.as_ref().map(|map| upload(&stream, map));
        let outputs =
            AnchorOutputs { classes: &classes, boxes: &boxes, directions: directions.as_ref() };
        let mut num_voxels = DeviceBuffer::zeros(&stream, 1).unwrap();
        num_voxels.write(&[7]).unwrap();
        let capacity = limits.candidate_capacity.min(limits.pre_nms_top_k).max(1);
        let mut candidates = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
        let graph = Graph::capture(&stream, || {
            workspace.enqueue(&outputs, &num_voxels, &mut candidates, &mut counters)
        })
        .unwrap();
        let (expected, expected_counts) = self.reference(limits);
        let context = format!(
            "{} {:?} {limits:?} directions {} {:?}",
            self.classes.element(),
            self.classes.shape(),
            self.directions.is_some(),
            self.params
        );
        let mut before = Vec::new();
        for run in 0..3 {
            graph.enqueue().unwrap();
            assert_eq!(counters.take().unwrap(), expected_counts, "{context}");
            let num = candidates.num.read().unwrap()[0] as usize;
            let mut found = candidates.items.read().unwrap();
            found.truncate(num);
            found.sort_by(total_order);
            assert_eq!(found.len(), expected.as_slice().len(), "{context}");
            for (a, b) in found.iter().zip(expected.as_slice()) {
                assert!(is_near(a, b), "{context}: {a:?}, expected {b:?}");
            }
            assert!(run == 0 || found == before, "{context}: a second run differs");
            before = found;
        }
        num_voxels.write(&[0]).unwrap();
        graph.enqueue().unwrap();
        assert_eq!(candidates.num.read().unwrap(), [0], "{context}: of no voxels");
        assert_eq!(counters.take().unwrap(), FrameReport::new(), "{context}: of no voxels");
    }
}

/// Equal but for the score and the extents: an exponential came before.
fn is_near(a: &Candidate<Box3d>, b: &Candidate<Object3d>) -> bool {
    let b_box = b.bbox.bbox;
    let exact = |c: Box3d| [c.center[0], c.center[1], c.center[2], c.yaw_rad].map(f32::to_bits);
    let near = |score, c: Box3d| [score, c.length_m, c.width_m, c.height_m];
    let bound = bound("decode/anchor", "all", "score, size");
    let pairs = near(a.score, a.bbox).into_iter().zip(near(b.score, b_box));
    (a.class, a.source) == (b.class, b.source)
        && exact(a.bbox) == exact(b_box)
        && pairs.into_iter().all(|(x, y)| bound.holds(x, y, 0.0))
}

fn limits(candidate_capacity: usize, pre_nms_top_k: usize) -> Limits {
    Limits { candidate_capacity, pre_nms_top_k }
}

#[test]
fn sizes_layouts_and_elements_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(150);
    for element in [ElementType::F32, ElementType::F16] {
        for size in [[1, 1], [3, 5], [16, 16], [31, 33], [100, 70]] {
            for num_classes in [1, 3, 4] {
                for (channels_last, align_center, has_directions) in
                    [(false, false, true), (true, true, true), (true, false, false)]
                {
                    let params =
                        AnchorDecode { channels_last, align_center, ..params(num_classes) };
                    let filling = Filling { element, passing: 0.05, has_directions, ..PLAIN };
                    let head = Head::new(&mut random, params, size, filling);
                    head.check(&device, limits(3000, 2000));
                }
            }
        }
    }
}

#[test]
fn thresholds_limits_and_values_that_are_no_numbers_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(151);
    let by_distance = ScoreThresholds {
        distance_upper_limits_m: vec![20.0, 60.0],
        per_class: vec![vec![0.3, 0.5], vec![0.9, 0.2], vec![0.0, 1.1]],
    };
    for score_thresholds in [
        by_distance,
        ScoreThresholds::uniform(0.0, 3),
        ScoreThresholds::uniform(1.5, 3),
        ScoreThresholds::uniform(0.5, 2),
        ScoreThresholds { distance_upper_limits_m: vec![], per_class: vec![] },
    ] {
        for broken in [0.0, 0.05] {
            let params = AnchorDecode { score_thresholds: score_thresholds.clone(), ..params(3) };
            let filling = Filling { passing: 0.2, broken, ..PLAIN };
            let head = Head::new(&mut random, params, [40, 40], filling);
            for (capacity, top_k) in [(1, 1), (100, 30), (30, 100), (500, 500), (20_000, 20_000)] {
                head.check(&device, limits(capacity, top_k));
            }
        }
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let mut random = Random::new(152);
    let params = params(3);
    let head = Head::new(&mut random, params.clone(), [8, 8], PLAIN);
    let mut workspace = Workspace::new(&stream, &params, 64).unwrap();
    let mut num_voxels = DeviceBuffer::zeros(&stream, 1).unwrap();
    num_voxels.write(&[1]).unwrap();
    let mut candidates = DeviceCandidates::with_capacity(&stream, 10).unwrap();
    let (classes, boxes) = (upload(&stream, &head.classes), upload(&stream, &head.boxes));
    let outputs = AnchorOutputs { classes: &classes, boxes: &boxes, directions: None };
    workspace.enqueue(&outputs, &num_voxels, &mut candidates, &mut counters).unwrap();
    assert_eq!(candidates.num.read().unwrap(), [0], "nothing passes before it is set");
    let swapped = AnchorOutputs { classes: &boxes, boxes: &classes, directions: None };
    assert!(workspace.enqueue(&swapped, &num_voxels, &mut candidates, &mut counters).is_err());
    let half = Filling { element: ElementType::F16, ..PLAIN };
    let half = upload(&stream, &Head::new(&mut random, params.clone(), [8, 8], half).boxes);
    let mixed = AnchorOutputs { boxes: &half, ..outputs };
    assert!(workspace.enqueue(&mixed, &num_voxels, &mut candidates, &mut counters).is_err());
    let big = upload(&stream, &Head::new(&mut random, params.clone(), [8, 9], PLAIN).classes);
    let big = AnchorOutputs { classes: &big, ..outputs };
    assert!(workspace.enqueue(&big, &num_voxels, &mut candidates, &mut counters).is_err());
    let others = AnchorDecode { align_center: true, ..params.clone() };
    assert!(workspace.set(&others, limits(10, 10)).is_err());
    assert!(Workspace::new(&stream, &AnchorDecode { anchors: vec![], ..params }, 64).is_err());
}
