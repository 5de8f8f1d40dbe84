//! The parameters of `kernels/dense/layer_norm.cu`.

use crate::dense::launch::{RowDims, Source, Target, check_rows, reach};
use crate::device::cuda::{DependentKernel, Grid, KernelSpec, mirrors};
use det_post_types::Result;

/// The parameter of `dense_layer_norm_rows`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LayerNormArgs<'a> {
    /// What is read.
    pub source: Source<'a>,
    /// Factors.
    pub scales: Source<'a>,
    /// Summands; empty: 0.
    pub shifts: Source<'a>,
    /// What is written.
    pub target: Target<'a>,
    /// The rows.
    pub dims: RowDims,
    /// Added to the variance.
    pub epsilon: f32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(LayerNormArgs<'_>, "dense/layer_norm.cu", "Args");

/// `dense_layer_norm_rows`.
pub struct Rows;

// SAFETY: `LayerNormArgs` mirrors the kernel's struct. Threads read and write elements of rows
// below their number, by indices below the dimensions (their products are checked), for which the
// slices are long enough (checked). No block waits for another.
unsafe impl KernelSpec for Rows {
    const NAME: &'static str = "dense_layer_norm_rows";
    type Args<'a> = LayerNormArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_rows(Self::NAME, &args.dims, grid)?;
        let sizes = args.dims.sizes();
        for (name, source) in
            [("the source", &args.source), ("scales", &args.scales), ("shifts", &args.shifts)]
        {
            if name != "shifts" || !source.bytes.is_empty() {
                source.check(Self::NAME, name, reach(sizes, &source.strides, 1))?;
            }
        }
        args.target.check(Self::NAME, "the target", reach(sizes, &args.target.strides, 1))
    }
}

// SAFETY: the kernel waits before it reads or writes anything but its parameters.
unsafe impl DependentKernel for Rows {}
