//! The parameters of `kernels/image/letterbox.cu` and `kernels/image/letterbox_antialias.cuh`.

use half::f16;

use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, TAIL_BYTES, check_len, check_threads, kernel_constant,
    kernel_specs, mirrors, refused,
};
use crate::image::kernels::{Bayer, Packed3, Plain, Yuv, check_image};
use crate::image::wire_layout::WireLayout;
use det_post_types::{ImageView, Result};

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("image/letterbox.cu", "kThreads");
/// Columns per block.
pub const COLUMNS_PER_BLOCK: u32 = kernel_constant!("image/letterbox.cu", "kColumns")
    * kernel_constant!("image/letterbox.cu", "kThreadsOfRow");
/// Rows per block.
pub const ROWS_PER_BLOCK: u32 =
    THREADS_PER_BLOCK / kernel_constant!("image/letterbox.cu", "kThreadsOfRow");

const _: () = assert!(
    TAIL_BYTES >= kernel_constant!("image/letterbox.cu", "kTailBytes") as usize,
    "the tail of images is shorter than the kernel may read"
);

/// The mapping along an axis: `Axis` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Axis {
    /// Pixels of the source.
    pub source: u32,
    /// Pixels of the content in the network's input.
    pub content: u32,
    /// First pixel of the content, modulo 2^32: the kernel subtracts it from a pixel of
    /// the network's input.
    pub origin: u32,
    /// Pixels of the network's input.
    pub network: u32,
    reciprocal: u64,
    inverse: f32,
    reserved: u32,
}

impl Axis {
    /// An axis; `content` is at least 1.
    pub fn new(source: u32, content: u32, origin: i32, network: u32) -> Self {
        let denominator = 2 * u64::from(content.max(1));
        let reciprocal = (1_u64 << 48).div_ceil(denominator);
        let inverse = 1.0 / denominator as f32;
        Self {
            source,
            content,
            origin: origin.cast_unsigned(),
            network,
            reciprocal,
            inverse,
            reserved: 0,
        }
    }
}

/// The parameter: `LetterboxArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LetterboxArgs<'a, T> {
    /// The bytes of the image.
    pub image: In<'a, u8>,
    /// Three planes.
    pub out: Out<'a, T>,
    /// Bytes from row to row.
    pub step: u64,
    /// Columns.
    pub x: Axis,
    /// Rows.
    pub y: Axis,
    /// The layout of the bytes.
    pub layout: WireLayout,
    /// Not 0: the first and the third channel are swapped.
    pub swapped: u32,
    /// Factor by source channel.
    pub alpha: [f32; 3],
    /// Offset by source channel.
    pub beta: [f32; 3],
    /// Value outside the content, by source channel.
    pub pad: [f32; 3],
    /// Padding.
    pub reserved: u32,
}

mirrors!(Axis, "image/letterbox.cu", "Axis");
mirrors!(LetterboxArgs<'_, T>, "image/letterbox.cu", "LetterboxArgs", T; where T: Mirror);

/// The mapping along an axis with antialiasing: `Side` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Side {
    /// Pixels of the source.
    pub source: u32,
    /// Pixels of the content in the network's input.
    pub content: u32,
    /// First pixel of the content, modulo 2^32.
    pub origin: u32,
    /// Pixels of the network's input.
    pub network: u32,
}

/// The parameter: `Args` in the kernels with antialiasing.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AntialiasArgs<'a, T> {
    /// The bytes of the image.
    pub image: In<'a, u8>,
    /// Three planes.
    pub out: Out<'a, T>,
    /// Bytes from row to row.
    pub step: u64,
    /// Columns.
    pub x: Side,
    /// Rows.
    pub y: Side,
    /// The layout of the bytes.
    pub layout: WireLayout,
    /// Not 0: the first and the third channel are swapped.
    pub swapped: u32,
    /// Factor by source channel.
    pub alpha: [f32; 3],
    /// Offset by source channel.
    pub beta: [f32; 3],
    /// Value outside the content, by source channel.
    pub pad: [f32; 3],
    /// Not 0: samples of 8 bits, rounded after columns and after rows.
    pub rounded: u32,
}

mirrors!(Side, "image/letterbox_antialias.cuh", "Side");
mirrors!(AntialiasArgs<'_, T>, "image/letterbox_antialias.cuh", "Args", T; where T: Mirror);

/// The launch shape of the kernels with antialiasing: threads per block, columns and rows.
pub const ANTIALIAS_BLOCK: [u32; 3] = {
    let threads = kernel_constant!("image/letterbox_antialias.cuh", "kThreads");
    let columns = kernel_constant!("image/letterbox_antialias.cuh", "kThreadsOfRow");
    [threads, columns, threads / columns]
};

fn check_antialias<T>(kernel: &str, args: &AntialiasArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, ANTIALIAS_BLOCK[0])?;
    for side in [&args.x, &args.y] {
        let sides = 1..=ImageView::MAX_SIDE;
        if ![side.source, side.content, side.network].iter().all(|side| sides.contains(side)) {
            return Err(refused(kernel, &format!("{side:?} is not possible")));
        }
    }
    check_image(
        kernel,
        args.layout,
        [args.x.source, args.y.source],
        args.step,
        (args.image.len(), 0),
    )?;
    check_len(kernel, "out", args.out.len(), 3 * args.x.network as usize * args.y.network as usize)
}

/// The op with antialiasing, in the types of its kernels.
pub struct AntialiasOp;

// SAFETY: `AntialiasArgs` mirrors the struct of that name (compared). All threads of a block reach
// the only barrier; those outside the network's input stop after it, the others write one value in
// each plane. A window ends within the source, whose bytes are there (checked);
// sides of up to `MAX_SIDE` keep every term below 2^32. Shared weights are read below their number.
// Loops end with the windows.
kernel_specs! {
    check_antialias;
    unsafe Packed3<AntialiasOp, f32>: "antialias_packed3_f32", AntialiasArgs<f32>;
    unsafe Packed3<AntialiasOp, f16>: "antialias_packed3_f16", AntialiasArgs<f16>;
    unsafe Plain<AntialiasOp, f32>: "antialias_plain_f32", AntialiasArgs<f32>;
    unsafe Plain<AntialiasOp, f16>: "antialias_plain_f16", AntialiasArgs<f16>;
    unsafe Yuv<AntialiasOp, f32>: "antialias_yuv_f32", AntialiasArgs<f32>;
    unsafe Yuv<AntialiasOp, f16>: "antialias_yuv_f16", AntialiasArgs<f16>;
    unsafe Bayer<AntialiasOp, f32>: "antialias_bayer_f32", AntialiasArgs<f32>;
    unsafe Bayer<AntialiasOp, f16>: "antialias_bayer_f16", AntialiasArgs<f16>;
}

fn check<T>(kernel: &str, args: &LetterboxArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    for axis in [&args.x, &args.y] {
        let sides = 1..=ImageView::MAX_SIDE;
        let origin = axis.origin.cast_signed();
        let right = Axis::new(axis.source, axis.content, origin, axis.network);
        let possible =
            [axis.source, axis.content, axis.network].iter().all(|side| sides.contains(side));
        if !possible || axis.reciprocal != right.reciprocal {
            return Err(refused(kernel, &format!("{axis:?} is not possible")));
        }
    }
    let image = (args.image.len(), TAIL_BYTES);
    check_image(kernel, args.layout, [args.x.source, args.y.source], args.step, image)?;
    check_len(kernel, "out", args.out.len(), 3 * args.x.network as usize * args.y.network as usize)
}

/// The op, in the types of its kernels.
pub struct LetterboxOp;

// SAFETY: `LetterboxArgs` mirrors the struct of that name (compared). A thread outside the
// network's input stops; the others write values of one row in each plane, up to the row's end (by
// 8 or 4 bytes only where the width is a multiple of that; buffers are aligned), and read pixels
// whose column and row `tap` keeps below those of the source, given the reciprocal, which is
// checked. The image is long enough for all of them, and its tail for the loads by words. No thread
// waits.
kernel_specs! {
    check;
    unsafe Packed3<LetterboxOp, f32>: "letterbox_packed3_f32", LetterboxArgs<f32>;
    unsafe Packed3<LetterboxOp, f16>: "letterbox_packed3_f16", LetterboxArgs<f16>;
    unsafe Plain<LetterboxOp, f32>: "letterbox_plain_f32", LetterboxArgs<f32>;
    unsafe Plain<LetterboxOp, f16>: "letterbox_plain_f16", LetterboxArgs<f16>;
    unsafe Yuv<LetterboxOp, f32>: "letterbox_yuv_f32", LetterboxArgs<f32>;
    unsafe Yuv<LetterboxOp, f16>: "letterbox_yuv_f16", LetterboxArgs<f16>;
    unsafe Bayer<LetterboxOp, f32>: "letterbox_bayer_f32", LetterboxArgs<f32>;
    unsafe Bayer<LetterboxOp, f16>: "letterbox_bayer_f16", LetterboxArgs<f16>;
}
