//! What the output of an anchor-based LiDAR head (PointPillars) means.

use super::center::ScoreThresholds;
use super::grid::PointRange;

/// How raw outputs of an anchor head become boxes (`ops::decode_anchor`).
///
/// Anchors of a cell are ordered class by class, and within a class rotation
/// by rotation, as OpenPCDet's `AnchorHeadSingle` lays them out.
#[derive(Clone, Debug, PartialEq)]
pub struct AnchorDecode {
    /// The range the map spans.
    pub range: PointRange,
    /// Whether anchors stand at the centres of cells; otherwise the first and
    /// last stand on the border of the range (OpenPCDet's `align_center`).
    pub align_center: bool,
    /// Per class, its anchor.
    pub anchors: Vec<Anchor>,
    /// Yaws of each class's anchors.
    pub rotations_rad: Vec<f32>,
    /// Where the cut between the two directions lies (`dir_offset`).
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
