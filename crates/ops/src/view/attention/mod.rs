//! Multi-head attention: each query's weighted mean of the values of all keys.
//!
//! Queries `[Q, H * D]`, keys and values `[K, H * D]`, output `[Q, H * D]`; head `h`
//! has the columns from `h * D`. For a query and a head, in f32:
//!
//! 1. `s_k = (sum of q * k) * scale`: `sum = fma(q, k, sum)` from +0 over D,
//!    ascending, then one product by `scale`, which is `1 / sqrt(D)`;
//! 2. `p_k = exp(s_k - max)`, `max` the largest of all `s_k`;
//! 3. `total = total + p_k` from +0, and for each of the D values
//!    `sum = fma(p_k, v, sum)` from +0, keys ascending;
//! 4. `sum / total`.
//!
//! The exponential is computed in f64 and rounded once. Projections, residual and
//! normalization are layers of their own ([`linear`](crate::view::linear)). A NaN
//! among the keys reaches every query of its head. Without keys the output is NaN.
//! The method is `torch.nn.MultiheadAttention`'s without masks and dropout. A device
//! may take keys in tiles: it agrees within a tolerance and is equal from run to run.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

use crate::view::rows::{Rows, RowsMut};
use det_post_types::{Error, ErrorKind, Result};

/// Memory of the op; it grows with the number of keys.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// The keys of a head, in panels.
    keys: Vec<[f32; cpu::NUM_LANES]>,
    /// The weights of the keys for a query.
    weights: Vec<f32>,
}

/// Writes all of `out`.
///
/// # Errors
/// `Argument` when the heads do not divide the columns of the queries, or keys,
/// values and output do not fit the queries.
pub fn attention(
    queries: Rows<'_>,
    keys: Rows<'_>,
    values: Rows<'_>,
    num_heads: usize,
    workspace: &mut Workspace,
    out: RowsMut<'_>,
) -> Result<()> {
    let num_columns = queries.num_columns();
    if num_heads == 0 || num_columns == 0 || !num_columns.is_multiple_of(num_heads) {
        let message = format!("{num_heads} heads do not divide {num_columns} columns");
        return Err(Error::new(ErrorKind::Argument, "attention", message));
    }
    queries.check("attention", "queries", [out.len(), num_columns])?;
    keys.check("attention", "keys", [keys.len(), num_columns])?;
    values.check("attention", "values", [keys.len(), num_columns])?;
    out.check("attention", "output", [out.len(), num_columns])?;
    cpu::attention(queries, keys, values, num_heads, workspace, out);
    Ok(())
}
