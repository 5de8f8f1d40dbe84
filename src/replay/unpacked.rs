//! Messages of a recording as channels read them.

use crate::runtime::video_decoder::{InputDecoder, VideoPlace};
use det_post_ops::image::decompress::video::DevicePicture;
use det_post_ros::middleware::InputKind;
use det_post_ros::packed_cloud::Unpacker;
use det_post_ros::video::{Decoded, grown};
use det_post_types::{Header, Result};

/// Memory for messages that are unpacked: packed clouds and packets of video.
#[derive(Default)]
pub(super) struct Unpacked {
    unpacker: Unpacker,
    /// Where video is decoded.
    place: VideoPlace,
    /// The decoders of video, by input.
    decoders: Vec<Decoder>,
    message: Vec<u8>,
}

/// The decoder of an input.
struct Decoder {
    decoder: InputDecoder,
    /// Of the last packet. Another decoder could not use its memory.
    picture: DevicePicture,
}

/// A message as a channel reads it.
pub(super) enum Readable<'m> {
    /// A whole CDR message.
    Message(InputKind, &'m [u8]),
    /// A picture on the channel's GPU, in memory that may be exchanged for other.
    Picture(Header<'m>, &'m mut DevicePicture),
}

/// What a message is unpacked to.
pub(super) enum UnpackedTo<'m> {
    /// It is read as it is.
    Itself,
    /// A message of another kind.
    Message(InputKind),
    /// A picture on the channel's GPU.
    Picture(Header<'m>),
}

impl Unpacked {
    /// For a channel whose video is decoded in a place.
    pub(super) fn new(place: VideoPlace) -> Self {
        Self { place, ..Self::default() }
    }

    /// A packed cloud as a `PointCloud2`, and a packet of video as an `Image` or a picture, with at most `max_bytes` of
    /// data; other messages as they are. The packets of an input are in their order.
    ///
    /// # Errors
    /// Returns the errors of [`Self::unpack_to`].
    pub(super) fn of<'m>(
        &'m mut self,
        input: usize,
        kind: InputKind,
        data: &'m [u8],
        max_bytes: usize,
    ) -> Result<Readable<'m>> {
        let mut message = std::mem::take(&mut self.message);
        let mut picture = std::mem::take(&mut self.decoder(input).picture);
        let unpacked = self.unpack_to(input, kind, data, max_bytes, &mut message, &mut picture);
        self.message = message;
        self.decoder(input).picture = picture;
        Ok(match unpacked? {
            UnpackedTo::Itself => Readable::Message(kind, data),
            UnpackedTo::Message(kind) => Readable::Message(kind, &self.message),
            UnpackedTo::Picture(header) => {
                Readable::Picture(header, &mut self.decoder(input).picture)
            }
        })
    }

    /// Writes a message that is to be unpacked to `message`, or its picture to `picture`.
    ///
    /// # Errors
    /// Returns the errors of [`Unpacker::unpack`] and [`InputDecoder::decode`].
    pub(super) fn unpack_to<'m>(
        &mut self,
        input: usize,
        kind: InputKind,
        data: &'m [u8],
        max_bytes: usize,
        message: &mut Vec<u8>,
        picture: &mut DevicePicture,
    ) -> Result<UnpackedTo<'m>> {
        if let InputKind::PackedCloud(packed) = kind {
            self.unpacker.unpack_to(packed, data, max_bytes, message)?;
            return Ok(UnpackedTo::Message(InputKind::PointCloud2));
        }
        let Some(video) = kind.video_in(data) else { return Ok(UnpackedTo::Itself) };
        let Decoder { decoder, .. } = self.decoder(input);
        Ok(match decoder.decode(video, data, max_bytes, picture, grown(message))? {
            Decoded::Message => UnpackedTo::Message(InputKind::Image),
            Decoded::Elsewhere(header) => UnpackedTo::Picture(header),
        })
    }

    /// Decodes a packet of video whose picture is not needed. What is wrong with it is reported with the
    /// pictures that depend on it.
    pub(super) fn skip(&mut self, input: usize, kind: InputKind, data: &[u8], max_bytes: usize) {
        let Some(video) = kind.video_in(data) else { return };
        let Decoder { decoder, picture } = self.decoder(input);
        if let Err(error) = decoder.skip(video, data, max_bytes, picture) {
            tracing::debug!("before the slice: {error}");
        }
    }

    fn decoder(&mut self, input: usize) -> &mut Decoder {
        let Self { place, decoders, .. } = self;
        if decoders.len() <= input {
            let new = || {
                let decoder = InputDecoder::new(place.clone());
                Decoder { decoder, picture: DevicePicture::default() }
            };
            decoders.resize_with(input + 1, new);
        }
        &mut decoders[input]
    }
}
