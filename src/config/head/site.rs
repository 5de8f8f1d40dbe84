//! Facts of VoxelNeXt heads.

use super::center::{center_range, downsample_factor, has_velocity, size_order, tasks, yaw};
use crate::config::declaration::Change::Fixed;
use crate::config::reader::Reader;
use crate::config::value::Length::OneOrPerClass;
use crate::config::value::{list, number};
use det_post_types::{PointRange, SizeOrder, YawConvention};

/// Facts of a VoxelNeXt head, whose outputs are on the sites of a map. They are named
/// `hm_N`, `center_N`, `center_z_N`, `dim_N`, `rot_N`, `vel_N` (if any) and `iou_N` (if any) for
/// task N.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteFacts {
    /// Per task, the class of each channel of its heat map; every class once.
    pub tasks: Vec<Vec<u32>>,
    /// Voxels of a cell of the map along one axis.
    pub downsample_factor: u32,
    /// Order of the size channels.
    pub size_order: SizeOrder,
    /// How sine and cosine become a yaw.
    pub yaw: YawConvention,
    /// Whether there are velocity channels.
    pub has_velocity: bool,
    /// Per class, the weight of the predicted overlap in a score; empty for a head that predicts
    /// none.
    pub iou_weights: Vec<f32>,
    /// Box outside which centres are dropped.
    pub center_range: Option<PointRange>,
}

impl SiteFacts {
    pub(super) fn read(p: &mut Reader<'_>, class_names: &[String]) -> Self {
        let iou_weights = p.optional(
            "iou_weights",
            Fixed,
            list(number(0.0..=1.0), OneOrPerClass),
            "none",
            "Weight of a predicted overlap (`RECTIFIER`).",
        );
        Self {
            tasks: tasks(p, class_names),
            downsample_factor: downsample_factor(p),
            size_order: size_order(p),
            yaw: yaw(p),
            has_velocity: has_velocity(p),
            iou_weights: match iou_weights {
                Some(weights) if weights.len() == 1 => vec![weights[0]; class_names.len()],
                weights => weights.unwrap_or_default(),
            },
            center_range: center_range(p),
        }
    }
}
