//! Channels of all families: head, topics, device, capacities.

use std::path::Path;

use super::camera::CameraConfig;
use super::declaration::Change::Fixed;
use super::declaration::{Declaration, parameter_file, values};
use super::engine::check_engine;
use super::files::Entries;
use super::head::{self, Facts, Head};
use super::inputs::{InputConfig, SyncConfig, images, input};
use super::lidar::LidarConfig;
use super::live::{LiveConfig, Transforms};
use super::memory;
use super::node::NODE_NAME;
use super::problems::Problems;
use super::reader::Reader;
use super::surround::SurroundConfig;
use super::value::{above, device, flag, integer, one_of, seconds, text, topic};
use crate::ros::NodeName;
use crate::types::{
    DeviceChoice, FailurePolicy, Fallback, OutputType, PointRange, ScoreThresholds,
};

/// A channel: input topics, a detector, an output topic.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelConfig {
    /// Its name, unique.
    pub name: String,
    /// Its inputs, in the order of its detector; at least one.
    pub inputs: Vec<InputConfig>,
    /// The synchronization of several inputs.
    pub sync: SyncConfig,
    /// Topic of the detections, absolute, unique.
    pub output: String,
    /// The message type of the detections.
    pub output_type: OutputType,
    /// The `class_id` of each class in published detections: its name, or its
    /// index.
    pub class_ids: Vec<String>,
    /// Where its frames run.
    pub device: DeviceChoice,
    /// The policy for failures of its device.
    pub failures: FailurePolicy,
    /// Whether its frames run in a process of their own.
    pub is_isolated: bool,
    /// Its parameters in the live node.
    pub live: LiveConfig,
    /// The rest, by sensor.
    pub kind: ChannelKind,
    /// The parameters of the channel.
    pub(super) declared: Vec<Declaration>,
}

impl ChannelConfig {
    /// The effective parameters of this channel as a parameter file, which loads
    /// as the same channel of a node whose `device` is `auto`.
    pub fn to_yaml(&self) -> String {
        parameter_file(values(&self.declared))
    }
}

/// The sensor of a channel.
#[derive(Clone, Debug, PartialEq)]
pub enum ChannelKind {
    /// Images to 2D detections.
    Camera(Box<CameraConfig>),
    /// Point clouds to 3D detections.
    Lidar(Box<LidarConfig>),
    /// Pictures of several cameras to 3D detections.
    Surround(Box<SurroundConfig>),
}

impl ChannelKind {
    /// Names of the classes; the index is the class.
    pub fn class_names(&self) -> &[String] {
        match self {
            Self::Camera(camera) => &camera.facts.class_names,
            Self::Lidar(lidar) => &lidar.facts.class_names,
            Self::Surround(surround) => &surround.facts.class_names,
        }
    }

    /// The range in which objects are found, where the configuration bounds it.
    pub fn point_range(&self) -> Option<PointRange> {
        match self {
            Self::Camera(_) => None,
            Self::Lidar(lidar) => Some(lidar.facts.grid.range()),
            Self::Surround(surround) => surround.facts.center_range,
        }
    }

    /// The file of static transforms that the channel adds to those of the graph or the
    /// recording.
    pub fn transforms_path(&self) -> Option<&Path> {
        match self {
            Self::Camera(_) | Self::Lidar(_) => None,
            Self::Surround(surround) => surround.transforms_path.as_deref(),
        }
    }

    /// The lowest score from which any detection is published.
    pub fn lowest_score_threshold(&self) -> f32 {
        match self {
            Self::Camera(camera) => camera.score_threshold,
            Self::Lidar(lidar) => lowest(&lidar.score_thresholds),
            Self::Surround(surround) => lowest(&surround.score_thresholds),
        }
    }
}

fn lowest(thresholds: &ScoreThresholds) -> f32 {
    thresholds.per_class.iter().flatten().copied().reduce(f32::min).unwrap_or(0.0)
}

/// A shipped head of each family; the parameters of its channels are described
/// with it.
pub(super) const VOXEL_HEAD: &str = "centerpoint_voxel_nuscenes_0075";
pub(super) const CAMERA_HEAD: &str = "yolox";
pub(super) const LIDAR_HEAD: &str = "centerpoint_autoware";
pub(super) const SURROUND_HEAD: &str = "streampetr_autoware";

/// Reads one channel; `None` when its head is not known.
pub(super) fn read(
    node: &NodeName,
    (name, given): (&str, Entries),
    device_of_node: DeviceChoice,
    problems: &mut Problems,
) -> Option<ChannelConfig> {
    let prefix = format!("{name}.");
    let mut p = Reader::new(&prefix, given, problems);
    let head = head_name(&mut p);
    let found =
        head.as_ref().and_then(|head| head::read(&format!("{prefix}head"), head, p.problems()));
    let (Some(head), Some(Head { facts, suggested })) = (head, found) else {
        let known = [CAMERA_HEAD, LIDAR_HEAD, VOXEL_HEAD, SURROUND_HEAD];
        p.finish_without_head(&known.map(declarations).concat());
        return None;
    };
    p.set_class_names(facts.class_names());
    p.suggest(suggested);
    let mut channel = parameters(&mut p, (node, name), head, facts, device_of_node);
    channel.declared = p.finish();
    Some(channel)
}

/// The parameters of the channels of a family, described for any of its heads.
pub(super) fn declarations(head: &str) -> Vec<Declaration> {
    let mut problems = Problems::default();
    let found = head::read("head", head, &mut problems);
    let (Some(Head { facts, .. }), Ok(node)) = (found, NodeName::new("", NODE_NAME)) else {
        return Vec::new();
    };
    let mut p = Reader::manual(&mut problems);
    head_name(&mut p);
    parameters(&mut p, (&node, "NAME"), head.to_owned(), facts, DeviceChoice::Auto);
    p.finish()
}

fn head_name(p: &mut Reader<'_>) -> Option<String> {
    p.required_or_none(
        "head",
        text(),
        "What the network takes and gives: the name of a shipped head, or the path of a head file (with a `/` or \
         ending in `.yaml`).",
    )
}

/// Every parameter of a channel but `head`.
fn parameters(
    p: &mut Reader<'_>,
    (node, name): (&NodeName, &str),
    head: String,
    facts: Facts,
    device_of_node: DeviceChoice,
) -> ChannelConfig {
    let (inputs, sync) = match &facts {
        Facts::Camera(_) => (vec![input(p, node, true)], SyncConfig::default()),
        Facts::Lidar(_) => (vec![input(p, node, false)], SyncConfig::default()),
        Facts::Surround(facts) => images(p, node, facts.kind.masks_missing_cameras()),
    };
    let transforms = match &facts {
        Facts::Camera(_) => Transforms::Unused,
        Facts::Lidar(_) => Transforms::OfSweeps,
        Facts::Surround(_) => Transforms::OfFrames,
    };
    let output = output(p, name);
    let output_type = output_type(p, &facts);
    let class_ids = class_ids(p, facts.class_names());
    let (kind, engine) = match facts {
        Facts::Camera(facts) => {
            let camera = CameraConfig::read(p, head, facts);
            memory::check(p, &camera.buffers());
            let engine = camera.engine.clone();
            (ChannelKind::Camera(Box::new(camera)), engine)
        }
        Facts::Lidar(facts) => {
            let lidar = LidarConfig::read(p, head, facts);
            memory::check(p, &lidar.buffers());
            let engine = lidar.engine.clone();
            (ChannelKind::Lidar(Box::new(lidar)), engine)
        }
        Facts::Surround(facts) => {
            let surround = SurroundConfig::read(p, head, facts);
            memory::check(p, &surround.buffers());
            let engine = surround.engine.clone();
            (ChannelKind::Surround(Box::new(surround)), engine)
        }
    };
    let own_device = p.optional(
        "device",
        Fixed,
        device(),
        "the node's `device`",
        "Where this channel's frames run: `auto`, `cpu` or `cuda:N`.",
    );
    let device = own_device.unwrap_or(device_of_node);
    check_engine(p, &engine, device);
    let is_isolated = p.value(
        "isolate",
        Fixed,
        flag(),
        false,
        "Whether the channel's frames run in a process of their own. A GPU fault ends the use of the GPU for a whole \
         process: an isolated channel starts another process and goes on, and other channels are not affected. Costs \
         one more copy of every payload, and a GPU context.",
    );
    ChannelConfig {
        name: name.to_owned(),
        inputs,
        sync,
        output: node.expand(&output),
        output_type,
        class_ids,
        device,
        failures: failure_policy(p),
        is_isolated,
        live: LiveConfig::read(p, transforms),
        kind,
        declared: Vec::new(),
    }
}

fn output(p: &mut Reader<'_>, name: &str) -> String {
    p.derived(
        "output",
        Fixed,
        topic(),
        ("`~/NAME/detections` for the channel NAME", &*format!("~/{name}/detections")),
        "Topic of the detections.",
    )
}

/// The messages that boxes in an image, and those that boxes in space fit into.
const OUTPUT_TYPES_2D: &[(&str, OutputType)] =
    &[("detection_2d_array", OutputType::Detection2dArray)];
const OUTPUT_TYPES_3D: &[(&str, OutputType)] =
    &[("detection_3d_array", OutputType::Detection3dArray)];

fn output_type(p: &mut Reader<'_>, facts: &Facts) -> OutputType {
    let (types, default) = match facts {
        Facts::Camera(_) => (one_of(OUTPUT_TYPES_2D), "detection_2d_array"),
        Facts::Lidar(_) | Facts::Surround(_) => (one_of(OUTPUT_TYPES_3D), "detection_3d_array"),
    };
    p.value(
        "output_type",
        Fixed,
        types,
        default,
        "Message that the detections are published as, of vision_msgs.",
    )
}

/// What identifies the class of a published detection.
#[derive(Clone, Copy)]
enum ClassId {
    Name,
    Index,
}

const CLASS_IDS: &[(&str, ClassId)] = &[("name", ClassId::Name), ("index", ClassId::Index)];

/// The `class_id` of each class.
fn class_ids(p: &mut Reader<'_>, class_names: &[String]) -> Vec<String> {
    let class_id = p.value(
        "publish.class_id",
        Fixed,
        one_of(CLASS_IDS),
        "name",
        "`class_id` of published detections: the `name` of the class, or its `index` in `OUTPUT/label_info`. \
         Lines of `detections.jsonl` hold the name either way; `eval` compares names.",
    );
    match class_id {
        ClassId::Name => class_names.to_vec(),
        ClassId::Index => (0..class_names.len()).map(|index| index.to_string()).collect(),
    }
}

const FALLBACKS: &[(&str, Fallback)] = &[("none", Fallback::None), ("cpu", Fallback::Cpu)];

fn failure_policy(p: &mut Reader<'_>) -> FailurePolicy {
    FailurePolicy {
        fallback: p.value(
            "fallback",
            Fixed,
            one_of(FALLBACKS),
            "none",
            "What follows when the GPU is lost to the process, or has failed `max_failures` times. `none`: frames are \
             dropped, in the second case until enough failures are older than the window. `cpu`: the channel continues on \
             the CPU.",
        ),
        max_failures: p.value(
            "max_failures",
            Fixed,
            integer(1..=1000),
            3,
            "Failures of the GPU within `failure_window_s` that are too many. After each, the frame is dropped and the \
             pipeline is built again.",
        ),
        window: seconds(p.value(
            "failure_window_s",
            Fixed,
            above(0.0, 86_400.0).in_unit("s"),
            60.0,
            "How long a failure counts.",
        )),
    }
}
