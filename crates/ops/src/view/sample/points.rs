//! The kernels that sample through the key points of anchors (Sparse4D): parameters and launch.

use std::marker::PhantomData;

use half::f16;

use super::kernels::{MAX_CHANNELS, MAX_LEVELS, MAX_VIEWS, MapsArgs, Texel};
use crate::device::cuda::{
    CudaDevice, DependentKernel, Grid, In, Kernel, KernelSpec, Mirror, Out, Stream, check_lens,
    check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::{QueryBox, Result};

/// The most key points of an anchor.
pub const MAX_POINTS: usize = kernel_constant!("view/sample_points.cuh", "kMaxPoints") as usize;
/// The most pairs of a view and a key point.
pub const MAX_PLACES: usize = kernel_constant!("view/sample_points.cuh", "kMaxPlaces") as usize;
/// The most groups of channels.
pub const MAX_GROUPS: usize = kernel_constant!("view/sample_points.cuh", "kMaxGroups") as usize;
/// Channels of a lane: a group has a multiple of them.
const LANE_CHANNELS: usize = kernel_constant!("view/row.cuh", "kGroup") as usize;

/// Sampling through key points: `PointsArgs` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointsArgs<'a, T> {
    /// The anchors, 11 values each.
    pub anchors: In<'a, f32>,
    /// Shares of the extents, 3 per fixed point.
    pub fixed: In<'a, f32>,
    /// Logits of the shares, 3 per anchor and learned point.
    pub learned: In<'a, f32>,
    /// Logits of the weights, a row per anchor: `[levels, points, groups]`.
    pub logits: In<'a, T>,
    /// What a view adds to them: `[views, levels, points, groups]`. In f16 read while earlier launches
    /// may run: behind a launch that writes it there has to be a copy.
    pub view_logits: In<'a, f32>,
    /// A row of channels per anchor.
    pub output: Out<'a, T>,
    /// Maps and views.
    pub maps: MapsArgs<'a>,
    /// Values from one row to the next.
    pub logit_stride: u32,
    /// As above.
    pub output_stride: u32,
    /// Anchors.
    pub num_queries: u32,
    /// Fixed points of an anchor.
    pub num_fixed: u32,
    /// Learned points of an anchor.
    pub num_learned: u32,
    /// Groups of channels.
    pub num_groups: u32,
}

mirrors!(PointsArgs<'_, T>, "view/sample_points.cuh", "PointsArgs", T; where T: Mirror);

impl<T> PointsArgs<'_, T> {
    fn num_points(&self) -> usize {
        (self.num_fixed + self.num_learned) as usize
    }

    /// Weights of an anchor.
    fn num_weights(&self) -> usize {
        let maps = &self.maps;
        (maps.num_views * maps.num_levels * self.num_groups) as usize * self.num_points()
    }
}

fn check<T: PointElement>(
    kernel: &str,
    args: &PointsArgs<'_, T>,
    grid: &Grid,
    texel_bytes: usize,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, T::THREADS_PER_BLOCK)?;
    let maps = &args.maps;
    let [views, levels, channels, groups, queries] =
        [maps.num_views, maps.num_levels, maps.num_channels, args.num_groups, args.num_queries]
            .map(|n| n as usize);
    let num_points = args.num_points();
    let fits = grid.num_blocks == [args.num_queries, 1]
        && (1..=MAX_VIEWS).contains(&views)
        && (1..=MAX_LEVELS).contains(&levels)
        && (1..=MAX_POINTS).contains(&num_points)
        && views * num_points <= MAX_PLACES
        && (1..=MAX_GROUPS).contains(&groups)
        && (1..=MAX_CHANNELS).contains(&channels)
        && channels.is_multiple_of(groups * LANE_CHANNELS)
        && args.output_stride.is_multiple_of(2);
    if !fits {
        let message = format!(
            "{:?} blocks, {views} views, {levels} levels, {num_points} points, {groups} groups of \
             {channels} channels; possible are {MAX_VIEWS} views, {MAX_LEVELS} levels, \
             {MAX_POINTS} points, {MAX_CHANNELS} channels, and groups of a multiple of \
             {LANE_CHANNELS} of them",
            grid.num_blocks
        );
        return Err(refused(kernel, &message));
    }
    maps.check(kernel, texel_bytes)?;
    let rows = |stride: u32, len: usize| queries.saturating_sub(1) * stride as usize + len;
    check_lens(
        kernel,
        [
            ("anchors", args.anchors.len(), queries * (size_of::<QueryBox>() / size_of::<f32>())),
            ("fixed points", args.fixed.len(), 3 * args.num_fixed as usize),
            ("learned points", args.learned.len(), 3 * queries * args.num_learned as usize),
            ("logits", args.logits.len(), rows(args.logit_stride, levels * num_points * groups)),
            ("view logits", args.view_logits.len(), args.num_weights()),
            ("output", args.output.len(), rows(args.output_stride, channels)),
            ("projections", maps.projections.len(), 12 * views),
        ],
    )
}

/// Sampling of texels of `M` with activations of `T`.
pub struct Points<T, M>(PhantomData<(T, M)>);

macro_rules! points {
    ($($element:ty, $texel:ty: $name:literal;)+) => {$(
        // SAFETY: `PointsArgs` and what it contains mirror the structs of the kernels (compared). A
        // block has an anchor below their number; views, levels, points and groups are below
        // theirs, for which slices, places and shared memory are large enough (checked). A texel is
        // read if it lies within its level, by strides that stay within its slice
        // (`MapsArgs::check`). No block waits for another.
        unsafe impl KernelSpec for Points<$element, $texel> {
            const NAME: &'static str = $name;
            type Args<'a> = PointsArgs<'a, $element>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, size_of::<$texel>())
            }
            fn shared_bytes(args: &Self::Args<'_>) -> u32 {
                shared_bytes::<$element>(args.num_weights())
            }
        }

        // SAFETY: before they wait, the kernels read their parameters and the logits of the views,
        // which no launch since the last copy writes (`PointsArgs::view_logits`).
        unsafe impl DependentKernel for Points<$element, $texel> {}
    )+};
}

points! {
    f16, f16: "view_sample_points_f16";
    f16, i8: "view_sample_points_f16_i8";
    f32, f32: "view_sample_points_f32";
    f32, f16: "view_sample_points_f32_f16";
}

/// Elements of activations that sampling through key points is compiled for, by texels as
/// [`SampleElement`](super::cuda::SampleElement).
pub trait PointElement: super::kernels::SampleElement {
    /// Threads per block: an anchor.
    const THREADS_PER_BLOCK: u32;
    /// Bytes of shared memory per weight of an anchor, beside what the kernels declare.
    const WEIGHT_BYTES: usize;
    /// Texels as the activations.
    type SamePoints: for<'a> DependentKernel<Args<'a> = PointsArgs<'a, Self>>;
    /// Smaller texels.
    type SmallerPoints: for<'a> DependentKernel<Args<'a> = PointsArgs<'a, Self>>;
}

impl PointElement for f16 {
    const THREADS_PER_BLOCK: u32 = kernel_constant!("view/sample_cells.cuh", "kCellThreads");
    const WEIGHT_BYTES: usize = 0;
    type SamePoints = Points<Self, Self>;
    type SmallerPoints = Points<Self, i8>;
}

impl PointElement for f32 {
    const THREADS_PER_BLOCK: u32 = kernel_constant!("view/sample_points.cuh", "kPointsThreads");
    const WEIGHT_BYTES: usize = size_of::<Self>();
    type SamePoints = Points<Self, Self>;
    type SmallerPoints = Points<Self, f16>;
}

fn shared_bytes<T: PointElement>(num_weights: usize) -> u32 {
    (num_weights * T::WEIGHT_BYTES).next_multiple_of(16) as u32
}

/// The loaded kernels.
pub struct PointSampling<T: PointElement> {
    same: Kernel<T::SamePoints>,
    smaller: Kernel<T::SmallerPoints>,
}

impl<T: PointElement> PointSampling<T> {
    /// Loads the kernels for anchors of at most `max_weights` weights: views times levels times
    /// points times groups.
    ///
    /// # Errors
    /// `Device` when this build has no kernels, or the GPU has too little shared memory.
    pub fn load(device: &CudaDevice, max_weights: usize) -> Result<Self> {
        let bytes = shared_bytes::<T>(max_weights);
        let same: Kernel<T::SamePoints> = device.kernel()?;
        same.reserve_shared(bytes, T::THREADS_PER_BLOCK)?;
        let smaller: Kernel<T::SmallerPoints> = device.kernel()?;
        smaller.reserve_shared(bytes, T::THREADS_PER_BLOCK)?;
        Ok(Self { same, smaller })
    }

    /// Queues the sampling of maps with texels of one type.
    ///
    /// # Errors
    /// `Argument` when no kernel reads such texels; else as [`Kernel::enqueue`].
    pub fn enqueue(&self, stream: &Stream, args: PointsArgs<'_, T>, texel: Texel) -> Result<()> {
        let num_blocks = [args.num_queries, 1];
        let grid = Grid { num_blocks, threads_per_block: T::THREADS_PER_BLOCK };
        if texel == T::TEXELS[0] {
            self.same.enqueue_dependent(stream, grid, args)
        } else if texel == T::TEXELS[1] {
            self.smaller.enqueue_dependent(stream, grid, args)
        } else {
            let message = format!("texels must be {:?}, found {texel:?}", T::TEXELS);
            Err(refused("view_sample_points", &message))
        }
    }
}
