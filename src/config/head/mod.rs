//! Heads: the facts of a network, independent of its deployment.
//!
//! A head is a YAML file of facts. Its section `defaults` contains
//! defaults of channel parameters that suit the network. Values of the user
//! take precedence.

mod anchor;
mod camera;
mod center;
mod encoder;
mod lidar;
mod network;
mod surround;
mod views;

use std::path::Path;

pub use anchor::AnchorFacts;
pub use camera::YoloFacts;
pub use center::CenterFacts;
pub use encoder::{EncoderFacts, PillarFacts, VoxelFacts};
pub use lidar::{LidarFacts, LidarOutputs};
pub(super) use network::Network;
pub use surround::{SurroundFacts, SurroundKind};
use views::Family;
pub use views::ViewFacts;

use super::declaration::Declaration;
use super::files::{Entries, flatten, read_file};
use super::problems::{Origin, Problems, nearest};
use super::reader::Reader;
use super::value::Length::OneOrMore;
use super::value::{list, one_of, text};
use det_post_ros::yaml::Node;

/// The shipped heads by name.
pub(super) const SHIPPED: &[(&str, &str)] = &[
    ("centerpoint_autoware", include_str!("../../../config/heads/centerpoint_autoware.yaml")),
    (
        "centerpoint_autoware_short_range",
        include_str!("../../../config/heads/centerpoint_autoware_short_range.yaml"),
    ),
    ("centerpoint_nuscenes", include_str!("../../../config/heads/centerpoint_nuscenes.yaml")),
    (
        "centerpoint_voxel_nuscenes_0075",
        include_str!("../../../config/heads/centerpoint_voxel_nuscenes_0075.yaml"),
    ),
    (
        "centerpoint_voxel_nuscenes_01",
        include_str!("../../../config/heads/centerpoint_voxel_nuscenes_01.yaml"),
    ),
    ("centerpoint_voxel_waymo", include_str!("../../../config/heads/centerpoint_voxel_waymo.yaml")),
    ("demo_camera", include_str!("../../../config/heads/demo_camera.yaml")),
    ("demo_lidar", include_str!("../../../config/heads/demo_lidar.yaml")),
    ("demo_surround", include_str!("../../../config/heads/demo_surround.yaml")),
    ("demo_voxel", include_str!("../../../config/heads/demo_voxel.yaml")),
    ("isaac_ros_rtdetr", include_str!("../../../config/heads/isaac_ros_rtdetr.yaml")),
    ("isaac_ros_yolov8", include_str!("../../../config/heads/isaac_ros_yolov8.yaml")),
    ("pointpillars_kitti", include_str!("../../../config/heads/pointpillars_kitti.yaml")),
    ("rtdetr", include_str!("../../../config/heads/rtdetr.yaml")),
    ("second_kitti", include_str!("../../../config/heads/second_kitti.yaml")),
    ("streampetr_autoware", include_str!("../../../config/heads/streampetr_autoware.yaml")),
    ("yolo_obb", include_str!("../../../config/heads/yolo_obb.yaml")),
    ("yolov10", include_str!("../../../config/heads/yolov10.yaml")),
    ("yolov5", include_str!("../../../config/heads/yolov5.yaml")),
    ("yolov5_raw", include_str!("../../../config/heads/yolov5_raw.yaml")),
    ("yolov8", include_str!("../../../config/heads/yolov8.yaml")),
    ("yolox", include_str!("../../../config/heads/yolox.yaml")),
];

/// The shipped lists of class names.
const CLASS_LISTS: &[(&str, &str)] =
    &[("coco80", include_str!("../../../config/heads/classes/coco80.yaml"))];

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
    let network = network.filter(|_| !is_path(name));
    let head = text_of(key, name, &mut of_head)
        .and_then(|text| parse(name, &text, network, &mut of_head))
        .filter(|_| of_head.is_empty());
    problems.append(of_head);
    head
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
    let mut of_head = Problems::default();
    let mut p = Reader::new(prefix, facts_given, &mut of_head);
    let facts = facts(&mut p);
    let declared = p.finish();
    let head = facts.filter(|_| of_head.is_empty());
    problems.append(of_head);
    let suggested = Entries::new();
    (head.map(|facts| Head { facts, suggested, has_given_names }), declared)
}

/// Whether a head is named by the path of its file.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml")
}

fn text_of(key: &str, name: &str, problems: &mut Problems) -> Option<String> {
    if is_path(name) {
        return read_file(Path::new(name))
            .map_err(|error| problems.push(key, &error.to_string()))
            .ok();
    }
    if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Some((*text).to_owned());
    }
    let names: Vec<&str> = SHIPPED.iter().map(|(shipped, _)| *shipped).collect();
    let hint = nearest(name, names.iter().copied())
        .map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
    let allowed = format!("{}, or the path of a head file{hint}", names.join(", "));
    problems.refuse(key, Node::Text(name.to_owned()), &allowed);
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
    Some(Head { facts: facts?, suggested, has_given_names: is_path(name) })
}

#[derive(Clone, Copy)]
enum Sensor {
    Camera,
    Lidar,
    Surround,
}

const SENSORS: &[(&str, Sensor)] =
    &[("camera", Sensor::Camera), ("lidar", Sensor::Lidar), ("surround", Sensor::Surround)];

/// `None` when there is a problem.
fn facts(p: &mut Reader<'_>) -> Option<Facts> {
    let (sensor, class_names) = common(p);
    Some(match sensor {
        Sensor::Camera => Facts::Camera(YoloFacts::read(p, class_names)),
        Sensor::Lidar => Facts::Lidar(LidarFacts::read(p, class_names)?),
        Sensor::Surround => Facts::Surround(SurroundFacts::read(p, class_names)?),
    })
}

/// The keys of every head file.
fn common(p: &mut Reader<'_>) -> (Sensor, Vec<String>) {
    let sensor = p.required("sensor", one_of(SENSORS), "Sensor that the network is for.");
    let class_names = p.required(
        "class_names",
        list(text(), OneOrMore),
        "Names of the classes in the network's order, or the name of a shipped list: `coco80`.",
    );
    p.set_class_names(&class_names);
    if let Some(twice) = first_repeated(&class_names) {
        p.problem("class_names", &format!("`{twice}` is listed twice"));
    }
    (sensor, class_names)
}

/// The facts of camera heads; of all LiDAR heads; of those with pillars; of those with
/// voxels; of those of kind `center`; of those of kind `anchor`; of all surround heads; of
/// those of kind `detr3d`; of those of kind `sparse4d`.
pub(super) fn declarations() -> [Vec<Declaration>; 9] {
    let describe = |read: fn(&mut Reader<'_>)| {
        let mut problems = Problems::default();
        let mut p = Reader::manual(&mut problems);
        read(&mut p);
        p.finish()
    };
    let camera = describe(|p| {
        common(p);
        YoloFacts::read(p, Vec::new());
    });
    let pillars = describe(|p| {
        PillarFacts::read(p);
    });
    let voxels = describe(|p| {
        VoxelFacts::read(p);
    });
    let center = describe(|p| {
        CenterFacts::read(p, &[]);
    });
    let anchor = describe(|p| {
        AnchorFacts::read(p, &[]);
    });
    // Without a value `kind` and `encoder` are the first, `center` and `pillars`.
    let mut lidar = describe(|p| {
        common(p);
        LidarFacts::read(p, Vec::new());
    });
    lidar.retain(|fact| !pillars.iter().chain(&center).any(|other| other.name == fact.name));
    // Without a value `kind` is the first kind, `streampetr`.
    let surround = describe(|p| {
        common(p);
        SurroundFacts::read(p, Vec::new());
    });
    let detr3d = describe(|p| {
        ViewFacts::read(p, Family::Detr3d, 1, 1);
    });
    let sparse4d = describe(|p| {
        ViewFacts::read(p, Family::Sparse4d, 1, 1);
    });
    [camera, lidar, pillars, voxels, center, anchor, surround, detr3d, sparse4d]
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
    fn every_shipped_head_is_embedded_and_sound() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/heads");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert_eq!(files, SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (name, _) in SHIPPED {
            let mut problems = Problems::default();
            let head = read("camera.head", name, None, &mut problems);
            problems.into_result().unwrap();
            assert!(!head.unwrap().facts.class_names().is_empty(), "{name}");
        }
    }
}
