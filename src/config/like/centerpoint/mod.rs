//! `autoware_lidar_centerpoint`, from 2021-12 to 2026-08.
//!
//! Keys stand directly below `ros__parameters` until 2024-04 and in groups since then. A
//! file is read by the keys that it has, whatever its generation: of two names of one
//! parameter the newer holds, and what depends on the generation follows from the keys
//! beside.

pub(super) mod keys;
pub(super) mod remapper;
mod scores;

use std::path::{Path, PathBuf};

use super::translation::{Given, Translation, TranslationOutcome};
use super::values::{number_of, numbers_of, text_of, texts_of};
use det_post_ros::NodeName;
use det_post_ros::yaml::Node;
pub(super) use scores::emit;

/// Where the facts of the network usually stand.
const ML_PACKAGE: &str = "`..._ml_package.param.yaml`";
/// Where the other parameters usually stand.
const NODE_FILE: &str =
    "the parameter file of the node (`centerpoint.param.yaml`, `centerpoint_common.param.yaml`)";
/// The radius that their node has where the parameter is not above 0.
const DEFAULT_RADIUS_M: f64 = 1.5;
/// Most boxes between stages. Their node has no limit.
const MAX_BOXES: i64 = 8192;

/// Emits our parameters.
pub(super) fn translate(t: &mut Translation<'_>, node: &NodeName) {
    let is_nested = ["model_params.", "post_process_params.", "densification_params."]
        .iter()
        .any(|prefix| t.has_below(prefix));
    if let Some(given) = t.take(&keys::LIBTORCH) {
        t.refuse(&given, "networks in ONNX (`encoder_onnx_path`, `head_onnx_path`)");
    }
    check_version(t);
    let has_suppression = [&keys::CIRCLE, &keys::IOU_DISTANCE, &keys::IOU_THRESHOLD]
        .into_iter()
        .chain([&keys::IOU_TARGETS])
        .any(|key| t.has_key(key));
    let folder = model_folder(t);
    remapper::translate(t, node, folder.as_deref(), has_suppression);
    paths(t, folder.as_deref());
    let class_names = head(t);
    let is_single = scores::translate(t, &class_names, is_nested);
    scores::yaw_norms(t, class_names.len(), is_nested);
    let is_before_2024_12 = !is_nested || (is_single && t.has_key(&keys::IOU_TARGETS));
    suppression(t, &class_names, is_nested, is_before_2024_12);
    densification(t, is_nested);
    publishing(t);
    messages(t, is_nested, is_before_2024_12);
    for (key, value) in [("pre_nms_top_k", MAX_BOXES), ("max_detections", MAX_BOXES)] {
        t.default(key, value);
    }
}

/// The facts of the network. Returns the names of its classes.
fn head(t: &mut Translation<'_>) -> Vec<String> {
    for (key, fact) in [("sensor", "lidar"), ("kind", "center")] {
        t.set(&format!("head.{key}"), fact);
    }
    t.set("head.max_points_per_voxel", 32);
    t.set("head.size_order", "width_length_height");
    t.set("head.yaw", "clockwise_from_minus_y");
    t.set("head.output_order", "heatmap_first");
    let classes = t.take_required(&keys::CLASS_NAMES, ML_PACKAGE);
    if let Some(given) = &classes {
        t.rename(given, "head.class_names");
    }
    for (key, ours) in [
        (&keys::MAX_VOXEL_SIZE, "head.voxel_capacity"),
        (&keys::POINT_CLOUD_RANGE, "head.point_range_m"),
        (&keys::VOXEL_SIZE, "head.voxel_size_m"),
        (&keys::DOWNSAMPLE_FACTOR, "head.downsample_factor"),
    ] {
        if let Some(given) = t.take_required(key, ML_PACKAGE) {
            t.rename(&given, ours);
        }
    }
    features(t);
    match t.take(&keys::HAS_VARIANCE) {
        Some(given) => t.rename(&given, "head.has_variance"),
        None => t.set("head.has_variance", false),
    }
    classes.and_then(|given| texts_of(&given.node)).unwrap_or_default()
}

/// The values of a point, and of a point of a pillar.
fn features(t: &mut Translation<'_>) {
    let point = t.take_required(&keys::POINT_FEATURE_SIZE, ML_PACKAGE);
    let encoder = t.take_required(&keys::ENCODER_IN_FEATURE_SIZE, ML_PACKAGE);
    let (Some(point), Some(encoder)) = (point, encoder) else { return };
    let (channels, has_z) = match (&point.node, &encoder.node) {
        (Node::Integer(4), Node::Integer(9)) => (vec!["time_lag"], false),
        (Node::Integer(4), Node::Integer(10)) => (vec!["time_lag"], true),
        (Node::Integer(5), Node::Integer(11)) => (vec!["intensity", "time_lag"], true),
        (point_size, _) => {
            let allowed = format!("with {} {point_size}: 9 or 10 for 4, 11 for 5", point.key);
            return t.refuse(&encoder, &allowed);
        }
    };
    t.convert(&point, &[("head.point_channels", channels.into())], "");
    t.convert(&encoder, &[("head.center_offset_z", has_z.into())], "");
}

/// Circle suppression, then that of footprints where their node has it.
fn suppression(
    t: &mut Translation<'_>,
    class_names: &[String],
    is_nested: bool,
    is_before_2024_12: bool,
) {
    t.set("nms.class_mode", "agnostic");
    circle(t, is_nested);
    let given_targets = t.take(&keys::IOU_TARGETS);
    let distance = t.take(&keys::IOU_DISTANCE);
    let threshold = t.take(&keys::IOU_THRESHOLD);
    if !is_nested && given_targets.is_none() && distance.is_none() && threshold.is_none() {
        return t.set("nms.kind", ["circle"]);
    }
    let parts = [
        (distance, &keys::IOU_DISTANCE, "nms.search_distance_m"),
        (threshold, &keys::IOU_THRESHOLD, "nms.iou_thresholds"),
    ];
    for (given, key, ours) in parts {
        match given {
            Some(given) => t.rename(&given, ours),
            None => t.missing(key.names[usize::from(!is_nested)], NODE_FILE),
        }
    }
    footprints(t, given_targets, class_names, is_before_2024_12);
}

/// Circle suppression, then suppression of footprints, of a node that has target classes until 2024-12-11.
pub(super) fn circle_then_footprints(
    t: &mut Translation<'_>,
    targets: Option<Given>,
    class_names: &[String],
) {
    let is_before_2024_12 = targets.is_some();
    footprints(t, targets, class_names, is_before_2024_12);
}

fn circle(t: &mut Translation<'_>, is_nested: bool) {
    const OURS: &str = "nms.circle_radius_m";
    let given = match is_nested {
        true => t.take_required(&keys::CIRCLE, NODE_FILE),
        false => t.take(&keys::CIRCLE),
    };
    match given {
        Some(given) if number_of(&given.node).is_some_and(|radius| radius <= 0.0) => {
            t.convert(&given, &[(OURS, DEFAULT_RADIUS_M.into())], "");
            t.warn(&given.key, "not above 0: 1.5, as in their node");
        }
        Some(given) => t.rename(&given, OURS),
        None => t.set(OURS, DEFAULT_RADIUS_M),
    }
}

/// Which boxes the suppression of footprints compares. Until 2024-12-11 boxes of two target
/// classes at any distance, others within the distance; since then all within the
/// distance, but pedestrians only with pedestrians.
fn footprints(
    t: &mut Translation<'_>,
    targets: Option<Given>,
    class_names: &[String],
    is_before_2024_12: bool,
) {
    const PEDESTRIAN: &str = "PEDESTRIAN";
    t.set("nms.kind", ["circle", "bev_fast"]);
    match targets {
        Some(given) if is_before_2024_12 => {
            let known = |name: &String| class_names.contains(name);
            let names = texts_of(&given.node)
                .map(|names| names.into_iter().filter(known).map(Node::Text).collect::<Vec<_>>());
            let node = names.map_or(given.node.clone(), Node::List);
            t.convert(&given, &[("nms.unlimited_classes", node)], "");
        }
        Some(given) => {
            t.ignore(&given, TranslationOutcome::NoEffect, "beside thresholds per class")
        }
        None => {}
    }
    let has_others = class_names.iter().any(|name| name != PEDESTRIAN);
    if !is_before_2024_12 && has_others && class_names.iter().any(|name| name == PEDESTRIAN) {
        t.set("nms.forbidden_pairs", [format!("{PEDESTRIAN}-*")]);
    }
}

fn densification(t: &mut Translation<'_>, is_nested: bool) {
    for (key, ours) in [
        (&keys::PAST_FRAMES, "densification.num_past_sweeps"),
        (&keys::WORLD_FRAME, "densification.world_frame"),
    ] {
        let given = if is_nested { t.take_required(key, NODE_FILE) } else { t.take(key) };
        if let Some(given) = given {
            t.rename(&given, ours);
        }
    }
    if let Some(given) = t.take(&keys::CLOUD_CAPACITY) {
        t.rename(&given, "point_capacity");
    }
}

/// The folder that relative paths begin at: the parameter, or the launch argument.
fn model_folder(t: &mut Translation<'_>) -> Option<PathBuf> {
    if let Some(given) = t.take(&keys::MODEL_FOLDER) {
        let folder = text_of(&given.node).map(PathBuf::from);
        match folder {
            Some(_) => t.convert(&given, &[], "the folder of the networks"),
            None => t.refuse(&given, "text"),
        }
        return folder;
    }
    let argument = |name: &str| t.arguments.get(name).map(Path::new);
    argument("model_path")
        .map(Path::to_owned)
        .or_else(|| Some(argument("data_path")?.join("lidar_centerpoint")))
}

fn paths(t: &mut Translation<'_>, folder: Option<&Path>) {
    for (key, ours, stem) in [
        (&keys::ENCODER_PATH, "encoder_path", "pts_voxel_encoder"),
        (&keys::HEAD_PATH, "model_path", "pts_backbone_neck_head"),
    ] {
        match (t.take(key), folder) {
            (Some(given), _) => {
                let path = text_of(&given.node).map(|path| in_folder(folder, path));
                match path {
                    Some(path) if Some(&*path) != text_of(&given.node) => {
                        t.convert(&given, &[(ours, path.into())], "");
                    }
                    _ => t.rename(&given, ours),
                }
            }
            (None, Some(folder)) => {
                let name = t.arguments.get("model_name").map_or("centerpoint_tiny", String::as_str);
                let path = folder.join(format!("{stem}_{name}.onnx"));
                t.set(ours, path.to_string_lossy().into_owned());
            }
            (None, None) => {
                let place = "the parameter file of the node; or give --arg model_path:=FOLDER and \
                             --arg model_name:=NAME";
                t.missing(key.names[0], place);
            }
        }
    }
    engine(t);
}

/// A path in the folder of the networks, unless it is absolute.
fn in_folder(folder: Option<&Path>, path: &str) -> String {
    match folder {
        Some(folder) => folder.join(path).to_string_lossy().into_owned(),
        None => path.to_owned(),
    }
}

/// What TensorRT takes.
fn engine(t: &mut Translation<'_>) {
    let is_tensorrt = t.peek("engine.provider").is_some_and(|node| *node == "tensorrt".into());
    if let Some(given) = t.take(&keys::PRECISION) {
        let is_fp16 = text_of(&given.node) == Some("fp16");
        t.engine(&given, is_tensorrt.then(|| ("engine.fp16", is_fp16.into())));
    } else if is_tensorrt {
        t.set("engine.fp16", true);
    }
    for name in keys::ENGINE_PATHS.names {
        let Some(given) = t.take_name(name) else { continue };
        let parent = text_of(&given.node).and_then(|path| Path::new(path).parent());
        let folder = parent.map(|parent| parent.to_string_lossy().into_owned());
        let folder = folder.filter(|folder| is_tensorrt && !folder.is_empty());
        t.engine(&given, folder.map(|folder| ("engine.cache_folder", folder.into())));
    }
}

/// Refuses files of another major version.
fn check_version(t: &mut Translation<'_>) {
    let Some(given) = t.take(&keys::VERSION) else { return };
    let text = text_of(&given.node).map(|text| text.trim_start_matches(['v', 'V']));
    let is_known = text.is_some_and(|text| text == "4" || text.starts_with("4."))
        || number_of(&given.node).is_some_and(|version| version.trunc() == 4.0);
    match is_known {
        true => t.convert(&given, &[], "checked"),
        false => t.refuse(&given, "a version of major 4, such as v4.1"),
    }
}

/// What is published besides the boxes.
fn publishing(t: &mut Translation<'_>) {
    match t.take(&keys::HAS_TWIST) {
        Some(given) => t.rename(&given, "publish.velocity"),
        None => t.default("publish.velocity", false),
    }
    match t.take(&keys::LOGGER_NAME) {
        Some(given) => t.rename(&given, "publish.debug_times"),
        None => t.default("publish.debug_times", "lidar_centerpoint"),
    }
    for (key, ours) in [
        (&keys::MAX_TIME, "max_ms"),
        (&keys::MAX_DELAY, "max_delay_ms"),
        (&keys::INTERVAL, "interval_ms"),
    ] {
        if let Some(given) = t.take(key) {
            t.rename(&given, &format!("processing_time_diagnostics.{ours}"));
        }
    }
    t.default("processing_time_diagnostics.pillars_status", "centerpoint_trt");
    t.default("publish.published_time", true);
    t.default("idle_without_subscribers", true);
    t.topics("~/input/pointcloud", "~/output/objects");
}

/// The packages of the messages, which other nodes of that time subscribe to: files with
/// groups are of 2024-04 and later, those with `iou_nms_target_class_names` beside one
/// threshold of 2024-12 and before.
fn messages(t: &mut Translation<'_>, is_nested: bool, is_before_2024_12: bool) {
    let objects = if is_nested { "detected_objects" } else { "auto_detected_objects" };
    t.default("output_type", objects);
    if is_before_2024_12 {
        t.default("publish.debug_times_package", "tier4_debug_msgs");
    }
}

/// A list of numbers of a length.
fn list_of(node: &Node, len: usize) -> Option<Vec<f64>> {
    numbers_of(node).filter(|numbers| numbers.len() == len)
}
