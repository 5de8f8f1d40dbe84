//! Sequences of pictures, and whether the engines of a GPU decode them.

use std::ffi::c_ulong;

use super::interface::{
    CHROMA_420, CODEC_H264, Capabilities, DecoderInfo, ON_ENGINES, SURFACE_NV12, VideoFormat,
};
use det_post_types::{Error, ErrorKind, FrameCrop, Result, Size};

/// Pictures that may be mapped at once.
const NUM_OUTPUT_SURFACES: c_ulong = 2;

/// A sequence that the engines decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Of the surfaces: whole macroblocks. The part of them that the parser states is not used: it is wrong where
    /// pictures do not begin at the left and at the top.
    pub(super) coded: Size,
    pub(super) num_surfaces: u8,
}

impl Sequence {
    /// A sequence of a stream.
    ///
    /// # Errors
    /// `Encoding` for one that the engines do not decode.
    pub(super) fn of(format: &VideoFormat, engines: &Capabilities) -> Result<Self> {
        let &VideoFormat { coded_width, coded_height, .. } = format;
        let depth = 8 + format.luma_depth_minus_8.max(format.chroma_depth_minus_8);
        let is_known = (format.codec, format.chroma, depth) == (CODEC_H264, CHROMA_420, 8);
        if !is_known || format.is_progressive == 0 {
            return Err(refused(&format!(
                "codec {}, chroma format {}, {depth} bits{}",
                format.codec,
                format.chroma,
                if format.is_progressive == 0 { ", interlaced" } else { "" }
            )));
        }
        let &Capabilities { min_width, min_height, max_width, max_height, .. } = engines;
        let is_wide_enough = (u32::from(min_width)..=max_width).contains(&coded_width);
        let is_high_enough = (u32::from(min_height)..=max_height).contains(&coded_height);
        let macroblocks = u64::from(coded_width / 16) * u64::from(coded_height / 16);
        if !is_wide_enough || !is_high_enough || macroblocks > engines.max_macroblocks.into() {
            return Err(refused(&format!(
                "images of {coded_width}x{coded_height}; decoded are {min_width}x{min_height} to \
                 {max_width}x{max_height} and {} macroblocks",
                engines.max_macroblocks
            )));
        }
        Ok(Self {
            coded: Size::new(coded_width, coded_height),
            // The parser takes 1 for «as before».
            num_surfaces: format.min_surfaces.max(2),
        })
    }

    /// Checks that a picture is a part of the surfaces, at even places.
    ///
    /// # Errors
    /// `VideoCodec`.
    pub(super) fn check(&self, crop: &FrameCrop) -> Result<()> {
        let FrameCrop { coded, offset: [left, top], size } = *crop;
        let is_part = |start: u32, len: u32, all: u32| {
            let end = start.checked_add(len);
            let is_even = start.is_multiple_of(2) && len.is_multiple_of(2);
            len > 0 && is_even && end.is_some_and(|end| end <= all)
        };
        let is_within =
            is_part(left, size.width, coded.width) && is_part(top, size.height, coded.height);
        if coded == self.coded && is_within {
            return Ok(());
        }
        let [found, stated, part] =
            [self.coded, coded, size].map(|Size { width, height }| format!("{width}x{height}"));
        let message = format!(
            "frames of {found} for NVDEC, in a stream of {stated} with images of {part} at {left}, {top}"
        );
        Err(Error::new(ErrorKind::VideoCodec, "device", message))
    }

    /// Whether a decoder of this sequence decodes another.
    pub(super) fn serves(&self, other: &Self) -> bool {
        self.coded == other.coded && self.num_surfaces >= other.num_surfaces
    }

    /// The decoder of the sequence, whose surfaces are the pictures as they are: neither scaled nor cropped.
    pub(super) fn decoder(&self) -> DecoderInfo {
        let [width, height] = [self.coded.width, self.coded.height].map(c_ulong::from);
        DecoderInfo {
            width,
            height,
            num_decode_surfaces: self.num_surfaces.into(),
            codec: CODEC_H264,
            chroma: CHROMA_420,
            flags: ON_ENGINES,
            max_width: width,
            max_height: height,
            surface: SURFACE_NV12,
            target_width: width,
            target_height: height,
            num_output_surfaces: NUM_OUTPUT_SURFACES,
            ..DecoderInfo::default()
        }
    }
}

/// Whether the engines decode H.264 of 4:2:0 and 8 bits to NV12.
pub(super) fn has_engines(engines: &Capabilities) -> bool {
    engines.is_supported != 0 && engines.surfaces & (1 << SURFACE_NV12) != 0
}

fn refused(found: &str) -> Error {
    Error::new(ErrorKind::Encoding, "device", format!("NVDEC does not decode {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINES: Capabilities = Capabilities {
        codec: CODEC_H264,
        chroma: CHROMA_420,
        bit_depth_minus_8: 0,
        reserved: [0; 3],
        is_supported: 1,
        num_engines: 7,
        surfaces: 1,
        max_width: 4096,
        max_height: 4096,
        max_macroblocks: 65_536,
        min_width: 48,
        min_height: 16,
        histogram: [0; 2],
        reserved_end: [0; 10],
    };

    fn format(coded_width: u32, coded_height: u32) -> VideoFormat {
        VideoFormat {
            codec: CODEC_H264,
            is_progressive: 1,
            min_surfaces: 5,
            coded_width,
            coded_height,
            chroma: CHROMA_420,
            ..VideoFormat::default()
        }
    }

    #[test]
    fn surfaces_are_whole_frames() {
        let sequence = Sequence::of(&format(1920, 1088), &ENGINES).unwrap();
        let DecoderInfo { height, target_height, num_decode_surfaces, .. } = sequence.decoder();
        assert_eq!([height, target_height, num_decode_surfaces], [1088, 1088, 5]);
        let small = format(64, 48);
        let part = Sequence::of(&small, &ENGINES).unwrap();
        let fewer = Sequence::of(&VideoFormat { min_surfaces: 0, ..small }, &ENGINES).unwrap();
        assert_eq!(fewer.num_surfaces, 2);
        assert!(part.serves(&fewer) && !fewer.serves(&part) && !part.serves(&sequence));
    }

    #[test]
    fn pictures_are_parts_of_their_surfaces() {
        let sequence = Sequence::of(&format(64, 48), &ENGINES).unwrap();
        let cases = [
            ([64, 48], [0, 0], [64, 48], true),
            ([64, 48], [2, 4], [62, 44], true),
            ([64, 48], [62, 46], [2, 2], true),
            ([64, 48], [2, 0], [64, 48], false),
            ([64, 48], [0, 2], [64, 48], false),
            ([64, 48], [1, 0], [62, 48], false),
            ([64, 48], [0, 0], [63, 48], false),
            ([64, 48], [0, 0], [0, 48], false),
            ([64, 48], [u32::MAX - 1, 0], [2, 2], false),
            ([64, 64], [0, 0], [64, 48], false),
        ];
        for (coded, offset, size, is_part) in cases {
            let [coded, size] = [coded, size].map(|[width, height]| Size::new(width, height));
            let checked = sequence.check(&FrameCrop { coded, offset, size });
            assert_eq!(checked.is_ok(), is_part, "{coded:?} {offset:?} {size:?}");
        }
    }

    #[test]
    fn what_the_engines_do_not_decode_is_refused_by_name() {
        let small = format(64, 48);
        let cases = [
            (VideoFormat { codec: 8, ..small }, "codec 8"),
            (VideoFormat { chroma: 2, ..small }, "chroma format 2"),
            (VideoFormat { luma_depth_minus_8: 2, ..small }, "10 bits"),
            (VideoFormat { chroma_depth_minus_8: 1, ..small }, "9 bits"),
            (VideoFormat { is_progressive: 0, ..small }, "interlaced"),
            (format(32, 48), "images of 32x48; decoded are 48x16 to 4096x4096"),
            (format(4112, 16), "images of 4112x16"),
        ];
        for (format, part) in cases {
            let error = Sequence::of(&format, &ENGINES).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Encoding);
            assert!(error.message().contains(part), "{part}: {error}");
        }
        let few = Capabilities { max_macroblocks: 11, ..ENGINES };
        assert!(Sequence::of(&small, &few).is_err());
        assert!(Sequence::of(&small, &Capabilities { max_macroblocks: 12, ..ENGINES }).is_ok());
        assert!(has_engines(&ENGINES) && !has_engines(&Capabilities::default()));
        assert!(!has_engines(&Capabilities { surfaces: 2, ..ENGINES }));
    }
}
