//! Video as images: H.264 in messages, decoded on the CPU or, by a [`PictureDecoder`], elsewhere.
//!
//! | message | named by | the topic of `image_transport` |
//! |---|---|---|
//! | `foxglove_msgs/CompressedVideo` | `format` | `…/foxglove` |
//! | `ffmpeg_image_transport_msgs/FFMPEGPacket` | the first name of `encoding`: a codec, or an encoder of FFmpeg | `…/ffmpeg` |
//! | `sensor_msgs/CompressedImage` | `format` | |
//! | `sensor_msgs/Image` | `encoding` | |
//!
//! A message has one picture, as NAL units with start codes (Annex B). [`VideoDecoder`] writes each as a
//! `sensor_msgs/Image` of encoding `nv12` with the stamp and the frame of its message: the decoder's samples, so
//! that everything that reads `nv12` reads video. Colours are taken as in every `nv12` image, BT.601 of limited range; a stream that
//! states others is a warning.
//!
//! A picture depends on those before it. A stream begins at a key frame (IDR) whose parameter sets (SPS, PPS) are known,
//! and again after a packet that is damaged or, by its `frame_num`, missing; until then its messages are
//! [`ErrorKind::NoImage`]. Decoded are progressive pictures of 4:2:0 and 8 bits up to level 5.2, in the baseline, main and high
//! profiles, whose size may change at a key frame. Refused by name, as [`ErrorKind::Encoding`]: B frames, whose
//! pictures are displayed in another order than they are sent in, interlaced video, scaling matrices, other chroma and depths,
//! lengths in place of start codes (AVCC), two pictures in a message, other codecs.
//!
//! Sources: ITU-T H.264, 7.3 and Annex B; the definitions of the messages; the decoder is the crate `openh264`, with the
//! feature `video`. Without it every picture is refused by name.

mod bits;
mod decoder;
mod nal;
mod packet;
mod parameters;
mod picture;
mod stream;

use crate::cdr::Writer;
use crate::messages::Image;
use bits::STAGE;
use decoder::Decoder;
use det_post_types::{Encoding, Error, ErrorKind, FrameCrop, Header, Result, Size};
use packet::Packet;
use parameters::Color;
use picture::Picture;
use stream::{CodedPicture, NextPicture, Stream};

pub use packet::{VideoMessage, names_video};
pub use stream::KeyFrame;

/// `matrix_coefficients` of BT.601, of either line count, and of a stream that states none.
const BT_601: [u32; 3] = [2, 5, 6];

/// Decodes the stream of a topic, message by message in their order. Its memory is used again; the decoder has
/// at most the pictures of level 5.2, 70 MB.
#[derive(Default)]
pub struct VideoDecoder {
    stream: Stream,
    decoder: Decoder,
    coded: CodedPicture,
    /// A message up to its pixels.
    prefix: Vec<u8>,
    has_warned: bool,
}

/// Decodes pictures into memory of another kind, such as a GPU's, in place of the CPU.
pub trait PictureDecoder {
    /// Decodes the NAL units of one picture, with start codes, which is there in its frame. No picture waits: they come
    /// in the order in which they are sent. The first one, and the first after [`Self::reset`], is a key frame with all
    /// parameter sets.
    ///
    /// # Errors
    /// `VideoCodec` when the picture is damaged; [`Self::reset`] follows. After any other error it decodes no more.
    fn decode(&mut self, units: &[u8], crop: FrameCrop) -> Result<()>;

    /// Forgets all pictures.
    fn reset(&mut self);
}

/// Where the picture of a packet is.
#[derive(Clone, Copy, Debug)]
pub enum Decoded<'a> {
    /// In a message of `sensor_msgs/Image`.
    Message,
    /// With the [`PictureDecoder`]; the header of its message.
    Elsewhere(Header<'a>),
}

impl VideoDecoder {
    /// Decodes a CDR message, whose encapsulation header is included, and writes its picture as a CDR message of
    /// `sensor_msgs/Image` to the memory that `memory` gives for a number of bytes. It is called once the
    /// picture is decoded, and not otherwise.
    ///
    /// # Errors
    /// `Message` for a message that does not decode; `NoImage` before the first key frame, after a packet that was
    /// lost until the next key frame, and for a message of parameter sets; `VideoCodec` for a damaged
    /// packet, or one that follows a missing one; `Encoding` for what is not decoded; `TooLarge` when a
    /// packet or a picture has more than `max_data_bytes`; `Memory` when `memory` gives less than asked for. After an error
    /// the memory holds no message.
    pub fn decode<'m>(
        &mut self,
        message: VideoMessage,
        cdr: &[u8],
        max_data_bytes: usize,
        memory: impl FnOnce(usize) -> &'m mut [u8],
    ) -> Result<()> {
        self.decode_by(None, message, cdr, max_data_bytes, memory).map(drop)
    }

    /// As [`Self::decode`], with another decoder for the pictures, which has decoded those before since their key frame.
    /// A key frame that it does not decode is decoded on the CPU; so is what follows, without the other decoder.
    ///
    /// # Errors
    /// As [`Self::decode`], and those of the other decoder for a picture that is no key frame: the next one is awaited.
    pub fn decode_by<'c, 'm>(
        &mut self,
        other: Option<&mut dyn PictureDecoder>,
        message: VideoMessage,
        cdr: &'c [u8],
        max_data_bytes: usize,
        memory: impl FnOnce(usize) -> &'m mut [u8],
    ) -> Result<Decoded<'c>> {
        let Packet { header, data } = self.packet(message, cdr, max_data_bytes)?;
        let next = self.stream.take(data, max_data_bytes, &mut self.coded)?;
        self.warn_of_colors(next.color, header);
        if self.is_decoded_by(other, &next)? {
            return Ok(Decoded::Elsewhere(header));
        }
        let Self { decoder, coded, prefix, .. } = self;
        let written = decoder.decode(coded.without_reordering(), |picture| {
            check_size(picture, &next)?;
            write(&header, picture, prefix, memory)
        });
        self.note(written).map(|()| Decoded::Message)
    }

    /// As [`Self::decode`], to memory that grows.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_to(
        &mut self,
        message: VideoMessage,
        cdr: &[u8],
        max_data_bytes: usize,
        memory: &mut Vec<u8>,
    ) -> Result<()> {
        self.decode(message, cdr, max_data_bytes, grown(memory))
    }

    /// As [`Self::decode_by`], for a picture that is not needed itself.
    ///
    /// # Errors
    /// As [`Self::decode_by`].
    pub fn skip_by(
        &mut self,
        other: Option<&mut dyn PictureDecoder>,
        message: VideoMessage,
        cdr: &[u8],
        max_data_bytes: usize,
    ) -> Result<()> {
        let packet = self.packet(message, cdr, max_data_bytes)?;
        let next = self.stream.take(packet.data, max_data_bytes, &mut self.coded)?;
        if self.is_decoded_by(other, &next)? {
            return Ok(());
        }
        let units = self.coded.without_reordering();
        let decoded = self.decoder.decode(units, |picture| check_size(picture, &next));
        self.note(decoded)
    }

    /// Whether another decoder decodes the picture that was taken; else the CPU does.
    ///
    /// # Errors
    /// As [`Self::decode_by`].
    fn is_decoded_by(
        &mut self,
        other: Option<&mut dyn PictureDecoder>,
        next: &NextPicture,
    ) -> Result<bool> {
        let Some(other) = other else { return Ok(false) };
        match other.decode(self.coded.units(), next.crop) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::VideoCodec => {
                other.reset();
                self.stream.doubt_sets();
                Err(error)
            }
            // It has all parameter sets.
            Err(_) if next.is_key => Ok(false),
            Err(error) => {
                self.stream.wait_for_key_frame();
                Err(error)
            }
        }
    }

    fn packet<'p>(
        &mut self,
        message: VideoMessage,
        cdr: &'p [u8],
        max_bytes: usize,
    ) -> Result<Packet<'p>> {
        let packet = message.packet(cdr).and_then(|packet| match packet.data.len() {
            len if len > max_bytes => {
                let message = format!("a packet has {len} bytes, at most {max_bytes} are allowed");
                Err(Error::new(ErrorKind::TooLarge, STAGE, message))
            }
            _ => Ok(packet),
        });
        if packet.is_err() {
            self.stream.wait_for_key_frame();
        }
        packet
    }

    /// Begins again after a picture that did not decode.
    fn note(&mut self, decoded: Result<()>) -> Result<()> {
        if decoded.as_ref().is_err_and(|error| error.kind() == ErrorKind::VideoCodec) {
            self.decoder.reset();
            self.stream.doubt_sets();
        }
        decoded
    }

    fn warn_of_colors(&mut self, color: Color, header: Header<'_>) {
        let is_read = BT_601.contains(&color.matrix) && !color.is_full_range;
        if !is_read && !std::mem::replace(&mut self.has_warned, true) {
            let (matrix, range) =
                (color.matrix, if color.is_full_range { "full" } else { "limited" });
            tracing::warn!(
                "video of {}: its colours are of matrix {matrix} (1: BT.709) and {range} range; read as nv12, \
                 BT.601 of limited range",
                header.frame_id
            );
        }
    }
}

/// Memory that grows to what is asked for.
pub fn grown<'m>(memory: &'m mut Vec<u8>) -> impl FnOnce(usize) -> &'m mut [u8] {
    |len| {
        memory.resize(len, 0);
        memory
    }
}

/// What a message is to a stream that begins at it; one that does not decode is `No`.
pub fn key_frame(message: VideoMessage, cdr: &[u8]) -> KeyFrame {
    message.packet(cdr).map_or(KeyFrame::No, |packet| stream::key_frame(packet.data))
}

/// One line about the message of a stream: the frame, the bytes, and what its picture is.
///
/// # Errors
/// The errors of [`VideoDecoder::decode`] that need no decoder.
pub fn describe(message: VideoMessage, cdr: &[u8]) -> Result<String> {
    let Packet { header, data } = message.packet(cdr)?;
    let picture = Stream::default().describe(data)?;
    Ok(format!("frame {}, h264, {} bytes, {picture}", header.frame_id, data.len()))
}

/// Checks that a picture is of the size that its parameters state, which was found to be allowed.
fn check_size(picture: &Picture<'_>, next: &NextPicture) -> Result<()> {
    let stated = next.crop.size;
    if picture.size == stated {
        return Ok(());
    }
    let [Size { width, height }, Size { width: across, height: down }] = [picture.size, stated];
    let message = format!("an image of {width}x{height} in a stream of {across}x{down}");
    Err(Error::new(ErrorKind::VideoCodec, STAGE, message))
}

/// Writes a message.
fn write<'m>(
    header: &Header<'_>,
    picture: &Picture<'_>,
    prefix: &mut Vec<u8>,
    memory: impl FnOnce(usize) -> &'m mut [u8],
) -> Result<()> {
    let Size { width, height } = picture.size;
    let num_bytes = width as usize * height as usize * 3 / 2;
    let image = Image {
        header: *header,
        height,
        width,
        encoding: Encoding::Nv12.to_ros(),
        step: width,
        ..Image::default()
    };
    image.write_up_to_data(num_bytes, &mut Writer::new(prefix));
    // Padded to four bytes as a writer pads.
    let len = (prefix.len() + num_bytes).next_multiple_of(4);
    let bytes = memory(len);
    if bytes.len() != len {
        let message = format!("an image takes {len} bytes, {} are there", bytes.len());
        return Err(Error::new(ErrorKind::Memory, STAGE, message));
    }
    let (start, rest) = bytes.split_at_mut(prefix.len());
    start.copy_from_slice(prefix);
    let (pixels, padding) = rest.split_at_mut(num_bytes);
    picture.write_nv12(pixels);
    padding.fill(0);
    Ok(())
}
