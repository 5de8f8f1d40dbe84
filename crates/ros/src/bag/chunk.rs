//! The contents of one MCAP chunk: bounded decompression and the checksum.

use std::io::Read;

use super::record::Chunk;

/// The first step by which the buffer grows; each further one doubles it.
const FIRST_STEP: usize = 64 << 10;

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

/// Decompresses `chunk` into `out`, which is cleared first. When the stream
/// fails, `out` contains the output before the failure.
///
/// The buffer grows with what the stream yields, never with what the head
/// claims, and its capacity never exceeds the claim unless it did before. (A
/// zstd stream names its own window besides; the library allows it 128 MiB.)
///
/// # Errors
///
/// A message when the stream is malformed or yields another size than claimed.
pub(super) fn decompress(
    chunk: &Chunk<'_>,
    compression: Compression,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    out.clear();
    let claimed = chunk.uncompressed_size;
    let stream = chunk.contents;
    let is_whole = match compression {
        Compression::None => fill(stream, claimed, out),
        Compression::Lz4 => lz4::Decoder::new(stream).and_then(|lz4| fill(lz4, claimed, out)),
        Compression::Zstd => zstd::stream::read::Decoder::with_buffer(stream)
            .and_then(|zstd| fill(zstd, claimed, out)),
    };
    match is_whole {
        Err(error) => Err(format!("the chunk does not decompress: {error}")),
        Ok(false) => Err(format!("the chunk yields more than the {claimed} bytes it claims")),
        Ok(true) if out.len() as u64 == claimed => Ok(()),
        Ok(true) => Err(format!("the chunk yields {} of the {claimed} bytes it claims", out.len())),
    }
}

/// Appends at most `claimed` bytes of a stream to `out`; whether that was all.
fn fill(mut stream: impl Read, claimed: u64, out: &mut Vec<u8>) -> std::io::Result<bool> {
    let claimed = usize::try_from(claimed).unwrap_or(usize::MAX);
    while out.len() < claimed {
        let step = out.len().max(FIRST_STEP).min(claimed - out.len());
        out.reserve_exact(step);
        if stream.by_ref().take(step as u64).read_to_end(out)? < step {
            return Ok(true);
        }
    }
    Ok(stream.read(&mut [0])? == 0)
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
    Err(format!("the chunk has checksum {found:08x}, its head declares {:08x}", chunk.crc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk<'a>(contents: &'a [u8], compression: &'a [u8], size: u64) -> Chunk<'a> {
        let claimed = contents.len() as u64;
        Chunk { uncompressed_size: size, crc: 0, compression, claimed, contents }
    }

    #[test]
    fn a_claim_costs_only_what_the_stream_yields() {
        let packed = zstd::encode_all(&b"seven"[..], 0).unwrap();
        for claimed in [1 << 30, u64::MAX] {
            let mut out = Vec::new();
            let chunk = chunk(&packed, b"zstd", claimed);
            let message = decompress(&chunk, Compression::Zstd, &mut out).unwrap_err();
            assert!(message.contains(&format!("yields 5 of the {claimed}")), "{message}");
            assert!(out.capacity() <= FIRST_STEP);
        }
    }

    #[test]
    fn the_buffer_never_exceeds_the_claim() {
        for len in [0, 1, 1000, FIRST_STEP, FIRST_STEP + 1, 300_000] {
            let contents: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let packed = zstd::encode_all(&*contents, 0).unwrap();
            let mut out = Vec::new();
            decompress(&chunk(&packed, b"zstd", len as u64), Compression::Zstd, &mut out).unwrap();
            assert!(out == contents && out.capacity() <= len, "{len}: {}", out.capacity());
        }
    }

    #[test]
    fn a_stream_that_yields_more_than_claimed_is_stopped() {
        let packed = zstd::encode_all(&vec![0u8; 1 << 20][..], 0).unwrap();
        let mut out = Vec::new();
        let message =
            decompress(&chunk(&packed, b"zstd", 1000), Compression::Zstd, &mut out).unwrap_err();
        assert!(message.contains("more than the 1000"), "{message}");
        assert_eq!((out.len(), out.capacity()), (1000, 1000));
    }

    #[test]
    fn unknown_compression_is_quoted() {
        let message = Compression::of(&chunk(b"", b"br\xff", 0)).err();
        assert!(message.is_some_and(|message| message.contains("'br\\xff'")));
    }
}
