//! `autoware_lidar_transfusion`.

use super::keys::transfusion as own;
use super::{network, rest};
use crate::config::like::translation::Translation;
use crate::config::like::values::number_of;
use det_post_ros::NodeName;

/// Constants of their node.
const MAX_POINTS: i64 = 20;
const OUT_SIZE_FACTOR: i64 = 4;
/// What their node has where the parameters are not given, or the threshold is not above 0.
const NUM_PROPOSALS: i64 = 200;
const SCORE_THRESHOLD: f64 = 0.2;

/// Emits our parameters.
pub(in crate::config::like) fn translate(t: &mut Translation<'_>, node: &NodeName) {
    let class_names = network(t, "transfusion");
    t.set("head.range_ends", "both_outside");
    t.set("head.coordinates", "batch_zyx");
    t.set("head.max_points_per_voxel", MAX_POINTS);
    t.set("head.downsample_factor", OUT_SIZE_FACTOR);
    t.set("head.point_channels", ["intensity", "time_lag"]);
    t.set("head.input_names", ["voxels", "num_points", "coors"]);
    t.set("head.output_names", ["bbox_pred0", "cls_score0", "dir_cls_pred0"]);
    match t.take(&own::NUM_PROPOSALS) {
        Some(given) => t.rename(&given, "head.num_proposals"),
        None => t.set("head.num_proposals", NUM_PROPOSALS),
    }
    score(t);
    // The node of that time compared boxes of target classes at any distance.
    if t.has_key(&own::IOU_TARGETS) {
        t.default("publish.debug_times_package", "tier4_debug_msgs");
    }
    rest(t, node, &class_names, Some(&own::IOU_TARGETS));
    t.default("publish.velocity", false);
}

/// One threshold, which scores must exceed.
fn score(t: &mut Translation<'_>) {
    const OURS: &str = "score_thresholds";
    t.set("score_kept_when", "above");
    let Some(given) = t.take_required(&own::SCORE_THRESHOLD, super::NODE_FILE) else { return };
    match number_of(&given.node) {
        Some(score) if score <= 0.0 => {
            let note = "not above 0: 0.2, as in their node";
            t.convert(&given, &[(OURS, SCORE_THRESHOLD.into())], note);
        }
        Some(score) if score > 1.0 => {
            t.convert(&given, &[(OURS, 1.0.into())], "");
            t.warn(&given.key, "above 1: no box reaches it");
        }
        Some(_) => t.rename(&given, OURS),
        None => t.refuse(&given, "a number"),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::like::proposals::keys;

    #[test]
    fn every_key_has_a_name_of_its_own() {
        for all in [keys::TRANSFUSION, keys::BEVFUSION] {
            let mut names: Vec<&str> = all.iter().flat_map(|key| key.names).copied().collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }
}
