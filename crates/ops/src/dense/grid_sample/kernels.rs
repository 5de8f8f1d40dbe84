//! The parameters of `kernels/dense/grid_sample.cu`.

use crate::dense::launch::{MapDims, Source, Target, VECTOR, check_map, reach};
use crate::device::cuda::{
    DependentKernel, Grid, KernelSpec, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("dense/grid_sample.cu", "kThreads");

/// The parameter of `dense_grid_sample_*`. Pairs are rows and columns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GridSampleArgs<'a> {
    /// The map.
    pub source: Source<'a>,
    /// [N, rows, columns, 2].
    pub grid: Source<'a>,
    /// What is written.
    pub target: Target<'a>,
    /// The size of the target.
    pub dims: MapDims,
    /// The size of the source.
    pub size: [u32; 2],
    /// Whether the nearest value is taken.
    pub is_nearest: u32,
    /// Whether the border is beyond the map.
    pub has_border: u32,
    /// Whether the outer values have their centres at -1 and 1.
    pub aligns_corners: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(GridSampleArgs<'_>, "dense/grid_sample.cu", "Args");

fn check(kernel: &str, args: &GridSampleArgs<'_>, grid: &Grid, width: usize) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    check_map(kernel, &args.dims, grid, width)?;
    if args.size.contains(&0) {
        return Err(refused(kernel, "a source without rows or columns"));
    }
    let of_grid = [args.dims.num, args.dims.height, args.dims.width, 2];
    args.grid.check(kernel, "the grid", reach(&of_grid, &args.grid.strides, 1))?;
    let [num, channels, ..] = args.dims.sizes();
    let from = [num, channels, args.size[0], args.size[1]];
    args.source.check_map(kernel, "the source", &from, width)?;
    args.target.check_map(kernel, "the target", &args.dims.sizes(), width)
}

macro_rules! grid_sample {
    ($($spec:ident: $name:literal, $width:expr;)+) => {$(
        #[doc = concat!("`", $name, "`.")]
        pub struct $spec;

        // SAFETY: `GridSampleArgs` mirrors the kernels' struct. A thread has channels below their
        // number of a cell of the target, and reads the grid there and values inside the source,
        // for which the slices are long enough and aligned (checked). No block waits for another.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = GridSampleArgs<'a>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, $width)
            }
        }

        // SAFETY: the kernels wait before they read or write anything but their parameters.
        unsafe impl DependentKernel for $spec {}
    )+};
}

grid_sample! {
    One: "dense_grid_sample_1", 1;
    Vector: "dense_grid_sample_8", VECTOR;
}
