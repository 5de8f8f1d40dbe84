//! The definitions of the messages, which recordings store so that any reader can
//! decode them.
//!
//! They contain the fields and constants in the order of the wire. Each type has
//! a file in `definitions/`.

const SEPARATOR_WIDTH: usize = 80;

const DEFINITIONS: [(&str, &str); 29] = [
    ("builtin_interfaces/msg/Time", include_str!("builtin_interfaces/Time.msg")),
    ("rosgraph_msgs/msg/Clock", include_str!("rosgraph_msgs/Clock.msg")),
    ("std_msgs/msg/Header", include_str!("std_msgs/Header.msg")),
    ("geometry_msgs/msg/Point", include_str!("geometry_msgs/Point.msg")),
    ("geometry_msgs/msg/Vector3", include_str!("geometry_msgs/Vector3.msg")),
    ("geometry_msgs/msg/Quaternion", include_str!("geometry_msgs/Quaternion.msg")),
    ("geometry_msgs/msg/Pose", include_str!("geometry_msgs/Pose.msg")),
    ("geometry_msgs/msg/PoseWithCovariance", include_str!("geometry_msgs/PoseWithCovariance.msg")),
    ("geometry_msgs/msg/Transform", include_str!("geometry_msgs/Transform.msg")),
    ("geometry_msgs/msg/TransformStamped", include_str!("geometry_msgs/TransformStamped.msg")),
    ("tf2_msgs/msg/TFMessage", include_str!("tf2_msgs/TFMessage.msg")),
    ("sensor_msgs/msg/Image", include_str!("sensor_msgs/Image.msg")),
    ("sensor_msgs/msg/CompressedImage", include_str!("sensor_msgs/CompressedImage.msg")),
    ("sensor_msgs/msg/RegionOfInterest", include_str!("sensor_msgs/RegionOfInterest.msg")),
    ("sensor_msgs/msg/CameraInfo", include_str!("sensor_msgs/CameraInfo.msg")),
    ("sensor_msgs/msg/PointField", include_str!("sensor_msgs/PointField.msg")),
    ("sensor_msgs/msg/PointCloud2", include_str!("sensor_msgs/PointCloud2.msg")),
    ("vision_msgs/msg/Point2D", include_str!("vision_msgs/Point2D.msg")),
    ("vision_msgs/msg/Pose2D", include_str!("vision_msgs/Pose2D.msg")),
    ("vision_msgs/msg/BoundingBox2D", include_str!("vision_msgs/BoundingBox2D.msg")),
    ("vision_msgs/msg/BoundingBox3D", include_str!("vision_msgs/BoundingBox3D.msg")),
    ("vision_msgs/msg/ObjectHypothesis", include_str!("vision_msgs/ObjectHypothesis.msg")),
    (
        "vision_msgs/msg/ObjectHypothesisWithPose",
        include_str!("vision_msgs/ObjectHypothesisWithPose.msg"),
    ),
    ("vision_msgs/msg/Detection2D", include_str!("vision_msgs/Detection2D.msg")),
    ("vision_msgs/msg/Detection3D", include_str!("vision_msgs/Detection3D.msg")),
    ("vision_msgs/msg/Detection2DArray", include_str!("vision_msgs/Detection2DArray.msg")),
    ("vision_msgs/msg/Detection3DArray", include_str!("vision_msgs/Detection3DArray.msg")),
    ("vision_msgs/msg/VisionClass", include_str!("vision_msgs/VisionClass.msg")),
    ("vision_msgs/msg/LabelInfo", include_str!("vision_msgs/LabelInfo.msg")),
];

fn fields(type_name: &str) -> Option<&'static str> {
    DEFINITIONS.iter().find(|(known, _)| *known == type_name).map(|(_, text)| *text)
}

/// The definition of a type followed by those of its dependencies in depth-first
/// order, in MCAP's format `ros2msg`: each dependency after a line of `=` and a
/// line with its name. `None` when `type_name`, such as `sensor_msgs/msg/Image`,
/// is unknown.
pub fn definition(type_name: &str) -> Option<String> {
    let mut text = fields(type_name)?.to_owned();
    let mut seen = vec![type_name.to_owned()];
    append_dependencies(&mut text, &mut seen, type_name)?;
    Some(text)
}

fn append_dependencies(text: &mut String, seen: &mut Vec<String>, of: &str) -> Option<()> {
    for line in fields(of)?.lines() {
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
        text.push_str(fields(&type_name)?);
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
        for (type_name, fields) in DEFINITIONS {
            assert!(fields.ends_with('\n') && !fields.contains('#'), "{type_name}");
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
            TfMessage::TYPE,
            Detection2DArray::TYPE,
            Detection3DArray::TYPE,
            LabelInfo::TYPE,
            Clock::TYPE,
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
