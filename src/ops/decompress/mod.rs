//! Decompresses JPEG and PNG pictures.
//!
//! | picture | becomes |
//! |---|---|
//! | JPEG, colour (baseline or progressive) | `rgb8` |
//! | JPEG, grey | `mono8` |
//! | PNG, grey of 1 to 8 bits, with or without alpha | `mono8` |
//! | PNG, grey of 16 bits, with or without alpha | `mono16`, high byte first |
//! | PNG, colour or palette | `rgb8`, of 16 bits the high byte |
//! | PNG, colour or palette with transparency | `rgba8`, likewise |
//!
//! Alpha is kept only where that costs nothing; nothing reads it. EXIF
//! orientation is ignored: calibrations are made for the pixels as they lie.
//! Of an animated PNG the first frame counts.
//!
//! A truncated file is an error, never a picture that is partly grey. Not seen
//! are an end marker that was set after a cut, and damage that still decodes:
//! JPEG has no checksum.
//!
//! PNG is exact. Two JPEG decoders may differ by a few levels of 255 (inverse
//! cosine transform, chroma upsampling). The one used is near libjpeg-turbo,
//! with which the pictures of training sets are decoded: a bias of a fifth of a
//! level moves the score of a small, dark object by hundredths.
//!
//! Sides go to [`ImageView::MAX_SIDE`] and a picture to [`MAX_PIXELS`]. Both
//! are checked on the header before memory is taken, and so is that the file
//! has enough bytes for as many pixels at the best compression its format
//! allows. The memory of a PNG's pixels is kept from picture to picture; that of
//! a JPEG's, and the decoders' own tables, are not.
//!
//! The time of a picture is bounded. A JPEG is decoded scan by scan, each over
//! all pixels even where the file has no data for it, so the number of scans
//! ([`MAX_SCANS`]) and the pixels of all scans together ([`MAX_SCANNED_PIXELS`])
//! are checked before decoding starts; either depends on the file alone. What
//! takes longer than [`MAX_DECODE_TIME`] all the same is given up. Text and
//! colour profiles of a PNG, which inflate, are not read.

mod jpeg;
mod jpeg_markers;
mod png;
mod timed;

use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::types::{CompressedFormat, CompressedView, Encoding, ImageView, Size};

/// The most pixels that a picture may have.
pub const MAX_PIXELS: u64 = 1 << 26;

/// The most scans that a JPEG may have: each of the 64 coefficients of four
/// components in a scan of its own. Encoders usually write 10.
pub const MAX_SCANS: u64 = 256;

/// The most pixels that all scans of a JPEG may have together: 16 scans of the
/// largest picture.
pub const MAX_SCANNED_PIXELS: u64 = 16 * MAX_PIXELS;

/// The longest time that a picture may take to decompress. The largest picture
/// at a high quality takes a quarter of it on a free core.
pub const MAX_DECODE_TIME: Duration = Duration::from_secs(10);

/// A decompressed picture; its memory is used again for the next.
#[derive(Debug, Default)]
pub struct Picture {
    bytes: Vec<u8>,
    pixels: Option<Pixels>,
}

/// What lies in a picture's bytes, rows without padding.
#[derive(Clone, Copy, Debug)]
struct Pixels {
    size: Size,
    encoding: Encoding,
}

impl Picture {
    /// A picture without pixels.
    pub fn new() -> Self {
        Self::default()
    }

    /// The picture as an image in memory.
    ///
    /// # Errors
    /// `Codec` when the last [`decompress`] failed or there was none.
    pub fn view(&self) -> Result<ImageView<'_>> {
        match self.pixels {
            Some(pixels) => pixels.view(&self.bytes),
            None => Err(codec("no picture was decompressed")),
        }
    }
}

impl Pixels {
    /// The picture at the start of `bytes`.
    fn view(self, bytes: &[u8]) -> Result<ImageView<'_>> {
        let Self { size, encoding } = self;
        let step = encoding.row_bytes(size.width);
        let bytes = bytes.get(..step * size.height as usize).unwrap_or(bytes);
        ImageView::new(size, step, encoding, true, bytes)
    }
}

/// Decompresses `input` into `picture`. Formats and limits: module head.
///
/// # Errors
/// `Codec` when the file is damaged, truncated, too large or of a kind that
/// is not read, `DecodeLimit` when it takes too much work or time; `picture`
/// then has no pixels.
pub fn decompress(input: &CompressedView<'_>, picture: &mut Picture) -> Result<()> {
    let deadline = Instant::now() + MAX_DECODE_TIME;
    let Picture { bytes, pixels } = picture;
    *pixels = None;
    *pixels = Some(match input.format {
        CompressedFormat::Jpeg => {
            let (pixels, decoded) = jpeg::decode(input.data, deadline)?;
            *bytes = decoded;
            pixels
        }
        CompressedFormat::Png => {
            let (pixels, _) = png::decode(input.data, deadline, |num_bytes| {
                bytes.resize(num_bytes, 0);
                Ok(bytes)
            })?;
            pixels
        }
    });
    Ok(())
}

/// As [`decompress`], into memory that `room` lends, given the number of bytes
/// it takes. The pixels of a PNG are decoded there, those of a JPEG are copied
/// there. The picture is the first of these bytes.
///
/// # Errors
/// Those of [`decompress`] and of `room`; `Codec` when it lends less.
pub fn decompress_into<'m>(
    input: &CompressedView<'_>,
    room: impl FnOnce(usize) -> Result<&'m mut [u8]>,
) -> Result<ImageView<'m>> {
    let deadline = Instant::now() + MAX_DECODE_TIME;
    let (pixels, bytes) = match input.format {
        CompressedFormat::Jpeg => {
            let (pixels, decoded) = jpeg::decode(input.data, deadline)?;
            let bytes = room(decoded.len())?;
            let Some(to) = bytes.get_mut(..decoded.len()) else {
                let (lent, needed) = (bytes.len(), decoded.len());
                return Err(codec(format!("room for {lent} bytes, the picture takes {needed}")));
            };
            to.copy_from_slice(&decoded);
            (pixels, &*bytes)
        }
        CompressedFormat::Png => png::decode(input.data, deadline, room)?,
    };
    pixels.view(bytes)
}

/// The size of the picture in `input`, by its header; nothing is decompressed.
///
/// # Errors
/// `Codec` when there is no such header, or its size is not read; `DecodeLimit`
/// when so much precedes it that it takes too long.
pub fn size(input: &CompressedView<'_>) -> Result<Size> {
    let deadline = Instant::now() + MAX_DECODE_TIME;
    match input.format {
        CompressedFormat::Jpeg => jpeg::size(input.data, deadline),
        CompressedFormat::Png => png::size(input.data, deadline),
    }
}

/// Checks what a header claims before memory is taken for it.
fn check_size(size: Size, num_bytes: usize, max_pixels_per_byte: u64) -> Result<()> {
    let Size { width, height } = size;
    let num_pixels = u64::from(width) * u64::from(height);
    if num_pixels == 0 || width.max(height) > ImageView::MAX_SIDE || num_pixels > MAX_PIXELS {
        return Err(codec(format!(
            "picture of {width}x{height}; sides of 1 to {} and {MAX_PIXELS} pixels are possible",
            ImageView::MAX_SIDE
        )));
    }
    if num_pixels > max_pixels_per_byte * num_bytes as u64 {
        return Err(codec(format!("{num_bytes} bytes cannot hold a picture of {width}x{height}")));
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
    exceeded(format!("picture not decoded within {} s", MAX_DECODE_TIME.as_secs()))
}

#[cfg(test)]
mod tests;
