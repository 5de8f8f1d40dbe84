//! JPEG, by a decoder that gives the pixels of libjpeg-turbo, bit for bit.

use libjpeg_turbo_rs::{ColorSpace, DecodeLimits, Decoder, JpegError, PixelFormat};

use super::jpeg_markers::{self, Frame, Markers};
use super::{MAX_PIXELS, MAX_SCANNED_PIXELS, MAX_SCANS, Pixels, check_size, codec, exceeded};
use det_post_types::{Encoding, Error, Result, Size};

/// A block of 8x8 pixels takes at least one bit.
const MAX_PIXELS_PER_BYTE: u64 = 8 * 64;

/// The maximum number of bytes of Huffman tables, each of which takes microseconds to
/// build. A scan uses at most eight tables of at most 273 bytes.
const MAX_TABLE_BYTES: u64 = MAX_SCANS * 8 * 273;

/// The size of the image.
pub(super) fn size(data: &[u8]) -> Result<Size> {
    let frame = jpeg_markers::frame(data).ok_or_else(without_header)?;
    size_of(&frame, data)
}

fn size_of(frame: &Frame, data: &[u8]) -> Result<Size> {
    let size = Size::new(frame.width.into(), frame.height.into());
    check_size(size, data.len(), MAX_PIXELS_PER_BYTE)?;
    Ok(size)
}

fn without_header() -> Error {
    codec("the JPEG has no header")
}

fn failed(cause: JpegError) -> Error {
    let message = "JPEG is damaged or not supported";
    let error = match &cause {
        JpegError::LimitExceeded { .. } | JpegError::AllocationFailed { .. } => exceeded(message),
        _ => codec(message),
    };
    Error::with_source(error, cause)
}

/// Decodes into the memory that `memory` returns for a number of bytes; the pixels are
/// at its start.
pub(super) fn decode<'m>(
    data: &[u8],
    memory: impl FnOnce(usize) -> Result<&'m mut [u8]>,
) -> Result<(Pixels, &'m [u8])> {
    let markers = jpeg_markers::read(data);
    let frame = markers.frame.ok_or_else(without_header)?;
    let size = size_of(&frame, data)?;
    check_coding(&frame)?;
    check_work(size, data, &markers)?;
    let limits = DecodeLimits {
        max_pixels: MAX_PIXELS,
        max_scans: MAX_SCANS as usize,
        ..DecodeLimits::default()
    };
    let mut decoder = Decoder::new_with_limits(data, limits).map_err(failed)?;
    let (format, encoding) = match decoder.jpeg_color_space() {
        ColorSpace::Grayscale => (PixelFormat::Grayscale, Encoding::Mono8),
        ColorSpace::YCbCr | ColorSpace::Rgb => (PixelFormat::Rgb, Encoding::Rgb8),
        other => {
            return Err(codec(format!("JPEG of {other:?} pixels; grey and colour are supported")));
        }
    };
    decoder.set_output_format(format);
    let num_bytes = encoding.row_bytes(size.width) * size.height as usize;
    let bytes = memory(num_bytes)?;
    let found = bytes.len();
    let pixels = bytes
        .get_mut(..num_bytes)
        .ok_or_else(|| codec(format!("memory of {found} bytes; the image needs {num_bytes}")))?;
    let decoded = decoder.decode_image_into(pixels).map_err(failed)?;
    if decoded.bytes_written != num_bytes {
        let found = decoded.bytes_written;
        return Err(codec(format!("JPEG decodes to {found} bytes, not {num_bytes}")));
    }
    Ok((Pixels { size, encoding }, bytes))
}

/// The size of an image that the JPEG engines of GPUs decode to the same samples, and that
/// of its planes of chroma, unless it is grey: baseline coding in one scan, complete, 4:4:4,
/// 4:2:2 or 4:2:0. `None` for others.
#[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only GPUs have JPEG engines"))]
pub(super) fn baseline(data: &[u8]) -> Option<(Size, Option<Size>)> {
    const RGB: [u8; 3] = *b"RGB";
    let markers = jpeg_markers::read(data);
    let frame = markers.frame?;
    let size = size_of(&frame, data).ok()?;
    check_work(size, data, &markers).ok()?;
    let is_plain = frame.coding == Frame::BASELINE
        && frame.precision == 8
        && (markers.num_frames, markers.num_scans) == (1, 1)
        && markers.num_table_bytes > 0
        && markers.has_quantization
        // Of another colour space, perhaps.
        && !markers.is_adobe;
    if !is_plain {
        return None;
    }
    let [first, second, third, _] = frame.components;
    let [across, down] = match (frame.num_components, [first.1, second.1, third.1]) {
        (1, [0x11, ..]) => return Some((size, None)),
        (3, [luma @ (0x11 | 0x21 | 0x22), 0x11, 0x11]) => [luma >> 4, luma & 0xF].map(u32::from),
        _ => return None,
    };
    let chroma = Size::new(size.width.div_ceil(across), size.height.div_ceil(down));
    ([first.0, second.0, third.0] != RGB).then_some((size, Some(chroma)))
}

/// Refuses codings that cameras do not write: lossless, hierarchical, arithmetic, and
/// samples of 12 bits.
fn check_coding(frame: &Frame) -> Result<()> {
    let is_supported =
        matches!(frame.coding, Frame::BASELINE | Frame::EXTENDED | Frame::PROGRESSIVE);
    if !is_supported || frame.precision != 8 {
        return Err(codec(format!(
            "JPEG of coding {} with {} bits; baseline, extended and progressive Huffman coding of \
             8 bits (0, 1, 2) are supported",
            frame.coding - Frame::BASELINE,
            frame.precision
        )));
    }
    Ok(())
}

/// Checks that the file is complete and limits the passes over the pixels: a scan of
/// a few bytes takes as long as decoding all pixels of the image.
fn check_work(size: Size, data: &[u8], markers: &Markers) -> Result<()> {
    let &Markers { num_scans, num_table_bytes, has_end, .. } = markers;
    let Size { width, height } = size;
    let num_pixels = u64::from(width) * u64::from(height);
    if num_scans > MAX_SCANS || num_scans * num_pixels > MAX_SCANNED_PIXELS {
        return Err(exceeded(format!(
            "JPEG of {width}x{height} has {num_scans} scans; the limits are {MAX_SCANS} scans and \
             {MAX_SCANNED_PIXELS} pixels over all scans"
        )));
    }
    if num_table_bytes > MAX_TABLE_BYTES {
        return Err(exceeded(format!(
            "JPEG with {num_table_bytes} bytes of Huffman tables exceeds the limit of \
             {MAX_TABLE_BYTES}"
        )));
    }
    if !has_end {
        return Err(codec(format!(
            "JPEG is truncated: {} bytes and no end of image after the last scan",
            data.len()
        )));
    }
    Ok(())
}
