//! Recognizing the package of parameter files by their keys.

use super::Package;
use crate::config::files::Entries;

/// A node that parameters are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) struct Recognized {
    /// The package, where it is read.
    pub(super) package: Option<Package>,
    /// Its name.
    name: &'static str,
    /// When files had such keys.
    period: &'static str,
}

impl Recognized {
    /// The package, where it is read.
    pub(in crate::config) fn package(&self) -> Option<Package> {
        self.package
    }

    /// The message for files of this package that are given without its name.
    pub(in crate::config) fn refusal(&self) -> String {
        let Self { package, name, period } = self;
        match package {
            Some(_) => {
                format!("this is a parameter file of {name} ({period}): add --like {name}")
            }
            None => format!(
                "this is a parameter file of {name} ({period}): this network is not built yet"
            ),
        }
    }
}

/// A package and keys that only its files have: each list one generation, the newest
/// first; all keys of a list are needed.
struct Signature {
    package: Option<Package>,
    name: &'static str,
    generations: &'static [(&'static [&'static str], &'static str)],
}

const SIGNATURES: &[Signature] = &[
    Signature {
        package: None,
        name: "autoware_camera_streampetr",
        generations: &[
            (&["model_params.rois_number"], "2025 and later"),
            (&["model_params.use_temporal"], "2025 and later"),
        ],
    },
    Signature {
        package: Some(Package::Bevfusion),
        name: "autoware_bevfusion",
        generations: &[(&["plugins_path"], "2025 and later"), (&["d_bound"], "2025 and later")],
    },
    Signature {
        package: Some(Package::LidarTransfusion),
        name: "autoware_lidar_transfusion",
        generations: &[
            (&["voxels_num", "num_proposals"], "2024 and later"),
            (&["onnx_path", "densification_num_past_frames"], "2024 and later"),
        ],
    },
    Signature {
        package: None,
        name: "isaac_ros_detectnet",
        generations: &[(&["enable_dbscan_clustering"], "any version")],
    },
    Signature {
        package: Some(Package::LidarCenterpoint),
        name: "autoware_lidar_centerpoint",
        generations: &[
            (&["class_remapper_param_path"], "2026-08 and later"),
            (
                &["model_params.detection_score_thresholds.distance_bin_upper_limits"],
                "2026-02 and later",
            ),
            (&["post_process_params.score_thresholds"], "2025-06 to 2026-02"),
            (&["post_process_params.score_threshold"], "2024-04 to 2025-06"),
            (&["model_params.encoder_in_feature_size"], "2024-04 and later"),
            (&["post_process_params.circle_nms_dist_threshold"], "2024-04 and later"),
            (&["encoder_in_feature_size", "score_threshold"], "2024-02 to 2024-04"),
            (&["encoder_in_feature_size", "iou_nms_threshold"], "2022-09 to 2024-02"),
            (&["rename_car_to_truck_and_bus"], "2021-12 to 2022-09"),
            (&["encoder_in_feature_size"], "2022-05 to 2022-09"),
        ],
    },
    Signature {
        package: Some(Package::TensorrtYolox),
        name: "autoware_tensorrt_yolox",
        generations: &[
            (&["is_roi_overlap_segmentation"], "2026-03 and later"),
            (&["is_roi_overlap_segment"], "2024-06 to 2026-03"),
            (&["nms_threshold", "calibration_algorithm"], "2024-02 and later"),
        ],
    },
    Signature {
        package: Some(Package::IsaacRtdetr),
        name: "isaac_ros_rtdetr",
        generations: &[(&["labels_tensor_name"], "any version")],
    },
    Signature {
        package: Some(Package::IsaacYolov8),
        name: "isaac_ros_yolov8",
        generations: &[
            (&["tensor_name", "nms_threshold"], "any version"),
            (&["tensor_name", "num_classes"], "3.2 and later"),
        ],
    },
    Signature {
        package: Some(Package::YoloRos),
        name: "yolo_ros",
        generations: &[
            (&["plugins", "cameras"], "2026, of plugins"),
            (&["model_type", "image_topic"], "2026, in C++"),
            (&["model_repo", "provider"], "2026, in C++"),
            (&["imgsz_height", "max_det"], "4.0 to 4.6"),
            (&["model", "yolo_encoding"], "4.0 to 4.6"),
        ],
    },
];

/// The node that the parameters are for, if they are of a known one.
pub(in crate::config) fn recognize(entries: &Entries) -> Option<Recognized> {
    SIGNATURES.iter().find_map(|Signature { package, name, generations }| {
        let has_all =
            |(keys, _): &&(&[&str], &str)| keys.iter().all(|key| entries.contains_key(*key));
        let (_, period) = generations.iter().find(has_all)?;
        Some(Recognized { package: *package, name, period })
    })
}
