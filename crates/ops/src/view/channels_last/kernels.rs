//! The parameters of `kernels/view/channels_last.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, Plain, check_lens, check_threads, kernel_constant,
    kernel_specs, mirrors, refused,
};
use crate::view::sample::BLOCK;
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("view/channels_last.cu", "kThreads");
/// Texels per block.
pub const TEXELS_PER_BLOCK: u32 = kernel_constant!("view/channels_last.cu", "kTile");
const _: () = assert!(
    BLOCK == TEXELS_PER_BLOCK as usize,
    "a step goes through the channels of a block of MapLayout::Blocks32"
);
/// The most levels of a launch.
pub const MAX_LEVELS: usize = kernel_constant!("view/channels_last.cu", "kMaxLevels") as usize;

/// A level: `Level` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LevelArgs<'a, From, To> {
    /// `[views, channels, rows, columns]`, or as strides say.
    pub values: In<'a, From>,
    /// `[views, rows, columns, channels]`.
    pub texels: Out<'a, To>,
    /// Columns and rows of the values.
    pub source_size: [u32; 2],
    /// Columns and rows of the texels.
    pub size: [u32; 2],
    /// 2: only even rows and columns; else 1.
    pub step: u32,
    /// Values from a texel of the source to the next; 0 for planar values.
    pub column_stride: u32,
    /// Values from 32 channels of the source to the next.
    pub block_stride: u32,
    /// The value of 1 of int8 texels.
    pub scale: f32,
    /// Blocks of the levels up to this one, of a view.
    pub end_block: u32,
    /// Padding.
    pub reserved: u32,
}

/// The parameter of the kernels: `Args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ChannelsLastArgs<'a, From, To> {
    /// The levels.
    pub levels: [LevelArgs<'a, From, To>; MAX_LEVELS],
    /// Levels.
    pub num_levels: u32,
    /// Views.
    pub num_views: u32,
    /// Channels.
    pub num_channels: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(
    LevelArgs<'_, From, To>,
    "view/channels_last.cu", "Level", From, To; where From: Mirror, To: Mirror
);
mirrors!(
    ChannelsLastArgs<'_, From, To>,
    "view/channels_last.cu", "Args", From, To; where From: Mirror, To: Mirror
);

impl<From, To> LevelArgs<'_, From, To> {
    /// No level.
    pub fn empty() -> Self {
        Self {
            values: In::empty(),
            texels: Out::empty(),
            source_size: [0; 2],
            size: [0; 2],
            step: 1,
            column_stride: 0,
            block_stride: 0,
            scale: 1.0,
            end_block: 0,
            reserved: 0,
        }
    }
}

/// `channels_last_*`, by elements of the values and of the texels.
pub struct Write<From, To>(PhantomData<(From, To)>);

fn check<From: Plain, To: Plain>(
    kernel: &str,
    args: &ChannelsLastArgs<'_, From, To>,
    grid: &Grid,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let num_levels = args.num_levels as usize;
    let mut end_block = 0_u32;
    for level in args.levels.iter().take(num_levels) {
        let [width, height] = level.size;
        let num_texels = u64::from(width) * u64::from(height);
        end_block += u32::try_from(num_texels.div_ceil(TEXELS_PER_BLOCK.into())).unwrap_or(0);
        // The last texel of either axis is read at `step` times its place.
        let is_read = (0..2).all(|axis| {
            let last = level.size[axis].saturating_sub(1);
            last.checked_mul(level.step).is_some_and(|last| last < level.source_size[axis])
        });
        if !is_read || level.end_block != end_block || num_texels == 0 {
            let message = format!(
                "a level of {:?} from {:?} texels, each of {}, up to block {}",
                level.size, level.source_size, level.step, level.end_block
            );
            return Err(refused(kernel, &message));
        }
        let num = args.num_views as usize * args.num_channels as usize;
        let [values, texels] = [level.source_size, level.size]
            .map(|[width, height]| num * width as usize * height as usize);
        let [column, block] = [level.column_stride, level.block_stride].map(|n| n as usize);
        let [channels, source_width, source_height] =
            [args.num_channels, level.source_size[0], level.source_size[1]].map(|n| n as usize);
        let is_laid_out = column == 0
            || (column == channels && block == BLOCK)
            || (column == BLOCK
                && channels.is_multiple_of(BLOCK)
                && block == source_width * source_height * BLOCK);
        if !is_laid_out {
            let message = format!("{column} values from a texel to the next, {block} of blocks");
            return Err(refused(kernel, &message));
        }
        let lens = [("values", level.values.len(), values), ("texels", level.texels.len(), texels)];
        check_lens(kernel, lens)?;
    }
    if num_levels > MAX_LEVELS || grid.num_blocks != [end_block, args.num_views] {
        let message = format!("{:?} blocks do not fit {num_levels} levels", grid.num_blocks);
        return Err(refused(kernel, &message));
    }
    Ok(())
}

// SAFETY: `ChannelsLastArgs` and `LevelArgs` mirror the structs of the kernels (compared). A block
// finds its level by `end_block`, compared with the grid; texels at and beyond those of the level
// and channels at and beyond their number are neither read nor written, and both slices are long
// enough for the others, in each of the three layouts (checked). No block waits for another.
kernel_specs! {
    check;
    unsafe Write<f32, f32>: "channels_last_f32", ChannelsLastArgs<f32, f32>;
    unsafe Write<f32, f16>: "channels_last_f32_to_f16", ChannelsLastArgs<f32, f16>;
    unsafe Write<f32, i8>: "channels_last_f32_to_i8", ChannelsLastArgs<f32, i8>;
    unsafe Write<f16, f32>: "channels_last_f16_to_f32", ChannelsLastArgs<f16, f32>;
    unsafe Write<f16, f16>: "channels_last_f16", ChannelsLastArgs<f16, f16>;
    unsafe Write<f16, i8>: "channels_last_f16_to_i8", ChannelsLastArgs<f16, i8>;
    unsafe Write<i8, i8>: "channels_last_i8", ChannelsLastArgs<i8, i8>;
}
