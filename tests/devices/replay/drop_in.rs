//! Nodes that stand for others, on the CPU and on a GPU: the objects of theirs, and the same
//! bytes from both.

use super::common::drop_in::{Case, ReplacedNode, num_detections, whole_node};
use super::common::replay::Run;
use super::has_gpu;

/// Replays a node on the CPU and on GPU 0. Both give the same bytes.
#[track_caller]
fn on_both(node: &ReplacedNode<'_>, what: &str) -> [Run; 2] {
    let run = |out: &str, device: &str| {
        let device = format!("device:={device}");
        node.like(out, &["engine.kind:=rten", "engine.threads:=2", &device])
    };
    let runs = [run("cpu", "cpu"), run("cuda", "cuda:0")];
    for (run, device) in runs.iter().zip(["cpu", "cuda:0 "]) {
        let report = run.report();
        let found = report["channels"][node.channel]["device"].as_str().unwrap().to_owned();
        assert!(found.starts_with(device), "{what}: {found}");
    }
    assert!(num_detections(&runs[0]) > 0, "{what}");
    let [cpu, cuda] = runs.each_ref().map(|run| run.bytes("detections.jsonl"));
    assert_eq!(cpu, cuda, "{what}");
    println!("{what}: {} detections, the same bytes", num_detections(&runs[0]));
    runs
}

#[test]
fn constant_networks_give_their_objects() {
    if !has_gpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(node) = whole_node::node(folder.path()) else { return };
    on_both(&node, "whole node").iter().for_each(whole_node::assert_objects);
    let migrated = node.migrated("migrated", &["engine.kind:=rten", "device:=cuda:0"]);
    whole_node::assert_objects(&migrated);
}

#[test]
fn every_generation_detects_the_same() {
    if !has_gpu() {
        return;
    }
    let Some(cases) = Case::all() else { return };
    for case in &cases {
        on_both(&case.node_to_replay(), &case.name);
    }
}
