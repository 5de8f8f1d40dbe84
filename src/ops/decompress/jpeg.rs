//! JPEG.

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::{Pixels, check_size, codec};
use crate::error::{Error, Result};
use crate::types::{Encoding, ImageView, Size};

/// A block of 8x8 pixels takes at least one bit.
const MAX_PIXELS_PER_BYTE: u64 = 8 * 64;

pub(super) fn decode(data: &[u8], bytes: &mut Vec<u8>) -> Result<Pixels> {
    let damaged = |cause| Error::with_source(codec("JPEG is damaged or not supported"), cause);
    let max_side = ImageView::MAX_SIDE as usize;
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(max_side)
        .set_max_height(max_side);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(data), options);
    decoder.decode_headers().map_err(damaged)?;
    let (Some(info), Some(colors)) = (decoder.info(), decoder.input_colorspace()) else {
        return Err(codec("JPEG without a header"));
    };
    let size = Size::new(u32::from(info.width), u32::from(info.height));
    check_size(size, data.len(), MAX_PIXELS_PER_BYTE)?;
    if !ends_after_its_scans(data) {
        return Err(codec(format!(
            "JPEG is truncated: {} bytes and no end of image after the last scan",
            data.len()
        )));
    }
    let (encoding, colors) = match colors {
        ColorSpace::Luma => (Encoding::Mono8, ColorSpace::Luma),
        _ => (Encoding::Rgb8, ColorSpace::RGB),
    };
    decoder.set_options(options.jpeg_set_out_colorspace(colors));
    let num_bytes = encoding.row_bytes(size.width) * size.height as usize;
    match decoder.output_buffer_size() {
        Some(needed) if needed == num_bytes => {}
        needed => {
            return Err(codec(format!("JPEG decodes to {needed:?} bytes, not {num_bytes}")));
        }
    }
    bytes.resize(num_bytes, 0);
    decoder.decode_into(bytes).map_err(damaged)?;
    Ok(Pixels { size, encoding })
}

/// Whether the last of all scan headers and end markers is an end marker.
/// Entropy-coded data has neither; an embedded thumbnail, which has both, lies
/// before the picture's own scans.
fn ends_after_its_scans(data: &[u8]) -> bool {
    const START_OF_SCAN: u8 = 0xDA;
    const END_OF_IMAGE: u8 = 0xD9;
    data.array_windows()
        .rev()
        .find_map(|&[mark, marker]| match (mark, marker) {
            (0xFF, END_OF_IMAGE) => Some(true),
            (0xFF, START_OF_SCAN) => Some(false),
            _ => None,
        })
        .unwrap_or(false)
}
