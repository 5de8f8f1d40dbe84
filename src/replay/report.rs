//! The results of a replay as numbers: `report.json` and a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::slice::Bounds;
use crate::runtime::account::{Account, BytesSummary, LevelSummary, Reason, StageSummary};
use crate::runtime::input::InputTotals;
use crate::runtime::input_times::{InputTimesSummary, PointTotals};
use crate::runtime::spread::SpreadSummary;
use det_post_ops::device::UploadTotals;
use det_post_ros::bag::LogSpan;
use det_post_types::{Count, Stamp, Transfer};

/// How reading the recording went.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReadSummary {
    /// Messages of the channels' inputs that were read.
    pub num_messages: u64,
    /// Messages of them that the recording declares and that were not read; `None` when the
    /// recording is sound and all were read, does not declare how many it holds, or is read in
    /// part.
    pub num_lost: Option<u64>,
    /// What is wrong with the recording itself; empty for a sound one.
    pub damage: Vec<String>,
    /// Whether the replay was stopped before its end.
    pub interrupted: bool,
}

/// The part of a recording that was replayed; `None` for a side without a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SliceSummary {
    /// The first log time, in nanoseconds since the epoch.
    pub from_ns: Option<i64>,
    /// The end, exclusive.
    pub to_ns: Option<i64>,
    /// The log time from which messages were read; frames before `from_ns` are not in the
    /// results. `None`: from the start of the recording.
    pub read_from_ns: Option<i64>,
}

impl SliceSummary {
    /// `None` for a whole recording.
    pub(super) fn of(bounds: &Bounds) -> Option<Self> {
        let Bounds { owned: LogSpan { from, to }, read, .. } = *bounds;
        let [from_ns, to_ns, read_from_ns] =
            [from, to, read.from].map(|time| time.map(Stamp::nanos));
        (from.is_some() || to.is_some()).then_some(Self { from_ns, to_ns, read_from_ns })
    }
}

/// The summary of a replay; its JSON is `report.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Path of the recording.
    pub recording: String,
    /// The part of it that was replayed; `None` for the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<SliceSummary>,
    /// How reading it went.
    #[serde(flatten)]
    pub read: ReadSummary,
    /// How payloads of uncompressed messages reached the GPUs of channels with one input;
    /// `None` where there are none, and at a [`Rate::Factor`](super::Rate::Factor).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploads: Option<UploadTotals>,
    /// The channels by name.
    pub channels: BTreeMap<String, ChannelSummary>,
}

/// The messages of one of several inputs.
#[derive(Clone, Debug, Serialize)]
pub struct InputReport {
    /// Topic of the input.
    pub topic: String,
    /// What became of its messages.
    #[serde(flatten)]
    pub totals: InputTotals,
    /// When those in processed frames were acquired, the frames without one, and their points.
    #[serde(flatten)]
    pub times: InputTimesSummary,
}

/// What became of the frames of one channel.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChannelSummary {
    /// Topics of its inputs, separated by `, `.
    pub input: String,
    /// Topic of its detections.
    pub output: String,
    /// The device that processed the frames; `none` after a failure.
    pub device: String,
    /// The engine that ran the networks; `none` after a failure.
    pub engine: String,
    /// The messages of each input, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputReport>,
    /// Frames of the recording.
    pub frames_in: u64,
    /// Frames that were processed.
    pub frames_out: u64,
    /// Detections in all frames.
    pub detections: u64,
    /// Dropped frames, by [`ErrorKind::reason`](crate::ErrorKind::reason).
    pub dropped: BTreeMap<&'static str, Reason>,
    /// Frames processed without their past sweeps, by reason.
    pub degraded: BTreeMap<&'static str, Reason>,
    /// Processed frames whose stamp is not later than the one before, by how.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stamps: BTreeMap<&'static str, u64>,
    /// What was lost to limits, by [`Count::name`](det_post_types::Count::name).
    pub truncated: BTreeMap<&'static str, u64>,
    /// Compressed images, by what decoded them: `cpu`, or `gpu`, its JPEG engines.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub images_decoded: BTreeMap<&'static str, u64>,
    /// The sites of each level of a sparse encoder, finest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelSummary>,
    /// Durations of the stages.
    pub stages_ms: Vec<StageSummary>,
    /// What a frame moved, on average; stages that move nothing are left out.
    pub bytes_per_frame: Vec<BytesSummary>,
}

impl ChannelSummary {
    /// The numbers of an account, without names.
    pub(super) fn new(account: &Account) -> Self {
        Self {
            frames_in: account.frames_in(),
            frames_out: account.frames_out(),
            detections: account.num_detections(),
            dropped: account.dropped().clone(),
            degraded: account.degraded().clone(),
            stamps: account.stamps().collect(),
            truncated: account.truncated().map(|(count, num)| (count.name(), num)).collect(),
            images_decoded: account.images().map(|(by, num)| (by.name(), num)).collect(),
            levels: account.levels().collect(),
            stages_ms: account.stages_ms(),
            bytes_per_frame: account.bytes_per_frame(),
            ..Self::default()
        }
    }
}

impl Report {
    /// A report without channels yet.
    pub(super) fn new(recording: &Path, read: ReadSummary) -> Self {
        let recording = recording.display().to_string();
        Self { recording, slice: None, read, uploads: None, channels: BTreeMap::new() }
    }

    /// Whether the recording itself is damaged.
    pub fn is_damaged(&self) -> bool {
        !self.read.damage.is_empty()
    }

    /// Whether there were frames and none could be used.
    pub fn is_without_output(&self) -> bool {
        let sum = |of: fn(&ChannelSummary) -> u64| self.channels.values().map(of).sum::<u64>();
        let num_refused = |channel: &ChannelSummary| {
            let refused = channel.inputs.iter().flat_map(|input| input.totals.refused.values());
            channel.frames_in + refused.map(|reason| reason.count).sum::<u64>()
        };
        sum(|channel| channel.frames_out) == 0 && sum(num_refused) > 0
    }

    /// Whether the replay was stopped before its end.
    pub fn is_interrupted(&self) -> bool {
        self.read.interrupted
    }

    /// A table of the numbers for a terminal.
    pub fn to_table(&self) -> String {
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
            for InputReport { topic, totals, times } in &channel.inputs {
                let InputTotals { num_received, num_overtaken, num_unused, refused, .. } = totals;
                let _ = writeln!(
                    table,
                    "  input  {topic}  {num_received} in, {num_overtaken} overtaken, {num_unused} \
                     in no frame"
                );
                for (what, spread) in [("skew", times.skew_ms), ("age", times.age_ms)] {
                    let Some(SpreadSummary { min, median, max }) = spread else { continue };
                    let _ = writeln!(
                        table,
                        "  {what:<5}  {min:.1} to {max:.1} ms, median {median:.1} ms"
                    );
                }
                if times.num_missing > 0 {
                    let _ =
                        writeln!(table, "  missing {:>6}  frames without it", times.num_missing);
                }
                let named = times.points.iter().flat_map(PointTotals::named);
                let named = named.filter(|(_, num)| *num > 0);
                let points: Vec<_> = named.map(|(name, num)| format!("{num} {name}")).collect();
                if !points.is_empty() {
                    let _ = writeln!(table, "  points  {}", points.join(", "));
                }
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
                let _ = writeln!(table, "  degraded {count:>5}  {reason}: {first}");
            }
            for (order, count) in &channel.stamps {
                let _ = writeln!(table, "  stamps {count:>7}  {order}");
            }
            for (limit, count) in &channel.truncated {
                let is_warning = Count::ALL.iter().any(|c| c.name() == *limit && c.is_warning());
                let _ = match is_warning {
                    true => writeln!(table, "  lost {count:>9}  {limit}"),
                    false => writeln!(table, "  counted {count:>6}  {limit} (normal)"),
                };
            }
            for LevelSummary { level, sites_mean, sites_max, .. } in &channel.levels {
                let _ = writeln!(
                    table,
                    "  level {level:>8}  {sites_mean} sites on average, {sites_max} at most"
                );
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
        if let Some(uploads) = &self.uploads {
            let UploadTotals { in_place_bytes, copied_bytes, refused, .. } = uploads;
            let reason = refused.as_deref().map_or(String::new(), |reason| format!(": {reason}"));
            let _ = writeln!(
                table,
                "uploads  {in_place_bytes} bytes from the mapped recording, {copied_bytes} copied \
                 first{reason}"
            );
        }
        for damage in &self.read.damage {
            let _ = writeln!(table, "recording damaged: {damage}");
        }
        // None may be known to be lost because the files do not say how many there were.
        if let Some(num_lost @ 1..) = self.read.num_lost {
            let _ = writeln!(table, "messages lost: {num_lost}");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use det_post_types::{Error, ErrorKind, FrameReport, Stage};

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
        whole.channels.insert("camera".into(), ChannelSummary::new(&account));
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

        assert!(!whole.is_without_output());
        let mut refused = Account::new();
        refused.add_dropped(&error, 3);
        whole.channels.insert("camera_2".into(), ChannelSummary::new(&refused));
        assert!(!whole.is_without_output(), "the other camera has a frame");

        let table = whole.to_table();
        assert!(table.contains("3 in, 1 out, 3 detections"), "{table}");
        assert!(table.contains("counted    400  points_not_finite (normal)"), "{table}");
        assert!(table.contains("recording damaged: cut at byte 9"), "{table}");
        assert!(table.contains("messages lost: 4"), "{table}");
        whole.channels.remove("camera");
        assert!(whole.is_without_output());
        whole.channels.clear();
        assert!(!whole.is_without_output(), "there were no frames");
    }
}
