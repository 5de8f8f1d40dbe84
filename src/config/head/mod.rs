//! Heads: the facts of a network, independent of its deployment.
//!
//! A head is a YAML file of facts. Its section `defaults` contains defaults of channel parameters that
//! suit the network. Values of the user take precedence.

mod anchor;
mod camera;
mod center;
mod encoder;
mod fitting;
mod fused_cameras;
mod hints;
mod lidar;
mod network;
mod proposal;
mod site;
mod surround;
mod views;

use std::path::Path;

use indexmap::IndexMap;

pub use anchor::AnchorFacts;
pub use camera::YoloFacts;
pub use center::CenterFacts;
pub use encoder::{EncoderFacts, PillarFacts, VoxelFacts, VoxelPointFacts};
pub(super) use encoder::{EncoderKind, KINDS as ENCODERS};
pub(super) use fitting::AUTO;
pub use fused_cameras::FusedCameraFacts;
pub(super) use hints::is_for_clouds;
pub(super) use lidar::OutputKind;
pub use lidar::{LidarFacts, LidarOutputs};
pub(super) use network::Network;
pub use proposal::ProposalFacts;
pub use site::SiteFacts;
pub(super) use surround::{KINDS as VIEW_KINDS, Kind as ViewKind, describe as describe_surround};
pub use surround::{SurroundFacts, SurroundKind};
pub use views::ViewFacts;

use super::declaration::Declaration;
use super::files::{Entries, flatten, read_file};
use super::paths::is_head_file;
use super::problems::{Origin, Problems, shorten};
use super::reader::{Reader, described};
use super::value::Length::OneOrMore;
use super::value::{list, one_of, text};
use det_post_infer::metadata::Metadata;
use det_post_ros::yaml::Node;
use det_post_types::Result;

/// The shipped heads by name: the files of `config/heads`, as the build script lists them.
pub(super) const SHIPPED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/heads.rs"));

/// The shipped lists of class names.
const CLASS_LISTS: &[(&str, &str)] = &[
    ("coco80", include_str!("../../../config/heads/classes/coco80.yaml")),
    ("coco91", include_str!("../../../config/heads/classes/coco91.yaml")),
];

/// A head that was read.
pub(super) struct Head {
    pub(super) facts: Facts,
    /// Defaults of the channel's parameters that suit the network.
    pub(super) suggested: Entries,
    /// Whether the user gave the class names.
    pub(super) has_given_names: bool,
}

pub(super) enum Facts {
    Camera(YoloFacts),
    Lidar(LidarFacts),
    Surround(SurroundFacts),
}

impl Facts {
    pub(super) fn class_names(&self) -> &[String] {
        match self {
            Self::Camera(facts) => &facts.class_names,
            Self::Lidar(facts) => &facts.class_names,
            Self::Surround(facts) => &facts.class_names,
        }
    }
}

/// Reads a head by its name or path, with the class names of the network where it is a shipped
/// one; `key` is the parameter that names it. `None` when there is a problem.
pub(super) fn read(
    key: &str,
    name: &str,
    network: Option<&Network>,
    problems: &mut Problems,
) -> Option<Head> {
    let mut of_head = Problems::default();
    let network = network.filter(|_| !is_head_file(name));
    let head = text_of(key, name, network, &mut of_head)
        .and_then(|text| parse(name, &text, network, &mut of_head))
        .filter(|_| of_head.is_empty());
    problems.append(of_head);
    head
}

/// Splits off the facts of a head that are below `key`, its parameter, by the key below it. There
/// are none beside the name of a head, which is a problem.
pub(super) fn split_facts(
    key: &str,
    given: Entries,
    problems: &mut Problems,
) -> (Entries, Entries) {
    let (mut facts, mut rest) = (Entries::new(), Entries::new());
    for (name, entry) in given {
        match name.strip_prefix("head.") {
            Some(fact) => facts.insert(fact.to_owned(), entry),
            None => rest.insert(name, entry),
        };
    }
    let named = rest.get("head").and_then(|head| match &head.node {
        Node::Text(name) if !name.is_empty() => Some(name),
        _ => None,
    });
    if let (Some(name), Some(fact)) = (named, facts.keys().next()) {
        let message = format!(
            "found `{name}` and `{key}.{fact}`; allowed: a head, or all facts without a head; to change a fact, name a \
             changed copy of the head file"
        );
        problems.push(key, &message);
        facts.clear();
    }
    (facts, rest)
}

/// What a head file holds, in a line: its kind and classes; `None` where a text is no head file, as
/// it has no `sensor`.
///
/// # Errors
/// `Config`, naming every problem.
pub fn describe_file(path: &Path) -> Result<Option<String>> {
    let text = read_file(path)?;
    let is_head = matches!(Node::parse(&text), Ok(Node::Map(map)) if map.contains_key("sensor"));
    if !is_head {
        return Ok(None);
    }
    let mut problems = Problems::default();
    let head = parse(&path.display().to_string(), &text, None, &mut problems);
    problems.into_result()?;
    let Some(Head { facts, .. }) = head else { return Ok(None) };
    let kind = kind_in_words(&text).unwrap_or_default();
    let names = facts.class_names();
    Ok(Some(format!("{kind}; {} classes: {}", names.len(), names.join(", "))))
}

/// The shipped heads of cameras that fit a network, with what its file says about it.
pub fn fitting_heads(path: &Path) -> (Vec<&'static str>, Metadata) {
    let network = Network::of_file("camera", path);
    (network.fitting_heads(), network.metadata)
}

/// Reads a head whose facts stand in the configuration itself; `prefix` precedes their keys.
/// Also returns the facts as parameters. Without class names the network's are used.
pub(super) fn read_inline(
    prefix: &str,
    mut facts_given: Entries,
    network: Option<&Network>,
    problems: &mut Problems,
) -> (Option<Head>, Vec<Declaration>) {
    let has_given_names =
        network.is_some_and(|network| network.complete(&mut facts_given, problems));
    if let Some(names) = facts_given.get_mut("class_names") {
        expand(&mut names.node);
    }
    let mut of_head = problems.of_part();
    let mut p = Reader::new(prefix, facts_given, &mut of_head);
    let facts = facts(&mut p);
    let declared = p.finish();
    let head = facts.filter(|_| of_head.is_empty());
    problems.append(of_head);
    let suggested = Entries::new();
    (head.map(|facts| Head { facts, suggested, has_given_names }), declared)
}

fn text_of(
    key: &str,
    name: &str,
    network: Option<&Network>,
    problems: &mut Problems,
) -> Option<String> {
    if is_head_file(name) {
        return read_file(Path::new(name))
            .map_err(|error| problems.push(key, &error.to_string()))
            .ok();
    }
    if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Some((*text).to_owned());
    }
    let hint = hints::meant(name, network)
        .map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
    let found = shorten(&Node::Text(name.to_owned()).to_string());
    let auto = match name {
        AUTO => "; `auto` is for networks that run here: it reads the file of `model_path`",
        _ => "",
    };
    let names = hints::by_sensor();
    let message =
        format!("found {found}{hint}; allowed: {names}; or the path of a head file{auto}");
    problems.push(key, &message);
    None
}

fn parse(
    name: &str,
    text: &str,
    network: Option<&Network>,
    problems: &mut Problems,
) -> Option<Head> {
    let origin = Origin::own(&format!("head {name}"));
    let mut map = match Node::parse(text) {
        Ok(Node::Map(map)) => map,
        Ok(_) => {
            problems.push(&origin.name, "is not a head file; allowed: a mapping of facts");
            return None;
        }
        Err(message) => {
            problems.push(&origin.name, &message);
            return None;
        }
    };
    let mut suggested = Entries::new();
    if let Some(defaults) = map.shift_remove("defaults") {
        flatten("", defaults, &origin, &mut suggested, problems);
    }
    if let Some(names) = map.get_mut("class_names") {
        expand(names);
    }
    if let Some(network) = network {
        network.replace(name, &mut map, problems);
    }
    let mut entries = Entries::new();
    flatten("", Node::Map(map), &origin, &mut entries, problems);
    let mut p = Reader::new(&format!("{}: ", origin.name), entries, problems);
    let facts = facts(&mut p);
    p.finish();
    Some(Head { facts: facts?, suggested, has_given_names: is_head_file(name) })
}

#[derive(Clone, Copy)]
enum Sensor {
    Camera,
    Lidar,
    Surround,
}

const SENSORS: &[(&str, Sensor)] =
    &[("camera", Sensor::Camera), ("lidar", Sensor::Lidar), ("surround", Sensor::Surround)];

/// `None` when there is a problem. Every key is declared either way.
fn facts(p: &mut Reader<'_>) -> Option<Facts> {
    let (sensor, class_names) = common(p);
    match sensor {
        Some(Sensor::Camera) => Some(Facts::Camera(YoloFacts::read(p, class_names))),
        Some(Sensor::Lidar) => LidarFacts::read(p, class_names).map(Facts::Lidar),
        Some(Sensor::Surround) => SurroundFacts::read(p, class_names).map(Facts::Surround),
        None => {
            p.accept_keys_of(|| {
                HeadKind::all().into_iter().flat_map(HeadKind::declarations).collect()
            });
            None
        }
    }
}

/// The keys of every head file.
fn common(p: &mut Reader<'_>) -> (Option<Sensor>, Vec<String>) {
    let sensor = p.required_or_none("sensor", one_of(SENSORS), "Sensor that the network is for.");
    let class_names = p.required(
        "class_names",
        list(text(), OneOrMore),
        "Names of the classes in the network's order, or the name of a shipped list: `coco80`, `coco91`.",
    );
    if !p.is_unread("class_names") {
        p.set_class_names(&class_names);
    }
    if let Some(twice) = first_repeated(&class_names) {
        p.refuse("class_names", format!("{twice:?} twice"), "each name once");
    }
    (sensor, class_names)
}

/// A kind of head: its facts are those of a head file of this kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadKind {
    Camera,
    Lidar(EncoderKind, OutputKind),
    Surround(ViewKind),
}

impl HeadKind {
    /// Every kind.
    pub(super) fn all() -> Vec<Self> {
        let of_encoder = |&(_, encoder): &(_, EncoderKind)| {
            let behind = lidar::KINDS.iter().filter(move |(_, outputs)| outputs.is_behind(encoder));
            behind.map(move |(_, outputs)| Self::Lidar(encoder, *outputs))
        };
        let lidars = encoder::KINDS.iter().flat_map(of_encoder);
        let surrounds = surround::KINDS.iter().map(|(_, kind)| Self::Surround(*kind));
        [Self::Camera].into_iter().chain(lidars).chain(surrounds).collect()
    }

    /// Its facts, described for any network.
    pub(super) fn declarations(self) -> Vec<Declaration> {
        described(|p| {
            common(p);
            match self {
                Self::Camera => drop(YoloFacts::read(p, Vec::new())),
                Self::Lidar(encoder, outputs) => lidar::describe(p, encoder, outputs),
                Self::Surround(kind) => drop(surround::describe(p, kind)),
            }
        })
    }
}

/// The kinds of heads of which none is shipped, as [`shipped_by_kind`] names them, and why.
pub(super) const UNSHIPPED: &[(&str, &str)] = &[(
    "surround, `detr3d`",
    "none: the published network takes padded images, a surround channel resizes: [view decoders](view-decoders.md)",
)];

/// Every kind of head in words, with the shipped heads of the kind.
pub(super) fn shipped_by_kind() -> Vec<(String, Vec<&'static str>)> {
    let cameras = camera::kind_names().into_iter().map(|layout| format!("camera, `{layout}`"));
    let lidars = encoder::KINDS.iter().flat_map(|(encoder, of)| {
        let behind = lidar::KINDS.iter().filter(|(_, outputs)| outputs.is_behind(*of));
        behind.map(move |(kind, _)| format!("lidar, `{encoder}`, `{kind}`"))
    });
    let surrounds = surround::kind_names().into_iter().map(|kind| format!("surround, `{kind}`"));
    let kinds: Vec<String> = cameras.chain(lidars).chain(surrounds).collect();
    let shipped: Vec<_> = SHIPPED.iter().map(|(name, text)| (kind_in_words(text), *name)).collect();
    let of_kind = |kind: String| {
        let heads = shipped.iter().filter(|(of, _)| of.as_ref() == Some(&kind));
        let names = heads.map(|(_, name)| *name).collect();
        (kind, names)
    };
    kinds.into_iter().map(of_kind).collect()
}

/// The kind of a head file; `None` if it names none.
fn kind_in_words(text: &str) -> Option<String> {
    let Ok(Node::Map(facts)) = Node::parse(text) else { return None };
    let text_of = |map: &IndexMap<String, Node>, key: &str| match map.get(key) {
        Some(Node::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let sensor = text_of(&facts, "sensor")?;
    match (&*sensor, facts.get("layout")) {
        ("camera", Some(Node::Map(layout))) => {
            Some(format!("camera, `{}`", text_of(layout, "kind")?))
        }
        ("lidar", _) => {
            let encoder = text_of(&facts, "encoder").unwrap_or_else(|| "pillars".to_owned());
            Some(format!("lidar, `{encoder}`, `{}`", text_of(&facts, "kind")?))
        }
        _ => Some(format!("{sensor}, `{}`", text_of(&facts, "kind")?)),
    }
}

/// Replaces the name of a shipped list by its names.
fn expand(class_names: &mut Node) {
    let list = match class_names {
        Node::Text(name) => CLASS_LISTS.iter().find(|(shipped, _)| shipped == name),
        _ => None,
    };
    if let Some(Ok(names)) = list.map(|(_, text)| Node::parse(text)) {
        *class_names = names;
    }
}

fn first_repeated(names: &[String]) -> Option<&String> {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_head_is_sound() {
        assert!(SHIPPED.len() >= 26, "{} heads", SHIPPED.len());
        assert!(SHIPPED.is_sorted());
        for (name, _) in SHIPPED {
            let mut problems = Problems::default();
            let head = read("camera.head", name, None, &mut problems);
            problems.into_result().unwrap();
            assert!(!head.unwrap().facts.class_names().is_empty(), "{name}");
        }
    }
}
