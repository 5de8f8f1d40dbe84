//! Parameters and the life cycle, as others see them.

use std::path::{Path, PathBuf};

use det_post::node::Change;
use det_post_ros::cdr::Reader;
use det_post_ros::messages::Detection2DArray;
use det_post_ros::middleware::{Request, Response};
use det_post_ros::{LifecycleState, Parameter, ParameterRange, ParameterType, ParameterValue};
use det_post_types::{ElementType, Stamp};

use super::common::onnx::{Attr, Graph};
use super::common::tables::assert_tables;
use super::recording::IMAGE_TOPIC;
use super::require::{Need, skip};
use super::session::{CAMERA_OUT, Session, image_message};

fn names(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn parameter(name: &str, value: ParameterValue) -> Parameter {
    Parameter { name: name.into(), value }
}

#[test]
fn parameters_are_listed_described_and_read() {
    let session = Session::open(&[]);
    let list = |prefixes: &[&str], depth| {
        let request = Request::ListParameters { prefixes: names(prefixes), depth };
        match session.ask(request) {
            Response::Names { names, prefixes } => (names, prefixes),
            other => panic!("{other:?}"),
        }
    };
    let (all, _) = list(&[], 0);
    assert!(all.len() > 60, "{}", all.len());
    let (top, prefixes) = list(&[], 1);
    assert!(top.contains(&"device".into()) && prefixes.is_empty(), "{top:?}");
    let (nms, prefixes) = list(&["camera.nms"], 0);
    assert!(nms.len() >= 5 && nms.iter().all(|name| name.starts_with("camera.nms.")), "{nms:?}");
    assert_eq!(prefixes, ["camera.nms"]);
    let (shallow, _) = list(&["camera"], 1);
    assert!(shallow.contains(&"camera.input".into()) && !shallow.contains(&nms[0]));

    let known = names(&["camera.score_threshold", "lidar.nms.search_distance_m"]);
    assert_eq!(
        session.ask(Request::GetParameters(known.clone())),
        Response::Values(vec![ParameterValue::Number(0.4), ParameterValue::NotSet])
    );
    assert_eq!(
        session.ask(Request::GetParameterTypes(known)),
        Response::Types(vec![ParameterType::Number, ParameterType::NotSet])
    );
    let unknown = names(&["camera.score_threshold", "camera.magic"]);
    assert_eq!(session.ask(Request::GetParameters(unknown)), Response::Values(Vec::new()));
    let Response::Descriptors(described) = session
        .ask(Request::DescribeParameters(names(&["camera.max_detections", "camera.model_path"])))
    else {
        panic!()
    };
    assert_eq!(described[0].range, Some(ParameterRange::Integer { from: 1, to: 1 << 16 }));
    assert!(!described[0].is_read_only && described[1].is_read_only);
}

#[test]
fn live_parameters_change_the_next_frame() {
    let session = Session::active(&[]);
    let detections = |second| {
        let cdr =
            session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0)), CAMERA_OUT);
        Detection2DArray::decode(&cdr).unwrap().detections.len()
    };
    let all = detections(1);
    assert!(all > 1);
    session.set("camera.max_detections", ParameterValue::Integer(1)).unwrap();
    assert_eq!(detections(2), 1);
    session.set("camera.max_detections", ParameterValue::Integer(300)).unwrap();
    session.set("camera.score_threshold", ParameterValue::Integer(1)).unwrap();
    assert_eq!(detections(3), 0);
    session.set("camera.score_threshold", ParameterValue::Number(0.4)).unwrap();
    session.set("camera.nms.kind", ParameterValue::Text("none".into())).unwrap();
    assert!(detections(4) >= all);
    session.set("camera.nms.kind", ParameterValue::Text("iou".into())).unwrap();
    let class = super::camera_net::CLASSES[0].to_owned();
    session.set("camera.class_filter", ParameterValue::Texts(vec![class])).unwrap();
    let some = detections(5);
    assert!((1..all).contains(&some), "{some} of {all}");
    session.set("camera.class_filter", ParameterValue::Texts(Vec::new())).unwrap();
    assert_eq!(detections(6), all);
    // More candidates than the pipeline was made for.
    session.set("camera.pre_nms_top_k", ParameterValue::Integer(5000)).unwrap();
    assert_eq!(detections(7), all);
}

#[test]
fn all_or_nothing_and_why_not() {
    let session = Session::active(&[]);
    let threshold = || match session.ask(Request::GetParameters(names(&["camera.score_threshold"])))
    {
        Response::Values(mut values) => values.remove(0),
        other => panic!("{other:?}"),
    };
    let changes = vec![
        parameter("camera.score_threshold", ParameterValue::Number(0.7)),
        parameter("camera.nms.iou_threshold", ParameterValue::Number(7.0)),
    ];
    let atomically = Request::SetParametersAtomically(changes.clone());
    let Response::SetResult(Err(reason)) = session.ask(atomically) else { panic!() };
    assert!(reason.contains("camera.nms.iou_threshold") && reason.contains("from 0 to 1"));
    assert_eq!(threshold(), ParameterValue::Number(0.4));
    let Response::SetResults(results) = session.ask(Request::SetParameters(changes)) else {
        panic!()
    };
    assert!(results[0].is_ok() && results[1].is_err(), "{results:?}");
    assert_eq!(threshold(), ParameterValue::Number(0.7));
    for (name, value, reason) in [
        ("camera.model_path", ParameterValue::Text("x".into()), "read-only"),
        ("camera.magic", ParameterValue::Flag(true), "not a parameter"),
        ("camera.class_filter", ParameterValue::Texts(names(&["unicorn"])), "unicorn"),
        ("lidar.score_thresholds", ParameterValue::Numbers(vec![0.1; 17]), "one per class"),
        ("camera.class_filter", ParameterValue::Unknown(77), "a value of type 77"),
    ] {
        let refused = session.set(name, value).unwrap_err();
        assert!(refused.contains(reason) && refused.contains(name), "{refused}");
    }
}

/// A network of the sample's classes with one constant box, which ends in a suppression.
fn network_with_suppression(folder: &Path) -> PathBuf {
    let (float, num_classes) = (ElementType::F32, super::camera_net::CLASSES.len());
    let mut scores = vec![0.0; num_classes];
    scores[0] = 0.9;
    let outputs = ["num", "boxes_out", "scores_out", "classes"];
    let attributes = [("score_threshold", Attr::Float(0.25))];
    let path = folder.join("cut.onnx");
    Graph::new("cut", "")
        .input("images", float, &[1, 3, 64, 64])
        .constant("zero", &[], &[0.0])
        .constant("constant_boxes", &[1, 1, 4], &[2.0, 2.0, 40.0, 40.0])
        .constant("constant_scores", &[1, 1, num_classes as i64], &scores)
        .node("ReduceMean", &["images"], &["mean"], &[("keepdims", Attr::Int(0))])
        .op("Mul", &["mean", "zero"], "nothing")
        .op("Add", &["constant_boxes", "nothing"], "boxes")
        .op("Add", &["constant_scores", "nothing"], "scores")
        .node_of("TRT", "EfficientNMS_TRT", &["boxes", "scores"], &outputs, &attributes)
        .output("num", ElementType::I32, &[1, 1])
        .output("boxes_out", float, &[1, 10, 4])
        .output("scores_out", float, &[1, 10])
        .output("classes", ElementType::I32, &[1, 10])
        .save(&path)
        .unwrap();
    path
}

/// Thresholds of a network that ends in its suppression hold: others are refused, and the labels
/// say those in force.
#[test]
fn parameters_without_effect_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = network_with_suppression(folder.path());
    let session = Session::active(&[&format!("camera.model_path:={}", model.display())]);
    let labels = format!("{CAMERA_OUT}/label_info");
    let cdr = session.next(&labels);
    assert_eq!(cdr.last_chunk(), Some(&0.25_f32.to_le_bytes()));
    let detections = |second| {
        let cdr =
            session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(second, 0)), CAMERA_OUT);
        Detection2DArray::decode(&cdr).unwrap().detections.len()
    };
    assert_eq!(detections(1), 1);
    for (name, value) in [
        ("camera.score_threshold", ParameterValue::Number(0.95)),
        ("camera.nms.kind", ParameterValue::Text("none".into())),
        ("camera.nms.iou_threshold", ParameterValue::Number(0.9)),
    ] {
        let before = session.ask(Request::GetParameters(names(&[name])));
        let reason = session.set(name, value).unwrap_err();
        let part = "camera.score_threshold and camera.nms.* have no effect: the network ends in \
                    EfficientNMS_TRT";
        assert!(reason.contains(part), "{reason}");
        assert_eq!(session.ask(Request::GetParameters(names(&[name]))), before);
    }
    session.set("camera.max_detections", ParameterValue::Integer(7)).unwrap();
    assert_eq!(detections(2), 1);
    assert!(session.graph.take(&labels).is_empty());
}

#[test]
fn types_of_the_node_are_described_by_their_hash() {
    let session = Session::open(&[]);
    let ask = |type_hash: &str, with_sources| {
        let type_hash = type_hash.to_owned();
        match session.ask(Request::GetTypeDescription { type_hash, with_sources }) {
            Response::TypeDescription(described) => described,
            other => panic!("{other:?}"),
        }
    };
    let hash = "RIHS01_9198cabf7da3796ae6fe19c4cb3bdd3525492988c70522628af5daa124bae2b5";
    let described = ask(hash, true).unwrap();
    assert_eq!(described.description.main.type_name, "sensor_msgs/msg/PointCloud2");
    assert_eq!(described.description.hash().to_string(), hash);
    let sources: Vec<_> = described.sources.iter().map(|of| of.type_name.as_str()).collect();
    let referenced = ["builtin_interfaces/msg/Time", "sensor_msgs/msg/PointField"];
    assert_eq!(sources[0], "sensor_msgs/msg/PointCloud2");
    assert_eq!(sources[1..3], referenced);
    assert!(ask(hash, false).unwrap().sources.is_empty());
    // In rcl's words.
    for (unknown, reason) in [
        ("", "Failed to parse type hash"),
        (&hash[..70], "Failed to parse type hash"),
        (&hash.replace("2b5", "2b6"), "Type not currently in use by this node"),
    ] {
        assert_eq!(ask(unknown, true).unwrap_err(), reason, "{unknown}");
    }
}

#[test]
fn changes_are_reported() {
    let session = Session::open(&[]);
    let declared = session.next("/parameter_events");
    let event = |cdr: &[u8]| {
        let mut reader = Reader::new("test", cdr).unwrap();
        reader.i32().unwrap();
        reader.u32().unwrap();
        assert_eq!(reader.str().unwrap(), "/det_post");
        let num_new = reader.sequence_len(1).unwrap();
        match num_new {
            0 => (0, reader.sequence_len(1).unwrap(), reader.str().unwrap().to_owned()),
            num_new => (num_new, 0, String::new()),
        }
    };
    assert!(event(&declared).0 > 60);
    session.set("camera.max_detections", ParameterValue::Integer(7)).unwrap();
    let changed = session.next("/parameter_events");
    assert_eq!(event(&changed), (0, 1, "camera.max_detections".into()));
    assert!(session.set("camera.max_detections", ParameterValue::Integer(0)).is_err());
    assert!(session.graph.take("/parameter_events").is_empty());
}

#[test]
fn a_manager_changes_the_state_of_the_node() {
    let session = Session::open(&[]);
    let change =
        |id, label: &str| match session.ask(Request::ChangeState { id, label: label.into() }) {
            Response::Changed(changed) => changed,
            other => panic!("{other:?}"),
        };
    let state = || match session.ask(Request::GetState) {
        Response::State(state) => state,
        other => panic!("{other:?}"),
    };
    let takes_inputs = || !session.graph.inputs().is_empty();
    assert!(!change(3, "") && state() == LifecycleState::Unconfigured);
    assert!(change(1, "") && state() == LifecycleState::Inactive && !takes_inputs());
    let Response::Transitions(ways) = session.ask(Request::GetAvailableTransitions) else {
        panic!()
    };
    assert_eq!(
        ways.iter().map(|way| way.label).collect::<Vec<_>>(),
        ["cleanup", "activate", "shutdown"]
    );
    for _ in 0..3 {
        assert!(change(0, "activate") && state() == LifecycleState::Active && takes_inputs());
        session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)), CAMERA_OUT);
        assert!(change(0, "deactivate") && state() == LifecycleState::Inactive && !takes_inputs());
    }
    assert!(change(0, "cleanup") && state() == LifecycleState::Unconfigured);
    assert!(change(0, "configure") && change(0, "activate"));
    session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(2, 0)), CAMERA_OUT);
    assert!(change(0, "shutdown") && state() == LifecycleState::Finalized && !takes_inputs());
    assert!(!change(0, "configure") && !change(99, ""));

    let events = session.graph.take("/det_post/transition_event");
    let goals: Vec<String> = events
        .iter()
        .map(|cdr| {
            let mut reader = Reader::new("test", cdr).unwrap();
            reader.u64().unwrap();
            reader.u8().unwrap();
            reader.str().unwrap();
            reader.u8().unwrap();
            reader.str().unwrap();
            reader.u8().unwrap();
            reader.str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(goals[..4], ["configuring", "inactive", "activating", "active"]);
    assert_eq!(goals[goals.len() - 2..], ["shuttingdown", "finalized"]);
    let Response::Transitions(graph) = session.ask(Request::GetTransitionGraph) else { panic!() };
    assert_eq!(graph.len(), 25);
}

#[test]
fn a_network_that_is_not_there_leaves_the_node_unconfigured() {
    let session = Session::open(&["camera.model_path:=/none/such.onnx"]);
    let error = session.node.change(Change::Configure).unwrap_err();
    assert!(error.to_string().contains("/none/such.onnx"), "{error}");
    assert_eq!(session.node.state(), LifecycleState::Unconfigured);
    assert!(session.graph.inputs().is_empty());
}

#[test]
fn parameters_set_before_the_start_apply_after_it() {
    let session = Session::open(&[]);
    session.set("camera.max_detections", ParameterValue::Integer(1)).unwrap();
    session.node.change(Change::Configure).unwrap();
    session.set("camera.score_threshold", ParameterValue::Number(0.45)).unwrap();
    session.node.change(Change::Activate).unwrap();
    let cdr = session.send_for(IMAGE_TOPIC, &image_message(Stamp::from_ros(1, 0)), CAMERA_OUT);
    assert_eq!(Detection2DArray::decode(&cdr).unwrap().detections.len(), 1);
}

#[test]
fn the_page_of_the_live_node_is_made_from_the_code() {
    assert_tables("live-node.md", det_post::node::manual_tables());
}

#[test]
fn another_implementation_reads_the_diagnostics_and_events() {
    let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
        skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
        return;
    };
    let session = Session::active(&[]);
    let markers = "/det_post/lidar/detections/markers";
    session.graph.set_subscribers(markers, 1);
    let cloud = super::session::cloud(Stamp::from_ros(5, 0));
    session.send_for(super::recording::CLOUD_TOPIC, &cloud, super::session::LIDAR_OUT);
    let folder = tempfile::tempdir().unwrap();
    for (topic, name) in [
        (markers, "visualization_msgs.msg.MarkerArray"),
        ("/diagnostics", "diagnostic_msgs.msg.DiagnosticArray"),
        ("/parameter_events", "rcl_interfaces.msg.ParameterEvent"),
        ("/det_post/transition_event", "lifecycle_msgs.msg.TransitionEvent"),
    ] {
        let mut messages = session.wait(topic, 1);
        // The last diagnostics have all channels in them, the first events the start.
        let message = if topic == "/diagnostics" {
            session.graph.take(topic);
            session.wait(topic, 1).remove(0)
        } else {
            messages.remove(0)
        };
        std::fs::write(folder.path().join(format!("{name}.cdr")), message).unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/check_live.py");
    let output =
        std::process::Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
