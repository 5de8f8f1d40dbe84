//! Parameter files to a checked configuration.
//!
//! ROS 2 parameter files and `key:=value` overrides are merged; of two values the later
//! takes precedence. The result is read by the declarations of the parameters (see
//! `reader/`). Nothing is repaired: unknown keys, wrong types, wrong lengths and values
//! out of range are refused in one error of kind `Config`, one a line, each with its full
//! key, what was found and what is allowed. An integer is accepted for a number.
//!
//! Top-level values belong to the node; every top-level mapping is a channel
//! of that name. The sensors of a channel follow from its head. A value of the user precedes a default that the head suggests, which
//! precedes the declared default.
//!
//! Sections apply as in ROS: those whose name matches the node, in the order in
//! which the names first appear over all files. Keys of a section for many
//! nodes (`/**:`) that this node does not have are ignored with one warning.
//! Files are bounded in size and depth.

mod camera;
mod camera_inputs;
mod capacities;
mod channel;
mod classes;
mod cloud_transport;
mod clouds;
mod declaration;
mod densification;
mod engine;
mod failure;
mod files;
mod fused_cameras;
mod head;
mod image_transport;
mod inputs;
mod jpeg;
#[cfg(test)]
mod keys_tests;
mod lidar;
mod lidar_decode;
mod like;
mod live;
mod manual;
mod memory;
mod motions;
mod network_errors;
mod nms;
mod node;
mod output;
mod paths;
mod problems;
mod qos_overrides;
mod reader;
mod ros_parameters;
mod scalar;
mod source;
mod substitution;
mod surround;
mod value;
mod vocabulary;
mod zero_copy;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

pub use camera::CameraConfig;
pub use channel::{ChannelConfig, ChannelKind};
pub use clouds::CloudsConfig;
pub use densification::{DensificationConfig, MotionTopic, Past};
pub use files::RosSource;
pub use fused_cameras::{FusedCamerasConfig, FuserPaths};
pub use head::{
    AnchorFacts, CenterFacts, EncoderFacts, FusedCameraFacts, LidarFacts, LidarOutputs,
    PillarFacts, ProposalFacts, SiteFacts, SurroundFacts, SurroundKind, ViewFacts, VoxelFacts,
    VoxelPointFacts, YoloFacts, describe_file, fitting_heads,
};
pub use image_transport::transport_of;
pub use inputs::{InputConfig, MAX_INPUTS, SyncConfig, SyncPolicy};
pub use lidar::{LidarConfig, SparseEncoderConfig};
pub use like::{Like, Package, TranslatedParameter, TranslationOutcome, packages, parameter_table};
pub use live::{LiveConfig, ProcessingTimeLimits};
pub use manual::manual_tables;
pub(crate) use memory::available_bytes;
pub use motions::motions_of;
pub use node::NODE_NAME;
pub use output::PublishConfig;
pub use qos_overrides::QosOverrides;
pub use ros_parameters::DeclaredParameter;
pub use source::Source;
pub use surround::{SurroundConfig, SurroundDecoder};

use declaration::{Declaration, parameter_file, values};
use det_post_ros::yaml::Node;
use det_post_ros::{NodeName, Remaps};
use det_post_types::{DeviceChoice, Result, UploadOptions};
use files::{Entries, Entry, Sections};
use problems::{Origin, Problems};
use reader::Reader;
use substitution::Arguments;

/// The message of a configuration without a channel.
const NO_CHANNEL: &str = "none is configured; allowed: one or more, as a network (`--model NETWORK.onnx --topic TOPIC`) or in a \
                          parameter file (`--config FILE`; config/demo.param.yaml is an example)";

/// A parameter that rcl gives every node. It is accepted in files and has no
/// effect here.
const START_TYPE_DESCRIPTION_SERVICE: &str = "start_type_description_service";

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The node: selects the sections of parameter files, is the namespace of relative
    /// topics and the meaning of `~`.
    pub node: NodeName,
    /// The device of channels without a `device` of their own.
    pub device: DeviceChoice,
    /// Whether the clock of the node is `/clock`.
    pub use_sim_time: bool,
    /// Whether the live node starts itself.
    pub autostart: bool,
    /// Time between diagnostics of the live node.
    pub diagnostics_period: Duration,
    /// How payloads reach a GPU.
    pub uploads: UploadOptions,
    /// Quality of service of single topics.
    pub qos_overrides: QosOverrides,
    /// The channels, by name; at least one.
    pub channels: Vec<ChannelConfig>,
    /// The node of another package that this one stands for.
    pub like: Option<Like>,
    /// The parameters of the node itself.
    declared: Vec<Declaration>,
    /// The parameters of ours that those of another package became.
    migrated: Vec<(String, Node)>,
}

fn read_all(sections: Sections<'_>, source: &Source, problems: &mut Problems) -> Result<Entries> {
    files::read(sections, &source.files, &source.ros, &source.overrides, problems)
}

impl Config {
    /// Reads parameter files, then `key:=value` overrides; the later takes precedence.
    /// Head files are read, and of the networks of cameras the metadata.
    ///
    /// # Errors
    /// `Config`, naming every problem: a file that cannot be read or is no
    /// parameter file, a key, a type, a length, a range, a missing value, two
    /// channels with one output, or no channel at all.
    pub fn load(files: &[PathBuf], overrides: &[String]) -> Result<Self> {
        Self::load_for(&NodeName::new("", NODE_NAME)?, files, overrides)
    }

    /// The channel of a name.
    pub fn channel(&self, name: &str) -> Option<&ChannelConfig> {
        self.channels.iter().find(|channel| channel.name == name)
    }

    /// As [`Config::load`], for a node of another name.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_for(node: &NodeName, files: &[PathBuf], overrides: &[String]) -> Result<Self> {
        let (files, overrides) = (files.to_vec(), overrides.to_vec());
        Self::read(node, &Source { files, overrides, ..Source::default() })
    }

    /// As [`Config::load_for`], with launch arguments, and for files of another package.
    ///
    /// # Errors
    /// As [`Config::load`]; also a substitution without a value, and files of a package
    /// that was not named.
    pub fn read(node: &NodeName, source: &Source) -> Result<Self> {
        let Source { text, files, arguments, like, .. } = source;
        let mut problems = Problems::default();
        let arguments = arguments_of(arguments, &mut problems);
        let mut sections =
            Sections::new(node, &arguments, like.is_some()).with_unread(self::like::has_no_effect);
        sections = sections.with_needed(source.needs_section);
        if let Some(text) = text {
            sections.add_file(text, &Origin::own("the text"), &mut problems);
        }
        let given = read_all(sections, source, &mut problems)?;
        let Some(package) = *like else {
            let has_channel = given.keys().any(|key| is_head(key));
            if let Some(found) = like::recognize(&given).filter(|_| !has_channel) {
                let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
                problems.push(&names.join(", "), &found.refusal());
                return Err(problems.into_error());
            }
            return Self::from_entries(node, given, problems);
        };
        let (entries, like) = like::translate(package, node, given, &arguments, &mut problems);
        Self::from_translated(node, entries, like, problems)
    }

    /// The configuration of parameters that those of another node became.
    fn from_translated(
        node: &NodeName,
        entries: Entries,
        like: Like,
        problems: Problems,
    ) -> Result<Self> {
        let plain = |(key, entry): (&String, &Entry)| (key.clone(), entry.node.clone());
        let migrated = entries.iter().map(plain).collect();
        let config = Self::from_entries(node, entries, problems)?;
        Ok(Self { like: Some(like), migrated, ..config })
    }

    /// The package whose parameters a source without one has, by their keys: those that sections for
    /// our node hold, or for the node of a package. `renamed` gives the name of a node that has
    /// another one in its code.
    ///
    /// # Errors
    /// `Config` for a file that cannot be read, and for one of a package that is known and
    /// not read.
    pub fn recognize(
        source: &Source,
        renamed: impl Fn(&NodeName) -> Result<NodeName>,
    ) -> Result<Option<Package>> {
        let own = std::iter::once((None, ("", NODE_NAME)));
        let replaced = packages().into_iter().map(|package| (Some(package), package.node()));
        for (expected, (namespace, name)) in own.chain(replaced) {
            let node = renamed(&NodeName::new(namespace, name)?)?;
            let mut problems = Problems::default();
            let arguments = arguments_of(&source.arguments, &mut problems);
            let sections = Sections::new(&node, &arguments, true).with_unread(like::has_no_effect);
            let given = read_all(sections, source, &mut problems)?;
            match like::recognize(&given) {
                Some(found) if found.package().is_none() => {
                    problems.push("FILES", &found.refusal());
                    return Err(problems.into_error());
                }
                Some(found) if expected.is_none() || found.package() == expected => {
                    return Ok(found.package());
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// The configuration with the topics of its channels renamed, as a middleware renames them.
    #[must_use]
    pub fn with_topics(mut self, remaps: &Remaps) -> Self {
        let Self { node, channels, .. } = &mut self;
        for channel in channels {
            for input in &mut channel.inputs {
                input.topic = remaps.resolve(node, &input.topic);
            }
            if let ChannelKind::Lidar(lidar) = &mut channel.kind {
                lidar.densification.rename_motion(|topic| remaps.resolve(node, topic));
            }
            channel.output = remaps.resolve(node, &channel.output);
        }
        self
    }

    /// As [`Config::load`], from the text of one parameter file.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str) -> Result<Self> {
        let node = NodeName::new("", NODE_NAME)?;
        let (arguments, mut problems) = (Arguments::new(), Problems::default());
        let mut sections = Sections::new(&node, &arguments, false).with_unread(like::has_no_effect);
        sections.add_file(text, &Origin::own("the text"), &mut problems);
        let entries = sections.into_entries(&mut problems);
        Self::from_entries(&node, entries, problems)
    }

    fn from_entries(node: &NodeName, entries: Entries, mut problems: Problems) -> Result<Self> {
        let (of_node, mut of_channels, overrides) = split(entries, &mut problems);
        let qos_overrides = QosOverrides::read(overrides, &mut problems);
        let mut of_node = of_node;
        refuse_channel_keys(&mut of_node, &of_channels, &mut problems);
        let mut p = Reader::new("", of_node, &mut problems);
        let own = node::read(&mut p);
        let declared = p.finish();
        of_channels.values_mut().for_each(|entries| add_folders(entries, &own.search_folders));
        let channels: Vec<ChannelConfig> = of_channels
            .iter()
            .filter_map(|(name, given)| {
                channel::read(node, (name, given.clone()), own.device, &mut problems)
            })
            .collect();
        check_topics(&channels, &mut problems);
        if channels.is_empty() && problems.is_empty() {
            problems.push("channels", NO_CHANNEL);
        }
        problems.into_result()?;
        let node::NodeParameters { device, use_sim_time, autostart, .. } = own;
        let node::NodeParameters { diagnostics_period, uploads, .. } = own;
        Ok(Self {
            node: node.clone(),
            device,
            use_sim_time,
            autostart,
            diagnostics_period,
            uploads,
            qos_overrides,
            channels,
            like: None,
            declared,
            migrated: Vec::new(),
        })
    }

    /// The effective parameters as a parameter file, which loads as the same
    /// configuration.
    pub fn to_yaml(&self) -> String {
        let of_channels = self.channels.iter().flat_map(|channel| &channel.declared);
        let declared = values(self.declared.iter().chain(of_channels));
        parameter_file(declared.chain(self.qos_overrides.values()))
    }
}

/// Whether a key is the head of a channel, or a fact of it.
fn is_head(key: &str) -> bool {
    key.split('.').nth(1) == Some("head")
}

/// The values of launch arguments `NAME:=VALUE`; the later holds.
fn arguments_of(texts: &[String], problems: &mut Problems) -> Arguments {
    let mut arguments = Arguments::new();
    for text in texts {
        match text.split_once(":=").filter(|(name, _)| !name.is_empty()) {
            Some((name, value)) => {
                arguments.insert(name.to_owned(), value.to_owned());
            }
            None => problems.push(&format!("--arg {text}"), "has no `:=`; allowed: `NAME:=VALUE`"),
        }
    }
    arguments
}

/// Lets relative paths begin in these folders, after the folder of their file.
fn add_folders(entries: &mut Entries, folders: &[PathBuf]) {
    if folders.is_empty() {
        return;
    }
    for Entry { origin, .. } in entries.values_mut() {
        let further = folders.iter().filter(|folder| !origin.folders.contains(folder));
        origin.folders = origin.folders.iter().chain(further).cloned().collect();
    }
}

/// Keys by which a mapping is a channel, also in sections for many nodes.
const CHANNEL_KEYS: [&str; 3] = ["head", "input", "model_path"];

/// Refuses keys of a channel without the channel's name: `head` for `camera.head`.
fn refuse_channel_keys(
    of_node: &mut Entries,
    of_channels: &BTreeMap<String, Entries>,
    problems: &mut Problems,
) {
    let name = match of_channels.len() {
        1 => of_channels.keys().next().map_or("NAME", String::as_str),
        _ => "NAME",
    };
    let of_this = reader::described(|p| drop(node::read(p)));
    let is_unknown = |(key, entry): (&String, &Entry)| {
        !entry.origin.is_shared && of_this.iter().all(|declared| declared.name != *key)
    };
    if !of_node.iter().any(is_unknown) {
        return;
    }
    let of_channels = channel::Kind::all().into_iter().flat_map(channel::Kind::declarations);
    let of_channels: BTreeSet<String> = of_channels.map(|declared| declared.name).collect();
    of_node.retain(|key, entry| {
        let is_of_channel = is_unknown((key, entry)) && of_channels.contains(key);
        if is_of_channel {
            let hint = format!("it is a key of a channel: did you mean `{name}.{key}`?");
            problems.unknown_key(key, &entry.origin, Some(hint));
        }
        !is_of_channel
    });
}

/// The part of a key before the first point.
fn first(key: &str) -> &str {
    key.split('.').next().unwrap_or_default()
}

/// Splits values into those of the node, those of each channel, by the key below
/// it, and overrides of quality of service. A mapping of which only sections for many nodes
/// have values is no channel unless it has one of [`CHANNEL_KEYS`]; with one of these, all its keys are this node's.
fn split(
    entries: Entries,
    problems: &mut Problems,
) -> (Entries, BTreeMap<String, Entries>, Entries) {
    let (mut node, mut overrides) = (Entries::new(), Entries::new());
    let mut of_channels: BTreeMap<String, Entries> = BTreeMap::new();
    for (key, entry) in entries {
        match key.split_once('.') {
            _ if key == START_TYPE_DESCRIPTION_SERVICE => {}
            Some((qos_overrides::PREFIX, key)) => {
                overrides.insert(key.to_owned(), entry);
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
        let is_channel = entries.keys().any(|key| CHANNEL_KEYS.contains(&first(key)))
            || entries.values().any(|entry| !entry.origin.is_shared);
        let is_ours = entries
            .iter()
            .any(|(key, entry)| CHANNEL_KEYS.contains(&first(key)) && entry.origin.is_shared);
        for (key, entry) in entries {
            if !is_channel {
                problems.unknown_key(&format!("{name}.{key}"), &entry.origin, None);
            }
            entry.origin.is_shared &= !is_ours;
        }
        is_channel
    });
    (node, of_channels, overrides)
}

/// Refuses an output that is another channel's, or an input: detections on the
/// topic of images or clouds. Topics that were refused are no topics.
fn check_topics(channels: &[ChannelConfig], problems: &mut Problems) {
    let channels: Vec<_> = channels.iter().filter(|channel| channel.has_output()).collect();
    for (index, channel) in channels.iter().enumerate() {
        let mut refuse = |allowed: String| {
            let key = format!("{}.output", channel.name);
            problems.refuse(&key, format!("\"{}\"", channel.output), &allowed);
        };
        if let Some(other) = channels[..index].iter().find(|c| c.output == channel.output) {
            refuse(format!("a topic that no other channel publishes; {} has this one", other.name));
        }
        let subscribes =
            |c: &&&ChannelConfig| c.inputs.iter().any(|input| input.topic == channel.output);
        if let Some(other) = channels.iter().find(subscribes) {
            refuse(format!("a topic that is no input; {} subscribes to this one", other.name));
        }
    }
}
