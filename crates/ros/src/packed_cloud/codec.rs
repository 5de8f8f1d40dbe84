//! What the decoders share: their memory and their errors.

use det_post_types::{Error, ErrorKind, Result};

/// The stage of all errors.
pub(super) const STAGE: &str = "unpack cloud";

/// The error of a payload that does not decode.
pub(super) fn undecodable(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::CloudCodec, STAGE, message)
}

/// The error of sizes that contradict each other.
pub(super) fn contradicts(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Layout, STAGE, message)
}

/// The memory of decoders.
#[derive(Default)]
pub(super) struct Codecs {
    pub(super) zstd: Zstd,
    /// A chunk of Cloudini, decompressed.
    pub(super) chunk: Vec<u8>,
}

/// A decoder of zstd frames, which is made for the first.
#[derive(Default)]
pub(super) struct Zstd(Option<zstd::bulk::Decompressor<'static>>);

impl Zstd {
    /// Decompresses frames to a buffer that is large enough for them; returns the number of bytes.
    pub(super) fn decompress(
        &mut self,
        frames: &[u8],
        buffer: &mut [u8],
    ) -> std::io::Result<usize> {
        let decompressor = match &mut self.0 {
            Some(known) => known,
            none => none.insert(zstd::bulk::Decompressor::new()?),
        };
        decompressor.decompress_to_buffer(frames, buffer)
    }
}

/// What fills the data of a message.
pub(super) trait Fill {
    /// Writes every byte of the data.
    fn fill(&self, codecs: &mut Codecs, data: &mut [u8]) -> Result<()>;
}
