//! The parameters of `kernels/sparse/max_pool.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, kernel_specs, mirrors,
    refused,
};
use crate::sparse::conv::ZERO_BYTES;
use det_post_types::Result;

/// Threads per block: a value each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("sparse/max_pool.cu", "kThreads");

/// The parameter of `sparse_max_pool_*`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolArgs<'a> {
    /// Zeros, then rows.
    pub features: In<'a, u8>,
    /// Words of the table.
    pub words: In<'a, u32>,
    /// Counts of the output's level.
    pub counts: In<'a, u32>,
    /// Zeros, then rows.
    pub output: Out<'a, u8>,
    /// Words per row of the table.
    pub num_groups: u32,
    /// Taps per word.
    pub width: u32,
    /// Words from one group to the next.
    pub stride: u32,
    /// Channels, padded.
    pub num_channels: u32,
    /// The most output rows.
    pub capacity: u32,
    /// The most input rows: those that words name are below.
    pub num_input_rows: u32,
}

mirrors!(PoolArgs<'_>, "sparse/max_pool.cu", "Args");

fn check(kernel: &str, args: &PoolArgs<'_>, grid: &Grid, element_bytes: usize) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    if args.num_channels == 0 || !matches!(args.width, 1 | 3) || args.capacity > args.stride {
        let message =
            format!("{} channels do not fit {} taps per word", args.num_channels, args.width);
        return Err(refused(kernel, &message));
    }
    let row_bytes = args.num_channels as usize * element_bytes;
    let rows = |num: u32| ZERO_BYTES.saturating_add((num as usize).saturating_mul(row_bytes));
    check_lens(
        kernel,
        [
            ("features", args.features.len(), rows(args.num_input_rows)),
            ("words", args.words.len(), args.num_groups as usize * args.stride as usize),
            ("counts", args.counts.len(), 1),
            ("output", args.output.len(), rows(args.capacity)),
        ],
    )
}

/// `sparse_max_pool_f32`.
pub struct PoolF32;
/// `sparse_max_pool_f16`.
pub struct PoolF16;
/// `sparse_max_pool_bf16`.
pub struct PoolBf16;

// SAFETY: `PoolArgs` mirrors `sparse_max_pool::Args`. A thread writes a value of a row below
// the number of sites and the capacity, for which words and output are long enough (checked).
// Words name rows below `num_input_rows`, for which the features are (checked). No thread
// waits.
kernel_specs! {
    check;
    unsafe PoolF32: "sparse_max_pool_f32", PoolArgs, 4;
    unsafe PoolF16: "sparse_max_pool_f16", PoolArgs, 2;
    unsafe PoolBf16: "sparse_max_pool_bf16", PoolArgs, 2;
}
