//! Channels of all families: head, topics, device, capacities.

use std::path::Path;
use std::time::Duration;

use super::camera::CameraConfig;
use super::camera_inputs::{clouds_and_images, images};
use super::declaration::Change::Fixed;
use super::declaration::{Declaration, parameter_file, values};
use super::densification::Past;
use super::engine::check_engine;
use super::failure::failure_policy;
use super::files::Entries;
use super::head::{self, EncoderKind, Facts, Head, Network, ViewKind};
use super::inputs::{InputConfig, SyncConfig, input};
use super::jpeg::{check_jpeg, video};
use super::lidar::LidarConfig;
use super::live::{LiveConfig, Transforms};
use super::memory;
use super::node::NODE_NAME;
use super::output::PublishConfig;
use super::paths::{self, PathUse};
use super::problems::Problems;
use super::reader::{Reader, described};
use super::surround::SurroundConfig;
use super::value::{above, device, flag, path, topic};
use det_post_ros::{NodeName, OutputType};
use det_post_types::{
    DeviceChoice, EngineOptions, FailurePolicy, JpegOptions, PointRange, Result, ScoreThresholds,
    VideoDevice,
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
    /// Where video is decoded.
    pub video_decoder: VideoDevice,
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

    /// Whether the topic of its detections is a value that was accepted.
    pub(super) fn has_output(&self) -> bool {
        let name = format!("{}.output", self.name);
        self.declared.iter().any(|declared| declared.name == name && declared.value.is_some())
    }

    /// Checks that the files of the channel's networks, weights and calibrations are there.
    ///
    /// # Errors
    /// `Config`, naming each parameter whose file is missing and where it was looked for.
    pub fn check_files(&self) -> Result<()> {
        let mut problems = Problems::default();
        for declared in self.declared.iter().filter(|of| of.path_use == PathUse::Read) {
            declared.missing_files().iter().for_each(|t| problems.push(&declared.as_given(), t));
        }
        problems.into_result()
    }

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
    /// Images of several cameras to 3D detections.
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
            Self::Camera(_) => None,
            Self::Lidar(lidar) => lidar.cameras.as_ref()?.transforms_path.as_deref(),
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

/// Reads one channel; `None` when its head is not known: every key of any kind of channel is
/// then accepted.
pub(super) fn read(
    node: &NodeName,
    (name, given): (&str, Entries),
    device_of_node: DeviceChoice,
    problems: &mut Problems,
) -> Option<ChannelConfig> {
    let prefix = format!("{name}.");
    let key = format!("{prefix}head");
    let (facts_given, mut given) = head::split_facts(&key, given, problems);
    let is_inline = !facts_given.is_empty();
    let network = Network::of(name, &given);
    let is_chosen = match &network {
        Some(network) if !is_inline => network.choose_head(&key, &mut given, problems),
        _ => true,
    };
    let (inline, facts_declared) = match is_inline {
        true => head::read_inline(&format!("{key}."), facts_given, network.as_ref(), problems),
        false => (None, Vec::new()),
    };
    let has_encoder = given.contains_key("encoder_path");
    let mut p = Reader::new(&prefix, given, problems);
    let head = match is_inline {
        true => Some(key.clone()),
        false if is_chosen => head_name(&mut p),
        false => None,
    };
    let is_file = !is_inline && head.as_deref().is_some_and(paths::is_head_file);
    let missing = if is_file { p.missing_files("head") } else { Vec::new() };
    missing.iter().for_each(|message| p.problems().push(&key, message));
    let found = match &head {
        _ if !missing.is_empty() => None,
        Some(head) if !is_inline => head::read(&key, head, network.as_ref(), p.problems()),
        _ => inline,
    };
    let (Some(head), Some(Head { mut facts, suggested, has_given_names })) = (head, found) else {
        p.accept_keys_of(|| Kind::all().into_iter().flat_map(Kind::declarations).collect());
        p.finish();
        return None;
    };
    if let (Some(network), Facts::Camera(facts)) = (&network, &mut facts) {
        network.adapt(facts, p.problems());
        network.check(&key, facts, has_given_names, p.problems());
    }
    let needs_encoder = matches!(&facts, Facts::Lidar(lidar) if lidar.encoder.has_file());
    if needs_encoder && !has_encoder && !is_inline {
        p.problems().push(&key, &head::is_for_clouds(&head, network.as_ref()));
    }
    p.set_class_names(facts.class_names());
    p.suggest(suggested);
    let mut channel = parameters(&mut p, (node, name), head, facts, device_of_node);
    channel.declared = facts_declared;
    channel.declared.append(&mut p.finish());
    Some(channel)
}

/// A kind of channel: channels of a kind have the same parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Camera,
    Lidar(EncoderKind),
    Surround(ViewKind),
}

impl Kind {
    /// Every kind.
    pub(super) fn all() -> Vec<Self> {
        let lidars = head::ENCODERS.iter().map(|(_, encoder)| Self::Lidar(*encoder));
        let surrounds = head::VIEW_KINDS.iter().map(|(_, kind)| Self::Surround(*kind));
        [Self::Camera].into_iter().chain(lidars).chain(surrounds).collect()
    }

    /// Its parameters, described for any head.
    pub(super) fn declarations(self) -> Vec<Declaration> {
        let (Some(facts), Ok(node)) = (self.facts(), NodeName::new("", NODE_NAME)) else {
            return Vec::new();
        };
        described(|p| {
            head_name(p);
            parameters(p, (&node, "NAME"), String::new(), facts, DeviceChoice::Auto);
        })
    }

    /// Facts of some network of the kind.
    fn facts(self) -> Option<Facts> {
        let shipped = |name| Some(head::read("head", name, None, &mut Problems::default())?.facts);
        match self {
            Self::Camera => shipped("yolox"),
            Self::Lidar(encoder) => shipped(encoder.shipped_head()),
            Self::Surround(kind) => {
                let mut problems = Problems::default();
                let mut p = Reader::manual(&mut problems);
                Some(Facts::Surround(head::describe_surround(&mut p, kind)))
            }
        }
    }
}

fn head_name(p: &mut Reader<'_>) -> Option<String> {
    p.required_or_none(
        "head",
        path(PathUse::NameOrPath),
        "A shipped head, the path of a head file (with `/` or `.yaml`), or \
         the facts themselves (`head.sensor` …). `auto` or none: a camera's shipped head that fits `model_path`.",
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
        Facts::Lidar(facts) => clouds_and_images(p, node, &facts.encoder),
        Facts::Surround(facts) => images(p, node, facts.kind.masks_missing_cameras()),
    };
    let transforms = match &facts {
        Facts::Camera(_) => Transforms::Unused,
        Facts::Lidar(_) => Transforms::OfSweeps,
        Facts::Surround(_) => Transforms::OfFrames,
    };
    let output = node.expand(&output(p, name));
    let mut publish = PublishConfig::read(p, node, &output, &facts);
    let Sensor { mut kind, engine, jpeg } = sensor(p, head, facts, inputs.len());
    if let ChannelKind::Lidar(lidar) = &mut kind {
        lidar.densification.rename_motion(|topic| node.expand(topic));
    }
    publish.format.keypoint_threshold = kind.lowest_score_threshold();
    let own_device = p.optional(
        "device",
        Fixed,
        device(),
        "the node's `device`",
        "Where this channel's frames run.",
    );
    let device = own_device.unwrap_or(device_of_node);
    check_engine(p, &engine, device);
    let gpu_load = gpu_load(p, &kind);
    check_jpeg(p, &jpeg, device);
    let has_images = !matches!(kind, ChannelKind::Lidar(_));
    let video_decoder = if has_images { video(p, device) } else { VideoDevice::Cpu };
    let decoder = match &kind {
        ChannelKind::Surround(surround) => Some(&surround.decoder),
        ChannelKind::Camera(_) | ChannelKind::Lidar(_) => None,
    };
    let failures = failure_policy(p, decoder);
    ChannelConfig {
        name: name.to_owned(),
        inputs,
        sync,
        output,
        publish,
        device,
        video_decoder,
        gpu_load,
        failures,
        is_isolated: is_isolated(p),
        live: LiveConfig::read(p, transforms),
        kind,
        declared: Vec::new(),
    }
}

/// What follows from the sensor of a channel.
struct Sensor {
    kind: ChannelKind,
    engine: EngineOptions,
    jpeg: JpegOptions,
}

fn sensor(p: &mut Reader<'_>, head: String, facts: Facts, num_inputs: usize) -> Sensor {
    match facts {
        Facts::Camera(facts) => {
            let camera = CameraConfig::read(p, head, facts);
            memory::check(p, &camera.buffers());
            let (engine, jpeg) = (camera.engine.clone(), camera.jpeg.clone());
            Sensor { kind: ChannelKind::Camera(Box::new(camera)), engine, jpeg }
        }
        Facts::Lidar(facts) => {
            let is_list = p.is_unset("input");
            let lidar = LidarConfig::read(p, head, facts, (num_inputs, is_list));
            memory::check(p, &lidar.buffers());
            let (engine, jpeg) = (lidar.engine.clone(), JpegOptions::default());
            Sensor { kind: ChannelKind::Lidar(Box::new(lidar)), engine, jpeg }
        }
        Facts::Surround(facts) => {
            let surround = SurroundConfig::read(p, head, facts);
            memory::check(p, &surround.buffers());
            let (engine, jpeg) = (surround.engine.clone(), surround.jpeg.clone());
            Sensor { kind: ChannelKind::Surround(Box::new(surround)), engine, jpeg }
        }
    }
}

fn gpu_load(p: &mut Reader<'_>, kind: &ChannelKind) -> f32 {
    let load = p.optional(
        "gpu_load",
        Fixed,
        above(0.0, 1000.0),
        "1 (camera), 2 (clouds), 4 (several cameras)",
        "Share of a GPU's time, relative to other channels. `auto` takes the GPU with the smallest sum, the largest first.",
    );
    load.unwrap_or(match kind {
        ChannelKind::Camera(_) => 1.0,
        ChannelKind::Lidar(_) => 2.0,
        ChannelKind::Surround(_) => 4.0,
    })
}

fn is_isolated(p: &mut Reader<'_>) -> bool {
    p.value(
        "isolate",
        Fixed,
        flag(),
        false,
        "Whether frames run in a separate process, which a fault of the GPU ends without the \
         others. Costs a copy of every payload, on a GPU two.",
    )
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
