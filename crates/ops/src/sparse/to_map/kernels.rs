//! The parameters of `kernels/sparse/to_map.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, check_lens, check_threads, kernel_constant, kernel_specs,
    mirrors, refused,
};
use crate::sparse::conv::ZERO_BYTES;
use crate::sparse::rulebook::args::SiteIndexArgs;
use det_post_types::Result;

/// Threads per block: a cell each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("sparse/to_map.cu", "kThreads");
/// Channels of a thread.
pub const CHANNELS_PER_THREAD: u32 = kernel_constant!("sparse/to_map.cu", "kChannels");

/// The parameter of `to_map_*`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MapArgs<'a, To> {
    /// Zeros, then rows.
    pub features: In<'a, u8>,
    /// The level.
    pub sites: SiteIndexArgs<'a>,
    /// Batch, channels and depth, rows, columns.
    pub map: Out<'a, To>,
    /// Channels of a row.
    pub num_channels: u32,
    /// Values of a row of the features.
    pub row_stride: u32,
    /// Number of scenes.
    pub batch_size: u32,
    /// Cells of a scene.
    pub num_cells: u32,
    /// Depth, rows, columns.
    pub size: [u32; 3],
    /// Cells of the grid from one to the next along each.
    pub cell_stride: [u32; 3],
}

mirrors!(MapArgs<'_, To>, "sparse/to_map.cu", "Args", f32, To; where To: Mirror);

/// bf16 features, which Rust code never reads here.
pub struct Bf16;

/// `to_map_*`, by elements of the features and of the map.
pub struct Write<From, To>(PhantomData<(From, To)>);

fn check<To>(kernel: &str, args: &MapArgs<'_, To>, grid: &Grid, element: usize) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [depth, rows, columns] = args.size;
    let num_places = u64::from(rows) * u64::from(columns);
    let parts = args.num_channels.div_ceil(CHANNELS_PER_THREAD);
    let blocks_y = u64::from(args.batch_size) * u64::from(depth) * u64::from(parts);
    let num_cells = num_places * u64::from(depth);
    let last: u64 = (0..3)
        .map(|axis| u64::from(args.size[axis].max(1) - 1) * u64::from(args.cell_stride[axis]))
        .sum();
    let fits = args.num_channels > 0
        && args.num_channels <= args.row_stride
        && u64::from(grid.num_blocks[1]) == blocks_y
        && num_cells == u64::from(args.num_cells)
        && last < num_cells
        && args.sites.has_cells(num_cells * u64::from(args.batch_size))
        && args.row_stride as usize * element <= ZERO_BYTES;
    if !fits {
        let message = format!(
            "{:?} blocks do not fit {} channels of a map of {:?}",
            grid.num_blocks, args.num_channels, args.size
        );
        return Err(refused(kernel, &message));
    }
    let values = num_cells * u64::from(args.num_channels) * u64::from(args.batch_size);
    check_lens(
        kernel,
        [("features", args.features.len(), ZERO_BYTES), ("map", args.map.len(), values as usize)],
    )
}

// SAFETY: `MapArgs` mirrors `to_map::Args` (compared). A thread has a place of the map and a cell
// of the grid, both checked; the row of a cell is below the number of the level's sites, whose rows
// the features hold. Values are written below the length of the map. No thread waits.
kernel_specs! {
    check;
    unsafe Write<f32, f32>: "to_map_f32", MapArgs<f32>, 4;
    unsafe Write<f32, f16>: "to_map_f32_to_f16", MapArgs<f16>, 4;
    unsafe Write<f16, f16>: "to_map_f16", MapArgs<f16>, 2;
    unsafe Write<f16, f32>: "to_map_f16_to_f32", MapArgs<f32>, 2;
    unsafe Write<Bf16, f16>: "to_map_bf16_to_f16", MapArgs<f16>, 2;
    unsafe Write<Bf16, f32>: "to_map_bf16_to_f32", MapArgs<f32>, 2;
}
