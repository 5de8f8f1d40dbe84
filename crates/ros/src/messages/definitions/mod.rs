//! The definitions of the messages and services of the node.
//!
//! Recordings store those of their messages so that any reader can decode them
//! ([`definition`]), and `get_type_description` describes all of them
//! ([`find_type`]). A type has a file, `PACKAGE/NAME.msg` or `.srv`: its fields and
//! constants in the order of the wire, other types with their package, without
//! comments and default values.

mod description;

pub use description::{KnownType, find_type, type_hash};

const SEPARATOR_WIDTH: usize = 80;

macro_rules! definitions {
    ($($package:literal { $($kind:ident: $($name:literal)*;)* })*) => {
        /// Full names of the types, and their files.
        const DEFINITIONS: &[(&str, &str)] = &[$($($((
            concat!($package, "/", stringify!($kind), "/", $name),
            include_str!(concat!($package, "/", $name, ".", stringify!($kind))),
        ),)*)*)*];
    };
}

definitions! {
    "autoware_auto_perception_msgs" {
        msg: "DetectedObject" "DetectedObjectKinematics" "DetectedObjects" "ObjectClassification"
            "Shape";
    }
    "autoware_internal_debug_msgs" { msg: "Float64Stamped"; }
    "autoware_internal_msgs" { msg: "PublishedTime"; }
    "autoware_perception_msgs" {
        msg: "DetectedObject" "DetectedObjectKinematics" "DetectedObjects" "ObjectClassification"
            "Shape";
    }
    "bond" { msg: "Status"; }
    "builtin_interfaces" { msg: "Duration" "Time"; }
    "diagnostic_msgs" { msg: "DiagnosticArray" "DiagnosticStatus" "KeyValue"; }
    "ffmpeg_image_transport_msgs" { msg: "FFMPEGPacket"; }
    "foxglove_msgs" {
        msg: "CircleAnnotation" "Color" "CompressedVideo" "ImageAnnotations" "Point2"
            "PointsAnnotation" "TextAnnotation";
    }
    "geometry_msgs" {
        msg: "Point" "Point32" "Polygon" "Pose" "PoseWithCovariance" "Quaternion" "Transform"
            "TransformStamped" "Twist" "TwistStamped" "TwistWithCovariance"
            "TwistWithCovarianceStamped" "Vector3";
    }
    "isaac_ros_tensor_list_interfaces" { msg: "Tensor" "TensorList" "TensorShape"; }
    "lifecycle_msgs" {
        msg: "State" "Transition" "TransitionDescription" "TransitionEvent";
        srv: "ChangeState" "GetAvailableStates" "GetAvailableTransitions" "GetState";
    }
    "livox_interfaces" { msg: "CustomMsg" "CustomPoint"; }
    "livox_ros_driver" { msg: "CustomMsg" "CustomPoint"; }
    "livox_ros_driver2" { msg: "CustomMsg" "CustomPoint"; }
    "nav_msgs" { msg: "Odometry"; }
    "point_cloud_interfaces" { msg: "CompressedPointCloud2"; }
    "rcl_interfaces" {
        msg: "FloatingPointRange" "IntegerRange" "ListParametersResult" "Log" "LoggerLevel"
            "Parameter" "ParameterDescriptor" "ParameterEvent" "ParameterValue"
            "SetLoggerLevelsResult" "SetParametersResult";
        srv: "DescribeParameters" "GetLoggerLevels" "GetParameterTypes" "GetParameters"
            "ListParameters" "SetLoggerLevels" "SetParameters" "SetParametersAtomically";
    }
    "rmw_dds_common" { msg: "Gid" "NodeEntitiesInfo" "ParticipantEntitiesInfo"; }
    "rosgraph_msgs" { msg: "Clock"; }
    "sensor_msgs" {
        msg: "CameraInfo" "CompressedImage" "Image" "Imu" "PointCloud2" "PointField"
            "RegionOfInterest";
    }
    "service_msgs" { msg: "ServiceEventInfo"; }
    "std_msgs" { msg: "ColorRGBA" "Header"; }
    "std_srvs" { srv: "SetBool"; }
    "tf2_msgs" { msg: "TFMessage"; }
    "tier4_debug_msgs" { msg: "Float64Stamped"; }
    "tier4_perception_msgs" {
        msg: "DetectedObjectWithFeature" "DetectedObjectsWithFeature" "Feature";
    }
    "type_description_interfaces" {
        msg: "Field" "FieldType" "IndividualTypeDescription" "KeyValue" "TypeDescription"
            "TypeSource";
        srv: "GetTypeDescription";
    }
    "vision_msgs" {
        msg: "BoundingBox2D" "BoundingBox3D" "Detection2D" "Detection2DArray" "Detection3D"
            "Detection3DArray" "LabelInfo" "ObjectHypothesis" "ObjectHypothesisWithPose"
            "Point2D" "Pose2D" "VisionClass";
    }
    "visualization_msgs" { msg: "Marker" "MarkerArray" "MeshFile" "UVCoordinate"; }
    "yolo_msgs" {
        msg: "BoundingBox2D" "BoundingBox3D" "Detection" "DetectionArray" "KeyPoint2D"
            "KeyPoint2DArray" "KeyPoint3D" "KeyPoint3DArray" "Mask" "Point2D" "Pose2D" "Vector2";
        srv: "SetClasses";
    }
}

/// The file of a type.
fn text_of(type_name: &str) -> Option<&'static str> {
    DEFINITIONS.iter().find(|(known, _)| *known == type_name).map(|(_, text)| *text)
}

/// The definition of a message followed by those of its dependencies in depth-first
/// order, in MCAP's format `ros2msg`: each dependency after a line of `=` and a
/// line with its name. `None` when `type_name`, such as `sensor_msgs/msg/Image`,
/// is unknown.
pub fn definition(type_name: &str) -> Option<String> {
    let mut text = text_of(type_name)?.to_owned();
    let mut seen = vec![type_name.to_owned()];
    append_dependencies(&mut text, &mut seen, type_name)?;
    Some(text)
}

fn append_dependencies(text: &mut String, seen: &mut Vec<String>, of: &str) -> Option<()> {
    for line in text_of(of)?.lines() {
        let base = line.split([' ', '[']).next().unwrap_or_default();
        let Some((package, name)) = base.split_once('/') else {
            continue;
        };
        let type_name = format!("{package}/msg/{name}");
        if seen.contains(&type_name) {
            continue;
        }
        text.push_str(&"=".repeat(SEPARATOR_WIDTH));
        text.push_str(&format!("\nMSG: {package}/{name}\n"));
        text.push_str(text_of(&type_name)?);
        seen.push(type_name.clone());
        append_dependencies(text, seen, &type_name)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    #[test]
    fn every_definition_is_complete() {
        for (type_name, text) in DEFINITIONS {
            assert!(text.ends_with('\n') && !text.contains('#'), "{type_name}");
            assert!(definition(type_name).is_some(), "{type_name} needs a type that is not here");
        }
    }

    #[test]
    fn every_message_has_a_definition() {
        for type_name in [
            Image::TYPE,
            CompressedImage::TYPE,
            CameraInfo::TYPE,
            PointCloud2::TYPE,
            CompressedPointCloud2::TYPE,
            CompressedVideo::TYPE,
            FfmpegPacket::TYPE,
            LivoxCustomMsg::TYPE,
            LivoxCustomMsg::DRIVER_1_TYPE,
            LivoxCustomMsg::INTERFACES_TYPE,
            TfMessage::TYPE,
            Detection2DArray::TYPE,
            Detection3DArray::TYPE,
            LabelInfo::TYPE,
            Clock::TYPE,
            DetectedObjects::TYPE,
            DetectedObjects::FORMER_TYPE,
            DetectedObjectsWithFeature::TYPE,
            YoloDetectionArray::TYPE,
            TensorList::TYPE,
            Float64Stamped::TYPE,
            Float64Stamped::FORMER_TYPE,
            PublishedTime::TYPE,
            MarkerArray::TYPE,
            ImageAnnotations::TYPE,
        ] {
            assert!(definition(type_name).is_some(), "{type_name}");
        }
        assert_eq!(definition("sensor_msgs/Image"), None);
    }

    #[test]
    fn dependencies_follow_once_each() {
        let separator = "=".repeat(80);
        let expected = format!(
            "std_msgs/Header header\nvision_msgs/VisionClass[] class_map\nfloat32 threshold\n\
             {separator}\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n\
             {separator}\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n\
             {separator}\nMSG: vision_msgs/VisionClass\nuint16 class_id\nstring class_name\n"
        );
        assert_eq!(definition(LabelInfo::TYPE).unwrap(), expected);
        let text = definition(Detection3DArray::TYPE).unwrap();
        for name in ["std_msgs/Header", "geometry_msgs/Pose", "geometry_msgs/Vector3"] {
            assert_eq!(text.matches(&format!("MSG: {name}\n")).count(), 1, "{name}");
        }
    }
}
