//! Operations on rows: reductions, normalizations and positions are equal, softmax is within its
//! bounds.

use det_post_ops::dense::arg_max::cuda::ArgMaxes;
use det_post_ops::dense::arg_max::{ArgMax, arg_max};
use det_post_ops::dense::layer_norm::cuda::LayerNorms;
use det_post_ops::dense::layer_norm::{LayerNorm, layer_norm};
use det_post_ops::dense::reduce::cuda::Reductions;
use det_post_ops::dense::reduce::{Reduction, reduce};
use det_post_ops::dense::softmax::cuda::Softmaxes;
use det_post_ops::dense::softmax::{Softmax, softmax};
use det_post_ops::dense::{Region, Window};
use det_post_types::ElementType;

use crate::dense_pair::{FLOATS, Pair, map_windows};
use det_post_testing::bounds::bound;

/// Dims of maps, of which every dimension is long once.
const DIMS: [[usize; 4]; 6] =
    [[2, 16, 5, 9], [1, 4, 7, 300], [1, 80, 40, 3], [3, 100, 2, 2], [40, 3, 1, 17], [1, 1, 33, 1]];

fn share(of: ElementType) -> f32 {
    let precision = if of == ElementType::F16 { "f16" } else { "f32" };
    bound("dense/softmax", precision, "share of the largest value").in_unit() as f32
}

#[test]
fn softmaxes_are_within_their_bounds() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Softmaxes::load(&device).unwrap();
    for dims in DIMS {
        for axis in 0..4 {
            for (at, window) in map_windows(dims).into_iter().enumerate() {
                let (from, to) = (FLOATS[at % 2], FLOATS[(at + axis) / 2 % 2]);
                let op = Softmax { axis, is_log: at == 3, weights: None };
                let mut pair = Pair::new(&device, 3);
                let input = pair.random_window(from, &window, 9.0);
                let output = pair.output_window(to, &map_windows(dims)[(at + axis) % 5]);
                softmax(&mut pair.host, &op, &input, &output).unwrap();
                kernels.enqueue(&pair.device, &op, &input, &output).unwrap();
                pair.assert_near(output.buffer, share(to), &format!("{op:?} {window:?} {to:?}"));
                // In place.
                softmax(&mut pair.host, &op, &input, &input).unwrap();
                kernels.enqueue(&pair.device, &op, &input, &input).unwrap();
                pair.assert_near(input.buffer, share(from), &format!("{op:?} {window:?} in place"));
            }
        }
    }
}

#[test]
fn means_by_softmax_are_within_its_bounds() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Softmaxes::load(&device).unwrap();
    for dims in [[2, 4, 16, 100], [1, 16, 20, 4], [1, 40, 3, 5], [2, 3, 4, 70]] {
        for (axis, &len) in dims.iter().enumerate() {
            let mut out = dims;
            out[axis] = 1;
            for (at, window) in map_windows(dims).into_iter().enumerate() {
                let to = FLOATS[at / 2 % 2];
                let mut pair = Pair::new(&device, 3);
                let input = pair.random_window(FLOATS[at % 2], &window, 6.0);
                let steps: Vec<f32> = (0..len).map(|step| step as f32).collect();
                let buffer = pair.push(ElementType::F32, &steps);
                let shape = [0, 1, 2, 3].map(|at| if at == axis { len } else { 1 });
                let weights = Window::contiguous(&shape).unwrap().broadcast(&dims).unwrap();
                let weights = Some(Region { buffer, window: weights });
                let op = Softmax { axis, is_log: false, weights };
                let output = pair.output_window(to, &map_windows(out)[at]);
                softmax(&mut pair.host, &op, &input, &output).unwrap();
                kernels.enqueue(&pair.device, &op, &input, &output).unwrap();
                pair.assert_near(output.buffer, share(to), &format!("{op:?} {window:?}"));
            }
        }
    }
}

#[test]
fn reductions_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Reductions::load(&device).unwrap();
    let axes: [&[usize]; 6] = [&[1], &[2, 3], &[3, 2], &[0, 1, 2, 3], &[0, 2], &[]];
    let reductions =
        [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min, Reduction::Product];
    for dims in DIMS {
        for axes in axes {
            let out = [0, 1, 2, 3].map(|axis| if axes.contains(&axis) { 1 } else { dims[axis] });
            for (at, window) in map_windows(dims).into_iter().enumerate() {
                for reduction in reductions {
                    let mut pair = Pair::new(&device, 3);
                    let limit = if reduction == Reduction::Product { 1.3 } else { 5.0 };
                    let input = pair.random_window(FLOATS[at % 2], &window, limit);
                    let output = pair.output_window(FLOATS[at / 2 % 2], &map_windows(out)[at]);
                    reduce(&mut pair.host, reduction, axes, &input, &output).unwrap();
                    kernels.enqueue(&pair.device, reduction, axes, &input, &output).unwrap();
                    let what = format!("{reduction:?} over {axes:?} of {window:?}");
                    pair.assert_equal(output.buffer, &what);
                }
            }
        }
    }
}

#[test]
fn normalizations_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = LayerNorms::load(&device).unwrap();
    let axes: [&[usize]; 4] = [&[1], &[2, 3], &[1, 2, 3], &[3]];
    for dims in DIMS {
        for (axes_at, axes) in axes.into_iter().enumerate() {
            for (at, window) in map_windows(dims).into_iter().enumerate() {
                let mut pair = Pair::new(&device, 3);
                let input = pair.random_window(FLOATS[at % 2], &window, 5.0);
                let output =
                    pair.output_window(FLOATS[(at + axes_at) / 2 % 2], &map_windows(dims)[axes_at]);
                // Of channels, or of columns.
                let factors = if axes_at == 3 { vec![1, dims[3]] } else { vec![dims[1], 1, 1] };
                let factors = Window::contiguous(&factors).unwrap();
                let mut of_factors = |element| {
                    let region = pair.random_window(element, &factors, 2.0);
                    Region { window: factors.broadcast(&dims).unwrap(), ..region }
                };
                let scales = of_factors(FLOATS[axes_at % 2]);
                let shifts = (at != 2).then(|| of_factors(ElementType::F32));
                let norm = LayerNorm { axes, epsilon: 1e-5, scales, shifts };
                layer_norm(&mut pair.host, &norm, &input, &output).unwrap();
                kernels.enqueue(&pair.device, &norm, &input, &output).unwrap();
                pair.assert_equal(output.buffer, &format!("{norm:?} of {window:?}"));
                layer_norm(&mut pair.host, &norm, &input, &input).unwrap();
                kernels.enqueue(&pair.device, &norm, &input, &input).unwrap();
                pair.assert_equal(input.buffer, &format!("{norm:?} of {window:?} in place"));
                assert!(kernels.enqueue(&pair.device, &norm, &input, &scales).is_err());
            }
        }
    }
}

#[test]
fn positions_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = ArgMaxes::load(&device).unwrap();
    for dims in DIMS {
        for axis in 0..4 {
            let mut out = dims;
            out[axis] = 1;
            for (at, window) in map_windows(dims).into_iter().enumerate() {
                for (is_smallest, is_last) in
                    [(false, false), (true, false), (false, true), (true, true)]
                {
                    let mut pair = Pair::new(&device, 3);
                    // Many ties, and what is no number.
                    let special = [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, -0.0, 0.0, 1.0];
                    let len = window.end().unwrap();
                    let values: Vec<f32> = (0..len)
                        .map(|_| special[pair.random.below(if at == 0 { 1 } else { 6 })])
                        .collect();
                    let input = Region { buffer: pair.push(FLOATS[at % 2], &values), window };
                    let output = pair.output_window(ElementType::I32, &map_windows(out)[at]);
                    let op = ArgMax { axis, is_smallest, is_last };
                    arg_max(&mut pair.host, &op, &input, &output).unwrap();
                    kernels.enqueue(&pair.device, &op, &input, &output).unwrap();
                    pair.assert_equal(output.buffer, &format!("{op:?} of {window:?}"));
                }
            }
        }
    }
}
