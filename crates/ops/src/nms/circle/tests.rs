use proptest::prelude::*;

use super::*;
use crate::nms::greedy::Suppressors;
use crate::nms::scenes::{candidate, class_modes, greedy, indices, scene_3d, scenes};
use det_post_types::{Box3d, CircleThreshold, ClassMode};

fn run(candidates: &[Candidate<Object3d>], params: &NmsCircle) -> Vec<u32> {
    let mut keep = vec![Kept::default()];
    nms_circle(candidates, params, &mut Workspace::default(), &mut keep).unwrap();
    indices(candidates, &keep)
}

fn at(x: f32, y: f32, score: f32, class: u32, source: u32) -> Candidate<Object3d> {
    let bbox = Box3d { center: [x, y, 50.0 * source as f32], ..Box3d::default() };
    candidate(Object3d { bbox, ..Object3d::default() }, score, class, source)
}

fn params(thresholds: &[f32], reading: CircleThreshold, class_mode: ClassMode) -> NmsCircle {
    NmsCircle { thresholds: thresholds.to_vec(), reading, class_mode }
}

#[test]
fn the_two_readings() {
    use CircleThreshold::{Radius, SquaredDistance};
    // 5 m apart: squared 25.
    let pair = [at(1.0, 2.0, 0.5, 0, 0), at(4.0, 6.0, 0.9, 0, 1)];
    for (threshold, reading, kept) in [
        (5.0, Radius, vec![1, 0]),
        (5.001, Radius, vec![1]),
        (0.0, Radius, vec![1, 0]),
        (-9.0, Radius, vec![1, 0]),
        (25.0, SquaredDistance, vec![1]),
        (24.99, SquaredDistance, vec![1, 0]),
        (5.0, SquaredDistance, vec![1, 0]),
        (f32::INFINITY, Radius, vec![1]),
        (f32::INFINITY, SquaredDistance, vec![1]),
    ] {
        let params = params(&[threshold], reading, ClassMode::Agnostic);
        assert_eq!(run(&pair, &params), kept, "{threshold} {reading:?}");
    }
    // Equal centres: a squared distance of 0 is below no radius of 0.
    let same = [at(1.0, 2.0, 0.5, 0, 0), at(1.0, 2.0, 0.5, 0, 1)];
    assert_eq!(run(&same, &params(&[0.0], Radius, ClassMode::Aware)), [0, 1]);
    assert_eq!(run(&same, &params(&[0.0], SquaredDistance, ClassMode::Aware)), [0]);
    assert_eq!(run(&same, &params(&[-1.0], SquaredDistance, ClassMode::Aware)), [0, 1]);
}

#[test]
fn the_class_of_the_kept_box_decides() {
    let scene = [at(0.0, 0.0, 0.9, 1, 0), at(3.0, 0.0, 0.8, 0, 1), at(5.0, 0.0, 0.7, 1, 2)];
    let params = |mode| params(&[1.0, 4.0], CircleThreshold::Radius, mode);
    assert_eq!(run(&scene, &params(ClassMode::Agnostic)), [0, 2]);
    assert_eq!(run(&scene, &params(ClassMode::Aware)), [0, 1, 2]);
}

#[test]
fn wrong_arguments_are_refused() {
    let scene = [at(0.0, 0.0, 0.9, 2, 0)];
    for (candidates, thresholds) in
        [(&scene[..], vec![1.0, 2.0]), (&scene[..], vec![]), (&[], vec![]), (&[], vec![f32::NAN])]
    {
        let params = params(&thresholds, CircleThreshold::Radius, ClassMode::Aware);
        let found = nms_circle(candidates, &params, &mut Workspace::default(), &mut vec![]);
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Argument, "{thresholds:?}");
    }
}

proptest! {
    #[test]
    fn the_answer_is_the_greedy_one(
        (kind, num, seed) in scenes(),
        thresholds in prop::collection::vec(prop_oneof![Just(0.0_f32), 0.0_f32..60.0], 3),
        is_radius in any::<bool>(),
        mode in 0_usize..3,
    ) {
        let candidates = scene_3d(kind, num, seed);
        let class_mode = class_modes()[mode].clone();
        let reading =
            if is_radius { CircleThreshold::Radius } else { CircleThreshold::SquaredDistance };
        let expected = greedy(
            &candidates,
            &class_mode,
            Suppressors::Kept,
            |c| c.bbox.bbox.is_finite(),
            |better, c| {
                let threshold = thresholds[better.class as usize];
                let [dx, dy] =
                    [0, 1].map(|axis| c.bbox.bbox.center[axis] - better.bbox.bbox.center[axis]);
                let squared = dx * dx + dy * dy;
                if is_radius { squared < threshold * threshold } else { squared <= threshold }
            },
        );
        prop_assert_eq!(run(&candidates, &params(&thresholds, reading, class_mode)), expected);
    }
}

proptest! {
    /// Two suppressions in a row are the sequential answer: the second on the survivors of
    /// the first.
    #[test]
    fn stages_are_the_sequential_answer(
        (kind, num, seed) in scenes(), radius in 0.0_f32..20.0, iou_threshold in 0.0_f32..1.0,
    ) {
        use crate::nms::suppress_stages_3d;
        use crate::nms::bev_fast::nms_bev_fast;
        use det_post_types::{Nms3d, NmsBevFast};

        let candidates = scene_3d(kind, num, seed);
        let circle = params(&[radius], CircleThreshold::Radius, ClassMode::Agnostic);
        let fast = NmsBevFast {
            iou_thresholds: vec![iou_threshold],
            search_distance_m: 25.0,
            unlimited_pairs: vec![],
            forbidden_pairs: vec![[0, 1]],
            class_mode: ClassMode::Agnostic,
        };
        let first = run(&candidates, &circle);
        let left: Vec<_> = first.iter().map(|&index| candidates[index as usize]).collect();
        let (mut keep, mut workspace) = (Vec::new(), Workspace::default());
        nms_bev_fast(&left, &fast, &mut workspace, &mut keep).unwrap();
        let expected: Vec<u32> =
            indices(&left, &keep).iter().map(|&at| first[at as usize]).collect();
        let stages = [Nms3d::Circle(circle), Nms3d::BevFast(fast)];
        suppress_stages_3d(&candidates, &stages, &mut workspace, &mut keep).unwrap();
        prop_assert_eq!(indices(&candidates, &keep), expected.clone());
        suppress_stages_3d(&candidates, &stages, &mut workspace, &mut keep).unwrap();
        prop_assert_eq!(indices(&candidates, &keep), expected);
        suppress_stages_3d(&candidates, &stages[..1], &mut workspace, &mut keep).unwrap();
        prop_assert_eq!(indices(&candidates, &keep), first);
    }
}
