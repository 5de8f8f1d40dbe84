//! The parameters of `kernels/dense/top_k.cu`.

use super::MAX_CHOSEN;
use crate::dense::launch::{RowDims, Source, Target, reach};
use crate::device::cuda::{
    DependentKernel, Grid, KernelSpec, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("dense/top_k.cu", "kThreads");

const _: () = {
    assert!(MAX_CHOSEN == kernel_constant!("dense/top_k.cu", "kMaxChosen") as usize);
    // A thread has two bins.
    assert!(2 * THREADS_PER_BLOCK == kernel_constant!("dense/top_k.cu", "kBins"));
};

/// The parameter of `dense_top_k_rows`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TopKArgs<'a> {
    /// What is read.
    pub source: Source<'a>,
    /// The chosen values; empty: none.
    pub values: Target<'a>,
    /// Their positions; empty: none.
    pub positions: Target<'a>,
    /// The rows.
    pub dims: RowDims,
    /// The number of chosen values of a row.
    pub num_chosen: u32,
    /// Whether the smallest are chosen.
    pub is_smallest: u32,
}

mirrors!(TopKArgs<'_>, "dense/top_k.cu", "Args");

/// `dense_top_k_rows`.
pub struct Rows;

// SAFETY: `TopKArgs` mirrors the kernel's struct. A block has a row, reads its elements and writes
// elements of ranks below the number of chosen ones, for which the slices are long enough
// (checked). The keys that it keeps are all of a row that fits, or as many as are chosen: keys are
// unique. No block waits for another.
unsafe impl KernelSpec for Rows {
    const NAME: &'static str = "dense_top_k_rows";
    type Args<'a> = TopKArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        let kernel = Self::NAME;
        check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
        args.dims.check(kernel)?;
        let fits = grid.num_blocks == [args.dims.num_rows, 1]
            && (1..=args.dims.len.min(MAX_CHOSEN as u32)).contains(&args.num_chosen)
            && args.dims.rank == args.dims.num_kept + 1;
        if !fits {
            let message =
                format!("{grid:?} for {:?}, {} of a row", args.dims.sizes(), args.num_chosen);
            return Err(refused(kernel, &message));
        }
        args.source.check(
            kernel,
            "the source",
            reach(args.dims.sizes(), &args.source.strides, 1),
        )?;
        let mut sizes = args.dims.sizes;
        sizes[args.dims.num_kept as usize] = args.num_chosen;
        let sizes = &sizes[..args.dims.rank as usize];
        for (name, target) in [("values", &args.values), ("positions", &args.positions)] {
            if !target.bytes.is_empty() {
                target.check(kernel, name, reach(sizes, &target.strides, 1))?;
            }
        }
        Ok(())
    }
}

// SAFETY: the kernel waits before it reads or writes anything but its parameters.
unsafe impl DependentKernel for Rows {}
