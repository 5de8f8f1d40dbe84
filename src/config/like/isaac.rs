//! `isaac_ros_yolov8` and `isaac_ros_rtdetr`: decoders of tensors, 3.2 to 4.5.

use super::key::Key;
use super::translation::Translation;
use super::values::text_of;
use det_post_ros::yaml::Node;

const TENSOR_NAME: Key = Key::fixed(&["tensor_name"], "`head.output_names`");
const YOLO_CONFIDENCE: Key =
    Key::live(&["confidence_threshold"], "`score_threshold`, `score_kept_when: above`")
        .note("left out: 0.25");
const NMS_THRESHOLD: Key =
    Key::live(&["nms_threshold"], "`nms.iou_threshold`").note("left out: 0.45");
const NUM_CLASSES: Key = Key::fixed(&["num_classes"], "`head.class_names`")
    .note("left out: 80; classes have the names of COCO where they are 80, else their numbers");
const NETWORK_SIZE: Key =
    Key::fixed(&["network_image_width", "network_image_height"], "`head.input_size`")
        .note("of the encoder; needed with `source_size`");
/// The parameters of the decoder of YOLOv8.
pub(super) const YOLOV8_KEYS: &[&Key] =
    &[&TENSOR_NAME, &YOLO_CONFIDENCE, &NMS_THRESHOLD, &NUM_CLASSES, &NETWORK_SIZE];

const LABELS_NAME: Key = Key::fixed(&["labels_tensor_name"], "`head.output_names`");
const BOXES_NAME: Key = Key::fixed(&["boxes_tensor_name"], "`head.output_names`");
const SCORES_NAME: Key = Key::fixed(&["scores_tensor_name"], "`head.output_names`");
const DETR_CONFIDENCE: Key =
    Key::live(&["confidence_threshold"], "`score_threshold`, `score_kept_when: above`")
        .note("left out: 0.9");
const INPUT_QOS: Key = Key::fixed(&["input_qos"], "`qos.reliability`")
    .note("SENSOR_DATA is best effort, others are reliable");
const OTHER_QOS: Key = Key::nothing(&["input_qos_depth", "output_qos", "output_qos_depth"])
    .note("`qos_overrides.*` sets the quality of service of a topic");
/// The parameters of the decoder of RT-DETR.
pub(super) const RTDETR_KEYS: &[&Key] = &[
    &LABELS_NAME,
    &BOXES_NAME,
    &SCORES_NAME,
    &DETR_CONFIDENCE,
    &INPUT_QOS,
    &OTHER_QOS,
    &NETWORK_SIZE,
];

/// Most boxes between stages: more than a network of 1280 by 1280 pixels proposes.
const MAX_BOXES: i64 = 65_536;

/// Classes of a network that does not tell their number.
const MAX_CLASSES: i64 = 256;

/// The live parameters of the decoder of YOLOv8 as its node has them.
pub(super) fn yolov8_defaults() -> Vec<(&'static str, Node)> {
    vec![("confidence_threshold", Node::Number(0.25)), ("nms_threshold", Node::Number(0.45))]
}

/// The live parameters of the decoder of RT-DETR as its node has them.
pub(super) fn rtdetr_defaults() -> Vec<(&'static str, Node)> {
    vec![("confidence_threshold", Node::Number(0.9))]
}

/// Emits our parameters for the decoder of YOLOv8.
pub(super) fn yolov8(t: &mut Translation<'_>) {
    common(t, "v8", "center");
    let name = name_of(t, &TENSOR_NAME, "output_tensor");
    t.set("head.output_names", [name.as_str()]);
    threshold(t, &YOLO_CONFIDENCE, "score_threshold");
    t.set("nms.kind", "iou");
    t.set("nms.class_mode", "agnostic");
    threshold(t, &NMS_THRESHOLD, "nms.iou_threshold");
    match t.take(&NUM_CLASSES) {
        None => t.set("head.class_names", "coco80"),
        Some(given) => match given.node {
            Node::Integer(80) => t.convert(&given, &[("head.class_names", "coco80".into())], ""),
            Node::Integer(num) if (1..=4096).contains(&num) => {
                t.convert(&given, &[("head.class_names", numbers(num))], "");
            }
            _ => t.refuse(&given, "an integer from 1 to 4096"),
        },
    }
}

/// Emits our parameters for the decoder of RT-DETR.
pub(super) fn rtdetr(t: &mut Translation<'_>) {
    common(t, "detr", "top_left");
    t.set("head.layout.boxes", "corner_pixels");
    t.set("head.layout.logits", false);
    let names = [(&BOXES_NAME, "boxes"), (&SCORES_NAME, "scores"), (&LABELS_NAME, "labels")]
        .map(|(key, otherwise)| name_of(t, key, otherwise));
    t.set("head.output_names", names.each_ref().map(String::as_str));
    t.set("head.class_names", numbers(MAX_CLASSES));
    threshold(t, &DETR_CONFIDENCE, "score_threshold");
    if let Some(given) = t.take(&INPUT_QOS) {
        let is_sensor_data =
            text_of(&given.node).is_some_and(|qos| qos.eq_ignore_ascii_case("sensor_data"));
        let reliability = if is_sensor_data { "best_effort" } else { "reliable" };
        t.convert(&given, &[("qos.reliability", reliability.into())], "");
    }
}

/// What holds for both decoders.
fn common(t: &mut Translation<'_>, layout: &str, placement: &str) {
    for (key, value) in [
        ("head.sensor", "camera"),
        ("head.layout.kind", layout),
        ("head.placement", placement),
        ("head.channel_order", "rgb"),
        ("engine.kind", "external"),
        ("publish.class_id", "index"),
        ("score_kept_when", "above"),
    ] {
        t.set(key, value);
    }
    for key in ["candidate_capacity", "pre_nms_top_k", "max_detections"] {
        t.default(key, MAX_BOXES);
    }
    t.default("qos.reliability", "reliable");
    t.topics("tensor_sub", "detections_output");
    let sides = ["network_image_width", "network_image_height"].map(|name| t.take_name(name));
    match sides {
        [Some(width), Some(height)] => {
            let size = Node::List(vec![width.node.clone(), height.node.clone()]);
            t.convert(&width, &[("head.input_size", size)], "");
            t.convert(&height, &[], "");
        }
        [Some(one), None] | [None, Some(one)] => {
            t.refuse(&one, "both network_image_width and network_image_height");
        }
        [None, None] => {}
    }
}

/// The name of a tensor.
fn name_of(t: &mut Translation<'_>, key: &Key, otherwise: &str) -> String {
    let Some(given) = t.take(key) else { return otherwise.to_owned() };
    match text_of(&given.node).filter(|name| !name.is_empty()) {
        Some(name) => {
            t.convert(&given, &[], "in `head.output_names`");
            name.to_owned()
        }
        None => {
            t.refuse(&given, "the name of a tensor");
            otherwise.to_owned()
        }
    }
}

fn threshold(t: &mut Translation<'_>, key: &Key, ours: &str) {
    if let Some(given) = t.take(key) {
        t.rename(&given, ours);
    }
}

/// Classes that are called by their numbers.
fn numbers(num: i64) -> Node {
    Node::List((0..num).map(|class| Node::Text(class.to_string())).collect())
}
