//! The candidates that a suppression keeps: the same ones in the same order.

use det_post_ops::device::cuda::{DeviceBuffer, Graph};
use det_post_ops::nms::cuda::{Capacity, Suppression3d};
use det_post_ops::nms::survivors::cuda::Workspace;
use det_post_ops::nms::survivors::survivors;
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{Nms3d, NmsIou3d};

use super::nms::objects;
use det_post_testing::random::Random;

#[test]
fn survivors_and_their_places_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(180);
    let class_mode = det_post_types::ClassMode::Agnostic;
    let nms = Nms3d::Iou3d(NmsIou3d { iou_thresholds: vec![0.1], class_mode });
    for (num, capacity) in [(0, 1), (1, 1), (300, 300), (900, 1000), (2600, 2600)] {
        let candidates = objects(&mut random, num, 40.0);
        let stream = device.stream().unwrap();
        let room = Capacity { candidates: capacity, classes: 5 };
        let mut suppression = Suppression3d::new(&stream, &nms, room).unwrap();
        let mut on_device = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
        on_device.write(&candidates).unwrap();
        let mut places = DeviceBuffer::zeros(&stream, capacity).unwrap();
        let of_place = |place: u32| place.wrapping_mul(0x9e37_79b1);
        let listed: Vec<u32> = (0..capacity as u32).map(of_place).collect();
        places.write(&listed).unwrap();
        let mut workspace = Workspace::new(&stream, capacity).unwrap();
        let graph = Graph::capture(&stream, || {
            suppression.enqueue(&on_device)?;
            workspace.enqueue(&on_device, Some(&places), suppression.kept(), None)
        })
        .unwrap();
        for _ in 0..2 {
            graph.enqueue().unwrap();
            let mut kept = Vec::new();
            suppression.read_kept(&mut kept).unwrap();
            let mut expected = Vec::new();
            survivors(&candidates, &kept, &mut expected);
            let (found, found_places) = workspace.survivors();
            assert_eq!(found.num.read().unwrap(), [kept.len() as u32]);
            assert_eq!(&found.items.read().unwrap()[..kept.len()], &expected[..], "{num}");
            let expected: Vec<u32> = kept.iter().map(|kept| of_place(kept.index)).collect();
            assert_eq!(&found_places.read().unwrap()[..kept.len()], &expected[..], "{num}");
        }
    }
}
