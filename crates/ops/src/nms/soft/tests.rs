use proptest::prelude::*;

use super::*;
use crate::nms::scenes::{candidate, class_modes, iou_as_mmcv, scene_2d, scenes};
use det_post_types::ClassMode;

fn params(decay: SoftDecay, min_score: f32) -> NmsSoft {
    NmsSoft { decay, min_score, offset: 0, class_mode: ClassMode::Aware }
}

fn run(candidates: &[Candidate<Box2d>], params: &NmsSoft) -> Vec<Kept> {
    let mut keep = vec![Kept::default()];
    nms_soft(candidates, params, &mut Workspace::default(), &mut keep).unwrap();
    keep
}

/// mmcv's loop: take the best, lower the rest, drop what fell too far. Equal
/// scores by class, source, position.
fn obvious(candidates: &[Candidate<Box2d>], params: &NmsSoft) -> Vec<Kept> {
    let mut rest: Vec<Kept> = (0..)
        .zip(candidates)
        .filter(|(_, c)| c.score >= 0.0 && c.bbox.is_finite())
        .map(|(index, c)| Kept { index, score: c.score })
        .collect();
    let mut kept = Vec::new();
    loop {
        let best = (0..rest.len()).min_by(|&a, &b| {
            let tie = |kept: &Kept| {
                let c = &candidates[kept.index as usize];
                (c.class, c.source, kept.index)
            };
            let (a, b) = (&rest[a], &rest[b]);
            b.score.total_cmp(&a.score).then_with(|| tie(a).cmp(&tie(b)))
        });
        let Some(best) = best else { return kept };
        let best = rest.remove(best);
        kept.push(best);
        let bbox = &candidates[best.index as usize];
        for kept in &mut rest {
            let other = &candidates[kept.index as usize];
            if params.class_mode.group(other.class) != params.class_mode.group(bbox.class) {
                continue;
            }
            let iou = iou_as_mmcv(&bbox.bbox, &other.bbox, f32::from(params.offset));
            kept.score *= match params.decay {
                SoftDecay::Linear { iou_threshold } if iou >= iou_threshold => 1.0 - iou,
                SoftDecay::Linear { .. } => 1.0,
                SoftDecay::Gaussian { sigma } => exp_f64(f64::from(-(iou * iou) / sigma)) as f32,
            };
        }
        rest.retain(|kept| kept.score >= params.min_score);
    }
}

#[test]
fn linear_and_gaussian_by_hand() {
    // IoU 1 / 3 with the neighbour, 0 with the one after.
    let candidates = [
        candidate(Box2d::new(0.0, 0.0, 2.0, 2.0), 0.9, 0, 0),
        candidate(Box2d::new(1.0, 0.0, 3.0, 2.0), 0.8, 0, 1),
        candidate(Box2d::new(2.0, 0.0, 4.0, 2.0), 0.7, 0, 2),
    ];
    let linear = |iou_threshold| SoftDecay::Linear { iou_threshold };
    let third = 1.0_f32 / 3.0;
    let once = 0.8 * (1.0 - third);
    let indices = |keep: &[Kept]| -> Vec<u32> { keep.iter().map(|kept| kept.index).collect() };

    let keep = run(&candidates, &params(linear(0.3), 0.0));
    assert_eq!(indices(&keep), [0, 2, 1]);
    assert_eq!(keep[1].score, 0.7);
    assert_eq!(keep[2].score, once * (1.0 - third));
    // Equal to the threshold falls, as in mmcv; above it nothing does.
    assert_eq!(indices(&run(&candidates, &params(linear(third), 0.0))), [0, 2, 1]);
    assert_eq!(indices(&run(&candidates, &params(linear(0.4), 0.0))), [0, 1, 2]);
    assert_eq!(indices(&run(&candidates, &params(linear(0.3), 0.5))), [0, 2]);

    let keep = run(&candidates, &params(SoftDecay::Gaussian { sigma: 0.5 }, 0.0));
    assert_eq!(indices(&keep), [0, 2, 1]);
    let expected = 0.8 * (-2.0_f64 / (9.0 * 0.5)).exp();
    assert!((f64::from(keep[2].score) - expected).abs() < 1e-6);
}

#[test]
fn only_the_first_may_lie_below_min_score() {
    let bbox = Box2d::new(0.0, 0.0, 2.0, 3.0);
    let candidates = [
        candidate(bbox, 0.1, 0, 0),
        candidate(bbox, 0.2, 1, 1),
        candidate(bbox, f32::NAN, 0, 2),
        candidate(bbox, -0.1, 0, 3),
    ];
    let decay = SoftDecay::Linear { iou_threshold: 0.5 };
    assert_eq!(run(&candidates, &params(decay, 0.3)), [Kept { index: 1, score: 0.2 }]);
    assert_eq!(run(&candidates, &params(decay, 0.1)).len(), 2);
    assert!(run(&[], &params(decay, 0.1)).is_empty());
}

#[test]
fn wrong_arguments_are_refused() {
    let linear = SoftDecay::Linear { iou_threshold: 0.5 };
    for wrong in [
        params(SoftDecay::Linear { iou_threshold: 1.5 }, 0.1),
        params(SoftDecay::Gaussian { sigma: 0.0 }, 0.1),
        params(SoftDecay::Gaussian { sigma: f32::NAN }, 0.1),
        params(linear, -0.1),
        params(linear, f32::NAN),
        NmsSoft { offset: 3, ..params(linear, 0.1) },
    ] {
        let error = nms_soft(&[], &wrong, &mut Workspace::default(), &mut vec![]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn the_answer_is_that_of_the_obvious_loop(
        (kind, num, seed) in scenes(),
        is_linear in any::<bool>(),
        strength in 0.01_f32..1.0,
        min_score in prop_oneof![Just(0.0_f32), 0.0_f32..0.5],
        offset in 0_u8..2,
        mode in 0_usize..3,
    ) {
        let candidates = scene_2d(kind, num, seed);
        let decay = if is_linear {
            SoftDecay::Linear { iou_threshold: strength }
        } else {
            SoftDecay::Gaussian { sigma: strength }
        };
        let class_mode = class_modes()[mode].clone();
        let params = NmsSoft { decay, min_score, offset, class_mode };
        prop_assert_eq!(run(&candidates, &params), obvious(&candidates, &params));
    }

    #[test]
    fn the_exponential_is_exact_to_f64(x in -720.0_f64..=0.0) {
        let found = exp_f64(x);
        let error = (found - x.exp()).abs();
        prop_assert!(error <= 1e-13 * x.exp() + 1e-300, "exp({x}) is not {found}");
    }
}
