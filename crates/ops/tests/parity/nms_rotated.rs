//! Rotated suppression: the same survivors in the same order.

use det_post_ops::device::cuda::CudaDevice;
use det_post_types::{Candidate, ClassMode, Nms2d, NmsRotated, RotatedBox2d};

use super::nms::Problem;
use det_post_testing::random::Random;

fn check(
    device: &CudaDevice,
    candidates: &[Candidate<RotatedBox2d>],
    capacity: usize,
    params: &NmsRotated,
) {
    Problem { candidates, capacity, nms: &Nms2d::Rotated(params.clone()) }.check(device);
}

/// Boxes of many sizes and angles in a rectangle.
pub fn scene(random: &mut Random, num: usize, side: f32) -> Vec<Candidate<RotatedBox2d>> {
    (0..num as u32)
        .map(|source| Candidate {
            bbox: RotatedBox2d {
                cx: random.range(0.0, side),
                cy: random.range(0.0, 0.6 * side),
                width: random.range(-1.0, 6.0).exp2(),
                height: random.range(2.0, 40.0),
                angle_rad: [random.range(-7.0, 7.0), 0.0, 1.0e4][random.below(9) / 4],
            },
            score: random.range(0.05, 1.0),
            class: random.below(4) as u32,
            source,
        })
        .collect()
}

#[test]
fn sizes_densities_and_class_modes_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(73);
    for num in [0, 1, 50, 300, 700, 2048, 2500] {
        for side in [60.0, 900.0] {
            // The reference tests all pairs of a crowd.
            let num = if side < 100.0 { num.min(700) } else { num };
            let candidates = scene(&mut random, num, side);
            for iou_threshold in [0.0, 0.1, 0.5] {
                for class_mode in [ClassMode::Agnostic, ClassMode::Aware] {
                    let params = NmsRotated { iou_threshold, class_mode };
                    let capacity = if num == 700 { 2100 } else { num.max(1) };
                    check(&device, &candidates, capacity, &params);
                }
            }
        }
    }
}

#[test]
fn ties_touching_and_candidates_that_are_not_eligible_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(74);
    let values =
        [f32::NAN, f32::INFINITY, -1e30, 3e38, 0.0, -4.0, 1e-30, 1e-20, std::f32::consts::PI];
    for (num, capacity) in [(450, 450), (900, 900), (900, 3000)] {
        let mut candidates = scene(&mut random, num, 120.0);
        for (i, candidate) in candidates.iter_mut().enumerate() {
            candidate.score = random.below(8) as f32 / 8.0;
            let value = values[random.below(values.len())];
            let bbox = &mut candidate.bbox;
            match random.below(10) {
                0 => candidate.score = value,
                1 => bbox.cx = value,
                2 => bbox.width = value,
                3 => bbox.height = value,
                4 => bbox.angle_rad = value,
                // A grid of boxes whose sides and corners touch.
                5 => {
                    *bbox = RotatedBox2d {
                        cx: 10.0 * (i % 12) as f32,
                        cy: 10.0 * (i / 12 % 12) as f32,
                        width: 10.0,
                        height: 10.0,
                        angle_rad: [0.0, std::f32::consts::FRAC_PI_2][i % 2],
                    }
                }
                _ => {}
            }
        }
        for iou_threshold in [0.0, 0.3] {
            let params = NmsRotated { iou_threshold, class_mode: ClassMode::Agnostic };
            check(&device, &candidates, capacity, &params);
        }
    }
}
