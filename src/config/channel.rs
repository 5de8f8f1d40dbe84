//! Channels of all families: head, topics, device, capacities.

use std::path::Path;
use std::time::Duration;

use super::camera::CameraConfig;
use super::declaration::Change::Fixed;
use super::declaration::{Declaration, parameter_file, values};
use super::engine::check_engine;
use super::files::Entries;
use super::head::{self, Facts, Head, Network};
use super::inputs::{InputConfig, SyncConfig, images, input};
use super::jpeg::check_jpeg;
use super::lidar::LidarConfig;
use super::live::{LiveConfig, Transforms};
use super::memory;
use super::node::NODE_NAME;
use super::output::PublishConfig;
use super::problems::Problems;
use super::reader::Reader;
use super::surround::{SurroundConfig, SurroundDecoder};
use super::value::{above, device, flag, integer, one_of, seconds, text, topic};
use det_post_ros::{NodeName, OutputType};
use det_post_types::{
    DeviceChoice, FailurePolicy, Fallback, JpegOptions, PointRange, ScoreThresholds, ViewPrecision,
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
    /// How they are published.
    pub publish: PublishConfig,
    /// Where its frames run.
    pub device: DeviceChoice,
    /// The share of a GPU's time that it takes, relative to other channels.
    pub gpu_load: f32,
    /// The policy for failures of its device.
    pub failures: FailurePolicy,
    /// Whether its frames run in a separate process.
    pub is_isolated: bool,
    /// Its parameters in the live node.
    pub live: LiveConfig,
    /// The rest, by sensor.
    pub kind: ChannelKind,
    /// The parameters of the channel.
    pub(super) declared: Vec<Declaration>,
}

impl ChannelConfig {
    /// The topics of the detections and their messages: the one that is configured and, where
    /// it is asked for, that of `vision_msgs` beside it.
    pub fn detection_topics(&self) -> impl Iterator<Item = (&str, OutputType)> {
        let output_type = self.publish.format.output_type;
        let vision = self.publish.vision_topic.as_deref();
        let vision = vision.map(|topic| (topic, output_type.vision()));
        std::iter::once((self.output.as_str(), output_type)).chain(vision)
    }

    /// The effective parameters of this channel as a parameter file, which loads
    /// as the same channel of a node whose `device` is `auto`.
    pub fn to_yaml(&self) -> String {
        parameter_file(values(&self.declared))
    }
}

/// The past frames on which the detections of a frame depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// None.
    None,
    /// Frames whose stamps are at most this long before.
    Recent(Duration),
    /// All of them: every frame reads and writes the memory of the network.
    All,
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

    /// The past frames on which the detections of a frame depend.
    pub fn past(&self) -> Past {
        match self {
            Self::Camera(_) => Past::None,
            Self::Lidar(lidar) if lidar.densification.num_past_sweeps == 0 => Past::None,
            Self::Lidar(lidar) => {
                Past::Recent(Duration::from_secs_f32(lidar.densification.max_sweep_age_s.max(0.0)))
            }
            Self::Surround(surround) if surround.facts.kind.has_memory() => Past::All,
            Self::Surround(_) => Past::None,
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
    let (facts_given, given) = split_facts(given);
    let is_inline = !facts_given.is_empty();
    let key = format!("{prefix}head");
    let network = Network::of(name, &given);
    let (inline, facts_declared) = match is_inline {
        true => head::read_inline(&format!("{key}."), facts_given, network.as_ref(), problems),
        false => (None, Vec::new()),
    };
    let mut p = Reader::new(&prefix, given, problems);
    let head = if is_inline { Some(key.clone()) } else { head_name(&mut p) };
    let found = match &head {
        Some(head) if !is_inline => head::read(&key, head, network.as_ref(), p.problems()),
        _ => inline,
    };
    let (Some(head), Some(Head { facts, suggested, has_given_names })) = (head, found) else {
        let known = [CAMERA_HEAD, LIDAR_HEAD, VOXEL_HEAD, SURROUND_HEAD];
        p.finish_without_head(&known.map(declarations).concat());
        return None;
    };
    if let (Some(network), Facts::Camera(facts)) = (&network, &facts) {
        network.check(&key, facts, has_given_names, p.problems());
    }
    p.set_class_names(facts.class_names());
    p.suggest(suggested);
    let mut channel = parameters(&mut p, (node, name), head, facts, device_of_node);
    channel.declared = facts_declared;
    channel.declared.append(&mut p.finish());
    Some(channel)
}

/// Splits off the facts of a head that stand below `head`, by the key below it.
fn split_facts(given: Entries) -> (Entries, Entries) {
    let (mut facts, mut rest) = (Entries::new(), Entries::new());
    for (key, entry) in given {
        match key.strip_prefix("head.") {
            Some(fact) => facts.insert(fact.to_owned(), entry),
            None => rest.insert(key, entry),
        };
    }
    (facts, rest)
}

/// The parameters of the channels of a family, described for any of its heads.
pub(super) fn declarations(head: &str) -> Vec<Declaration> {
    let mut problems = Problems::default();
    let found = head::read("head", head, None, &mut problems);
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
        "What the network takes and gives: the name of a shipped head, the path of a head file (with a `/` or \
         ending in `.yaml`), or a mapping of the facts themselves (`head.sensor` and so on).",
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
    let output = node.expand(&output(p, name));
    let publish = PublishConfig::read(p, node, &output, &facts);
    let (kind, engine, jpeg) = match facts {
        Facts::Camera(facts) => {
            let camera = CameraConfig::read(p, head, facts);
            memory::check(p, &camera.buffers());
            let (engine, jpeg) = (camera.engine.clone(), camera.jpeg.clone());
            (ChannelKind::Camera(Box::new(camera)), engine, jpeg)
        }
        Facts::Lidar(facts) => {
            let lidar = LidarConfig::read(p, head, facts);
            memory::check(p, &lidar.buffers());
            let engine = lidar.engine.clone();
            (ChannelKind::Lidar(Box::new(lidar)), engine, JpegOptions::default())
        }
        Facts::Surround(facts) => {
            let surround = SurroundConfig::read(p, head, facts);
            memory::check(p, &surround.buffers());
            let (engine, jpeg) = (surround.engine.clone(), surround.jpeg.clone());
            (ChannelKind::Surround(Box::new(surround)), engine, jpeg)
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
    let usual_load = match &kind {
        ChannelKind::Camera(_) => 1.0,
        ChannelKind::Lidar(_) => 2.0,
        ChannelKind::Surround(_) => 4.0,
    };
    let gpu_load = p.optional(
        "gpu_load",
        Fixed,
        above(0.0, 1000.0),
        "1 for a camera, 2 for clouds, 4 for several cameras",
        "Share of a GPU's time that the channel takes, relative to the others. Where there are several GPUs, channels \
         whose device is `auto` are placed by it: the largest first, each on the GPU with the smallest sum.",
    );
    check_jpeg(p, &jpeg, device);
    let is_isolated = p.value(
        "isolate",
        Fixed,
        flag(),
        false,
        "Whether the channel's frames run in a separate process. A GPU fault ends the use of the \
         GPU for a whole process: an isolated channel starts another process and goes on, and \
         other channels are not affected. Costs one more copy of every payload, and a GPU context.",
    );
    ChannelConfig {
        name: name.to_owned(),
        inputs,
        sync,
        output,
        publish,
        device,
        gpu_load: gpu_load.unwrap_or(usual_load),
        failures: failure_policy(p, &kind),
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

const FALLBACKS: &[(&str, Fallback)] = &[("none", Fallback::None), ("cpu", Fallback::Cpu)];

fn failure_policy(p: &mut Reader<'_>, kind: &ChannelKind) -> FailurePolicy {
    let policy = FailurePolicy {
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
    };
    if let (Fallback::Cpu, ChannelKind::Surround(surround)) = (policy.fallback, kind)
        && let SurroundDecoder::Views { precision: ViewPrecision::F16, .. } = surround.decoder
    {
        let allowed = "none with decoder.precision f16, which the CPU does not have";
        p.refuse("fallback", "cpu".to_owned(), allowed);
    }
    policy
}
