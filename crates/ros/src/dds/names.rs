//! How ROS names things in DDS.
//!
//! A topic `/a/b` is `rt/a/b`; a service `/a/b` is the pair `rq/a/bRequest`
//! and `rr/a/bReply`; a type `package/msg/Type` is `package::msg::dds_::Type_`.

/// The DDS name of a topic by its full ROS name.
pub(super) fn topic(name: &str) -> String {
    format!("rt{name}")
}

/// The full ROS name of a DDS topic; `None` for one of a service or outside ROS.
pub(super) fn ros_topic(dds_topic: &str) -> Option<&str> {
    dds_topic.strip_prefix("rt").filter(|name| name.starts_with('/'))
}

/// The DDS name of the topic of a service's requests.
pub(super) fn request_topic(service: &str) -> String {
    format!("rq{service}Request")
}

/// The DDS name of the topic of a service's responses.
pub(super) fn response_topic(service: &str) -> String {
    format!("rr{service}Reply")
}

/// The DDS name of a type `package/msg/Type`.
pub(super) fn message_type(name: &str) -> String {
    dds_type(name, "")
}

/// The DDS name of the requests of a service `package/srv/Type`.
pub(super) fn request_type(service_type: &str) -> String {
    dds_type(service_type, "_Request")
}

/// The DDS name of the responses of a service `package/srv/Type`.
pub(super) fn response_type(service_type: &str) -> String {
    dds_type(service_type, "_Response")
}

fn dds_type(name: &str, suffix: &str) -> String {
    match name.rsplit_once('/') {
        Some((space, name)) => format!("{}::dds_::{name}{suffix}_", space.replace('/', "::")),
        None => format!("dds_::{name}{suffix}_"),
    }
}

/// The ROS name of a DDS type; a name that is not of ROS's form is unchanged.
pub(super) fn ros_type(dds_type: &str) -> String {
    match dds_type.split_once("::dds_::").and_then(|(s, name)| Some((s, name.strip_suffix('_')?))) {
        Some((space, name)) => format!("{}/{name}", space.replace("::", "/")),
        None => dds_type.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_ros() {
        assert_eq!(topic("/camera/image_raw"), "rt/camera/image_raw");
        assert_eq!(ros_topic("rt/camera/image_raw"), Some("/camera/image_raw"));
        assert_eq!(["rr/a/bReply", "rtx", "Square"].map(ros_topic), [None; 3]);
        assert_eq!(request_topic("/det_post/get_state"), "rq/det_post/get_stateRequest");
        assert_eq!(response_topic("/det_post/get_state"), "rr/det_post/get_stateReply");
        assert_eq!(message_type("sensor_msgs/msg/Image"), "sensor_msgs::msg::dds_::Image_");
        let service = "lifecycle_msgs/srv/GetState";
        assert_eq!(request_type(service), "lifecycle_msgs::srv::dds_::GetState_Request_");
        assert_eq!(response_type(service), "lifecycle_msgs::srv::dds_::GetState_Response_");
    }

    #[test]
    fn type_names_round_trip() {
        for (dds, ros) in [
            ("sensor_msgs::msg::dds_::Image_", "sensor_msgs/msg/Image"),
            ("a::b::dds_::C_D_", "a/b/C_D"),
            ("ShapeType", "ShapeType"),
            ("x::dds_::NoEnd", "x::dds_::NoEnd"),
        ] {
            assert_eq!(ros_type(dds), ros);
        }
    }
}
