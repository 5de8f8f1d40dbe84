use super::*;
use det_post_types::{ScoreThresholds, TensorValues};
use half::f16;

const NUM_CLASSES: usize = 3;

fn params(layout: ProposalLayout) -> ProposalDecode {
    ProposalDecode {
        layout,
        origin_m: [-8.0, -4.0],
        cell_size_m: [0.5, 0.25],
        score_thresholds: ScoreThresholds::uniform(0.5, NUM_CLASSES),
        yaw_norm_thresholds: vec![0.3, 0.3, 0.0],
    }
}

/// A proposal in the middle of everything: scores by class, the ten numbers of a box.
#[derive(Clone, Copy, Debug)]
struct Proposal {
    scores: [f32; NUM_CLASSES],
    label: i64,
    numbers: [f32; 10],
}

const SOUND: Proposal = Proposal {
    scores: [0.25, 0.75, 0.5],
    label: 1,
    numbers: [20.0, 10.0, 0.5, 1.0, 0.5, 0.25, 0.6, 0.8, 3.0, -4.0],
};

impl Proposal {
    fn with(self, channel: usize, value: f32) -> Self {
        let mut proposal = self;
        proposal.numbers[channel] = value;
        proposal
    }

    fn scored(self, scores: [f32; NUM_CLASSES]) -> Self {
        Self { scores, ..self }
    }

    /// With the one score of a network with labels.
    fn labelled(self, label: i64, score: f32) -> Self {
        Self { label, scores: [score; NUM_CLASSES], ..self }
    }
}

/// The tensors of proposals, with the score of the label where there are labels.
struct Tensors {
    boxes: Vec<f32>,
    scores: Vec<f32>,
    directions: Vec<f32>,
    labels: Vec<i64>,
    shapes: [Vec<usize>; 3],
    layout: ProposalLayout,
}

impl Tensors {
    fn new(proposals: &[Proposal], layout: ProposalLayout) -> Self {
        let num = proposals.len();
        let rows = |channels: &[usize]| -> Vec<f32> {
            let row = |&c: &usize| proposals.iter().map(move |p| p.numbers[c]);
            channels.iter().flat_map(row).collect()
        };
        let labels: Vec<i64> = proposals.iter().map(|p| p.label).collect();
        let (boxes, scores, shapes) = match layout {
            ProposalLayout::TransFusion => (
                rows(&[0, 1, 2, 3, 4, 5, 8, 9]),
                (0..NUM_CLASSES).flat_map(|c| proposals.iter().map(move |p| p.scores[c])).collect(),
                [vec![1, 8, num], vec![1, NUM_CLASSES, num], vec![1, 2, num]],
            ),
            ProposalLayout::BevFusion => (
                rows(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
                proposals.iter().map(|p| p.scores[p.label.clamp(0, 2) as usize]).collect(),
                [vec![10, num], vec![num], vec![num]],
            ),
        };
        Self { boxes, scores, directions: rows(&[6, 7]), labels, shapes, layout }
    }

    fn outputs(&self) -> ProposalOutputs<TensorView<'_>> {
        let view = |i: usize, values| TensorView::new(&self.shapes[i], values).unwrap();
        ProposalOutputs {
            boxes: view(0, TensorValues::F32(&self.boxes)),
            scores: view(1, TensorValues::F32(&self.scores)),
            directions_or_labels: match self.layout {
                ProposalLayout::TransFusion => view(2, TensorValues::F32(&self.directions)),
                ProposalLayout::BevFusion => view(2, TensorValues::I64(&self.labels)),
            },
        }
    }
}

const LAYOUTS: [ProposalLayout; 2] = [ProposalLayout::TransFusion, ProposalLayout::BevFusion];

fn decode(proposals: &[Proposal], params: &ProposalDecode) -> Candidates<Object3d> {
    let mut candidates = Candidates::with_capacity(100);
    let tensors = Tensors::new(proposals, params.layout);
    decode_proposals(&tensors.outputs(), params, &mut candidates).unwrap();
    candidates.finish(usize::MAX);
    candidates
}

fn sources(candidates: &Candidates<Object3d>) -> Vec<u32> {
    candidates.as_slice().iter().map(|candidate| candidate.source).collect()
}

#[test]
fn a_proposal_becomes_a_box() {
    for layout in LAYOUTS {
        let found = decode(&[SOUND], &params(layout));
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.source, found.class, found.score), (0, 1, 0.75));
        let bbox = found.bbox.bbox;
        assert_eq!(bbox.center, [2.0, -1.5, 0.5]);
        let extents = [bbox.length_m, bbox.width_m, bbox.height_m];
        for (extent, logarithm) in extents.into_iter().zip([1.0_f32, 0.5, 0.25]) {
            assert!((extent - logarithm.exp()).abs() < 1e-6);
        }
        assert!((bbox.yaw_rad - 0.6_f32.atan2(0.8)).abs() < 1e-6);
        let velocity = layout.has_velocity().then_some([3.0, -4.0]);
        assert_eq!((found.bbox.velocity_mps, found.bbox.variance), (velocity, None));
    }
}

#[test]
fn the_class_is_the_first_greatest_and_nan_of_the_first_drops() {
    let params = params(ProposalLayout::TransFusion);
    let nan = f32::NAN;
    for (scores, class, num_nan) in [
        ([0.9, 0.9, 0.9], Some(0), 0),
        ([0.4, 0.9, 0.9], Some(1), 0),
        ([nan, 0.9, 0.9], None, 1),
        ([0.6, nan, 0.9], Some(2), 1),
        ([0.6, nan, nan], Some(0), 1),
        ([nan; 3], None, 1),
        ([0.5; 3], Some(0), 0), // at the threshold
        ([0.499; 3], None, 0),
        ([-1.0, -2.0, -3.0], None, 0),
    ] {
        let found = decode(&[SOUND.scored(scores)], &params);
        let of = found.as_slice().first().map(|candidate| candidate.class);
        assert_eq!((of, found.num_nan_scores()), (class, num_nan), "{scores:?}");
    }
}

#[test]
fn labels_are_classes_of_the_head() {
    let params = params(ProposalLayout::BevFusion);
    for (label, score, class, num_unknown) in [
        (0, 0.9, Some(0), 0),
        (2, 0.5, Some(2), 0),
        (3, 0.9, None, 1),
        (-1, 0.9, None, 1),
        (i64::MAX, 0.9, None, 1),
        (3, 0.4, None, 0),
        (3, f32::NAN, None, 0),
    ] {
        let found = decode(&[SOUND.labelled(label, score)], &params);
        let of = found.as_slice().first().map(|candidate| candidate.class);
        assert_eq!((of, found.num_unknown_classes()), (class, num_unknown), "{label} {score}");
        assert_eq!(found.num_nan_scores(), usize::from(score.is_nan()));
    }
}

#[test]
fn a_score_of_zero_is_none() {
    for layout in LAYOUTS {
        let mut params = params(layout);
        params.score_thresholds = ScoreThresholds::uniform(0.0, NUM_CLASSES);
        let tiny = f32::from_bits(1);
        for (score, passes) in [(0.0, false), (-0.0, false), (tiny, true), (-1.0, false)] {
            let found = decode(&[SOUND.labelled(1, score)], &params);
            assert_eq!(!found.as_slice().is_empty(), passes, "{layout:?} {score}");
        }
    }
}

#[test]
fn thresholds_by_class_distance_and_yaw_norm() {
    // The sound proposal is 2.5 m away; its class is 1, its norm 1.
    for layout in LAYOUTS {
        let base = params(layout);
        let bins = |limits: &[f32], of_class: &[f32]| ProposalDecode {
            score_thresholds: ScoreThresholds {
                distance_upper_limits_m: limits.to_vec(),
                per_class: vec![
                    vec![0.9; limits.len()],
                    of_class.to_vec(),
                    vec![0.9; limits.len()],
                ],
            },
            ..base.clone()
        };
        let norms = |norms: [f32; 3]| ProposalDecode {
            yaw_norm_thresholds: norms.to_vec(),
            ..base.clone()
        };
        for (params, passes) in [
            (bins(&[2.5, 9.0], &[0.9, 0.75]), true), // on the limit: the next bin
            (bins(&[2.5, 9.0], &[0.1, 0.76]), false),
            (bins(&[2.6, 9.0], &[0.75, 0.9]), true),
            (bins(&[1.0, 2.5], &[0.1, 0.1]), false), // beyond the last
            (norms([2.0, 1.0, 2.0]), true),
            (norms([0.0, 1.000_001, 0.0]), false),
            (ProposalDecode { yaw_norm_thresholds: vec![], ..base.clone() }, true),
        ] {
            let found = decode(&[SOUND], &params);
            assert_eq!(!found.as_slice().is_empty(), passes, "{params:?}");
            assert_eq!(found.num_invalid_boxes(), 0);
        }
    }
}

#[test]
fn what_is_not_finite_is_counted() {
    for layout in LAYOUTS {
        for channel in 0..10 {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let proposals = [SOUND, SOUND.with(channel, bad), SOUND];
                let found = decode(&proposals, &params(layout));
                let is_read = channel < 8 || layout.has_velocity();
                let expected = if is_read { vec![0, 2] } else { vec![0, 1, 2] };
                assert_eq!(sources(&found), expected, "{layout:?} channel {channel} {bad}");
                assert_eq!(found.num_invalid_boxes(), usize::from(is_read));
            }
        }
        // An extent that overflows, and a proposal below the threshold.
        let low = SOUND.labelled(1, 0.1).with(0, f32::NAN);
        let found = decode(&[SOUND.with(3, 89.0), low], &params(layout));
        assert_eq!((found.as_slice().len(), found.num_invalid_boxes()), (0, 1));
    }
}

#[test]
fn ties_capacity_and_no_proposals() {
    for layout in LAYOUTS {
        let params = params(layout);
        assert!(decode(&[], &params).as_slice().is_empty());
        let proposals = [SOUND; 5];
        let tensors = Tensors::new(&proposals, layout);
        for (capacity, kept) in [(5, 5), (4, 4), (1, 1)] {
            let mut candidates = Candidates::with_capacity(capacity);
            for _ in 0..2 {
                decode_proposals(&tensors.outputs(), &params, &mut candidates).unwrap();
                candidates.finish(usize::MAX);
                assert_eq!(sources(&candidates), (0..kept).collect::<Vec<u32>>());
                assert_eq!(candidates.num_dropped(), 5 - kept as usize);
            }
        }
    }
}

#[test]
fn halves_and_labels_of_other_types_are_taken() {
    let params = params(ProposalLayout::BevFusion);
    let mut tensors = Tensors::new(&[SOUND], ProposalLayout::BevFusion);
    tensors.boxes[0] = 20.25;
    let halves: Vec<f16> = tensors.boxes.iter().map(|&value| f16::from_f32(value)).collect();
    let labels: [TensorValues<'_>; 4] = [
        TensorValues::I32(&[1]),
        TensorValues::F32(&[1.0]),
        TensorValues::F16(&[f16::ONE]),
        TensorValues::F64(&[1.0]),
    ];
    for labels in labels {
        let mut outputs = tensors.outputs();
        outputs.boxes = TensorView::new(&tensors.shapes[0], TensorValues::F16(&halves)).unwrap();
        outputs.directions_or_labels = TensorView::new(&tensors.shapes[2], labels).unwrap();
        let mut candidates = Candidates::with_capacity(1);
        decode_proposals(&outputs, &params, &mut candidates).unwrap();
        let found = candidates.as_slice()[0];
        assert_eq!((found.class, found.bbox.bbox.center[0]), (1, 2.125));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let [trans, bev] = LAYOUTS.map(|layout| Tensors::new(&[SOUND; 2], layout));
    let mut norms = params(ProposalLayout::BevFusion);
    norms.yaw_norm_thresholds.pop();
    let integers = [0; 2];
    let scores_of_integers = TensorView::new(&bev.shapes[1], TensorValues::I32(&integers)).unwrap();
    for (outputs, params, message) in [
        (trans.outputs(), params(ProposalLayout::BevFusion), "boxes are f32 [1, 8, 2]"),
        (bev.outputs(), params(ProposalLayout::TransFusion), "floats [1, 8, 2] expected"),
        (
            ProposalOutputs { scores: trans.outputs().scores, ..bev.outputs() },
            params(ProposalLayout::BevFusion),
            "scores are f32 [1, 3, 2]",
        ),
        (
            ProposalOutputs { scores: scores_of_integers, ..bev.outputs() },
            params(ProposalLayout::BevFusion),
            "scores are i32 [2]",
        ),
        (
            ProposalOutputs {
                directions_or_labels: bev.outputs().directions_or_labels,
                ..trans.outputs()
            },
            params(ProposalLayout::TransFusion),
            "directions are i64 [2]",
        ),
        (
            ProposalOutputs { directions_or_labels: trans.outputs().boxes, ..bev.outputs() },
            params(ProposalLayout::BevFusion),
            "labels are f32 [1, 8, 2]; numbers [2] expected",
        ),
        (bev.outputs(), norms, "2 yaw-norm thresholds do not match 3 classes"),
    ] {
        let mut candidates = Candidates::with_capacity(1);
        let error = decode_proposals(&outputs, &params, &mut candidates).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains(message), "{error}");
    }
}
