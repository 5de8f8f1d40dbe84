//! The choice of the best, which decoders on the device make in their own kernel:
//! the same candidates of more than there is room for, and the same counts.

use det_post_ops::decode::yolo::cuda::Selection;
use det_post_types::{CenterDecode, YoloLayout};

use super::decode_center::{self, Head as CenterHead, PLAIN, params};
use super::decode_yolo::{Problem, all};
use det_post_testing::heads::{self, Filling};
use det_post_testing::random::Random;

#[test]
fn rows_over_a_limit_are_lost_worst_first_and_counted() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(32);
    for layout in [YoloLayout::V5, YoloLayout::V8, YoloLayout::Obb] {
        // Many scores; few, so that classes and sources decide; one.
        for num_scores in [0, 5, 1] {
            let filling = Filling { passing: 0.5, num_scores, broken: 0.01 };
            let mut head = heads::head(layout.clone(), 4000, 9);
            head.fill(&mut random, filling, false);
            let num_found =
                Problem { head: &head, capacity: 4000, selection: all(0.25) }.num_expected();
            let filter: &[u32] = &[0, 3, 8, 77];
            for capacity in [1, 2, 300, num_found - 1, num_found, num_found + 1] {
                for class_filter in [&[][..], filter] {
                    for pre_nms_top_k in [0, 1, 100, 299, usize::MAX] {
                        let selection = Selection { class_filter, pre_nms_top_k, ..all(0.25) };
                        Problem { head: &head, capacity, selection }.check(&device);
                    }
                }
            }
        }
    }
}

#[test]
fn much_more_than_there_is_room_for_is_cut() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(34);
    for num_scores in [0, 3] {
        let filling = Filling { passing: 0.5, num_scores, broken: 0.001 };
        let mut head = heads::head(YoloLayout::V5, 25_200, 5);
        head.fill(&mut random, filling, false);
        for capacity in [1, 511, 512, 513, 2048, 8191] {
            for (class_filter, pre_nms_top_k) in [(&[][..], usize::MAX), (&[1, 2], 300)] {
                let selection = Selection { class_filter, pre_nms_top_k, ..all(0.25) };
                Problem { head: &head, capacity, selection }.check(&device);
            }
        }
    }
}

#[test]
fn cells_over_a_limit_are_lost_worst_first_and_counted() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(132);
    for num_heats in [0, 5, 1] {
        for passing in [0.0, 0.05, 1.0] {
            let filling = decode_center::Filling { passing, num_heats, ..PLAIN };
            let params = CenterDecode { has_velocity: true, ..params(vec![vec![0, 1], vec![2]]) };
            let head = CenterHead::new(&mut random, params, &[[50, 60]; 2], filling);
            let num_found = head.reference(10_000, 10_000).0.as_slice().len();
            for capacity in [1, 2, 100, num_found.max(2) - 1, num_found.max(1), num_found + 1] {
                for top_k in [0, 1, 50, 99, 10_000] {
                    decode_center::Problem { head: &head, capacity, top_k }.check(&device);
                }
            }
        }
    }
}
