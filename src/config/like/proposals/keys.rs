//! The parameters of `autoware_lidar_transfusion` and `autoware_bevfusion`, all generations.

use crate::config::like::key::Key;

pub(super) const CLASS_NAMES: Key = Key::fixed(&["class_names"], "`head.class_names`");
pub(super) const VOXELS_NUM: Key =
    Key::fixed(&["voxels_num"], "`head.min_voxels`, `head.voxel_capacity`")
        .note("fewest, usual, most voxels of a frame; one with fewer is dropped");
pub(super) const POINT_CLOUD_RANGE: Key =
    Key::fixed(&["point_cloud_range"], "`head.point_range_m`");
pub(super) const VOXEL_SIZE: Key = Key::fixed(&["voxel_size"], "`head.voxel_size_m`");
pub(super) const ONNX_PATH: Key = Key::fixed(&["onnx_path"], "`model_path`");
pub(super) const PAST_FRAMES: Key =
    Key::fixed(&["densification_num_past_frames"], "`densification.num_past_sweeps`");
pub(super) const WORLD_FRAME: Key =
    Key::fixed(&["densification_world_frame_id"], "`densification.world_frame`");
pub(super) const CLOUD_CAPACITY: Key = Key::fixed(&["cloud_capacity"], "`point_capacity`");
pub(super) const CIRCLE: Key =
    Key::live(&["circle_nms_dist_threshold"], "`nms.circle_radius_m`").note("0 and less leave 0.5");
pub(super) const IOU_DISTANCE: Key =
    Key::live(&["iou_nms_search_distance_2d"], "`nms.search_distance_m`");
pub(super) const IOU_THRESHOLD: Key = Key::live(&["iou_nms_threshold"], "`nms.iou_thresholds`");
pub(super) const YAW_NORM_THRESHOLDS: Key =
    Key::live(&["yaw_norm_thresholds"], "`yaw_norm_thresholds`")
        .note("one per class; further ones have no effect");
pub(super) const MAX_TIME: Key = Key::fixed(
    &["diagnostics.max_allowed_processing_time_ms"],
    "`processing_time_diagnostics.max_ms`",
);
pub(super) const MAX_DELAY: Key = Key::fixed(
    &["diagnostics.max_acceptable_consecutive_delay_ms"],
    "`processing_time_diagnostics.max_delay_ms`",
);
pub(super) const INTERVAL: Key = Key::fixed(
    &["diagnostics.validation_callback_interval_ms"],
    "`processing_time_diagnostics.interval_ms`",
);
pub(super) const PRECISION: Key =
    Key::engine(&["trt_precision"]).note("`engine.fp16` with `engine.provider: tensorrt`");
pub(super) const ENGINE_PATH: Key = Key::engine(&["engine_path"]);
const ALLOW_REMAPPING: Key = Key::fixed(&["allow_remapping_by_area_matrix"], "`remap_by_area`");
const MIN_AREA: Key = Key::fixed(&["min_area_matrix"], "`remap_by_area`");
const MAX_AREA: Key = Key::fixed(&["max_area_matrix"], "`remap_by_area`");
const BUILD_ONLY: Key =
    Key::fixed(&["build_only"], "").note("networks are loaded and run once, then the program ends");

/// Of TransFusion.
pub(super) mod transfusion {
    use super::Key;

    pub(in super::super) const NUM_PROPOSALS: Key =
        Key::fixed(&["num_proposals"], "`head.num_proposals`").note("left out: 200");
    pub(in super::super) const SCORE_THRESHOLD: Key =
        Key::live(&["score_threshold"], "`score_thresholds`, `score_kept_when: above`")
            .note("0 and less leave 0.2, as in their node");
    pub(in super::super) const IOU_TARGETS: Key =
        Key::live(&["iou_nms_target_class_names"], "`nms.unlimited_classes`")
            .note("until 2024-12; without it pedestrians are compared with pedestrians only");
}

/// Of BEVFusion.
pub(super) mod bevfusion {
    use super::Key;

    pub(in super::super) const NUM_PROPOSALS: Key =
        Key::fixed(&["num_proposals"], "`head.num_proposals`");
    pub(in super::super) const OUT_SIZE_FACTOR: Key =
        Key::fixed(&["out_size_factor"], "`head.downsample_factor`");
    pub(in super::super) const MAX_POINTS: Key =
        Key::fixed(&["max_points_per_voxel"], "`head.max_points_per_voxel`");
    pub(in super::super) const USE_INTENSITY: Key =
        Key::fixed(&["use_intensity"], "`head.point_channels`");
    pub(in super::super) const SCORE_THRESHOLD: Key =
        Key::live(&["score_threshold"], "`score_thresholds`, `score_kept_when: above`")
            .note("until mid 2026");
    pub(in super::super) const BIN_LIMITS: Key = Key::live(
        &[
            "detection_score_thresholds.distance_bin_upper_limits",
            "model_params.detection_score_thresholds.distance_bin_upper_limits",
        ],
        "`distance_upper_limits_m`, `score_kept_when: at_least`",
    )
    .note("must rise; boxes at or beyond the last are dropped");
    pub(in super::super) const BIN_SCORES: Key = Key::live(
        &[
            "detection_score_thresholds.min_confidence_scores.<CLASS>",
            "model_params.detection_score_thresholds.min_confidence_scores.<CLASS>",
        ],
        "`score_thresholds_by_distance.<CLASS>`",
    )
    .note("every class, one per bin");
    pub(in super::super) const PLUGINS: Key = Key::nothing(&["plugins_path"]);
}

/// Of BEVFusion with cameras.
pub(super) mod cameras {
    use super::Key;

    pub(in super::super) const SENSOR_FUSION: Key =
        Key::fixed(&["sensor_fusion"], "").note("2025; true only with `image_backbone_onnx_path`");
    pub(in super::super) const BACKBONE: Key =
        Key::fixed(&["image_backbone_onnx_path"], "`image_backbone_path`")
            .note("empty, with the next two: only clouds");
    pub(in super::super) const BACKBONE_ENGINE: Key = Key::engine(&["image_backbone_engine_path"]);
    pub(in super::super) const BACKBONE_PRECISION: Key =
        Key::engine(&["image_backbone_trt_precision"]);
    pub(in super::super) const DELAY: Key =
        Key::fixed(&["max_camera_lidar_delay"], "`sync.max_skew_s`");
    pub(in super::super) const UNDISTORT: Key =
        Key::fixed(&["run_image_undistortion"], "`undistort`");
    pub(in super::super) const COMPRESSED: Key =
        Key::fixed(&["use_compressed_images"], "`camera_inputs`")
            .note("topics end in `/compressed`: remap these");
    pub(in super::super) const NUM_CAMERAS: Key = Key::fixed(&["num_cameras"], "`head.cameras`");
    /// Width, height.
    pub(in super::super) const ROI_SIZE: [Key; 2] = [
        Key::fixed(&["roi_width"], "`head.input_size`"),
        Key::fixed(&["roi_height"], "`head.input_size`"),
    ];
    /// Width, height.
    pub(in super::super) const RAW_SIZE: [Key; 2] = [
        Key::fixed(&["raw_image_width"], "").note("images of other sizes are resized, too"),
        Key::fixed(&["raw_image_height"], ""),
    ];
    /// Of width, of height.
    pub(in super::super) const SCALES: [Key; 2] = [
        Key::fixed(&["img_aug_scale_x"], "").note("checked: follows from the sizes"),
        Key::fixed(&["img_aug_scale_y"], ""),
    ];
    pub(in super::super) const DEPTHS: Key = Key::fixed(&["d_bound"], "`head.depths_m`")
        .note("first and step; the file has their number");
    /// Of x, of y, of z.
    pub(in super::super) const BOUNDS: [Key; 3] = [
        Key::fixed(&["x_bound"], "`head.camera_range_m`").note("ends; the file has the cells"),
        Key::fixed(&["y_bound"], "`head.camera_range_m`"),
        Key::fixed(&["z_bound"], "`head.camera_range_m`"),
    ];
    pub(in super::super) const IN_FILE: Key = Key::nothing(&[
        "features_height",
        "features_width",
        "num_depth_features",
        "image_feature_channel",
        "image_feature_dim",
    ])
    .note("the file has them");
}

/// Those of TransFusion.
pub(in crate::config::like) const TRANSFUSION: &[&Key] = &[
    &CLASS_NAMES,
    &VOXELS_NUM,
    &POINT_CLOUD_RANGE,
    &VOXEL_SIZE,
    &transfusion::NUM_PROPOSALS,
    &transfusion::SCORE_THRESHOLD,
    &YAW_NORM_THRESHOLDS,
    &CIRCLE,
    &transfusion::IOU_TARGETS,
    &IOU_DISTANCE,
    &IOU_THRESHOLD,
    &PAST_FRAMES,
    &WORLD_FRAME,
    &CLOUD_CAPACITY,
    &ONNX_PATH,
    &ALLOW_REMAPPING,
    &MIN_AREA,
    &MAX_AREA,
    &PRECISION,
    &ENGINE_PATH,
    &BUILD_ONLY,
    &MAX_TIME,
    &MAX_DELAY,
    &INTERVAL,
];

/// Those of BEVFusion.
pub(in crate::config::like) const BEVFUSION: &[&Key] = &[
    &CLASS_NAMES,
    &VOXELS_NUM,
    &POINT_CLOUD_RANGE,
    &VOXEL_SIZE,
    &bevfusion::NUM_PROPOSALS,
    &bevfusion::OUT_SIZE_FACTOR,
    &bevfusion::MAX_POINTS,
    &bevfusion::USE_INTENSITY,
    &bevfusion::SCORE_THRESHOLD,
    &bevfusion::BIN_LIMITS,
    &bevfusion::BIN_SCORES,
    &YAW_NORM_THRESHOLDS,
    &CIRCLE,
    &IOU_DISTANCE,
    &IOU_THRESHOLD,
    &PAST_FRAMES,
    &WORLD_FRAME,
    &CLOUD_CAPACITY,
    &ONNX_PATH,
    &ALLOW_REMAPPING,
    &MIN_AREA,
    &MAX_AREA,
    &PRECISION,
    &ENGINE_PATH,
    &BUILD_ONLY,
    &MAX_TIME,
    &MAX_DELAY,
    &INTERVAL,
    &bevfusion::PLUGINS,
    &cameras::SENSOR_FUSION,
    &cameras::BACKBONE,
    &cameras::BACKBONE_ENGINE,
    &cameras::BACKBONE_PRECISION,
    &cameras::DELAY,
    &cameras::UNDISTORT,
    &cameras::COMPRESSED,
    &cameras::NUM_CAMERAS,
    &cameras::ROI_SIZE[0],
    &cameras::ROI_SIZE[1],
    &cameras::RAW_SIZE[0],
    &cameras::RAW_SIZE[1],
    &cameras::SCALES[0],
    &cameras::SCALES[1],
    &cameras::DEPTHS,
    &cameras::BOUNDS[0],
    &cameras::BOUNDS[1],
    &cameras::BOUNDS[2],
    &cameras::IN_FILE,
];
