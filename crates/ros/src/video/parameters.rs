//! Parameter sets of H.264, and the beginning of slices.
//!
//! Only what bounds the decoder, names what it cannot decode and tells pictures apart is read (H.264, 7.3.2
//! and 7.3.3).

use super::bits::{Bits, damaged};
use super::nal::Unit;
use det_post_types::{FrameCrop, Result, Size};

/// Profiles whose parameter sets state the format of chroma.
const HIGH_PROFILES: [u32; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

/// The most macroblocks along a side: 32768 pixels.
const MAX_MACROBLOCKS: u32 = 2048;

/// A sequence parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SequenceParameters {
    pub(super) id: u32,
    pub(super) profile: u32,
    /// 1: 4:2:0.
    pub(super) chroma_format: u32,
    /// Of luma and chroma, whichever is more.
    pub(super) bit_depth: u32,
    /// Whether it has scaling matrices.
    pub(super) has_scaling: bool,
    pub(super) frame_num_bits: u32,
    pub(super) num_references: u32,
    pub(super) allows_gaps: bool,
    /// Whether every picture is a whole frame, not a field.
    pub(super) is_progressive: bool,
    /// Of the pictures.
    pub(super) crop: FrameCrop,
    pub(super) color: Color,
}

/// What the stream states of its colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Color {
    pub(super) is_full_range: bool,
    /// `matrix_coefficients`: 2 where it is not stated.
    pub(super) matrix: u32,
}

impl SequenceParameters {
    /// Reads the set of a NAL unit.
    ///
    /// # Errors
    /// `VideoCodec` when it is none.
    pub(super) fn read(unit: Unit<'_>) -> Result<Self> {
        let bits = &mut Bits::of_unit(unit.bytes);
        let profile = bits.bits(8)?;
        let _constraints_and_level = bits.bits(16)?;
        let id = bits.unsigned("seq_parameter_set_id", 31)?;
        let (mut chroma_format, mut bit_depth, mut has_scaling) = (1, 8, false);
        if HIGH_PROFILES.contains(&profile) {
            chroma_format = bits.unsigned("chroma_format_idc", 3)?;
            if chroma_format == 3 {
                let _separate_colour_plane = bits.flag()?;
            }
            let luma = bits.unsigned("bit_depth_luma_minus8", 6)?;
            bit_depth = 8 + luma.max(bits.unsigned("bit_depth_chroma_minus8", 6)?);
            let _qpprime_y_zero_transform_bypass = bits.flag()?;
            has_scaling = bits.flag()?;
            if has_scaling {
                let num_lists = if chroma_format == 3 { 12 } else { 8 };
                (0..num_lists).try_for_each(|list| skip_scaling_list(bits, list))?;
            }
        }
        let frame_num_bits = 4 + bits.unsigned("log2_max_frame_num_minus4", 12)?;
        skip_order_count(bits)?;
        let num_references = bits.unsigned("max_num_ref_frames", 16)?;
        let allows_gaps = bits.flag()?;
        let width = 1 + bits.unsigned("pic_width_in_mbs_minus1", MAX_MACROBLOCKS - 1)?;
        let map_units = 1 + bits.unsigned("pic_height_in_map_units_minus1", MAX_MACROBLOCKS - 1)?;
        let is_progressive = bits.flag()?;
        let height = if is_progressive { map_units } else { 2 * map_units };
        if !is_progressive {
            let _mb_adaptive_frame_field = bits.flag()?;
        }
        let _direct_8x8_inference = bits.flag()?;
        // A unit is a sample of chroma, of a field where pictures may be fields.
        let across = if matches!(chroma_format, 1 | 2) { 2 } else { 1 };
        let down = if chroma_format == 1 { 2 } else { 1 } * if is_progressive { 1 } else { 2 };
        let crop = crop(bits, Size::new(16 * width, 16 * height), [across, down])?;
        let color =
            if bits.flag()? { color(bits)? } else { Color { matrix: 2, ..Color::default() } };
        Ok(Self {
            id,
            profile,
            chroma_format,
            bit_depth,
            has_scaling,
            frame_num_bits,
            num_references,
            allows_gaps,
            is_progressive,
            crop,
            color,
        })
    }
}

fn skip_scaling_list(bits: &mut Bits<'_>, list: usize) -> Result<()> {
    if !bits.flag()? {
        return Ok(());
    }
    let (mut last, mut next) = (8i64, 8i64);
    for _ in 0..if list < 6 { 16 } else { 64 } {
        if next != 0 {
            next = (last + bits.signed("delta_scale")?).rem_euclid(256);
        }
        last = if next == 0 { last } else { next };
    }
    Ok(())
}

/// Skips how the order of pictures is coded, which does not matter where it is the order of the packets.
fn skip_order_count(bits: &mut Bits<'_>) -> Result<()> {
    match bits.unsigned("pic_order_cnt_type", 2)? {
        0 => {
            bits.unsigned("log2_max_pic_order_cnt_lsb_minus4", 12)?;
        }
        1 => {
            let _delta_pic_order_always_zero = bits.flag()?;
            bits.signed("offset_for_non_ref_pic")?;
            bits.signed("offset_for_top_to_bottom_field")?;
            for _ in 0..bits.unsigned("num_ref_frames_in_pic_order_cnt_cycle", 255)? {
                bits.signed("offset_for_ref_frame")?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Where the pictures are in their frames; offsets are in units of pixels.
fn crop(bits: &mut Bits<'_>, coded: Size, units: [u32; 2]) -> Result<FrameCrop> {
    if !bits.flag()? {
        return Ok(FrameCrop { coded, offset: [0, 0], size: coded });
    }
    let mut offset = |unit: u32| {
        let num = bits.unsigned("frame_crop_offset", 16 * MAX_MACROBLOCKS);
        num.map(|num| unit * num)
    };
    let [across, down] = units;
    let [left, right, top, bottom] =
        [offset(across)?, offset(across)?, offset(down)?, offset(down)?];
    let width = coded.width.saturating_sub(left + right);
    let size = Size::new(width, coded.height.saturating_sub(top + bottom));
    Ok(FrameCrop { coded, offset: [left, top], size })
}

/// The colours of the usability information, whose rest is not read.
fn color(bits: &mut Bits<'_>) -> Result<Color> {
    const EXTENDED_ASPECT: u32 = 255;
    if bits.flag()? && bits.bits(8)? == EXTENDED_ASPECT {
        bits.bits(32)?;
    }
    if bits.flag()? {
        let _overscan_appropriate = bits.flag()?;
    }
    let mut color = Color { matrix: 2, ..Color::default() };
    if bits.flag()? {
        let _video_format = bits.bits(3)?;
        color.is_full_range = bits.flag()?;
        if bits.flag()? {
            let _primaries_and_transfer = bits.bits(16)?;
            color.matrix = bits.bits(8)?;
        }
    }
    Ok(color)
}

/// A picture parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PictureParameters {
    pub(super) id: u32,
    /// Its sequence parameter set.
    pub(super) sequence: u32,
    /// Whether it has scaling matrices.
    pub(super) has_scaling: bool,
}

impl PictureParameters {
    /// Reads the set of a NAL unit.
    ///
    /// # Errors
    /// `VideoCodec` when it is none.
    pub(super) fn read(unit: Unit<'_>) -> Result<Self> {
        let bits = &mut Bits::of_unit(unit.bytes);
        let id = bits.unsigned("pic_parameter_set_id", 255)?;
        let sequence = bits.unsigned("seq_parameter_set_id", 31)?;
        // A set of the first version ends before them.
        let has_scaling = has_scaling(bits).unwrap_or(false);
        Ok(Self { id, sequence, has_scaling })
    }
}

/// Whether the rest of a picture parameter set has scaling matrices, behind the fields that every set has. Where it ends
/// with these, what follows is a bit that is set, and zeros.
fn has_scaling(bits: &mut Bits<'_>) -> Result<bool> {
    let _entropy_and_order = bits.bits(2)?;
    if bits.unsigned("num_slice_groups_minus1", 7)? > 0 {
        // Of profiles without matrices.
        return Ok(false);
    }
    bits.unsigned("num_ref_idx_l0_default_active_minus1", 31)?;
    bits.unsigned("num_ref_idx_l1_default_active_minus1", 31)?;
    let _weighted_prediction = bits.bits(3)?;
    for what in ["pic_init_qp_minus26", "pic_init_qs_minus26", "chroma_qp_index_offset"] {
        bits.signed(what)?;
    }
    let _filter_intra_and_redundant = bits.bits(3)?;
    let _transform_8x8 = bits.flag()?;
    bits.flag()
}

/// The type of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SliceType {
    /// I and P: of this picture, and pictures before it.
    Forward,
    /// B: of pictures after it, too.
    Bidirectional,
    /// SP and SI, of the extended profile.
    Switching,
}

/// The beginning of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SliceStart<'a> {
    /// 0: the first slice of a picture.
    pub(super) first_macroblock: u32,
    pub(super) slice_type: SliceType,
    /// Its picture parameter set.
    pub(super) picture: u32,
    unit: Unit<'a>,
}

impl<'a> SliceStart<'a> {
    /// Reads the beginning of a slice.
    ///
    /// # Errors
    /// `VideoCodec` when it is none.
    pub(super) fn read(unit: Unit<'a>) -> Result<Self> {
        let bits = &mut Bits::of_unit(unit.bytes);
        let most = MAX_MACROBLOCKS * MAX_MACROBLOCKS;
        let first_macroblock = bits.unsigned("first_mb_in_slice", most)?;
        let slice_type = match bits.unsigned("slice_type", 9)? % 5 {
            0 | 2 => SliceType::Forward,
            1 => SliceType::Bidirectional,
            _ => SliceType::Switching,
        };
        let picture = bits.unsigned("pic_parameter_set_id", 255)?;
        Ok(Self { first_macroblock, slice_type, picture, unit })
    }

    /// The number of the picture among those that others depend on, of a 4:2:0 stream.
    ///
    /// # Errors
    /// `VideoCodec` when the slice ends before.
    pub(super) fn frame_num(&self, sequence: &SequenceParameters) -> Result<u32> {
        let bits = &mut Bits::of_unit(self.unit.bytes);
        for what in ["first_mb_in_slice", "slice_type", "pic_parameter_set_id"] {
            bits.unsigned(what, u32::MAX)?;
        }
        bits.bits(sequence.frame_num_bits)
    }

    /// Whether other pictures may depend on it.
    pub(super) fn is_reference(&self) -> bool {
        self.unit.is_reference()
    }
}

/// The name of a profile.
pub(super) fn profile_name(profile: u32) -> &'static str {
    match profile {
        66 => "baseline",
        77 => "main",
        88 => "extended",
        100 => "high",
        110 => "high 10",
        122 => "high 4:2:2",
        244 => "high 4:4:4",
        _ => "another profile",
    }
}

/// The error of a set that is too long to be kept.
pub(super) fn check_len(unit: Unit<'_>) -> Result<()> {
    const MAX_BYTES: usize = 4096;
    match unit.bytes.len() {
        len if len > MAX_BYTES => {
            Err(damaged(format!("a parameter set has {len} bytes, at most {MAX_BYTES}")))
        }
        _ => Ok(()),
    }
}
