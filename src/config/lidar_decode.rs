//! The settings of decoders of a LiDAR channel: its thresholds with the facts of its head.

use super::head::{CenterFacts, ProposalFacts, SiteFacts};
use super::lidar::LidarConfig;
use det_post_types::{CenterDecode, ProposalDecode, SiteDecode};

impl LidarConfig {
    /// The settings of `ops::decode_center` for a head of this channel.
    pub fn center_decode(&self, center: &CenterFacts) -> CenterDecode {
        let grid = &self.facts.grid;
        let [size_x, size_y, _] = grid.voxel_size_m();
        let [min_x, min_y, _] = grid.range().min;
        let factor = center.downsample_factor as f32;
        CenterDecode {
            origin_m: [min_x, min_y],
            cell_size_m: [size_x * factor, size_y * factor],
            tasks: center.tasks.clone(),
            heatmap_logits: center.heatmap_logits,
            size_order: center.size_order,
            size_log: center.size_log,
            yaw: center.yaw,
            score_thresholds: self.score_thresholds.clone(),
            yaw_norm_thresholds: self.yaw_norm_thresholds.clone(),
            center_range: center.center_range,
            has_velocity: center.has_velocity,
            has_variance: center.has_variance,
        }
    }

    /// The settings of `ops::decode_sites` for a head of this channel.
    pub fn site_decode(&self, sites: &SiteFacts) -> SiteDecode {
        let grid = &self.facts.grid;
        let [size_x, size_y, _] = grid.voxel_size_m();
        let [min_x, min_y, _] = grid.range().min;
        let factor = sites.downsample_factor as f32;
        SiteDecode {
            origin_m: [min_x, min_y],
            cell_size_m: [size_x * factor, size_y * factor],
            tasks: sites.tasks.clone(),
            size_order: sites.size_order,
            yaw: sites.yaw,
            score_thresholds: self.score_thresholds.clone(),
            yaw_norm_thresholds: self.yaw_norm_thresholds.clone(),
            iou_weights: sites.iou_weights.clone(),
            center_range: sites.center_range,
            has_velocity: sites.has_velocity,
        }
    }

    /// The settings of `ops::decode_proposals` for a head of this channel.
    pub fn proposal_decode(&self, proposals: &ProposalFacts) -> ProposalDecode {
        let grid = &self.facts.grid;
        let [size_x, size_y, _] = grid.voxel_size_m();
        let [min_x, min_y, _] = grid.range().min;
        let factor = proposals.downsample_factor as f32;
        ProposalDecode {
            layout: proposals.layout,
            origin_m: [min_x, min_y],
            cell_size_m: [size_x * factor, size_y * factor],
            score_thresholds: self.score_thresholds.clone(),
            yaw_norm_thresholds: self.yaw_norm_thresholds.clone(),
        }
    }
}
