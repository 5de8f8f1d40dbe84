//! Suppression by overlap of footprints: the same survivors in the same order.

use det_post_types::{Box3d, Candidate, ClassMode, Nms3d, NmsBev};

use super::nms::{Problem, check_damaged, check_scenes, objects};
use det_post_testing::random::Random;

fn bev(iou_thresholds: &[f32], search_distance_m: f32, forbidden_pairs: &[[u32; 2]]) -> NmsBev {
    NmsBev {
        iou_thresholds: iou_thresholds.to_vec(),
        search_distance_m,
        forbidden_pairs: forbidden_pairs.to_vec(),
        class_mode: ClassMode::Agnostic,
    }
}

#[test]
fn sizes_densities_and_settings_agree() {
    let by_class = bev(&[0.1, 0.0, 0.5, 0.2, 1.0], 20.0, &[[4, 3]]);
    let class_mode = ClassMode::Groups(vec![0, 1, 1]);
    let settings = [
        Nms3d::Bev(bev(&[0.1], f32::INFINITY, &[])),
        Nms3d::Bev(bev(&[0.0], 3.0, &[[0, 1], [2, 2]])),
        Nms3d::Bev(NmsBev { class_mode, ..by_class }),
    ];
    check_scenes(75, &settings);
}

#[test]
fn ties_and_candidates_that_are_not_eligible_agree() {
    let settings = [bev(&[0.2], f32::INFINITY, &[]), bev(&[0.0], 5.0, &[])].map(Nms3d::Bev);
    check_damaged(76, &settings, |_, _| {});
}

#[test]
fn a_class_without_a_threshold_is_refused_on_both() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut candidates = objects(&mut Random::new(77), 100, 30.0);
    candidates[7].class = 3;
    for capacity in [100, 2500] {
        let nms = &Nms3d::Bev(bev(&[0.1; 3], 9.0, &[]));
        Problem { candidates: &candidates, capacity, nms }.check_refused(&device);
    }
    let nms = &Nms3d::Bev(bev(&[], 9.0, &[]));
    Problem { candidates: &[] as &[Candidate<Box3d>], capacity: 9, nms }.check_refused(&device);
}
