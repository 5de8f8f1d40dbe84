use proptest::prelude::*;

use super::*;
use crate::nms::geometry::iou_bev;
use crate::nms::greedy::Suppressors;
use crate::nms::scenes::{candidate, class_modes, greedy, indices, scene_3d, scenes};
use det_post_types::{Box3d, ClassMode};

fn run(candidates: &[Candidate<Object3d>], params: &NmsBev) -> Vec<u32> {
    let mut keep = vec![Kept::default()];
    nms_bev(candidates, params, &mut Workspace::default(), &mut keep).unwrap();
    indices(candidates, &keep)
}

fn params(iou_thresholds: &[f32]) -> NmsBev {
    NmsBev {
        iou_thresholds: iou_thresholds.to_vec(),
        search_distance_m: f32::INFINITY,
        forbidden_pairs: vec![],
        class_mode: ClassMode::Agnostic,
    }
}

/// A car of 4 x 2 m, turned by 0.6 rad and moved along its heading.
fn car(along: f32, score: f32, class: u32, source: u32) -> Candidate<Object3d> {
    let (sin, cos) = 0.6_f32.sin_cos();
    let bbox = Box3d {
        center: [7.0 + cos * along, -3.0 + sin * along, 9.0 * source as f32],
        length_m: 4.0,
        width_m: 2.0,
        height_m: 1.5,
        yaw_rad: 0.6,
    };
    candidate(Object3d { bbox, ..Object3d::default() }, score, class, source)
}

#[test]
fn search_distance_and_forbidden_pairs() {
    // IoU of cars one metre apart is 3 / 5, of cars two metres apart 1 / 3.
    let cars = [car(0.0, 0.9, 0, 0), car(1.0, 0.8, 1, 1), car(2.0, 0.7, 2, 2)];
    let run = |params: NmsBev| run(&cars, &params);
    assert_eq!(run(params(&[0.3])), [0]);
    assert_eq!(run(params(&[0.5])), [0, 2]);
    assert_eq!(run(NmsBev { search_distance_m: 1.5, ..params(&[0.3]) }), [0, 2]);
    assert_eq!(run(NmsBev { search_distance_m: 0.0, ..params(&[0.3]) }), [0, 1, 2]);
    for pair in [[0, 1], [1, 0]] {
        let forbidden_pairs = vec![[5, 6], pair];
        assert_eq!(run(NmsBev { forbidden_pairs, ..params(&[0.3]) }), [0, 1]);
    }
    assert_eq!(run(NmsBev { class_mode: ClassMode::Aware, ..params(&[0.3]) }), [0, 1, 2]);
}

#[test]
fn the_class_of_the_kept_box_decides() {
    let cars = [car(0.0, 0.9, 0, 0), car(1.0, 0.8, 1, 1), car(2.0, 0.7, 1, 2)];
    assert_eq!(run(&cars, &params(&[0.7, 0.3])), [0, 1]);
    assert_eq!(run(&cars, &params(&[0.3, 0.7])), [0]);
    assert_eq!(run(&cars, &params(&[0.5, 0.9])), [0, 2]);
}

#[test]
fn wrong_arguments_are_refused() {
    for wrong in [
        params(&[0.5, 1.5]),
        params(&[f32::NAN]),
        params(&[0.5, 0.5]),
        params(&[]),
        NmsBev { search_distance_m: -1.0, ..params(&[0.5]) },
        NmsBev { search_distance_m: f32::NAN, ..params(&[0.5]) },
    ] {
        let scene = [car(0.0, 0.9, 2, 0)];
        let found = nms_bev(&scene, &wrong, &mut Workspace::default(), &mut vec![]);
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Argument, "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn the_answer_is_the_greedy_one(
        (kind, num, seed) in scenes(),
        thresholds in prop::collection::vec(0.0_f32..1.0, 3),
        search_distance_m in prop_oneof![Just(f32::INFINITY), 0.0_f32..30.0],
        mode in 0_usize..3,
    ) {
        let candidates = scene_3d(kind, num, seed);
        let class_mode = class_modes()[mode].clone();
        let squared_distance = search_distance_m * search_distance_m;
        let expected = greedy(
            &candidates,
            &class_mode,
            Suppressors::Kept,
            |c| c.bbox.bbox.is_finite(),
            |better, c| {
                let (a, b) = (&better.bbox.bbox, &c.bbox.bbox);
                let [dx, dy] = [0, 1].map(|axis| b.center[axis] - a.center[axis]);
                let classes = [better.class.min(c.class), better.class.max(c.class)];
                classes != [0, 2]
                    && dx * dx + dy * dy <= squared_distance
                    && iou_bev(a, b) > thresholds[better.class as usize]
            },
        );
        let forbidden_pairs = vec![[2, 0]];
        let params =
            NmsBev { search_distance_m, forbidden_pairs, class_mode, ..params(&thresholds) };
        prop_assert_eq!(run(&candidates, &params), expected);
    }
}
