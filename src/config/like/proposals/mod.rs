//! `autoware_lidar_transfusion` (2024 to 2026-08) and `autoware_bevfusion` (2025 to 2026-08): one network
//! each, which takes the points of voxels and gives proposals; BEVFusion's may take images, too.
//!
//! Keys stand directly below `ros__parameters`. A file is read by the keys that it has, whatever
//! its generation.

mod bevfusion;
mod cameras;
pub(super) mod keys;
mod transfusion;

use super::centerpoint::{circle_then_footprints, emit, remapper};
use super::key::Key;
use super::translation::Translation;
use super::values::{number_of, numbers_of, text_of, texts_of};
pub(super) use bevfusion::translate as bevfusion;
use det_post_ros::NodeName;
use det_post_ros::yaml::Node;
pub(super) use transfusion::translate as transfusion;

/// Where the facts of the network usually stand.
const ML_PACKAGE: &str = "`..._ml_package.param.yaml`";
/// Where the other parameters usually stand.
const NODE_FILE: &str = "the parameter file of the node";
/// The radius that their nodes have where the parameter is not above 0.
const DEFAULT_RADIUS_M: f64 = 0.5;
/// Most boxes between stages. Their nodes have no limit but the proposals.
const MAX_BOXES: i64 = 8192;

/// The facts of the network that both have, and its file. Returns the names of its classes.
fn network(t: &mut Translation<'_>, kind: &str) -> Vec<String> {
    for (key, fact) in [("sensor", "lidar"), ("encoder", "none"), ("kind", kind)] {
        t.set(&format!("head.{key}"), fact);
    }
    let classes = t.take_required(&keys::CLASS_NAMES, ML_PACKAGE);
    if let Some(given) = &classes {
        t.rename(given, "head.class_names");
    }
    for (key, ours) in
        [(&keys::POINT_CLOUD_RANGE, "head.point_range_m"), (&keys::VOXEL_SIZE, "head.voxel_size_m")]
    {
        required(t, key, ours, ML_PACKAGE);
    }
    if let Some(given) = t.take_required(&keys::VOXELS_NUM, ML_PACKAGE) {
        match &given.node {
            Node::List(nums) if nums.len() == 3 && is_ascending(nums) => {
                let ours = [
                    ("head.min_voxels", nums[0].clone()),
                    ("head.voxel_capacity", nums[2].clone()),
                ];
                t.convert(&given, &ours, "");
            }
            _ => t.refuse(
                &given,
                "a list of 3 integers, none below the one before: fewest, usual, most",
            ),
        }
    }
    if !t.is_set("head.voxel_capacity") {
        // A problem names their key: no second one names ours.
        t.set("head.voxel_capacity", 1);
    }
    required(t, &keys::ONNX_PATH, "model_path", NODE_FILE);
    engine(t);
    classes.and_then(|given| texts_of(&given.node)).unwrap_or_default()
}

/// Whether a list has integers none of which is below the one before.
fn is_ascending(nums: &[Node]) -> bool {
    nums.is_sorted_by(|a, b| matches!((a, b), (Node::Integer(a), Node::Integer(b)) if a <= b))
}

/// Sets a parameter of ours to one that must be given.
fn required(t: &mut Translation<'_>, key: &Key, ours: &str, place: &str) {
    match t.take_required(key, place) {
        Some(given) if given.node.is_empty() => t.refuse(&given, "a value"),
        Some(given) => t.rename(&given, ours),
        None => {}
    }
}

/// What TensorRT takes.
fn engine(t: &mut Translation<'_>) {
    let is_tensorrt = t.peek("engine.provider").is_some_and(|node| *node == "tensorrt".into());
    if let Some(given) = t.take(&keys::PRECISION) {
        let is_fp16 = text_of(&given.node) == Some("fp16");
        t.engine(&given, is_tensorrt.then(|| ("engine.fp16", is_fp16.into())));
    }
    if let Some(given) = t.take(&keys::ENGINE_PATH) {
        t.engine(&given, None);
    }
}

/// What follows the network in both nodes: yaw norms, suppression, labels, sweeps, diagnostics,
/// topics.
fn rest(t: &mut Translation<'_>, node: &NodeName, class_names: &[String], targets: Option<&Key>) {
    remapper::translate(t, node, None, true);
    yaw_norms(t, class_names.len());
    t.set("nms.class_mode", "agnostic");
    radius(t);
    let targets = targets.and_then(|key| t.take(key));
    circle_then_footprints(t, targets, class_names);
    required(t, &keys::IOU_DISTANCE, "nms.search_distance_m", NODE_FILE);
    required(t, &keys::IOU_THRESHOLD, "nms.iou_thresholds", NODE_FILE);
    required(t, &keys::PAST_FRAMES, "densification.num_past_sweeps", NODE_FILE);
    required(t, &keys::WORLD_FRAME, "densification.world_frame", NODE_FILE);
    required(t, &keys::CLOUD_CAPACITY, "point_capacity", NODE_FILE);
    for (key, ours) in [
        (&keys::MAX_TIME, "max_ms"),
        (&keys::MAX_DELAY, "max_delay_ms"),
        (&keys::INTERVAL, "interval_ms"),
    ] {
        if let Some(given) = t.take(key) {
            t.rename(&given, &format!("processing_time_diagnostics.{ours}"));
        }
    }
    t.default("publish.debug_times", node.name());
    t.default("publish.published_time", true);
    t.default("idle_without_subscribers", true);
    t.default("output_type", "detected_objects");
    t.topics("~/input/pointcloud", "~/output/objects");
    for key in ["pre_nms_top_k", "max_detections"] {
        t.default(key, MAX_BOXES);
    }
}

fn radius(t: &mut Translation<'_>) {
    const OURS: &str = "nms.circle_radius_m";
    let Some(given) = t.take_required(&keys::CIRCLE, NODE_FILE) else { return };
    match number_of(&given.node) {
        Some(radius) if radius <= 0.0 => {
            t.convert(
                &given,
                &[(OURS, DEFAULT_RADIUS_M.into())],
                "not above 0: 0.5, as in their node",
            );
        }
        _ => t.rename(&given, OURS),
    }
}

/// Least norms of sine and cosine of the classes, of as many or more.
fn yaw_norms(t: &mut Translation<'_>, num_classes: usize) {
    let Some(given) = t.take_required(&keys::YAW_NORM_THRESHOLDS, NODE_FILE) else { return };
    match numbers_of(&given.node) {
        Some(norms) if norms.len() >= num_classes => {
            emit(t, &given, "yaw_norm_thresholds", &norms[..num_classes]);
        }
        _ => t.refuse(&given, &format!("a list of {num_classes} numbers, one per class")),
    }
}
