//! What a replay did, as numbers: `report.json` and the table on the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::runtime::account::{Account, BytesSummary, Reason, StageSummary};
use crate::runtime::input::InputTotals;
use crate::types::Transfer;

/// How reading the recording went.
#[derive(Default, Serialize)]
pub(crate) struct ReadSummary {
    /// Messages of the channels' inputs that were read.
    pub(crate) num_messages: u64,
    /// Messages of them that the recording says it holds and that could not be
    /// read; `None` when the recording is sound or does not say.
    pub(crate) num_lost: Option<u64>,
    /// What is wrong with the recording itself; empty for a sound one.
    pub(crate) damage: Vec<String>,
    /// Whether the user stopped the replay before its end.
    pub(crate) interrupted: bool,
}

/// `report.json`.
#[derive(Serialize)]
pub(crate) struct Report {
    recording: String,
    #[serde(flatten)]
    read: ReadSummary,
    channels: BTreeMap<String, ChannelSummary>,
}

/// Where a channel's messages come from and go to, and what processes them.
pub(crate) struct ChannelNames {
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) device: String,
    pub(crate) engine: String,
}

/// The messages of one of several inputs.
#[derive(Serialize)]
pub(crate) struct InputReport {
    pub(crate) topic: String,
    #[serde(flatten)]
    pub(crate) totals: InputTotals,
}

#[derive(Serialize)]
struct ChannelSummary {
    input: String,
    output: String,
    device: String,
    engine: String,
    /// The messages of each input, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<InputReport>,
    frames_in: u64,
    frames_out: u64,
    detections: u64,
    dropped: BTreeMap<&'static str, Reason>,
    /// Frames served without their past sweeps, by reason.
    degraded: BTreeMap<&'static str, Reason>,
    /// Frames whose stamp did not rise, by how; they are served all the same.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stamps: BTreeMap<&'static str, u64>,
    truncated: BTreeMap<&'static str, u64>,
    stages_ms: Vec<StageSummary>,
    /// What a frame moved, on average; stages that move nothing are left out.
    bytes_per_frame: Vec<BytesSummary>,
}

impl Report {
    /// A report without channels yet.
    pub(crate) fn new(recording: &Path, read: ReadSummary) -> Self {
        Self { recording: recording.display().to_string(), read, channels: BTreeMap::new() }
    }

    /// Whether the recording itself is damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        !self.read.damage.is_empty()
    }

    /// Whether a signal ended the replay before its end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.read.interrupted
    }

    /// Adds the account of a channel.
    pub(crate) fn add_channel(
        &mut self,
        name: &str,
        names: ChannelNames,
        inputs: Vec<InputReport>,
        account: &Account,
    ) {
        let ChannelNames { input, output, device, engine } = names;
        let summary = ChannelSummary {
            input,
            output,
            device,
            engine,
            inputs,
            frames_in: account.frames_in(),
            frames_out: account.frames_out(),
            detections: account.num_detections(),
            dropped: account.dropped().clone(),
            degraded: account.degraded().clone(),
            stamps: account.stamps().collect(),
            truncated: account.truncated().map(|(count, num)| (count.name(), num)).collect(),
            stages_ms: account.stages_ms(),
            bytes_per_frame: account.bytes_per_frame(),
        };
        self.channels.insert(name.into(), summary);
    }

    /// The table on the terminal.
    pub(crate) fn to_table(&self) -> String {
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
            for InputReport { topic, totals } in &channel.inputs {
                let InputTotals { num_received, num_overtaken, num_unused, refused, .. } = totals;
                let _ = writeln!(
                    table,
                    "  input  {topic}  {num_received} in, {num_overtaken} overtaken, {num_unused} \
                     in no frame"
                );
                for (reason, Reason { count, first }) in refused {
                    let _ = writeln!(table, "  refused {count:>6}  {reason}: {first}");
                }
            }
            for (reason, dropped) in &channel.dropped {
                let _ =
                    writeln!(table, "  dropped {:>6}  {reason}: {}", dropped.count, dropped.first);
            }
            for (reason, degraded) in &channel.degraded {
                let Reason { count, first } = degraded;
                let _ = writeln!(table, "  alone {count:>8}  {reason}: {first}");
            }
            for (order, count) in &channel.stamps {
                let _ = writeln!(table, "  stamps {count:>7}  {order}");
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
    use std::time::Duration;

    use crate::error::{Error, ErrorKind};
    use crate::types::{Count, FrameReport, Stage};

    #[test]
    fn every_frame_is_accounted_for() {
        let mut account = Account::new();
        let mut frame = FrameReport::new();
        frame.add_duration(Stage::Infer, Duration::from_millis(8));
        frame.add_count(Count::PointsNotFinite, 400);
        frame.add_bytes(Stage::Upload, Transfer::HostCopy, 1000);
        account.add_served(&frame, 3);
        let error = Error::new(ErrorKind::Encoding, "image", "encoding \"x\" is not supported");
        assert_eq!(account.add_dropped(&error, 1), 1);
        assert_eq!(account.add_dropped(&error, 1), 2);

        let damage = vec!["cut at byte 9".into()];
        let read = ReadSummary { num_messages: 3, num_lost: Some(4), damage, interrupted: false };
        let mut whole = Report::new(Path::new("drive"), read);
        let [input, output, device, engine] = ["/in", "/out", "cpu", "rten"].map(String::from);
        let names = ChannelNames { input, output, device, engine };
        whole.add_channel("camera", names, Vec::new(), &account);
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
