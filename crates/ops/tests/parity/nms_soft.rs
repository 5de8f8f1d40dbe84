//! Lowered scores: the same boxes in the same order with the same scores.

use det_post_ops::device::cuda::CudaDevice;
use det_post_types::{Box2d, Candidate, ClassMode, Nms2d, NmsSoft, SoftDecay};

use super::nms::Problem;
use super::nms_iou::clustered;
use det_post_testing::random::Random;

fn check(device: &CudaDevice, candidates: &[Candidate<Box2d>], params: &NmsSoft) {
    let (capacity, nms) = (candidates.len().max(1), &Nms2d::Soft(params.clone()));
    Problem { candidates, capacity, nms }.check(device);
}

fn all_params() -> Vec<NmsSoft> {
    let decays = [
        SoftDecay::Linear { iou_threshold: 0.0 },
        SoftDecay::Linear { iou_threshold: 0.3 },
        SoftDecay::Gaussian { sigma: 0.5 },
        SoftDecay::Gaussian { sigma: 1e-4 },
    ];
    let modes = [ClassMode::Agnostic, ClassMode::Aware, ClassMode::Groups(vec![0, 0, 1])];
    decays
        .into_iter()
        .flat_map(|decay| {
            modes.clone().map(|class_mode| {
                [0.0, 0.05, 0.99].map(|min_score| NmsSoft {
                    decay,
                    min_score,
                    offset: u8::from(min_score == 0.05),
                    class_mode: class_mode.clone(),
                })
            })
        })
        .flatten()
        .collect()
}

#[test]
fn decays_sizes_and_class_modes_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(71);
    for params in all_params() {
        for (num, per_cluster) in [(0, 1), (1, 1), (33, 8), (300, 30)] {
            check(&device, &clustered(&mut random, num, per_cluster), &params);
        }
    }
}

#[test]
fn many_candidates_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(73);
    for params in all_params().into_iter().filter(|params| params.min_score == 0.05) {
        check(&device, &clustered(&mut random, 600, 30), &params);
        if params.class_mode == ClassMode::Agnostic {
            check(&device, &clustered(&mut random, 1500, 5), &params);
        }
    }
}

#[test]
fn ties_and_candidates_that_are_not_eligible_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(72);
    let values = [f32::NAN, f32::INFINITY, -1e30, 1e38, 0.0, -0.0, -0.5];
    for params in all_params() {
        let mut candidates = clustered(&mut random, 400, 25);
        for candidate in &mut candidates {
            candidate.score = [-0.0, 0.0, 0.25, 0.5, 0.75][random.below(5)];
            candidate.class %= 3;
            candidate.source %= 40;
            let value = values[random.below(values.len())];
            match random.below(20) {
                0 => candidate.score = value,
                1 => candidate.bbox.x2 = value,
                2 => candidate.bbox.y1 = value,
                _ => {}
            }
        }
        check(&device, &candidates, &params);
        let same = vec![candidates[3]; 100];
        check(&device, &same, &params);
    }
}
