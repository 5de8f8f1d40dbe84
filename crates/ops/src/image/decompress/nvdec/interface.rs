//! The structs and constants of libnvcuvid that are used, as `cuviddec.h` and `nvcuvid.h` of the Video Codec SDK
//! declare them for Linux on 64 bits. Names in quotes are those of the headers.

use std::ffi::{c_int, c_longlong, c_short, c_uchar, c_uint, c_ulong, c_ushort, c_void};

/// `cudaVideoCodec_H264`
pub(super) const CODEC_H264: c_uint = 4;
/// `cudaVideoChromaFormat_420`
pub(super) const CHROMA_420: c_uint = 1;
/// `cudaVideoSurfaceFormat_NV12`
pub(super) const SURFACE_NV12: c_uint = 0;
/// `cudaVideoCreate_PreferCUVID`: the engines of the GPU.
pub(super) const ON_ENGINES: c_ulong = 4;
/// `CUVID_PKT_ENDOFPICTURE`: the packet has exactly one picture, so that the parser waits for no other.
pub(super) const ONE_PICTURE: c_ulong = 8;

/// `CUVIDDECODECAPS`: what the engines decode.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Capabilities {
    pub(super) codec: c_uint,
    pub(super) chroma: c_uint,
    pub(super) bit_depth_minus_8: c_uint,
    pub(super) reserved: [c_uint; 3],
    pub(super) is_supported: c_uchar,
    pub(super) num_engines: c_uchar,
    /// A bit for each format of surfaces.
    pub(super) surfaces: c_ushort,
    pub(super) max_width: c_uint,
    pub(super) max_height: c_uint,
    pub(super) max_macroblocks: c_uint,
    pub(super) min_width: c_ushort,
    pub(super) min_height: c_ushort,
    pub(super) histogram: [c_ushort; 2],
    pub(super) reserved_end: [c_uint; 10],
}

/// A rectangle of 16-bit sides.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct SmallRect {
    pub(super) left: c_short,
    pub(super) top: c_short,
    pub(super) right: c_short,
    pub(super) bottom: c_short,
}

/// `CUVIDDECODECREATEINFO`: a decoder that is to be made.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct DecoderInfo {
    pub(super) width: c_ulong,
    pub(super) height: c_ulong,
    pub(super) num_decode_surfaces: c_ulong,
    pub(super) codec: c_uint,
    pub(super) chroma: c_uint,
    pub(super) flags: c_ulong,
    pub(super) bit_depth_minus_8: c_ulong,
    pub(super) intra_only: c_ulong,
    pub(super) max_width: c_ulong,
    pub(super) max_height: c_ulong,
    pub(super) reserved: c_ulong,
    /// None: the whole picture.
    pub(super) display_area: SmallRect,
    pub(super) surface: c_uint,
    /// 0: `cudaVideoDeinterlaceMode_Weave`, rows as they are.
    pub(super) deinterlacing: c_uint,
    pub(super) target_width: c_ulong,
    pub(super) target_height: c_ulong,
    pub(super) num_output_surfaces: c_ulong,
    /// None: the caller makes the context current.
    pub(super) lock: usize,
    pub(super) target_rect: SmallRect,
    pub(super) histogram: c_ulong,
    pub(super) reserved_end: [c_ulong; 4],
}

/// `CUVIDPROCPARAMS`: how a picture is made readable.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct MapInfo {
    pub(super) is_progressive: c_int,
    pub(super) second_field: c_int,
    pub(super) top_field_first: c_int,
    pub(super) unpaired_field: c_int,
    pub(super) reserved: [c_uint; 2],
    pub(super) raw_input: [u64; 2],
    pub(super) raw_output: [u64; 2],
    /// The stream on which the picture is written.
    pub(super) stream: usize,
    pub(super) reserved_end: [[c_uint; 23]; 2],
    pub(super) histogram: usize,
    pub(super) reserved_last: usize,
}

/// `CUVIDGETDECODESTATUS`
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct DecodeStatus {
    pub(super) status: c_uint,
    pub(super) reserved: [c_uint; 31],
    pub(super) reserved_end: [usize; 8],
}

impl DecodeStatus {
    /// Whether the picture has errors, concealed or not: `cuvidDecodeStatus_Error` and
    /// `cuvidDecodeStatus_Error_Concealed`.
    pub(super) fn is_error(&self) -> bool {
        matches!(self.status, 8 | 9)
    }
}

/// The callback for a sequence: returns 0 to refuse it, else the number of surfaces.
pub(super) type OnSequence = extern "C" fn(*mut c_void, *const VideoFormat) -> c_int;
/// The callback for a picture: returns 0 for a failure.
pub(super) type OnPicture = extern "C" fn(*mut c_void, *mut PictureStart) -> c_int;

/// `CUVIDPARSERPARAMS`: a parser that is to be made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct ParserInfo {
    pub(super) codec: c_uint,
    pub(super) num_decode_surfaces: c_uint,
    pub(super) clock_rate: c_uint,
    pub(super) error_threshold: c_uint,
    pub(super) display_delay: c_uint,
    pub(super) flags: c_uint,
    pub(super) reserved: [c_uint; 4],
    pub(super) user: *mut c_void,
    pub(super) on_sequence: Option<OnSequence>,
    pub(super) on_picture: Option<OnPicture>,
    /// For pictures in the order of display, operating points and messages.
    pub(super) other_callbacks: [usize; 3],
    pub(super) reserved_end: [usize; 5],
    pub(super) sequence_header: usize,
}

/// `CUVIDSOURCEDATAPACKET`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Packet {
    pub(super) flags: c_ulong,
    pub(super) num_bytes: c_ulong,
    pub(super) bytes: *const c_uchar,
    pub(super) time: c_longlong,
}

/// The beginning of `CUVIDEOFORMAT`: a sequence, as the parser reads it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct VideoFormat {
    pub(super) codec: c_uint,
    pub(super) frame_rate: [c_uint; 2],
    pub(super) is_progressive: c_uchar,
    pub(super) luma_depth_minus_8: c_uchar,
    pub(super) chroma_depth_minus_8: c_uchar,
    pub(super) min_surfaces: c_uchar,
    pub(super) coded_width: c_uint,
    pub(super) coded_height: c_uint,
    pub(super) left: c_int,
    pub(super) top: c_int,
    pub(super) right: c_int,
    pub(super) bottom: c_int,
    pub(super) chroma: c_uint,
}

/// The beginning of `CUVIDPICPARAMS`, which is passed on whole.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct PictureStart {
    pub(super) size_in_macroblocks: [c_int; 2],
    /// The surface that it is decoded to.
    pub(super) index: c_int,
    pub(super) is_field: c_int,
}

#[cfg(test)]
#[cfg(target_pointer_width = "64")]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// As a C compiler lays the headers of version 13.0 of the SDK out, for x86_64 and aarch64.
    #[test]
    fn structs_are_laid_out_as_the_headers_say() {
        assert_eq!(size_of::<Capabilities>(), 88);
        assert_eq!(offset_of!(Capabilities, is_supported), 24);
        assert_eq!(offset_of!(Capabilities, surfaces), 26);
        assert_eq!(offset_of!(Capabilities, max_width), 28);
        assert_eq!(offset_of!(Capabilities, max_macroblocks), 36);
        assert_eq!(offset_of!(Capabilities, min_width), 40);
        assert_eq!(offset_of!(Capabilities, min_height), 42);
        assert_eq!(offset_of!(Capabilities, reserved_end), 48);

        assert_eq!(size_of::<DecoderInfo>(), 176);
        assert_eq!(offset_of!(DecoderInfo, codec), 24);
        assert_eq!(offset_of!(DecoderInfo, flags), 32);
        assert_eq!(offset_of!(DecoderInfo, intra_only), 48);
        assert_eq!(offset_of!(DecoderInfo, max_width), 56);
        assert_eq!(offset_of!(DecoderInfo, display_area), 80);
        assert_eq!(offset_of!(DecoderInfo, surface), 88);
        assert_eq!(offset_of!(DecoderInfo, target_width), 96);
        assert_eq!(offset_of!(DecoderInfo, num_output_surfaces), 112);
        assert_eq!(offset_of!(DecoderInfo, lock), 120);
        assert_eq!(offset_of!(DecoderInfo, target_rect), 128);
        assert_eq!(offset_of!(DecoderInfo, histogram), 136);

        assert_eq!(size_of::<MapInfo>(), 264);
        assert_eq!(offset_of!(MapInfo, unpaired_field), 12);
        assert_eq!(offset_of!(MapInfo, raw_input), 24);
        assert_eq!(offset_of!(MapInfo, stream), 56);
        assert_eq!(offset_of!(MapInfo, histogram), 248);

        assert_eq!(size_of::<DecodeStatus>(), 192);
        assert_eq!(offset_of!(DecodeStatus, reserved_end), 128);

        assert_eq!(size_of::<ParserInfo>(), 136);
        assert_eq!(offset_of!(ParserInfo, display_delay), 16);
        assert_eq!(offset_of!(ParserInfo, user), 40);
        assert_eq!(offset_of!(ParserInfo, on_picture), 56);
        assert_eq!(offset_of!(ParserInfo, sequence_header), 128);

        assert_eq!(size_of::<Packet>(), 32);
        assert_eq!(offset_of!(Packet, bytes), 16);
        assert_eq!(offset_of!(Packet, time), 24);

        // Of the whole structs 64 and 4280 bytes.
        assert_eq!(size_of::<VideoFormat>(), 44);
        assert_eq!(offset_of!(VideoFormat, is_progressive), 12);
        assert_eq!(offset_of!(VideoFormat, luma_depth_minus_8), 13);
        assert_eq!(offset_of!(VideoFormat, min_surfaces), 15);
        assert_eq!(offset_of!(VideoFormat, coded_width), 16);
        assert_eq!(offset_of!(VideoFormat, left), 24);
        assert_eq!(offset_of!(VideoFormat, chroma), 40);
        assert_eq!(offset_of!(PictureStart, index), 8);
        assert_eq!(offset_of!(PictureStart, is_field), 12);
    }
}
