//! A topic of a recording.

/// A topic of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Full name, `/sensing/camera/image_raw`.
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
