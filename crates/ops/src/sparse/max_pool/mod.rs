//! Sparse max pooling: the largest feature of the sites under a kernel.
//!
//! Input `[N, C]` and output `[M, C]`, rows in the order of their level's
//! sites. A value of the output starts at 0 and takes, tap by tap, every value
//! of the input that is greater or NaN. A cell without a site counts as 0, as in
//! spconv, so an output whose inputs are all negative is 0; after a ReLU, and
//! where there are no negative features, this equals dense pooling.
//!
//! Values are compared and copied: CPU and CUDA are equal.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use crate::sparse::rulebook::Table;
use det_post_types::{Error, ErrorKind, Result};

/// Writes all of `out`, `[M, C]`, from `input`, `[N, C]`.
///
/// # Errors
/// `Argument` when there are no channels or the lengths are not those of the
/// table.
pub fn sparse_max_pool(
    input: &[f32],
    table: &Table,
    num_channels: usize,
    out: &mut [f32],
) -> Result<()> {
    let fits = num_channels > 0
        && input.len() == table.num_input_rows() * num_channels
        && out.len() == table.len() * num_channels;
    if !fits {
        return Err(Error::new(
            ErrorKind::Argument,
            "sparse_max_pool",
            format!(
                "{} input and {} output values of {num_channels} channels do not fit a table from \
                 {} to {} rows",
                input.len(),
                out.len(),
                table.num_input_rows(),
                table.len()
            ),
        ));
    }
    out.fill(0.0);
    for (row, out) in out.chunks_exact_mut(num_channels).enumerate() {
        for input_row in (0..table.num_taps()).filter_map(|tap| table.input_row(row, tap)) {
            let features = &input[input_row as usize * num_channels..][..num_channels];
            for (out, &feature) in out.iter_mut().zip(features) {
                if feature > *out || feature.is_nan() {
                    *out = feature;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
