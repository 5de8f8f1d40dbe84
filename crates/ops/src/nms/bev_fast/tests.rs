use proptest::prelude::*;

use super::*;
use crate::nms::greedy::Suppressors;
use crate::nms::scenes::{candidate, class_modes, greedy, indices, scene_3d, scenes};
use det_post_types::{Box3d, ClassMode};

fn run(candidates: &[Candidate<Object3d>], params: &NmsBevFast) -> Vec<u32> {
    let mut keep = vec![Kept::default()];
    nms_bev_fast(candidates, params, &mut Workspace::default(), &mut keep).unwrap();
    indices(candidates, &keep)
}

fn params(iou_threshold: f32) -> NmsBevFast {
    NmsBevFast {
        iou_thresholds: vec![iou_threshold],
        search_distance_m: f32::INFINITY,
        unlimited_pairs: vec![],
        forbidden_pairs: vec![],
        class_mode: ClassMode::Agnostic,
    }
}

/// A box of 4 x 2 m at x, scaled.
fn object(x: f32, scale: f32, score: f32, class: u32, source: u32) -> Candidate<Object3d> {
    let bbox = Box3d {
        center: [x, 0.0, 0.0],
        length_m: 4.0 * scale,
        width_m: 2.0 * scale,
        height_m: 1.5,
        yaw_rad: 0.0,
    };
    candidate(Object3d { bbox, ..Object3d::default() }, score, class, source)
}

#[test]
fn suppressed_boxes_still_suppress() {
    // Neighbours at 3 m share 1 of 7 m².
    let cars: Vec<_> =
        (0..3).map(|i| object(3.0 * i as f32, 1.0, 0.9 - 0.1 * i as f32, 0, i)).collect();
    assert_eq!(run(&cars, &params(0.1)), [0]);
    assert_eq!(run(&cars, &params(0.15)), [0, 1, 2]);
}

#[test]
fn pairs_and_distances() {
    let cars = [object(0.0, 1.0, 0.9, 0, 0), object(1.0, 1.0, 0.8, 1, 1)];
    let near = NmsBevFast { search_distance_m: 0.5, ..params(0.1) };
    assert_eq!(run(&cars, &params(0.1)), [0]);
    assert_eq!(run(&cars, &near), [0, 1]);
    for pair in [[0, 1], [1, 0]] {
        assert_eq!(run(&cars, &NmsBevFast { unlimited_pairs: vec![pair], ..near.clone() }), [0]);
        let forbidden = NmsBevFast { forbidden_pairs: vec![pair], ..params(0.1) };
        assert_eq!(run(&cars, &forbidden), [0, 1]);
    }
}

#[test]
fn tiny_unions_are_no_overlap() {
    // 0.0098 and 0.0128 m².
    for (scale, expected) in [(0.035, &[0, 1][..]), (0.04, &[0])] {
        let boxes = [object(0.0, scale, 0.9, 0, 0), object(0.0, scale, 0.8, 0, 1)];
        assert_eq!(run(&boxes, &params(0.1)), expected, "{scale}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for wrong in [
        params(1.5),
        params(f32::NAN),
        NmsBevFast { iou_thresholds: vec![0.5; 2], ..params(0.5) },
        NmsBevFast { iou_thresholds: vec![], ..params(0.5) },
        NmsBevFast { search_distance_m: -1.0, ..params(0.5) },
        NmsBevFast { search_distance_m: f32::NAN, ..params(0.5) },
    ] {
        let scene = [object(0.0, 1.0, 0.9, 2, 0)];
        let found = nms_bev_fast(&scene, &wrong, &mut Workspace::default(), &mut vec![]);
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Argument, "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn the_answer_is_that_of_all_pairs(
        (kind, num, seed) in scenes(),
        threshold in 0.0_f32..1.0,
        search_distance_m in prop_oneof![Just(f32::INFINITY), 0.0_f32..30.0],
        mode in 0_usize..3,
    ) {
        let candidates = scene_3d(kind, num, seed);
        let class_mode = class_modes()[mode].clone();
        let squared_distance = search_distance_m * search_distance_m;
        let expected = |suppressors| greedy(
            &candidates,
            &class_mode,
            suppressors,
            |c| c.bbox.bbox.is_finite(),
            |better, c| {
                let [a, b] = [better, c].map(|c| Rectangle::new(&c.bbox.bbox.footprint()));
                let [dx, dy] = [0, 1].map(|axis| b.center[axis] - a.center[axis]);
                let classes = [better.class.min(c.class), better.class.max(c.class)];
                let is_near = dx * dx + dy * dy <= squared_distance || classes == [1, 1];
                classes != [0, 2] && is_near && iou(&a, &b) > threshold
            },
        );
        let params = NmsBevFast {
            search_distance_m,
            unlimited_pairs: vec![[1, 1]],
            forbidden_pairs: vec![[2, 0]],
            class_mode: class_mode.clone(),
            ..params(threshold)
        };
        let kept = run(&candidates, &params);
        prop_assert_eq!(&kept, &expected(Suppressors::All));
        let greedy_kept = expected(Suppressors::Kept);
        prop_assert!(kept.iter().all(|index| greedy_kept.contains(index)));
    }
}
