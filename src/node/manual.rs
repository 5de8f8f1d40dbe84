//! The tables of `docs/live-node.md`, made from what the node does.

use std::fmt::{Display, Write};

use super::bond::{BOND_IN_QOS, BOND_OUT_QOS, BOND_TOPIC};
use super::endpoints::{
    ANNOTATIONS, CLOCK_QOS, COMPRESSED, DEBUG_IMAGE, DEBUG_IMAGE_QOS, DEBUG_TIMES_QOS,
    DIAGNOSTICS_TOPIC, LABELS, MARKERS, MARKERS_QOS, MOTION_QOS, PARAMETER_EVENTS_QOS,
    PARAMETER_EVENTS_TOPIC, PUBLISHED_TIME, TF_QOS, TF_STATIC_QOS, TRANSITION_EVENT_TOPIC,
};
use super::logs::{ROSOUT_QOS, ROSOUT_TOPIC};
use det_post_ros::messages::{
    BondStatus, CameraInfo, Clock, CompressedImage, DetectedObjects, DetectedObjectsWithFeature,
    Detection2DArray, Detection3DArray, DiagnosticArray, Float64Stamped, Image, ImageAnnotations,
    LabelInfo, Log, MarkerArray, MotionType, ParameterEvent, PointCloud2, PublishedTime,
    TensorList, TfMessage, TransitionEvent, YoloDetectionArray,
};
use det_post_ros::middleware::{Qos, ServiceKind};
use det_post_ros::packed_cloud::PackedCloud;
use det_post_ros::video::VideoMessage;

/// The tables of `docs/live-node.md` by their names.
pub fn manual_tables() -> [(&'static str, String); 2] {
    [("topics", topics()), ("services", services())]
}

fn services() -> String {
    let mut packages: Vec<(&str, Vec<String>)> = Vec::new();
    for service in ServiceKind::of_nodes() {
        let package = service.type_name().split('/').next().unwrap_or_default();
        let name = format!("`~/{}`", service.name());
        match packages.iter_mut().find(|(other, _)| *other == package) {
            Some((_, names)) => names.push(name),
            None => packages.push((package, vec![name])),
        }
    }
    let mut table = "| package of the types | services |\n|---|---|\n".to_owned();
    for (package, names) in packages {
        let _ = writeln!(table, "| {package} | {} |", names.join(", "));
    }
    for (kind, key) in [
        (ServiceKind::SetSwitch, "`enable_service` of a channel"),
        (ServiceKind::SetClasses, "`classes_service` of a camera channel"),
    ] {
        let _ = writeln!(table, "| {} | {key} |", kind.type_name());
    }
    table
}

fn topics() -> String {
    let mut table = "| topic | type | quality of service | |\n|---|---|---|---|\n".to_owned();
    let mut row = |topic: &str, type_name: &str, qos: &dyn Display, note: &str| {
        let _ = writeln!(table, "| `{topic}` | {type_name} | {qos} | {note} |");
    };
    let sensor = &format!("{}; `qos.*`", Qos::SENSOR_DATA);
    let default = &Qos::DEFAULT;
    row("INPUT", Image::TYPE, sensor, "in, of camera channels");
    let note = "in, of camera channels with `input_transport`";
    row("INPUT", CompressedImage::TYPE, sensor, note);
    let video = VideoMessage::ONLY_VIDEO.map(VideoMessage::type_name).join(", ");
    row("INPUT", &video, sensor, note);
    row("CAMERA_INFO", CameraInfo::TYPE, sensor, "in, of camera channels with `camera_info`");
    let note = "in, of camera channels with `engine.kind: external`";
    row("INPUT", TensorList::TYPE, sensor, note);
    row("INPUT", PointCloud2::TYPE, sensor, "in, of lidar channels");
    let packed = PackedCloud::ALL.map(PackedCloud::type_name).join(", ");
    row("INPUT", &packed, sensor, "in, of lidar channels with `input_transport`");
    let note = "in, of lidar channels with past sweeps, `target_frame` or `deskew`";
    row("/tf", TfMessage::TYPE, &TF_QOS, note);
    row("/tf_static", TfMessage::TYPE, &TF_STATIC_QOS, note);
    let motions = MotionType::ALL.map(MotionType::type_name).join(", ");
    let note = "in, of lidar channels with `densification.motion_topic`";
    row("MOTION_TOPIC", &motions, &MOTION_QOS, note);
    row(BOND_TOPIC, BondStatus::TYPE, &BOND_IN_QOS, "in, while active");
    row("/clock", Clock::TYPE, &CLOCK_QOS, "in, with `use_sim_time`");
    row("OUTPUT", Detection2DArray::TYPE, default, "out, pixels of the input");
    row("OUTPUT", Detection3DArray::TYPE, default, "out, metres in its frame");
    for (type_name, output_type) in [
        (DetectedObjects::TYPE, "detected_objects"),
        (DetectedObjects::FORMER_TYPE, "auto_detected_objects"),
        (DetectedObjectsWithFeature::TYPE, "detected_objects_with_feature"),
        (YoloDetectionArray::TYPE, "yolo_detection_array"),
    ] {
        row("OUTPUT", type_name, default, &format!("out, with `output_type: {output_type}`"));
    }
    let below = |name: &str| format!("OUTPUT/{name}");
    let note = "out, at the start, beside vision_msgs";
    row(&below(LABELS), LabelInfo::TYPE, &Qos::LATCHED, note);
    row(&below(MARKERS), MarkerArray::TYPE, &MARKERS_QOS, "out, of lidar channels");
    let note =
        "out, of camera channels, for Foxglove; with `ros2` where foxglove_msgs is installed";
    row(&below(ANNOTATIONS), ImageAnnotations::TYPE, &MARKERS_QOS, note);
    row(&below(DEBUG_IMAGE), Image::TYPE, &DEBUG_IMAGE_QOS, "out, boxes drawn");
    let compressed = below(&format!("{DEBUG_IMAGE}/{COMPRESSED}"));
    row(&compressed, CompressedImage::TYPE, &DEBUG_IMAGE_QOS, "out, the same as JPEG");
    let times = "TIMES/debug/..._ms";
    let note = "out, with `publish.debug_times: TIMES`";
    row(times, Float64Stamped::TYPE, &DEBUG_TIMES_QOS, note);
    let note = "out, with `publish.debug_times_package: tier4_debug_msgs`";
    row(times, Float64Stamped::FORMER_TYPE, &DEBUG_TIMES_QOS, note);
    let note = "out, with `publish.published_time`";
    row(&below(PUBLISHED_TIME), PublishedTime::TYPE, &DEBUG_TIMES_QOS, note);
    row(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, default, "out");
    let note = "out, at every change";
    row(PARAMETER_EVENTS_TOPIC, ParameterEvent::TYPE, &PARAMETER_EVENTS_QOS, note);
    row(BOND_TOPIC, BondStatus::TYPE, &BOND_OUT_QOS, "out, while a manager asks");
    row(ROSOUT_TOPIC, Log::TYPE, &ROSOUT_QOS, "out, the log");
    row(TRANSITION_EVENT_TOPIC, TransitionEvent::TYPE, default, "out, at every step");
    table
}
