//! Cloudini: fields encoded one by one, in chunks that LZ4 or ZSTD compress.
//!
//! Payload: a [`header`], then up to version 2 one chunk with all points, from version 3 on chunks of
//! [`CHUNK_POINTS`] points, each after its length (u32). Of a chunk, decompressed, the values of all fields of
//! the first point come first, then the second point's, and so on; differences are to the point before
//! in the same chunk ([`values`]). Integers of version 5 are behind all others, field by field ([`integers`]).

mod header;
mod input;
mod integers;
mod values;

use super::codec::{Codecs, contradicts, undecodable};
use crate::messages::CompressedPointCloud2;
use det_post_types::Result;
use header::{Compression, Header, Place};
use input::Input;
use integers::IntegerField;
use values::ValueField;

pub(super) use header::MAGIC;

/// Points of a chunk.
const CHUNK_POINTS: usize = 32 * 1024;

/// An encoded value has at most two and a half times the bytes of the value: a 64-bit difference of a 4-byte
/// float has ten.
const MAX_EXPANSION: usize = 3;

/// Bytes of a chunk beside its values.
const CHUNK_OVERHEAD: usize = 4096;

/// Writes the points of a message to its data.
pub(super) fn decode(
    message: &CompressedPointCloud2<'_>,
    codecs: &mut Codecs,
    data: &mut [u8],
) -> Result<()> {
    let mut input = Input::new(message.compressed_data);
    let header = Header::read(&mut input)?;
    check(&header, message)?;
    data.fill(0);
    let point_step = header.point_step as usize;
    if point_step == 0 || data.is_empty() {
        return Ok(());
    }
    let mut chunks = Chunks::new(&header);
    if header.version < 3 {
        let chunk = decompress(header.compression, input.rest(), data.len(), codecs)?;
        return chunks.decode(chunk, data, point_step);
    }
    for points in data.chunks_mut(CHUNK_POINTS * point_step) {
        let len = input.u32()? as usize;
        let chunk = decompress(header.compression, input.take(len)?, points.len(), codecs)?;
        chunks.decode(chunk, points, point_step)?;
    }
    match input.is_empty() {
        true => Ok(()),
        false => Err(undecodable("cloudini: the payload has more chunks than points")),
    }
}

/// Compares the header with the message, as the decoder of Cloudini does.
fn check(header: &Header<'_>, message: &CompressedPointCloud2<'_>) -> Result<()> {
    let found = [header.width, header.height, header.point_step];
    let expected = [message.width, message.height, message.point_step];
    if found != expected {
        return Err(contradicts(format!(
            "cloudini: width, height and point_step are {found:?} in the payload, {expected:?} in the message"
        )));
    }
    let fields = message.fields.as_slice();
    let is_same = |(mine, field): (&Place<'_>, &det_post_types::PointField<'_>)| {
        (mine.name, mine.offset, mine.kind.number()) == (field.name, field.offset, field.datatype)
    };
    if header.fields.len() != fields.len() || !header.fields.iter().zip(fields).all(is_same) {
        return Err(contradicts("cloudini: payload and message have different fields"));
    }
    Ok(())
}

/// The bytes of a chunk of points that take `num_bytes` in the end.
fn decompress<'a>(
    compression: Compression,
    chunk: &'a [u8],
    num_bytes: usize,
    codecs: &'a mut Codecs,
) -> Result<&'a [u8]> {
    let Codecs { zstd, chunk: scratch } = codecs;
    let most = num_bytes.saturating_mul(MAX_EXPANSION).saturating_add(CHUNK_OVERHEAD);
    if compression != Compression::None && scratch.len() < most {
        scratch.resize(most, 0);
    }
    let failed = |error| undecodable("cloudini: a chunk").with_source(error);
    let num = match compression {
        Compression::None => return Ok(chunk),
        Compression::Lz4 => {
            let most = i32::try_from(most).unwrap_or(i32::MAX);
            lz4::block::decompress_to_buffer(chunk, Some(most), scratch).map_err(failed)?
        }
        Compression::Zstd => zstd.decompress(chunk, &mut scratch[..most]).map_err(failed)?,
    };
    scratch.get(..num).ok_or_else(|| undecodable("cloudini: a chunk is longer than its buffer"))
}

/// The decoders of the fields of a cloud.
struct Chunks {
    values: Vec<ValueField>,
    integers: Vec<IntegerField>,
}

impl Chunks {
    fn new(header: &Header<'_>) -> Self {
        let (mut values, mut integers) = (Vec::new(), Vec::new());
        for (index, place) in header.fields.iter().enumerate() {
            match IntegerField::of(header, index) {
                Some(field) => integers.push(field),
                None => values.push(ValueField::of(header, index, place)),
            }
        }
        Self { values, integers }
    }

    /// Decodes a chunk to its points.
    fn decode(&mut self, chunk: &[u8], points: &mut [u8], point_step: usize) -> Result<()> {
        let mut input = Input::new(chunk);
        self.values.iter_mut().for_each(ValueField::restart);
        for point in points.chunks_exact_mut(point_step) {
            for field in &mut self.values {
                field.decode(&mut input, point)?;
            }
        }
        for field in &self.integers {
            field.decode(&mut input, points, point_step)?;
        }
        // Versions before these sections may pad.
        match input.is_empty() || self.integers.is_empty() {
            true => Ok(()),
            false => Err(undecodable("cloudini: a chunk is longer than its points")),
        }
    }
}
