//! The parameters of `kernels/dense/resize.cu`.

use super::{Coordinates, Nearest};
use crate::dense::launch::{MapDims, Source, Target, VECTOR, check_map};
use crate::device::cuda::{
    DependentKernel, Grid, KernelSpec, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("dense/resize.cu", "kThreads");

/// The parameter of `dense_resize_*`. Pairs are rows and columns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ResizeArgs<'a> {
    /// The map.
    pub source: Source<'a>,
    /// What is written.
    pub target: Target<'a>,
    /// The size of the target.
    pub dims: MapDims,
    /// The size of the source.
    pub size: [u32; 2],
    /// Target over source.
    pub scale: [f32; 2],
    /// Of places that are symmetric.
    pub shift: [f32; 2],
    /// By the numbers of the kernels.
    pub coordinates: u32,
    /// Likewise.
    pub nearest: u32,
    /// Whether values are blended.
    pub is_linear: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(ResizeArgs<'_>, "dense/resize.cu", "Args");

macro_rules! number {
    ($name:literal) => {
        kernel_constant!("dense/resize.cu", $name)
    };
}

/// The number of coordinates in the kernels.
pub fn coordinates(coordinates: Coordinates) -> u32 {
    match coordinates {
        Coordinates::HalfPixel => number!("kHalfPixel"),
        Coordinates::HalfPixelSymmetric => number!("kHalfPixelSymmetric"),
        Coordinates::PytorchHalfPixel => number!("kPytorchHalfPixel"),
        Coordinates::AlignCorners => number!("kAlignCorners"),
        Coordinates::Asymmetric => number!("kAsymmetric"),
    }
}

/// The number of a rounding in the kernels.
pub fn nearest(nearest: Nearest) -> u32 {
    match nearest {
        Nearest::RoundPreferFloor => number!("kRoundPreferFloor"),
        Nearest::RoundPreferCeil => number!("kRoundPreferCeil"),
        Nearest::Floor => number!("kFloor"),
        Nearest::Ceil => number!("kCeil"),
    }
}

fn check(kernel: &str, args: &ResizeArgs<'_>, grid: &Grid, width: usize) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    check_map(kernel, &args.dims, grid, width)?;
    if args.size.contains(&0) {
        return Err(refused(kernel, "a source without rows or columns"));
    }
    let [num, channels, ..] = args.dims.sizes();
    let from = [num, channels, args.size[0], args.size[1]];
    args.source.check_map(kernel, "the source", &from, width)?;
    args.target.check_map(kernel, "the target", &args.dims.sizes(), width)
}

macro_rules! resize {
    ($($spec:ident: $name:literal, $width:expr;)+) => {$(
        #[doc = concat!("`", $name, "`.")]
        pub struct $spec;

        // SAFETY: `ResizeArgs` mirrors the kernels' struct. A thread has channels below their
        // number of a cell of the target, and reads rows and columns that it limits to the source,
        // for which the slices are long enough and aligned (checked). No block waits for another.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = ResizeArgs<'a>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, $width)
            }
        }

        // SAFETY: the kernels wait before they read or write anything but their parameters.
        unsafe impl DependentKernel for $spec {}
    )+};
}

resize! {
    One: "dense_resize_1", 1;
    Vector: "dense_resize_8", VECTOR;
}
