//! How detections were made: what `report.json` beside them says.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use det_post_types::{Stage, input_file};

/// The largest report that is read, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// A channel of a replay.
pub(super) struct Run {
    /// Number of its drive, from 0.
    pub(super) drive: usize,
    pub(super) channel: String,
    pub(super) device: String,
    pub(super) engine: String,
    pub(super) frames_in: u64,
    pub(super) frames_out: u64,
    /// The median, 95th and 99th percentile of a whole frame in milliseconds.
    pub(super) total_ms: Option<[f64; 3]>,
}

/// The part of a report that a page shows, as `src/replay/report.rs` writes it.
#[derive(Deserialize)]
struct Report {
    channels: BTreeMap<String, Channel>,
}

#[derive(Deserialize)]
struct Channel {
    device: String,
    engine: String,
    frames_in: u64,
    frames_out: u64,
    /// Absent where the reports of slices were joined.
    #[serde(default)]
    stages_ms: Vec<Durations>,
}

#[derive(Deserialize)]
struct Durations {
    stage: String,
    p50: f64,
    p95: f64,
    p99: f64,
}

/// The channels of the replay that wrote these detections, by name; none where no report is
/// beside them. One that cannot be read is named in the log.
pub(super) fn beside(detections: &Path, drive: usize) -> Vec<Run> {
    let folder = match detections.is_dir() {
        true => Some(detections),
        false => detections.parent(),
    };
    let Some(path) = folder.map(|folder| folder.join("report.json")) else { return Vec::new() };
    if !path.is_file() {
        return Vec::new();
    }
    let text = match input_file::read_text(&path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) => {
            tracing::warn!("the page has no devices and times: {error}");
            return Vec::new();
        }
    };
    match serde_json::from_str::<Report>(&text) {
        Ok(report) => report.channels.into_iter().map(|of| Run::new(drive, of)).collect(),
        Err(error) => {
            tracing::warn!("the page has no devices and times: {}: {error}", path.display());
            Vec::new()
        }
    }
}

impl Run {
    fn new(drive: usize, (channel, of): (String, Channel)) -> Self {
        let Channel { device, engine, frames_in, frames_out, stages_ms } = of;
        let total = stages_ms.iter().find(|durations| durations.stage == Stage::Total.name());
        let total_ms = total.map(|&Durations { p50, p95, p99, .. }| [p50, p95, p99]);
        Self { drive, channel, device, engine, frames_in, frames_out, total_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"recording": "drive", "channels": {"camera": {
        "input": "/image", "device": "cpu", "engine": "rten 0.27", "frames_in": 3,
        "frames_out": 2, "stages_ms": [
            {"stage": "infer", "p50": 1, "p95": 1, "p99": 1, "max": 1},
            {"stage": "total", "p50": 10.5, "p95": 12, "p99": 13, "max": 14}]}}}"#;

    #[test]
    fn a_report_is_found_beside_detections_and_in_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert!(beside(folder.path(), 0).is_empty(), "no report");
        std::fs::write(folder.path().join("report.json"), REPORT).unwrap();
        for detections in [folder.path().to_owned(), folder.path().join("detections.jsonl")] {
            let runs = beside(&detections, 4);
            let [run] = &runs[..] else { panic!("one channel") };
            assert_eq!((run.drive, &*run.channel, &*run.device), (4, "camera", "cpu"));
            assert_eq!((&*run.engine, run.frames_in, run.frames_out), ("rten 0.27", 3, 2));
            assert_eq!(run.total_ms, Some([10.5, 12.0, 13.0]));
        }
    }

    #[test]
    fn other_files_of_that_name_are_no_error() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "[]", "{\"channels\": 3}"] {
            std::fs::write(folder.path().join("report.json"), text).unwrap();
            assert!(beside(folder.path(), 0).is_empty(), "{text}");
        }
    }
}
