//! The dispatch over all kinds, and the comparison of both devices that the tests
//! of every kind use.

use std::fmt::Debug;
use std::mem::discriminant;

use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, Graph, Plain};
use det_post_ops::nms::cuda::{
    Capacity, Stages3d, Suppressible, Suppression, Suppression2d, Suppression3d,
};
use det_post_ops::nms::{
    Workspace, suppress_2d, suppress_3d, suppress_rotated, suppress_stages_3d,
};
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{
    Box2d, Box3d, Candidate, CircleThreshold, ClassMode, Kept, Nms2d, Nms3d, NmsBevFast, NmsCircle,
    NmsIou3d, NmsRotated, Object3d, RotatedBox2d,
};
use det_post_types::{ErrorKind, Result};

use super::nms_iou::clustered;
use super::nms_rotated;
use det_post_testing::random::Random;

/// A problem of suppression: candidates, the capacity on the device, settings.
pub struct Problem<'a, B: Boxes> {
    pub candidates: &'a [Candidate<B>],
    pub capacity: usize,
    pub nms: &'a B::Nms,
}

/// Boxes that both devices suppress.
pub trait Boxes: Suppressible {
    /// The survivors on the CPU.
    fn on_cpu(candidates: &[Candidate<Self>], nms: &Self::Nms) -> Result<Vec<Kept>>;
}

fn kept(suppress: impl FnOnce(&mut Workspace, &mut Vec<Kept>) -> Result<()>) -> Result<Vec<Kept>> {
    let mut keep = vec![Kept::default(); 3];
    suppress(&mut Workspace::default(), &mut keep)?;
    Ok(keep)
}

impl Boxes for Box2d {
    fn on_cpu(candidates: &[Candidate<Self>], nms: &Nms2d) -> Result<Vec<Kept>> {
        kept(|workspace, keep| suppress_2d(candidates, nms, workspace, keep))
    }
}

impl Boxes for RotatedBox2d {
    fn on_cpu(candidates: &[Candidate<Self>], nms: &Nms2d) -> Result<Vec<Kept>> {
        kept(|workspace, keep| suppress_rotated(candidates, nms, workspace, keep))
    }
}

impl Boxes for Box3d {
    fn on_cpu(candidates: &[Candidate<Self>], nms: &Nms3d) -> Result<Vec<Kept>> {
        let with_object = |c: &Candidate<Self>| Candidate {
            bbox: Object3d { bbox: c.bbox, ..Object3d::default() },
            score: c.score,
            class: c.class,
            source: c.source,
        };
        let objects: Vec<_> = candidates.iter().map(with_object).collect();
        kept(|workspace, keep| suppress_3d(&objects, nms, workspace, keep))
    }
}

impl<B: Boxes> Problem<'_, B>
where
    B::Nms: Debug,
    Candidate<B>: Plain,
{
    /// Fails unless the device keeps the same candidates in the same order, bit for
    /// bit: queued once, then twice as a recorded graph.
    pub fn check(&self, device: &CudaDevice) {
        let Self { candidates, capacity, nms } = *self;
        let expected = B::on_cpu(candidates, nms).unwrap();
        let stream = device.stream().unwrap();
        let room = Capacity { candidates: capacity, classes: 16 };
        let mut suppression = Suppression::<B>::new(&stream, nms, room).unwrap();
        let mut on_device = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
        on_device.write(candidates).unwrap();
        let mut found = Vec::new();
        suppression.enqueue(&on_device).unwrap();
        suppression.read_kept(&mut found).unwrap();
        let context = |run| {
            format!("{} candidates, capacity {capacity}, {nms:?}, run {run}", candidates.len())
        };
        det_post_testing::assert_same_kept(&found, &expected, || context(0));
        let graph = Graph::capture(&stream, || suppression.enqueue(&on_device)).unwrap();
        for run in 1..3 {
            graph.enqueue().unwrap();
            suppression.read_kept(&mut found).unwrap();
            det_post_testing::assert_same_kept(&found, &expected, || context(run));
        }
    }

    /// Fails unless both devices refuse with an argument error.
    pub fn check_refused(&self, device: &CudaDevice) {
        let Self { candidates, capacity, nms } = *self;
        let on_cpu = B::on_cpu(candidates, nms).unwrap_err();
        assert_eq!(on_cpu.kind(), ErrorKind::Argument, "{on_cpu}");
        let stream = device.stream().unwrap();
        let room = Capacity { candidates: capacity, classes: 16 };
        let on_device = Suppression::<B>::new(&stream, nms, room).and_then(|mut suppression| {
            let mut on_device = DeviceCandidates::with_capacity(&stream, capacity)?;
            on_device.write(candidates)?;
            suppression.enqueue(&on_device)?;
            suppression.read_kept(&mut Vec::new())
        });
        let on_device = on_device.unwrap_err();
        assert_eq!(on_device.kind(), ErrorKind::Argument, "{on_device}");
    }
}

/// Checks settings on scenes of several sizes, crowded and not.
pub fn check_scenes(seed: u64, settings: &[Nms3d]) {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(seed);
    for num in [0, 1, 50, 500, 900, 2048, 2600] {
        for half_side in [6.0, 60.0] {
            // The reference tests all pairs of a crowd.
            let num = if half_side < 10.0 { num.min(500) } else { num };
            let candidates = objects(&mut random, num, half_side);
            for nms in settings {
                Problem { candidates: &candidates, capacity: num.max(1), nms }.check(&device);
            }
        }
    }
}

/// Checks settings on ties and candidates that are not eligible, which `change` may change.
pub fn check_damaged(
    seed: u64,
    settings: &[Nms3d],
    change: impl Fn(&mut Random, &mut [Candidate<Box3d>]),
) {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(seed);
    for (num, capacity) in [(400, 400), (800, 800), (800, 2900)] {
        let mut candidates = damaged_objects(&mut random, num);
        change(&mut random, &mut candidates);
        for nms in settings {
            Problem { candidates: &candidates, capacity, nms }.check(&device);
        }
    }
}

/// Objects in space, in a rectangle around the origin.
pub fn objects(random: &mut Random, num: usize, half_side: f32) -> Vec<Candidate<Box3d>> {
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

/// Objects with equal scores, equal places, empty sizes and values that are not
/// finite.
pub fn damaged_objects(random: &mut Random, num: usize) -> Vec<Candidate<Box3d>> {
    let values = [f32::NAN, f32::INFINITY, -1e30, 1e38, 0.0, -1.0, 1e-25];
    let mut candidates = objects(random, num, 12.0);
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
    candidates
}

/// Every kind for axis-aligned boxes.
fn kinds_2d(class_mode: &ClassMode) -> Vec<Nms2d> {
    let kinds = Nms2d::examples(class_mode).into_iter().map(|(_, nms)| nms);
    kinds.filter(|nms| !matches!(nms, Nms2d::Rotated(_))).collect()
}

fn rotated(class_mode: &ClassMode) -> Nms2d {
    Nms2d::Rotated(NmsRotated { iou_threshold: 0.3, class_mode: class_mode.clone() })
}

/// Every kind for boxes in space.
fn kinds_3d(class_mode: &ClassMode) -> Vec<Nms3d> {
    Nms3d::examples(class_mode).into_iter().map(|(_, nms)| nms).collect()
}

fn class_modes() -> [ClassMode; 3] {
    [ClassMode::Aware, ClassMode::Agnostic, ClassMode::Groups(vec![0, 1, 1])]
}

fn bev_fast(class_mode: ClassMode) -> Nms3d {
    Nms3d::BevFast(NmsBevFast {
        iou_thresholds: vec![0.1],
        search_distance_m: 10.0,
        unlimited_pairs: vec![[0, 0]],
        forbidden_pairs: vec![[0, 4], [1, 4], [2, 4], [3, 4]],
        class_mode,
    })
}

/// What the stages left, with the places of the candidates.
fn kept_places(
    suppression: &Stages3d,
    candidates: &DeviceCandidates<Box3d>,
    places: &DeviceBuffer<u32>,
) -> Vec<Kept> {
    let left = suppression.survivors(candidates, Some(places));
    let num_kept = left.kept.1.read().unwrap()[0].num_kept as usize;
    let places = left.places.unwrap().read().unwrap();
    let kept = left.kept.0.read().unwrap();
    kept[..num_kept].iter().map(|of| Kept { index: places[of.index as usize], ..*of }).collect()
}

/// Fails unless stages of a recorded graph keep what they keep on the CPU, in its order.
pub fn check_stages(
    device: &CudaDevice,
    candidates: &[Candidate<Box3d>],
    capacity: usize,
    stages: &[Nms3d],
) {
    let with_object = |c: &Candidate<Box3d>| Candidate {
        bbox: Object3d { bbox: c.bbox, ..Object3d::default() },
        score: c.score,
        class: c.class,
        source: c.source,
    };
    let on_cpu: Vec<_> = candidates.iter().map(with_object).collect();
    let expected =
        kept(|workspace, keep| suppress_stages_3d(&on_cpu, stages, workspace, keep)).unwrap();
    let stream = device.stream().unwrap();
    let room = Capacity { candidates: capacity, classes: 5 };
    let mut suppression = Stages3d::new(&stream, stages, room).unwrap();
    suppression.set(stages).unwrap();
    let mut on_device = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
    on_device.write(candidates).unwrap();
    let mut places = DeviceBuffer::zeros(&stream, capacity).unwrap();
    places.write(&(0..capacity as u32).collect::<Vec<_>>()).unwrap();
    let graph =
        Graph::capture(&stream, || suppression.enqueue(&on_device, Some(&places)).map(drop));
    let graph = graph.unwrap();
    for _ in 0..2 {
        graph.enqueue().unwrap();
        stream.synchronize().unwrap();
        let found = kept_places(&suppression, &on_device, &places);
        let context = || format!("{} candidates, {} stages", candidates.len(), stages.len());
        det_post_testing::assert_same_kept(&found, &expected, context);
    }
}

/// Up to three suppressions in a row.
#[test]
fn stages_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(82);
    let class_mode = ClassMode::Agnostic;
    let circle = NmsCircle {
        thresholds: vec![1.5],
        reading: CircleThreshold::Radius,
        class_mode: class_mode.clone(),
    };
    let solid =
        Nms3d::Iou3d(NmsIou3d { iou_thresholds: vec![0.1], class_mode: class_mode.clone() });
    let stages = [Nms3d::Circle(circle), bev_fast(class_mode), solid];
    for (num, half_side) in [(0, 10.0), (1, 10.0), (500, 20.0), (1000, 60.0), (2600, 60.0)] {
        let candidates = objects(&mut random, num, half_side);
        for num_stages in 0..=stages.len() {
            check_stages(&device, &candidates, num.max(1), &stages[..num_stages]);
        }
    }
}

#[test]
fn every_kind_agrees() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(78);
    let mut boxes = clustered(&mut random, 700, 15);
    boxes[8].score = f32::NAN;
    boxes[9].bbox.x1 = f32::INFINITY;
    let turned = nms_rotated::scene(&mut random, 700, 200.0);
    for capacity in [700, 2800] {
        for mode in &class_modes() {
            for nms in &kinds_2d(mode) {
                Problem { candidates: &boxes, capacity, nms }.check(&device);
            }
            for nms in &[Nms2d::None, rotated(mode)] {
                Problem { candidates: &turned, capacity, nms }.check(&device);
            }
        }
    }
}

#[test]
fn every_kind_agrees_in_space() {
    for mode in &class_modes() {
        check_scenes(83, &kinds_3d(mode));
        check_damaged(84, &kinds_3d(mode), |_, _| {});
    }
}

#[test]
fn kinds_for_other_boxes_are_refused_on_both() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(79);
    let mode = &ClassMode::Aware;
    let boxes = clustered(&mut random, 20, 5);
    Problem { candidates: &boxes, capacity: 20, nms: &rotated(mode) }.check_refused(&device);
    let turned = nms_rotated::scene(&mut random, 20, 50.0);
    for nms in kinds_2d(mode).iter().filter(|nms| **nms != Nms2d::None) {
        Problem { candidates: &turned, capacity: 20, nms }.check_refused(&device);
    }
}

/// New settings of the same kind are written; another kind needs other kernels.
#[test]
fn settings_of_another_kind_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let room = Capacity { candidates: 10, classes: 4 };
    let kinds = kinds_2d(&ClassMode::Aware);
    for nms in &kinds {
        let mut suppression = Suppression2d::new(&stream, nms, room).unwrap();
        for other in &kinds {
            let refused = suppression.set(other).is_err_and(|e| e.kind() == ErrorKind::Argument);
            assert_eq!(
                refused,
                discriminant(nms) != discriminant(other),
                "{other:?} in a workspace of {nms:?}"
            );
        }
    }
    let kinds = kinds_3d(&ClassMode::Aware);
    for nms in &kinds {
        let mut suppression = Suppression3d::new(&stream, nms, room).unwrap();
        for other in &kinds {
            let refused = suppression.set(other).is_err_and(|e| e.kind() == ErrorKind::Argument);
            assert_eq!(
                refused,
                discriminant(nms) != discriminant(other),
                "{other:?} in a workspace of {nms:?}"
            );
        }
    }
}
