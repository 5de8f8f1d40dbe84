//! IoU suppression: the same survivors in the same order.

use det_post_ops::device::cuda::CudaDevice;
use det_post_ops::nms::cuda::{Capacity, Suppression2d};
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{Box2d, Candidate, ClassMode, Nms2d, NmsIou};

use super::nms::{self, Boxes};
use det_post_testing::random::Random;

struct Problem {
    candidates: Vec<Candidate<Box2d>>,
    capacity: usize,
    params: NmsIou,
}

impl Problem {
    fn check(self, device: &CudaDevice) {
        let Self { candidates, capacity, params } = self;
        nms::Problem { candidates: &candidates, capacity, nms: &Nms2d::Iou(params) }.check(device);
    }
}

fn params(iou_threshold: f32) -> NmsIou {
    NmsIou {
        iou_threshold,
        offset: 0,
        class_mode: ClassMode::Agnostic,
        score_threshold: None,
        max_num: usize::MAX,
    }
}

/// Boxes in clusters of about `per_cluster` around random centres.
pub fn clustered(random: &mut Random, num: usize, per_cluster: usize) -> Vec<Candidate<Box2d>> {
    let num_clusters = num.div_ceil(per_cluster.max(1)).max(1);
    let clusters: Vec<[f32; 3]> = (0..num_clusters)
        .map(|_| {
            [random.range(0.0, 1920.0), random.range(0.0, 1080.0), random.range(3.0, 8.0).exp2()]
        })
        .collect();
    (0..num as u32)
        .map(|source| {
            let [cx, cy, size] = clusters[random.below(num_clusters)];
            let mut shaken = || random.range(-0.25, 0.25) * size;
            let (cx, cy) = (cx + shaken(), cy + shaken());
            let (width, height) = (size + shaken(), 0.7 * size + shaken());
            Candidate {
                bbox: Box2d::from_center(cx, cy, width, height),
                score: random.range(0.05, 1.0),
                class: random.below(10) as u32,
                source,
            }
        })
        .collect()
}

#[test]
fn sizes_around_every_block_and_size_class_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(10);
    for num in [0, 1, 2, 9, 31, 32, 33, 127, 129, 256, 257, 511, 512, 513, 1000, 2047, 2048] {
        for capacity in [num.max(1), 2048, 2049, 4000] {
            let candidates = clustered(&mut random, num, 12);
            Problem { candidates, capacity, params: params(0.45) }.check(&device);
        }
    }
}

/// From no suppressor to more than any list holds.
#[test]
fn lists_of_every_length_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(14);
    for num in [40, 250, 500, 1024, 1025, 2048] {
        for per_cluster in [3, 7, 18, 35, 70, 300] {
            for threshold in [0.2, 0.5, 0.8] {
                let candidates = clustered(&mut random, num, per_cluster);
                Problem { candidates, capacity: num, params: params(threshold) }.check(&device);
            }
        }
    }
}

/// Equal scores of candidates that one thread, one block or two compare.
#[test]
fn equal_scores_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(17);
    for num in [200, 500, 1024, 1025, 2048] {
        for num_scores in [1, 7, 300] {
            let mut candidates = clustered(&mut random, num, 12);
            for candidate in &mut candidates {
                candidate.score = random.below(num_scores) as f32 / num_scores as f32;
                candidate.source = num as u32 - candidate.source;
            }
            Problem { candidates, capacity: num, params: params(0.45) }.check(&device);
        }
    }
}

fn many_agree(seed: u64, per_cluster: usize) {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(seed);
    for num in [3000, 11_000, 20_000] {
        for threshold in [0.0, 0.3, 0.65] {
            let candidates = clustered(&mut random, num, per_cluster);
            Problem { candidates, capacity: num, params: params(threshold) }.check(&device);
        }
    }
}

#[test]
fn many_candidates_apart_agree() {
    many_agree(11, 1);
}

#[test]
fn many_candidates_in_clusters_agree() {
    many_agree(15, 10);
}

#[test]
fn many_candidates_in_crowds_agree() {
    many_agree(16, 500);
}

/// More suppressors than a list holds, of few candidates at a large capacity.
#[test]
fn a_small_crowd_agrees() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(18);
    for per_cluster in [200, 400] {
        let candidates = clustered(&mut random, 400, per_cluster);
        Problem { candidates, capacity: 2049, params: params(0.05) }.check(&device);
    }
}

/// Up to more than 256 suppressors, which no list holds.
#[test]
fn crowds_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(17);
    for num in [2049, 2500, 6000] {
        for per_cluster in [100, 250, 300, 1000, num] {
            for (threshold, class_mode) in
                [(0.05, ClassMode::Agnostic), (0.5, ClassMode::Agnostic), (0.3, ClassMode::Aware)]
            {
                let candidates = clustered(&mut random, num, per_cluster);
                let params = NmsIou { class_mode, ..params(threshold) };
                Problem { candidates, capacity: num, params }.check(&device);
            }
        }
        // Each suppresses all below it.
        let same = vec![clustered(&mut random, 1, 1)[0]; num];
        Problem { candidates: same, capacity: num, params: params(0.3) }.check(&device);
    }
}

#[test]
fn settings_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(12);
    let modes = [
        ClassMode::Aware,
        ClassMode::Agnostic,
        ClassMode::Groups(vec![0, 0, 1, 1, 2, 7]),
        ClassMode::Groups(vec![]),
    ];
    for (num, capacity) in [(300, 300), (900, 900), (900, 3000)] {
        for class_mode in &modes {
            for (offset, score_threshold, max_num) in
                [(0, None, 17), (1, Some(0.4), usize::MAX), (0, Some(2.0), 5), (1, None, 0)]
            {
                let class_mode = class_mode.clone();
                let params =
                    NmsIou { iou_threshold: 0.5, offset, class_mode, score_threshold, max_num };
                let candidates = clustered(&mut random, num, 20);
                Problem { candidates, capacity, params }.check(&device);
            }
        }
    }
}

#[test]
fn ties_chains_and_candidates_that_are_not_eligible_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(13);
    for (num, capacity) in [(400, 2000), (700, 700), (700, 2500)] {
        // Few scores, classes and sources: every part of the order decides.
        let mut tied = clustered(&mut random, num, 30);
        for candidate in &mut tied {
            candidate.score = [0.0, -0.0, 0.5, 0.75][random.below(4)];
            candidate.class %= 3;
            candidate.source %= 50;
        }
        Problem { candidates: tied, capacity, params: params(0.4) }.check(&device);

        // A row in which each box overlaps the next: the longest chain.
        let chain: Vec<_> = (0..num as u32)
            .map(|i| Candidate {
                bbox: Box2d::new(6.0 * i as f32, 0.0, 6.0 * i as f32 + 10.0, 10.0),
                score: 1.0 - i as f32 / 1000.0,
                class: 0,
                source: i,
            })
            .collect();
        Problem { candidates: chain, capacity, params: params(0.2) }.check(&device);

        let mut broken = clustered(&mut random, num, 15);
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1e30, 1e38, 0.0, 1e-40];
        for candidate in &mut broken {
            let value = values[random.below(values.len())];
            match random.below(9) {
                0 => candidate.score = value,
                1 => candidate.bbox.x1 = value,
                2 => candidate.bbox.y1 = value,
                3 => candidate.bbox.x2 = value,
                4 => candidate.bbox.y2 = value,
                _ => {}
            }
        }
        Problem { candidates: broken.clone(), capacity, params: params(0.3) }.check(&device);
        let same = vec![broken[3]; num];
        Problem { candidates: same, capacity, params: params(0.3) }.check(&device);
    }
}

/// The workspace's capacity chooses the kernels, not that of the candidates.
#[test]
fn a_workspace_larger_than_the_candidates_agrees() {
    let Some(device) = det_post_testing::gpu() else { return };
    let candidates = clustered(&mut Random::new(19), 90, 9);
    let nms = &Nms2d::Iou(params(0.45));
    let expected = Box2d::on_cpu(&candidates, nms).unwrap();
    let stream = device.stream().unwrap();
    let mut on_device = DeviceCandidates::with_capacity(&stream, 100).unwrap();
    on_device.write(&candidates).unwrap();
    for capacity in [100, 700, 2048, 2049, 9000] {
        let room = Capacity { candidates: capacity, classes: 1 };
        let mut suppression = Suppression2d::new(&stream, nms, room).unwrap();
        suppression.enqueue(&on_device).unwrap();
        let mut found = Vec::new();
        suppression.read_kept(&mut found).unwrap();
        det_post_testing::assert_same_kept(&found, &expected, || {
            format!("workspace of {capacity}")
        });
    }
}

#[test]
fn too_small_a_workspace_and_bad_settings_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let capacity = Capacity { candidates: 10, classes: 2 };
    let mut suppression = Suppression2d::new(&stream, &Nms2d::Iou(params(0.5)), capacity).unwrap();
    let candidates = DeviceCandidates::with_capacity(&stream, 11).unwrap();
    assert!(suppression.enqueue(&candidates).is_err());
    assert!(suppression.set(&Nms2d::Iou(params(1.5))).is_err());
    let class_mode = ClassMode::Groups(vec![0, 1, 2]);
    assert!(suppression.set(&Nms2d::Iou(NmsIou { class_mode, ..params(0.5) })).is_err());
}
