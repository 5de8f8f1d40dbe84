use proptest::prelude::*;

use super::*;

/// The definition in f64.
fn naive(q: &[f32], k: &[f32], v: &[f32], columns: usize, num_heads: usize) -> Vec<f64> {
    let len = columns / num_heads;
    let mut out = Vec::new();
    for q in q.chunks_exact(columns) {
        for head in 0..num_heads {
            let range = head * len..(head + 1) * len;
            let dot = |k: &[f32]| -> f64 {
                let pairs = q[range.clone()].iter().zip(&k[range.clone()]);
                pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            };
            let scores = k.chunks_exact(columns).map(|k| dot(k) / (len as f64).sqrt());
            let weights: Vec<f64> = scores.map(f64::exp).collect();
            let total: f64 = weights.iter().sum();
            out.extend(range.clone().map(|column| {
                let values = v.chunks_exact(columns).map(|v| f64::from(v[column]));
                values.zip(&weights).map(|(v, w)| v * w).sum::<f64>() / total
            }));
        }
    }
    out
}

fn run(q: &[f32], k: &[f32], v: &[f32], columns: usize, num_heads: usize) -> Result<Vec<f32>> {
    let mut out = vec![0.5; q.len()];
    let rows = |values| Rows::new(values, columns);
    let mut workspace = Workspace::default();
    let out_rows = RowsMut::new(&mut out, columns);
    attention(rows(q), rows(k), rows(v), num_heads, &mut workspace, out_rows)?;
    Ok(out)
}

#[test]
fn a_table_of_cases() {
    // One key: its value, whatever the score.
    assert_eq!(run(&[9.0, -3.0], &[2.0, 2.0], &[0.25, 7.0], 2, 1).unwrap(), [0.25, 7.0]);
    // Equal scores: the mean. Heads do not see each other's columns.
    let mean = run(&[0.0, 1.0], &[1.0, 0.0, 5.0, 0.0], &[1.0, 2.0, 3.0, 6.0], 2, 2).unwrap();
    assert_eq!(mean, [2.0, 4.0]);
    // Scores far apart, beyond the range of exp without the maximum.
    let far = run(&[1.0], &[500.0, 900.0], &[1.0, 2.0], 1, 1).unwrap();
    assert_eq!(far, [2.0]);
    // A NaN key reaches only its head.
    let nan = run(&[1.0, 1.0], &[f32::NAN, 1.0, 1.0, 1.0], &[1.0, 4.0, 3.0, 4.0], 2, 2).unwrap();
    assert!(nan[0].is_nan() && nan[1] == 4.0, "{nan:?}");
    assert!(run(&[1.0], &[], &[], 1, 1).unwrap()[0].is_nan(), "no keys");
    assert_eq!(run(&[], &[1.0], &[1.0], 1, 1).unwrap(), [0.0_f32; 0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(run(&[0.0; 4], &[0.0; 4], &[0.0; 4], 4, 3).is_err());
    assert!(run(&[0.0; 4], &[0.0; 4], &[0.0; 4], 4, 0).is_err());
    assert!(run(&[0.0; 4], &[0.0; 8], &[0.0; 4], 4, 2).is_err());
    assert!(run(&[0.0; 4], &[0.0; 6], &[0.0; 6], 4, 2).is_err());
}

proptest! {
    #[test]
    fn is_near_the_definition(
        num_queries in 1_usize..5,
        num_keys in 1_usize..70,
        len in 1_usize..20,
        num_heads in 1_usize..4,
        values in prop::collection::vec(-2.0_f32..2.0, 20 * 3 * (5 + 2 * 70)),
    ) {
        let columns = len * num_heads;
        let (q, rest) = values.split_at(num_queries * columns);
        let (k, rest) = rest.split_at(num_keys * columns);
        let v = &rest[..num_keys * columns];
        let found = run(q, k, v, columns, num_heads).unwrap();
        for (found, expected) in found.iter().zip(naive(q, k, v, columns, num_heads)) {
            prop_assert!((f64::from(*found) - expected).abs() < 2e-6, "{found} {expected}");
        }
    }
}
