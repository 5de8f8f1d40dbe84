//! One-pass suppression by overlap of footprints: the same survivors in the same order.

use det_post_ops::nms::cuda::{Capacity, Stages3d};
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{Box3d, Candidate, ClassMode, Nms3d, NmsBevFast};

use super::nms::{Problem, check_damaged, check_scenes, check_stages, damaged_objects, objects};
use det_post_testing::random::Random;

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
    let by_class = fast(&[0.1, 0.0, 0.5, 0.2, 1.0], 4.0, &[[0, 0], [2, 1]], &[[4, 3]]);
    let class_mode = ClassMode::Groups(vec![0, 1, 1]);
    let settings = [
        Nms3d::BevFast(fast(&[0.1], f32::INFINITY, &[], &[])),
        Nms3d::BevFast(fast(&[0.0], 3.0, &[[1, 1]], &[[0, 1], [2, 2]])),
        Nms3d::BevFast(NmsBevFast { class_mode, ..by_class }),
    ];
    check_scenes(175, &settings);
}

#[test]
fn ties_tiny_boxes_and_candidates_that_are_not_eligible_agree() {
    let settings = [fast(&[0.2], f32::INFINITY, &[], &[]), fast(&[0.0], 5.0, &[[0, 3]], &[])]
        .map(Nms3d::BevFast);
    check_damaged(176, &settings, |random, candidates| {
        for candidate in candidates.iter_mut().step_by(7) {
            candidate.bbox.length_m = random.range(0.02, 0.2);
            candidate.bbox.width_m = random.range(0.02, 0.2);
            candidate.bbox.center = [random.range(0.0, 0.3), 0.0, 0.0];
        }
    });
}

/// After another suppression the kernel takes the order that this one has written: sizes
/// around those of a block, crowds, ties, groups, a third suppression.
#[test]
fn ranked_candidates_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(178);
    let by_class = fast(&[0.1, 0.0, 0.5, 0.2, 1.0], 4.0, &[[0, 0], [2, 1]], &[[4, 3]]);
    let class_mode = ClassMode::Groups(vec![0, 1, 1]);
    let seconds = [
        Nms3d::BevFast(fast(&[0.1], f32::INFINITY, &[], &[])),
        Nms3d::BevFast(NmsBevFast { class_mode, ..by_class }),
    ];
    for num in [1, 31, 129, 1023, 1025, 2600, 5000] {
        for half_side in [6.0, 80.0] {
            let num = if half_side < 10.0 { num.min(500) } else { num };
            let candidates = objects(&mut random, num, half_side);
            for second in &seconds {
                let stages = [Nms3d::None, second.clone()];
                check_stages(&device, &candidates, num, &stages);
                check_stages(&device, &candidates, num + 600, &stages);
            }
        }
    }
    let damaged = damaged_objects(&mut random, 900);
    for second in seconds {
        check_stages(&device, &damaged, 900, &[Nms3d::None, second.clone(), second]);
    }
}

#[test]
fn a_class_without_a_threshold_is_refused_on_both() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut candidates = objects(&mut Random::new(177), 100, 30.0);
    candidates[7].class = 3;
    for capacity in [100, 2500] {
        let nms = &Nms3d::BevFast(fast(&[0.1; 3], 9.0, &[], &[]));
        Problem { candidates: &candidates, capacity, nms }.check_refused(&device);
    }
    let stages = [Nms3d::None, Nms3d::BevFast(fast(&[0.1; 3], 9.0, &[], &[]))];
    let stream = device.stream().unwrap();
    let room = Capacity { candidates: 100, classes: 5 };
    let mut suppression = Stages3d::new(&stream, &stages, room).unwrap();
    let mut on_device = DeviceCandidates::with_capacity(&stream, 100).unwrap();
    on_device.write(&candidates).unwrap();
    let highest = candidates.iter().map(|c| c.class).max().unwrap();
    for _ in 0..2 {
        let left = suppression.enqueue(&on_device, None).unwrap();
        assert_eq!(left.kept.1.read().unwrap()[0].class_over, highest + 1);
    }
    let nms = &Nms3d::BevFast(fast(&[], 9.0, &[], &[]));
    Problem { candidates: &[] as &[Candidate<Box3d>], capacity: 9, nms }.check_refused(&device);
}
