//! Circle suppression: the same survivors in the same order.

use det_post::device::cuda::{CudaDevice, DeviceCandidates};
use det_post::ops::nms::Workspace;
use det_post::ops::nms::cuda::Capacity;
use det_post::ops::nms_circle::{cuda, nms_circle};
use det_post::types::{Box3d, Candidate, CircleThreshold, ClassMode, Kept, NmsCircle, Object3d};
use det_post::{ErrorKind, Result};

use super::random::Random;

struct Problem {
    candidates: Vec<Candidate<Box3d>>,
    capacity: usize,
    params: NmsCircle,
}

impl Problem {
    fn reference(&self) -> Result<Vec<Kept>> {
        let objects: Vec<Candidate<Object3d>> = self
            .candidates
            .iter()
            .map(|c| Candidate {
                bbox: Object3d { bbox: c.bbox, ..Object3d::default() },
                score: c.score,
                class: c.class,
                source: c.source,
            })
            .collect();
        let mut keep = Vec::new();
        nms_circle(&objects, &self.params, &mut Workspace::default(), &mut keep)?;
        Ok(keep)
    }

    fn on_device(&self, device: &CudaDevice) -> Result<Vec<Kept>> {
        let stream = device.stream()?;
        let capacity = Capacity { candidates: self.capacity, classes: 16 };
        let mut workspace = cuda::workspace(&stream, capacity)?;
        let mut candidates = DeviceCandidates::with_capacity(&stream, self.capacity)?;
        cuda::set_nms_circle(&mut workspace, &self.params)?;
        candidates.write(&self.candidates)?;
        let mut keep = Vec::new();
        cuda::enqueue_nms_circle(&candidates, &mut workspace)?;
        workspace.read_kept(&mut keep)?;
        Ok(keep)
    }

    fn check(&self, device: &CudaDevice) {
        let (found, expected) = (self.on_device(device).unwrap(), self.reference().unwrap());
        let first = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert!(
            found == expected,
            "{} candidates, capacity {}, {:?}: {} kept, expected {}; first difference {first:?}",
            self.candidates.len(),
            self.capacity,
            self.params,
            found.len(),
            expected.len(),
        );
    }
}

fn scene(random: &mut Random, num: usize, half_side: f32) -> Vec<Candidate<Box3d>> {
    (0..num as u32)
        .map(|source| Candidate {
            bbox: Box3d {
                center: [
                    random.range(-half_side, half_side),
                    random.range(-0.8 * half_side, 0.8 * half_side),
                    random.range(-2.0, 2.0),
                ],
                length_m: random.range(0.5, 12.0),
                width_m: 2.0,
                height_m: 1.7,
                yaw_rad: random.range(-3.0, 3.0),
            },
            score: random.range(0.05, 1.0),
            class: random.below(5) as u32,
            source,
        })
        .collect()
}

fn params(thresholds: &[f32], reading: CircleThreshold) -> NmsCircle {
    NmsCircle { thresholds: thresholds.to_vec(), reading, class_mode: ClassMode::Agnostic }
}

/// Sizes, readings and thresholds in a square of a density.
fn scenes_agree(seed: u64, half_side: f32) {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(seed);
    for num in [0, 1, 33, 500, 900, 2000, 2048, 2049, 10_000] {
        for reading in [CircleThreshold::Radius, CircleThreshold::SquaredDistance] {
            for thresholds in [&[1.5][..], &[0.2, 4.0, 0.0, -1.0, 1.0], &[1e-25], &[1e30]] {
                let candidates = scene(&mut random, num, half_side);
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
fn ties_classes_and_values_that_take_no_part_agree() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(21);
    let values = [f32::NAN, f32::INFINITY, -1e30, 1e38, 0.0];
    for (num, capacity) in [(350, 350), (1500, 1500), (1500, 3000)] {
        for class_mode in [ClassMode::Aware, ClassMode::Groups(vec![1, 1, 0])] {
            let mut candidates = scene(&mut random, num, 30.0);
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
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(22);
    for (num, capacity) in [(100, 100), (900, 900), (100, 2500)] {
        let mut candidates = scene(&mut random, num, 30.0);
        candidates[7].class = 3;
        candidates.iter_mut().filter(|c| c.class == 4).for_each(|c| c.score = f32::NAN);
        let params = params(&[1.0, 1.0, 1.0], CircleThreshold::Radius);
        let problem = Problem { candidates, capacity, params };
        let (found, expected) = (problem.on_device(&device), problem.reference());
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Argument);
        assert_eq!(expected.unwrap_err().kind(), ErrorKind::Argument);
    }
}
