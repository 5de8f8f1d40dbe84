//! Transposed convolutions and products of matrices, which run on the kernels of convolutions.

use det_post_ops::dense::arena::Arena;
use det_post_ops::dense::conv::{ConvRegions, Products};
use det_post_ops::dense::conv_transpose::cuda::DeviceConvTranspose;
use det_post_ops::dense::conv_transpose::{
    ConvTranspose, ConvTransposeParameters, TransposeGeometry, conv_transpose,
};
use det_post_ops::dense::host::HostArena;
use det_post_ops::dense::linear_max::cuda::DeviceLinearMax;
use det_post_ops::dense::linear_max::{LinearMax, linear_max};
use det_post_ops::dense::matmul::cuda::DeviceMatMul;
use det_post_ops::dense::matmul::{MatMul, MatMulRegions, RightWeights, matmul};
use det_post_ops::dense::{Activation, Epilogue, Region, Residual, Window};
use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_types::ElementType;

use crate::dense_conv::{F16, F32, Layout, all_values, assert_same, put, window};
use crate::sparse_conv::distance;

fn random(random: &mut Random, len: usize, most: f32) -> Vec<f32> {
    (0..len).map(|_| random.range(-most, most)).collect()
}

/// A window of a new buffer whose elements are random within it and NaN beside it.
fn region(
    arenas: &mut (HostArena, Arena),
    numbers: &mut Random,
    element: ElementType,
    (window, len): (Window, usize),
) -> Region {
    let mut values = vec![f32::NAN; len];
    window.for_each_offset(|offset| values[offset] = numbers.range(-2.0, 2.0));
    Region { buffer: put(arenas, element, &values), window }
}

fn found(arena: &Arena, region: &Region) -> Vec<f32> {
    let all = all_values(arena, region.buffer);
    let mut found = Vec::new();
    region.window.for_each_offset(|offset| found.push(all[offset]));
    found
}

/// The same bits in f32, within the bounds of a convolution in f16.
fn compare(found: &[f32], expected: &[f32], products: Products, context: &str) {
    if products == Products::F32 {
        return assert_same(found, expected, context);
    }
    let [l2, most] = distance(found, expected);
    let [l2_bound, most_bound] = ["relative error (L2)", "share of the largest value"]
        .map(|number| bound("dense/conv", "f16", number).in_unit());
    assert!(l2 <= l2_bound && most <= most_bound, "{context}: {l2:e} {most:e}");
}

const BOTH: [(Products, ElementType); 2] = [(Products::F16, F16), (Products::F32, F32)];

#[test]
fn transposed_convolutions_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let of = TransposeGeometry::of_kernel;
    let shuffled = [
        ([64, 48], of([1, 1], [1, 1])),
        ([96, 48], of([2, 2], [2, 2])),
        ([128, 13], of([4, 4], [4, 4])),
    ];
    let others = [
        ([16, 24], TransposeGeometry { pads: [1; 4], ..of([4, 4], [2, 2]) }),
        ([8, 8], TransposeGeometry { pads: [1; 4], output_padding: [1; 2], ..of([3, 3], [2, 2]) }),
        ([5, 7], TransposeGeometry { dilation: [2, 3], ..of([3, 2], [3, 2]) }),
        ([16, 16], of([1, 2], [2, 3])),
        ([16, 32], TransposeGeometry { groups: 2, ..of([3, 3], [1, 1]) }),
        ([32, 16], TransposeGeometry { groups: 2, ..of([2, 2], [2, 2]) }),
    ];
    for (seed, ([num_inputs, num_outputs], geometry)) in
        (0..).zip(shuffled.into_iter().chain(others))
    {
        for (products, element) in BOTH {
            let mut numbers = Random::new(700 + seed);
            let [ky, kx] = geometry.kernel;
            let num_weights = num_inputs * (num_outputs / geometry.groups) * ky * kx;
            let weights = random(&mut numbers, num_weights, 0.3);
            let bias = random(&mut numbers, num_outputs, 0.5);
            let parameters = ConvTransposeParameters {
                num_inputs,
                num_outputs,
                weights: &weights,
                bias: Some(&bias),
            };
            let residual = Some(Residual::BeforeActivation).filter(|_| seed % 2 == 0);
            let epilogue = Epilogue { activation: Activation::Relu, residual };
            let layer = ConvTranspose::new(&parameters, geometry, epilogue, products).unwrap();
            let mut arenas = (HostArena::new(), Arena::new(&stream));
            let [n, h, w] = [2, 9, 13];
            let [oh, ow] = geometry.output_size([h, w]).unwrap();
            let padded =
                |channels: usize| Layout::Slice(8, channels.next_multiple_of(8) - channels);
            let output = window([n, num_outputs, oh, ow], padded(num_outputs));
            let input = window([n, num_inputs, h, w], padded(num_inputs));
            let regions = ConvRegions {
                input: region(&mut arenas, &mut numbers, element, input),
                residual: residual.map(|_| region(&mut arenas, &mut numbers, element, output)),
                output: region(&mut arenas, &mut numbers, element, output),
            };
            let (mut host, arena) = arenas;
            conv_transpose(&mut host, &layer, &regions).unwrap();
            let launches = DeviceConvTranspose::new(&arena, &layer, &regions).unwrap();
            launches.enqueue(&arena).unwrap();
            let expected = host.read(&regions.output).unwrap();
            let context = format!("{num_inputs} to {num_outputs} {geometry:?} {products:?}");
            compare(&found(&arena, &regions.output), &expected, products, &context);
        }
    }
}

#[test]
fn products_with_weights_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for (seed, (leading, [m, k, n])) in (0..).zip([
        (vec![], [1, 1, 1]),
        (vec![], [300, 256, 92]),
        (vec![2, 3], [17, 40, 64]),
        (vec![4], [100, 10, 32]),
        (vec![1], [7, 1000, 5]),
    ]) {
        for (products, element) in BOTH {
            let mut numbers = Random::new(800 + seed);
            let weights = random(&mut numbers, k * n, 0.3);
            let bias = random(&mut numbers, n, 0.5);
            let right = RightWeights {
                num_inputs: k,
                num_outputs: n,
                weights: &weights,
                bias: Some(&bias),
            };
            let residual = Some(Residual::AfterActivation).filter(|_| seed % 2 == 1);
            let epilogue = Epilogue { activation: Activation::LeakyRelu(0.1), residual };
            let product = MatMul::with_weights(&right, epilogue, products).unwrap();
            let mut arenas = (HostArena::new(), Arena::new(&stream));
            let dims = |last: [usize; 2]| [&leading[..], &last[..]].concat();
            let whole = |dims: &[usize]| {
                let window = Window::contiguous(dims).unwrap();
                (window, window.len())
            };
            let output = whole(&dims([m, n]));
            let regions = MatMulRegions {
                left: region(&mut arenas, &mut numbers, element, whole(&dims([m, k]))),
                right: None,
                residual: residual.map(|_| region(&mut arenas, &mut numbers, element, output)),
                output: region(&mut arenas, &mut numbers, element, output),
            };
            let (mut host, arena) = arenas;
            matmul(&mut host, &product, &regions).unwrap();
            DeviceMatMul::new(&arena, &product, &regions).unwrap().enqueue(&arena).unwrap();
            let expected = host.read(&regions.output).unwrap();
            let context = format!("{leading:?} {m}x{k}x{n} {products:?}");
            compare(&found(&arena, &regions.output), &expected, products, &context);
        }
    }
}

#[test]
fn largest_rows_of_products_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for (seed, ([groups, rows], [inputs, outputs])) in (0..).zip([
        ([1, 1], [1, 1]),
        ([33, 16], [10, 32]),
        ([70, 20], [9, 64]),
        ([5, 3], [16, 33]),
        ([257, 32], [11, 5]),
    ]) {
        for (from, to) in [(F32, F32), (F32, F16), (F16, F16)] {
            let mut numbers = Random::new(850 + seed);
            let weights = random(&mut numbers, inputs * outputs, 0.3);
            let bias = random(&mut numbers, outputs, 0.5);
            let right = RightWeights {
                num_inputs: inputs,
                num_outputs: outputs,
                weights: &weights,
                bias: Some(&bias).filter(|_| seed % 2 == 0).map(|bias| &bias[..]),
            };
            let activation =
                if seed % 3 == 0 { Activation::LeakyRelu(0.1) } else { Activation::Relu };
            let layer = LinearMax::new(&right, activation).unwrap();
            let mut arenas = (HostArena::new(), Arena::new(&stream));
            // Every second group, rows beside other values.
            let all = Window::contiguous(&[2 * groups, rows, inputs + 3]).unwrap();
            let part = all.slice(0, 0, 2, groups).and_then(|part| part.slice(2, 2, 1, inputs));
            let input = region(&mut arenas, &mut numbers, from, (part.unwrap(), all.len()));
            let written = Window::contiguous(&[outputs, groups]).unwrap();
            let turned = (written.permute(&[1, 0]).unwrap(), written.len());
            let output = region(&mut arenas, &mut numbers, to, turned);
            let (mut host, arena) = arenas;
            linear_max(&mut host, &layer, &input, &output).unwrap();
            let launches = DeviceLinearMax::new(&arena, &layer).unwrap();
            launches.enqueue(&arena, &input, &output).unwrap();
            let expected = host.read(&output).unwrap();
            let context = format!("{groups}x{rows}, {inputs} to {outputs}, {from} to {to}");
            assert_same(&found(&arena, &output), &expected, &context);
        }
    }
}

#[test]
fn products_of_windows_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for (seed, (leading, [m, k, n])) in (0..).zip([
        ([1, 1], [1, 1, 1]),
        ([2, 8], [100, 32, 100]),
        ([3, 2], [33, 17, 70]),
        ([1, 4], [64, 64, 16]),
    ]) {
        for (products, element) in BOTH {
            let mut numbers = Random::new(900 + seed);
            let product = MatMul::of_windows(Epilogue::default(), products);
            let mut arenas = (HostArena::new(), Arena::new(&stream));
            let [a, b] = leading;
            // Heads beside each other in rows, and keys transposed, as attention has them.
            let heads = |rows: usize, columns: usize| {
                let all = Window::contiguous(&[a, rows, b, columns]).unwrap();
                (all.permute(&[0, 2, 1, 3]).unwrap(), all.len())
            };
            let transposed =
                |(window, len): (Window, usize)| (window.permute(&[0, 1, 3, 2]).unwrap(), len);
            let right = if seed % 2 == 0 { transposed(heads(n, k)) } else { heads(k, n) };
            let regions = MatMulRegions {
                left: region(&mut arenas, &mut numbers, element, heads(m, k)),
                right: Some(region(&mut arenas, &mut numbers, element, right)),
                residual: None,
                output: region(&mut arenas, &mut numbers, element, heads(m, n)),
            };
            let (mut host, arena) = arenas;
            matmul(&mut host, &product, &regions).unwrap();
            DeviceMatMul::new(&arena, &product, &regions).unwrap().enqueue(&arena).unwrap();
            let expected = host.read(&regions.output).unwrap();
            let context = format!("{leading:?} {m}x{k}x{n} {products:?}");
            compare(&found(&arena, &regions.output), &expected, products, &context);
        }
    }
}
