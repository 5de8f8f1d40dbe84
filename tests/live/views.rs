//! The views in config/ (RViz, Foxglove) show the outputs of the node: every topic
//! they name is one of the node that `config/demo.param.yaml` or
//! `config/demo_surround_3d.param.yaml` makes, with a quality of service that it offers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use det_post::node::Change;
use det_post_ros::middleware::{Durability, Qos, Reliability};
use det_post_ros::{NodeName, Remaps};
use serde_json::Value;

use super::session::Session;

/// Frame of the simulated drive's vehicle.
const VEHICLE_FRAME: &str = "base_link";

/// Type and quality of service of a topic.
type Topics = BTreeMap<String, (&'static str, Qos)>;

fn config(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)
}

/// What the demo's node reads, and what it publishes.
fn topics() -> (Topics, Topics) {
    topics_of(&config("demo.param.yaml"))
}

/// What the node of a parameter file reads, and what it publishes.
fn topics_of(parameters: &Path) -> (Topics, Topics) {
    let node = NodeName::new("", "det_post").unwrap();
    let session = Session::open_file(node, Remaps::default(), parameters, &["device:=cpu"]);
    session.node.change(Change::Configure).unwrap();
    session.node.change(Change::Activate).unwrap();
    let inputs = session.graph.inputs().into_iter();
    let outputs = session.graph.outputs().into_iter();
    (
        inputs.map(|(topic, kind, qos)| (topic, (kind.type_name(), qos))).collect(),
        outputs.map(|(topic, type_name, qos)| (topic, (type_name, qos))).collect(),
    )
}

/// The type of messages that a display of RViz shows; `None` for those without
/// a topic.
fn type_of_display(class: &str) -> Option<&'static str> {
    match class {
        "rviz_default_plugins/Image" => Some("sensor_msgs/msg/Image"),
        "rviz_default_plugins/MarkerArray" => Some("visualization_msgs/msg/MarkerArray"),
        "rviz_default_plugins/PointCloud2" => Some("sensor_msgs/msg/PointCloud2"),
        "rviz_default_plugins/Grid" | "rviz_default_plugins/TF" => None,
        other => panic!("{other}: say here what it shows"),
    }
}

/// The topics that a view for RViz shows, each of the node.
fn shown_by_rviz(name: &str, (inputs, outputs): &(Topics, Topics)) -> Vec<String> {
    let text = std::fs::read_to_string(config(name)).unwrap();
    let view: Value = serde_yaml::from_str(&text).unwrap();
    let manager = &view["Visualization Manager"];
    assert_eq!(manager["Global Options"]["Fixed Frame"], VEHICLE_FRAME);

    let mut shown = Vec::new();
    for display in manager["Displays"].as_array().unwrap() {
        let (name, class) = (&display["Name"], display["Class"].as_str().unwrap());
        assert_eq!(display["Enabled"], display["Value"], "{name}");
        let Some(wanted) = type_of_display(class) else { continue };
        let asked = &display["Topic"];
        let topic = asked["Value"].as_str().unwrap();
        let (found, offered) = inputs.get(topic).or(outputs.get(topic)).unwrap_or_else(|| {
            panic!("{name}: {topic} is none of {:?} {:?}", inputs.keys(), outputs.keys())
        });
        assert_eq!(*found, wanted, "{name}");
        // Sensors may offer less than the node asks for: only best effort hears them all.
        let is_input = inputs.contains_key(topic);
        if asked["Reliability Policy"] == "Reliable" {
            assert!(!is_input && offered.reliability == Reliability::Reliable, "{name}");
        }
        if asked["Durability Policy"] == "Transient Local" {
            assert!(!is_input && offered.durability == Durability::TransientLocal, "{name}");
        }
        shown.push(topic.to_owned());
    }
    shown
}

#[test]
fn rviz_shows_what_the_demo_publishes() {
    let shown = shown_by_rviz("det_post.rviz", &topics());
    for topic in ["/lidar_0/points", "/det_post/lidar/detections/markers"] {
        assert!(shown.iter().any(|of| of == topic), "{topic} is not shown");
    }
}

#[test]
fn rviz_shows_what_a_surround_channel_publishes() {
    let topics = topics_of(&config("demo_surround_3d.param.yaml"));
    let mut shown = shown_by_rviz("surround.rviz", &topics);
    shown.sort();
    let output = "/det_post/surround/detections";
    assert_eq!(shown, [format!("{output}/debug_image"), format!("{output}/markers")]);
}

#[test]
fn foxglove_shows_what_the_demo_publishes() {
    let (inputs, outputs) = topics();
    let text = std::fs::read_to_string(config("det_post.foxglove.json")).unwrap();
    let view: Value = serde_json::from_str(&text).unwrap();
    let panels = view["configById"].as_object().unwrap();

    let mut shown = Vec::new();
    for (id, panel) in panels {
        match id.split('!').next().unwrap() {
            "3D" => {
                assert_eq!(panel["followTf"], VEHICLE_FRAME);
                shown.extend(panel["topics"].as_object().unwrap().keys().map(String::as_str));
            }
            "Image" => shown.push(panel["imageMode"]["imageTopic"].as_str().unwrap()),
            "DiagnosticSummary" => shown.push(panel["topicToRender"].as_str().unwrap()),
            other => panic!("{other}: say here where its topics stand"),
        }
    }
    assert!(shown.len() >= 4, "{shown:?}");
    for topic in shown {
        let is_known = inputs.contains_key(topic) || outputs.contains_key(topic);
        assert!(is_known, "{topic} is none of {:?} {:?}", inputs.keys(), outputs.keys());
    }

    // Every panel has its place, and every place its panel.
    let mut placed = Vec::new();
    let mut places = vec![&view["layout"]];
    while let Some(place) = places.pop() {
        match place {
            Value::String(id) => placed.push(id.clone()),
            split => places.extend([&split["first"], &split["second"]]),
        }
    }
    placed.sort_unstable();
    assert_eq!(placed, panels.keys().cloned().collect::<Vec<_>>());
}
