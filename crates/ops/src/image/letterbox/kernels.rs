//! The parameters of `kernels/image/letterbox.cu`.

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
