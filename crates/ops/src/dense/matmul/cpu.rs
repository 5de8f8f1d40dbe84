//! The reference on the CPU: a row and [`NUM_LANES`] columns at a time.

use multiversion::multiversion;

use super::{MatMul, MatMulRegions};
use crate::dense::HostArena;
use det_post_types::Result;

/// Columns that are summed together.
const NUM_LANES: usize = 16;

/// Arguments that fit together.
pub(super) fn matmul(
    arena: &mut HostArena,
    product: &MatMul,
    regions: &MatMulRegions,
    [m, k, n]: [usize; 3],
) -> Result<()> {
    let round = |values: Vec<f32>| -> Vec<f32> {
        values.into_iter().map(|value| product.products.round(value)).collect()
    };
    let left = round(arena.read(&regions.left)?);
    let window = regions.right.as_ref().map(|region| arena.read(region)).transpose()?.map(round);
    let residual = regions.residual.as_ref().map(|region| arena.read(region)).transpose()?;
    let residual = residual.unwrap_or_default();
    let (weights, bias) = match &product.right {
        Some(right) => (&right.values[..], &right.bias[..]),
        None => (&[][..], &[][..]),
    };
    let mut out = vec![0.0; regions.output.window.len()];
    if m * n > 0 {
        for (batch, out) in out.chunks_mut(m * n).enumerate() {
            let right = match &window {
                Some(values) => &values[batch * k * n..][..k * n],
                None => weights,
            };
            for (row, out) in out.chunks_mut(n).enumerate() {
                let left = &left[(batch * m + row) * k..][..k];
                for first in (0..n).step_by(NUM_LANES) {
                    let end = (first + NUM_LANES).min(n);
                    add_products(left, &right[first.min(right.len())..], n, &mut out[first..end]);
                }
                let first = (batch * m + row) * n;
                for (column, value) in out.iter_mut().enumerate() {
                    let bias = bias.get(column).copied().unwrap_or_default();
                    let residual = residual.get(first + column).copied().unwrap_or_default();
                    *value = product.epilogue.apply(*value + bias, residual);
                }
            }
        }
    }
    arena.write(&regions.output, &out)
}

/// The sums of some neighbouring columns.
#[multiversion(targets("x86_64+avx2+fma"))]
fn add_products(left: &[f32], right: &[f32], row_len: usize, out: &mut [f32]) {
    let mut sums = [0.0_f32; NUM_LANES];
    for (&value, row) in left.iter().zip(right.chunks(row_len)) {
        for (sum, &weight) in sums.iter_mut().zip(&row[..out.len().min(row.len())]) {
            *sum = value.mul_add(weight, *sum);
        }
    }
    out.copy_from_slice(&sums[..out.len()]);
}
