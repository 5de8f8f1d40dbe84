//! The parameters of `autoware_lidar_centerpoint`, all generations.

use crate::config::like::key::Key;

pub(super) const CLASS_NAMES: Key =
    Key::fixed(&["model_params.class_names", "class_names"], "`head.class_names`");
pub(super) const POINT_FEATURE_SIZE: Key =
    Key::fixed(&["model_params.point_feature_size", "point_feature_size"], "`head.point_channels`")
        .note("4: time lag; 5: intensity and time lag");
pub(super) const ENCODER_IN_FEATURE_SIZE: Key = Key::fixed(
    &["model_params.encoder_in_feature_size", "encoder_in_feature_size"],
    "`head.center_offset_z`",
)
.note("with 4 values of a point 9 or 10, with 5 values 11");
pub(super) const MAX_VOXEL_SIZE: Key =
    Key::fixed(&["model_params.max_voxel_size", "max_voxel_size"], "`head.voxel_capacity`");
pub(super) const POINT_CLOUD_RANGE: Key =
    Key::fixed(&["model_params.point_cloud_range", "point_cloud_range"], "`head.point_range_m`")
        .note("another length than 6 is refused");
pub(super) const VOXEL_SIZE: Key =
    Key::fixed(&["model_params.voxel_size", "voxel_size"], "`head.voxel_size_m`")
        .note("another length than 3 is refused");
pub(super) const DOWNSAMPLE_FACTOR: Key = Key::fixed(
    &["model_params.downsample_factor", "downsample_factor"],
    "`head.downsample_factor`",
);
pub(super) const HAS_VARIANCE: Key =
    Key::fixed(&["model_params.has_variance", "has_variance"], "`head.has_variance`");
pub(super) const HAS_TWIST: Key =
    Key::fixed(&["model_params.has_twist", "has_twist"], "`publish.velocity`");
pub(super) const RENAME: Key = Key::fixed(&["rename_car_to_truck_and_bus"], "`remap_by_area`")
    .note("where there are no keys of suppression and no matrices");

pub(super) const SCORE_THRESHOLD: Key = Key::live(
    &["post_process_params.score_threshold", "score_threshold"],
    "`score_thresholds`, `score_kept_when: above`",
);
pub(super) const SCORE_THRESHOLDS: Key = Key::live(
    &["post_process_params.score_thresholds"],
    "`score_thresholds`, `score_kept_when: at_least`",
)
.note("one per class");
pub(super) const BIN_LIMITS: Key = Key::live(
    &[
        "model_params.detection_score_thresholds.distance_bin_upper_limits",
        "model_params.score_thresholds.upper_bounds",
    ],
    "`distance_upper_limits_m`",
)
.note("must rise; boxes at or beyond the last are dropped");
pub(super) const BIN_SCORES: Key = Key::live(
    &[
        "model_params.detection_score_thresholds.min_confidence_scores.<CLASS>",
        "model_params.score_thresholds.thresholds.<CLASS>",
    ],
    "`score_thresholds_by_distance.<CLASS>`",
)
.note("every class, one per bin");
pub(super) const BIN_MATRIX: Key = Key::live(
    &["model_params.score_thresholds.thresholds"],
    "`score_thresholds_by_distance.<CLASS>`",
)
.note("row by row, a row per bin");
pub(super) const YAW_NORM_THRESHOLDS: Key = Key::live(
    &[
        "model_params.yaw_norm_thresholds",
        "post_process_params.yaw_norm_thresholds",
        "yaw_norm_thresholds",
        "yaw_norm_threshold",
    ],
    "`yaw_norm_thresholds`",
);
pub(super) const CIRCLE: Key = Key::live(
    &["post_process_params.circle_nms_dist_threshold", "circle_nms_dist_threshold"],
    "`nms.circle_radius_m`",
)
.note("0 and less leave 1.5, as in their node");
pub(super) const IOU_TARGETS: Key = Key::live(
    &["post_process_params.iou_nms_target_class_names", "iou_nms_target_class_names"],
    "`nms.unlimited_classes`",
)
.note("beside one score threshold only, as in their node");
pub(super) const IOU_DISTANCE: Key = Key::live(
    &["post_process_params.iou_nms_search_distance_2d", "iou_nms_search_distance_2d"],
    "`nms.search_distance_m`",
);
pub(super) const IOU_THRESHOLD: Key = Key::live(
    &["post_process_params.iou_nms_threshold", "iou_nms_threshold"],
    "`nms.iou_thresholds`",
);

pub(super) const PAST_FRAMES: Key = Key::fixed(
    &[
        "densification_params.num_past_frames",
        "densification_num_past_frames",
        "densification_past_frames",
    ],
    "`densification.num_past_sweeps`",
);
pub(super) const WORLD_FRAME: Key = Key::fixed(
    &[
        "densification_params.world_frame_id",
        "densification_world_frame_id",
        "densification_base_frame",
    ],
    "`densification.world_frame`",
);
pub(super) const CLOUD_CAPACITY: Key = Key::fixed(&["cloud_capacity"], "`point_capacity`");

pub(super) const ENCODER_PATH: Key = Key::fixed(&["encoder_onnx_path"], "`encoder_path`")
    .note("left out: `MODEL_PATH/pts_voxel_encoder_MODEL_NAME.onnx`");
pub(super) const HEAD_PATH: Key = Key::fixed(&["head_onnx_path"], "`model_path`")
    .note("left out: `MODEL_PATH/pts_backbone_neck_head_MODEL_NAME.onnx`");
pub(super) const MODEL_FOLDER: Key =
    Key::fixed(&["model_path"], "").note("the folder that relative paths begin at");
pub(super) const VERSION: Key =
    Key::fixed(&["version"], "").note("another major version than 4 is refused");
pub(super) const REMAPPER_PATH: Key = Key::fixed(&["class_remapper_param_path"], "`remap_by_area`")
    .note("that file is read unless the matrices are given");
pub(super) const ALLOW_REMAPPING: Key =
    Key::fixed(&["allow_remapping_by_area_matrix"], "`remap_by_area`");
pub(super) const MIN_AREA: Key = Key::fixed(&["min_area_matrix"], "`remap_by_area`");
pub(super) const MAX_AREA: Key = Key::fixed(&["max_area_matrix"], "`remap_by_area`");

pub(super) const PRECISION: Key =
    Key::engine(&["trt_precision"]).note("`engine.fp16` with `engine.provider: tensorrt`");
pub(super) const ENGINE_PATHS: Key = Key::engine(&["encoder_engine_path", "head_engine_path"])
    .note("their folder is `engine.cache_folder` with `engine.provider: tensorrt`");
pub(super) const LIBTORCH: Key =
    Key::nothing(&["encoder_pt_path", "head_pt_path", "use_encoder_trt", "use_head_trt"])
        .note("networks of libtorch are refused");
pub(super) const BUILD_ONLY: Key =
    Key::fixed(&["build_only"], "").note("networks are loaded and run once, then the program ends");
pub(super) const LOGGER_NAME: Key =
    Key::fixed(&["logger_name"], "`publish.debug_times`").note("prefix of the debug topics");
pub(super) const MAX_TIME: Key = Key::fixed(
    &["diagnostics.max_allowed_processing_time_ms", "max_allowed_processing_time_ms"],
    "`processing_time_diagnostics.max_ms`",
);
pub(super) const MAX_DELAY: Key = Key::fixed(
    &["diagnostics.max_acceptable_consecutive_delay_ms", "max_acceptable_consecutive_delay_ms"],
    "`processing_time_diagnostics.max_delay_ms`",
);
pub(super) const INTERVAL: Key = Key::fixed(
    &["diagnostics.validation_callback_interval_ms", "validation_callback_interval_ms"],
    "`processing_time_diagnostics.interval_ms`",
);
const PARAMS_VERSION: Key = Key::nothing(&["model_params.model_params_version"]);

/// All of them.
pub(in crate::config::like) const ALL: &[&Key] = &[
    &CLASS_NAMES,
    &POINT_FEATURE_SIZE,
    &ENCODER_IN_FEATURE_SIZE,
    &MAX_VOXEL_SIZE,
    &POINT_CLOUD_RANGE,
    &VOXEL_SIZE,
    &DOWNSAMPLE_FACTOR,
    &HAS_VARIANCE,
    &HAS_TWIST,
    &RENAME,
    &SCORE_THRESHOLD,
    &SCORE_THRESHOLDS,
    &BIN_LIMITS,
    &BIN_SCORES,
    &BIN_MATRIX,
    &YAW_NORM_THRESHOLDS,
    &CIRCLE,
    &IOU_TARGETS,
    &IOU_DISTANCE,
    &IOU_THRESHOLD,
    &PAST_FRAMES,
    &WORLD_FRAME,
    &CLOUD_CAPACITY,
    &ENCODER_PATH,
    &HEAD_PATH,
    &MODEL_FOLDER,
    &VERSION,
    &REMAPPER_PATH,
    &ALLOW_REMAPPING,
    &MIN_AREA,
    &MAX_AREA,
    &PRECISION,
    &ENGINE_PATHS,
    &LIBTORCH,
    &BUILD_ONLY,
    &LOGGER_NAME,
    &MAX_TIME,
    &MAX_DELAY,
    &INTERVAL,
    &PARAMS_VERSION,
];
