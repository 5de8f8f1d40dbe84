//! Keypoints: the same numbers on both devices, bit for bit.

use det_post_ops::decode::keypoints::cuda::Workspace;
use det_post_ops::decode::keypoints::{KeypointMapping, keypoints};
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, DeviceValues, Graph};
use det_post_types::{
    ElementType, Keypoint, KeypointRows, Letterbox, Placement, Size, TensorValues, TensorView,
};
use half::f16;

use det_post_testing::random::Random;

/// Coordinates in and around the network's input, and some that are none.
fn number(random: &mut Random) -> f32 {
    match random.below(40) {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => -0.0,
        _ => random.range(-30.0, 700.0),
    }
}

#[test]
fn keypoints_are_bit_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(41);
    let source = Size::new(1281, 719);
    let placed = Letterbox::new(source, Size::new(640, 640), Placement::Center);
    let mapping = KeypointMapping { source_from_network: placed.source_from_network(), source };
    let stream = device.stream().unwrap();
    for (num_rows, num_detections, most) in
        [(300, 300, 300), (8400, 57, 100), (1, 1, 1), (0, 3, 4), (5, 0, 7)]
    {
        for rows in [
            KeypointRows::of_planes(1, 17, 3),
            KeypointRows::of_planes(3, 4, 2),
            KeypointRows::of_final_rows(17, 3),
            KeypointRows::of_final_rows(1, 2),
        ] {
            for half in [false, true] {
                let columns = rows.num_columns();
                let shape = match rows.is_planes {
                    true => [1, columns, num_rows],
                    false => [1, num_rows, columns],
                };
                let values: Vec<f32> =
                    (0..columns * num_rows).map(|_| number(&mut random)).collect();
                let halves: Vec<f16> = values.iter().map(|&v| f16::from_f32(v)).collect();
                // Some are of rows that there are not.
                let sources: Vec<u32> =
                    (0..most).map(|_| random.below(num_rows + 2) as u32).collect();
                let values_of = match half {
                    true => TensorValues::F16(&halves),
                    false => TensorValues::F32(&values),
                };
                let output = TensorView::new(&shape, values_of).unwrap();
                let (mut expected, mut found) = (Vec::new(), vec![Keypoint::default()]);
                let num_invalid =
                    keypoints(&output, &rows, &sources[..num_detections], &mapping, &mut expected)
                        .unwrap();

                let element = if half { ElementType::F16 } else { ElementType::F32 };
                let mut tensor = DeviceTensor::zeros(&stream, element, &shape).unwrap();
                match tensor.values_mut() {
                    DeviceValues::F32(to) => to.write(&values).unwrap(),
                    DeviceValues::F16(to) => to.write(&halves).unwrap(),
                    DeviceValues::I8(_) => unreachable!("a tensor of floats"),
                }
                let mut rows_of = DeviceBuffer::zeros(&stream, most).unwrap();
                rows_of.write(&sources).unwrap();
                let mut num = DeviceBuffer::zeros(&stream, 1).unwrap();
                num.write(&[num_detections as u32]).unwrap();
                let mut workspace = Workspace::new(&stream, &rows, most).unwrap();
                let graph =
                    Graph::capture(&stream, || workspace.enqueue(&tensor, (&rows_of, &num)))
                        .unwrap();
                workspace.set(&mapping).unwrap();
                graph.enqueue().unwrap();
                stream.synchronize().unwrap();
                assert_eq!(workspace.read_complete(num_detections, &mut found), num_invalid);
                let bits = |k: &Keypoint| [k.x, k.y, k.score].map(f32::to_bits);
                assert!(
                    found.iter().map(bits).eq(expected.iter().map(bits)),
                    "{rows:?} {shape:?} {num_detections} of {most}, half: {half}"
                );
            }
        }
    }
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let rows = KeypointRows::of_final_rows(2, 3);
    let mut workspace = Workspace::new(&stream, &rows, 3).unwrap();
    let num = DeviceBuffer::zeros(&stream, 1).unwrap();
    let sources = |len| DeviceBuffer::<u32>::zeros(&stream, len).unwrap();
    let tensor = |shape: &[usize]| DeviceTensor::zeros(&stream, ElementType::F32, shape).unwrap();
    assert!(workspace.enqueue(&tensor(&[1, 3, 12]), (&sources(3), &num)).is_ok());
    assert!(workspace.enqueue(&tensor(&[1, 3, 11]), (&sources(3), &num)).is_err());
    assert!(workspace.enqueue(&tensor(&[1, 3, 12]), (&sources(4), &num)).is_err());
}
