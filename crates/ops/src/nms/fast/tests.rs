use proptest::prelude::*;

use super::*;
use crate::nms::greedy::Suppressors;
use crate::nms::scenes::{candidate, class_modes, greedy, indices, iou_as_mmcv, scene_2d, scenes};
use det_post_types::{ClassMode, ErrorKind};

fn run(candidates: &[Candidate<Box2d>], iou_threshold: f32, class_mode: ClassMode) -> Vec<u32> {
    let mut keep = vec![Kept::default()];
    let params = NmsFast { iou_threshold, class_mode };
    nms_fast(candidates, &params, &mut Workspace::default(), &mut keep).unwrap();
    indices(candidates, &keep)
}

#[test]
fn suppressed_boxes_still_suppress() {
    let candidates: Vec<_> = (0..5)
        .map(|i| {
            let x = i as f32;
            candidate(Box2d::new(x, 0.0, x + 2.0, 2.0), 1.0 - x * 0.1, 0, i)
        })
        .collect();
    assert_eq!(run(&candidates, 0.3, ClassMode::Aware), [0]);
    assert_eq!(run(&candidates, 0.34, ClassMode::Aware), [0, 1, 2, 3, 4]);
    assert_eq!(run(&candidates[..1], 0.3, ClassMode::Aware), [0]);
    assert!(run(&[], 0.3, ClassMode::Aware).is_empty());
}

#[test]
fn wrong_arguments_are_refused() {
    let params = NmsFast { iou_threshold: -1.0, class_mode: ClassMode::Aware };
    let error = nms_fast(&[], &params, &mut Workspace::default(), &mut vec![]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
}

proptest! {
    #[test]
    fn the_answer_is_that_of_all_pairs(
        (kind, num, seed) in scenes(), iou_threshold in 0.0_f32..1.0, mode in 0_usize..3,
    ) {
        let candidates = scene_2d(kind, num, seed);
        let class_mode = class_modes()[mode].clone();
        let expected = |suppressors| {
            greedy(
                &candidates,
                &class_mode,
                suppressors,
                |c| c.bbox.is_finite(),
                |better, c| iou_as_mmcv(&better.bbox, &c.bbox, 0.0) > iou_threshold,
            )
        };
        let kept = run(&candidates, iou_threshold, class_mode.clone());
        prop_assert_eq!(&kept, &expected(Suppressors::All));
        let greedy_kept = expected(Suppressors::Kept);
        prop_assert!(kept.iter().all(|index| greedy_kept.contains(index)));
    }
}
