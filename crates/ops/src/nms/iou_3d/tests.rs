use proptest::prelude::*;

use super::*;
use crate::nms::geometry::iou_3d;
use crate::nms::greedy::Suppressors;
use crate::nms::scenes::{candidate, class_modes, greedy, indices, scene_3d, scenes};
use det_post_types::{Box3d, ClassMode, ErrorKind};

fn run(
    candidates: &[Candidate<Object3d>],
    iou_thresholds: &[f32],
    class_mode: ClassMode,
) -> Vec<u32> {
    let mut keep = vec![Kept::default()];
    let params = NmsIou3d { iou_thresholds: iou_thresholds.to_vec(), class_mode };
    nms_iou_3d(candidates, &params, &mut Workspace::default(), &mut keep).unwrap();
    indices(candidates, &keep)
}

/// A crate of 3 x 2 x 1 m, raised by `z`.
fn crate_at(z: f32, score: f32, class: u32, source: u32) -> Candidate<Object3d> {
    let bbox =
        Box3d { center: [2.0, 5.0, z], length_m: 3.0, width_m: 2.0, height_m: 1.0, yaw_rad: -0.8 };
    candidate(Object3d { bbox, ..Object3d::default() }, score, class, source)
}

#[test]
fn heights_count() {
    let stack = [
        crate_at(0.0, 0.9, 0, 0),
        crate_at(0.5, 0.8, 1, 1),
        crate_at(1.0, 0.7, 0, 2),
        crate_at(f32::INFINITY, 0.6, 0, 3),
    ];
    let agnostic = || ClassMode::Agnostic;
    assert_eq!(run(&stack, &[0.3], agnostic()), [0, 2]);
    assert_eq!(run(&stack, &[0.34], agnostic()), [0, 1, 2]);
    assert_eq!(run(&stack, &[0.3], ClassMode::Aware), [0, 1, 2]);
    // The class of the kept box decides.
    assert_eq!(run(&stack, &[0.9, 0.3], agnostic()), [0, 1]);
    assert_eq!(run(&stack, &[0.3, 0.9], agnostic()), [0, 2]);
    assert!(run(&[], &[0.3], agnostic()).is_empty());
}

#[test]
fn wrong_arguments_are_refused() {
    for iou_thresholds in [vec![], vec![0.5, 0.5], vec![-0.5]] {
        let params = NmsIou3d { iou_thresholds, class_mode: ClassMode::Aware };
        let scene = [crate_at(0.0, 0.9, 2, 0)];
        let found = nms_iou_3d(&scene, &params, &mut Workspace::default(), &mut vec![]);
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Argument, "{params:?}");
    }
}

proptest! {
    #[test]
    fn the_answer_is_the_greedy_one(
        (kind, num, seed) in scenes(),
        thresholds in prop::collection::vec(0.0_f32..1.0, 3),
        mode in 0_usize..3,
    ) {
        let candidates = scene_3d(kind, num, seed);
        let class_mode = class_modes()[mode].clone();
        let expected = greedy(
            &candidates,
            &class_mode,
            Suppressors::Kept,
            |c| c.bbox.bbox.is_finite(),
            |better, c| {
                iou_3d(&better.bbox.bbox, &c.bbox.bbox) > thresholds[better.class as usize]
            },
        );
        prop_assert_eq!(run(&candidates, &thresholds, class_mode), expected);
    }
}
