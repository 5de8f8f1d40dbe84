//! The parameters of `kernels/dense/reduce.cu`.

use super::Reduction;
use crate::dense::launch::{RowDims, Source, Target, check_rows, reach};
use crate::device::cuda::{DependentKernel, Grid, KernelSpec, kernel_constant, mirrors};
use det_post_types::Result;

/// The parameter of `dense_reduce_rows`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ReduceArgs<'a> {
    /// What is read.
    pub source: Source<'a>,
    /// A value for each row.
    pub target: Target<'a>,
    /// The rows.
    pub dims: RowDims,
    /// By its number in the kernels.
    pub reduction: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(ReduceArgs<'_>, "dense/reduce.cu", "Args");

/// The number of a reduction in the kernels.
pub fn code(reduction: Reduction) -> u32 {
    match reduction {
        Reduction::Sum => kernel_constant!("dense/reduce.cu", "kSum"),
        Reduction::Mean => kernel_constant!("dense/reduce.cu", "kMean"),
        Reduction::Max => kernel_constant!("dense/reduce.cu", "kMax"),
        Reduction::Min => kernel_constant!("dense/reduce.cu", "kMin"),
        Reduction::Product => kernel_constant!("dense/reduce.cu", "kProduct"),
    }
}

/// `dense_reduce_rows`.
pub struct Rows;

// SAFETY: `ReduceArgs` mirrors the kernel's struct. Threads read elements of rows below their
// number, by indices below the dimensions (their products are checked), and one writes the value
// of a row; the slices are long enough (checked). No block waits for another.
unsafe impl KernelSpec for Rows {
    const NAME: &'static str = "dense_reduce_rows";
    type Args<'a> = ReduceArgs<'a>;
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
