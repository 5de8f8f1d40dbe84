use proptest::prelude::*;

use super::*;

/// The contract, value by value.
fn naive(row: &[f32], weights: &[f32], bias: &[f32], residuals: &[&[f32]]) -> Vec<f32> {
    let rows = weights.chunks_exact(row.len()).zip(bias).enumerate();
    rows.map(|(output, (weights, bias))| {
        let sum = row.iter().zip(weights).fold(0.0_f32, |sum, (x, w)| x.mul_add(*w, sum));
        residuals.iter().fold(sum + bias, |sum, residual| sum + residual[output])
    })
    .collect()
}

fn values(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    let next = move || {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn run(layer: &LinearLayer, input: &[f32], residuals: &[Rows<'_>]) -> Vec<f32> {
    let num_rows = input.len() / layer.num_inputs();
    let mut out = vec![f32::NAN; num_rows * layer.num_outputs()];
    let parts = [Part::Of(Rows::new(input, layer.num_inputs()))];
    let out_rows = RowsMut::new(&mut out, layer.num_outputs());
    linear(&parts, layer, residuals, &mut Vec::new(), out_rows).unwrap();
    out
}

#[test]
fn parts_are_concatenated_and_sums_rounded_once() {
    let weights = values(3 * 6, 1);
    let layer = LinearLayer::new([3, 6], &weights, None).unwrap();
    let (a, b, c) = (values(5 * 2, 2), values(5 * 4, 3), values(5 * 4, 4));
    let mut wide = Vec::new();
    for row in 0..5 {
        wide.extend_from_slice(&a[2 * row..][..2]);
        wide.extend(b[4 * row..][..4].iter().zip(&c[4 * row..]).map(|(b, c)| b + c));
    }
    let parts = [Part::Of(Rows::new(&a, 2)), Part::Sum(Rows::new(&b, 4), Rows::new(&c, 4))];
    let mut out = vec![7.0; 5 * 5];
    linear(&parts, &layer, &[], &mut Vec::new(), RowsMut::new(&mut out, 5).columns(1..4)).unwrap();
    for (row, out) in out.chunks_exact(5).enumerate() {
        assert_eq!(out[1..4], naive(&wide[6 * row..][..6], &weights, &[0.0; 3], &[]));
        assert_eq!((out[0], out[4]), (7.0, 7.0), "columns beside the output stay");
    }
}

#[test]
fn what_follows_is_in_its_order() {
    let layer = LinearLayer::new([2, 1], &[1.0, -1.0], Some(&[0.5, 0.5])).unwrap();
    let norm = || LayerNorm::new(vec![1.0, 2.0], vec![0.0, 1.0]).unwrap();
    let of = |finish| run(&layer.clone().with(finish).unwrap(), &[1.5], &[]);
    let normalized = |mut row: Vec<f32>| {
        norm().apply(&mut row);
        row
    };
    assert_eq!(of(Finish::None), [2.0, -1.0]);
    assert_eq!(of(Finish::Relu), [2.0, 0.0]);
    assert_eq!(of(Finish::Norm(norm())), normalized(vec![2.0, -1.0]));
    assert_eq!(of(Finish::NormRelu(norm())), [normalized(vec![2.0, -1.0])[0], 0.0]);
    assert_eq!(of(Finish::ReluNorm(norm())), normalized(vec![2.0, 0.0]));
    let nan = run(&layer.clone().with(Finish::Relu).unwrap(), &[f32::NAN, 1.0], &[]);
    assert!(nan[0].is_nan() && nan[1].is_nan());
    assert_eq!(nan[2..], [1.5, 0.0], "NaN stays in its row");
    let residual = [1.0, 1e9, 0.0, 0.0];
    let residual = Rows::new(&residual, 2);
    assert_eq!(run(&layer, &[1.5, 0.0], &[residual])[..2], [3.0, 1e9 - 1.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(LinearLayer::new([0, 1], &[], None).is_err());
    assert!(LinearLayer::new([2, 2], &[0.0; 3], None).is_err());
    assert!(LinearLayer::new([2, 2], &[0.0; 4], Some(&[0.0])).is_err());
    assert!(LinearLayer::new([1, 1], &[f32::NAN], None).is_err());
    let layer = LinearLayer::new([2, 2], &[0.0; 4], None).unwrap();
    let norm = LayerNorm::new(vec![1.0; 3], vec![0.0; 3]).unwrap();
    assert!(layer.clone().with(Finish::Norm(norm)).is_err());
    let input = [0.0; 6];
    let mut out = [0.0; 6];
    let mut check = |input: Rows<'_>, residuals: &[Rows<'_>], columns: usize| {
        let out = RowsMut::new(&mut out, columns);
        linear(&[Part::Of(input)], &layer, residuals, &mut Vec::new(), out).is_ok()
    };
    assert!(check(Rows::new(&input, 2), &[], 2));
    assert!(!check(Rows::new(&input, 3), &[], 2));
    assert!(!check(Rows::new(&input[..4], 2), &[], 2));
    assert!(!check(Rows::new(&input, 2), &[Rows::new(&input, 3)], 2));
    assert!(!check(Rows::new(&input, 2), &[], 3));
    assert!(check(Rows::new(&input, 2), &[Rows::new(&input, 2)], 2));
}

proptest! {
    #[test]
    fn equals_the_naive_sum_bit_for_bit(
        num_rows in 0_usize..20, num_inputs in 1_usize..70, num_outputs in 1_usize..40, seed: u32,
    ) {
        let weights = values(num_inputs * num_outputs, seed);
        let bias = values(num_outputs, seed ^ 1);
        let input = values(num_rows * num_inputs, seed ^ 2);
        let residual = values(num_rows * num_outputs, seed ^ 3);
        let layer =
            LinearLayer::new([num_outputs, num_inputs], &weights, Some(&bias)).unwrap();
        let rows = Rows::new(&residual, num_outputs);
        let found = run(&layer, &input, &[rows, rows]);
        for (row, found) in found.chunks_exact(num_outputs).enumerate() {
            let residual = rows.row(row);
            let input = &input[row * num_inputs..][..num_inputs];
            prop_assert_eq!(found, &naive(input, &weights, &bias, &[residual, residual])[..]);
        }
        for output in 0..num_outputs {
            for input in 0..num_inputs {
                prop_assert_eq!(layer.weight(output, input), weights[output * num_inputs + input]);
            }
        }
    }
}
