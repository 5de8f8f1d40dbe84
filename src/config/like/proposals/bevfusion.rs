//! `autoware_bevfusion`.

use super::keys::bevfusion as own;
use super::{ML_PACKAGE, NODE_FILE, cameras, emit, network, required, rest};
use crate::config::like::translation::Translation;
use crate::config::like::values::{number_of, numbers_of};
use det_post_ros::NodeName;
use det_post_ros::yaml::Node;

const LIMITS: &str = "distance_upper_limits_m";
const BY_DISTANCE: &str = "score_thresholds_by_distance";
/// The farthest limit of a bin that we take.
const FARTHEST_M: f64 = 1e6;

/// Emits our parameters.
pub(in crate::config::like) fn translate(t: &mut Translation<'_>, node: &NodeName) {
    let has_cameras = cameras::has_cameras(t);
    let class_names = network(t, "bevfusion");
    t.set("head.range_ends", "low_inside");
    t.set("head.coordinates", "zyx");
    t.set("head.input_names", ["voxels", "num_points_per_voxel", "coors"]);
    t.set("head.output_names", ["bbox_pred", "score", "label_pred"]);
    for (key, ours) in [
        (&own::NUM_PROPOSALS, "head.num_proposals"),
        (&own::OUT_SIZE_FACTOR, "head.downsample_factor"),
        (&own::MAX_POINTS, "head.max_points_per_voxel"),
    ] {
        required(t, key, ours, ML_PACKAGE);
    }
    if let Some(given) = t.take_required(&own::USE_INTENSITY, ML_PACKAGE) {
        match &given.node {
            Node::Flag(true) => {
                let channels = ["intensity", "time_lag"].into();
                t.convert(&given, &[("head.point_channels", channels)], "");
            }
            Node::Flag(false) => {
                t.convert(&given, &[("head.point_channels", ["time_lag"].into())], "");
            }
            _ => t.refuse(&given, "true or false"),
        }
    }
    if has_cameras {
        cameras::translate(t);
    }
    scores(t, &class_names);
    rest(t, node, &class_names, None);
    t.default("processing_time_diagnostics.pillars_status", "bevfusion_trt");
}

/// Thresholds by distance and class, which scores must reach, or the one of older files, which
/// they must exceed.
fn scores(t: &mut Translation<'_>, class_names: &[String]) {
    let (limits, single) = (t.take(&own::BIN_LIMITS), t.take(&own::SCORE_THRESHOLD));
    t.set("score_kept_when", if limits.is_some() { "at_least" } else { "above" });
    let Some(limits) = limits else {
        let Some(given) = single else {
            let place = format!("{NODE_FILE} (`score_threshold` before mid 2026)");
            return t.missing(own::BIN_LIMITS.names[0], &place);
        };
        return match number_of(&given.node) {
            Some(score) if (0.0..=1.0).contains(&score) => t.rename(&given, "score_thresholds"),
            Some(score) => {
                t.convert(&given, &[("score_thresholds", score.clamp(0.0, 1.0).into())], "");
                t.warn(&given.key, "outside [0, 1]: the nearest of them");
            }
            None => t.refuse(&given, "a number"),
        };
    };
    single.iter().for_each(|older| t.replaced(older));
    let Some(numbers) = numbers_of(&limits.node).filter(|numbers| !numbers.is_empty()) else {
        return t.refuse(&limits, "a list of numbers, one per bin");
    };
    let farthest: Vec<f64> = numbers.iter().map(|limit| limit.min(FARTHEST_M)).collect();
    match farthest == numbers {
        true => t.rename(&limits, LIMITS),
        false => t.convert(&limits, &[(LIMITS, farthest.into())], "at most 1000 km"),
    }
    for class in class_names {
        bins(t, class, numbers.len());
    }
}

/// The thresholds of a class, one per bin.
fn bins(t: &mut Translation<'_>, class: &str, num_bins: usize) {
    let names: Vec<String> =
        own::BIN_SCORES.names.iter().map(|name| name.replace("<CLASS>", class)).collect();
    let mut of_class = None;
    for name in &names {
        let Some(found) = t.take_name(name) else { continue };
        match &of_class {
            None => of_class = Some(found),
            Some(_) => t.replaced(&found),
        }
    }
    let Some(found) = of_class else { return t.missing(&names[0], NODE_FILE) };
    match numbers_of(&found.node).filter(|scores| scores.len() == num_bins) {
        Some(scores) => {
            emit(t, &found, &format!("{BY_DISTANCE}.{class}"), &scores);
        }
        None => t.refuse(&found, &format!("a list of {num_bins} numbers, one per bin")),
    }
}
