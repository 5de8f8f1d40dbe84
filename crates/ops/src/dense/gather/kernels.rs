//! The parameters of `kernels/dense/gather.cu`.

use crate::dense::launch::{Dims, Source, Target, check_items, reach};
use crate::device::cuda::{DependentKernel, Grid, KernelSpec, kernel_constant, mirrors};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("dense/gather.cu", "kThreads");

/// The parameter of `dense_gather_elements`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GatherArgs<'a> {
    /// The input at index 0.
    pub source: Source<'a>,
    /// Indices, i32.
    pub indices: Source<'a>,
    /// What is written.
    pub target: Target<'a>,
    /// The dimensions of the target.
    pub dims: Dims,
    /// Elements along the axis.
    pub axis_len: u32,
    /// From one of them to the next.
    pub axis_stride: u32,
    /// The product of the dimensions.
    pub num_items: u32,
    /// The word for an index that is not there.
    pub absent: u32,
}

mirrors!(GatherArgs<'_>, "dense/gather.cu", "Args");

/// `dense_gather_elements`.
pub struct Elements;

// SAFETY: `GatherArgs` mirrors the kernel's struct. Items are below their number, which is the
// product of the dimensions, and indices are used below the length of the axis: the slices have all
// elements that are read and written (checked). No block waits for another.
unsafe impl KernelSpec for Elements {
    const NAME: &'static str = "dense_gather_elements";
    type Args<'a> = GatherArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        let kernel = Self::NAME;
        check_items(kernel, &args.dims, args.num_items, grid, THREADS_PER_BLOCK)?;
        let sizes = args.dims.sizes();
        let along = (args.axis_len as usize).saturating_sub(1) * args.axis_stride as usize;
        // Without an element along the axis, none is read.
        let source = if args.axis_len == 0 { 0 } else { reach(sizes, &args.source.strides, 1) };
        args.source.check(kernel, "the source", source.saturating_add(along))?;
        args.indices.check(kernel, "indices", reach(sizes, &args.indices.strides, 1))?;
        args.target.check(kernel, "the target", reach(sizes, &args.target.strides, 1))
    }
}

// SAFETY: the kernel waits before it reads or writes anything but its parameters.
unsafe impl DependentKernel for Elements {}
