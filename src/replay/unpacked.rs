//! Messages of a recording as channels read them.

use det_post_ros::middleware::InputKind;
use det_post_ros::packed_cloud::Unpacker;
use det_post_ros::video::VideoDecoder;
use det_post_types::Result;

/// Memory for messages that are unpacked: packed clouds and packets of video.
#[derive(Default)]
pub(super) struct Unpacked {
    unpacker: Unpacker,
    /// The decoders of video, by input.
    decoders: Vec<VideoDecoder>,
    message: Vec<u8>,
}

impl Unpacked {
    /// A packed cloud as a `PointCloud2`, and a packet of video as an `Image`, with at most `max_bytes` of data; other
    /// messages as they are. The packets of an input are in their order.
    ///
    /// # Errors
    /// Returns the errors of [`Self::unpack_to`].
    pub(super) fn of<'m>(
        &'m mut self,
        input: usize,
        kind: InputKind,
        data: &'m [u8],
        max_bytes: usize,
    ) -> Result<(InputKind, &'m [u8])> {
        let mut message = std::mem::take(&mut self.message);
        let unpacked = self.unpack_to(input, kind, data, max_bytes, &mut message);
        self.message = message;
        Ok(match unpacked? {
            Some(kind) => (kind, &self.message),
            None => (kind, data),
        })
    }

    /// Writes a message that is to be unpacked to `message`, and returns its kind from then on; `None` for
    /// others.
    ///
    /// # Errors
    /// Returns the errors of [`Unpacker::unpack`] and [`VideoDecoder::decode`].
    pub(super) fn unpack_to(
        &mut self,
        input: usize,
        kind: InputKind,
        data: &[u8],
        max_bytes: usize,
        message: &mut Vec<u8>,
    ) -> Result<Option<InputKind>> {
        if let InputKind::PackedCloud(packed) = kind {
            self.unpacker.unpack_to(packed, data, max_bytes, message)?;
            return Ok(Some(InputKind::PointCloud2));
        }
        let Some(video) = kind.video_in(data) else { return Ok(None) };
        self.decoder(input).decode_to(video, data, max_bytes, message)?;
        Ok(Some(InputKind::Image))
    }

    /// Decodes a packet of video whose picture is not needed. What is wrong with it is reported with the
    /// pictures that depend on it.
    pub(super) fn skip(&mut self, input: usize, kind: InputKind, data: &[u8], max_bytes: usize) {
        if let Some(video) = kind.video_in(data)
            && let Err(error) = self.decoder(input).skip(video, data, max_bytes)
        {
            tracing::debug!("before the slice: {error}");
        }
    }

    fn decoder(&mut self, input: usize) -> &mut VideoDecoder {
        if self.decoders.len() <= input {
            self.decoders.resize_with(input + 1, VideoDecoder::default);
        }
        &mut self.decoders[input]
    }
}
