//! Images in the memory of a message.

use std::marker::PhantomData;
use std::path::PathBuf;

use super::DeviceBytes;
use crate::error::{Error, ErrorKind, Result};

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Pixels along x.
    pub width: u32,
    /// Pixels along y.
    pub height: u32,
}

impl Size {
    /// A size from width and height.
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }
}

/// Where an image of video is in the frame that is decoded, which has whole macroblocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCrop {
    /// Of the frame, in pixels.
    pub coded: Size,
    /// Columns to the left of the image, and rows above it.
    pub offset: [u32; 2],
    /// Of the image; zero where nothing is left.
    pub size: Size,
}

/// The supported encodings, named as in `sensor_msgs/image_encodings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `rgb8`: 3 bytes per pixel.
    Rgb8,
    /// `bgr8` (also `8UC3`): 3 bytes per pixel.
    Bgr8,
    /// `rgba8`: 4 bytes per pixel, alpha is ignored.
    Rgba8,
    /// `bgra8` (also `8UC4`): 4 bytes per pixel, alpha is ignored.
    Bgra8,
    /// `mono8`: 1 byte per pixel.
    Mono8,
    /// `mono16`: 2 bytes per pixel, the value divided by 257 gives 0 to 255.
    Mono16,
    /// `yuv422` (also `uyvy`): U Y V Y, 4 bytes for two pixels.
    Uyvy,
    /// `yuv422_yuy2` (also `yuyv`): Y U Y V, 4 bytes for two pixels.
    Yuy2,
    /// `nv12`: a full-size Y plane, then rows of U V at half size.
    Nv12,
    /// `nv21`: a full-size Y plane, then rows of V U at half size.
    Nv21,
    /// `bayer_rggb8`: 1 byte per pixel, R G in even rows, G B in odd rows.
    BayerRggb8,
    /// `bayer_bggr8`: 1 byte per pixel, B G in even rows, G R in odd rows.
    BayerBggr8,
    /// `bayer_gbrg8`: 1 byte per pixel, G B in even rows, R G in odd rows.
    BayerGbrg8,
    /// `bayer_grbg8`: 1 byte per pixel, G R in even rows, B G in odd rows.
    BayerGrbg8,
}

impl Encoding {
    const NAMES: [(&'static str, Self); 19] = [
        ("rgb8", Self::Rgb8),
        ("bgr8", Self::Bgr8),
        ("rgba8", Self::Rgba8),
        ("bgra8", Self::Bgra8),
        ("mono8", Self::Mono8),
        ("8UC1", Self::Mono8),
        ("8UC3", Self::Bgr8),
        ("8UC4", Self::Bgra8),
        ("mono16", Self::Mono16),
        ("yuv422", Self::Uyvy),
        ("uyvy", Self::Uyvy),
        ("yuv422_yuy2", Self::Yuy2),
        ("yuyv", Self::Yuy2),
        ("nv12", Self::Nv12),
        ("nv21", Self::Nv21),
        ("bayer_rggb8", Self::BayerRggb8),
        ("bayer_bggr8", Self::BayerBggr8),
        ("bayer_gbrg8", Self::BayerGbrg8),
        ("bayer_grbg8", Self::BayerGrbg8),
    ];

    /// The ROS name.
    pub fn to_ros(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, encoding)| *encoding == self);
        named.map_or("", |(name, _)| name)
    }

    /// The encoding of a ROS name. OpenCV's own names state no order of colours: it is OpenCV's, in
    /// which `cv_bridge` writes them.
    ///
    /// # Errors
    /// `Encoding`, naming the encoding and those that are supported.
    pub fn from_ros(name: &str) -> Result<Self> {
        match Self::NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, encoding)) => Ok(*encoding),
            None => {
                let known: Vec<_> = Self::NAMES.iter().map(|(known, _)| *known).collect();
                Err(Error::new(
                    ErrorKind::Encoding,
                    "image",
                    format!("encoding {name:?} is not supported; read are {}", known.join(" ")),
                ))
            }
        }
    }

    /// Bytes that the pixels of one row take (for nv12 and nv21: of the Y
    /// plane, and as many of a UV row).
    pub fn row_bytes(self, width: u32) -> usize {
        let width = width as usize;
        match self {
            Self::Rgb8 | Self::Bgr8 => 3 * width,
            Self::Rgba8 | Self::Bgra8 => 4 * width,
            Self::Mono16 | Self::Uyvy | Self::Yuy2 => 2 * width,
            Self::Mono8
            | Self::Nv12
            | Self::Nv21
            | Self::BayerRggb8
            | Self::BayerBggr8
            | Self::BayerGbrg8
            | Self::BayerGrbg8 => width,
        }
    }

    /// Rows of `step` bytes that an image of this height has in memory.
    pub fn num_rows(self, height: u32) -> usize {
        match self {
            Self::Nv12 | Self::Nv21 => height as usize + height as usize / 2,
            _ => height as usize,
        }
    }

    /// Width and height must be multiples of these.
    fn multiple(self) -> (u32, u32) {
        match self {
            Self::Uyvy | Self::Yuy2 => (2, 1),
            Self::Nv12 | Self::Nv21 => (2, 2),
            _ => (1, 1),
        }
    }

    /// Whether the pixels are a Bayer mosaic.
    pub fn is_bayer(self) -> bool {
        matches!(self, Self::BayerRggb8 | Self::BayerBggr8 | Self::BayerGbrg8 | Self::BayerGrbg8)
    }
}

/// An image in the memory of its message, checked on construction.
///
/// `data` contains every row of `step` bytes that the encoding needs; only the
/// padding after the last row may be missing. `B` is [`DeviceBytes`] for an image in the memory
/// of a GPU.
#[derive(Clone, Copy, Debug)]
pub struct ImageView<'a, B = &'a [u8]> {
    size: Size,
    step: usize,
    encoding: Encoding,
    big_endian: bool,
    data: B,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> ImageView<'a> {
    /// The largest width and height that is accepted.
    pub const MAX_SIDE: u32 = 32_768;

    /// A checked view. `big_endian` only matters for `mono16`.
    ///
    /// # Errors
    /// `Layout` when the size is zero, over [`ImageView::MAX_SIDE`] or odd
    /// where the encoding shares colours between pixels, when a step is
    /// shorter than a row, or when the data ends before the last row does.
    pub fn new(
        size: Size,
        step: usize,
        encoding: Encoding,
        big_endian: bool,
        data: &'a [u8],
    ) -> Result<Self> {
        Self::checked((size, step), (encoding, big_endian), data, data.len())
    }

    /// The bytes of row `y` without padding; for nv12 and nv21 rows `height..`
    /// are the UV rows.
    ///
    /// # Panics
    /// When `y` is not a row of this image.
    #[inline]
    pub fn row(&self, y: usize) -> &'a [u8] {
        let start = y * self.step;
        &self.data[start..start + self.encoding.row_bytes(self.size.width)]
    }
}

impl<'a> ImageView<'a, DeviceBytes<'a>> {
    /// A checked view of an image in the memory of a GPU, as [`ImageView::new`].
    ///
    /// # Errors
    /// Returns the errors of [`ImageView::new`].
    pub fn on_device(
        size: Size,
        step: usize,
        encoding: Encoding,
        big_endian: bool,
        data: DeviceBytes<'a>,
    ) -> Result<Self> {
        Self::checked((size, step), (encoding, big_endian), data, data.len())
    }
}

impl<B: Copy> ImageView<'_, B> {
    fn checked(
        (size, step): (Size, usize),
        (encoding, big_endian): (Encoding, bool),
        data: B,
        num_bytes: usize,
    ) -> Result<Self> {
        let layout = |message: String| Err(Error::new(ErrorKind::Layout, "image", message));
        let Size { width, height } = size;
        if width == 0 || height == 0 || width.max(height) > ImageView::MAX_SIDE {
            return layout(format!(
                "size must be 1x1 to {0}x{0}, found {width}x{height}",
                ImageView::MAX_SIDE
            ));
        }
        let (multiple_x, multiple_y) = encoding.multiple();
        if width % multiple_x != 0 || height % multiple_y != 0 {
            return layout(format!(
                "size {width}x{height} of a {encoding:?} image must be a multiple of \
                 {multiple_x}x{multiple_y}"
            ));
        }
        if encoding.is_bayer() && (width < 2 || height < 2) {
            return layout(format!(
                "size of a Bayer image must be at least 2x2, found {width}x{height}"
            ));
        }
        let row_bytes = encoding.row_bytes(width);
        if step < row_bytes {
            return layout(format!(
                "step is {step} bytes, a row of {width} {encoding:?} pixels needs {row_bytes}"
            ));
        }
        let num_rows = encoding.num_rows(height);
        match step.checked_mul(num_rows - 1).and_then(|rows| rows.checked_add(row_bytes)) {
            Some(needed) if num_bytes >= needed => {
                Ok(Self { size, step, encoding, big_endian, data, borrowed: PhantomData })
            }
            needed => layout(format!(
                "data has {num_bytes} bytes, {num_rows} rows of step {step} need {}",
                needed.map_or_else(|| "more than memory".into(), |n| n.to_string())
            )),
        }
    }

    /// Width and height in pixels.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Bytes from the start of a row to the start of the next.
    pub fn step(&self) -> usize {
        self.step
    }

    /// The encoding of the pixels.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Whether 16-bit samples are big endian.
    pub fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// All bytes, from the start of the first row.
    pub fn data(&self) -> B {
        self.data
    }
}

/// Where a channel on a GPU decodes JPEG images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JpegDevice {
    /// On the GPU if it has JPEG engines and nvJPEG is found, else on the CPU; the choice is
    /// logged.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On the JPEG engines of the GPU, or an error. Images that these do not decode are
    /// decoded on the CPU.
    Gpu,
}

/// How JPEG images are decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JpegOptions {
    /// Where.
    pub device: JpegDevice,
    /// The nvJPEG library; `None` takes `DET_POST_NVJPEG`, and then the library that the
    /// loader finds.
    pub library: Option<PathBuf>,
}

/// Where a channel on a GPU decodes video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VideoDevice {
    /// On the GPU if it has engines for H.264 (NVDEC) and libnvcuvid is found, else on the CPU; the choice is logged.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On the engines of the GPU, or an error. Streams that these do not decode are decoded on the CPU.
    Gpu,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked_against_the_data() {
        let data = [0; 46_080];
        let new = |width, height, step, encoding, len: usize| {
            ImageView::new(Size::new(width, height), step, encoding, false, &data[..len])
        };
        // (width, height, step, encoding, bytes, accepted)
        let cases = [
            (160, 96, 480, Encoding::Rgb8, 46_080, true),
            (160, 96, 480, Encoding::Rgb8, 46_079, false),
            (160, 96, 479, Encoding::Rgb8, 46_080, false),
            (0, 96, 480, Encoding::Rgb8, 46_080, false),
            (160, 0, 480, Encoding::Rgb8, 46_080, false),
            (159, 96, 480, Encoding::Rgb8, 46_077, true),
            (4, 4, 4, Encoding::Nv12, 24, true),
            (4, 4, 4, Encoding::Nv12, 23, false),
            (4, 3, 4, Encoding::Nv21, 24, false),
            (3, 4, 6, Encoding::Uyvy, 24, false),
            (1, 2, 1, Encoding::BayerRggb8, 2, false),
            (1, 1, usize::MAX, Encoding::Mono8, 1, true),
            (1, 3, usize::MAX, Encoding::Mono8, 9, false),
        ];
        for (width, height, step, encoding, len, accepted) in cases {
            let view = new(width, height, step, encoding, len);
            assert_eq!(view.is_ok(), accepted, "{width}x{height} {step} {encoding:?} {len}");
        }
    }

    #[test]
    fn unknown_encodings_are_named() {
        let error = Encoding::from_ros("rgb9_unknown").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encoding);
        assert!(error.message().contains("\"rgb9_unknown\""), "{error}");
    }

    #[test]
    fn rows_skip_padding() {
        let data: Vec<u8> = (0..10).collect();
        let view = ImageView::new(Size::new(3, 2), 7, Encoding::Mono8, false, &data).unwrap();
        assert_eq!(view.row(1), [7, 8, 9]);
    }
}
