use std::f32::consts::FRAC_PI_2;

use proptest::prelude::*;

use super::*;
use crate::nms::geometry::rotated_iou;
use crate::nms::greedy::Suppressors;
use crate::nms::scenes::{candidate, class_modes, greedy, indices, scene, scenes};
use det_post_types::{ClassMode, ErrorKind};

fn run(
    candidates: &[Candidate<RotatedBox2d>],
    iou_threshold: f32,
    class_mode: ClassMode,
) -> Vec<u32> {
    let mut keep = vec![Kept::default()];
    let params = NmsRotated { iou_threshold, class_mode };
    nms_rotated(candidates, &params, &mut Workspace::default(), &mut keep).unwrap();
    indices(candidates, &keep)
}

#[test]
fn the_angle_counts() {
    let bbox = |angle_rad| RotatedBox2d { cx: 3.0, cy: -2.0, width: 6.0, height: 1.5, angle_rad };
    let crossed = [
        candidate(bbox(0.4), 0.9, 0, 0),
        candidate(bbox(0.4 + FRAC_PI_2), 0.8, 0, 1),
        candidate(bbox(0.45), 0.7, 0, 2),
        candidate(bbox(0.45), 0.6, 1, 3),
    ];
    assert_eq!(run(&crossed, 0.5, ClassMode::Aware), [0, 1, 3]);
    assert_eq!(run(&crossed, 0.5, ClassMode::Agnostic), [0, 1]);
    assert_eq!(run(&crossed, 0.1, ClassMode::Agnostic), [0]);
    assert!(run(&[], 0.1, ClassMode::Agnostic).is_empty());
}

#[test]
fn what_is_not_finite_takes_no_part_and_empty_boxes_stay() {
    let whole = RotatedBox2d { cx: 0.0, cy: 0.0, width: 4.0, height: 3.0, angle_rad: 0.3 };
    let candidates = [
        candidate(RotatedBox2d { angle_rad: f32::NAN, ..whole }, 0.9, 0, 0),
        candidate(RotatedBox2d { width: 0.0, ..whole }, 0.8, 0, 1),
        candidate(RotatedBox2d { height: -3.0, ..whole }, 0.7, 0, 2),
        candidate(whole, 0.6, 0, 3),
        candidate(whole, f32::NAN, 0, 4),
    ];
    assert_eq!(run(&candidates, 0.0, ClassMode::Aware), [1, 2, 3]);
}

#[test]
fn wrong_arguments_are_refused() {
    let params = NmsRotated { iou_threshold: 2.0, class_mode: ClassMode::Aware };
    let error = nms_rotated(&[], &params, &mut Workspace::default(), &mut vec![]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
}

proptest! {
    #[test]
    fn the_answer_is_the_greedy_one(
        (kind, num, seed) in scenes(), iou_threshold in 0.0_f32..1.0, mode in 0_usize..3,
    ) {
        let candidates = scene(kind, num, seed);
        let class_mode = class_modes()[mode].clone();
        let expected = greedy(
            &candidates,
            &class_mode,
            Suppressors::Kept,
            |c| c.bbox.is_finite(),
            |better, c| rotated_iou(&better.bbox, &c.bbox) > iou_threshold,
        );
        prop_assert_eq!(run(&candidates, iou_threshold, class_mode), expected);
    }
}
