//! The parameters of `kernels/view/sample.cu`.

use std::marker::PhantomData;

use half::f16;

use super::{BLOCK, Strides};
use crate::device::cuda::{
    DependentKernel, Grid, In, KernelSpec, Mirror, Out, check_lens, check_threads, kernel_constant,
    mirrors, refused,
};
use crate::view::linear::cuda::{Element, LinearArgs};
use det_post_types::Result;

/// Threads per block: a query, a warp per level.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("view/sample.cuh", "kReferenceThreads");
/// The most levels.
pub const MAX_LEVELS: usize = kernel_constant!("view/sample.cuh", "kMaxLevels") as usize;
/// The most views.
pub const MAX_VIEWS: usize = kernel_constant!("view/sample.cuh", "kMaxViews") as usize;
/// The most channels.
pub const MAX_CHANNELS: usize = kernel_constant!("view/sample.cuh", "kMaxChannels") as usize;

/// Channels of a lane: it reads them at once.
const LANE_CHANNELS: usize = kernel_constant!("view/row.cuh", "kGroup") as usize;
/// The most bytes from a texel to the next, where a level is packed beside them.
const MAX_COLUMN_BYTES: usize = 0xffff;

const _: () = assert!(
    BLOCK == kernel_constant!("view/sample.cuh", "kBlock") as usize,
    "a block has as many channels as one of MapLayout::Blocks32"
);

/// A level of the maps: `Level` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LevelArgs<'a> {
    /// Texels: channels last, or in blocks of them.
    pub texels: In<'a, u8>,
    /// Texels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The value of 1; 1 for floats.
    pub scale: f32,
    /// Values from a view to the next.
    pub view_stride: u32,
    /// From a row to the next.
    pub row_stride: u32,
    /// From a texel to the next of its row.
    pub column_stride: u32,
    /// From a block of channels to the next.
    pub block_stride: u32,
    /// Padding.
    pub reserved: u32,
}

/// Feature maps and views: `Maps` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MapsArgs<'a> {
    /// The levels.
    pub levels: [LevelArgs<'a>; MAX_LEVELS],
    /// 12 values per view.
    pub projections: In<'a, f32>,
    /// Views.
    pub num_views: u32,
    /// Levels.
    pub num_levels: u32,
    /// Channels.
    pub num_channels: u32,
    /// The least depth, exclusive, in metres.
    pub min_depth: f32,
}

/// Sampling through reference points: `ReferenceArgs` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ReferenceArgs<'a, T> {
    /// Rows of the queries before their normalization.
    pub rows: In<'a, T>,
    /// Its factors and summands.
    pub norm: In<'a, f32>,
    /// The rows, normalized.
    pub content: Out<'a, T>,
    /// Reference points, 3 per query, in 0 to 1 of the range.
    pub points: In<'a, f32>,
    /// Weights of the logits: a row of channels per view and level.
    pub weights: In<'a, T>,
    /// What is added to the logits: a row of views times levels per query.
    pub offsets: In<'a, f32>,
    /// A row per query.
    pub output: Out<'a, T>,
    /// Maps and views.
    pub maps: MapsArgs<'a>,
    /// The least coordinates of the range, in metres.
    pub low: [f32; 3],
    /// The lengths of the range, in metres.
    pub extent: [f32; 3],
    /// Queries.
    pub num_queries: u32,
    /// Added to variances.
    pub epsilon: f32,
}

/// Sampling and linear layers beside it: `ReferenceAndLinearArgs` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ReferenceAndLinearArgs<'a, T> {
    pub(super) sample: ReferenceArgs<'a, T>,
    pub(super) linear: LinearArgs<'a, T>,
    pub(super) num_row_blocks: u32,
    pub(super) reserved: u32,
}

mirrors!(LevelArgs<'_>, "view/sample.cuh", "Level");
mirrors!(MapsArgs<'_>, "view/sample.cuh", "Maps");
mirrors!(ReferenceArgs<'_, T>, "view/sample.cuh", "ReferenceArgs", T; where T: Mirror);
mirrors!(
    ReferenceAndLinearArgs<'_, T>,
    "view/sample.cuh", "ReferenceAndLinearArgs", T; where T: Mirror
);

impl MapsArgs<'_> {
    /// Refuses levels without texels, with fewer values than their strides reach, or where lanes
    /// cannot read vectors of channels. Views, levels and channels are within their limits.
    pub(crate) fn check(&self, kernel: &str, texel_bytes: usize) -> Result<()> {
        let vector = (LANE_CHANNELS * texel_bytes).min(16);
        for level in &self.levels[..self.num_levels as usize] {
            let [view, row, column, block, width, height] = [
                level.view_stride,
                level.row_stride,
                level.column_stride,
                level.block_stride,
                level.width,
                level.height,
            ]
            .map(|n| n as usize);
            let strides = Strides { view, row, column, block };
            let [views, channels] = [self.num_views, self.num_channels].map(|n| n as usize);
            let needed = strides.reach(views, channels, [width, height]);
            let of_view = strides.reach(1, channels, [width, height]);
            check_lens(
                kernel,
                [("texels", level.texels.len(), needed.saturating_mul(texel_bytes))],
            )?;
            let is_aligned = level.texels.is_aligned_to(vector as u64)
                && [view, row, column, block].iter().all(|n| n.is_multiple_of(LANE_CHANNELS));
            let in_32 = u32::try_from(of_view.saturating_mul(texel_bytes)).is_ok()
                && column * texel_bytes <= MAX_COLUMN_BYTES;
            if width == 0 || height == 0 || !is_aligned || !in_32 {
                let message = format!("a level of {width}x{height} texels with {strides:?}");
                return Err(refused(kernel, &message));
            }
        }
        Ok(())
    }
}

fn check<T: Element>(
    kernel: &str,
    args: &ReferenceAndLinearArgs<'_, T>,
    grid: &Grid,
    texel_bytes: usize,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let sample = &args.sample;
    let maps = &sample.maps;
    let [views, levels, channels] =
        [maps.num_views, maps.num_levels, maps.num_channels].map(|n| n as usize);
    let num_blocks = sample.num_queries + args.num_row_blocks * args.linear.num_column_blocks();
    let fits = grid.num_blocks == [num_blocks, 1]
        && !args.linear.jobs().is_empty()
        && args.num_row_blocks == args.linear.num_row_blocks(1)
        && (1..=MAX_VIEWS).contains(&views)
        && (1..=MAX_LEVELS).contains(&levels)
        && (8..=MAX_CHANNELS).contains(&channels)
        && channels.is_multiple_of(8);
    if !fits {
        let blocks = grid.num_blocks;
        let message = format!(
            "{blocks:?} blocks do not fit {views} views, {levels} levels, {channels} channels"
        );
        return Err(refused(kernel, &message));
    }
    maps.check(kernel, texel_bytes)?;
    let num_queries = sample.num_queries as usize;
    check_lens(
        kernel,
        [
            ("rows", sample.rows.len(), num_queries * channels),
            ("norm", sample.norm.len(), 2 * channels),
            ("content", sample.content.len(), num_queries * channels),
            ("points", sample.points.len(), 3 * num_queries),
            ("weights", sample.weights.len(), views * levels * channels),
            ("offsets", sample.offsets.len(), num_queries * views * levels),
            ("output", sample.output.len(), num_queries * channels),
            ("projections", maps.projections.len(), 12 * views),
        ],
    )?;
    args.linear.check(kernel, true)
}

/// Sampling of texels of `M` with activations of `T`.
pub struct References<T, M>(PhantomData<(T, M)>);

macro_rules! references {
    ($($element:ty, $texel:ty: $name:literal;)+) => {$(
        // SAFETY: the structs mirror those of the kernels. The first blocks are those of the linear
        // layers, all of which encode points (checked as those of `linear`), the others have a
        // query each; the grid is compared with both. A texel is read if it lies within its level,
        // of a view below the number of views, by strides that stay within its slice
        // (`MapsArgs::check`); the slices are long enough for queries, views,
        // levels and channels (checked). Shared memory beside the declared is that of the layers.
        // No block waits for another.
        unsafe impl KernelSpec for References<$element, $texel> {
            const NAME: &'static str = $name;
            type Args<'a> = ReferenceAndLinearArgs<'a, $element>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, size_of::<$texel>())
            }
            fn shared_bytes(args: &Self::Args<'_>) -> u32 {
                args.linear.shared_bytes(1)
            }
        }

        // SAFETY: before they wait, the kernels read what those of `linear` do.
        unsafe impl DependentKernel for References<$element, $texel> {}
    )+};
}

references! {
    f16, f16: "view_sample_references_f16";
    f16, i8: "view_sample_references_f16_i8";
    f32, f32: "view_sample_references_f32";
    f32, f16: "view_sample_references_f32_f16";
}

/// Elements of activations that sampling is compiled for, and its kernels by texels.
pub trait SampleElement: Element {
    /// Texels as the activations.
    type Same: for<'a> DependentKernel<Args<'a> = ReferenceAndLinearArgs<'a, Self>>;
    /// Smaller texels: int8 for f16, f16 for f32.
    type Smaller: for<'a> DependentKernel<Args<'a> = ReferenceAndLinearArgs<'a, Self>>;
    /// The types of both texels.
    const TEXELS: [Texel; 2];
}

/// The type of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Texel {
    /// f32.
    F32,
    /// IEEE half.
    F16,
    /// Integers with a scale per level.
    I8,
}

impl SampleElement for f16 {
    type Same = References<Self, Self>;
    type Smaller = References<Self, i8>;
    const TEXELS: [Texel; 2] = [Texel::F16, Texel::I8];
}

impl SampleElement for f32 {
    type Same = References<Self, Self>;
    type Smaller = References<Self, f16>;
    const TEXELS: [Texel; 2] = [Texel::F32, Texel::F16];
}
