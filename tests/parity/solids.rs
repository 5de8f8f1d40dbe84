//! Suppression of objects in space by overlap, and the dispatch over all
//! suppressions: the same survivors in the same order.

use det_post::ErrorKind;
use det_post::device::cuda::{CudaDevice, DeviceCandidates, Graph};
use det_post::ops::nms::cuda::{Capacity, Suppression2d, Suppression3d};
use det_post::ops::nms::{Workspace, suppress_2d, suppress_3d};
use det_post::types::{
    Box2d, Box3d, Candidate, CircleThreshold, ClassMode, Kept, Nms2d, Nms3d, NmsBev, NmsCircle,
    NmsFast, NmsIou, NmsIou3d, NmsSoft, Object3d, SoftDecay,
};

use super::nms_iou::clustered;
use super::random::Random;

fn scene(random: &mut Random, num: usize, half_side: f32) -> Vec<Candidate<Box3d>> {
    (0..num as u32)
        .map(|source| Candidate {
            bbox: Box3d {
                center: [
                    random.range(-half_side, half_side),
                    random.range(-0.8 * half_side, 0.8 * half_side),
                    random.range(-1.5, 1.5),
                ],
                length_m: random.range(0.5, 12.0),
                width_m: random.range(0.4, 3.0),
                height_m: random.range(0.5, 4.0),
                yaw_rad: random.range(-4.0, 4.0),
            },
            score: random.range(0.05, 1.0),
            class: random.below(5) as u32,
            source,
        })
        .collect()
}

fn reference(candidates: &[Candidate<Box3d>], nms: &Nms3d) -> det_post::Result<Vec<Kept>> {
    let objects: Vec<Candidate<Object3d>> = candidates
        .iter()
        .map(|c| Candidate {
            bbox: Object3d { bbox: c.bbox, ..Object3d::default() },
            score: c.score,
            class: c.class,
            source: c.source,
        })
        .collect();
    let mut keep = Vec::new();
    suppress_3d(&objects, nms, &mut Workspace::default(), &mut keep)?;
    Ok(keep)
}

fn check(device: &CudaDevice, candidates: &[Candidate<Box3d>], capacity: usize, nms: &Nms3d) {
    let expected = reference(candidates, nms).unwrap();
    let stream = device.stream().unwrap();
    let room = Capacity { candidates: capacity, classes: 16 };
    let mut suppression = Suppression3d::new(&stream, nms, room).unwrap();
    let mut on_device = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
    on_device.write(candidates).unwrap();
    let graph = Graph::record(&stream, || suppression.enqueue(&on_device)).unwrap();
    let mut found = Vec::new();
    for _ in 0..2 {
        graph.enqueue().unwrap();
        suppression.read_kept(&mut found).unwrap();
        super::assert_same_kept(&found, &expected, || {
            format!("{} candidates, capacity {capacity}, {nms:?}", candidates.len())
        });
    }
}

fn bev(iou_thresholds: &[f32], search_distance_m: f32, forbidden_pairs: &[[u32; 2]]) -> NmsBev {
    NmsBev {
        iou_thresholds: iou_thresholds.to_vec(),
        search_distance_m,
        forbidden_pairs: forbidden_pairs.to_vec(),
        class_mode: ClassMode::Agnostic,
    }
}

fn volumes(iou_thresholds: &[f32], class_mode: ClassMode) -> Nms3d {
    Nms3d::Iou3d(NmsIou3d { iou_thresholds: iou_thresholds.to_vec(), class_mode })
}

const BY_CLASS: [f32; 5] = [0.1, 0.0, 0.5, 0.2, 1.0];

#[test]
fn footprints_and_volumes_agree() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(75);
    for num in [0, 1, 50, 500, 900, 2048, 2600] {
        for half_side in [6.0, 60.0] {
            // The reference walks through all pairs of a crowd.
            let num = if half_side < 10.0 { num.min(500) } else { num };
            let candidates = scene(&mut random, num, half_side);
            for nms in [
                Nms3d::Bev(bev(&[0.1], f32::INFINITY, &[])),
                Nms3d::Bev(bev(&[0.0], 3.0, &[[0, 1], [2, 2]])),
                Nms3d::Bev(NmsBev {
                    class_mode: ClassMode::Groups(vec![0, 1, 1]),
                    ..bev(&BY_CLASS, 20.0, &[[4, 3]])
                }),
                volumes(&[0.0], ClassMode::Agnostic),
                volumes(&[0.1], ClassMode::Aware),
                volumes(&BY_CLASS, ClassMode::Agnostic),
            ] {
                check(&device, &candidates, num.max(1), &nms);
            }
        }
    }
}

#[test]
fn ties_and_values_that_take_no_part_agree() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(76);
    let values = [f32::NAN, f32::INFINITY, -1e30, 1e38, 0.0, -1.0, 1e-25];
    for (num, capacity) in [(400, 400), (800, 800), (800, 2900)] {
        let mut candidates = scene(&mut random, num, 12.0);
        for candidate in &mut candidates {
            candidate.score = random.below(6) as f32 / 6.0;
            let value = values[random.below(values.len())];
            let bbox = &mut candidate.bbox;
            match random.below(12) {
                0 => candidate.score = value,
                1 => bbox.center[random.below(3)] = value,
                2 => bbox.length_m = value,
                3 => bbox.height_m = value,
                4 => bbox.yaw_rad = value,
                5 => *bbox = Box3d { center: [1.0, 2.0, 0.0], yaw_rad: 0.0, ..*bbox },
                _ => {}
            }
        }
        for nms in [
            Nms3d::None,
            Nms3d::Bev(bev(&[0.2], f32::INFINITY, &[])),
            Nms3d::Bev(bev(&[0.0], 5.0, &[])),
            volumes(&[0.2], ClassMode::Agnostic),
            volumes(&[0.0], ClassMode::Agnostic),
        ] {
            check(&device, &candidates, capacity, &nms);
        }
    }
}

#[test]
fn a_class_without_a_threshold_is_refused_on_both() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(77);
    let mut candidates = scene(&mut random, 100, 30.0);
    candidates[7].class = 3;
    for nms in [Nms3d::Bev(bev(&[0.1; 3], 9.0, &[])), volumes(&[0.1; 3], ClassMode::Aware)] {
        let stream = device.stream().unwrap();
        let room = Capacity { candidates: 100, classes: 16 };
        let mut suppression = Suppression3d::new(&stream, &nms, room).unwrap();
        let mut on_device = DeviceCandidates::with_capacity(&stream, 100).unwrap();
        on_device.write(&candidates).unwrap();
        suppression.enqueue(&on_device).unwrap();
        let found = suppression.read_kept(&mut Vec::new());
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Argument);
        assert_eq!(reference(&candidates, &nms).unwrap_err().kind(), ErrorKind::Argument);
    }
    let none = Nms3d::Bev(bev(&[], 9.0, &[]));
    let room = Capacity { candidates: 9, classes: 1 };
    assert!(Suppression3d::new(&device.stream().unwrap(), &none, room).is_err());
}

fn check_2d(device: &CudaDevice, candidates: &[Candidate<Box2d>], capacity: usize, nms: &Nms2d) {
    let mut expected = Vec::new();
    suppress_2d(candidates, nms, &mut Workspace::default(), &mut expected).unwrap();
    let stream = device.stream().unwrap();
    let room = Capacity { candidates: capacity, classes: 16 };
    let mut suppression = Suppression2d::new(&stream, nms, room).unwrap();
    let mut on_device = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
    on_device.write(candidates).unwrap();
    let graph = Graph::record(&stream, || suppression.enqueue(&on_device)).unwrap();
    graph.enqueue().unwrap();
    let mut found = Vec::new();
    suppression.read_kept(&mut found).unwrap();
    super::assert_same_kept(&found, &expected, || format!("capacity {capacity}, {nms:?}"));
}

#[test]
fn every_arm_of_the_dispatch_agrees() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(78);
    let class_mode = ClassMode::Aware;
    let iou = NmsIou {
        iou_threshold: 0.45,
        offset: 0,
        class_mode: class_mode.clone(),
        score_threshold: None,
        max_num: 100,
    };
    let decay = SoftDecay::Gaussian { sigma: 0.5 };
    let flat = [
        Nms2d::None,
        Nms2d::Iou(iou),
        Nms2d::Fast(NmsFast { iou_threshold: 0.45, class_mode: class_mode.clone() }),
        Nms2d::Soft(NmsSoft { decay, min_score: 0.1, offset: 0, class_mode: class_mode.clone() }),
    ];
    let mut boxes = clustered(&mut random, 700, 15);
    boxes[8].score = f32::NAN;
    boxes[9].bbox.x1 = f32::INFINITY;
    let reading = CircleThreshold::Radius;
    let solid = [
        Nms3d::None,
        Nms3d::Circle(NmsCircle { thresholds: vec![2.0], reading, class_mode: class_mode.clone() }),
        Nms3d::Bev(bev(&[0.1], 10.0, &[])),
        volumes(&[0.1], class_mode),
    ];
    let objects = scene(&mut random, 700, 20.0);
    for capacity in [700, 2800] {
        flat.iter().for_each(|nms| check_2d(&device, &boxes, capacity, nms));
        solid.iter().for_each(|nms| check(&device, &objects, capacity, nms));
    }
    let stream = device.stream().unwrap();
    let room = Capacity { candidates: 10, classes: 4 };
    let mut suppression = Suppression2d::new(&stream, &flat[2], room).unwrap();
    assert_eq!(suppression.set(&flat[1]).unwrap_err().kind(), ErrorKind::Argument);
    suppression.set(&flat[2]).unwrap();
    let mut suppression = Suppression3d::new(&stream, &solid[2], room).unwrap();
    assert_eq!(suppression.set(&solid[3]).unwrap_err().kind(), ErrorKind::Argument);
}
