use proptest::prelude::*;

use super::*;
use crate::dense::host::HostBuffer;
use crate::dense::{Activation, Residual, Window};
use det_post_types::ElementType;

fn values(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    let next = move || {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// The contract, value by value, over dense tensors `[N, C, H, W]`.
fn naive(input: &[f32], [n, h, w]: [usize; 3], conv: &Conv) -> Vec<f32> {
    let geometry = conv.geometry();
    let [oh, ow] = geometry.output_size([h, w]).unwrap();
    let per_group = conv.num_inputs() / geometry.groups;
    let outputs_per_group = conv.num_outputs() / geometry.groups;
    let mut out = Vec::new();
    for (item, output, y, x) in itertools([n, conv.num_outputs(), oh, ow]) {
        let mut sum = 0.0_f32;
        for (ky, kx, c, _) in itertools([geometry.kernel[0], geometry.kernel[1], per_group, 1]) {
            let at = |axis: usize, at: usize, tap: usize| {
                (at * geometry.stride[axis] + tap * geometry.dilation[axis]) as isize
                    - geometry.pads[axis] as isize
            };
            let (y, x) = (at(0, y, ky), at(1, x, kx));
            let size = [h * geometry.upsample, w * geometry.upsample];
            if y < 0 || x < 0 || y as usize >= size[0] || x as usize >= size[1] {
                continue;
            }
            let (y, x) = (y as usize / geometry.upsample, x as usize / geometry.upsample);
            let channel = output / outputs_per_group * per_group + c;
            let value = input[((item * conv.num_inputs() + channel) * h + y) * w + x];
            sum = conv.products().round(value).mul_add(conv.weight(output, c, [ky, kx]), sum);
        }
        out.push(conv.epilogue().apply(sum + conv.bias()[output], 0.0));
    }
    out
}

fn itertools(dims: [usize; 4]) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..dims.iter().product()).map(move |i: usize| {
        let [_, b, c, d] = dims;
        (i / (b * c * d), i / (c * d) % b, i / d % c, i % d)
    })
}

fn region(arena: &mut HostArena, element: ElementType, dims: [usize; 4]) -> Region {
    let pixel = dims[1].next_multiple_of(8);
    let window = Window::channels_last(dims, pixel).unwrap();
    let len = window.end().unwrap();
    Region { buffer: arena.push(HostBuffer::zeros(element, len).unwrap()), window }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn equals_the_loop_of_the_contract(
        n in 1_usize..3, groups in 1_usize..3, inputs in 1_usize..4, outputs in 1_usize..20,
        size in [1_usize..7, 1..7], kernel in [1_usize..4, 1..4], stride in [1_usize..4, 1..4],
        dilation in [1_usize..3, 1..3], pads in [0_usize..3, 0..3, 0..3, 0..3],
        upsample in 1_usize..3, is_f16: bool, seed: u32,
    ) {
        let geometry = Geometry { kernel, stride, dilation, pads, groups, upsample };
        let products = if is_f16 { Products::F16 } else { Products::F32 };
        let (num_inputs, num_outputs) = (groups * inputs, groups * outputs);
        let weights = values(num_outputs * inputs * kernel[0] * kernel[1], seed);
        let bias = values(num_outputs, seed ^ 1);
        let parameters =
            ConvParameters { num_outputs, num_inputs, weights: &weights, bias: Some(&bias) };
        let epilogue = Epilogue { activation: Activation::Relu, residual: None };
        let layer = Conv::new(&parameters, geometry, epilogue, products).unwrap();
        let Some([oh, ow]) = geometry.output_size(size) else { return Ok(()) };
        let [h, w] = size;
        let mut arena = HostArena::new();
        let input = region(&mut arena, ElementType::F32, [n, num_inputs, h, w]);
        let output = region(&mut arena, ElementType::F32, [n, num_outputs, oh, ow]);
        let given = values(n * num_inputs * h * w, seed ^ 2);
        arena.write(&input, &given).unwrap();
        conv(&mut arena, &layer, &ConvRegions { input, residual: None, output }).unwrap();
        prop_assert_eq!(arena.read(&output).unwrap(), naive(&given, [n, h, w], &layer));
    }
}

#[test]
fn a_residual_is_added_and_stores_are_rounded() {
    let parameters = ConvParameters { num_outputs: 1, num_inputs: 1, weights: &[-2.0], bias: None };
    let epilogue =
        Epilogue { activation: Activation::Relu, residual: Some(Residual::AfterActivation) };
    let layer =
        Conv::new(&parameters, Geometry::of_kernel([1, 1]), epilogue, Products::F32).unwrap();
    let mut arena = HostArena::new();
    let input = region(&mut arena, ElementType::F32, [1, 1, 1, 2]);
    let residual = region(&mut arena, ElementType::F32, [1, 1, 1, 2]);
    let output = region(&mut arena, ElementType::F16, [1, 1, 1, 2]);
    arena.write(&input, &[1.0, -1.0 / 6.0]).unwrap();
    arena.write(&residual, &[0.5, 0.0]).unwrap();
    let regions = ConvRegions { input, residual: Some(residual), output };
    conv(&mut arena, &layer, &regions).unwrap();
    assert_eq!(arena.read(&output).unwrap(), [0.5, round_f16(1.0 / 3.0)]);
    let without = ConvRegions { residual: None, ..regions };
    assert!(conv(&mut arena, &layer, &without).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let geometry = Geometry { groups: 2, ..Geometry::of_kernel([3, 3]) };
    let weights = [0.5; 36];
    let of = |num_inputs, weights, geometry, products| {
        let parameters = ConvParameters { num_outputs: 2, num_inputs, weights, bias: None };
        Conv::new(&parameters, geometry, Epilogue::default(), products)
    };
    assert!(of(4, &weights, geometry, Products::F32).is_ok());
    assert!(of(3, &weights, geometry, Products::F32).is_err());
    assert!(of(4, &weights[1..], geometry, Products::F32).is_err());
    assert!(of(4, &weights, Geometry { upsample: 3, ..geometry }, Products::F32).is_err());
    assert!(of(4, &weights, Geometry { stride: [0, 1], ..geometry }, Products::F32).is_err());
    assert!(of(4, &[7e4; 36], geometry, Products::F32).is_ok());
    assert!(of(4, &[7e4; 36], geometry, Products::F16).is_err());
    assert_eq!(geometry.output_size([2, 5]), None);
    assert_eq!(geometry.output_size([3, 5]), Some([1, 3]));
}
