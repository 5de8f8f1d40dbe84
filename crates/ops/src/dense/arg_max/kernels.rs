//! The parameters of `kernels/dense/arg_max.cu`.

use crate::dense::launch::{RowDims, Source, Target, check_rows, reach};
use crate::device::cuda::{DependentKernel, Grid, KernelSpec, mirrors};
use det_post_types::Result;

/// The parameter of `dense_arg_max_rows`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ArgMaxArgs<'a> {
    /// What is read.
    pub source: Source<'a>,
    /// A position for each row.
    pub target: Target<'a>,
    /// The rows.
    pub dims: RowDims,
    /// Whether the smallest value is found.
    pub is_smallest: u32,
    /// Whether the last of equals is taken.
    pub is_last: u32,
}

mirrors!(ArgMaxArgs<'_>, "dense/arg_max.cu", "Args");

/// `dense_arg_max_rows`.
pub struct Rows;

// SAFETY: `ArgMaxArgs` mirrors the kernel's struct. Threads read elements of rows below their
// number, by indices below the dimensions (their products are checked), and one writes the
// position of a row; the slices are long enough (checked). No block waits for another.
unsafe impl KernelSpec for Rows {
    const NAME: &'static str = "dense_arg_max_rows";
    type Args<'a> = ArgMaxArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_rows(Self::NAME, &args.dims, grid)?;
        let source = reach(args.dims.sizes(), &args.source.strides, 1);
        args.source.check(Self::NAME, "the source", source)?;
        let target = reach(args.dims.kept(), &args.target.strides, 1);
        args.target.check(Self::NAME, "the target", target)
    }
}

// SAFETY: the kernel waits before it reads or writes anything but its parameters.
unsafe impl DependentKernel for Rows {}
