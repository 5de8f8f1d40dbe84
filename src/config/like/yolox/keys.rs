//! The parameters of `autoware_tensorrt_yolox`, all generations.

use crate::config::like::key::Key;

pub(super) const MODEL_PATH: Key = Key::fixed(&["model_path"], "`model_path`")
    .note("left out: `DATA_PATH/tensorrt_yolox/MODEL_NAME.onnx`");
pub(super) const LABEL_PATH: Key = Key::fixed(&["label_path"], "`head.class_names`")
    .note("left out: `DATA_PATH/tensorrt_yolox/label.txt`; a name per line");
pub(super) const SCORE_THRESHOLD: Key =
    Key::live(&["score_threshold"], "`score_threshold`, `score_kept_when: above`");
pub(super) const NMS_THRESHOLD: Key = Key::live(&["nms_threshold"], "`nms.iou_threshold`");
pub(super) const PRECISION: Key = Key::engine(&["precision"])
    .note("`engine.fp16` with `engine.provider: tensorrt`; int8 runs in floats");
pub(super) const GPU_ID: Key =
    Key::fixed(&["gpu_id"], "`device`").note("0 is `auto`, N is `cuda:N`");
pub(super) const ROI_REMAP_PATH: Key = Key::fixed(&["roi_remap_path"], "`labels.<CLASS>`")
    .note("a csv of names and labels, -1 drops; without it labels follow from the names");
pub(super) const CONFIG_DIR: Key = Key::fixed(&["config_dir"], "")
    .note("the files that `parameters.manifest.yaml` there lists are read");
pub(super) const MODEL_DIR: Key =
    Key::fixed(&["model_dir"], "").note("the folder that relative paths begin at");
pub(super) const CENTER_CROP: Key =
    Key::fixed(&["enable_center_crop_inference"], "").note("true is refused");
pub(super) const COLOR_MASK: Key =
    Key::nothing(&["is_publish_color_mask"]).note("there is no mask");
pub(super) const BUILD_ONLY: Key =
    Key::fixed(&["build_only"], "").note("networks are loaded and run once, then the program ends");

const QUANTIZATION: Key = Key::engine(&[
    "calibration_algorithm",
    "calibration_image_list_path",
    "clip_value",
    "dla_core_id",
    "preprocess_on_gpu",
    "profile_per_layer",
    "quantize_first_layer",
    "quantize_last_layer",
]);
const SEGMENTATION: Key = Key::nothing(&[
    "color_map_path",
    "semantic_segmentation_color_map_path",
    "roi_to_semantic_segmentation_remap_path",
    "is_roi_overlap_segment",
    "is_roi_overlap_segmentation",
    "overlap_roi_score_threshold",
    "roi_overlay_segment_label.<CLASS>",
    "roi_overlay_segmentation_label.<CLASS>",
]);

/// All of them.
pub(in crate::config::like) const ALL: &[&Key] = &[
    &MODEL_PATH,
    &LABEL_PATH,
    &SCORE_THRESHOLD,
    &NMS_THRESHOLD,
    &PRECISION,
    &GPU_ID,
    &ROI_REMAP_PATH,
    &CONFIG_DIR,
    &MODEL_DIR,
    &CENTER_CROP,
    &COLOR_MASK,
    &BUILD_ONLY,
    &QUANTIZATION,
    &SEGMENTATION,
];
