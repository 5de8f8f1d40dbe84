//! One-pass suppression: the same survivors in the same order.

use det_post_types::{ClassMode, Nms2d, NmsFast};

use super::nms::Problem;
use super::nms_iou::clustered;
use det_post_testing::random::Random;

#[test]
fn sizes_densities_and_class_modes_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(70);
    for num in [0, 1, 40, 300, 700, 2048, 2500] {
        for per_cluster in [1, 20, 300] {
            for class_mode in
                [ClassMode::Agnostic, ClassMode::Aware, ClassMode::Groups(vec![0, 0, 1])]
            {
                let mut candidates = clustered(&mut random, num, per_cluster);
                candidates.iter_mut().step_by(17).for_each(|c| c.score = 0.5);
                for threshold in [0.0, 0.4] {
                    let params =
                        NmsFast { iou_threshold: threshold, class_mode: class_mode.clone() };
                    let (capacity, nms) = (num.max(1), &Nms2d::Fast(params));
                    Problem { candidates: &candidates, capacity, nms }.check(&device);
                }
            }
        }
    }
}
