use proptest::prelude::*;

use super::*;
use crate::dense::testing::Tensors;

fn of(dims: &[usize], reduction: Reduction, axes: &[usize], values: &[f32]) -> Vec<f32> {
    let mut tensors = Tensors::default();
    let mut out = dims.to_vec();
    axes.iter().for_each(|&axis| out[axis] = 1);
    let (input, output) = (tensors.floats(dims, values), tensors.output(&out));
    reduce(&mut tensors.arena, reduction, axes, &input, &output).unwrap();
    tensors.read(&output)
}

#[test]
fn a_table_of_reductions() {
    // ONNX's example of ReduceMean, ReduceSum, ReduceMax, ReduceMin and ReduceProd.
    let values = [5.0, 1.0, 20.0, 2.0, 30.0, 1.0, 40.0, 2.0, 55.0, 1.0, 60.0, 2.0];
    let dims = [3, 2, 2];
    assert_eq!(of(&dims, Reduction::Mean, &[1], &values), [12.5, 1.5, 35.0, 1.5, 57.5, 1.5]);
    assert_eq!(of(&dims, Reduction::Max, &[1], &values), [20.0, 2.0, 40.0, 2.0, 60.0, 2.0]);
    assert_eq!(of(&dims, Reduction::Min, &[0, 2], &values), [1.0, 2.0]);
    let twelve: Vec<f32> = (1..=12).map(|v| v as f32).collect();
    assert_eq!(of(&dims, Reduction::Sum, &[1], &twelve), [4.0, 6.0, 12.0, 14.0, 20.0, 22.0]);
    assert_eq!(of(&dims, Reduction::Product, &[1], &twelve), [3.0, 8.0, 35.0, 48.0, 99.0, 120.0]);
    assert_eq!(of(&dims, Reduction::Sum, &[2, 0, 1], &twelve), [78.0]);
    assert_eq!(of(&dims, Reduction::Mean, &[], &twelve), twelve);
    assert_eq!(of(&[1], Reduction::Mean, &[0], &[-3.0]), [-3.0]);
    for reduction in [Reduction::Max, Reduction::Min, Reduction::Sum] {
        assert!(of(&[3], reduction, &[0], &[1.0, f32::NAN, 2.0])[0].is_nan());
    }
    assert_eq!(of(&[2], Reduction::Max, &[0], &[f32::NEG_INFINITY; 2]), [f32::NEG_INFINITY]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut tensors = Tensors::default();
    let input = tensors.output(&[2, 3]);
    for (axes, dims, fits) in [
        (&[1][..], &[2, 1][..], true),
        (&[1], &[2], false),
        (&[1], &[1, 3], false),
        (&[2], &[2, 3], false),
        (&[1, 1], &[2, 1], false),
    ] {
        let output = tensors.output(dims);
        assert_eq!(check(&input, axes, &output).is_ok(), fits, "{axes:?} {dims:?}");
    }
    // No value to begin with.
    let (empty, output) = (tensors.output(&[2, 0]), tensors.output(&[2, 1]));
    assert!(check(&empty, &[1], &output).is_err());
}

proptest! {
    #[test]
    fn sums_are_near_the_definition(row in prop::collection::vec(-8.0_f32..8.0, 1..300)) {
        let exact: f64 = row.iter().map(|&x| f64::from(x)).sum();
        let found = of(&[row.len()], Reduction::Sum, &[0], &row)[0];
        prop_assert!((f64::from(found) - exact).abs() < 1e-4);
    }
}
