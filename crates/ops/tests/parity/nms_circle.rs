//! Circle suppression: the same survivors in the same order.

use det_post_ops::device::cuda::CudaDevice;
use det_post_types::{Box3d, Candidate, CircleThreshold, ClassMode, Nms3d, NmsCircle};

use super::nms::{self, objects};
use det_post_testing::random::Random;

struct Problem {
    candidates: Vec<Candidate<Box3d>>,
    capacity: usize,
    params: NmsCircle,
}

impl Problem {
    fn check(self, device: &CudaDevice) {
        let Self { candidates, capacity, params } = self;
        let nms = &Nms3d::Circle(params);
        nms::Problem { candidates: &candidates, capacity, nms }.check(device);
    }
}

fn params(thresholds: &[f32], reading: CircleThreshold) -> NmsCircle {
    NmsCircle { thresholds: thresholds.to_vec(), reading, class_mode: ClassMode::Agnostic }
}

/// Sizes, readings and thresholds in a square of a density.
fn scenes_agree(seed: u64, half_side: f32) {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(seed);
    for num in [0, 1, 33, 500, 900, 2000, 2048, 2049, 10_000] {
        for reading in [CircleThreshold::Radius, CircleThreshold::SquaredDistance] {
            for thresholds in [&[1.5][..], &[0.2, 4.0, 0.0, -1.0, 1.0], &[1e-25], &[1e30]] {
                let candidates = objects(&mut random, num, half_side);
                let params = params(thresholds, reading);
                Problem { candidates, capacity: num.max(1), params }.check(&device);
            }
        }
    }
}

#[test]
fn crowded_scenes_agree() {
    scenes_agree(20, 2.0);
}

#[test]
fn busy_scenes_agree() {
    scenes_agree(23, 60.0);
}

#[test]
fn empty_scenes_agree() {
    scenes_agree(24, 500.0);
}

#[test]
fn ties_classes_and_candidates_that_are_not_eligible_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(21);
    let values = [f32::NAN, f32::INFINITY, -1e30, 1e38, 0.0];
    for (num, capacity) in [(350, 350), (1500, 1500), (1500, 3000)] {
        for class_mode in [ClassMode::Aware, ClassMode::Groups(vec![1, 1, 0])] {
            let mut candidates = objects(&mut random, num, 30.0);
            for candidate in &mut candidates {
                candidate.score = random.below(6) as f32 / 6.0;
                let value = values[random.below(values.len())];
                match random.below(12) {
                    0 => candidate.score = value,
                    1 => candidate.bbox.center[0] = value,
                    2 => candidate.bbox.center[1] = value,
                    3 => candidate.bbox.yaw_rad = value,
                    4 => candidate.bbox.center[0] = candidate.bbox.center[1],
                    _ => {}
                }
            }
            let params = NmsCircle { class_mode, ..params(&[2.0], CircleThreshold::Radius) };
            Problem { candidates, capacity, params }.check(&device);
        }
    }
}

#[test]
fn a_class_without_a_threshold_is_refused_on_both() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(22);
    for (num, capacity) in [(100, 100), (900, 900), (100, 2500)] {
        let mut candidates = objects(&mut random, num, 30.0);
        candidates[7].class = 3;
        candidates.iter_mut().filter(|c| c.class == 4).for_each(|c| c.score = f32::NAN);
        let nms = &Nms3d::Circle(params(&[1.0, 1.0, 1.0], CircleThreshold::Radius));
        nms::Problem { candidates: &candidates, capacity, nms }.check_refused(&device);
    }
}
