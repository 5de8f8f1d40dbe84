//! The outputs of anchor-based LiDAR heads (PointPillars).

use super::center::ScoreThresholds;
use super::grid::PointRange;

/// Decoding of the outputs of an anchor head (`ops::decode_anchor`).
///
/// Anchors of a cell are ordered class by class, and within a class rotation
/// by rotation, in the layout of OpenPCDet's `AnchorHeadSingle`.
#[derive(Clone, Debug, PartialEq)]
pub struct AnchorDecode {
    /// The range the map spans.
    pub range: PointRange,
    /// Whether anchors are at the centres of cells; otherwise the first and last are
    /// on the border of the range (OpenPCDet's `align_center`).
    pub align_center: bool,
    /// Per class, its anchor.
    pub anchors: Vec<Anchor>,
    /// Yaws of each class's anchors.
    pub rotations_rad: Vec<f32>,
    /// Angle between the two directions (`dir_offset`).
    pub direction_offset_rad: f32,
    /// Whether tensors are `[1, H, W, channels]`; otherwise
    /// `[1, channels, H, W]`.
    pub channels_last: bool,
    /// Score thresholds; scores are sigmoids of the class logits.
    pub score_thresholds: ScoreThresholds,
}

/// The anchor of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    /// Length, width, height in metres.
    pub size_m: [f32; 3],
    /// Height of the centre in metres.
    pub center_z_m: f32,
}
