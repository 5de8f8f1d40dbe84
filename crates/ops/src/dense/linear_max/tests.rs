use super::*;
use crate::dense::testing::Tensors;

fn of([rows, inputs, outputs]: [usize; 3], activation: Activation, values: &[f32]) -> Vec<f32> {
    // Column n: n + 1 times the first input, minus the others; bias n.
    let weights: Vec<f32> =
        (0..inputs * outputs).map(|at| if at < outputs { at as f32 + 1.0 } else { -1.0 }).collect();
    let bias: Vec<f32> = (0..outputs).map(|at| at as f32).collect();
    let right = RightWeights {
        num_inputs: inputs,
        num_outputs: outputs,
        weights: &weights,
        bias: Some(&bias),
    };
    let layer = LinearMax::new(&right, activation).unwrap();
    let groups = values.len() / (rows * inputs);
    let mut tensors = Tensors::default();
    let (input, output) =
        (tensors.floats(&[groups, rows, inputs], values), tensors.output(&[groups, outputs]));
    linear_max(&mut tensors.arena, &layer, &input, &output).unwrap();
    tensors.read(&output)
}

#[test]
fn a_table_of_groups() {
    let none = Activation::None;
    assert_eq!(of([1, 1, 2], none, &[3.0, -1.0]), [3.0, 7.0, -1.0, -1.0]);
    assert_eq!(of([2, 1, 2], none, &[3.0, -1.0]), [3.0, 7.0]);
    assert_eq!(of([2, 2, 1], none, &[1.0, 5.0, 2.0, 1.0]), [1.0]);
    assert_eq!(of([2, 2, 1], Activation::Relu, &[1.0, 5.0, 1.0, 9.0]), [0.0]);
    assert!(of([2, 1, 1], none, &[f32::NAN, 1.0])[0].is_nan());
    assert!(of([2, 1, 1], none, &[1.0, f32::NAN])[0].is_nan());
    assert_eq!(of([2, 1, 1], none, &[f32::NEG_INFINITY; 2]), [f32::NEG_INFINITY]);
    assert_eq!(of([1, 16, 33], none, &[0.0; 16])[32], 32.0);
    assert!(of([3, 2, 2], none, &[]).is_empty());
}

#[test]
fn what_does_not_fit_is_refused() {
    let of = |num_inputs, num_outputs, weights: &[f32], bias: Option<&[f32]>| {
        LinearMax::new(&RightWeights { num_inputs, num_outputs, weights, bias }, Activation::None)
    };
    assert!(of(17, 1, &[0.0; 17], None).is_err());
    assert!(of(1, 1025, &[0.0; 1025], None).is_err());
    assert!(of(2, 2, &[0.0; 3], None).is_err());
    assert!(of(2, 2, &[0.0; 4], Some(&[0.0])).is_err());
    assert!(of(1, 1, &[f32::NAN], None).is_err());
    let layer = of(2, 3, &[0.0; 6], None).unwrap();
    let mut tensors = Tensors::default();
    for (from, to, fits) in [
        (&[4, 5, 2][..], &[4, 3][..], true),
        (&[4, 0, 2], &[4, 3], false),
        (&[4, 5, 3], &[4, 3], false),
        (&[4, 5, 2], &[4, 2], false),
        (&[20, 2], &[20, 3], false),
    ] {
        let (input, output) = (tensors.output(from), tensors.output(to));
        assert_eq!(layer.check(&input, &output).is_ok(), fits, "{from:?} {to:?}");
    }
}
