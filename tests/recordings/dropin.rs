//! Recordings through nodes that stand for others: what theirs find, and what `det_post
//! migrate` makes of their parameters finds the same.

use crate::common::drop_in::{Case, ReplacedNode, cameras, num_detections, whole_node};
use crate::common::yolov8_tensor::FOUND;

/// Replays a node by its own parameters and by the migrated ones. Both give the same bytes.
#[track_caller]
fn assert_migrated_is_the_same(node: &ReplacedNode<'_>) {
    let like = node.like("like", &["engine.kind:=rten", "engine.threads:=2"]);
    assert!(num_detections(&like) > 0, "{}", node.package);
    let ours = node.migrated("ours", &["engine.kind:=rten", "engine.threads:=2"]);
    assert_eq!(ours.bytes("detections.jsonl"), like.bytes("detections.jsonl"), "{}", node.package);
    let topics = |run: &crate::common::replay::Run| run.bytes("detections/metadata.yaml").len();
    assert_eq!(topics(&ours), topics(&like), "{}", node.package);
}

#[test]
fn constant_networks_give_their_objects() {
    let folder = tempfile::tempdir().unwrap();
    let Some(node) = whole_node::node(folder.path()) else { return };
    whole_node::assert_objects(&node.like("objects", &[]));
    assert_migrated_is_the_same(&node);
}

#[test]
fn every_generation_detects_the_same_migrated() {
    let Some(cases) = Case::all() else { return };
    for case in &cases {
        println!("{}", case.name);
        assert_migrated_is_the_same(&case.node_to_replay());
    }
}

#[test]
fn nodes_of_isaac_ros_and_yolo_ros_detect_the_same_migrated() {
    let folder = tempfile::tempdir().unwrap();
    for node in cameras::nodes(folder.path()) {
        let (like, ours) = match node.package {
            "yolo_ros" => {
                assert_migrated_is_the_same(&node);
                continue;
            }
            package => (format!("like_{package}"), format!("ours_{package}")),
        };
        // There is no network, and so no engine to choose.
        let (like, ours) = (node.like(&like, &[]), node.migrated(&ours, &[]));
        let num = match node.package {
            "isaac_ros_rtdetr" => 1,
            _ => FOUND.len(),
        };
        let lines = like.lines();
        assert_eq!(num_detections(&like), 2 * num, "{lines:?}");
        if num == 1 {
            // Scores are probabilities, corners are pixels.
            let found = &lines[0]["detections_2d"][0];
            assert_eq!(found["box"], serde_json::json!([10.0, 20.0, 110.0, 70.5]));
            assert_eq!(
                (found["class_id"].as_u64(), found["score"].as_f64()),
                (Some(2), Some(0.95))
            );
        }
        assert_eq!(ours.bytes("detections.jsonl"), like.bytes("detections.jsonl"));
    }
}
