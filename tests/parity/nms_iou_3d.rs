//! Suppression by overlap of volumes: the same survivors in the same order.

use det_post::types::{ClassMode, Nms3d, NmsIou3d};

use super::nms::{Problem, damaged_objects, objects};
use super::random::Random;

fn volumes(iou_thresholds: &[f32], class_mode: ClassMode) -> Nms3d {
    Nms3d::Iou3d(NmsIou3d { iou_thresholds: iou_thresholds.to_vec(), class_mode })
}

#[test]
fn sizes_densities_and_settings_agree() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(80);
    let settings = [
        volumes(&[0.0], ClassMode::Agnostic),
        volumes(&[0.1], ClassMode::Aware),
        volumes(&[0.1, 0.0, 0.5, 0.2, 1.0], ClassMode::Agnostic),
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
fn ties_and_candidates_that_are_not_eligible_agree() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(81);
    for (num, capacity) in [(400, 400), (800, 800), (800, 2900)] {
        let candidates = damaged_objects(&mut random, num);
        for nms in &[volumes(&[0.2], ClassMode::Agnostic), volumes(&[0.0], ClassMode::Agnostic)] {
            Problem { candidates: &candidates, capacity, nms }.check(&device);
        }
    }
}

#[test]
fn a_class_without_a_threshold_is_refused_on_both() {
    let Some(device) = super::gpu() else { return };
    let mut candidates = objects(&mut Random::new(82), 100, 30.0);
    candidates[7].class = 3;
    for capacity in [100, 2500] {
        let nms = &volumes(&[0.1; 3], ClassMode::Aware);
        Problem { candidates: &candidates, capacity, nms }.check_refused(&device);
    }
}
