//! The parameters of `kernels/cloud/scatter.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, check_len, check_lens, check_threads, kernel_constant,
    kernel_specs, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block: a pillar or a cell each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("cloud/scatter.cu", "kThreads");
/// Cells of a block of `scatter_rows_*`.
pub const CELLS_PER_BLOCK: u32 = kernel_constant!("cloud/scatter.cu", "kCellsPerBlock");
/// Channels of a thread of `scatter_rows_*`.
pub const CHANNELS_PER_THREAD: u32 = kernel_constant!("cloud/scatter.cu", "kChannelsPerThread");

/// The parameter of `scatter_place`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PlaceArgs<'a> {
    /// The cell of a pillar.
    pub cells: In<'a, u32>,
    /// The number of pillars.
    pub num_voxels: In<'a, u32>,
    /// By cell, the index of its pillar plus 1; zero between launches.
    pub pillars: Out<'a, u32>,
}

/// The parameter of `scatter_write_*` and `scatter_rows_*`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WriteArgs<'a, From, To> {
    /// Rows of the pillars.
    pub features: In<'a, From>,
    /// As in [`PlaceArgs`].
    pub pillars: Out<'a, u32>,
    /// A plane per channel, or a row of channels per cell.
    pub map: Out<'a, To>,
    /// Rows of the features.
    pub num_rows: u32,
    /// Cells of the map.
    pub num_cells: u32,
    /// Channels of a cell.
    pub num_channels: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(PlaceArgs<'_>, "cloud/scatter.cu", "PlaceArgs");
mirrors!(
    WriteArgs<'_, From, To>,
    "cloud/scatter.cu", "WriteArgs", From, To; where From: Mirror, To: Mirror
);

/// `scatter_place`.
pub struct Place;

// SAFETY: `PlaceArgs` mirrors the struct of that name (3 slices). Pillars are
// read below the length of `cells`, cells written below the length of `pillars`;
// the check covers the number. No thread waits.
unsafe impl KernelSpec for Place {
    const NAME: &'static str = "scatter_place";
    type Args<'a> = PlaceArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        check_len(Self::NAME, "num_voxels", args.num_voxels.len(), 1)
    }
}

fn check<From, To>(kernel: &str, args: &WriteArgs<'_, From, To>, grid: &Grid) -> Result<()> {
    check_slices(kernel, args, grid, THREADS_PER_BLOCK)
}

fn check_rows<From, To>(kernel: &str, args: &WriteArgs<'_, From, To>, grid: &Grid) -> Result<()> {
    if !args.num_channels.is_multiple_of(CHANNELS_PER_THREAD) {
        let message =
            format!("{} channels are no multiple of {CHANNELS_PER_THREAD}", args.num_channels);
        return Err(refused(kernel, &message));
    }
    check_slices(kernel, args, grid, CELLS_PER_BLOCK)
}

fn check_slices<From, To>(
    kernel: &str,
    args: &WriteArgs<'_, From, To>,
    grid: &Grid,
    cells_per_block: u32,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [rows, cells, channels] =
        [args.num_rows, args.num_cells, args.num_channels].map(|n| n as usize);
    if channels == 0
        || rows == 0
        || grid.num_blocks != [args.num_cells.div_ceil(cells_per_block), 1]
    {
        let blocks = grid.num_blocks;
        let message = format!(
            "{blocks:?} blocks do not fit {rows} rows, {channels} channels of {cells} cells"
        );
        return Err(refused(kernel, &message));
    }
    let slices = [
        ("features", args.features.len(), rows.saturating_mul(channels)),
        ("pillars", args.pillars.len(), cells),
        ("map", args.map.len(), cells.saturating_mul(channels)),
    ];
    check_lens(kernel, slices)
}

/// `scatter_write_*`.
pub struct Write<From, To>(PhantomData<(From, To)>);

// SAFETY: `WriteArgs` mirrors the struct of that name (compared). A thread whose cell is not below
// the number of cells stops; the others write one value per plane, of a row whose number is
// compared with `num_rows`. The check covers the slices; rows are read by 16 bytes only where they
// are a multiple of that, and allocations are aligned. No thread waits.
kernel_specs! {
    check;
    unsafe Write<f32, f32>: "scatter_write_f32", WriteArgs<f32, f32>;
    unsafe Write<f16, f16>: "scatter_write_f16", WriteArgs<f16, f16>;
    unsafe Write<f32, f16>: "scatter_write_f32_to_f16", WriteArgs<f32, f16>;
    unsafe Write<f16, f32>: "scatter_write_f16_to_f32", WriteArgs<f16, f32>;
}

/// `scatter_rows_*`.
pub struct WriteRows<From, To>(PhantomData<(From, To)>);

// SAFETY: `WriteArgs` mirrors the struct of that name (compared). The first threads of a block read the pillars of its
// cells, whose number is limited to what is left of the map; all threads wait for them. Each then writes 8 channels of a
// cell, from a row whose number is compared with `num_rows`. The check covers the slices and that channels come in
// eights, so that reads and writes of 16 bytes are aligned, as allocations are.
kernel_specs! {
    check_rows;
    unsafe WriteRows<f32, f32>: "scatter_rows_f32", WriteArgs<f32, f32>;
    unsafe WriteRows<f16, f16>: "scatter_rows_f16", WriteArgs<f16, f16>;
    unsafe WriteRows<f32, f16>: "scatter_rows_f32_to_f16", WriteArgs<f32, f16>;
    unsafe WriteRows<f16, f32>: "scatter_rows_f16_to_f32", WriteArgs<f16, f32>;
}
