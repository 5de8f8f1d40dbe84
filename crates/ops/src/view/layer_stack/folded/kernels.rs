//! The kernel `layer_stack_folded_f16`.

use std::marker::PhantomData;

use super::args::{FoldedArgs, ROWS_PER_BLOCK, SHARED_BYTES, THREADS_PER_BLOCK};
use super::check::check;
use crate::device::cuda::{DependentKernel, Grid, KernelSpec, check_threads, refused};
use crate::view::linear::cuda::Element;
use det_post_types::Result;

/// Blocks of a launch: of rows, and stacks over rows that have blocks of their own.
pub(super) fn num_blocks<T>(args: &FoldedArgs<'_, T>) -> [u32; 2] {
    [args.num_rows.div_ceil(ROWS_PER_BLOCK), args.num_row_jobs.max(1)]
}

/// `layer_stack_folded_f16`; launches with rows of other elements are refused.
pub struct Folded<T>(PhantomData<T>);

// SAFETY: `FoldedArgs` and what it consists of mirror the structs of the kernel (compared), whose
// elements are f16 (checked). A block has rows below their number, and one of the stacks over rows,
// or all stacks. Rows, norms and outputs are long enough for them, and begin, as their rows do, at
// multiples of 16 bytes where the kernel moves 16 bytes at a time (checked). What a warp reads of
// its stream is the constants and as many steps as its plan says, within the streams (checked); the
// plans are those of the layers, and no warp has more layers than places for their constants
// (checked). Layers are no wider than the warps of their stack, stacks have warps of their own, and
// columns are below the values of a box, so that accesses of shared memory, whose size is the
// kernel's (asserted there), are within it (checked). A warp waits for copies of its own and for
// warps of its block at barriers; all of them come to the same, since which warps have a layer
// follows from only the checked numbers. No block waits for another.
unsafe impl<T: Element> KernelSpec for Folded<T> {
    const NAME: &'static str = "layer_stack_folded_f16";
    type Args<'a> = FoldedArgs<'a, T>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let num_blocks = num_blocks(args);
        if grid.num_blocks != num_blocks {
            let message = format!("found {:?} blocks, expected {num_blocks:?}", grid.num_blocks);
            return Err(refused(Self::NAME, &message));
        }
        check(Self::NAME, args)
    }
    fn shared_bytes(_args: &Self::Args<'_>) -> u32 {
        SHARED_BYTES
    }
}

// SAFETY: before its `griddepcontrol.wait` the kernel reads its parameters, streams and norms,
// which no launch writes, and the interval, which by the contract of `FoldedStacks::enqueue` is
// written only by copies: no launch behind a copy begins before it has ended. It writes its own
// shared memory. Rows, columns and summands are read, and everything is written, after that.
unsafe impl<T: Element> DependentKernel for Folded<T> {}
