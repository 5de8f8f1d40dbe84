use proptest::prelude::*;

use super::*;
use crate::dense::testing::Tensors;

fn of(dims: &[usize], op: Softmax, values: &[f32]) -> Vec<f32> {
    let mut tensors = Tensors::default();
    let (input, output) = (tensors.floats(dims, values), tensors.output(dims));
    softmax(&mut tensors.arena, &op, &input, &output).unwrap();
    tensors.read(&output)
}

const ROWS: Softmax = Softmax { axis: 1, is_log: false, weights: None };

#[test]
fn a_table_of_rows() {
    // test_softmax_example, test_softmax_large_number.
    let found = of(&[1, 3], ROWS, &[-1.0, 0.0, 1.0]);
    for (a, b) in found.iter().zip([0.090_030_57, 0.244_728_47, 0.665_240_96]) {
        assert!((a - b).abs() < 1e-6);
    }
    let found = of(&[2, 4], ROWS, &[0., 1., 2., 3., 10_000., 10_001., 10_002., 10_003.]);
    assert_eq!(found[..4], found[4..]);
    assert!((found[3] - 0.643_914_3).abs() < 1e-6);
    assert_eq!(of(&[2, 1], ROWS, &[5.0, -5.0]), [1.0, 1.0]);
    // Along the other dimension.
    assert_eq!(of(&[2, 2], Softmax { axis: 0, ..ROWS }, &[1.0, 2.0, 1.0, 2.0]), [0.5; 4]);
    let log = of(&[1, 2], Softmax { is_log: true, ..ROWS }, &[1.0, 1.0]);
    assert!((log[0] + std::f32::consts::LN_2).abs() < 1e-7);
    let bad = of(&[3, 2], ROWS, &[f32::NAN, 1.0, f32::INFINITY, 1.0, f32::NEG_INFINITY, 1.0]);
    assert!(bad[..4].iter().all(|x| x.is_nan()));
    assert_eq!(bad[4..], [0.0, 1.0]);
    assert!(of(&[0, 3], ROWS, &[]).is_empty());
}

#[test]
fn weights_make_a_mean() {
    let mut tensors = Tensors::default();
    let input = tensors.floats(&[2, 3], &[0.0, 0.0, 0.0, 1e9, 0.0, 0.0]);
    let weights = tensors.floats(&[3], &[4.0, 1.0, 1.0]);
    let window = weights.window.broadcast(&[2, 3]).unwrap();
    let op = Softmax { weights: Some(Region { window, ..weights }), ..ROWS };
    let output = tensors.output(&[2, 1]);
    softmax(&mut tensors.arena, &op, &input, &output).unwrap();
    assert_eq!(tensors.read(&output), [2.0, 4.0]);
    assert!(op.check(&input, &input).is_err());
    assert!(Softmax { is_log: true, ..op }.check(&input, &output).is_err());
    assert!(Softmax { weights: Some(weights), ..op }.check(&input, &output).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut tensors = Tensors::default();
    let (a, b) = (tensors.output(&[2, 3]), tensors.output(&[3, 2]));
    assert!(ROWS.check(&a, &a).is_ok());
    assert!(ROWS.check(&a, &b).is_err());
    assert!(Softmax { axis: 2, ..ROWS }.check(&a, &a).is_err());
    let indices = tensors.index_output(&[2, 3]);
    assert!(softmax(&mut tensors.arena, &ROWS, &indices, &a).is_err());
}

proptest! {
    #[test]
    fn is_near_the_definition(row in prop::collection::vec(-20.0_f32..20.0, 1..200)) {
        let largest = row.iter().copied().fold(f32::MIN, f32::max);
        let terms: Vec<f64> = row.iter().map(|&x| f64::from(x - largest).exp()).collect();
        let sum: f64 = terms.iter().sum();
        let found = of(&[1, row.len()], ROWS, &row);
        for (found, term) in found.iter().zip(terms) {
            prop_assert!((f64::from(*found) - term / sum).abs() < 1e-6);
        }
    }
}
