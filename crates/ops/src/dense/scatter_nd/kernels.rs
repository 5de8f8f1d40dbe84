//! The parameters of `kernels/dense/scatter_nd.cu`.

use crate::dense::MAX_RANK;
use crate::dense::launch::{Dims, Source, Target, check_items, reach};
use crate::device::cuda::{DependentKernel, Grid, KernelSpec, kernel_constant, mirrors, refused};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("dense/scatter_nd.cu", "kThreads");

/// The parameter of `dense_scatter_nd_elements`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ScatterArgs<'a> {
    /// Tuples, i32.
    pub indices: Source<'a>,
    /// What is read.
    pub updates: Source<'a>,
    /// What is written, at index 0 of the axes of the tuples.
    pub target: Target<'a>,
    /// The dimensions of the updates.
    pub dims: Dims,
    /// Elements along the axes of the tuples.
    pub axis_lens: [u32; MAX_RANK],
    /// From one of them to the next.
    pub axis_strides: [u32; MAX_RANK],
    /// Numbers of a tuple.
    pub num_axes: u32,
    /// From one of them to the next.
    pub number_stride: u32,
    /// The product of the dimensions.
    pub num_items: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(ScatterArgs<'_>, "dense/scatter_nd.cu", "Args");

/// `dense_scatter_nd_elements`.
pub struct Elements;

// SAFETY: `ScatterArgs` mirrors the kernel's struct. Items are below their number, which is the
// product of the dimensions, and indices are used below the lengths of their axes: the slices have
// all elements that are read and written (checked). No block waits for another.
unsafe impl KernelSpec for Elements {
    const NAME: &'static str = "dense_scatter_nd_elements";
    type Args<'a> = ScatterArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        let kernel = Self::NAME;
        check_items(kernel, &args.dims, args.num_items, grid, THREADS_PER_BLOCK)?;
        if args.num_axes as usize > MAX_RANK {
            return Err(refused(kernel, &format!("tuples of {} numbers", args.num_axes)));
        }
        let sizes = args.dims.sizes();
        let numbers = reach(&[args.num_axes], &[args.number_stride], 1);
        let indices = reach(sizes, &args.indices.strides, numbers);
        args.indices.check(kernel, "indices", indices)?;
        args.updates.check(kernel, "updates", reach(sizes, &args.updates.strides, 1))?;
        let axes = args.num_axes as usize;
        let along = reach(&args.axis_lens[..axes], &args.axis_strides[..axes], 1);
        // Without an element along an axis, none is written.
        let target = if along == 0 { 0 } else { reach(sizes, &args.target.strides, along) };
        args.target.check(kernel, "the target", target)
    }
}

// SAFETY: the kernel waits before it reads or writes anything but its parameters.
unsafe impl DependentKernel for Elements {}
