//! The parameters of `yolo_ros`: of its node in Python (4.x), and in C++ (2026).

use crate::config::like::key::Key;
use det_post_ros::yaml::Node;

pub(super) const MODEL_TYPE: Key = Key::fixed(&["model_type"], "")
    .note("YOLO, Detect, OBB, Pose, Segment or auto; World and YOLOE with `vocabulary_path` and `classes`");
pub(super) const MODEL: Key = Key::fixed(&["model", "model_path"], "`model_path`")
    .note("of a .pt the exported .onnx beside it; left out before 2026: yolov8m.pt");
pub(super) const MODEL_REPO: Key = Key::fixed(&["model_repo"], "`model_path`")
    .note("with `model_filename` in place of `model`: a file that is there, nothing is downloaded");
pub(super) const MODEL_FILENAME: Key = Key::fixed(&["model_filename"], "`model_path`");
pub(super) const CACHE_DIR: Key =
    Key::fixed(&["cache_dir"], "`model_path`").note("left out: ~/.cache/huggingface/hub");
pub(super) const DEVICE: Key =
    Key::fixed(&["device"], "`device`").note("cuda:0 is `auto`; trt:1 and 1 are cuda:1");
pub(super) const PROVIDER: Key =
    Key::fixed(&["provider"], "`device`").note("cpu; TensorRT needs `engine.provider: tensorrt`");
pub(super) const ENABLE: Key = Key::live(&["enable"], "`enabled`");
pub(super) const THRESHOLD: Key = Key::live(&["threshold"], "`score_threshold`, `score_kept_when`")
    .note("left out: 0.5, from 2026 on 0.7, where a score may equal it");
pub(super) const IOU: Key =
    Key::live(&["iou"], "`nms.iou_threshold`").note("left out: 0.5, from 2026 on 0.45");
pub(super) const MAX_DET: Key = Key::live(&["max_det"], "`max_detections`").note("left out: 300");
pub(super) const AGNOSTIC_NMS: Key = Key::live(&["agnostic_nms"], "`nms.class_mode`");
pub(super) const IMAGE_TOPIC: Key =
    Key::fixed(&["image_topic"], "`input`").note("left out: image_raw, from 2026 on image");
pub(super) const IMAGE_RELIABILITY: Key = Key::fixed(&["image_reliability"], "`qos.reliability`")
    .note("1 is reliable, others are best effort");
pub(super) const N_THREADS: Key =
    Key::fixed(&["n_threads"], "`engine.threads`").note("below 1: the engine's choice");
pub(super) const MAX_FPS: Key =
    Key::nothing(&["max_fps"]).note("the newest image is detected as soon as there is time");
pub(super) const PLUGINS: Key =
    Key::fixed(&["plugins"], "").note("the detector among them is det_post's channel");
pub(super) const CAMERAS: Key =
    Key::fixed(&["cameras"], "").note("one; a det_post for each of several");
const IMAGE_SIZE: Key =
    Key::nothing(&["imgsz_height", "imgsz_width"]).note("the exported network fixes the size");
const TORCH: Key = Key::engine(&["fuse_model", "half"]);
const TENSORRT: Key =
    Key::engine(&["trt_fp16_enable", "trt_engine_cache_enable", "trt_engine_cache_path"]);
const NOTHING: Key = Key::nothing(&[
    "augment",
    "retina_masks",
    "yolo_encoding",
    "force_download",
    "top_k",
    "max_batch_size",
]);

/// All of them.
pub(in crate::config::like) const ALL: &[&Key] = &[
    &MODEL_TYPE,
    &MODEL,
    &MODEL_REPO,
    &MODEL_FILENAME,
    &CACHE_DIR,
    &DEVICE,
    &PROVIDER,
    &ENABLE,
    &THRESHOLD,
    &IOU,
    &MAX_DET,
    &AGNOSTIC_NMS,
    &IMAGE_TOPIC,
    &IMAGE_RELIABILITY,
    &N_THREADS,
    &MAX_FPS,
    &PLUGINS,
    &CAMERAS,
    &IMAGE_SIZE,
    &TORCH,
    &TENSORRT,
    &NOTHING,
];

/// Keys that only the node in C++ has.
const NEWER: [&str; 7] =
    ["image_topic", "model_repo", "model_filename", "provider", "n_threads", "max_fps", "plugins"];

/// Whether the parameters are those of the node in C++; `has` says whether one is given.
pub(super) fn are_newer(has: impl Fn(&str) -> bool) -> bool {
    NEWER.iter().any(|name| has(name))
}

/// Its live parameters as its node has them.
pub(in crate::config::like) fn defaults(has: impl Fn(&str) -> bool) -> Vec<(&'static str, Node)> {
    if has("plugins") {
        // They have the name of a plugin before theirs.
        return Vec::new();
    }
    let is_newer = are_newer(has);
    let [threshold, iou] = if is_newer { [0.7, 0.45] } else { [0.5, 0.5] };
    let mut values = vec![
        ("threshold", Node::Number(threshold)),
        ("iou", Node::Number(iou)),
        ("max_det", Node::Integer(300)),
        ("enable", Node::Flag(true)),
    ];
    if !is_newer {
        values.push(("agnostic_nms", Node::Flag(false)));
    }
    values
}
