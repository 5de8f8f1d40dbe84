//! Layouts of images as kernels know them: `kernels/image/wire.cuh`.

use crate::device::cuda::{Kind, Mirror, kernel_constant};
use det_post_types::Encoding;

/// The memory layout of an image: `Layout` in the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WireLayout {
    /// 3 bytes per pixel.
    Packed3 = kernel_constant!("image/wire.cuh", "kPacked3"),
    /// 4 bytes per pixel, the last ignored.
    Packed4 = kernel_constant!("image/wire.cuh", "kPacked4"),
    /// 1 byte per pixel.
    Mono8 = kernel_constant!("image/wire.cuh", "kMono8"),
    /// 2 bytes per pixel, little-endian.
    Mono16Little = kernel_constant!("image/wire.cuh", "kMono16Little"),
    /// 2 bytes per pixel, big-endian.
    Mono16Big = kernel_constant!("image/wire.cuh", "kMono16Big"),
    /// U Y V Y.
    Uyvy = kernel_constant!("image/wire.cuh", "kUyvy"),
    /// Y U Y V.
    Yuy2 = kernel_constant!("image/wire.cuh", "kYuy2"),
    /// Y plane, then rows of U V.
    Nv12 = kernel_constant!("image/wire.cuh", "kNv12"),
    /// Y plane, then rows of V U.
    Nv21 = kernel_constant!("image/wire.cuh", "kNv21"),
    /// R G, G B.
    BayerRedFirst = kernel_constant!("image/wire.cuh", "kBayerRedFirst"),
    /// B G, G R.
    BayerBlueFirst = kernel_constant!("image/wire.cuh", "kBayerBlueFirst"),
    /// G B, R G.
    BayerGreenThenBlue = kernel_constant!("image/wire.cuh", "kBayerGreenThenBlue"),
    /// G R, B G.
    BayerGreenThenRed = kernel_constant!("image/wire.cuh", "kBayerGreenThenRed"),
}

/// Layouts of similar cost, which share a kernel, so that none needs the registers of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutGroup {
    /// [`WireLayout::Packed3`].
    Packed3,
    /// The other layouts with all colours in each pixel.
    Plain,
    /// Layouts with separate luma and chroma.
    Yuv,
    /// Layouts with one colour per pixel.
    Bayer,
}

impl LayoutGroup {
    /// Its part of the names of kernels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Packed3 => "packed3",
            Self::Plain => "plain",
            Self::Yuv => "yuv",
            Self::Bayer => "bayer",
        }
    }
}

// Its numbers are the kernels'.
impl Mirror for WireLayout {
    const KIND: Kind = u32::KIND;
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

    /// The group of the layout.
    pub fn group(self) -> LayoutGroup {
        match self {
            Self::Packed3 => LayoutGroup::Packed3,
            Self::Packed4 | Self::Mono8 | Self::Mono16Little | Self::Mono16Big => {
                LayoutGroup::Plain
            }
            Self::Uyvy | Self::Yuy2 | Self::Nv12 | Self::Nv21 => LayoutGroup::Yuv,
            Self::BayerRedFirst
            | Self::BayerBlueFirst
            | Self::BayerGreenThenBlue
            | Self::BayerGreenThenRed => LayoutGroup::Bayer,
        }
    }

    /// Bytes that the pixels of an image of this size and step take; `None` when a kernel
    /// cannot read such an image.
    pub fn num_bytes(self, width: usize, height: usize, step: usize) -> Option<usize> {
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
