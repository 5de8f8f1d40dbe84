//! Which packets are decoded, by streams whose headers are written here: no decoder is needed.

use super::*;
use crate::video::nal::push_unit;

/// Bits of a NAL unit.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn bits(mut self, value: u32, num: u32) -> Self {
        self.0.extend((0..num).rev().map(|at| value >> at & 1 == 1));
        self
    }

    fn unsigned(self, value: u32) -> Self {
        let num = (value + 1).ilog2();
        self.bits(0, num).bits(value + 1, num + 1)
    }

    /// The unit with its stop bit and without emulation prevention, which these do not need.
    fn unit(self, first: u8) -> Vec<u8> {
        let mut bits = self.bits(1, 1).0;
        bits.resize(bits.len().next_multiple_of(8), false);
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        let mut unit = vec![first];
        unit.extend(bits.chunks(8).map(byte));
        unit
    }
}

/// What differs between the sequences of the tests.
#[derive(Clone, Copy)]
struct Sequence {
    id: u32,
    profile: u32,
    chroma_format: u32,
    has_scaling: bool,
    bit_depth: u32,
    num_references: u32,
    macroblocks: [u32; 2],
    is_progressive: bool,
    allows_gaps: bool,
    /// `frame_crop_left_offset`, right, top, bottom.
    crop: Option<[u32; 4]>,
    /// `video_full_range_flag` and `matrix_coefficients`.
    color: Option<(u32, u32)>,
}

const SEQUENCE: Sequence = Sequence {
    id: 0,
    profile: 66,
    chroma_format: 1,
    has_scaling: false,
    bit_depth: 8,
    num_references: 1,
    macroblocks: [40, 23],
    is_progressive: true,
    allows_gaps: false,
    crop: Some([0, 0, 0, 4]),
    color: None,
};

impl Sequence {
    fn unit(self) -> Vec<u8> {
        let mut bits =
            Bits::default().bits(self.profile, 8).bits(0, 8).bits(31, 8).unsigned(self.id);
        if self.profile >= 100 {
            bits = bits.unsigned(self.chroma_format);
            if self.chroma_format == 3 {
                bits = bits.bits(0, 1);
            }
            // The depths, no bypass.
            bits = bits.unsigned(self.bit_depth - 8).unsigned(self.bit_depth - 8).bits(0, 1);
            bits = bits.bits(self.has_scaling.into(), 1);
            if self.has_scaling {
                bits = self.scaling_lists(bits);
            }
        }
        let [width, height] = self.macroblocks;
        // Numbers of pictures of 4 bits, order counts of type 2.
        bits = bits.unsigned(0).unsigned(2).unsigned(self.num_references);
        bits = bits.bits(self.allows_gaps.into(), 1).unsigned(width - 1).unsigned(height - 1);
        bits = bits.bits(self.is_progressive.into(), 1);
        if !self.is_progressive {
            bits = bits.bits(0, 1);
        }
        bits = bits.bits(1, 1).bits(self.crop.is_some().into(), 1);
        for offset in self.crop.into_iter().flatten() {
            bits = bits.unsigned(offset);
        }
        bits = bits.bits(self.color.is_some().into(), 1);
        if let Some((range, matrix)) = self.color {
            bits = bits.bits(0, 2).bits(1, 1).bits(5, 3).bits(range, 1).bits(1, 1);
            bits = bits.bits(1, 8).bits(1, 8).bits(matrix, 8);
        }
        bits.unit(0x67)
    }

    /// A list as it is by default, one of 8s, one that ends at once, and none.
    fn scaling_lists(self, mut bits: Bits) -> Bits {
        // se(v) of 0 is the bit 1; of -8 and 1 the codes 16 and 1.
        bits = bits.bits(1, 1).unsigned(16);
        bits = (0..16).fold(bits.bits(1, 1), |bits, _| bits.bits(1, 1));
        bits = bits.bits(1, 1).unsigned(1).unsigned(18);
        bits.bits(0, if self.chroma_format == 3 { 9 } else { 5 })
    }
}

fn picture_set() -> Vec<u8> {
    Bits::default().unsigned(0).unsigned(0).bits(0, 2).unsigned(0).unit(0x68)
}

/// A slice: its first byte, first macroblock, type and number of its picture.
fn slice(first: u8, first_macroblock: u32, slice_type: u32, frame_num: u32) -> Vec<u8> {
    let bits = Bits::default().unsigned(first_macroblock).unsigned(slice_type).unsigned(0);
    bits.bits(frame_num, 4).bits(0xabc, 12).unit(first)
}

fn key() -> Vec<u8> {
    slice(0x65, 0, 7, 0)
}

fn next(frame_num: u32) -> Vec<u8> {
    slice(0x41, 0, 5, frame_num)
}

fn packet(units: &[Vec<u8>]) -> Vec<u8> {
    let mut packet = Vec::new();
    units.iter().for_each(|unit| push_unit(&mut packet, unit));
    packet
}

fn first() -> Vec<u8> {
    packet(&[SEQUENCE.unit(), picture_set(), key()])
}

/// What becomes of each packet: `K` a key frame, `.` another picture, else the reason.
fn outcomes(packets: &[Vec<u8>]) -> Vec<&'static str> {
    let (mut stream, mut units) = (Stream::default(), CodedPicture::default());
    let outcome = |packet: &Vec<u8>| match stream.take(packet, 1 << 20, &mut units) {
        Ok(NextPicture { is_key: true, .. }) => "K",
        Ok(_) => ".",
        Err(error) => error.kind().reason(),
    };
    packets.iter().map(outcome).collect()
}

#[test]
fn a_stream_begins_at_a_key_frame_and_goes_on_without_gaps() {
    const NONE: &str = "no_image";
    const BAD: &str = "undecodable_video";
    let sets = || packet(&[SEQUENCE.unit(), picture_set()]);
    let bare = || packet(&[key()]);
    let of = |frame_num| packet(&[next(frame_num)]);
    let unused = |frame_num| packet(&[slice(0x01, 0, 5, frame_num)]);
    type Case = (&'static str, Vec<Vec<u8>>, Vec<&'static str>);
    let cases: Vec<Case> = vec![
        ("empty", vec![], vec![]),
        ("in order", vec![first(), of(1), of(2)], vec!["K", ".", "."]),
        ("before the first", vec![of(7), first(), of(1)], vec![NONE, "K", "."]),
        ("without sets", vec![bare(), first()], vec![NONE, "K"]),
        ("sets before", vec![sets(), bare(), of(1)], vec![NONE, "K", "."]),
        ("missing", vec![first(), of(2), of(3), bare(), of(1)], vec!["K", BAD, NONE, "K", "."]),
        ("twice", vec![first(), of(1), of(1)], vec!["K", ".", BAD]),
        ("one that none needs", vec![first(), unused(1), of(1), of(2)], vec!["K", ".", ".", "."]),
        ("damage", vec![first(), vec![1, 2, 3], of(1), bare()], vec!["K", BAD, NONE, "K"]),
        ("cut", vec![first(), vec![0, 0, 1, 0x41], bare()], vec!["K", BAD, "K"]),
        ("padding only", vec![packet(&[vec![0x0c, 0xff]]), first()], vec![NONE, "K"]),
    ];
    for (name, packets, expected) in cases {
        assert_eq!(outcomes(&packets), expected, "{name}");
    }
    // Numbers start over.
    let mut packets = vec![first()];
    packets.extend((1..40).map(|number| of(number % 16)));
    assert!(outcomes(&packets)[1..].iter().all(|outcome| *outcome == "."));
    // Gaps that the stream allows.
    let gaps = Sequence { allows_gaps: true, ..SEQUENCE };
    let first = packet(&[gaps.unit(), picture_set(), key()]);
    assert_eq!(outcomes(&[first, of(5)]), ["K", "."]);
}

#[test]
fn what_is_not_decoded_is_refused_by_name() {
    let b_frame = |first| packet(&[slice(first, 0, 6, 1)]);
    let next = || packet(&[next(1)]);
    // Nothing depends on the first B frame; the stream goes on.
    assert_eq!(outcomes(&[first(), b_frame(0x01), next()]), ["K", "unsupported_encoding", "."]);
    let expected = ["K", "unsupported_encoding", "no_image"];
    assert_eq!(outcomes(&[first(), b_frame(0x41), next()]), expected);

    let with = |sequence: Sequence| packet(&[sequence.unit(), picture_set(), key()]);
    let high = Sequence { profile: 100, ..SEQUENCE };
    for (sequence, part) in [
        (Sequence { is_progressive: false, ..SEQUENCE }, "interlaced video"),
        (Sequence { bit_depth: 10, ..high }, "high profile with chroma format 1 and 10 bits"),
        (Sequence { macroblocks: [256, 145], ..SEQUENCE }, "images of 4096x2312"),
        (Sequence { num_references: 16, macroblocks: [120, 120], ..SEQUENCE }, "16 references"),
        (Sequence { crop: Some([0, 320, 0, 0]), ..SEQUENCE }, "images of 0x368"),
    ] {
        let (mut stream, mut units) = (Stream::default(), CodedPicture::default());
        let error = stream.take(&with(sequence), 1 << 30, &mut units).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encoding, "{error}");
        assert!(error.message().contains(part), "{part}: {error}");
    }
    for (units, part) in [
        (vec![SEQUENCE.unit(), picture_set(), key(), key()], "a packet of two images"),
        (vec![vec![0x42, 0x88]], "partitions"),
        (vec![slice(0x41, 0, 3, 1)], "switching slices"),
    ] {
        let error =
            Stream::default().take(&packet(&units), 99, &mut CodedPicture::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encoding, "{error}");
        assert!(error.message().contains(part), "{part}: {error}");
    }
}

#[test]
fn sizes_and_colors_are_those_of_the_sequence() {
    let cases = [
        (SEQUENCE, Size::new(640, 360), (false, 2)),
        (Sequence { crop: None, ..SEQUENCE }, Size::new(640, 368), (false, 2)),
        (
            Sequence { profile: 100, color: Some((1, 1)), ..SEQUENCE },
            Size::new(640, 360),
            (true, 1),
        ),
        (
            Sequence { macroblocks: [1, 1], crop: Some([3, 4, 2, 5]), ..SEQUENCE },
            Size::new(2, 2),
            (false, 2),
        ),
    ];
    for (sequence, size, (is_full_range, matrix)) in cases {
        let packet = packet(&[sequence.unit(), picture_set(), key()]);
        let next = Stream::default().take(&packet, 1 << 20, &mut CodedPicture::default()).unwrap();
        assert_eq!((next.crop.size, next.color), (size, Color { is_full_range, matrix }));
    }
    let error = Stream::default()
        .take(&first(), 640 * 360 * 3 / 2 - 1, &mut CodedPicture::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(
        Stream::default().take(&first(), 640 * 360 * 3 / 2, &mut CodedPicture::default()).is_ok()
    );
}

/// Offsets count samples of chroma, and of fields where pictures may be fields (H.264, 7-19 to 7-22).
#[test]
fn pictures_are_where_the_sequence_states() {
    let high = Sequence { profile: 100, ..SEQUENCE };
    let cropped = |crop, of: Sequence| Sequence { crop: Some(crop), ..of };
    let all = [13, 12, 30, 31];
    let of_chroma = |chroma_format| Sequence { profile: 244, chroma_format, ..SEQUENCE };
    let fields = Sequence { is_progressive: false, macroblocks: [40, 12], ..SEQUENCE };
    let cases = [
        ("none", Sequence { crop: None, ..SEQUENCE }, [0, 0], [640, 368]),
        ("zeros", cropped([0; 4], SEQUENCE), [0, 0], [640, 368]),
        ("each side", cropped(all, SEQUENCE), [26, 60], [590, 246]),
        ("high", cropped(all, high), [26, 60], [590, 246]),
        ("colours", cropped(all, Sequence { color: Some((0, 6)), ..high }), [26, 60], [590, 246]),
        ("scaling", cropped(all, Sequence { has_scaling: true, ..high }), [26, 60], [590, 246]),
        ("fields", cropped([1, 2, 3, 4], fields), [2, 12], [634, 356]),
        ("grey", cropped(all, of_chroma(0)), [13, 30], [615, 307]),
        ("4:2:2", cropped(all, of_chroma(2)), [26, 30], [590, 307]),
        ("4:4:4", cropped(all, of_chroma(3)), [13, 30], [615, 307]),
        (
            "4:4:4 with scaling",
            cropped(all, Sequence { has_scaling: true, ..of_chroma(3) }),
            [13, 30],
            [615, 307],
        ),
        ("one sample", cropped([0, 319, 183, 0], SEQUENCE), [0, 366], [2, 2]),
        ("nothing", cropped([160, 160, 0, 0], SEQUENCE), [320, 0], [0, 368]),
        ("less than nothing", cropped([9999, 9999, 0, 0], SEQUENCE), [19998, 0], [0, 368]),
    ];
    for (name, sequence, offset, [width, height]) in cases {
        let unit = sequence.unit();
        let read = SequenceParameters::read(Unit { bytes: &unit }).unwrap();
        let coded = Size::new(640, if sequence.is_progressive { 368 } else { 384 });
        let expected = FrameCrop { coded, offset, size: Size::new(width, height) };
        assert_eq!(read.crop, expected, "{name}");
        assert_eq!(read.has_scaling, sequence.has_scaling, "{name}");
    }
}

/// The set that the picture's set names counts, and only a key frame may change it.
#[test]
fn each_sequence_has_its_crop() {
    let sequence = |id, left| Sequence { id, crop: Some([left, 0, 0, 4]), ..SEQUENCE }.unit();
    let picture_set =
        |id, of| Bits::default().unsigned(id).unsigned(of).bits(0, 2).unsigned(0).unit(0x68);
    let slice = |first, picture, frame_num| {
        let bits = Bits::default().unsigned(0).unsigned(if first == 0x65 { 7 } else { 5 });
        bits.unsigned(picture).bits(frame_num, 4).bits(0xabc, 12).unit(first)
    };
    let (mut stream, mut units) = (Stream::default(), CodedPicture::default());
    let mut left = |packet: &[Vec<u8>]| {
        stream.take(&self::packet(packet), 1 << 20, &mut units).map(|next| next.crop.offset[0])
    };
    let sets =
        [sequence(3, 5), sequence(0, 1), picture_set(0, 0), picture_set(1, 3), slice(0x65, 1, 0)];
    assert_eq!(left(&sets).unwrap(), 10);
    assert_eq!(left(&[slice(0x41, 1, 1)]).unwrap(), 10);
    // The set of another picture does not change this one's.
    assert_eq!(left(&[sequence(0, 2), slice(0x41, 1, 2)]).unwrap(), 10);
    assert_eq!(left(&[slice(0x65, 0, 0)]).unwrap(), 4);
    let changed = left(&[sequence(0, 7), slice(0x41, 0, 1)]).unwrap_err();
    assert!(changed.message().contains("change without a key frame"), "{changed}");
    assert_eq!(left(&[slice(0x65, 0, 0)]).unwrap(), 14);
}

#[test]
fn the_decoder_gets_sets_and_slices() {
    let (mut stream, mut units) = (Stream::default(), CodedPicture::default());
    let (delimiter, message) = (vec![0x09, 0xf0], vec![0x06, 1, 1, 0x80]);
    let second = slice(0x65, 460, 7, 0);
    let all = [delimiter, SEQUENCE.unit(), picture_set(), message, key(), second.clone()];
    stream.take(&packet(&all), 1 << 20, &mut units).unwrap();
    assert_eq!(units.units(), packet(&[SEQUENCE.unit(), picture_set(), key(), second.clone()]));
    // A key frame without sets gets those that are known.
    stream.take(&packet(&[key(), second.clone()]), 1 << 20, &mut units).unwrap();
    assert_eq!(units.units(), packet(&[SEQUENCE.unit(), picture_set(), key(), second.clone()]));
    stream.take(&packet(&[next(1)]), 1 << 20, &mut units).unwrap();
    assert_eq!(units.units(), packet(&[next(1)]));
    let error = stream.take(&packet(&[second]), 1 << 20, &mut units).unwrap_err();
    assert!(error.message().contains("the first slice of the image is missing"), "{error}");
    assert!(units.units().is_empty());
}

#[test]
fn key_frames_are_told_apart() {
    let sets = [SEQUENCE.unit(), picture_set()];
    for (units, expected) in [
        (&[sets[0].clone(), sets[1].clone(), key()][..], KeyFrame::Complete),
        (&[sets[0].clone(), key()], KeyFrame::WithoutParameters),
        (&[key()], KeyFrame::WithoutParameters),
        (&[next(1)], KeyFrame::No),
        (&sets, KeyFrame::No),
        (&[], KeyFrame::No),
    ] {
        assert_eq!(key_frame(&packet(units)), expected);
    }
}
