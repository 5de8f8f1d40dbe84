//! Max pooling of sparse features: equal.

use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::conv::cuda::DeviceFeatures;
use det_post_ops::sparse::max_pool::{cuda, sparse_max_pool};

use det_post_testing::random::Random;
use det_post_testing::sparse_scenes::{Made, cases, values};

#[test]
fn pools_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(413);
    for case in cases() {
        let made = Made::new(&stream, &case);
        let (rows, device_rows) = made.rows();
        for (num_channels, precision) in
            [(3, Precision::F32), (16, Precision::F16), (40, Precision::Bf16), (64, Precision::F32)]
        {
            let values = values(&mut random, made.input.len() * num_channels, 3.0);
            let input: Vec<f32> = values.iter().map(|&v| precision.round_stored(v)).collect();
            let mut expected = vec![0.0; rows.len() * num_channels];
            let table = &made.table;
            sparse_max_pool(&input, table, num_channels, &mut expected).unwrap();
            let row_len = DeviceFeatures::row_len(num_channels);
            let len = made.input.capacity() * row_len;
            let mut features = DeviceFeatures::new(&stream, precision, len).unwrap();
            features.write(&input, num_channels).unwrap();
            let len = rows.capacity() * row_len;
            let mut out = DeviceFeatures::new(&stream, precision, len).unwrap();
            let pool = cuda::Workspace::new(&stream).unwrap();
            let table = (&made.device_table, device_rows);
            pool.enqueue(&features, num_channels, table, &mut out).unwrap();
            let found = out.read(rows.len(), num_channels).unwrap();
            assert_eq!(found, expected, "{} {num_channels}", case.name);
        }
    }
}
