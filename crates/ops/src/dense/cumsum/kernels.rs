//! The parameters of `kernels/dense/cumsum.cu`.

use crate::dense::launch::{RowDims, Source, Target, reach};
use crate::device::cuda::{
    DependentKernel, Grid, KernelSpec, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block, a row each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("dense/cumsum.cu", "kThreads");

/// The parameter of `dense_cumsum_rows`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CumSumArgs<'a> {
    /// What is read.
    pub source: Source<'a>,
    /// What is written.
    pub target: Target<'a>,
    /// The rows.
    pub dims: RowDims,
    /// Whether a sum is without its value.
    pub is_exclusive: u32,
    /// Whether it begins at the end.
    pub is_reversed: u32,
}

mirrors!(CumSumArgs<'_>, "dense/cumsum.cu", "Args");

/// `dense_cumsum_rows`.
pub struct Rows;

// SAFETY: `CumSumArgs` mirrors the kernel's struct. A thread reads and writes the elements of a row
// below their number, for which the slices are long enough (checked). No block waits for another.
unsafe impl KernelSpec for Rows {
    const NAME: &'static str = "dense_cumsum_rows";
    type Args<'a> = CumSumArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        let kernel = Self::NAME;
        check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
        args.dims.check(kernel)?;
        if grid.num_blocks != [args.dims.num_rows.div_ceil(THREADS_PER_BLOCK), 1] {
            return Err(refused(kernel, &format!("{grid:?} for {} rows", args.dims.num_rows)));
        }
        let sizes = args.dims.sizes();
        args.source.check(kernel, "the source", reach(sizes, &args.source.strides, 1))?;
        args.target.check(kernel, "the target", reach(sizes, &args.target.strides, 1))
    }
}

// SAFETY: the kernel waits before it reads or writes anything but its parameters.
unsafe impl DependentKernel for Rows {}
