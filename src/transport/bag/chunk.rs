//! The contents of one MCAP chunk: bounded decompression and the checksum.

use std::io::Read;

use super::record::Chunk;

/// Most bytes that decompressed chunks of one file may hold at a time.
///
/// A chunk that claims more is damage. Below it, memory grows with what the
/// stream really yields, never with what the head claims. (A zstd stream names
/// its own window; the library allows it 128 MiB.)
pub(super) const MAX_CHUNK_BYTES: u64 = 1 << 30;

/// First step by which the buffer grows before anything is decompressed.
const FIRST_STEP: u64 = 64 << 10;

/// How the contents of a chunk are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Lz4,
    Zstd,
}

impl Compression {
    /// The compression a chunk names, or a message that quotes the name.
    pub(super) fn of(chunk: &Chunk<'_>) -> Result<Self, String> {
        match chunk.compression {
            b"" => Ok(Self::None),
            b"lz4" => Ok(Self::Lz4),
            b"zstd" => Ok(Self::Zstd),
            other => Err(format!(
                "the chunk is compressed by '{}', readable are lz4, zstd and none",
                other.escape_ascii()
            )),
        }
    }
}

/// Decompresses `chunk` into `out`, which is cleared first and keeps its
/// capacity. When the stream fails, `out` holds what came before the failure.
///
/// # Errors
///
/// A message when the claimed size is above [`MAX_CHUNK_BYTES`], when the
/// stream is malformed, or when it yields another size than claimed.
pub(super) fn decompress(
    chunk: &Chunk<'_>,
    compression: Compression,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    out.clear();
    let claimed = chunk.uncompressed_size;
    if claimed > MAX_CHUNK_BYTES {
        return Err(format!("the chunk claims {claimed} bytes, allowed are {MAX_CHUNK_BYTES}"));
    }
    out.reserve(claimed.min(FIRST_STEP) as usize);
    let stream = chunk.contents;
    let read = match compression {
        Compression::None => stream.take(claimed + 1).read_to_end(out),
        Compression::Lz4 => {
            lz4::Decoder::new(stream).and_then(|decoder| decoder.take(claimed + 1).read_to_end(out))
        }
        Compression::Zstd => zstd::stream::read::Decoder::with_buffer(stream)
            .and_then(|decoder| decoder.take(claimed + 1).read_to_end(out)),
    };
    match read {
        Err(error) => Err(format!("the chunk does not decompress: {error}")),
        Ok(_) if out.len() as u64 == claimed => Ok(()),
        Ok(_) if out.len() as u64 > claimed => {
            Err(format!("the chunk yields more than the {claimed} bytes it claims"))
        }
        Ok(_) => Err(format!("the chunk yields {} of the {claimed} bytes it claims", out.len())),
    }
}

/// Compares the checksum of uncompressed contents with the one in the head;
/// 0 means that none was recorded.
pub(super) fn check_crc(chunk: &Chunk<'_>, contents: &[u8]) -> Result<(), String> {
    if chunk.crc == 0 {
        return Ok(());
    }
    let found = crc32fast::hash(contents);
    if found == chunk.crc {
        return Ok(());
    }
    Err(format!("the chunk has checksum {found:08x}, its head says {:08x}", chunk.crc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk<'a>(contents: &'a [u8], compression: &'a [u8], size: u64) -> Chunk<'a> {
        let claimed = contents.len() as u64;
        Chunk { uncompressed_size: size, crc: 0, compression, claimed, contents }
    }

    #[test]
    fn absurd_claims_are_refused_before_anything_is_allocated() {
        let mut out = Vec::new();
        let bomb = chunk(b"", b"zstd", u64::MAX);
        assert!(decompress(&bomb, Compression::Zstd, &mut out).unwrap_err().contains("allowed"));
        assert_eq!(out.capacity(), 0);
    }

    #[test]
    fn a_claim_within_the_limit_costs_only_what_the_stream_yields() {
        let packed = zstd::encode_all(&b"seven"[..], 0).unwrap();
        let mut out = Vec::new();
        let message =
            decompress(&chunk(&packed, b"zstd", MAX_CHUNK_BYTES), Compression::Zstd, &mut out)
                .unwrap_err();
        assert!(message.contains("yields 5 of the 1073741824"), "{message}");
        assert!(out.capacity() <= 2 * FIRST_STEP as usize);
    }

    #[test]
    fn a_stream_that_yields_more_than_claimed_is_stopped() {
        let packed = zstd::encode_all(&vec![0u8; 1 << 20][..], 0).unwrap();
        let mut out = Vec::new();
        let message =
            decompress(&chunk(&packed, b"zstd", 1000), Compression::Zstd, &mut out).unwrap_err();
        assert!(message.contains("more than the 1000"), "{message}");
        assert_eq!(out.len(), 1001);
    }

    #[test]
    fn unknown_compression_is_quoted() {
        let message = Compression::of(&chunk(b"", b"br\xff", 0)).err();
        assert!(message.is_some_and(|message| message.contains("'br\\xff'")));
    }
}
