//! `yolo_ros`, 4.6.

use std::path::Path;

use super::key::Key;
use super::translation::{Translation, TranslationOutcome, text_of};
use det_post_ros::yaml::Node;

const MODEL_TYPE: Key = Key::fixed(&["model_type"], "").note("YOLO; others are refused");
const MODEL: Key = Key::fixed(&["model"], "`model_path`")
    .note("of a .pt the exported .onnx beside it; left out: yolov8m.pt");
const DEVICE: Key = Key::fixed(&["device"], "`device`").note("cuda:0 is `auto`");
const ENABLE: Key = Key::live(&["enable"], "`enabled`");
const THRESHOLD: Key =
    Key::live(&["threshold"], "`score_threshold`, `score_kept_when: above`").note("left out: 0.5");
const IOU: Key = Key::live(&["iou"], "`nms.iou_threshold`").note("left out: 0.5");
const MAX_DET: Key = Key::live(&["max_det"], "`max_detections`").note("left out: 300");
const AGNOSTIC_NMS: Key = Key::live(&["agnostic_nms"], "`nms.class_mode`");
const IMAGE_RELIABILITY: Key = Key::fixed(&["image_reliability"], "`qos.reliability`")
    .note("1 is reliable, others are best effort");
const IMAGE_SIZE: Key =
    Key::nothing(&["imgsz_height", "imgsz_width"]).note("the exported network fixes the size");
const TORCH: Key = Key::engine(&["fuse_model", "half"]);
const NOTHING: Key = Key::nothing(&["augment", "retina_masks", "yolo_encoding"]);

/// Its parameters.
pub(super) const KEYS: &[&Key] = &[
    &MODEL_TYPE,
    &MODEL,
    &DEVICE,
    &ENABLE,
    &THRESHOLD,
    &IOU,
    &MAX_DET,
    &AGNOSTIC_NMS,
    &IMAGE_RELIABILITY,
    &IMAGE_SIZE,
    &TORCH,
    &NOTHING,
];

/// Its live parameters as its node has them.
pub(super) fn defaults() -> Vec<(&'static str, Node)> {
    vec![
        ("threshold", Node::Number(0.5)),
        ("iou", Node::Number(0.5)),
        ("max_det", Node::Integer(300)),
        ("enable", Node::Flag(true)),
        ("agnostic_nms", Node::Flag(false)),
    ]
}

/// Emits our parameters.
pub(super) fn translate(t: &mut Translation<'_>) {
    for (key, value) in [
        ("head.sensor", "camera"),
        ("head.class_names", "coco80"),
        ("head.layout.kind", "v8"),
        ("head.placement", "center"),
        ("head.channel_order", "rgb"),
        ("nms.kind", "iou"),
        ("score_kept_when", "above"),
    ] {
        t.set(key, value);
    }
    t.set("head.pad_value", 114.0);
    t.set("head.std", 255.0);
    if let Some(given) = t.take(&MODEL_TYPE) {
        match text_of(&given.node) {
            Some("YOLO") => t.ignore(&given, TranslationOutcome::NoEffect, ""),
            _ => t.refuse(&given, "YOLO: World and YOLOE make weights of names of classes, which an exported network cannot"),
        }
    }
    model(t);
    device(t);
    for (key, ours) in [
        (&THRESHOLD, "score_threshold"),
        (&IOU, "nms.iou_threshold"),
        (&MAX_DET, "max_detections"),
        (&ENABLE, "enabled"),
    ] {
        if let Some(given) = t.take(key) {
            t.rename(&given, ours);
        }
    }
    if let Some(given) = t.take(&AGNOSTIC_NMS) {
        let mode = if given.node == Node::Flag(true) { "agnostic" } else { "aware" };
        t.convert(&given, &[("nms.class_mode", mode.into())], "");
    }
    match t.take(&IMAGE_RELIABILITY) {
        Some(given) if given.node == Node::Integer(1) => {
            t.convert(&given, &[("qos.reliability", "reliable".into())], "");
        }
        Some(given) => t.convert(&given, &[("qos.reliability", "best_effort".into())], ""),
        None => {}
    }
    t.default("output_type", "yolo_detection_array");
    t.default("enable_service", "enable");
    t.topics("image_raw", "detections");
}

/// The network: a .pt cannot be loaded, the .onnx that was exported from it can.
fn model(t: &mut Translation<'_>) {
    let given = t.take(&MODEL);
    let named = match &given {
        None => "yolov8m.pt",
        Some(given) => match text_of(&given.node).filter(|path| !path.is_empty()) {
            Some(path) => path,
            None => return t.refuse(given, "the path of a network"),
        },
    };
    let path = Path::new(named);
    let is_torch = path.extension().is_some_and(|extension| extension == "pt");
    let onnx = if is_torch { path.with_extension("onnx") } else { path.to_owned() };
    let text = onnx.to_string_lossy().into_owned();
    let Some(given) = &given else { return t.set("model_path", text) };
    if !is_torch {
        return t.rename(given, "model_path");
    }
    t.convert(given, &[("model_path", text.as_str().into())], "the exported network beside it");
    if !onnx.is_file() {
        let note = format!("{text} is not there: `yolo export model={named} format=onnx` makes it");
        t.warn(&given.key, &note);
    }
}

fn device(t: &mut Translation<'_>) {
    let Some(given) = t.take(&DEVICE) else { return };
    match text_of(&given.node) {
        // So that it starts without a GPU, too.
        Some("cuda:0" | "cuda") => t.convert(&given, &[("device", "auto".into())], ""),
        Some(_) => t.rename(&given, "device"),
        None => t.refuse(&given, "cpu or cuda:N"),
    }
}
