//! PNG.

use std::io;
use std::time::Instant;

use png::{BitDepth, ColorType, Decoder, DecodingError, Transformations};

use super::timed::TimedBytes;
use super::{Pixels, check_size, codec};
use det_post_types::{Encoding, Error, Result, Size};

/// Eight pixels per byte, deflated 1032 to 1.
const MAX_PIXELS_PER_BYTE: u64 = 8 * 1032;

/// Bytes between two queries of the clock. They inflate to 16 MiB at most.
const CLOCK_INTERVAL: usize = 1 << 14;

/// The size of the image.
pub(super) fn size(data: &[u8], deadline: Instant) -> Result<Size> {
    read_header(&mut decoder(data, deadline), data.len()).map(|(size, ..)| size)
}

/// A decoder that skips text and colour profiles, a few bytes of which inflate to
/// megabytes. The decoder itself limits other chunks and rows to 64 MiB.
fn decoder(data: &[u8], deadline: Instant) -> Decoder<TimedBytes<'_>> {
    let mut decoder = Decoder::new(TimedBytes::new(data, deadline, CLOCK_INTERVAL));
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder
}

/// Size, colour type and bit depth of the image in a file of `num_bytes`.
fn read_header(
    decoder: &mut Decoder<TimedBytes<'_>>,
    num_bytes: usize,
) -> Result<(Size, ColorType, BitDepth)> {
    let header = decoder.read_header_info().map_err(failed)?;
    let size = Size::new(header.width, header.height);
    check_size(size, num_bytes, MAX_PIXELS_PER_BYTE)?;
    Ok((size, header.color_type, header.bit_depth))
}

fn failed(cause: DecodingError) -> Error {
    match &cause {
        DecodingError::IoError(error) if error.kind() == io::ErrorKind::TimedOut => {
            super::timed_out()
        }
        _ => Error::with_source(codec("PNG is damaged or not supported"), cause),
    }
}

/// Decodes into the memory that `memory` returns for a number of bytes; the pixels
/// are at its start.
pub(super) fn decode<'m>(
    data: &[u8],
    deadline: Instant,
    memory: impl FnOnce(usize) -> Result<&'m mut [u8]>,
) -> Result<(Pixels, &'m [u8])> {
    let mut decoder = decoder(data, deadline);
    let (size, color, depth) = read_header(&mut decoder, data.len())?;
    let is_grey = matches!(color, ColorType::Grayscale | ColorType::GrayscaleAlpha);
    let keeps_16_bits = is_grey && depth == BitDepth::Sixteen;
    decoder.set_transformations(if keeps_16_bits {
        Transformations::EXPAND
    } else {
        Transformations::EXPAND | Transformations::STRIP_16
    });
    let mut reader = decoder.read_info().map_err(failed)?;
    let (color, depth) = reader.output_color_type();
    let (encoding, alpha_bytes) = match (color, depth) {
        (ColorType::Grayscale, BitDepth::Eight) => (Encoding::Mono8, 0),
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => (Encoding::Mono8, 1),
        (ColorType::Grayscale, BitDepth::Sixteen) => (Encoding::Mono16, 0),
        (ColorType::GrayscaleAlpha, BitDepth::Sixteen) => (Encoding::Mono16, 2),
        (ColorType::Rgb, BitDepth::Eight) => (Encoding::Rgb8, 0),
        (ColorType::Rgba, BitDepth::Eight) => (Encoding::Rgba8, 0),
        other => return Err(codec(format!("PNG decodes to {other:?}, which is not supported"))),
    };
    let num_bytes = encoding.row_bytes(size.width) * size.height as usize;
    let with_alpha = num_bytes + alpha_bytes * (size.width * size.height) as usize;
    if reader.output_buffer_size() != Some(with_alpha) {
        let found = reader.output_buffer_size();
        return Err(codec(format!("PNG decodes to {found:?} bytes, not {with_alpha}")));
    }
    let bytes = memory(with_alpha)?;
    reader.next_frame(bytes).map_err(failed)?;
    reader.finish().map_err(failed)?;
    if alpha_bytes > 0 {
        drop_alpha(bytes, alpha_bytes);
    }
    Ok((Pixels { size, encoding }, bytes))
}

/// Compacts pixels of grey and alpha, `len` bytes each, to their grey samples.
fn drop_alpha(bytes: &mut [u8], len: usize) {
    for pixel in 0..bytes.len() / (2 * len) {
        bytes.copy_within(2 * len * pixel..2 * len * pixel + len, len * pixel);
    }
}
