//! `input_transport` of channels of clouds.

use super::declaration::Change::Fixed;
use super::reader::Reader;
use super::value::one_of;
use det_post_ros::messages::PointCloud2;
use det_post_ros::packed_cloud::PackedCloud;

/// The type of the live input of a channel of clouds.
#[derive(Clone, Copy)]
pub(super) enum CloudTransport {
    Auto,
    Raw,
    Packed(PackedCloud),
}

const CLOUD_TRANSPORTS: &[(&str, CloudTransport)] = &[
    ("auto", CloudTransport::Auto),
    ("raw", CloudTransport::Raw),
    ("compressed", CloudTransport::Packed(PackedCloud::Compressed)),
    ("livox_ros_driver2", CloudTransport::Packed(PackedCloud::LivoxDriver2)),
    ("livox_ros_driver", CloudTransport::Packed(PackedCloud::LivoxDriver)),
    ("livox_interfaces", CloudTransport::Packed(PackedCloud::LivoxInterfaces)),
];

/// The ends of the topics of point_cloud_transport and Cloudini.
const COMPRESSED_TOPICS: [&str; 5] = ["/compressed", "/draco", "/zlib", "/zstd", "/cloudini"];

/// Declares `input_transport`.
pub(super) fn cloud_transport(p: &mut Reader<'_>) -> CloudTransport {
    p.value(
        "input_transport",
        Fixed,
        one_of(CLOUD_TRANSPORTS),
        "auto",
        "Type of the live input: sensor_msgs/PointCloud2 (`raw`), point_cloud_interfaces/CompressedPointCloud2 \
         (`compressed`), or the CustomMsg of the package; `auto`: `compressed` for topics that end in \
         `/compressed`, `/draco`, `/zlib`, `/zstd` or `/cloudini`.",
    )
}

impl CloudTransport {
    /// The packed message of a topic; `None` for sensor_msgs/PointCloud2.
    pub(super) fn packed_cloud(self, topic: &str) -> Option<PackedCloud> {
        match self {
            Self::Auto => COMPRESSED_TOPICS
                .iter()
                .any(|end| topic.ends_with(end))
                .then_some(PackedCloud::Compressed),
            Self::Raw => None,
            Self::Packed(packed) => Some(packed),
        }
    }
}

/// The `input_transport` of a channel that takes clouds of this ROS name; `None` for other types.
pub(super) fn cloud_transport_of(type_name: &str) -> Option<&'static str> {
    let is_of = |transport: &CloudTransport| match transport {
        CloudTransport::Auto => false,
        CloudTransport::Raw => type_name == PointCloud2::TYPE,
        CloudTransport::Packed(packed) => type_name == packed.type_name(),
    };
    CLOUD_TRANSPORTS.iter().find(|(_, transport)| is_of(transport)).map(|(name, _)| *name)
}
