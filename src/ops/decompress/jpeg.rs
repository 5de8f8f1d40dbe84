//! JPEG.

use std::io;
use std::time::Instant;

use jpeg_decoder::{Decoder, ImageInfo, PixelFormat};

use super::jpeg_markers::{self, Markers};
use super::timed::TimedBytes;
use super::{MAX_PIXELS, MAX_SCANNED_PIXELS, MAX_SCANS, Pixels, check_size, codec, exceeded};
use crate::error::{Error, Result};
use crate::types::{Encoding, Size};

/// A block of 8x8 pixels takes at least one bit.
const MAX_PIXELS_PER_BYTE: u64 = 8 * 64;

/// The maximum number of bytes of Huffman tables, each of which takes microseconds to
/// build. A scan uses at most eight tables of at most 273 bytes.
const MAX_TABLE_BYTES: u64 = MAX_SCANS * 8 * 273;

/// Bytes between two queries of the clock: at most about twenty scans, and in
/// entropy-coded data a hundred times the cost of a query.
const CLOCK_INTERVAL: usize = 256;

/// The size of the picture.
pub(super) fn size(data: &[u8], deadline: Instant) -> Result<Size> {
    read_header(&mut decoder(data, deadline), data).map(|(size, _)| size)
}

fn decoder(data: &[u8], deadline: Instant) -> Decoder<TimedBytes<'_>> {
    Decoder::new(TimedBytes::new(data, deadline, CLOCK_INTERVAL))
}

/// Size and format of the pixels in `data`, which `decoder` reads.
fn read_header(decoder: &mut Decoder<TimedBytes<'_>>, data: &[u8]) -> Result<(Size, PixelFormat)> {
    decoder.set_max_decoding_buffer_size(4 * MAX_PIXELS as usize);
    decoder.read_info().map_err(failed)?;
    let Some(ImageInfo { width, height, pixel_format, .. }) = decoder.info() else {
        return Err(codec("JPEG without a header"));
    };
    let size = Size::new(u32::from(width), u32::from(height));
    check_size(size, data.len(), MAX_PIXELS_PER_BYTE)?;
    Ok((size, pixel_format))
}

fn failed(cause: jpeg_decoder::Error) -> Error {
    match &cause {
        jpeg_decoder::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            super::timed_out()
        }
        _ => Error::with_source(codec("JPEG is damaged or not supported"), cause),
    }
}

/// The picture and its pixels, in memory that the decoder has allocated.
pub(super) fn decode(data: &[u8], deadline: Instant) -> Result<(Pixels, Vec<u8>)> {
    let mut decoder = decoder(data, deadline);
    let (size, pixel_format) = read_header(&mut decoder, data)?;
    let encoding = match pixel_format {
        PixelFormat::L8 => Encoding::Mono8,
        PixelFormat::RGB24 => Encoding::Rgb8,
        PixelFormat::L16 | PixelFormat::CMYK32 => {
            return Err(codec(format!(
                "JPEG of {pixel_format:?} pixels; grey and colour are supported"
            )));
        }
    };
    check_work(size, data)?;
    let bytes = decoder.decode().map_err(failed)?;
    let num_bytes = encoding.row_bytes(size.width) * size.height as usize;
    if bytes.len() != num_bytes {
        return Err(codec(format!("JPEG decodes to {} bytes, not {num_bytes}", bytes.len())));
    }
    Ok((Pixels { size, encoding }, bytes))
}

/// Checks that the file is complete and limits the passes over the pixels: a scan of
/// a few bytes takes as long as decoding all pixels of the picture.
fn check_work(size: Size, data: &[u8]) -> Result<()> {
    let Markers { num_scans, num_table_bytes, has_end } = jpeg_markers::walk(data);
    let Size { width, height } = size;
    let num_pixels = u64::from(width) * u64::from(height);
    if num_scans > MAX_SCANS || num_scans * num_pixels > MAX_SCANNED_PIXELS {
        return Err(exceeded(format!(
            "JPEG of {width}x{height} in {num_scans} scans; {MAX_SCANS} scans and \
             {MAX_SCANNED_PIXELS} pixels over all scans are possible"
        )));
    }
    if num_table_bytes > MAX_TABLE_BYTES {
        return Err(exceeded(format!(
            "JPEG with {num_table_bytes} bytes of Huffman tables; {MAX_TABLE_BYTES} are possible"
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
