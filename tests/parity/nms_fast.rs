//! One-pass suppression: the same survivors in the same order.

use det_post::device::cuda::{CudaDevice, DeviceCandidates};
use det_post::ops::nms::Workspace;
use det_post::ops::nms::cuda::Capacity;
use det_post::ops::nms_fast::{cuda, nms_fast};
use det_post::types::{Box2d, Candidate, ClassMode, NmsFast};

use super::nms_iou::clustered;
use super::random::Random;

fn check(
    device: &CudaDevice,
    candidates: &[Candidate<Box2d>],
    capacity: usize,
    iou_threshold: f32,
    class_mode: ClassMode,
) {
    let params = NmsFast { iou_threshold, class_mode };
    let mut expected = Vec::new();
    nms_fast(candidates, &params, &mut Workspace::default(), &mut expected).unwrap();
    let stream = device.stream().unwrap();
    let room = Capacity { candidates: capacity, classes: 16 };
    let mut workspace = cuda::workspace(&stream, room).unwrap();
    let mut on_device = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
    cuda::set_nms_fast(&mut workspace, &params).unwrap();
    on_device.write(candidates).unwrap();
    let mut found = Vec::new();
    for _ in 0..2 {
        cuda::enqueue_nms_fast(&on_device, &mut workspace).unwrap();
        workspace.read_kept(&mut found).unwrap();
        super::assert_same_kept(&found, &expected, || {
            format!("{} candidates, capacity {capacity}, {params:?}", candidates.len())
        });
    }
}

#[test]
fn sizes_densities_and_class_modes_agree() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(70);
    for num in [0, 1, 40, 300, 700, 2048, 2500] {
        for per_cluster in [1, 20, 300] {
            for class_mode in
                [ClassMode::Agnostic, ClassMode::Aware, ClassMode::Groups(vec![0, 0, 1])]
            {
                let mut candidates = clustered(&mut random, num, per_cluster);
                candidates.iter_mut().step_by(17).for_each(|c| c.score = 0.5);
                for threshold in [0.0, 0.4] {
                    let class_mode = class_mode.clone();
                    check(&device, &candidates, num.max(1), threshold, class_mode);
                }
            }
        }
    }
}
