//! The parameters of `kernels/dense/softmax.cu`.

use crate::dense::launch::{F16, RowDims, Source, Target, check_rows, is_aligned, reach};
use crate::device::cuda::{
    DependentKernel, Grid, KernelSpec, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block, a short row each.
pub const SHORT_THREADS: u32 = kernel_constant!("dense/softmax.cu", "kShortThreads");
/// The most values of a short row of either kernel.
pub const MAX_SHORT: [u32; 2] = [16, 32];

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
    /// Whether the elements of a short row are neighbours at addresses of 16 bytes.
    pub is_vector: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(SoftmaxArgs<'_>, "dense/softmax.cu", "Args");

impl SoftmaxArgs<'_> {
    /// Whether `dense_softmax_short_*` of rows up to `most` values takes them: one dimension along
    /// a row, fast exponentials to f16 and others to f32, no logarithm.
    #[must_use]
    pub fn is_short(&self, most: u32) -> bool {
        let is_row = self.dims.len <= most && self.dims.num_kept + 1 == self.dims.rank;
        is_row && (self.is_fast != 0) == (self.target.element == F16) && self.is_log == 0
    }
}

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

fn check_short(kernel: &str, args: &SoftmaxArgs<'_>, grid: &Grid, most: u32) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, SHORT_THREADS)?;
    args.dims.check(kernel)?;
    let (kept, row) = args.source.strides.split_at(args.dims.num_kept as usize);
    let is_vector = row.first() == Some(&1)
        && is_aligned(
            args.source.bytes.is_aligned_to(16),
            kept.iter().map(|&stride| stride as usize),
        );
    let fits = args.is_short(most)
        && (is_vector || args.is_vector == 0)
        && grid.num_blocks == [args.dims.num_rows.div_ceil(SHORT_THREADS), 1];
    if !fits {
        return Err(refused(kernel, &format!("{grid:?} for rows of {}", args.dims.len)));
    }
    check_lens(kernel, args)
}

macro_rules! softmax {
    ($($spec:ident: $name:literal, $check:expr;)+) => {$(
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
    Short16: "dense_softmax_short_16", |kernel, args, grid| check_short(kernel, args, grid, 16);
    Short32: "dense_softmax_short_32", |kernel, args, grid| check_short(kernel, args, grid, 32);
}
