//! The parameters of `kernels/view/bev_pool.cu`.

use std::marker::PhantomData;

use half::f16;

use super::{MAX_CAMERAS, PART_POINTS};
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, check_lens, check_threads, kernel_constant, kernel_specs,
    mirrors, refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("view/bev_pool.cu", "kThreads");
/// Columns of a tile.
pub const TILE_COLUMNS: u32 = kernel_constant!("view/bev_pool.cu", "kTileColumns");
/// Rows of a tile.
pub const TILE_ROWS: u32 = kernel_constant!("view/bev_pool.cu", "kTileRows");
/// The most channels of a block.
pub const MAX_SLAB: u32 = kernel_constant!("view/bev_pool.cu", "kSlab");
/// Channels of a load: a slab is a multiple of it.
pub const WIDE: u32 = kernel_constant!("view/bev_pool.cu", "kWide");
/// Parts of a block, a warp each.
const PARTS_PER_BLOCK: u32 = THREADS_PER_BLOCK / 32;

const _: () = {
    let part = kernel_constant!("view/bev_pool.cu", "kPart");
    assert!(part as usize == PART_POINTS, "parts differ from the contract's");
};

/// The parameter of the kernels: `Args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolArgs<'a, From, To> {
    /// `[cameras, depths, pixels]`.
    pub depth: In<'a, From>,
    /// `[cameras, pixels, channels]`.
    pub features: In<'a, From>,
    /// One word: a bit per camera.
    pub present: In<'a, u32>,
    /// Packed points, by cell.
    pub points: In<'a, u32>,
    /// By cell its first point, and one more.
    pub starts: In<'a, u32>,
    /// Tiles, heaviest first.
    pub tiles: In<'a, u32>,
    /// By part the number of its long cell.
    pub parts: In<'a, u32>,
    /// Cells of more than one part.
    pub long_cells: In<'a, u32>,
    /// By long cell its first part, and one more.
    pub long_starts: In<'a, u32>,
    /// Sums of parts, `[parts, channels]`.
    pub sums: Out<'a, f32>,
    /// Parts of a long cell that are done, `[slabs, long cells]`; zero between launches.
    pub tickets: Out<'a, u32>,
    /// `[levels, channels, rows, columns]`.
    pub map: Out<'a, To>,
    /// Cameras.
    pub num_cameras: u32,
    /// Depths.
    pub num_depths: u32,
    /// Pixels of a feature map.
    pub num_pixels: u32,
    /// Channels of the features.
    pub num_channels: u32,
    /// Channels of a block.
    pub slab: u32,
    /// Bits of the depth in a point.
    pub depth_bits: u32,
    /// Bits of the pixel in a point.
    pub pixel_bits: u32,
    /// Rows of all levels.
    pub num_rows: u32,
    /// Rows of a level.
    pub level_rows: u32,
    /// Columns of a row.
    pub num_columns: u32,
}

mirrors!(
    PoolArgs<'_, From, To>,
    "view/bev_pool.cu", "Args", From, To; where From: Mirror, To: Mirror
);

impl<From, To> PoolArgs<'_, From, To> {
    /// The launch shape.
    pub fn grid(&self) -> Grid {
        let num_part_blocks = self.parts.len().div_ceil(PARTS_PER_BLOCK as usize);
        let num_blocks = num_part_blocks + self.tiles.len();
        Grid {
            num_blocks: [
                u32::try_from(num_blocks).unwrap_or(u32::MAX),
                self.num_channels.div_ceil(self.slab.max(1)),
            ],
            threads_per_block: THREADS_PER_BLOCK,
        }
    }
}

/// `bev_pool_*`, by elements of the inputs and of the map.
pub struct Pool<From, To>(PhantomData<(From, To)>);

fn check<From, To>(kernel: &str, args: &PoolArgs<'_, From, To>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [cameras, depths, pixels, channels, rows, columns] = [
        args.num_cameras,
        args.num_depths,
        args.num_pixels,
        args.num_channels,
        args.num_rows,
        args.num_columns,
    ]
    .map(|num| num as usize);
    let has_sizes = ![cameras, depths, pixels, channels, rows, columns].contains(&0)
        && cameras <= MAX_CAMERAS
        && args.level_rows != 0
        && args.num_rows.is_multiple_of(args.level_rows)
        && rows.saturating_mul(columns) < u32::MAX as usize
        && cameras.saturating_mul(pixels) < u32::MAX as usize;
    let has_slab = (WIDE..=MAX_SLAB).contains(&args.slab) && args.slab.is_multiple_of(WIDE);
    let has_bits = args.depth_bits < u32::BITS && args.pixel_bits < u32::BITS;
    let is_aligned = !args.num_channels.is_multiple_of(WIDE)
        || args.features.is_aligned_to(u64::from(WIDE) * size_of::<From>() as u64);
    if !has_sizes || !has_slab || !has_bits || !is_aligned || *grid != args.grid() {
        let message = format!(
            "{:?} blocks do not fit {cameras} cameras, {depths} depths, {pixels} pixels, {channels} \
             channels in slabs of {} and {rows} by {columns} cells",
            grid.num_blocks, args.slab
        );
        return Err(refused(kernel, &message));
    }
    let [num_slabs, num_long] = [grid.num_blocks[1] as usize, args.long_cells.len()];
    let of = |a: usize, b: usize| a.saturating_mul(b);
    let lens = [
        ("depth", args.depth.len(), of(of(cameras, depths), pixels)),
        ("features", args.features.len(), of(of(cameras, pixels), channels)),
        ("present", args.present.len(), 1),
        ("starts", args.starts.len(), rows * columns + 1),
        ("long_starts", args.long_starts.len(), num_long + 1),
        ("sums", args.sums.len(), of(args.parts.len(), channels)),
        ("tickets", args.tickets.len(), of(num_slabs, num_long)),
        ("map", args.map.len(), of(of(rows, columns), channels)),
    ];
    check_lens(kernel, lens)
}

// SAFETY: `PoolArgs` mirrors the struct of the kernels (compared). Blocks below the number of parts
// over 8 have a part each warp, the others a tile of `tiles`: the grid is compared with both. What is
// read from the table is compared with the sizes before it is used: the camera, depth and pixel of a
// point, the ends of a cell with `points`, the long cell of a part and its parts with `parts`, the rows
// and columns of a tile and the number of a long cell with the map. `starts` has an end for each
// cell. Channels at and beyond their number are neither read nor written. With a multiple of four
// channels, features are read by fours, aligned (checked). Slices are long enough for these (checked). No
// thread waits for another block: the warp that takes the last ticket of a cell adds its parts.
kernel_specs! {
    check;
    unsafe Pool<f32, f32>: "bev_pool_f32", PoolArgs<f32, f32>;
    unsafe Pool<f16, f16>: "bev_pool_f16", PoolArgs<f16, f16>;
    unsafe Pool<f32, f16>: "bev_pool_f32_to_f16", PoolArgs<f32, f16>;
    unsafe Pool<f16, f32>: "bev_pool_f16_to_f32", PoolArgs<f16, f32>;
}
