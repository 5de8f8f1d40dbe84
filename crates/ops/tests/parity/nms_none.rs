//! No suppression: all eligible candidates in the total order.

use det_post_types::{Box2d, Candidate, Nms2d, Nms3d};

use super::nms::{Problem, damaged_objects};
use super::nms_iou::clustered;
use super::nms_rotated;
use det_post_testing::random::Random;

#[test]
fn sizes_around_every_block_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(90);
    for num in [0, 1, 31, 32, 33, 255, 256, 257, 1000, 2048, 2049, 20_000] {
        for capacity in [num.max(1), 2048, 20_000] {
            let candidates = clustered(&mut random, num.min(capacity), 12);
            Problem { candidates: &candidates, capacity, nms: &Nms2d::None }.check(&device);
        }
    }
}

/// Equal scores, classes and sources: every part of the order decides.
#[test]
fn ties_and_candidates_that_are_not_eligible_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(91);
    for num in [300, 3000] {
        let mut boxes: Vec<Candidate<Box2d>> = clustered(&mut random, num, 30);
        for candidate in &mut boxes {
            candidate.score = [0.0, -0.0, 0.5, 0.75, f32::NAN, -1.0][random.below(6)];
            candidate.class %= 3;
            candidate.source %= 50;
            if random.below(9) == 0 {
                candidate.bbox.y2 = f32::NEG_INFINITY;
            }
        }
        Problem { candidates: &boxes, capacity: num, nms: &Nms2d::None }.check(&device);
        let same = vec![boxes[3]; num];
        Problem { candidates: &same, capacity: num, nms: &Nms2d::None }.check(&device);
        let mut turned = nms_rotated::scene(&mut random, num, 90.0);
        turned.iter_mut().step_by(5).for_each(|c| c.bbox.angle_rad = f32::NAN);
        turned.iter_mut().step_by(7).for_each(|c| c.score = 0.5);
        Problem { candidates: &turned, capacity: num, nms: &Nms2d::None }.check(&device);
        let objects = damaged_objects(&mut random, num);
        Problem { candidates: &objects, capacity: num, nms: &Nms3d::None }.check(&device);
    }
}
