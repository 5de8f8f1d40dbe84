//! `--metrics` and `--trace` of a replay.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::fs;

use common::replay::det_post;
use serde_json::Value;

use super::outputs::{fixture, replay_arguments};

#[test]
fn metrics_and_a_trace_agree_with_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let [out, metrics, trace] =
        ["out", "replay.prom", "replay.trace.json"].map(|name| folder.path().join(name));
    let more = ["--metrics", metrics.to_str().unwrap(), "--trace", trace.to_str().unwrap()];
    let arguments = replay_arguments(&fixture().drive, &out, &more);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The second run replaces the files of the first.
    for _ in 0..2 {
        det_post(&arguments).expect_code(0);
    }
    let report: Value =
        serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    let text = fs::read_to_string(&metrics).unwrap();
    let events: Vec<Value> = serde_json::from_slice(&fs::read(&trace).unwrap()).unwrap();
    for (name, channel) in report["channels"].as_object().unwrap() {
        let num_frames = channel["frames_out"].as_u64().unwrap();
        assert!(num_frames > 2, "{name}");
        for (metric, of_report) in [
            ("frames_received_total", &channel["frames_in"]),
            ("frames_processed_total", &channel["frames_out"]),
            ("detections_total", &channel["detections"]),
        ] {
            let line = format!("det_post_{metric}{{channel=\"{name}\"}} {of_report}");
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        for stage in channel["stages_ms"].as_array().unwrap() {
            let stage = stage["stage"].as_str().unwrap();
            let labels = format!("{{channel=\"{name}\",stage=\"{stage}\"}}");
            let line = format!("det_post_stage_duration_seconds_count{labels} ");
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
        let named =
            |event: &&Value| event["name"] == "thread_name" && event["args"]["name"] == *name;
        let tracks: Vec<&Value> = events.iter().filter(named).map(|event| &event["tid"]).collect();
        let frames = events.iter().filter(|event| event["name"] == "frame");
        let num_traced = frames.filter(|event| tracks.contains(&&event["tid"])).count();
        assert_eq!(num_traced as u64, num_frames, "{name}");
    }
    // Nothing else stays.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn files_of_others_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine");
    fs::write(&file, "of another program").unwrap();
    for option in ["--metrics", "--trace"] {
        let more = [option, file.to_str().unwrap()];
        let arguments = replay_arguments(&fixture().drive, &folder.path().join("out"), &more);
        let run = det_post(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        run.expect_code(2);
        assert!(run.stderr.contains("was not written by det_post"), "{}", run.stderr);
        assert_eq!(fs::read_to_string(&file).unwrap(), "of another program");
    }
}
