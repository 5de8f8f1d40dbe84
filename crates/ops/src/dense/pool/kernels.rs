//! The parameters of `kernels/dense/pool.cu`.

use crate::dense::launch::{MapDims, Source, Target, VECTOR, check_map};
use crate::device::cuda::{
    DependentKernel, Grid, KernelSpec, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("dense/pool.cu", "kThreads");

/// The parameter of `dense_pool_*`. Pairs are rows and columns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolArgs<'a> {
    /// The map.
    pub source: Source<'a>,
    /// What is written.
    pub target: Target<'a>,
    /// The size of the target.
    pub dims: MapDims,
    /// The size of the source.
    pub size: [u32; 2],
    /// Its end with the padding behind it.
    pub padded: [u32; 2],
    /// The size of the kernel.
    pub kernel: [u32; 2],
    /// Its steps.
    pub steps: [u32; 2],
    /// Distances of taps.
    pub dilations: [u32; 2],
    /// Padding before the source.
    pub pads: [u32; 2],
    /// Whether it is a mean.
    pub is_average: u32,
    /// Whether taps in the padding count.
    pub counts_padding: u32,
}

mirrors!(PoolArgs<'_>, "dense/pool.cu", "Args");

fn check(kernel: &str, args: &PoolArgs<'_>, grid: &Grid, width: usize) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    check_map(kernel, &args.dims, grid, width)?;
    // Positions are computed with a sign, in 32 bits.
    let pairs = [args.size, args.padded, args.kernel, args.steps, args.dilations, args.pads];
    if pairs.as_flattened().iter().any(|&number| number > 1 << 15) {
        return Err(refused(kernel, "sizes of more than 32768"));
    }
    let [num, channels, ..] = args.dims.sizes();
    let from = [num, channels, args.size[0], args.size[1]];
    args.source.check_map(kernel, "the source", &from, width)?;
    args.target.check_map(kernel, "the target", &args.dims.sizes(), width)
}

macro_rules! pool {
    ($($spec:ident: $name:literal, $width:expr;)+) => {$(
        #[doc = concat!("`", $name, "`.")]
        pub struct $spec;

        // SAFETY: `PoolArgs` mirrors the kernels' struct. A thread has channels below their number
        // of a cell of the target, and reads taps inside the source, for which the slices are long
        // enough and aligned (checked). No block waits for another.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = PoolArgs<'a>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, $width)
            }
        }

        // SAFETY: the kernels wait before they read or write anything but their parameters.
        unsafe impl DependentKernel for $spec {}
    )+};
}

pool! {
    One: "dense_pool_1", 1;
    Vector: "dense_pool_8", VECTOR;
}
