//! Decompresses JPEG and PNG images.
//!
//! | image | encoding |
//! |---|---|
//! | JPEG, colour (baseline or progressive) | `rgb8` |
//! | JPEG, grey | `mono8` |
//! | PNG, grey of 1 to 8 bits, with or without alpha | `mono8` |
//! | PNG, grey of 16 bits, with or without alpha | `mono16`, high byte first |
//! | PNG, colour or palette | `rgb8`, of 16 bits the high byte |
//! | PNG, colour or palette with transparency | `rgba8`, likewise |
//!
//! These are the encodings of [`FileSamples::Stored`](det_post_types::FileSamples::Stored). Where
//! the message's format gives the samples another meaning, the pixels have that encoding: a mosaic
//! stored as grey values is a Bayer image. A file that contradicts its format is refused.
//!
//! Alpha is kept where removing it would take a copy, and not used. EXIF orientation
//! is ignored: calibrations refer to the pixels as stored. Of an animated PNG the
//! first frame is decoded.
//!
//! A truncated file is an error, never an image that is partly grey. An end marker
//! that was written after a cut is not detected, nor is damage that still decodes:
//! JPEG has no checksum.
//!
//! PNG is exact. The pixels of a JPEG are those of libjpeg-turbo, with which the images
//! of training sets are decoded, bit for bit: its integer inverse cosine transform
//! (`ISLOW`), its interpolation of chroma ("fancy upsampling") and its conversion of colours.
//!
//! The maximum side is [`ImageView::MAX_SIDE`], the maximum image [`MAX_PIXELS`].
//! The header is checked before memory is allocated, and so is the size of the file
//! against the best compression of its format. The memory of the pixels is reused for the
//! next image; the decoders' tables and planes are not.
//!
//! The time per image is bounded. A JPEG is decoded scan by scan, each over all
//! pixels even if the file has little data for it: the number of scans ([`MAX_SCANS`])
//! and the pixels of all scans together ([`MAX_SCANNED_PIXELS`]) are checked before
//! decoding starts. Decoding of a PNG that takes longer than [`MAX_DECODE_TIME`] is aborted.
//! Its text and colour profiles, which inflate, are skipped.

#[cfg(feature = "cuda")]
pub mod cuda;
mod jpeg;
mod jpeg_markers;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(feature = "cuda")]
mod nvdec;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "nvJPEG is a C library; each block states why it is sound")]
pub mod nvjpeg;
mod png;
mod timed;
pub mod video;

use std::time::{Duration, Instant};

use det_post_types::{
    CompressedFormat, CompressedView, Encoding, Error, ErrorKind, ImageView, Result, Size,
};

/// The maximum number of pixels of an image.
pub const MAX_PIXELS: u64 = 1 << 26;

/// The maximum number of scans of a JPEG: one for each of the 64 coefficients of four
/// components. Encoders usually write 10.
pub const MAX_SCANS: u64 = 256;

/// The maximum number of pixels of all scans of a JPEG together: 16 scans of the
/// largest image.
pub const MAX_SCANNED_PIXELS: u64 = 16 * MAX_PIXELS;

/// The maximum time of decompressing an image. The largest image at a high quality
/// takes a quarter of it on an idle core.
pub const MAX_DECODE_TIME: Duration = Duration::from_secs(10);

/// A decompressed image, whose memory is reused for the next.
#[derive(Debug, Default)]
pub struct DecodedImage {
    bytes: Vec<u8>,
    pixels: Option<Pixels>,
}

/// The layout of an image's bytes, whose rows have no padding.
#[derive(Clone, Copy, Debug)]
struct Pixels {
    size: Size,
    encoding: Encoding,
}

impl DecodedImage {
    /// An image without pixels.
    pub fn new() -> Self {
        Self::default()
    }

    /// The pixels as an image in memory.
    ///
    /// # Errors
    /// `Codec` when the last [`decompress`] failed or there was none.
    pub fn view(&self) -> Result<ImageView<'_>> {
        match self.pixels {
            Some(pixels) => pixels.view(&self.bytes),
            None => Err(codec("no image was decompressed")),
        }
    }
}

impl Pixels {
    /// The image at the start of `bytes`.
    fn view(self, bytes: &[u8]) -> Result<ImageView<'_>> {
        let Self { size, encoding } = self;
        let step = encoding.row_bytes(size.width);
        let bytes = bytes.get(..step * size.height as usize).unwrap_or(bytes);
        ImageView::new(size, step, encoding, true, bytes)
    }
}

/// Decompresses `input` into `image`. Formats and limits: see the module.
///
/// # Errors
/// `Codec` when the file is damaged, truncated, too large or of a kind that is not
/// supported, `DecodeLimit` when it takes too much work or time, `Encoding` when it contradicts
/// its samples' meaning. Then `image` has no pixels.
pub fn decompress(input: &CompressedView<'_>, image: &mut DecodedImage) -> Result<()> {
    let DecodedImage { bytes, pixels } = image;
    *pixels = None;
    let (decoded, _) = decode(input, |num_bytes| {
        bytes.resize(num_bytes, 0);
        Ok(bytes)
    })?;
    *pixels = Some(decoded);
    Ok(())
}

/// As [`decompress`], into the memory that `memory` returns for a number of bytes. The
/// image is at the start of that memory.
///
/// # Errors
/// Returns the errors of [`decompress`] and of `memory`; `Codec` when it returns too few bytes.
pub fn decompress_into<'m>(
    input: &CompressedView<'_>,
    memory: impl FnOnce(usize) -> Result<&'m mut [u8]>,
) -> Result<ImageView<'m>> {
    let (pixels, bytes) = decode(input, memory)?;
    pixels.view(bytes)
}

fn decode<'m>(
    input: &CompressedView<'_>,
    memory: impl FnOnce(usize) -> Result<&'m mut [u8]>,
) -> Result<(Pixels, &'m [u8])> {
    let (pixels, bytes) = match input.format {
        CompressedFormat::Jpeg => jpeg::decode(input.data, memory),
        CompressedFormat::Png => png::decode(input.data, Instant::now() + MAX_DECODE_TIME, memory),
    }?;
    let encoding = input.samples.encoding(pixels.encoding)?;
    Ok((Pixels { encoding, ..pixels }, bytes))
}

/// The size of the image in `input`, by its header; nothing is decompressed.
///
/// # Errors
/// `Codec` when there is no such header or the size is not supported; `DecodeLimit`
/// when the data before the header of a PNG takes too long to read.
pub fn size(input: &CompressedView<'_>) -> Result<Size> {
    match input.format {
        CompressedFormat::Jpeg => jpeg::size(input.data),
        CompressedFormat::Png => png::size(input.data, Instant::now() + MAX_DECODE_TIME),
    }
}

/// Checks the size in a header before memory is allocated for it.
fn check_size(size: Size, num_bytes: usize, max_pixels_per_byte: u64) -> Result<()> {
    let Size { width, height } = size;
    let num_pixels = u64::from(width) * u64::from(height);
    if num_pixels == 0 || width.max(height) > ImageView::MAX_SIDE || num_pixels > MAX_PIXELS {
        return Err(codec(format!(
            "image of {width}x{height}; sides must be 1 to {}, pixels at most {MAX_PIXELS}",
            ImageView::MAX_SIDE
        )));
    }
    if num_pixels > max_pixels_per_byte * num_bytes as u64 {
        return Err(codec(format!("{num_bytes} bytes cannot hold an image of {width}x{height}")));
    }
    Ok(())
}

fn codec(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Codec, "decompress", message)
}

fn exceeded(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::DecodeLimit, "decompress", message)
}

fn timed_out() -> Error {
    exceeded(format!("image not decoded within {} s", MAX_DECODE_TIME.as_secs()))
}

#[cfg(test)]
mod tests;
