//! Suppression by overlap of volumes: the same survivors in the same order.

use det_post_types::{ClassMode, Nms3d, NmsIou3d};

use super::nms::{Problem, check_damaged, check_scenes, objects};
use det_post_testing::random::Random;

fn volumes(iou_thresholds: &[f32], class_mode: ClassMode) -> Nms3d {
    Nms3d::Iou3d(NmsIou3d { iou_thresholds: iou_thresholds.to_vec(), class_mode })
}

#[test]
fn sizes_densities_and_settings_agree() {
    let settings = [
        volumes(&[0.0], ClassMode::Agnostic),
        volumes(&[0.1], ClassMode::Aware),
        volumes(&[0.1, 0.0, 0.5, 0.2, 1.0], ClassMode::Agnostic),
    ];
    check_scenes(80, &settings);
}

#[test]
fn ties_and_candidates_that_are_not_eligible_agree() {
    let settings = [volumes(&[0.2], ClassMode::Agnostic), volumes(&[0.0], ClassMode::Agnostic)];
    check_damaged(81, &settings, |_, _| {});
}

#[test]
fn a_class_without_a_threshold_is_refused_on_both() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut candidates = objects(&mut Random::new(82), 100, 30.0);
    candidates[7].class = 3;
    for capacity in [100, 2500] {
        let nms = &volumes(&[0.1; 3], ClassMode::Aware);
        Problem { candidates: &candidates, capacity, nms }.check_refused(&device);
    }
}
