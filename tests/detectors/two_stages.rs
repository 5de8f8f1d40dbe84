//! The suppression that a parameter file of Autoware gives, on a GPU.

use det_post_ops::device::cuda::{DeviceBuffer, Graph};
use det_post_ops::nms::cuda::{Capacity, Stages3d};
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{Box3d, Candidate};

use crate::common::drop_in::two_stages::TwoStages;

/// The stages of Autoware on the device keep its boxes.
#[test]
fn the_two_stages_of_autoware_keep_its_boxes() {
    let Some(device) = det_post_testing::gpu() else { return };
    let Some(scenes) = TwoStages::all() else { return };
    for scene in &scenes {
        let stages = scene.stages("bev_fast");
        let boxes: Vec<Candidate<Box3d>> = scene
            .boxes()
            .iter()
            .map(|c| Candidate {
                bbox: c.bbox.bbox,
                score: c.score,
                class: c.class,
                source: c.source,
            })
            .collect();
        let stream = device.stream().unwrap();
        let room = Capacity { candidates: boxes.len(), classes: 2 };
        let mut suppression = Stages3d::new(&stream, &stages, room).unwrap();
        suppression.set(&stages).unwrap();
        let mut on_device = DeviceCandidates::with_capacity(&stream, boxes.len()).unwrap();
        on_device.write(&boxes).unwrap();
        let mut places = DeviceBuffer::zeros(&stream, boxes.len()).unwrap();
        places.write(&(0..boxes.len() as u32).collect::<Vec<_>>()).unwrap();
        let graph =
            Graph::capture(&stream, || suppression.enqueue(&on_device, Some(&places)).map(drop))
                .unwrap();
        graph.enqueue().unwrap();
        stream.synchronize().unwrap();
        let left = suppression.survivors(&on_device, Some(&places));
        let num_kept = left.kept.1.read().unwrap()[0].num_kept as usize;
        let places = left.places.unwrap().read().unwrap();
        let kept = left.kept.0.read().unwrap();
        let found: Vec<u32> =
            kept[..num_kept].iter().map(|kept| places[kept.index as usize]).collect();
        assert_eq!(found, scene.indices("kept"));
    }
}
