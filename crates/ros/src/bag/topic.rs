//! A topic of a recording.

use det_post_types::{Error, ErrorKind, Result};

/// The serialization of ROS 2 messages.
const CDR: &str = "cdr";

/// A topic of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Full name, `/sensing/camera/image_raw`. A name that is written without its leading slash is read
    /// with it, as `ros2 bag play` has it; where the recording has a topic of that name, too, it is
    /// another topic and stays as it is.
    pub name: String,
    /// Type of its messages, `sensor_msgs/msg/Image`.
    pub type_name: String,
    /// How they are serialized, `cdr`.
    pub serialization: String,
    /// How many there are: as `metadata.yaml` declares, else as the files
    /// declare or as counted in files without index. A damaged recording can
    /// deliver fewer.
    pub num_messages: Option<u64>,
    /// The QoS profiles of its publishers as YAML text, empty when not
    /// recorded.
    pub offered_qos: String,
}

impl TopicInfo {
    /// A topic as a recording declares it, with the name as written; a serialization that is not declared is `cdr`; a type
    /// `package/Type` of CDR messages is `package/msg/Type`.
    pub(super) fn declared(name: &str, type_name: &str, serialization: &str) -> Self {
        let name = name.to_owned();
        let is_cdr = serialization.is_empty() || serialization.eq_ignore_ascii_case(CDR);
        let type_name = match type_name.split_once('/') {
            Some((package, short)) if is_cdr && !short.contains('/') => {
                format!("{package}/msg/{short}")
            }
            _ => type_name.to_owned(),
        };
        let serialization = if is_cdr { CDR } else { serialization }.to_owned();
        Self { name, type_name, serialization, num_messages: None, offered_qos: String::new() }
    }

    /// Checks that the messages are serialized as CDR.
    ///
    /// # Errors
    /// `Config` for another serialization, with the way to convert the recording.
    pub fn check_serialization(&self) -> Result<()> {
        let Self { name, serialization, .. } = self;
        let advice = match serialization.as_str() {
            CDR => return Ok(()),
            "ros1" => ROS_1_ADVICE,
            _ => "publish the messages as messages of ROS 2 and record them with `ros2 bag record`",
        };
        let of_ros_1 = if serialization == "ros1" { " (ROS 1)" } else { "" };
        Err(Error::new(
            ErrorKind::Config,
            "bag",
            format!(
                "messages of {name} are serialized as {serialization}{of_ros_1}; messages of ROS 2, \
                 serialized as cdr, are read: {advice}"
            ),
        ))
    }
}

/// The way from a recording of ROS 1 to one that is read.
pub(super) const ROS_1_ADVICE: &str = "convert the .bag file of ROS 1 with `pip install rosbags` and \
                                       `rosbags-convert --src drive.bag --dst drive`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types_are_those_of_ros_2() {
        let cases = [
            (
                ["/image", "sensor_msgs/msg/Image", "cdr"],
                ["/image", "sensor_msgs/msg/Image", "cdr"],
            ),
            (["image", "sensor_msgs/Image", "CDR"], ["image", "sensor_msgs/msg/Image", "cdr"]),
            (["front/image", "x/srv/Y_Request", ""], ["front/image", "x/srv/Y_Request", "cdr"]),
            // Of ROS 1, and of other schemas.
            (["/image", "sensor_msgs/Image", "ros1"], ["/image", "sensor_msgs/Image", "ros1"]),
            (
                ["image", "foxglove.RawImage", "protobuf"],
                ["image", "foxglove.RawImage", "protobuf"],
            ),
            (["", "", ""], ["", "", "cdr"]),
        ];
        for ([name, type_name, serialization], expected) in cases {
            let topic = TopicInfo::declared(name, type_name, serialization);
            let found = [&topic.name, &topic.type_name, &topic.serialization];
            assert_eq!(found, expected, "{name} {type_name} {serialization}");
        }
    }

    #[test]
    fn other_serializations_are_named_with_the_way_out() {
        assert!(TopicInfo::declared("/image", "a/msg/B", "cdr").check_serialization().is_ok());
        for (serialization, part) in
            [("ros1", "rosbags-convert"), ("json", "serialized as json"), ("protobuf", "protobuf")]
        {
            let topic = TopicInfo::declared("/image", "a/msg/B", serialization);
            let error = topic.check_serialization().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(part), "{error}");
            assert!(error.message().contains("/image"), "{error}");
        }
    }
}
