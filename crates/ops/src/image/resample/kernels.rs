//! The parameters of `kernels/image/resample.cu`.

use half::f16;

use super::map::SampleMap;
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, check_len, check_threads, kernel_constant, kernel_specs,
    mirrors, refused,
};
use crate::image::kernels::{Bayer, Packed3, Plain, Yuv, check_image};
use crate::image::wire_layout::WireLayout;
use det_post_types::{ImageView, Result};

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("image/resample.cu", "kThreads");
/// Columns per block.
pub const COLUMNS_PER_BLOCK: u32 = kernel_constant!("image/resample.cu", "kThreadsOfRow");
/// Rows per block.
pub const ROWS_PER_BLOCK: u32 = THREADS_PER_BLOCK / COLUMNS_PER_BLOCK;

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ResampleArgs<'a, T> {
    /// The bytes of the image.
    pub image: In<'a, u8>,
    /// Positions: of all columns, then of all rows; or x and y of each pixel.
    pub positions: In<'a, u32>,
    /// Three planes of every image.
    pub out: Out<'a, T>,
    /// Bytes from row to row.
    pub step: u64,
    /// Index of the image's first value.
    pub first: u64,
    /// Columns of the image.
    pub width: u32,
    /// Its rows.
    pub height: u32,
    /// Columns of the image.
    pub network_width: u32,
    /// Its rows.
    pub network_height: u32,
    /// Half the width of the filter along x, in units of 2^-16 pixels.
    pub reach_x: u32,
    /// The same along y.
    pub reach_y: u32,
    /// Not 0: each pixel has a position.
    pub per_pixel: u32,
    /// The layout of the bytes.
    pub layout: WireLayout,
    /// Not 0: the first and the third channel are swapped.
    pub swapped: u32,
    /// Factor by source channel.
    pub alpha: [f32; 3],
    /// Offset by source channel.
    pub beta: [f32; 3],
    /// Value where nothing is shown, by source channel.
    pub pad: [f32; 3],
}

mirrors!(ResampleArgs<'_, T>, "image/resample.cu", "Args", T; where T: Mirror);

fn check<T>(kernel: &str, args: &ResampleArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let source = [args.width, args.height];
    let network = [args.network_width, args.network_height];
    let reach = [args.reach_x, args.reach_y];
    let sides = [source, network];
    if !sides.as_flattened().iter().all(|side| (1..=ImageView::MAX_SIDE).contains(side)) {
        return Err(refused(kernel, &format!("sides {sides:?} are not possible")));
    }
    if !reach.iter().all(|reach| (1..=SampleMap::MAX_SCALE << 16).contains(reach)) {
        return Err(refused(kernel, &format!("reach {reach:?} is not possible")));
    }
    check_image(kernel, args.layout, source, args.step, (args.image.len(), 0))?;
    let [columns, rows] = network.map(|side| side as usize);
    let num_positions = if args.per_pixel == 0 { columns + rows } else { 2 * columns * rows };
    check_len(kernel, "positions", args.positions.len(), num_positions)?;
    let end = (args.first as usize).saturating_add(3 * columns * rows);
    check_len(kernel, "out", args.out.len(), end)
}

/// The op, in the types of its kernels.
pub struct ResampleOp;

// SAFETY: `ResampleArgs` mirrors the struct of that name (compared). A thread outside the image
// stops; the others read the positions of their column and row or of their pixel and write one
// value of each plane, all of which exist (checked). `find_taps` clips the pixels that are read to
// the image, whose bytes are there (checked), whatever the position is; sides and reach are small
// enough that no term overflows. Loops run over at most twice the reach. No thread waits.
kernel_specs! {
    check;
    unsafe Packed3<ResampleOp, f32>: "resample_packed3_f32", ResampleArgs<f32>;
    unsafe Packed3<ResampleOp, f16>: "resample_packed3_f16", ResampleArgs<f16>;
    unsafe Plain<ResampleOp, f32>: "resample_plain_f32", ResampleArgs<f32>;
    unsafe Plain<ResampleOp, f16>: "resample_plain_f16", ResampleArgs<f16>;
    unsafe Yuv<ResampleOp, f32>: "resample_yuv_f32", ResampleArgs<f32>;
    unsafe Yuv<ResampleOp, f16>: "resample_yuv_f16", ResampleArgs<f16>;
    unsafe Bayer<ResampleOp, f32>: "resample_bayer_f32", ResampleArgs<f32>;
    unsafe Bayer<ResampleOp, f16>: "resample_bayer_f16", ResampleArgs<f16>;
}
