use proptest::prelude::*;

use super::*;
use crate::dense::host::HostBuffer;
use crate::dense::{Activation, Region, Window};
use det_post_types::ElementType;

fn values(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    let next = move || {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        // Few bits, so that sums are exact in any order.
        (state >> 28) as f32 - 8.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Every input value adds to the outputs of its taps.
fn scattered(input: &[f32], [n, h, w]: [usize; 3], conv: &ConvTranspose) -> Vec<f32> {
    let geometry = conv.geometry();
    let [oh, ow] = geometry.output_size([h, w]).unwrap();
    let inputs = conv.num_inputs() / geometry.groups;
    let outputs = conv.num_outputs() / geometry.groups;
    let mut out = vec![0.0; n * conv.num_outputs() * oh * ow];
    for (at, &value) in input.iter().enumerate() {
        let (x, y, channel) = (at % w, at / w % h, at / (w * h) % conv.num_inputs());
        let item = at / (w * h * conv.num_inputs());
        let group = channel / inputs;
        for output in group * outputs..(group + 1) * outputs {
            for ky in 0..geometry.kernel[0] {
                for kx in 0..geometry.kernel[1] {
                    let to = |axis: usize, from: usize, tap: usize| {
                        (from * geometry.stride[axis] + tap * geometry.dilation[axis])
                            .checked_sub(geometry.pads[axis])
                    };
                    let (Some(y), Some(x)) = (to(0, y, ky), to(1, x, kx)) else { continue };
                    if y < oh && x < ow {
                        let weight = conv.weight(output, channel % inputs, [ky, kx]);
                        out[((item * conv.num_outputs() + output) * oh + y) * ow + x] +=
                            value * weight;
                    }
                }
            }
        }
    }
    for (at, value) in out.iter_mut().enumerate() {
        let output = at / (oh * ow) % conv.num_outputs();
        *value = conv.epilogue().apply(*value + conv.bias[output], 0.0);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn equals_a_scatter_of_the_input(
        n in 1_usize..3, groups in 1_usize..3, inputs in 1_usize..4, outputs in 1_usize..18,
        size in [1_usize..6, 1..6], kernel in [1_usize..5, 1..5], stride in [1_usize..4, 1..4],
        dilation in [1_usize..3, 1..3], pads in [0_usize..2, 0..2, 0..2, 0..2],
        output_padding in [0_usize..2, 0..2], seed: u32,
    ) {
        let geometry = TransposeGeometry { kernel, stride, dilation, pads, output_padding, groups };
        let (num_inputs, num_outputs) = (groups * inputs, groups * outputs);
        let weights = values(num_inputs * outputs * kernel[0] * kernel[1], seed);
        let bias = values(num_outputs, seed ^ 1);
        let parameters = ConvTransposeParameters {
            num_inputs, num_outputs, weights: &weights, bias: Some(&bias),
        };
        let epilogue = Epilogue { activation: Activation::Relu, residual: None };
        let layer = ConvTranspose::new(&parameters, geometry, epilogue, Products::F32).unwrap();
        let Some([oh, ow]) = geometry.output_size(size) else { return Ok(()) };
        let mut arena = HostArena::new();
        let mut region = |dims: [usize; 4]| {
            let window = Window::contiguous(&dims).unwrap();
            let buffer = HostBuffer::zeros(ElementType::F32, window.len()).unwrap();
            Region { buffer: arena.push(buffer), window }
        };
        let input = region([n, num_inputs, size[0], size[1]]);
        let output = region([n, num_outputs, oh, ow]);
        let given = values(input.window.len(), seed ^ 2);
        arena.write(&input, &given).unwrap();
        let regions = ConvRegions { input, residual: None, output };
        conv_transpose(&mut arena, &layer, &regions).unwrap();
        let expected = scattered(&given, [n, size[0], size[1]], &layer);
        prop_assert_eq!(arena.read(&output).unwrap(), expected);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let of = |weights: &[f32], geometry| {
        let parameters =
            ConvTransposeParameters { num_inputs: 2, num_outputs: 3, weights, bias: None };
        ConvTranspose::new(&parameters, geometry, Epilogue::default(), Products::F16)
    };
    let geometry = TransposeGeometry::of_kernel([2, 2], [2, 2]);
    assert!(of(&[1.0; 24], geometry).is_ok());
    assert!(of(&[1.0; 23], geometry).is_err());
    assert!(of(&[7e4; 24], geometry).is_err());
    assert!(of(&[1.0; 24], TransposeGeometry { groups: 2, ..geometry }).is_err());
    assert!(of(&[1.0; 24], TransposeGeometry { stride: [0, 2], ..geometry }).is_err());
    assert_eq!(geometry.output_size([3, 4]), Some([6, 8]));
    assert_eq!(TransposeGeometry { pads: [1; 4], ..geometry }.output_size([1, 4]), None);
}
