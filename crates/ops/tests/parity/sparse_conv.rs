//! Sparse convolutions: the same bits in f32, within bounds in other precisions.

use det_post_ops::device::cuda::CudaDevice;
use det_post_ops::sparse::conv::cuda::{Convolution, DeviceFeatures};
use det_post_ops::sparse::conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace as ConvWorkspace, sparse_conv,
};
use det_post_ops::sparse::rulebook::Mode;

use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_testing::sparse_scenes::{Made, cases, values};

/// Relative L2 distance, and the largest difference as a share of the largest value.
pub fn distance(found: &[f32], expected: &[f32]) -> [f64; 2] {
    assert_eq!(found.len(), expected.len());
    let pairs = || found.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let sum: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
    let norm: f64 = pairs().map(|(_, b)| b.powi(2)).sum();
    let most = pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let largest = pairs().map(|(_, b)| b.abs()).fold(0.0, f64::max);
    [(sum / norm.max(1e-30)).sqrt(), most / largest.max(1e-30)]
}

fn convolve(device: &CudaDevice, precision: Precision, bounds: [f64; 2]) {
    let stream = device.stream().unwrap();
    let mut random = Random::new(411);
    // All kernels: rows of 64, 128 and 256 bytes and others to 16, 32, 64 and 128 channels.
    let channels = [
        [5, 16],
        [16, 16],
        [16, 32],
        [24, 40],
        [32, 64],
        [64, 64],
        [96, 64],
        [32, 128],
        [64, 128],
        [96, 128],
        [128, 128],
        [96, 33],
        [16, 80],
    ];
    let cases = cases();
    let cases = cases.iter().filter(|case| case.mode != Mode::Inverse);
    for (case, [num_inputs, num_outputs]) in cases.flat_map(|case| channels.map(|c| (case, c))) {
        let made = Made::new(&stream, case);
        let (rows, device_rows) = made.rows();
        let num_taps = made.table.num_taps();
        let weights = values(&mut random, num_outputs * num_taps * num_inputs, 0.3);
        let bias = values(&mut random, num_outputs, 0.5);
        let sizes = [num_outputs, num_taps, num_inputs];
        let parameters = ConvParameters::new(sizes, &weights, Some(&bias)).unwrap();
        let input: Vec<f32> = values(&mut random, made.input.len() * num_inputs, 2.0)
            .into_iter()
            .map(|value| precision.round_stored(value))
            .collect();
        let residual: Vec<f32> = values(&mut random, rows.len() * num_outputs, 2.0)
            .into_iter()
            .map(|value| precision.round_stored(value))
            .collect();
        let relu = num_outputs != 64;
        let with_residual = num_outputs != 32;
        let mut expected = vec![0.0; rows.len() * num_outputs];
        let epilogue =
            Epilogue { residual: with_residual.then_some(&residual[..]), relu, stored: precision };
        let packed = PackedWeights::new(&parameters, precision).unwrap();
        let mut workspace = ConvWorkspace::new(1);
        sparse_conv(&input, &made.table, &packed, epilogue, &mut workspace, &mut expected).unwrap();

        let features = |values: &[f32], num_rows: usize, num_channels| {
            let len = num_rows * DeviceFeatures::row_len(num_channels);
            let mut features = DeviceFeatures::new(&stream, precision, len).unwrap();
            features.write(values, num_channels).unwrap();
            features
        };
        let device_input = features(&input, made.input.capacity(), num_inputs);
        let device_residual = features(&residual, rows.capacity(), num_outputs);
        let mut out = features(&[], rows.capacity(), num_outputs);
        let convolution = Convolution::new(&stream, &parameters, precision).unwrap();
        let residual = with_residual.then_some(&device_residual);
        for _ in 0..2 {
            let table = (&made.device_table, device_rows);
            convolution.enqueue(&device_input, table, residual, relu, &mut out).unwrap();
        }
        let found = out.read(rows.len(), num_outputs).unwrap();
        let name = case.name;
        if precision == Precision::F32 {
            let first = (0..found.len()).find(|&i| found[i].to_bits() != expected[i].to_bits());
            let pair = first.map(|i| (found[i], expected[i]));
            assert_eq!(first, None, "{name} {num_inputs} to {num_outputs}: {pair:?}");
        } else {
            let [l2, most] = distance(&found, &expected);
            let fits = l2 <= bounds[0] && most <= bounds[1];
            assert!(fits, "{name} {num_inputs} to {num_outputs} {precision:?}: {l2:e} {most:e}");
        }
    }
}

#[test]
fn convolutions_agree_to_the_bit_in_f32() {
    let Some(device) = det_post_testing::gpu() else { return };
    convolve(&device, Precision::F32, [0.0; 2]);
}

#[test]
fn convolutions_of_16_bits_and_tf32_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    for (precision, name) in
        [(Precision::F16, "f16"), (Precision::Bf16, "bf16"), (Precision::Tf32, "TF32")]
    {
        let bounds = ["relative error (L2)", "share of the largest value"]
            .map(|number| bound("sparse/conv", name, number).in_unit());
        convolve(&device, precision, bounds);
    }
}

#[test]
fn a_nan_reaches_its_neighbours_alone() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(412);
    let cases = cases();
    let made = Made::new(&stream, &cases[0]);
    let weights = values(&mut random, 64 * 27 * 32, 0.3);
    let parameters = ConvParameters::new([64, 27, 32], &weights, None).unwrap();
    let mut input = values(&mut random, made.input.len() * 32, 2.0);
    let marked = made.input.len() / 2;
    input[marked * 32 + 3] = f32::NAN;
    input[(marked + 1) * 32] = f32::INFINITY;
    for precision in [Precision::F32, Precision::F16, Precision::Bf16, Precision::Tf32] {
        let len = made.input.capacity() * 64;
        let mut features = DeviceFeatures::new(&stream, precision, len).unwrap();
        features.write(&input, 32).unwrap();
        let mut out = DeviceFeatures::new(&stream, precision, len).unwrap();
        let convolution = Convolution::new(&stream, &parameters, precision).unwrap();
        let table = (&made.device_table, &made.device_input);
        convolution.enqueue(&features, table, None, true, &mut out).unwrap();
        let found = out.read(made.input.len(), 64).unwrap();
        for (row, found) in found.chunks_exact(64).enumerate() {
            let inputs = (0..27).filter_map(|tap| made.table.input_row(row, tap));
            let joined: Vec<u32> = inputs.collect();
            let has_nan = joined.contains(&(marked as u32));
            let has_either = has_nan || joined.contains(&(marked as u32 + 1));
            assert_eq!(found.iter().any(|v| !v.is_finite()), has_either, "{precision:?} {row}");
            assert!(!has_nan || found.iter().all(|v| v.is_nan()), "{precision:?} {row}");
        }
    }
}
