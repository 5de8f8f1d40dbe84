//! Selections: elements at indices, the largest values, samples at places, running sums and updates
//! at indices are equal.

use det_post_ops::dense::cumsum::cuda::CumSums;
use det_post_ops::dense::cumsum::{CumSum, cumsum};
use det_post_ops::dense::gather::cuda::Gathers;
use det_post_ops::dense::gather::{Gather, Mode, gather};
use det_post_ops::dense::grid_sample::cuda::GridSampling;
use det_post_ops::dense::grid_sample::{GridSample, Method, Padding, grid_sample};
use det_post_ops::dense::scatter_nd::cuda::Scatters;
use det_post_ops::dense::scatter_nd::{Scatter, scatter_nd};
use det_post_ops::dense::top_k::cuda::TopKs;
use det_post_ops::dense::top_k::{Chosen, TopK, top_k};
use det_post_ops::dense::{Region, Window};
use det_post_types::ElementType;

use crate::dense_pair::{FLOATS, Pair, map_windows};

fn indices(pair: &mut Pair, dims: &[usize], len: usize) -> Region {
    let window = Window::contiguous(dims).unwrap();
    let num = window.len();
    // Some are not there.
    let values: Vec<i32> =
        (0..num).map(|_| pair.random.below(2 * len + 2) as i32 - len as i32 - 1).collect();
    Region { buffer: pair.push_indices(&values), window }
}

#[test]
fn elements_at_indices_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Gathers::load(&device).unwrap();
    let dims = [2, 16, 5, 9];
    for axis in 0..4 {
        for (at, from) in map_windows(dims).into_iter().enumerate() {
            for of_indices in [&[][..], &[7], &[2, 3], &[2, 16, 5, 9]] {
                let mode = if of_indices.len() == 4 { Mode::Elements } else { Mode::Slices };
                let op = Gather { axis, mode };
                let mut pair = Pair::new(&device, 9);
                let input = pair.random_window(FLOATS[at % 2], &from, 4.0);
                let indices = indices(&mut pair, of_indices, dims[axis]);
                let out = op.output_dims(&dims, of_indices).unwrap();
                let to = Window::contiguous(&out).unwrap();
                let output = pair.output_window(FLOATS[at / 2 % 2], &to);
                gather(&mut pair.host, &op, &input, &indices, &output).unwrap();
                kernels.enqueue(&pair.device, &op, &input, &indices, &output).unwrap();
                pair.assert_equal(output.buffer, &format!("{op:?} {from:?} {of_indices:?}"));
            }
        }
    }
    // Of i32.
    let mut pair = Pair::new(&device, 9);
    let window = Window::contiguous(&[300]).unwrap();
    let input = indices(&mut pair, &[300], 1000);
    let at = indices(&mut pair, &[300], 300);
    let output = pair.output_window(ElementType::I32, &window);
    let op = Gather { axis: 0, mode: Mode::Slices };
    gather(&mut pair.host, &op, &input, &at, &output).unwrap();
    kernels.enqueue(&pair.device, &op, &input, &at, &output).unwrap();
    pair.assert_equal(output.buffer, "i32");
}

#[test]
fn largest_values_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = TopKs::load(&device).unwrap();
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0];
    for (dims, axis, num) in [
        (&[1, 8400][..], 1, 300),
        (&[2, 24_000], 1, 300),
        (&[3, 1], 1, 1),
        (&[2, 2048, 3], 1, 2048),
        (&[4, 2049], 1, 2048),
        (&[5, 77, 4], 1, 10),
        (&[9_000, 2], 0, 1000),
    ] {
        // Few different values, many, one; and what is no number.
        for (at, steps) in [1.0, 3.0, 1e4, 0.0].into_iter().enumerate() {
            for is_smallest in [false, true] {
                let mut pair = Pair::new(&device, 13);
                let window = Window::contiguous(dims).unwrap();
                let values: Vec<f32> = (0..window.len())
                    .map(|_| match pair.random.below(50) {
                        0 => special[pair.random.below(5)],
                        _ => (pair.random.range(-4.0, 4.0) * steps).round(),
                    })
                    .collect();
                let input = Region { buffer: pair.push(FLOATS[at % 2], &values), window };
                let mut out = dims.to_vec();
                out[axis] = num;
                let to = Window::contiguous(&out).unwrap();
                let values = (at != 1).then(|| pair.output_window(FLOATS[at / 2], &to));
                let positions = (at != 2).then(|| pair.output_window(ElementType::I32, &to));
                let (op, chosen) = (TopK { axis, is_smallest }, Chosen { values, positions });
                top_k(&mut pair.host, &op, &input, &chosen).unwrap();
                kernels.enqueue(&pair.device, &op, &input, &chosen).unwrap();
                for region in [values, positions].into_iter().flatten() {
                    pair.assert_equal(region.buffer, &format!("{op:?} {num} of {dims:?} {steps}"));
                }
            }
        }
    }
}

#[test]
fn samples_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = GridSampling::load(&device).unwrap();
    let (dims, out) = ([2, 16, 9, 12], [2, 16, 6, 7]);
    for method in [Method::Linear, Method::Nearest] {
        for padding in [Padding::Zeros, Padding::Border] {
            for aligns_corners in [false, true] {
                let op = GridSample { method, padding, aligns_corners };
                for (at, from) in map_windows(dims).into_iter().enumerate() {
                    let mut pair = Pair::new(&device, 17);
                    let input = pair.random_window(FLOATS[at % 2], &from, 4.0);
                    let mut places: Vec<f32> =
                        (0..2 * 6 * 7 * 2).map(|_| pair.random.range(-1.3, 1.3)).collect();
                    places[..4].copy_from_slice(&[f32::NAN, f32::INFINITY, -1e30, 1.0]);
                    let window = Window::contiguous(&[2, 6, 7, 2]).unwrap();
                    let grid = Region { buffer: pair.push(FLOATS[at / 2 % 2], &places), window };
                    let to = &map_windows(out)[at];
                    let output = pair.output_window(FLOATS[at / 2 % 2], to);
                    grid_sample(&mut pair.host, &op, &input, &grid, &output).unwrap();
                    kernels.enqueue(&pair.device, &op, &input, &grid, &output).unwrap();
                    pair.assert_equal(output.buffer, &format!("{op:?} {from:?}"));
                }
            }
        }
    }
}

#[test]
fn running_sums_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = CumSums::load(&device).unwrap();
    let dims = [2, 16, 5, 9];
    for axis in 0..4 {
        for [is_exclusive, is_reversed] in [[false, false], [true, false], [false, true]] {
            let op = CumSum { axis, is_exclusive, is_reversed };
            for (at, from) in map_windows(dims).into_iter().enumerate() {
                let mut pair = Pair::new(&device, 19);
                let input = pair.random_window(FLOATS[at % 2], &from, 4.0);
                let output = pair.output_window(FLOATS[at / 2 % 2], &map_windows(dims)[axis]);
                for output in [output, input] {
                    cumsum(&mut pair.host, &op, &input, &output).unwrap();
                    kernels.enqueue(&pair.device, &op, &input, &output).unwrap();
                    pair.assert_equal(output.buffer, &format!("{op:?} {from:?}"));
                }
            }
            let mut pair = Pair::new(&device, 19);
            let input = indices(&mut pair, &dims, i32::MAX as usize / 4);
            cumsum(&mut pair.host, &op, &input, &input).unwrap();
            kernels.enqueue(&pair.device, &op, &input, &input).unwrap();
            pair.assert_equal(input.buffer, "i32");
        }
    }
}

#[test]
fn updates_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Scatters::load(&device).unwrap();
    let dims = [2, 16, 5, 9];
    for num_axes in 1..=4 {
        for (at, to) in map_windows(dims).into_iter().enumerate() {
            let mut pair = Pair::new(&device, 23);
            // Different tuples, one from the end and one that is not there.
            let mut tuples = Vec::new();
            for n in 0..2_i32 {
                let tuple = [n - (at as i32 % 2), 3 + n, 4 - 2 * n, n];
                tuples.extend_from_slice(&tuple[..num_axes]);
            }
            tuples.extend_from_slice(&[7, 0, 0, 0][..num_axes]);
            let window = Window::contiguous(&[3, num_axes]).unwrap();
            let indices = Region { buffer: pair.push_indices(&tuples), window };
            let of_updates = [&[3], &dims[num_axes..]].concat();
            let from = Window::contiguous(&of_updates).unwrap();
            let updates = pair.random_window(FLOATS[at % 2], &from, 4.0);
            let output = pair.random_window(FLOATS[at / 2 % 2], &to, 4.0);
            let scatter = Scatter { indices, updates, output };
            scatter_nd(&mut pair.host, &scatter).unwrap();
            kernels.enqueue(&pair.device, &scatter).unwrap();
            pair.assert_equal(output.buffer, &format!("{num_axes} axes of {to:?}"));
        }
    }
}
