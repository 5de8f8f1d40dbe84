//! One wrong value or one misspelled key is one problem: no other key becomes unknown, missing
//! or wrong by it, for every kind of channel and head.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use super::Config;
use super::declaration::{DefaultValue, entries};
use super::files::{Entries, Entry};
use super::head::{SHIPPED, UNSHIPPED, shipped_by_kind};
use super::node::NODE_NAME;
use super::problems::{Origin, Problems};
use det_post_ros::NodeName;
use det_post_ros::yaml::Node;

const DETR3D: &str = "{sensor: surround, kind: detr3d, class_names: [a, b], cameras: 2, \
    input_size: [640, 352], channel_order: rgb, size_order: length_width_height, \
    yaw: counter_clockwise, level_strides: [8, 16], point_range_m: [-9, -9, -3, 9, 9, 3], \
    decoder: {channels: 64, queries: 90, blocks: 6}}";

/// The values of a sound channel of every kind of head, all of them given; and its kind.
fn channels() -> Vec<(String, Entries)> {
    let channel = |kind: String, names: Vec<&str>| {
        let text = match names.first() {
            Some(name) => SHIPPED.iter().find(|(shipped, _)| shipped == name).unwrap().1,
            None => {
                assert!(UNSHIPPED.iter().any(|(unshipped, _)| *unshipped == kind));
                DETR3D
            }
        };
        let Node::Map(mut facts) = Node::parse(text).unwrap() else { panic!("{text}") };
        facts.shift_remove("defaults");
        let num_cameras = match facts.get("cameras") {
            Some(Node::Integer(num)) => *num,
            _ => 2,
        };
        let topics: Vec<String> = (0..num_cameras).map(|index| format!("/c{index}")).collect();
        let more = match &*kind {
            kind if kind.starts_with("camera") => "input: /image, model_path: m".to_owned(),
            // Without the file of an encoder.
            kind if ["lidar, `none`", "lidar, `sites`"].iter().any(|of| kind.starts_with(of)) => {
                "input: /points, model_path: m, output_type: detected_objects".to_owned()
            }
            kind if kind.starts_with("lidar") => {
                "input: /points, encoder_path: e, model_path: m, output_type: detected_objects, \
                 distance_upper_limits_m: [20, 40]"
                    .to_owned()
            }
            "surround, `streampetr`" => format!(
                "inputs: [{}], model_path: m, position_embedding_path: p, head_path: h",
                topics.join(", ")
            ),
            _ => format!(
                "inputs: [{}], model_path: m, weights_path: w, decoder.precision: f16, \
                 camera_infos: [{}]",
                topics.join(", "),
                topics.join(", ")
            ),
        };
        let Node::Map(mut values) = Node::parse(&format!("{{{more}}}")).unwrap() else {
            panic!("{more}")
        };
        values.insert("head".to_owned(), Node::Map(facts));
        let file = Node::Map([("a".to_owned(), Node::Map(values))].into_iter().collect());
        let text = format!("/**: {{ros__parameters: {}}}", flow(&file));
        let config = Config::parse(&text).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let origin = Origin::own("test");
        let declared = config.declared.iter().chain(&config.channels[0].declared);
        (kind, entries(declared, &origin))
    };
    shipped_by_kind().into_iter().map(|(kind, names)| channel(kind, names)).collect()
}

/// A node in the flow style of YAML.
fn flow(node: &Node) -> String {
    match node {
        Node::Map(map) => {
            let items: Vec<_> =
                map.iter().map(|(key, node)| format!("{key:?}: {}", flow(node))).collect();
            format!("{{{}}}", items.join(", "))
        }
        Node::List(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The lines of the problems of some values.
fn problems(values: Entries) -> Vec<String> {
    let node = NodeName::new("", NODE_NAME).unwrap();
    let error = Config::from_entries(&node, values, Problems::default()).unwrap_err();
    let lines = error.message().lines().map(str::trim);
    lines.filter(|line| !line.ends_with(" problems")).map(str::to_owned).collect()
}

#[test]
fn a_wrong_value_is_one_problem() {
    for (kind, values) in channels() {
        for key in values.keys() {
            let mut wrong = values.clone();
            // No parameter takes it.
            wrong.get_mut(key).unwrap().node = Node::Integer(i64::MIN);
            let found = problems(wrong);
            assert_eq!(found.len(), 1, "{kind}: {key}: {found:#?}");
            assert!(found[0].starts_with(&format!("{key}: found -9")), "{kind}: {found:?}");
        }
    }
}

#[test]
fn a_misspelled_key_is_one_problem() {
    for (kind, values) in channels() {
        let node = NodeName::new("", NODE_NAME).unwrap();
        let config = Config::from_entries(&node, values.clone(), Problems::default()).unwrap();
        let declared = config.declared.iter().chain(&config.channels[0].declared);
        let required: Vec<&str> = declared
            .filter(|declared| declared.default == DefaultValue::Required)
            .map(|declared| &*declared.name)
            .collect();
        for (key, Entry { node, .. }) in &values {
            let mut misspelled = values.clone();
            misspelled.remove(key);
            let (start, end) = key.split_at(key.len() - 1);
            let typo = format!("{start}x{end}");
            let origin = Origin::own("test");
            misspelled.insert(typo.clone(), Entry { node: node.clone(), origin });
            let found = problems(misspelled);
            let is_unknown = |line: &&String| line.starts_with(&format!("{typo}: unknown key"));
            assert_eq!(found.iter().filter(is_unknown).count(), 1, "{kind}: {found:#?}");
            let is_missing = |line: &&String| line.starts_with(&format!("{key}: is missing"));
            let missing = found.iter().filter(is_missing).count();
            assert!(missing == 1 || !required.contains(&&**key), "{kind}: {found:#?}");
            assert_eq!(found.len(), 1 + missing, "{kind}: {key}: {found:#?}");
        }
    }
}

#[test]
fn what_a_wrong_head_leaves_open_is_accepted() {
    for (kind, values) in channels() {
        let mut unknown_head = values.clone();
        unknown_head.retain(|key, _| !key.starts_with("a.head."));
        let origin = Origin::own("test");
        unknown_head.insert("a.head".to_owned(), Entry { node: "yolvo".into(), origin });
        let found = problems(unknown_head);
        assert_eq!(found.len(), 1, "{kind}: {found:#?}");
        assert!(found[0].starts_with("a.head: found \"yolvo\""), "{kind}: {found:?}");
    }
}
