//! What a replay did, as numbers: `report.json` and the table on the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::error::Error;
use crate::types::{Count, FrameReport, Stage, Transfer};

/// Latencies are kept from 1 ns to an hour, to 1 part in 1000.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// The account of one channel over a whole replay.
pub(super) struct ChannelReport {
    frames_in: u64,
    frames_out: u64,
    num_detections: u64,
    dropped: BTreeMap<&'static str, Dropped>,
    degraded: BTreeMap<&'static str, Dropped>,
    truncated: [u64; Count::ALL.len()],
    latencies: [Option<Histogram<u64>>; Stage::ALL.len()],
    bytes: [[u64; Transfer::ALL.len()]; Stage::ALL.len()],
}

/// Frames dropped or degraded for one reason.
#[derive(Clone, Debug, Serialize)]
struct Dropped {
    count: u64,
    first: String,
}

impl ChannelReport {
    pub(super) fn new() -> Self {
        Self {
            frames_in: 0,
            frames_out: 0,
            num_detections: 0,
            dropped: BTreeMap::new(),
            degraded: BTreeMap::new(),
            truncated: [0; Count::ALL.len()],
            latencies: std::array::from_fn(|_| None),
            bytes: [[0; Transfer::ALL.len()]; Stage::ALL.len()],
        }
    }

    /// Number of frames that came in so far.
    pub(super) fn frames_in(&self) -> u64 {
        self.frames_in
    }

    /// Notes a frame that was served.
    pub(super) fn add_served(&mut self, frame: &FrameReport, num_detections: usize) {
        self.frames_in += 1;
        self.frames_out += 1;
        self.num_detections += num_detections as u64;
        for count in Count::ALL {
            self.truncated[count as usize] += frame.count(count);
        }
        for stage in Stage::ALL {
            if let Some(duration) = frame.duration(stage) {
                self.add_latency(stage, duration);
            }
            for transfer in Transfer::ALL {
                self.bytes[stage as usize][transfer as usize] += frame.bytes(stage, transfer);
            }
        }
    }

    /// Notes a frame that was refused. Returns how often this reason came.
    pub(super) fn add_dropped(&mut self, error: &Error) -> u64 {
        self.frames_in += 1;
        count_reason(&mut self.dropped, error)
    }

    /// Notes a frame that is served without its past sweeps. Returns how often
    /// this reason came.
    pub(super) fn add_degraded(&mut self, error: &Error) -> u64 {
        count_reason(&mut self.degraded, error)
    }

    fn add_latency(&mut self, stage: Stage, duration: Duration) {
        let slot = &mut self.latencies[stage as usize];
        if slot.is_none() {
            *slot = Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).ok();
        }
        if let Some(histogram) = slot {
            let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            histogram.saturating_record(nanos.clamp(1, MAX_LATENCY_NS));
        }
    }

    fn stages_ms(&self) -> Vec<StageSummary> {
        let milliseconds = |nanos: u64| nanos as f64 / 1e6;
        let summary = |&stage: &Stage| {
            let histogram = self.latencies[stage as usize].as_ref()?;
            Some(StageSummary {
                stage: stage.name(),
                p50: milliseconds(histogram.value_at_quantile(0.50)),
                p95: milliseconds(histogram.value_at_quantile(0.95)),
                p99: milliseconds(histogram.value_at_quantile(0.99)),
                max: milliseconds(histogram.max()),
            })
        };
        Stage::ALL.iter().filter_map(summary).collect()
    }

    fn bytes_per_frame(&self) -> Vec<BytesSummary> {
        let num_frames = self.frames_out.max(1);
        let moved = Stage::ALL.iter().zip(&self.bytes);
        moved
            .filter(|(_, bytes)| bytes.iter().any(|&num| num > 0))
            .map(|(stage, bytes)| {
                let [host_copy, upload, download] = bytes.map(|num| num / num_frames);
                BytesSummary { stage: stage.name(), host_copy, upload, download }
            })
            .collect()
    }
}

fn count_reason(reasons: &mut BTreeMap<&'static str, Dropped>, error: &Error) -> u64 {
    let entry = reasons
        .entry(error.kind().reason())
        .or_insert_with(|| Dropped { count: 0, first: error.to_string() });
    entry.count += 1;
    entry.count
}

/// How reading the recording went.
#[derive(Default, Serialize)]
pub(super) struct ReadSummary {
    /// Messages of the channels' inputs that were read.
    pub(super) num_messages: u64,
    /// Messages of them that the recording says it holds and that could not be
    /// read; `None` when the recording is sound or does not say.
    pub(super) num_lost: Option<u64>,
    /// What is wrong with the recording itself; empty for a sound one.
    pub(super) damage: Vec<String>,
    /// Whether the user stopped the replay before its end.
    pub(super) interrupted: bool,
}

/// `report.json`.
#[derive(Serialize)]
pub(super) struct Report {
    recording: String,
    #[serde(flatten)]
    read: ReadSummary,
    channels: BTreeMap<String, ChannelSummary>,
}

#[derive(Serialize)]
struct ChannelSummary {
    input: String,
    output: String,
    device: String,
    engine: String,
    frames_in: u64,
    frames_out: u64,
    detections: u64,
    dropped: BTreeMap<&'static str, Dropped>,
    /// Frames served without their past sweeps, by reason.
    degraded: BTreeMap<&'static str, Dropped>,
    truncated: BTreeMap<&'static str, u64>,
    stages_ms: Vec<StageSummary>,
    /// What a frame moved, on average; stages that move nothing are left out.
    bytes_per_frame: Vec<BytesSummary>,
}

#[derive(Serialize)]
struct StageSummary {
    stage: &'static str,
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

#[derive(Serialize)]
struct BytesSummary {
    stage: &'static str,
    host_copy: u64,
    upload: u64,
    download: u64,
}

impl Report {
    /// A report without channels yet.
    pub(super) fn new(recording: &Path, read: ReadSummary) -> Self {
        Self { recording: recording.display().to_string(), read, channels: BTreeMap::new() }
    }

    /// Whether the recording itself is damaged.
    pub(super) fn is_damaged(&self) -> bool {
        !self.read.damage.is_empty()
    }

    /// Adds the account of a channel.
    pub(super) fn add_channel(
        &mut self,
        name: &str,
        [input, output, device, engine]: [&str; 4],
        report: &ChannelReport,
    ) {
        let truncated = Count::ALL
            .iter()
            .map(|&count| (count.name(), report.truncated[count as usize]))
            .filter(|&(_, n)| n > 0)
            .collect();
        let summary = ChannelSummary {
            input: input.into(),
            output: output.into(),
            device: device.into(),
            engine: engine.into(),
            frames_in: report.frames_in,
            frames_out: report.frames_out,
            detections: report.num_detections,
            dropped: report.dropped.clone(),
            degraded: report.degraded.clone(),
            truncated,
            stages_ms: report.stages_ms(),
            bytes_per_frame: report.bytes_per_frame(),
        };
        self.channels.insert(name.into(), summary);
    }

    /// The table on the terminal.
    pub(super) fn to_table(&self) -> String {
        let mut table = String::new();
        for (name, channel) in &self.channels {
            let ChannelSummary { input, frames_in, frames_out, detections, .. } = channel;
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "{name}  {input}  {frames_in} in, {frames_out} out, {detections} detections  \
                 ({}, {})",
                channel.device, channel.engine
            );
            for (reason, dropped) in &channel.dropped {
                let _ =
                    writeln!(table, "  dropped {:>6}  {reason}: {}", dropped.count, dropped.first);
            }
            for (reason, degraded) in &channel.degraded {
                let Dropped { count, first } = degraded;
                let _ = writeln!(table, "  alone {count:>8}  {reason}: {first}");
            }
            for (limit, count) in &channel.truncated {
                let _ = writeln!(table, "  lost {count:>9}  {limit}");
            }
            if !channel.stages_ms.is_empty() {
                let _ = writeln!(
                    table,
                    "  {:<16}{:>10}{:>10}{:>10}{:>10}",
                    "stage, ms", "p50", "p95", "p99", "max"
                );
            }
            for StageSummary { stage, p50, p95, p99, max } in &channel.stages_ms {
                let _ =
                    writeln!(table, "  {stage:<16}{p50:>10.3}{p95:>10.3}{p99:>10.3}{max:>10.3}");
            }
            if !channel.bytes_per_frame.is_empty() {
                let [copied, up, down] = Transfer::ALL.map(Transfer::name);
                let _ = writeln!(table, "  {:<16}{copied:>12}{up:>12}{down:>12}", "bytes a frame");
            }
            for BytesSummary { stage, host_copy, upload, download } in &channel.bytes_per_frame {
                let _ = writeln!(table, "  {stage:<16}{host_copy:>12}{upload:>12}{download:>12}");
            }
        }
        for damage in &self.read.damage {
            let _ = writeln!(table, "recording damaged: {damage}");
        }
        if let Some(num_lost) = self.read.num_lost {
            let _ = writeln!(table, "messages lost: {num_lost}");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn every_frame_is_accounted_for() {
        let mut report = ChannelReport::new();
        let mut frame = FrameReport::new();
        frame.add_duration(Stage::Infer, Duration::from_millis(8));
        frame.add_count(Count::PointsNotFinite, 400);
        frame.add_bytes(Stage::Upload, Transfer::HostCopy, 1000);
        report.add_served(&frame, 3);
        let error = Error::new(ErrorKind::Encoding, "image", "encoding \"x\" is not supported");
        assert_eq!(report.add_dropped(&error), 1);
        assert_eq!(report.add_dropped(&error), 2);

        let damage = vec!["cut at byte 9".into()];
        let read = ReadSummary { num_messages: 3, num_lost: Some(4), damage, interrupted: false };
        let mut whole = Report::new(Path::new("drive"), read);
        whole.add_channel("camera", ["/in", "/out", "cpu", "rten"], &report);
        let json = serde_json::to_value(&whole).unwrap();
        let camera = &json["channels"]["camera"];
        assert_eq!(camera["frames_in"], 3);
        assert_eq!(camera["frames_out"], 1);
        assert_eq!(camera["dropped"]["unsupported_encoding"]["count"], 2);
        assert_eq!(camera["truncated"]["points_not_finite"], 400);
        assert_eq!(camera["stages_ms"][0]["stage"], "infer");
        let p50 = camera["stages_ms"][0]["p50"].as_f64().unwrap();
        assert!((p50 - 8.0).abs() < 0.01, "{p50}");
        let moved = camera["bytes_per_frame"].as_array().unwrap();
        assert_eq!(moved.len(), 1);
        assert_eq!((&moved[0]["stage"], &moved[0]["host_copy"]), (&"upload".into(), &1000.into()));

        let table = whole.to_table();
        assert!(table.contains("3 in, 1 out, 3 detections"), "{table}");
        assert!(table.contains("recording damaged: cut at byte 9"), "{table}");
        assert!(table.contains("messages lost: 4"), "{table}");
    }
}
