//! The inputs of a channel and their synchronization.

use std::path::PathBuf;
use std::time::Duration;

use super::cloud_transport::{CloudTransport, cloud_transport};
use super::declaration::Change::Fixed;
use super::image_transport::image_transport;
use super::reader::Reader;
use super::value::Length::OneOrMore;
use super::value::{integer, list, number, one_of, recorded_topic, seconds};
use det_post_ros::NodeName;
use det_post_ros::packed_cloud::PackedCloud;
use det_post_ros::video::VideoMessage;

/// One input of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputConfig {
    /// Topic of the sensor's messages, absolute.
    pub topic: String,
    /// Whether live images are `sensor_msgs/CompressedImage`. In a recording the type of
    /// the topic decides.
    pub is_compressed: bool,
    /// The messages of live video; `None`: images. In a recording the type of the topic decides.
    pub video: Option<VideoMessage>,
    /// The messages of live clouds; `None`: `sensor_msgs/PointCloud2`. In a recording the type of the
    /// topic decides.
    pub packed_cloud: Option<PackedCloud>,
    /// Topic of the camera's `sensor_msgs/CameraInfo`, absolute; `None`: not
    /// subscribed.
    pub camera_info: Option<String>,
    /// File of the camera's calibration, in place of CameraInfo.
    pub calibration_path: Option<PathBuf>,
}

/// The maximum number of inputs of a channel.
pub const MAX_INPUTS: usize = 16;

/// Which messages of several inputs belong to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Of each input the message nearest to the reference in time, used once.
    Nearest,
    /// Of each input the newest message when the reference arrives.
    Latest,
}

/// How messages of several inputs become frames. With one input every message
/// is a frame, and nothing here has an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncConfig {
    /// Which messages belong together.
    pub policy: SyncPolicy,
    /// The input whose messages open frames and give them their stamps.
    pub reference: usize,
    /// The largest difference of stamps: to the reference (`Nearest`), or within
    /// the frame (`Latest`).
    pub max_skew: Duration,
    /// The latest time at which a frame is complete, after the arrival of its reference
    /// (`Nearest`).
    pub deadline: Duration,
    /// The shortest time between two stamps of an input; zero if it is not known. A frame
    /// does not wait for a message that cannot be nearer (`Nearest`).
    pub min_period: Duration,
    /// The number of messages kept per input.
    pub depth: usize,
    /// The minimum number of inputs of a frame, the reference included; `None`: all.
    pub min_inputs: Option<usize>,
}

impl Default for SyncConfig {
    fn default() -> Self {
        Self {
            policy: SyncPolicy::Nearest,
            reference: 0,
            max_skew: Duration::from_millis(50),
            deadline: Duration::from_millis(60),
            min_period: Duration::ZERO,
            depth: 4,
            min_inputs: None,
        }
    }
}

const POLICIES: &[(&str, SyncPolicy)] =
    &[("nearest", SyncPolicy::Nearest), ("latest", SyncPolicy::Latest)];

/// The one input of a channel; an input of images has a transport and a
/// CameraInfo.
pub(super) fn input(p: &mut Reader<'_>, node: &NodeName, is_image: bool) -> InputConfig {
    let topic = p.required("input", recorded_topic(), "Topic of the sensor's messages.");
    let (transport, packed_cloud, camera_info) = match is_image {
        true => (Some(image_transport(p)), None, camera_info(p)),
        false => (None, cloud_transport(p).packed_cloud(&topic), None),
    };
    InputConfig {
        is_compressed: transport.is_some_and(|transport| transport.is_compressed(&topic)),
        video: transport.and_then(|transport| transport.video(&topic)),
        topic: node.expand(&topic),
        packed_cloud,
        camera_info: camera_info.map(|topic| node.expand(&topic)),
        calibration_path: None,
    }
}

fn camera_info(p: &mut Reader<'_>) -> Option<String> {
    p.optional(
        "camera_info",
        Fixed,
        recorded_topic(),
        "not subscribed",
        "Topic of sensor_msgs/CameraInfo: diagnostics warn when it is missing or unlike the images.",
    )
}

/// The inputs of a channel of clouds, one or a list, and how the messages of several become frames.
pub(super) fn clouds(p: &mut Reader<'_>, node: &NodeName) -> (Vec<InputConfig>, SyncConfig) {
    if !p.is_given("inputs") {
        return (vec![input(p, node, false)], SyncConfig::default());
    }
    let transport = if p.is_manual() {
        drop(input(p, node, false));
        CloudTransport::Auto
    } else {
        refuse_beside_list(p);
        cloud_transport(p)
    };
    let SeveralClouds { topics, reference, min_inputs } = several(p);
    let topics: Vec<String> = topics.unwrap_or_default();
    let topics: Vec<String> = topics.iter().map(|topic| node.expand(topic)).collect();
    let sync = SyncConfig { reference, min_inputs: Some(min_inputs), ..sync(p) };
    check(p, &CLOUDS, &topics, &sync);
    let input = |topic: String| InputConfig {
        is_compressed: false,
        video: None,
        packed_cloud: transport.packed_cloud(&topic),
        topic,
        camera_info: None,
        calibration_path: None,
    };
    (topics.into_iter().map(input).collect(), sync)
}

/// The parameters of several clouds.
struct SeveralClouds {
    topics: Option<Vec<String>>,
    reference: usize,
    min_inputs: usize,
}

fn several(p: &mut Reader<'_>) -> SeveralClouds {
    SeveralClouds {
        topics: p.optional(
            "inputs",
            Fixed,
            list(recorded_topic(), OneOrMore),
            "`input`",
            "Topics of [several LiDARs](several-lidars.md), in the order of their points, in place of `input`.",
        ),
        reference: p.value(
            CLOUDS.reference,
            Fixed,
            integer(0..=MAX_INPUTS - 1),
            0,
            "Index of the input whose messages open frames and give their stamps.",
        ),
        min_inputs: p.value(
            CLOUDS.min_inputs,
            Fixed,
            integer(1..=MAX_INPUTS),
            1,
            "Fewest clouds of a frame, the reference included.",
        ),
    }
}

/// Refuses several clouds beside cameras.
pub(super) fn refuse_several(p: &mut Reader<'_>) {
    let SeveralClouds { topics, reference, min_inputs } = several(p);
    if let Some(topics) = topics {
        p.refuse("inputs", format!("{topics:?}"), "`input`: with cameras there is one cloud");
    }
    if reference != 0 {
        p.refuse(CLOUDS.reference, reference, "0: with cameras the cloud opens frames");
    }
    if min_inputs != 1 {
        p.refuse(CLOUDS.min_inputs, min_inputs, "1: with cameras there is one cloud");
    }
}

fn refuse_beside_list(p: &mut Reader<'_>) {
    let help = "Topic of the sensor's messages.";
    if let Some(found) = p.optional("input", Fixed, recorded_topic(), "`inputs`", help) {
        p.refuse("input", format!("{found:?}"), "one of `input` and `inputs`");
    }
}

/// The least number of cameras of a frame.
pub(super) const MIN_CAMERAS: &str = "sync.min_cameras";

/// The least number of cameras of a frame; `None`: all.
pub(super) fn min_cameras(p: &mut Reader<'_>) -> Option<usize> {
    p.optional(
        MIN_CAMERAS,
        Fixed,
        integer(0..=MAX_INPUTS),
        "all",
        "Fewest cameras of a frame, 0 only beside a cloud. Heads that cannot mask a missing one need all.",
    )
}

/// Keys of several inputs.
struct Keys {
    reference: &'static str,
    min_inputs: &'static str,
}

const CAMERAS: Keys = Keys { reference: "reference_camera", min_inputs: MIN_CAMERAS };
const CLOUDS: Keys = Keys { reference: "reference_lidar", min_inputs: "sync.min_lidars" };

/// The topics of a channel of several inputs, absolute, and how their messages
/// become frames.
pub(super) fn inputs(
    p: &mut Reader<'_>,
    expand: impl Fn(&str) -> String,
) -> (Vec<String>, SyncConfig) {
    let topics = p.required(
        "inputs",
        list(recorded_topic(), OneOrMore),
        "Topics of the sensors' messages, in the order of the network's inputs.",
    );
    let reference = p.value(
        CAMERAS.reference,
        Fixed,
        integer(0..=MAX_INPUTS - 1),
        0,
        "Index of the input whose messages open frames and give their stamps.",
    );
    let min_inputs = min_cameras(p);
    if min_inputs == Some(0) {
        p.refuse(MIN_CAMERAS, 0, "1 and more without a cloud");
    }
    let sync = SyncConfig { reference, min_inputs, ..sync(p) };
    let topics: Vec<String> = topics.iter().map(|topic| expand(topic)).collect();
    check(p, &CAMERAS, &topics, &sync);
    (topics, sync)
}

/// How messages become frames, for any sensor.
pub(super) fn sync(p: &mut Reader<'_>) -> SyncConfig {
    SyncConfig {
        policy: p.value(
            "sync.policy",
            Fixed,
            one_of(POLICIES),
            "nearest",
            "Which message of each input a frame has: the `nearest` to the reference in time, \
             used once, or the `latest` at its arrival.",
        ),
        max_skew: seconds(p.value(
            "sync.max_skew_s",
            Fixed,
            number(0.0..=10.0).in_unit("s"),
            0.05,
            "Largest difference of stamps: to the reference (`nearest`) or within the frame (`latest`).",
        )),
        deadline: seconds(p.value(
            "sync.deadline_s",
            Fixed,
            number(0.0..=10.0).in_unit("s"),
            0.06,
            "Longest wait of a frame after its reference arrives (`nearest`).",
        )),
        min_period: seconds(p.value(
            "sync.min_period_s",
            Fixed,
            number(0.0..=10.0).in_unit("s"),
            0.0,
            "Shortest time between two stamps of an input: a frame does not wait for what cannot be nearer (`nearest`). 0: not known.",
        )),
        depth: p.value(
            "sync.depth",
            Fixed,
            integer(1..=64),
            4,
            "Messages of each input that are kept.",
        ),
        ..SyncConfig::default()
    }
}

fn check(p: &mut Reader<'_>, keys: &Keys, topics: &[String], sync: &SyncConfig) {
    let twice = (1..topics.len()).find(|&n| topics[..n].contains(&topics[n]));
    if let Some(index) = twice {
        p.refuse("inputs", format!("{:?} twice", topics[index]), "each topic once");
    }
    if topics.len() > MAX_INPUTS {
        p.refuse("inputs", format!("{} topics", topics.len()), &format!("at most {MAX_INPUTS}"));
    }
    if sync.reference >= topics.len().max(1) && !p.is_manual() {
        let allowed = format!("an input, from 0 to {}", topics.len().saturating_sub(1));
        p.conflict(&[keys.reference, "inputs"], sync.reference, &allowed);
    }
    if let Some(n) = sync.min_inputs.filter(|&n| n > topics.len()) {
        let allowed = format!("at most the {} inputs", topics.len());
        p.conflict(&[keys.min_inputs, "inputs"], n, &allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::files::{Entries, Entry};
    use crate::config::problems::{Origin, Problems};
    use det_post_ros::yaml::Node;

    fn read(values: &[(&str, &str)]) -> crate::Result<(Vec<String>, SyncConfig)> {
        let entry = |text| Entry { node: Node::parse(text).unwrap(), origin: Origin::own("test") };
        let given: Entries = values.iter().map(|(k, v)| ((*k).to_owned(), entry(v))).collect();
        let mut problems = Problems::default();
        let mut p = Reader::new("rig.", given, &mut problems);
        let inputs = inputs(&mut p, |topic| format!("/{topic}"));
        p.finish();
        problems.into_result().map(|()| inputs)
    }

    #[test]
    fn several_inputs_have_the_default_synchronisation() {
        let (topics, sync) = read(&[("inputs", "[front, left]")]).unwrap();
        assert_eq!(topics, ["/front", "/left"]);
        // Seconds are read in single precision.
        let default = SyncConfig::default();
        assert!(sync.max_skew.abs_diff(default.max_skew) < Duration::from_nanos(10));
        assert!(sync.deadline.abs_diff(default.deadline) < Duration::from_nanos(10));
        let (max_skew, deadline) = (sync.max_skew, sync.deadline);
        assert_eq!(sync, SyncConfig { max_skew, deadline, ..default });
    }

    #[test]
    fn synchronisation_is_read_and_checked() {
        let (_, sync) = read(&[
            ("inputs", "[a, b, c]"),
            ("reference_camera", "2"),
            ("sync.policy", "latest"),
            ("sync.max_skew_s", "0.5"),
            ("sync.deadline_s", "0.25"),
            ("sync.min_period_s", "0.125"),
            ("sync.depth", "8"),
            ("sync.min_cameras", "2"),
        ])
        .unwrap();
        let expected = SyncConfig {
            policy: SyncPolicy::Latest,
            reference: 2,
            max_skew: Duration::from_millis(500),
            deadline: Duration::from_millis(250),
            min_period: Duration::from_millis(125),
            depth: 8,
            min_inputs: Some(2),
        };
        assert_eq!(sync, expected);
        for (key, value, part) in [
            ("inputs", "[]", "rig.inputs: found []"),
            ("inputs", "[a, a]", "rig.inputs: found \"/a\" twice"),
            (
                "reference_camera",
                "2",
                "rig.reference_camera: found 2; allowed: an input, from 0 to 1",
            ),
            (
                "sync.min_cameras",
                "3",
                "rig.sync.min_cameras: found 3; allowed: at most the 2 inputs",
            ),
            ("sync.min_cameras", "0", "rig.sync.min_cameras: found 0; allowed: 1 and more"),
            ("sync.policy", "newest", "allowed: nearest, latest"),
            ("sync.depth", "0", "from 1 to 64"),
            ("sync.max_skew", "1", "did you mean `rig.sync.max_skew_s`?"),
        ] {
            let mut values = vec![("inputs", "[a, b]"), (key, value)];
            if key == "inputs" {
                values.remove(0);
            }
            let error = read(&values).unwrap_err();
            assert!(error.message().contains(part), "{part}: {error}");
        }
    }
}
