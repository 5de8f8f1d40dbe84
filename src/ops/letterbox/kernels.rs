//! The parameters of `kernels/letterbox.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, TAIL_BYTES, assert_mirrors, check_len, check_threads,
    kernel_constant, kernel_specs, refused,
};
use crate::error::Result;
use crate::types::{Encoding, ImageView};

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("letterbox.cu", "kThreads");
/// Columns per block.
pub const COLUMNS_PER_BLOCK: u32 = kernel_constant!("letterbox.cu", "kColumns")
    * kernel_constant!("letterbox.cu", "kThreadsOfRow");
/// Rows per block.
pub const ROWS_PER_BLOCK: u32 =
    THREADS_PER_BLOCK / kernel_constant!("letterbox.cu", "kThreadsOfRow");

const _: () = assert!(
    TAIL_BYTES >= kernel_constant!("letterbox.cu", "kTailBytes") as usize,
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

/// The memory layout of an image: `Layout` in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WireLayout {
    /// 3 bytes per pixel.
    Packed3 = kernel_constant!("letterbox.cu", "kPacked3"),
    /// 4 bytes per pixel, the last ignored.
    Packed4 = kernel_constant!("letterbox.cu", "kPacked4"),
    /// 1 byte per pixel.
    Mono8 = kernel_constant!("letterbox.cu", "kMono8"),
    /// 2 bytes per pixel, little-endian.
    Mono16Little = kernel_constant!("letterbox.cu", "kMono16Little"),
    /// 2 bytes per pixel, big-endian.
    Mono16Big = kernel_constant!("letterbox.cu", "kMono16Big"),
    /// U Y V Y.
    Uyvy = kernel_constant!("letterbox.cu", "kUyvy"),
    /// Y U Y V.
    Yuy2 = kernel_constant!("letterbox.cu", "kYuy2"),
    /// Y plane, then rows of U V.
    Nv12 = kernel_constant!("letterbox.cu", "kNv12"),
    /// Y plane, then rows of V U.
    Nv21 = kernel_constant!("letterbox.cu", "kNv21"),
    /// R G, G B.
    BayerRedFirst = kernel_constant!("letterbox.cu", "kBayerRedFirst"),
    /// B G, G R.
    BayerBlueFirst = kernel_constant!("letterbox.cu", "kBayerBlueFirst"),
    /// G B, R G.
    BayerGreenThenBlue = kernel_constant!("letterbox.cu", "kBayerGreenThenBlue"),
    /// G R, B G.
    BayerGreenThenRed = kernel_constant!("letterbox.cu", "kBayerGreenThenRed"),
}

impl WireLayout {
    /// The layout of an encoding; the planes decide the colour order.
    pub fn of(encoding: Encoding, big_endian: bool) -> Self {
        match encoding {
            Encoding::Rgb8 | Encoding::Bgr8 => Self::Packed3,
            Encoding::Rgba8 | Encoding::Bgra8 => Self::Packed4,
            Encoding::Mono8 => Self::Mono8,
            Encoding::Mono16 if big_endian => Self::Mono16Big,
            Encoding::Mono16 => Self::Mono16Little,
            Encoding::Uyvy => Self::Uyvy,
            Encoding::Yuy2 => Self::Yuy2,
            Encoding::Nv12 => Self::Nv12,
            Encoding::Nv21 => Self::Nv21,
            Encoding::BayerRggb8 => Self::BayerRedFirst,
            Encoding::BayerBggr8 => Self::BayerBlueFirst,
            Encoding::BayerGbrg8 => Self::BayerGreenThenBlue,
            Encoding::BayerGrbg8 => Self::BayerGreenThenRed,
        }
    }

    /// The prefix of the names of the kernels for the layout.
    pub fn kernels(self) -> &'static str {
        match self {
            Self::Packed3 => "letterbox_packed3",
            Self::Packed4 | Self::Mono8 | Self::Mono16Little | Self::Mono16Big => "letterbox_plain",
            Self::Uyvy | Self::Yuy2 | Self::Nv12 | Self::Nv21 => "letterbox_yuv",
            Self::BayerRedFirst
            | Self::BayerBlueFirst
            | Self::BayerGreenThenBlue
            | Self::BayerGreenThenRed => "letterbox_bayer",
        }
    }

    /// Bytes that the kernel may read of an image of this size and step.
    fn num_bytes(self, width: usize, height: usize, step: usize) -> Option<usize> {
        let (row_bytes, num_rows) = match self {
            Self::Packed3 => (3 * width, height),
            Self::Packed4 => (4 * width, height),
            Self::Mono8 => (width, height),
            Self::Mono16Little | Self::Mono16Big => (2 * width, height),
            Self::Uyvy | Self::Yuy2 => (4 * width.div_ceil(2), height),
            Self::Nv12 | Self::Nv21 => (2 * width.div_ceil(2), height + height.div_ceil(2)),
            _ if width < 2 || height < 2 => return None,
            _ => (width, height),
        };
        step.checked_mul(num_rows - 1)?.checked_add(row_bytes)
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

assert_mirrors!(Axis, "letterbox.cu", "Axis");
assert_mirrors!(LetterboxArgs<'_, f32>, "letterbox.cu", "LetterboxArgs<float>");

fn check<T>(kernel: &str, args: &LetterboxArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    if !kernel.starts_with(args.layout.kernels()) {
        return Err(refused(kernel, &format!("{:?} belongs to another kernel", args.layout)));
    }
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
    let (width, height) = (args.x.source as usize, args.y.source as usize);
    let needed = args.layout.num_bytes(width, height, args.step as usize);
    let needed = needed.ok_or_else(|| {
        refused(kernel, &format!("{width}x{height} of {:?} is not possible", args.layout))
    })?;
    check_len(kernel, "image", args.image.len(), needed.saturating_add(TAIL_BYTES))?;
    check_len(kernel, "out", args.out.len(), 3 * args.x.network as usize * args.y.network as usize)
}

/// `letterbox_packed3_*`: [`WireLayout::Packed3`].
pub struct Packed3<T>(PhantomData<T>);
/// `letterbox_plain_*`: the other layouts with all colours in each pixel.
pub struct Plain<T>(PhantomData<T>);
/// `letterbox_yuv_*`: layouts with separate luma and chroma.
pub struct Yuv<T>(PhantomData<T>);
/// `letterbox_bayer_*`: layouts with one colour per pixel.
pub struct Bayer<T>(PhantomData<T>);

// SAFETY: `LetterboxArgs` mirrors the struct of that name (size asserted, `#[repr(C)]`
// in the same order). A thread outside the network's input stops; the others write
// values of one row in each plane, up to the row's end (by 8 or 4 bytes only where the
// width is a multiple of that; buffers are aligned), and read pixels whose column and
// row `tap` keeps below those of the source, given the reciprocal, which is checked.
// The image is long enough for all of them, and its tail for the loads by words. No
// thread waits.
kernel_specs! {
    check;
    unsafe Packed3<f32>: "letterbox_packed3_f32", LetterboxArgs<f32>;
    unsafe Packed3<f16>: "letterbox_packed3_f16", LetterboxArgs<f16>;
    unsafe Plain<f32>: "letterbox_plain_f32", LetterboxArgs<f32>;
    unsafe Plain<f16>: "letterbox_plain_f16", LetterboxArgs<f16>;
    unsafe Yuv<f32>: "letterbox_yuv_f32", LetterboxArgs<f32>;
    unsafe Yuv<f16>: "letterbox_yuv_f16", LetterboxArgs<f16>;
    unsafe Bayer<f32>: "letterbox_bayer_f32", LetterboxArgs<f32>;
    unsafe Bayer<f16>: "letterbox_bayer_f16", LetterboxArgs<f16>;
}
