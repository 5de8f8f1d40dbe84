//! Decoding of proposals of LiDAR networks: the same candidates, the same counts of what was lost.

use det_post_ops::decode::proposals::cuda::Workspace;
use det_post_ops::decode::proposals::{ProposalOutputs, decode_proposals};
use det_post_ops::decode::select::{Limits, select};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, Graph};
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    Box3d, Candidate, Candidates, ElementType, FrameReport, Object3d, ProposalDecode,
    ProposalLayout, ScoreThresholds, Tensor, total_order,
};

use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_testing::tensors::{tensor, upload};

/// A head and the answer of its network.
struct Problem {
    params: ProposalDecode,
    num_proposals: usize,
    outputs: ProposalOutputs<Tensor>,
    capacity: usize,
    top_k: usize,
}

/// How tensors are filled.
#[derive(Clone, Copy, Debug)]
struct Filling {
    num_proposals: usize,
    num_classes: usize,
    element: ElementType,
    /// Share of numbers that are none, or far too large, and of labels that are no class.
    broken: f32,
}

fn params(layout: ProposalLayout, num_classes: usize) -> ProposalDecode {
    ProposalDecode {
        layout,
        origin_m: [-76.8, -70.4],
        cell_size_m: [0.96, 1.36],
        score_thresholds: ScoreThresholds::uniform(0.35, num_classes),
        yaw_norm_thresholds: vec![0.3; num_classes],
    }
}

impl Problem {
    fn new(random: &mut Random, params: ProposalDecode, filling: Filling, capacity: usize) -> Self {
        let Filling { num_proposals, num_classes, element, broken } = filling;
        let strange = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 0.0, -0.0];
        let mut values = |num: usize, least: f32, most: f32| -> Vec<f32> {
            let mut value = || match random.range(0.0, 1.0) < broken {
                true => strange[random.below(strange.len())],
                // Ties of scores.
                false => (random.range(least, most) * 64.0).round() / 64.0,
            };
            (0..num).map(|_| value()).collect()
        };
        let n = num_proposals;
        let num_channels = params.layout.num_box_channels();
        let (boxes, scores, others) = match params.layout {
            ProposalLayout::TransFusion => (
                tensor(element, &[1, num_channels, n], &values(num_channels * n, -1.5, 1.5)),
                tensor(element, &[1, num_classes, n], &values(num_classes * n, -0.2, 0.9)),
                tensor(element, &[1, 2, n], &values(2 * n, -1.0, 1.0)),
            ),
            ProposalLayout::BevFusion => {
                let boxes = values(num_channels * n, -1.5, 1.5);
                let scores = values(n, -0.2, 0.9);
                let of_head = random_labels(random, n, num_classes, broken);
                (
                    tensor(element, &[num_channels, n], &boxes),
                    tensor(element, &[n], &scores),
                    tensor(ElementType::F32, &[n], &of_head),
                )
            }
        };
        let outputs = ProposalOutputs { boxes, scores, directions_or_labels: others };
        Self { params, num_proposals, outputs, capacity, top_k: capacity }
    }

    fn reference(&self) -> (Candidates<Object3d>, FrameReport) {
        let ProposalOutputs { boxes, scores, directions_or_labels } = &self.outputs;
        let outputs = ProposalOutputs {
            boxes: boxes.view(),
            scores: scores.view(),
            directions_or_labels: directions_or_labels.view(),
        };
        let mut candidates = Candidates::with_capacity(self.capacity);
        decode_proposals(&outputs, &self.params, &mut candidates).unwrap();
        let mut counts = FrameReport::new();
        select(&mut candidates, self.top_k).add_to(&mut counts);
        (candidates, counts)
    }

    fn check(&self, device: &CudaDevice) {
        let Self { params, num_proposals, capacity, top_k, .. } = self;
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let mut workspace = Workspace::new(&stream, params, *num_proposals, *capacity).unwrap();
        let limits = Limits { candidate_capacity: *capacity, pre_nms_top_k: *top_k };
        workspace.set(params, limits).unwrap();
        let ProposalOutputs { boxes, scores, directions_or_labels } = &self.outputs;
        let [boxes, scores, others] =
            [boxes, scores, directions_or_labels].map(|output| upload(&stream, output));
        let outputs =
            ProposalOutputs { boxes: &boxes, scores: &scores, directions_or_labels: &others };
        let mut num_voxels = DeviceBuffer::zeros(&stream, 1).unwrap();
        num_voxels.write(&[7]).unwrap();
        let mut candidates = DeviceCandidates::with_capacity(&stream, *capacity).unwrap();
        let graph = Graph::capture(&stream, || {
            workspace.enqueue(&outputs, &num_voxels, &mut candidates, &mut counters)
        })
        .unwrap();
        let (expected, expected_counts) = self.reference();
        let element = boxes.element();
        let context = format!("{num_proposals} of {element}, capacity {capacity}, {params:?}");
        let mut before = Vec::new();
        for run in 0..3 {
            graph.enqueue().unwrap();
            let found = read(&candidates, &workspace, params.layout);
            assert_eq!(counters.take().unwrap(), expected_counts, "{context}");
            assert_eq!(found.len(), expected.as_slice().len(), "{context}");
            for (a, b) in found.iter().zip(expected.as_slice()) {
                assert_eq!((a.class, a.source), (b.class, b.source), "{context}");
                check(a, b, &context);
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

/// Extents and yaws may be the next number.
#[track_caller]
fn check(a: &Candidate<Object3d>, b: &Candidate<Object3d>, context: &str) {
    let (near, near_yaw) =
        (bound("decode/proposals", "all", "size"), bound("decode/proposals", "all", "yaw"));
    let (x, y) = (a.bbox.bbox, b.bbox.bbox);
    assert_eq!((a.score, x.center), (b.score, y.center), "{context}");
    assert_eq!(a.bbox.velocity_mps, b.bbox.velocity_mps, "{context}");
    let pairs = [(x.length_m, y.length_m), (x.width_m, y.width_m), (x.height_m, y.height_m)];
    assert!(pairs.iter().all(|&(x, y)| near.holds(x, y, 0.0)), "{context}: {x:?}, not {y:?}");
    assert!(near_yaw.holds(x.yaw_rad, y.yaw_rad, 0.0), "{context}: {x:?}, not {y:?}");
}

/// Labels, of which a share is no class.
fn random_labels(random: &mut Random, num: usize, num_classes: usize, broken: f32) -> Vec<f32> {
    let strange = [f32::NAN, -1.0, num_classes as f32, 1e30];
    (0..num)
        .map(|_| match random.range(0.0, 1.0) < broken {
            true => strange[random.below(strange.len())],
            false => random.below(num_classes) as f32,
        })
        .collect()
}

/// The candidates with their velocities, in the total order.
fn read(
    candidates: &DeviceCandidates<Box3d>,
    workspace: &Workspace,
    layout: ProposalLayout,
) -> Vec<Candidate<Object3d>> {
    let num = candidates.num.read().unwrap()[0] as usize;
    let (motions, places) = workspace.motions();
    let (motions, places) = (motions.read().unwrap(), places.read().unwrap());
    let items = candidates.items.read().unwrap();
    let mut found: Vec<_> = items[..num]
        .iter()
        .zip(places)
        .map(|(&Candidate { bbox, score, class, source }, place)| {
            let velocity = motions[place as usize].velocity;
            let velocity_mps = layout.has_velocity().then_some(velocity);
            let bbox = Object3d { bbox, velocity_mps, variance: None };
            Candidate { bbox, score, class, source }
        })
        .collect();
    found.sort_by(total_order);
    found
}

const LAYOUTS: [ProposalLayout; 2] = [ProposalLayout::TransFusion, ProposalLayout::BevFusion];

#[test]
fn proposals_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(170);
    for layout in LAYOUTS {
        for element in [ElementType::F32, ElementType::F16] {
            for (num_proposals, num_classes, broken) in [
                (1, 1, 0.0),
                (255, 5, 0.0),
                (256, 7, 0.0),
                (257, 3, 0.1),
                (500, 5, 0.02),
                (900, 10, 1.0),
            ] {
                let filling = Filling { num_proposals, num_classes, element, broken };
                let mut params = params(layout, num_classes);
                for capacity in [num_proposals, 17] {
                    Problem::new(&mut random, params.clone(), filling, capacity).check(&device);
                }
                params.yaw_norm_thresholds.clear();
                params.score_thresholds = ScoreThresholds {
                    distance_upper_limits_m: vec![104.0, 105.0, 110.0],
                    per_class: (0..num_classes)
                        .map(|class| vec![0.3, 0.1 * class as f32, 0.0])
                        .collect(),
                };
                let problem = Problem::new(&mut random, params.clone(), filling, num_proposals);
                Problem { top_k: 9, ..problem }.check(&device);
                // A class that a filter leaves out.
                params.score_thresholds = ScoreThresholds::uniform(0.2, num_classes);
                params.score_thresholds.per_class[0] = vec![f32::INFINITY];
                Problem::new(&mut random, params, filling, num_proposals).check(&device);
            }
        }
    }
}

#[test]
fn other_outputs_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let mut candidates = DeviceCandidates::with_capacity(&stream, 4).unwrap();
    let num_voxels = DeviceBuffer::zeros(&stream, 1).unwrap();
    let params = params(ProposalLayout::BevFusion, 3);
    let mut workspace = Workspace::new(&stream, &params, 4, 4).unwrap();
    let of = |element, shape: &[usize]| {
        upload(&stream, &tensor(element, shape, &vec![0.0; shape.iter().product()]))
    };
    let (f32, f16) = (ElementType::F32, ElementType::F16);
    for (boxes, scores, labels, fits) in [
        (of(f32, &[10, 4]), of(f32, &[4]), of(f32, &[4]), true),
        (of(f16, &[10, 4]), of(f16, &[4]), of(f32, &[4]), true),
        (of(f32, &[10, 5]), of(f32, &[5]), of(f32, &[5]), false),
        (of(f32, &[8, 4]), of(f32, &[4]), of(f32, &[4]), false),
        (of(f32, &[10, 4]), of(f16, &[4]), of(f32, &[4]), false),
        (of(f32, &[10, 4]), of(f32, &[4]), of(f16, &[4]), false),
        (of(f32, &[10, 4]), of(f32, &[4]), of(f32, &[3]), false),
    ] {
        let outputs =
            ProposalOutputs { boxes: &boxes, scores: &scores, directions_or_labels: &labels };
        let queued = workspace.enqueue(&outputs, &num_voxels, &mut candidates, &mut counters);
        assert_eq!(queued.is_ok(), fits, "{:?} {:?}", boxes.shape(), scores.shape());
    }
    let limits = Limits { candidate_capacity: 4, pre_nms_top_k: 4 };
    let other = ProposalDecode { origin_m: [0.0; 2], ..params.clone() };
    assert!(workspace.set(&other, limits).is_err());
    assert!(workspace.set(&params, limits).is_ok());
    assert!(Workspace::new(&stream, &params, usize::MAX, 4).is_err());
}
