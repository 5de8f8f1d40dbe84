//! The parameters of `kernels/view/depth_image.cu`.

use super::MAX_VIEWS;
use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, kernel_specs, mirrors,
    refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("view/depth_image.cu", "kThreads");
/// The most blocks that share the points.
pub const MAX_BLOCKS: u32 = kernel_constant!("view/depth_image.cu", "kMaxBlocks");
const _: () = assert!(MAX_VIEWS == kernel_constant!("view/depth_image.cu", "kMaxViews") as usize);

/// A view: `View` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ViewArgs {
    /// To (u z, v z, z), `[3, 4]`.
    pub rows: [f32; 12],
}

/// The parameter of the kernels: `Args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DepthImageArgs<'a> {
    /// Rows of floats.
    pub points: In<'a, f32>,
    /// The number of points.
    pub num_points: In<'a, u32>,
    /// `[views, height, width]`.
    pub images: Out<'a, f32>,
    /// The views.
    pub views: [ViewArgs; MAX_VIEWS],
    /// The low end of the range.
    pub range_min: [f32; 3],
    /// The high end of the range, outside.
    pub range_max: [f32; 3],
    /// Depths up to this one are not seen.
    pub min_depth: f32,
    /// A bit per view that is there.
    pub present: u32,
    /// Views.
    pub num_views: u32,
    /// Columns of an image.
    pub width: u32,
    /// Rows of an image.
    pub height: u32,
    /// Floats per point.
    pub num_channels: u32,
    /// The maximum number of points.
    pub point_capacity: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(ViewArgs, "view/depth_image.cu", "View");
mirrors!(DepthImageArgs<'_>, "view/depth_image.cu", "Args");

impl DepthImageArgs<'_> {
    fn num_pixels(&self) -> usize {
        let sizes = [self.num_views, self.height, self.width];
        sizes.iter().fold(1, |product, &size| (size as usize).saturating_mul(product))
    }

    /// Blocks with a thread for each pixel.
    pub fn of_pixels(&self) -> Grid {
        let num_blocks = self.num_pixels().div_ceil(THREADS_PER_BLOCK as usize);
        let num_blocks = [u32::try_from(num_blocks).unwrap_or(u32::MAX), 1];
        Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK }
    }

    /// Blocks that share the points.
    pub fn of_points(&self) -> Grid {
        let num_blocks = self.point_capacity.div_ceil(THREADS_PER_BLOCK).clamp(1, MAX_BLOCKS);
        Grid { num_blocks: [num_blocks, 1], threads_per_block: THREADS_PER_BLOCK }
    }
}

/// Which launch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Pixels,
    Points,
}

fn check(kernel: &str, args: &DepthImageArgs<'_>, grid: &Grid, of: Of) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let needed = match of {
        Of::Pixels => args.of_pixels(),
        Of::Points => args.of_points(),
    };
    let (num_views, channels) = (args.num_views as usize, args.num_channels as usize);
    if grid.num_blocks != needed.num_blocks || num_views > MAX_VIEWS || channels < 3 {
        let blocks = grid.num_blocks;
        let message = format!(
            "{blocks:?} blocks do not fit {num_views} views of {}x{}, points of {channels} channels",
            args.width, args.height
        );
        return Err(refused(kernel, &message));
    }
    let slices = [
        ("points", args.points.len(), (args.point_capacity as usize).saturating_mul(channels)),
        ("num_points", args.num_points.len(), 1),
        ("images", args.images.len(), args.num_pixels()),
    ];
    check_lens(kernel, slices)
}

/// `depth_image_clear`.
pub struct Clear;
/// `depth_image_points`.
pub struct Project;
/// `depth_image_finish`.
pub struct Finish;

// SAFETY: `DepthImageArgs` mirrors `depth_image::Args` (compared). A thread of `clear` and `finish`
// whose pixel is not below the number of pixels stops; the others read and write that word of
// `images`, which has all pixels (checked). Points are read below the capacity, for which `points` is long
// enough (checked); a pixel that is written is below width and height of a view below the number of
// views (compared in the kernel), of which there are at most as many as `views` has (checked). No
// thread waits.
kernel_specs! {
    check;
    unsafe Clear: "depth_image_clear", DepthImageArgs, Of::Pixels;
    unsafe Project: "depth_image_points", DepthImageArgs, Of::Points;
    unsafe Finish: "depth_image_finish", DepthImageArgs, Of::Pixels;
}
