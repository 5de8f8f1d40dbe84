//! Maps of sparse features: the same bits.

use det_post_ops::device::cuda::DeviceTensor;
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::conv::cuda::DeviceFeatures;
use det_post_ops::sparse::to_map::{cuda, map_shape, to_map};
use det_post_types::{ElementType, Tensor};

use det_post_testing::random::Random;
use det_post_testing::sparse_scenes::{Made, cases, values};
use det_post_testing::tensors::bits;

#[test]
fn maps_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(415);
    for case in cases() {
        let made = Made::new(&stream, &case);
        let (rows, device_rows) = made.rows();
        for (num_channels, precision) in
            [(3, Precision::F32), (16, Precision::F16), (40, Precision::Bf16), (64, Precision::F32)]
        {
            let values = values(&mut random, rows.len() * num_channels, 3.0);
            let expected: Vec<f32> = values.iter().map(|&v| precision.round_stored(v)).collect();
            let len = rows.capacity() * DeviceFeatures::row_len(num_channels);
            let mut out = DeviceFeatures::new(&stream, precision, len).unwrap();
            out.write(&expected, num_channels).unwrap();

            for (axes, element) in [
                ([0, 1, 2], ElementType::F32),
                ([2, 0, 1], ElementType::F16),
                ([2, 1, 0], ElementType::F32),
            ] {
                let shape = map_shape(rows.grid(), axes, num_channels).unwrap();
                let mut map = Tensor::zeros(element, &shape).unwrap();
                to_map(&expected, rows, axes, num_channels, &mut map).unwrap();
                let mut device_map = DeviceTensor::zeros(&stream, element, &shape).unwrap();
                let workspace = cuda::Workspace::new(&stream).unwrap();
                workspace.enqueue(&out, device_rows, axes, num_channels, &mut device_map).unwrap();
                let found = bits(&device_map.read().unwrap());
                assert!(found == bits(&map), "{} {num_channels} {axes:?}", case.name);
            }
        }
    }
}
