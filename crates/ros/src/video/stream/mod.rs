//! The pictures of a stream: which packets can be decoded, and what of them the decoder gets.
//!
//! A stream begins at a key frame (IDR) whose parameter sets are known. After a packet that is damaged or
//! missing it begins again at the next one. The decoder gets parameter sets and slices, and nothing else.

mod coded;

use std::collections::BTreeMap;

use super::bits::{REENCODE, STAGE, damaged};
use super::nal::{Unit, UnitKind, units};
use super::parameters::{
    Color, PictureParameters, SequenceParameters, SliceStart, SliceType, check_len, profile_name,
};
pub(super) use coded::CodedPicture;
use det_post_types::{Error, ErrorKind, FrameCrop, Result, Size};

/// The most pixels of a picture, and of all pictures that a decoder keeps: the limits of level 5.2.
const MAX_MACROBLOCKS: u64 = 36_864;
const MAX_KEPT_MACROBLOCKS: u64 = 184_320;

/// The state of a stream between two packets.
#[derive(Default)]
pub(super) struct Stream {
    sequences: BTreeMap<u32, Set<SequenceParameters>>,
    pictures: BTreeMap<u32, Set<PictureParameters>>,
    /// Since its last key frame; `None`: it waits for one.
    current: Option<Current>,
    /// Whether an image did not decode since the parameter sets came.
    doubts_sets: bool,
}

/// A parameter set and its bytes.
struct Set<P> {
    parameters: P,
    bytes: Vec<u8>,
}

/// A stream that is being decoded.
#[derive(Clone, Copy)]
struct Current {
    sequence: SequenceParameters,
    /// Of the last picture that others may depend on.
    last_frame_num: u32,
}

/// A picture that is to be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextPicture {
    pub(super) crop: FrameCrop,
    pub(super) color: Color,
    pub(super) is_key: bool,
}

/// The slices of one picture.
struct Slices<'a> {
    first: SliceStart<'a>,
    is_key: bool,
    has_reordering: bool,
}

impl Stream {
    /// Begins again at the next key frame.
    pub(super) fn wait_for_key_frame(&mut self) {
        self.current = None;
    }

    /// Begins again after an image that did not decode: a damaged parameter set may be the reason, which
    /// would spoil every later key frame. The next key frame that has its sets replaces all.
    pub(super) fn doubt_sets(&mut self) {
        self.wait_for_key_frame();
        self.doubts_sets = true;
    }

    /// Takes a packet of one picture, whose NAL units it writes for a decoder.
    ///
    /// # Errors
    /// `VideoCodec` for a packet that is damaged or follows a missing one, `NoImage` for one before
    /// the first key frame or without a picture, `Encoding` for what is not decoded, `TooLarge` for
    /// a picture of more than `max_bytes`. The stream waits for a key frame after all but parameter sets and
    /// pictures that no other depends on.
    pub(super) fn take(
        &mut self,
        packet: &[u8],
        max_bytes: usize,
        decodable: &mut CodedPicture,
    ) -> Result<NextPicture> {
        decodable.clear();
        if self.doubts_sets && key_frame(packet) == KeyFrame::Complete {
            self.sequences.clear();
            self.pictures.clear();
            self.doubts_sets = false;
        }
        let taken = self.take_sets(packet).and_then(|()| match slices(packet)? {
            Some(slices) => self.take_picture(packet, &slices, max_bytes, decodable),
            None => Err(no_image("the packet has parameter sets and no image")),
        });
        if let Err(error) = &taken
            && !matches!(error.kind(), ErrorKind::NoImage)
            && !is_droppable(packet)
        {
            self.wait_for_key_frame();
        }
        taken
    }

    fn take_sets(&mut self, packet: &[u8]) -> Result<()> {
        for unit in units(packet)? {
            match unit.kind() {
                UnitKind::Sequence => {
                    check_len(unit)?;
                    let parameters = SequenceParameters::read(unit)?;
                    let bytes = unit.bytes.to_vec();
                    self.sequences.insert(parameters.id, Set { parameters, bytes });
                }
                UnitKind::Picture => {
                    check_len(unit)?;
                    let parameters = PictureParameters::read(unit)?;
                    let bytes = unit.bytes.to_vec();
                    self.pictures.insert(parameters.id, Set { parameters, bytes });
                }
                UnitKind::Partition => {
                    return Err(unsupported("slices in partitions (extended profile)"));
                }
                UnitKind::Slice | UnitKind::KeySlice | UnitKind::Other => {}
            }
        }
        Ok(())
    }

    fn take_picture(
        &mut self,
        packet: &[u8],
        slices: &Slices<'_>,
        max_bytes: usize,
        decodable: &mut CodedPicture,
    ) -> Result<NextPicture> {
        if slices.has_reordering {
            return Err(unsupported(
                "B frames, which are displayed in another order than they are sent in",
            ));
        }
        let sequence = self.sequence_of(&slices.first);
        if sequence.is_err() {
            self.wait_for_key_frame();
        }
        let sequence = sequence?;
        let picture = self.pictures.get(&slices.first.picture);
        if sequence.has_scaling || picture.is_some_and(|set| set.parameters.has_scaling) {
            return Err(unsupported("scaling matrices (high profile)"));
        }
        if slices.is_key {
            check_decodable(&sequence, max_bytes)?;
            // All of them: a decoder that was made again knows none.
            self.sequences.values().for_each(|set| decodable.push_sequence(&set.bytes));
            self.pictures.values().for_each(|set| decodable.push(&set.bytes));
            self.current = Some(Current { sequence, last_frame_num: 0 });
        } else {
            self.check_follows(&slices.first, &sequence)?;
        }
        for unit in units(packet)? {
            // Its sequence is that of the key frame.
            let is_new_set = unit.kind() == UnitKind::Picture && !slices.is_key;
            if is_new_set || matches!(unit.kind(), UnitKind::Slice | UnitKind::KeySlice) {
                decodable.push(unit.bytes);
            }
        }
        let SequenceParameters { crop, color, .. } = sequence;
        Ok(NextPicture { crop, color, is_key: slices.is_key })
    }

    /// The parameters of a slice.
    fn sequence_of(&self, slice: &SliceStart<'_>) -> Result<SequenceParameters> {
        let picture = self.pictures.get(&slice.picture);
        let sequence = picture.and_then(|set| self.sequences.get(&set.parameters.sequence));
        sequence.map(|set| set.parameters).ok_or_else(|| {
            no_image("the parameter sets (SPS, PPS) of the image did not arrive before it")
        })
    }

    /// Checks that a picture depends on none that is missing.
    fn check_follows(
        &mut self,
        slice: &SliceStart<'_>,
        sequence: &SequenceParameters,
    ) -> Result<()> {
        let Some(current) = &mut self.current else {
            return Err(no_image("the image depends on a key frame that did not arrive"));
        };
        if current.sequence != *sequence {
            return Err(damaged("the parameters of the sequence change without a key frame"));
        }
        let frame_num = slice.frame_num(sequence)?;
        let expected = (current.last_frame_num + 1) % (1 << sequence.frame_num_bits);
        if frame_num != expected && !sequence.allows_gaps {
            return Err(damaged(format!(
                "packets are missing: the image has frame_num {frame_num}, expected is {expected}"
            )));
        }
        if slice.is_reference() {
            current.last_frame_num = frame_num;
        }
        Ok(())
    }

    /// One line about a packet: its kind, and the pictures of its stream.
    pub(super) fn describe(&mut self, packet: &[u8]) -> Result<String> {
        self.take_sets(packet)?;
        let Some(slices) = slices(packet)? else { return Ok("parameter sets".to_owned()) };
        let kind = match (slices.is_key, slices.has_reordering) {
            (true, _) => "key frame",
            (false, true) => "B frame",
            (false, false) => "image that depends on others",
        };
        Ok(match self.sequence_of(&slices.first) {
            Ok(SequenceParameters { crop, profile, .. }) => {
                let Size { width, height } = crop.size;
                format!("{kind} of {width}x{height}, {} profile", profile_name(profile))
            }
            Err(_) => kind.to_owned(),
        })
    }
}

/// The slices of a packet; `None` where it has none.
fn slices(packet: &[u8]) -> Result<Option<Slices<'_>>> {
    let mut found: Option<Slices<'_>> = None;
    for unit in units(packet)? {
        let is_key = unit.kind() == UnitKind::KeySlice;
        if !is_key && unit.kind() != UnitKind::Slice {
            continue;
        }
        let slice = SliceStart::read(unit)?;
        if slice.slice_type == SliceType::Switching {
            return Err(unsupported("switching slices (extended profile)"));
        }
        let has_reordering = slice.slice_type == SliceType::Bidirectional;
        match &mut found {
            None if slice.first_macroblock > 0 => {
                return Err(damaged("the first slice of the image is missing"));
            }
            None => found = Some(Slices { first: slice, is_key, has_reordering }),
            Some(_) if slice.first_macroblock == 0 => {
                return Err(unsupported("a packet of two images; a message has one"));
            }
            Some(slices) if slices.is_key != is_key => {
                return Err(damaged("slices of a key frame and of another image in one packet"));
            }
            Some(slices) => slices.has_reordering |= has_reordering,
        }
    }
    Ok(found)
}

/// Whether no other picture depends on the pictures of a packet.
fn is_droppable(packet: &[u8]) -> bool {
    let is_slice = |unit: &Unit<'_>| matches!(unit.kind(), UnitKind::Slice | UnitKind::KeySlice);
    let Ok(units) = units(packet) else { return false };
    let mut slices = units.filter(is_slice).peekable();
    slices.peek().is_some() && slices.all(|unit| !unit.is_reference())
}

/// What a packet is to a stream that begins at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFrame {
    /// It depends on packets before it.
    No,
    /// A key frame whose parameter sets were sent before it.
    WithoutParameters,
    /// A key frame with its parameter sets.
    Complete,
}

/// What a packet is to a stream that begins at it; a damaged one is `No`.
pub(super) fn key_frame(packet: &[u8]) -> KeyFrame {
    let (mut is_key, mut has_sequence, mut has_picture) = (false, false, false);
    for unit in units(packet).into_iter().flatten() {
        match unit.kind() {
            UnitKind::KeySlice => is_key = true,
            UnitKind::Sequence => has_sequence = true,
            UnitKind::Picture => has_picture = true,
            _ => {}
        }
    }
    match (is_key, has_sequence && has_picture) {
        (false, _) => KeyFrame::No,
        (true, false) => KeyFrame::WithoutParameters,
        (true, true) => KeyFrame::Complete,
    }
}

/// Checks that a decoder can decode a sequence, in bounded memory.
fn check_decodable(sequence: &SequenceParameters, max_bytes: usize) -> Result<()> {
    let SequenceParameters { profile, chroma_format, bit_depth, num_references, .. } = *sequence;
    let (name, Size { width, height }) = (profile_name(profile), sequence.crop.size);
    if !sequence.is_progressive {
        return Err(unsupported("interlaced video"));
    }
    if chroma_format != 1 || bit_depth > 8 {
        return Err(unsupported(&format!(
            "{name} profile with chroma format {chroma_format} and {bit_depth} bits; decoded is 4:2:0 of 8 bits"
        )));
    }
    let Size { width: across, height: down } = sequence.crop.coded;
    let macroblocks = u64::from(across / 16) * u64::from(down / 16);
    let kept = macroblocks * u64::from(num_references);
    if width == 0 || height == 0 || macroblocks > MAX_MACROBLOCKS || kept > MAX_KEPT_MACROBLOCKS {
        return Err(unsupported(&format!(
            "images of {width}x{height} with {num_references} references; decoded is up to level 5.2"
        )));
    }
    let num_bytes = width as usize * height as usize * 3 / 2;
    if num_bytes > max_bytes {
        let message = format!(
            "an image of {width}x{height} has {num_bytes} bytes, at most {max_bytes} are allowed"
        );
        return Err(Error::new(ErrorKind::TooLarge, STAGE, message));
    }
    Ok(())
}

fn no_image(message: &str) -> Error {
    Error::new(ErrorKind::NoImage, STAGE, message)
}

fn unsupported(found: &str) -> Error {
    Error::new(ErrorKind::Encoding, STAGE, format!("{found}: not decoded. {REENCODE}"))
}

#[cfg(test)]
mod tests;
