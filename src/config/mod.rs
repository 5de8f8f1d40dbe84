//! Parameter files to a checked configuration.
//!
//! ROS 2 parameter files and `key:=value` overrides are merged in the order
//! given, the later wins, and read against one table of parameters
//! (`parameters.rs`). Nothing is repaired: unknown keys, wrong types, wrong
//! lengths and values out of range are refused, all of them in one error of
//! kind `Config`, one a line, each with its full key, what was found and what
//! is allowed. Integers are taken where numbers are meant.
//!
//! Top-level values belong to the node; every top-level mapping is a channel
//! of that name. Whether a channel is a camera or a lidar follows from its
//! head. What holds is, in this order: what the user gives, the defaults its
//! head suggests, the defaults of the table.
//!
//! Sections apply as in ROS: those whose name matches the node, in the order in
//! which the names first appear over all files, the later wins. What a section
//! for many nodes (`/**:`) holds beyond this node's keys is ignored with one
//! warning. Files are bounded in size and depth.

mod camera;
mod declared;
mod deployment;
mod deployment_parameters;
mod head;
mod head_parameters;
mod inputs;
mod lidar;
mod lidar_facts;
mod live;
mod manual;
mod parameters;
mod problems;
mod source;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;

pub use camera::{CameraConfig, YoloFacts};
pub use declared::DeclaredParameter;
pub use inputs::{InputConfig, SyncConfig, SyncPolicy};
pub use lidar::{
    AnchorFacts, CenterFacts, DensificationConfig, LidarConfig, LidarFacts, LidarOutputs,
};
pub use live::LiveConfig;
pub use manual::manual;

use crate::error::{Error, ErrorKind, Result};
use crate::types::{DeviceChoice, FailurePolicy, NodeName, OutputType, PointRange};
use crate::yaml::Node;
use deployment::{check_engine, device, failure_policy};
use head::{Facts, Head};
use parameters::{CAMERA, LIDAR, NODE};
use problems::Problems;
use source::{Entries, Entry, Origin, Sections};
use table::{Given, Parameter, Values};

/// The name of the node when nobody gives it another.
pub const NODE_NAME: &str = "det_post";

/// Parameters that rcl and rclcpp give every node. This node takes them from
/// files and leaves them without effect.
const START_TYPE_DESCRIPTION_SERVICE: &str = "start_type_description_service";
const QOS_OVERRIDES: &str = "qos_overrides";

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The node that it is for: section of parameter files, namespace of
    /// relative topics, and what `~` stands for.
    pub node: NodeName,
    /// Where the frames of channels run that do not say it themselves.
    pub device: DeviceChoice,
    /// Whether ages are measured by `/clock`.
    pub use_sim_time: bool,
    /// Whether the live node starts itself.
    pub autostart: bool,
    /// Time between diagnostics of the live node.
    pub diagnostics_period: Duration,
    /// The channels, by name; at least one.
    pub channels: Vec<ChannelConfig>,
    /// Every value that holds, by full key.
    effective: BTreeMap<String, Node>,
}

/// One channel: topics in, a topic out, a detector between.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelConfig {
    /// Its name, unique.
    pub name: String,
    /// Its inputs, in the order that its detector takes them; at least one.
    pub inputs: Vec<InputConfig>,
    /// How messages of several inputs become frames.
    pub sync: SyncConfig,
    /// Topic of the detections, absolute, unique.
    pub output: String,
    /// The message that they are published as.
    pub output_type: OutputType,
    /// Where its frames run.
    pub device: DeviceChoice,
    /// What it does when its device fails.
    pub failures: FailurePolicy,
    /// Whether its frames run in a process of their own.
    pub is_isolated: bool,
    /// How it takes part in the live graph.
    pub live: LiveConfig,
    /// The rest, by sensor.
    pub kind: ChannelKind,
    /// Every value that holds, by full key.
    effective: BTreeMap<String, Node>,
}

impl ChannelConfig {
    /// Every value that holds for this channel, as a parameter file: loading it
    /// gives the same channel, on the device of a node that says `auto`.
    pub fn to_yaml(&self) -> String {
        parameter_file(&self.effective)
    }
}

/// What a channel's sensor is.
#[derive(Clone, Debug, PartialEq)]
pub enum ChannelKind {
    /// Images to 2D detections.
    Camera(Box<CameraConfig>),
    /// Point clouds to 3D detections.
    Lidar(Box<LidarConfig>),
}

impl ChannelKind {
    /// Names of the classes; the index is the class.
    pub fn class_names(&self) -> &[String] {
        match self {
            Self::Camera(camera) => &camera.facts.class_names,
            Self::Lidar(lidar) => &lidar.facts.class_names,
        }
    }

    /// The range in which objects are found, where the configuration bounds it.
    pub fn point_range(&self) -> Option<PointRange> {
        match self {
            Self::Camera(_) => None,
            Self::Lidar(lidar) => Some(lidar.facts.grid.range()),
        }
    }

    /// The lowest score from which any detection is published.
    pub fn lowest_score_threshold(&self) -> f32 {
        match self {
            Self::Camera(camera) => camera.score_threshold,
            Self::Lidar(lidar) => {
                let thresholds = lidar.score_thresholds.per_class.iter().flatten().copied();
                thresholds.reduce(f32::min).unwrap_or(0.0)
            }
        }
    }
}

impl Config {
    /// Reads parameter files, then `key:=value` overrides; the later wins.
    /// Model paths are not looked at, head files are read.
    ///
    /// # Errors
    /// `Config`, naming every problem: a file that cannot be read or is no
    /// parameter file, a key, a type, a length, a range, a missing value, two
    /// channels with one output, or no channel at all.
    pub fn load(files: &[PathBuf], overrides: &[String]) -> Result<Self> {
        Self::load_for(&NodeName::new("", NODE_NAME)?, files, overrides)
    }

    /// As [`Config::load`], for a node of another name.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_for(node: &NodeName, files: &[PathBuf], overrides: &[String]) -> Result<Self> {
        let mut problems = Problems::default();
        let entries = source::read(node, files, overrides, &mut problems)?;
        Self::from_entries(node, entries, problems)
    }

    /// As [`Config::load`], from the text of one parameter file.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str) -> Result<Self> {
        let node = NodeName::new("", NODE_NAME)?;
        let (mut sections, mut problems) = (Sections::new(&node), Problems::default());
        sections.add_file(text, "the text", &mut problems);
        let entries = sections.into_entries(&mut problems);
        Self::from_entries(&node, entries, problems)
    }

    fn from_entries(node: &NodeName, entries: Entries, mut problems: Problems) -> Result<Self> {
        let (of_node, of_channels) = split(entries, &mut problems);
        let given =
            Given { prefix: "", entries: &of_node, suggested: &Entries::new(), class_names: &[] };
        let values = Values::read(NODE, &given, &mut problems);
        let device = device("device", values.text("device"), &mut problems);
        let mut effective: BTreeMap<String, Node> =
            values.iter().map(|(key, node)| (key.clone(), node.clone())).collect();

        let mut channels = Vec::new();
        for (name, entries) in of_channels {
            let own = (name.as_str(), entries);
            channels.extend(channel(node, own, device, &mut effective, &mut problems));
        }
        check_outputs(&channels, &mut problems);
        if channels.is_empty() && problems.is_empty() {
            problems.push("channels", "none is configured; allowed: one or more, as `NAME.head`");
        }
        problems.into_result()?;
        Ok(Self {
            node: node.clone(),
            device,
            use_sim_time: values.flag("use_sim_time"),
            autostart: values.flag("autostart"),
            diagnostics_period: Duration::from_secs_f32(values.number("diagnostics_period_s")),
            channels,
            effective,
        })
    }

    /// Every value that holds, as a parameter file: loading it gives the same
    /// configuration.
    pub fn to_yaml(&self) -> String {
        parameter_file(&self.effective)
    }
}

/// Splits `key:=value`, as ROS writes it, into the key and the text of the
/// value, once the value is sound YAML. A node name before the key
/// (`det_post:key:=value`) must be this node's.
///
/// # Errors
/// `Config` when the text is not of this form.
pub fn parse_override(assignment: &str) -> Result<(String, String)> {
    let node = NodeName::new("", NODE_NAME)?;
    let (key, _) = source::assignment_of(&node, assignment).map_err(|message| {
        Error::new(ErrorKind::Config, "config", format!("-p {assignment}: {message}"))
    })?;
    let value = assignment.split_once(":=").map_or("", |(_, value)| value);
    Ok((key, value.to_owned()))
}

/// Values of the node, and values by channel, keys below it. A mapping that
/// sections for many nodes alone give, without a `head`, is no channel.
fn split(entries: Entries, problems: &mut Problems) -> (Entries, BTreeMap<String, Entries>) {
    let mut node = Entries::new();
    let mut of_channels: BTreeMap<String, Entries> = BTreeMap::new();
    for (key, entry) in entries {
        match key.split_once('.') {
            _ if key == START_TYPE_DESCRIPTION_SERVICE => {}
            Some((QOS_OVERRIDES, _)) => {
                if !entry.origin.is_shared {
                    problems.warn(format!("{key} has no effect; set `NAME.qos` of a channel"));
                }
            }
            None => {
                node.insert(key, entry);
            }
            Some((channel, key)) => {
                of_channels.entry(channel.to_owned()).or_default().insert(key.to_owned(), entry);
            }
        }
    }
    of_channels.retain(|name, entries| {
        let is_channel =
            entries.contains_key("head") || entries.values().any(|entry| !entry.origin.is_shared);
        if !is_channel {
            for (key, entry) in entries {
                problems.unknown_key(&format!("{name}.{key}"), &entry.origin, None);
            }
        }
        is_channel
    });
    (node, of_channels)
}

/// One channel; `None` when its head is not known.
fn channel(
    node: &NodeName,
    (name, mut entries): (&str, Entries),
    device_of_node: DeviceChoice,
    effective: &mut BTreeMap<String, Node>,
    problems: &mut Problems,
) -> Option<ChannelConfig> {
    let prefix = format!("{name}.");
    let Some(Head { facts, mut suggested }) = channel_head(&prefix, &entries, problems) else {
        check_keys_without_head(&prefix, &entries, problems);
        return None;
    };
    suggest(&mut suggested, "output", &format!("~/{name}/detections"));
    let table = match &facts {
        Facts::Camera(facts) => {
            let is_final = facts.layout.is_end_to_end();
            suggest(&mut suggested, "nms.kind", if is_final { "none" } else { "iou" });
            refuse_rotated(&prefix, &mut entries, problems);
            CAMERA
        }
        Facts::Lidar(_) => LIDAR,
    };
    let class_names = facts.class_names().to_vec();
    let given = Given {
        prefix: &prefix,
        entries: &entries,
        suggested: &suggested,
        class_names: &class_names,
    };
    let values = Values::read(table, &given, problems);
    let own: BTreeMap<_, _> =
        values.iter().map(|(key, node)| (format!("{prefix}{key}"), node.clone())).collect();
    effective.extend(own.clone());
    let device = match values.optional_text("device") {
        Some(text) => device(&format!("{prefix}device"), &text, problems),
        None => device_of_node,
    };
    check_engine(&prefix, &values, device, problems);
    let kind = match facts {
        Facts::Camera(facts) => {
            ChannelKind::Camera(Box::new(CameraConfig::new(&prefix, &values, facts, problems)))
        }
        Facts::Lidar(facts) => {
            ChannelKind::Lidar(Box::new(LidarConfig::new(&prefix, &values, facts, problems)))
        }
    };
    Some(ChannelConfig {
        name: name.to_owned(),
        inputs: vec![InputConfig::new(&values, node)],
        sync: SyncConfig::default(),
        output: node.expand(values.text("output")),
        output_type: match kind {
            ChannelKind::Camera(_) => OutputType::Detection2dArray,
            ChannelKind::Lidar(_) => OutputType::Detection3dArray,
        },
        device,
        failures: failure_policy(&values),
        is_isolated: values.flag("isolate"),
        live: LiveConfig::new(&values),
        kind,
        effective: own,
    })
}

fn channel_head(prefix: &str, entries: &Entries, problems: &mut Problems) -> Option<Head> {
    let key = format!("{prefix}head");
    let allowed = "the name of a shipped head, or the path of a head file";
    match entries.get("head").map(|entry| &entry.node) {
        Some(Node::Text(head)) => head::read(&key, head, problems),
        Some(other) => {
            problems.refuse(&key, other, allowed);
            None
        }
        None => {
            problems.push(&key, &format!("is missing; allowed: {allowed}"));
            None
        }
    }
}

/// Without a head the table is not known; what no table has is refused all
/// the same.
fn check_keys_without_head(prefix: &str, entries: &Entries, problems: &mut Problems) {
    for (key, entry) in entries {
        let is_known = |p: &Parameter| {
            p.key == key || p.class_prefix().is_some_and(|prefix| key.starts_with(prefix))
        };
        if !CAMERA.iter().chain(LIDAR).any(is_known) {
            let hint = table::meant(prefix, key, CAMERA.iter().chain(LIDAR));
            problems.unknown_key(&format!("{prefix}{key}"), &entry.origin, hint);
        }
    }
}

fn refuse_rotated(prefix: &str, entries: &mut Entries, problems: &mut Problems) {
    let is_rotated = |entry: &Entry| entry.node == Node::Text("rotated".into());
    if entries.get("nms.kind").is_some_and(is_rotated) {
        entries.remove("nms.kind");
        problems.push(
            &format!("{prefix}nms.kind"),
            "found \"rotated\", but no head gives rotated image boxes; allowed: iou, fast, \
             soft_linear, soft_gaussian, none",
        );
    }
}

/// Adds a default that follows from the channel, unless the head has its own.
fn suggest(suggested: &mut Entries, key: &str, text: &str) {
    suggested.entry(key.to_owned()).or_insert_with(|| Entry {
        node: Node::Text(text.to_owned()),
        origin: Origin::own("default"),
    });
}

fn check_outputs(channels: &[ChannelConfig], problems: &mut Problems) {
    for (index, channel) in channels.iter().enumerate() {
        if let Some(other) = channels[..index].iter().find(|c| c.output == channel.output) {
            problems.refuse(
                &format!("{}.output", channel.name),
                format!("\"{}\"", channel.output),
                &format!("a topic of its own; {} has this one", other.name),
            );
        }
    }
}

/// Values by full key as a parameter file.
fn parameter_file(values: &BTreeMap<String, Node>) -> String {
    let mut root = Node::Map(IndexMap::new());
    for (key, value) in values {
        insert(&mut root, key, value.clone());
    }
    let section = Node::Map(IndexMap::from([("ros__parameters".to_owned(), root)]));
    let file = Node::Map(IndexMap::from([("/**".to_owned(), section)]));
    serde_yaml::to_string(&file).unwrap_or_default()
}

/// Puts a value under a dotted key into nested mappings.
fn insert(node: &mut Node, key: &str, value: Node) {
    let Node::Map(map) = node else { return };
    match key.split_once('.') {
        None => {
            map.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = map.entry(first.to_owned()).or_insert_with(|| Node::Map(IndexMap::new()));
            insert(inner, rest, value);
        }
    }
}
