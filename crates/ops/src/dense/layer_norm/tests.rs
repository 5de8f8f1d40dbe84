use proptest::prelude::*;

use super::*;
use crate::dense::Window;
use crate::dense::testing::Tensors;

/// A row by the definition.
fn naive(row: &[f32], scales: &[f32], shifts: &[f32]) -> Vec<f64> {
    let values: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
    let count = row.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    let factors = scales.iter().zip(shifts);
    let rows = values.iter().zip(factors);
    rows.map(|(x, (&scale, &shift))| {
        (x - mean) / (variance + 1e-5).sqrt() * f64::from(scale) + f64::from(shift)
    })
    .collect()
}

#[test]
fn instances_and_groups_are_choices_of_axes() {
    // Four channels of two maps of 1 x 3: by channel, and two groups of two channels.
    let values: Vec<f32> = (0..24).map(|v| ((v * 7) % 11) as f32).collect();
    let channels = [1.0, 2.0, 3.0, 4.0];
    for (dims, axes, len) in
        [(&[2, 4, 1, 3][..], &[2, 3][..], 3), (&[2, 2, 2, 1, 3], &[2, 3, 4], 6)]
    {
        let mut tensors = Tensors::default();
        let (input, output) = (tensors.floats(dims, &values), tensors.output(dims));
        let of_channels = tensors.floats(&[4], &channels);
        let shape = if len == 3 { vec![4, 1, 1] } else { vec![2, 2, 1, 1] };
        let window = of_channels.window.reshape(&shape).unwrap().broadcast(dims).unwrap();
        let factors = Region { window, ..of_channels };
        let norm = LayerNorm { axes, epsilon: 1e-5, scales: factors, shifts: Some(factors) };
        layer_norm(&mut tensors.arena, &norm, &input, &output).unwrap();
        let found = tensors.read(&output);
        for (at, row) in values.chunks(len).enumerate() {
            let of: Vec<f32> = (0..len).map(|i| channels[(at * len + i) / 3 % 4]).collect();
            let expected = naive(row, &of, &of);
            for (a, b) in found[at * len..].iter().zip(expected) {
                assert!((f64::from(*a) - b).abs() < 1e-5, "{dims:?}");
            }
        }
    }
}

#[test]
fn a_table_of_rows() {
    let mut tensors = Tensors::default();
    let values = [7.0, 7.0, 1.0, 3.0, f32::NAN, 1.0, f32::INFINITY, 1.0];
    let input = tensors.floats(&[4, 2], &values);
    let one = tensors.floats(&[], &[1.0]);
    let scales = Region { window: one.window.broadcast(&[4, 2]).unwrap(), ..one };
    let norm = LayerNorm { axes: &[1], epsilon: 1e-5, scales, shifts: None };
    layer_norm(&mut tensors.arena, &norm, &input, &input).unwrap();
    let found = tensors.read(&input);
    let expected = 1.0 / (1.0 + 1e-5_f32).sqrt();
    assert_eq!(found[..4], [0.0, 0.0, -expected, expected]);
    assert!(found[4..].iter().all(|x| x.is_nan()));
    let other = Region { window: Window::contiguous(&[2]).unwrap(), ..one };
    assert!(LayerNorm { scales: other, ..norm }.check(&input, &input).is_err());
    assert!(LayerNorm { axes: &[2], ..norm }.check(&input, &input).is_err());
    assert!(LayerNorm { shifts: Some(other), ..norm }.check(&input, &input).is_err());
}

proptest! {
    #[test]
    fn is_near_the_definition(
        row in prop::collection::vec(-8.0_f32..8.0, 2..300), scale in -2.0_f32..2.0,
    ) {
        let spread = row.iter().fold(0.0_f32, |m, x| m.max((x - row[0]).abs()));
        prop_assume!(spread > 0.1);
        let (scales, shifts) = (vec![scale; row.len()], vec![0.5; row.len()]);
        let expected = naive(&row, &scales, &shifts);
        let mut tensors = Tensors::default();
        let dims = [row.len()];
        let input = tensors.floats(&dims, &row);
        let [scales, shifts] = [scales, shifts].map(|values| tensors.floats(&dims, &values));
        let norm = LayerNorm { axes: &[0], epsilon: 1e-5, scales, shifts: Some(shifts) };
        layer_norm(&mut tensors.arena, &norm, &input, &input).unwrap();
        for (found, expected) in tensors.read(&input).iter().zip(expected) {
            prop_assert!((f64::from(*found) - expected).abs() < 2e-4, "{found} {expected}");
        }
    }
}
