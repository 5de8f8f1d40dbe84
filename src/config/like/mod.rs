//! Parameter files of other packages: their parameters in, ours out.
//!
//! One folder or file per package: `keys.rs` lists their parameters, and the translation
//! takes what is given and sets parameters of one channel of ours. The result runs through
//! the ordinary reading of a configuration, so that `--like` and `det_post migrate` cannot
//! differ. Reading is lenient where theirs is, and refuses where theirs would end or read
//! out of bounds.

mod centerpoint;
mod isaac;
mod key;
mod parameters;
mod proposals;
mod recognition;
mod report;
mod translation;
mod values;
mod yolo_ros;
mod yolox;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use recognition::recognize;
pub use report::{packages, parameter_table};
pub use translation::{TranslatedParameter, TranslationOutcome};

use self::key::{Effect, Key};
use self::translation::Translation;
use super::channel::Kind;
use super::files::{Entries, Entry};
use super::head::EncoderKind;
use super::node;
use super::problems::{Origin, Problems};
use super::substitution::Arguments;
use det_post_ros::NodeName;
use det_post_ros::yaml::Node;

/// A package whose parameter files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    /// `autoware_lidar_centerpoint`.
    LidarCenterpoint,
    /// `autoware_lidar_transfusion`.
    LidarTransfusion,
    /// `autoware_bevfusion`, with and without cameras.
    Bevfusion,
    /// `autoware_tensorrt_yolox`.
    TensorrtYolox,
    /// The decoder of `isaac_ros_yolov8`.
    IsaacYolov8,
    /// The decoder of `isaac_ros_rtdetr`.
    IsaacRtdetr,
    /// `yolo_ros`, in Python (4.x) and in C++ (2026).
    YoloRos,
}

/// Names, executables and node of a package.
struct Names {
    package: Package,
    /// The present name, then former ones.
    names: &'static [&'static str],
    executables: &'static [&'static str],
    node: (&'static str, &'static str),
    channel: &'static str,
}

const PACKAGES: &[Names] = &[
    Names {
        package: Package::LidarCenterpoint,
        names: &["autoware_lidar_centerpoint", "lidar_centerpoint"],
        executables: &["autoware_lidar_centerpoint_node", "lidar_centerpoint_node"],
        node: ("", "lidar_centerpoint"),
        channel: "lidar",
    },
    Names {
        package: Package::LidarTransfusion,
        names: &["autoware_lidar_transfusion", "lidar_transfusion"],
        executables: &["autoware_lidar_transfusion_node", "lidar_transfusion_node"],
        node: ("", "lidar_transfusion"),
        channel: "lidar",
    },
    Names {
        package: Package::Bevfusion,
        names: &["autoware_bevfusion"],
        executables: &["autoware_bevfusion_node"],
        node: ("", "bevfusion"),
        channel: "lidar",
    },
    Names {
        package: Package::TensorrtYolox,
        names: &["autoware_tensorrt_yolox", "tensorrt_yolox"],
        executables: &["autoware_tensorrt_yolox_node_exe", "tensorrt_yolox_node_exe"],
        node: ("", "tensorrt_yolox"),
        channel: "camera",
    },
    Names {
        package: Package::IsaacYolov8,
        names: &["isaac_ros_yolov8"],
        executables: &[],
        node: ("", "yolov8_decoder_node"),
        channel: "camera",
    },
    Names {
        package: Package::IsaacRtdetr,
        names: &["isaac_ros_rtdetr"],
        executables: &[],
        node: ("", "rtdetr_decoder"),
        channel: "camera",
    },
    Names {
        package: Package::YoloRos,
        names: &["yolo_ros"],
        executables: &["yolo_node"],
        node: ("yolo", "yolo_node"),
        channel: "camera",
    },
];

impl std::str::FromStr for Package {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = PACKAGES.iter().find(|names| names.names.contains(&name));
        found
            .map(|names| names.package)
            .ok_or_else(|| format!("allowed: {}", Self::all_names().join(", ")))
    }
}

impl Package {
    /// The package that has an executable.
    pub fn of_executable(name: &str) -> Option<Self> {
        PACKAGES.iter().find(|names| names.executables.contains(&name)).map(|names| names.package)
    }

    /// The present names of all packages.
    pub fn all_names() -> Vec<&'static str> {
        PACKAGES.iter().map(|names| names.names[0]).collect()
    }

    /// Its present name.
    pub fn name(self) -> &'static str {
        self.names().names[0]
    }

    /// Namespace and name of its node, unless it is started under others.
    pub fn node(self) -> (&'static str, &'static str) {
        self.names().node
    }

    fn names(self) -> &'static Names {
        PACKAGES.iter().find(|names| names.package == self).unwrap_or(&PACKAGES[0])
    }

    /// The channel that stands for its node.
    fn channel(self) -> &'static str {
        self.names().channel
    }

    /// Its parameters.
    fn keys(self) -> &'static [&'static Key] {
        match self {
            Self::LidarCenterpoint => centerpoint::keys::ALL,
            Self::LidarTransfusion => proposals::keys::TRANSFUSION,
            Self::Bevfusion => proposals::keys::BEVFUSION,
            Self::TensorrtYolox => yolox::keys::ALL,
            Self::IsaacYolov8 => isaac::YOLOV8_KEYS,
            Self::IsaacRtdetr => isaac::RTDETR_KEYS,
            Self::YoloRos => yolo_ros::KEYS,
        }
    }

    /// Values of parameters that may change while its node runs, where they are not given:
    /// the node has these parameters then, too.
    fn defaults(self, given: &Entries) -> Vec<(&'static str, Node)> {
        match self {
            Self::LidarCenterpoint
            | Self::LidarTransfusion
            | Self::Bevfusion
            | Self::TensorrtYolox => Vec::new(),
            Self::IsaacYolov8 => isaac::yolov8_defaults(),
            Self::IsaacRtdetr => isaac::rtdetr_defaults(),
            Self::YoloRos => yolo_ros::defaults(|name| given.contains_key(name)),
        }
    }

    /// The kind of its channel.
    fn kind(self) -> Kind {
        match self {
            Self::LidarCenterpoint => Kind::Lidar(EncoderKind::Pillars),
            Self::LidarTransfusion | Self::Bevfusion => Kind::Lidar(EncoderKind::None),
            Self::TensorrtYolox | Self::IsaacYolov8 | Self::IsaacRtdetr | Self::YoloRos => {
                Kind::Camera
            }
        }
    }
}

/// A configuration that stands for another node.
#[derive(Clone, Debug, PartialEq)]
pub struct Like {
    /// The package of that node.
    pub package: Package,
    /// What became of its parameters.
    pub parameters: Vec<TranslatedParameter>,
    /// Its parameters as they are given, and ours without the name of the channel.
    given: BTreeMap<String, Node>,
    arguments: Arguments,
    /// Parameters of ours that follow from its parameters.
    derived: BTreeSet<String>,
}

impl Like {
    /// Whether the networks are to be loaded and run once, and nothing more.
    pub fn is_build_only(&self) -> bool {
        self.given.get("build_only") == Some(&Node::Flag(true))
    }

    /// What is given, with some values replaced.
    fn entries(&self, changes: impl IntoIterator<Item = (String, Node)>) -> Entries {
        let mut given = self.given.clone();
        given.extend(changes);
        let origin = Origin::own("--like");
        let entry = |(key, node)| (key, Entry { node, origin: origin.clone() });
        given.into_iter().map(entry).collect()
    }
}

/// Whether a key has no effect in any package that has it.
pub(super) fn has_no_effect(key: &str) -> bool {
    let of = |names: &Names| names.package.keys().iter().find(|known| known.has_name(key));
    let mut known = PACKAGES.iter().filter_map(of).peekable();
    known.peek().is_some() && known.all(|known| known.effect == Effect::Nothing)
}

/// Turns the parameters of a package's node into ours.
pub(super) fn translate(
    package: Package,
    node_name: &NodeName,
    mut given: Entries,
    arguments: &Arguments,
    problems: &mut Problems,
) -> (Entries, Like) {
    if let Some(other) = recognize(&given).filter(|found| found.package != Some(package)) {
        problems.push(&format!("--like {}", package.name()), &other.refusal());
    }
    for (key, node) in package.defaults(&given) {
        let entry = || Entry { node, origin: Origin::own("--like") };
        given.entry(key.to_owned()).or_insert_with(entry);
    }
    let plain = |(key, entry): (&String, &Entry)| (key.clone(), entry.node.clone());
    let given_nodes = given.iter().map(plain).collect();
    let declared = declared_of(package);
    let mut translation = Translation::new(package.channel(), given, arguments, problems);
    match package {
        Package::LidarCenterpoint => centerpoint::translate(&mut translation, node_name),
        Package::LidarTransfusion => proposals::transfusion(&mut translation, node_name),
        Package::Bevfusion => proposals::bevfusion(&mut translation, node_name),
        Package::TensorrtYolox => yolox::translate(&mut translation, node_name),
        Package::IsaacYolov8 => isaac::yolov8(&mut translation),
        Package::IsaacRtdetr => isaac::rtdetr(&mut translation),
        Package::YoloRos => yolo_ros::translate(&mut translation),
    }
    let (entries, parameters, derived) =
        translation.finish(package.keys(), |key| owner(package, &declared, key));
    let arguments = arguments.clone();
    (entries, Like { package, parameters, given: given_nodes, arguments, derived })
}

/// Names of our parameters of the channel of a package.
fn declared_of(package: Package) -> BTreeSet<String> {
    package.kind().declarations().into_iter().map(|declared| declared.name).collect()
}

/// The described name of a parameter of a class.
fn of_class(key: &str) -> String {
    let parent = key.split_once('.').map_or(key, |(parent, _)| parent);
    format!("{parent}.<CLASS>")
}

/// Our parameter that a key without the name of the channel stands for.
fn owner(package: Package, declared: &BTreeSet<String>, key: &str) -> Option<String> {
    let channel = package.channel();
    let is_node = node::declarations().iter().any(|declared| declared.name == key);
    match key {
        "publish.detection_3d" | "publish.detection_2d" => {
            Some(format!("{channel}.publish.vision_msgs"))
        }
        // Before that of the node, so that it holds over a device that theirs names.
        "device" => Some(format!("{channel}.device")),
        "start_type_description_service" => Some(key.to_owned()),
        _ if is_node || key.starts_with("qos_overrides.") => Some(key.to_owned()),
        _ if key == "head" || key.starts_with("head.") => None,
        _ if declared.contains(key) || declared.contains(&of_class(key)) => {
            Some(format!("{channel}.{key}"))
        }
        _ => None,
    }
}
