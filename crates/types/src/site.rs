//! What the outputs of a network on sites mean.

use super::center::{ScoreThresholds, SizeOrder, YawConvention};
use super::grid::PointRange;

/// How the outputs of a VoxelNeXt head, on the sites of a map, become boxes (`ops::decode_sites`).
///
/// Extents are logarithms; the centre is the site with its offset, times the cell size, plus the
/// origin.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteDecode {
    /// x, y of the corner of the map, in metres: the range's minimum.
    pub origin_m: [f32; 2],
    /// Edge lengths of a cell of the map along x and y in metres: voxel size times downsample
    /// factor.
    pub cell_size_m: [f32; 2],
    /// Per task, the class of each channel of its heat map.
    pub tasks: Vec<Vec<u32>>,
    /// What the three size channels hold.
    pub size_order: SizeOrder,
    /// How sine and cosine become a yaw.
    pub yaw: YawConvention,
    /// Score thresholds, of the sigmoid of the heat.
    pub score_thresholds: ScoreThresholds,
    /// Per class, the minimum norm of (sine, cosine); empty for no check.
    pub yaw_norm_thresholds: Vec<f32>,
    /// Per class, the weight of the predicted overlap in a score: see `ops::decode_sites`; empty
    /// for a head that predicts none.
    pub iou_weights: Vec<f32>,
    /// Centres outside are dropped; `None` keeps all.
    pub center_range: Option<PointRange>,
    /// Whether there are two velocity channels.
    pub has_velocity: bool,
}
