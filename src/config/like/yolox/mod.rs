//! `autoware_tensorrt_yolox`, from 2024-02 to 2026-08.

pub(super) mod keys;
mod labels;

use std::path::{Path, PathBuf};

use super::translation::{Given, Translation, TranslationOutcome};
use super::values::text_of;
use crate::config::files::{Sections, origin_of, read_file};
use crate::config::problems::Problems;
use det_post_ros::NodeName;
use det_post_ros::yaml::Node;

const NODE_FILE: &str = "the parameter file of the node (`yolox_....param.yaml`)";
/// The list of files of a folder of parameters.
const MANIFEST: &str = "parameters.manifest.yaml";
/// Most boxes between stages. Their node has no limit.
const MAX_BOXES: i64 = 8192;

/// Emits our parameters.
pub(super) fn translate(t: &mut Translation<'_>, node: &NodeName) {
    if let Some(given) = t.take(&keys::CONFIG_DIR) {
        read_folder(t, node, &given);
    }
    let is_before_2024_07 = t.has("calibration_algorithm") && !t.has(keys::COLOR_MASK.names[0]);
    let folder = t.take(&keys::MODEL_DIR).and_then(|given| {
        t.convert(&given, &[], "the folder of the networks");
        text_of(&given.node).map(PathBuf::from)
    });
    for (key, fact) in [
        ("sensor", "camera"),
        ("layout.kind", "yolox"),
        ("placement", "top_left"),
        ("channel_order", "bgr"),
    ] {
        t.set(&format!("head.{key}"), fact);
    }
    t.set("head.layout.strides", [8.0, 16.0, 32.0]);
    t.set("head.pad_value", 114.0);
    model_path(t, folder.as_deref());
    labels::translate(t, folder.as_deref());
    thresholds(t);
    device(t);
    if let Some(given) = t.take(&keys::CENTER_CROP) {
        match given.node {
            Node::Flag(false) => t.ignore(&given, TranslationOutcome::NoEffect, ""),
            _ => t.refuse(&given, "false: the middle of the image is not detected on its own"),
        }
    }
    if t.peek("is_publish_color_mask") == Some(&Node::Flag(true))
        && let Some(given) = t.take(&keys::COLOR_MASK)
    {
        t.ignore(&given, TranslationOutcome::NoEffect, "");
        t.warn(&given.key, "no effect: there is no mask");
    }
    for (key, value) in [("pre_nms_top_k", MAX_BOXES), ("max_detections", MAX_BOXES)] {
        t.default(key, value);
    }
    t.default("output_type", "detected_objects_with_feature");
    if is_before_2024_07 {
        t.default("publish.debug_times_package", "tier4_debug_msgs");
    }
    t.default("publish.debug_times", node.name());
    t.default("idle_without_subscribers", true);
    t.default("publish.debug_image_topic", "~/out/image");
    t.topics("~/in/image", "~/out/objects");
}

fn model_path(t: &mut Translation<'_>, folder: Option<&Path>) {
    let name = t.arguments.get("model_name").map_or("yolox-tiny", String::as_str);
    path(t, &keys::MODEL_PATH, folder, &format!("{name}.onnx"), |t, given, path| {
        match text_of(&given.node) == Some(path) {
            true => t.rename(given, "model_path"),
            false => t.convert(given, &[("model_path", path.into())], ""),
        }
    })
    .into_iter()
    .for_each(|path| t.set("model_path", path));
}

/// Gives a path, in the folder of the networks unless it is absolute, to `take`. Returns
/// the pattern of the launch file where the key is not given.
fn path(
    t: &mut Translation<'_>,
    key: &super::key::Key,
    folder: Option<&Path>,
    file: &str,
    take: impl FnOnce(&mut Translation<'_>, &Given, &str),
) -> Option<String> {
    if let Some(given) = t.take(key) {
        match text_of(&given.node).filter(|path| !path.is_empty()) {
            Some(path) => {
                let path = folder.map_or(PathBuf::from(path), |folder| folder.join(path));
                take(t, &given, &path.to_string_lossy());
            }
            None => t.refuse(&given, "a path"),
        }
        return None;
    }
    let data = t.arguments.get("data_path").map(|data| Path::new(data).join("tensorrt_yolox"));
    let Some(folder) = folder.map(Path::to_owned).or(data) else {
        let place = format!("{NODE_FILE}; or give --arg data_path:=FOLDER");
        t.missing(key.names[0], &place);
        return None;
    };
    Some(folder.join(file).to_string_lossy().into_owned())
}

fn thresholds(t: &mut Translation<'_>) {
    t.set("score_kept_when", "above");
    t.set("nms.kind", "iou");
    t.set("nms.class_mode", "agnostic");
    for (key, ours) in
        [(&keys::SCORE_THRESHOLD, "score_threshold"), (&keys::NMS_THRESHOLD, "nms.iou_threshold")]
    {
        if let Some(given) = t.take_required(key, NODE_FILE) {
            t.rename(&given, ours);
        }
    }
}

/// Where the network runs, and its precision.
fn device(t: &mut Translation<'_>) {
    if let Some(given) = t.take(&keys::GPU_ID) {
        match given.node {
            // So that it starts without a GPU, too.
            Node::Integer(0) => t.convert(&given, &[("device", "auto".into())], ""),
            Node::Integer(n) if n > 0 => {
                t.convert(&given, &[("device", format!("cuda:{n}").into())], "");
            }
            _ => t.refuse(&given, "an integer, 0 or more"),
        }
    }
    let is_tensorrt = t.peek("engine.provider").is_some_and(|node| *node == "tensorrt".into());
    let Some(given) = t.take(&keys::PRECISION) else { return };
    let precision = text_of(&given.node).unwrap_or_default();
    t.engine(&given, is_tensorrt.then(|| ("engine.fp16", (precision == "fp16").into())));
    if precision == "int8" {
        t.warn(&given.key, "int8 is not done here: floats");
    }
}

/// Reads the files that the manifest of a folder lists; values that are given hold.
fn read_folder(t: &mut Translation<'_>, node: &NodeName, given: &Given) {
    let Some(folder) = text_of(&given.node).map(PathBuf::from) else {
        return t.refuse(given, "a folder");
    };
    let listed = read_file(&folder.join(MANIFEST))
        .map_err(|error| error.to_string())
        .and_then(|text| Node::parse(&text))
        .and_then(|manifest| match &manifest {
            Node::Map(map) => match map.get("config_files") {
                Some(Node::List(names)) => {
                    Ok(names.iter().filter_map(|name| Some(folder.join(text_of(name)?))).collect())
                }
                _ => Err(format!("{MANIFEST} has no list `config_files`")),
            },
            _ => Err(format!("{MANIFEST} has no list `config_files`")),
        });
    let files: Vec<PathBuf> = match listed {
        Ok(files) => files,
        Err(message) => return t.problem(&given.key, &message),
    };
    let mut problems = Problems::default();
    let mut sections = Sections::new(node, t.arguments, true);
    for file in &files {
        match read_file(file) {
            Ok(text) => sections.add_file(&text, &origin_of(file), &mut problems),
            Err(error) => problems.push(&given.key, &error.to_string()),
        }
    }
    let entries = sections.into_entries(&mut problems);
    t.append_problems(problems);
    t.convert(given, &[], &format!("{} files are read", files.len()));
    t.give_defaults(entries);
}
