//! The meaning of the outputs of StreamPETR.

use super::center::{ScoreThresholds, SizeOrder, YawConvention};
use super::grid::PointRange;

/// How the ten numbers of a query become a box (`ops::decode_streampetr`).
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPetrDecode {
    /// Whether the numbers of a query are adjacent, `[.., K, C]`, or its queries are,
    /// `[.., C, K]`.
    pub channels_last: bool,
    /// The order of the extents.
    pub size_order: SizeOrder,
    /// How sine and cosine become a yaw.
    pub yaw: YawConvention,
    /// Score thresholds, for every class.
    pub score_thresholds: ScoreThresholds,
    /// Per class, the least norm of (sine, cosine); empty for no check.
    pub yaw_norm_thresholds: Vec<f32>,
    /// Centres outside are dropped; `None` keeps all.
    pub center_range: Option<PointRange>,
}
