//! One-pass suppression by overlap of footprints: the same survivors in the same order.

use det_post::types::{Box3d, Candidate, ClassMode, Nms3d, NmsBevFast};

use super::nms::{Problem, damaged_objects, objects};
use super::random::Random;

fn fast(
    iou_thresholds: &[f32],
    search_distance_m: f32,
    unlimited_pairs: &[[u32; 2]],
    forbidden_pairs: &[[u32; 2]],
) -> NmsBevFast {
    NmsBevFast {
        iou_thresholds: iou_thresholds.to_vec(),
        search_distance_m,
        unlimited_pairs: unlimited_pairs.to_vec(),
        forbidden_pairs: forbidden_pairs.to_vec(),
        class_mode: ClassMode::Agnostic,
    }
}

#[test]
fn sizes_densities_and_settings_agree() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(175);
    let by_class = fast(&[0.1, 0.0, 0.5, 0.2, 1.0], 4.0, &[[0, 0], [2, 1]], &[[4, 3]]);
    let class_mode = ClassMode::Groups(vec![0, 1, 1]);
    let settings = [
        Nms3d::BevFast(fast(&[0.1], f32::INFINITY, &[], &[])),
        Nms3d::BevFast(fast(&[0.0], 3.0, &[[1, 1]], &[[0, 1], [2, 2]])),
        Nms3d::BevFast(NmsBevFast { class_mode, ..by_class }),
    ];
    for num in [0, 1, 50, 500, 900, 2048, 2600] {
        for half_side in [6.0, 60.0] {
            // The reference tests all pairs of a crowd.
            let num = if half_side < 10.0 { num.min(500) } else { num };
            let candidates = objects(&mut random, num, half_side);
            for nms in &settings {
                Problem { candidates: &candidates, capacity: num.max(1), nms }.check(&device);
            }
        }
    }
}

#[test]
fn ties_tiny_boxes_and_candidates_that_are_not_eligible_agree() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(176);
    for (num, capacity) in [(400, 400), (800, 800), (800, 2900)] {
        let mut candidates = damaged_objects(&mut random, num);
        for candidate in candidates.iter_mut().step_by(7) {
            candidate.bbox.length_m = random.range(0.02, 0.2);
            candidate.bbox.width_m = random.range(0.02, 0.2);
            candidate.bbox.center = [random.range(0.0, 0.3), 0.0, 0.0];
        }
        for nms in &[
            Nms3d::BevFast(fast(&[0.2], f32::INFINITY, &[], &[])),
            Nms3d::BevFast(fast(&[0.0], 5.0, &[[0, 3]], &[])),
        ] {
            Problem { candidates: &candidates, capacity, nms }.check(&device);
        }
    }
}

#[test]
fn a_class_without_a_threshold_is_refused_on_both() {
    let Some(device) = super::gpu() else { return };
    let mut candidates = objects(&mut Random::new(177), 100, 30.0);
    candidates[7].class = 3;
    for capacity in [100, 2500] {
        let nms = &Nms3d::BevFast(fast(&[0.1; 3], 9.0, &[], &[]));
        Problem { candidates: &candidates, capacity, nms }.check_refused(&device);
    }
    let nms = &Nms3d::BevFast(fast(&[], 9.0, &[], &[]));
    Problem { candidates: &[] as &[Candidate<Box3d>], capacity: 9, nms }.check_refused(&device);
}
