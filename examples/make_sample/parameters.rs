//! Head files and the parameter file of the sample.

use std::path::Path;

use super::recording::{CLOUD_TOPIC, IMAGE_TOPIC};
use super::{camera_net, lidar_nets};

/// What the camera network means.
pub fn camera_head() -> String {
    let classes = camera_net::CLASSES.join(", ");
    format!(
        "\
# blobs_yolov8.onnx: set by hand, not trained.
sensor: camera
class_names: [{classes}]
layout:
  kind: v8
placement: center
channel_order: rgb
pad_value: 114.0
std: 255.0
"
    )
}

/// What the lidar networks mean.
pub fn lidar_head() -> String {
    let classes = lidar_nets::CLASSES.join(", ");
    let (range, cell) = (lidar_nets::RANGE, lidar_nets::CELL);
    let (num_points, num_pillars) = (lidar_nets::NUM_POINTS, lidar_nets::NUM_PILLARS);
    format!(
        "\
# pillar_encoder.onnx and pillar_head.onnx: set by hand, not trained. Their
# output vel is not bound: it is zero, for one scan tells nothing of speed.
sensor: lidar
kind: center
class_names: [{classes}]
point_range_m: [-{range:?}, -{range:?}, -3.0, {range:?}, {range:?}, 5.0]
voxel_size_m: [{cell:?}, {cell:?}, 8.0]
max_points_per_voxel: {num_points}
voxel_capacity: {num_pillars}
point_channels: [time_lag]
center_offset_z: false
encoder_input: input_features
encoder_output: pillar_features
model_input: spatial_features
tasks:
  - [{classes}]
output_names:
  - [reg, height, dim, rot, heatmap]
downsample_factor: 1
size_order: width_length_height
yaw: clockwise_from_minus_y
has_velocity: false
"
    )
}

/// One camera and one lidar channel for the sample in `folder`.
pub fn deployment(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "\
# One camera and one lidar channel for the sample drive.
/**:
  ros__parameters:
    camera:
      input: {IMAGE_TOPIC}
      head: {folder}/heads/blobs_yolov8.yaml
      model_path: {folder}/models/blobs_yolov8.onnx
      score_threshold: 0.4
    lidar:
      input: {CLOUD_TOPIC}
      head: {folder}/heads/pillars.yaml
      encoder_path: {folder}/models/pillar_encoder.onnx
      model_path: {folder}/models/pillar_head.onnx
      score_thresholds: [0.4]
      nms:
        kind: circle
        circle_radius_m: [1.0]
      densification:
        num_past_sweeps: 0
"
    )
}
