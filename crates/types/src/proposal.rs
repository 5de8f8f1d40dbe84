//! What the proposals of a LiDAR network mean.

use super::center::ScoreThresholds;

/// How the proposals of a LiDAR network become boxes (`ops::decode_proposals`).
///
/// The centre of a proposal is `channel * cell_size + origin` in x and in y; z is its height in
/// metres.
#[derive(Clone, Debug, PartialEq)]
pub struct ProposalDecode {
    /// The tensors and their channels.
    pub layout: ProposalLayout,
    /// x, y of the corner of the map, in metres: the range's minimum.
    pub origin_m: [f32; 2],
    /// Edge lengths of a cell of the map along x and y in metres: voxel size times downsample
    /// factor.
    pub cell_size_m: [f32; 2],
    /// Score thresholds; as many classes as the head has. A score of 0 and less never passes.
    pub score_thresholds: ScoreThresholds,
    /// Per class, the minimum norm of (sine, cosine); empty for no check.
    pub yaw_norm_thresholds: Vec<f32>,
}

/// The tensors of a network with P proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalLayout {
    /// TransFusion as Autoware exports it: scores by class `[1, C, P]`, boxes `[1, 8, P]` (x, y in
    /// cells, z in metres, logarithms of length, width and height in metres, two that are not
    /// read), directions `[1, 2, P]` (sine, cosine).
    TransFusion,
    /// BEVFusion as Autoware exports it: boxes `[10, P]` (x, y in cells, z in metres, logarithms of
    /// length, width and height in metres, sine, cosine, velocity along x and y in metres per
    /// second), scores `[P]`, labels `[P]`.
    BevFusion,
}

impl ProposalLayout {
    /// Channels of the boxes.
    pub const fn num_box_channels(self) -> usize {
        match self {
            Self::TransFusion => 8,
            Self::BevFusion => 10,
        }
    }

    /// Whether proposals have a velocity.
    pub const fn has_velocity(self) -> bool {
        matches!(self, Self::BevFusion)
    }
}
