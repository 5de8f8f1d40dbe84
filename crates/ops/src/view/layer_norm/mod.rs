//! Layer normalization of rows: each row is brought to mean 0 and variance 1, then
//! scaled and shifted by channel.
//!
//! For a row `x` of C values, in f32:
//!
//! 1. `mean = sum(x) / C`;
//! 2. `variance = sum((x - mean) * (x - mean)) / C`;
//! 3. `r = 1 / sqrt(variance + 1e-5)`;
//! 4. `y = fma((x - mean) * r, gamma, beta)`.
//!
//! Both sums are made of 32 partial sums from +0: value `i` is added to sum
//! `i % 32`, ascending; then the sums at distances 16, 8, 4, 2 and 1 are added,
//! the order of a warp. A NaN or an infinity makes its whole row NaN. The method is
//! `torch.nn.LayerNorm`'s with its default epsilon; nothing is dropped.

use crate::view::rows::RowsMut;
use det_post_types::{Error, ErrorKind, Result};

/// Added to the variance.
pub const EPSILON: f32 = 1e-5;

/// Partial sums of a row.
const NUM_LANES: usize = 32;

/// The factors and summands of a layer normalization, one per channel.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm {
    gamma: Vec<f32>,
    beta: Vec<f32>,
}

impl LayerNorm {
    /// From factors (`weight` of a state dict) and summands (`bias`).
    ///
    /// # Errors
    /// `Argument` when there are none or not as many of both.
    pub fn new(gamma: Vec<f32>, beta: Vec<f32>) -> Result<Self> {
        if gamma.is_empty() || gamma.len() != beta.len() {
            let message =
                format!("{} factors and {} summands do not match", gamma.len(), beta.len());
            return Err(Error::new(ErrorKind::Argument, "layer_norm", message));
        }
        Ok(Self { gamma, beta })
    }

    /// Channels.
    pub fn num_channels(&self) -> usize {
        self.gamma.len()
    }

    /// The factors.
    pub fn gamma(&self) -> &[f32] {
        &self.gamma
    }

    /// The summands.
    pub fn beta(&self) -> &[f32] {
        &self.beta
    }

    /// Normalizes one row of as many channels in place.
    pub(crate) fn apply(&self, row: &mut [f32]) {
        let num_channels = row.len() as f32;
        let mean = warp_sum(row.iter().copied()) / num_channels;
        let variance = warp_sum(row.iter().map(|x| (x - mean) * (x - mean))) / num_channels;
        let r = 1.0 / (variance + EPSILON).sqrt();
        for ((x, gamma), beta) in row.iter_mut().zip(&self.gamma).zip(&self.beta) {
            *x = ((*x - mean) * r).mul_add(*gamma, *beta);
        }
    }
}

/// The sum in the order of a warp.
fn warp_sum(values: impl Iterator<Item = f32>) -> f32 {
    let mut sums = [0.0; NUM_LANES];
    for (index, value) in values.enumerate() {
        sums[index % NUM_LANES] += value;
    }
    let mut distance = NUM_LANES / 2;
    while distance > 0 {
        for lane in 0..distance {
            sums[lane] += sums[lane + distance];
        }
        distance /= 2;
    }
    sums[0]
}

/// Normalizes all rows in place.
///
/// # Errors
/// `Argument` when the rows do not have the channels of the normalization.
pub fn layer_norm(mut rows: RowsMut<'_>, norm: &LayerNorm) -> Result<()> {
    let num_rows = rows.len();
    rows.check("layer_norm", "input", [num_rows, norm.num_channels()])?;
    (0..num_rows).for_each(|row| norm.apply(rows.row(row)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(row: &[f32], gamma: &[f32], beta: &[f32]) -> Vec<f64> {
        let values = row.iter().map(|&x| f64::from(x));
        let count = row.len() as f64;
        let mean = values.clone().sum::<f64>() / count;
        let variance = values.clone().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
        let factors = gamma.iter().zip(beta);
        values
            .zip(factors)
            .map(|(x, (&gamma, &beta))| {
                (x - mean) / (variance + 1e-5).sqrt() * f64::from(gamma) + f64::from(beta)
            })
            .collect()
    }

    #[test]
    fn a_table_of_rows() {
        let norm = |n: usize| LayerNorm::new(vec![1.0; n], vec![0.0; n]).unwrap();
        // A constant row, one channel, an exact row: mean 2, variance 1 (and epsilon).
        let mut constant = [7.0; 33];
        norm(33).apply(&mut constant);
        assert_eq!(constant, [0.0; 33]);
        let mut one = [-3.0];
        norm(1).apply(&mut one);
        assert_eq!(one, [0.0]);
        let mut exact = [1.0, 3.0, 1.0, 3.0];
        norm(4).apply(&mut exact);
        let expected = 1.0 / (1.0 + EPSILON).sqrt();
        assert_eq!(exact, [-expected, expected, -expected, expected]);
        let mut bad = [1.0, f32::NAN, 2.0, f32::INFINITY];
        norm(4).apply(&mut bad);
        assert!(bad.iter().all(|x| x.is_nan()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(LayerNorm::new(vec![], vec![]).is_err());
        assert!(LayerNorm::new(vec![1.0], vec![]).is_err());
        let norm = LayerNorm::new(vec![1.0; 3], vec![0.0; 3]).unwrap();
        let mut values = [0.0; 8];
        assert!(layer_norm(RowsMut::new(&mut values, 4), &norm).is_err());
        let mut values = [1.0, 2.0, 3.0, 9.0, 1.0, 2.0, 3.0, 9.0];
        layer_norm(RowsMut::new(&mut values, 4).columns(0..3), &norm).unwrap();
        assert_eq!((values[3], values[7]), (9.0, 9.0));
        assert_eq!(values[..3], values[4..7]);
        assert!(values[1].abs() < 1e-6 && values[0] < -1.2);
    }

    proptest! {
        #[test]
        fn is_near_the_definition(
            row in prop::collection::vec(-8.0_f32..8.0, 2..300),
            gamma in -2.0_f32..2.0,
            beta in -2.0_f32..2.0,
        ) {
            let (gamma, beta) = (vec![gamma; row.len()], vec![beta; row.len()]);
            let expected = naive(&row, &gamma, &beta);
            let spread = row.iter().fold(0.0_f32, |m, x| m.max((x - row[0]).abs()));
            prop_assume!(spread > 0.1);
            let mut found = row;
            LayerNorm::new(gamma, beta).unwrap().apply(&mut found);
            for (found, expected) in found.iter().zip(expected) {
                prop_assert!((f64::from(*found) - expected).abs() < 2e-4, "{found} {expected}");
            }
        }
    }
}
