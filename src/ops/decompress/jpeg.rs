//! JPEG.

use jpeg_decoder::{Decoder, ImageInfo, PixelFormat};

use super::{MAX_PIXELS, Pixels, check_size, codec};
use crate::error::{Error, Result};
use crate::types::{Encoding, Size};

/// A block of 8x8 pixels takes at least one bit.
const MAX_PIXELS_PER_BYTE: u64 = 8 * 64;

/// The size of the picture.
pub(super) fn size(data: &[u8]) -> Result<Size> {
    read_header(&mut Decoder::new(data), data).map(|(size, _)| size)
}

/// Size and format of the pixels in `data`, which `decoder` reads.
fn read_header(decoder: &mut Decoder<&[u8]>, data: &[u8]) -> Result<(Size, PixelFormat)> {
    decoder.set_max_decoding_buffer_size(4 * MAX_PIXELS as usize);
    decoder.read_info().map_err(damaged)?;
    let Some(ImageInfo { width, height, pixel_format, .. }) = decoder.info() else {
        return Err(codec("JPEG without a header"));
    };
    let size = Size::new(u32::from(width), u32::from(height));
    check_size(size, data.len(), MAX_PIXELS_PER_BYTE)?;
    Ok((size, pixel_format))
}

fn damaged(cause: jpeg_decoder::Error) -> Error {
    Error::with_source(codec("JPEG is damaged or not supported"), cause)
}

/// The picture and its pixels, in the memory the decoder took for them.
pub(super) fn decode(data: &[u8]) -> Result<(Pixels, Vec<u8>)> {
    let mut decoder = Decoder::new(data);
    let (size, pixel_format) = read_header(&mut decoder, data)?;
    let encoding = match pixel_format {
        PixelFormat::L8 => Encoding::Mono8,
        PixelFormat::RGB24 => Encoding::Rgb8,
        PixelFormat::L16 | PixelFormat::CMYK32 => {
            return Err(codec(format!(
                "JPEG of {pixel_format:?} pixels; grey and colour are read"
            )));
        }
    };
    if !ends_after_scans(data) {
        return Err(codec(format!(
            "JPEG is truncated: {} bytes and no end of image after the last scan",
            data.len()
        )));
    }
    let bytes = decoder.decode().map_err(damaged)?;
    let num_bytes = encoding.row_bytes(size.width) * size.height as usize;
    if bytes.len() != num_bytes {
        return Err(codec(format!("JPEG decodes to {} bytes, not {num_bytes}", bytes.len())));
    }
    Ok((Pixels { size, encoding }, bytes))
}

/// Whether an end marker follows the last scan. Entropy-coded data has neither
/// marker; an embedded thumbnail, which has both, lies before the picture's own
/// scans.
fn ends_after_scans(data: &[u8]) -> bool {
    const START_OF_SCAN: u8 = 0xDA;
    const END_OF_IMAGE: u8 = 0xD9;
    let last = data
        .array_windows()
        .rev()
        .find(|&&[mark, marker]| mark == 0xFF && matches!(marker, START_OF_SCAN | END_OF_IMAGE));
    matches!(last, Some([_, END_OF_IMAGE]))
}
