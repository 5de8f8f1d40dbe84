//! The parameters of `kernels/dense/softmax.cu`.

use crate::dense::launch::{RowDims, Source, Target, check_rows, reach};
use crate::device::cuda::{
    DependentKernel, Grid, KernelSpec, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block, a short row each.
pub const SHORT_THREADS: u32 = kernel_constant!("dense/softmax.cu", "kShortThreads");
/// The most values of a short row.
pub const MAX_SHORT: u32 = 32;

/// The parameter of `dense_softmax_*`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SoftmaxArgs<'a> {
    /// What is read.
    pub source: Source<'a>,
    /// Factors of the results; empty: none.
    pub weights: Source<'a>,
    /// What is written; with weights, an element for each row.
    pub target: Target<'a>,
    /// The rows.
    pub dims: RowDims,
    /// Whether the logarithm is taken.
    pub is_log: u32,
    /// Whether exponentials are within the precision of f16.
    pub is_fast: u32,
}

mirrors!(SoftmaxArgs<'_>, "dense/softmax.cu", "Args");

fn check_lens(kernel: &str, args: &SoftmaxArgs<'_>) -> Result<()> {
    let sizes = args.dims.sizes();
    args.source.check(kernel, "the source", reach(sizes, &args.source.strides, 1))?;
    if args.weights.bytes.is_empty() {
        return args.target.check(kernel, "the target", reach(sizes, &args.target.strides, 1));
    }
    args.weights.check(kernel, "weights", reach(sizes, &args.weights.strides, 1))?;
    args.target.check(kernel, "the target", reach(args.dims.kept(), &args.target.strides, 1))
}

fn check(kernel: &str, args: &SoftmaxArgs<'_>, grid: &Grid) -> Result<()> {
    check_rows(kernel, &args.dims, grid)?;
    check_lens(kernel, args)
}

fn check_short(kernel: &str, args: &SoftmaxArgs<'_>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, SHORT_THREADS)?;
    args.dims.check(kernel)?;
    let fits = args.dims.len <= MAX_SHORT
        && grid.num_blocks == [args.dims.num_rows.div_ceil(SHORT_THREADS), 1];
    if !fits {
        return Err(refused(kernel, &format!("{grid:?} for rows of {}", args.dims.len)));
    }
    check_lens(kernel, args)
}

macro_rules! softmax {
    ($($spec:ident: $name:literal, $check:ident;)+) => {$(
        #[doc = concat!("`", $name, "`.")]
        pub struct $spec;

        // SAFETY: `SoftmaxArgs` mirrors the kernels' struct. Threads read and write elements of
        // rows below their number, by indices below the dimensions (their products are checked),
        // for which the slices are long enough (checked). No block waits for another.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = SoftmaxArgs<'a>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                $check(Self::NAME, args, grid)
            }
        }

        // SAFETY: the kernels wait before they read or write anything but their parameters.
        unsafe impl DependentKernel for $spec {}
    )+};
}

softmax! {
    Rows: "dense_softmax_rows", check;
    Short: "dense_softmax_short", check_short;
}
