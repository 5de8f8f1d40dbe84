//! The account of a channel: counters of its frames, and its latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::input_times::{InputTimes, InputTimesSummary};
use super::stamps::StampOrder;
use crate::detectors::FrameInput;
use det_post_types::{Count, Error, FrameReport, LevelCounts};
use det_post_types::{ImageDecoder, Stage, Stamp, Transfer};

/// Latencies are kept from 1 ns to an hour, to 1 part in 1000.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// Counters and latencies of the frames of one channel.
#[derive(Default)]
pub struct Account {
    frames_in: u64,
    frames_out: u64,
    num_detections: u64,
    dropped: BTreeMap<&'static str, Reason>,
    degraded: BTreeMap<&'static str, Reason>,
    stamps: [u64; StampOrder::ALL.len()],
    truncated: [u64; Count::ALL.len()],
    latencies: [Option<Histogram<u64>>; Stage::ALL.len()],
    bytes: [[u64; Transfer::ALL.len()]; Stage::ALL.len()],
    images: [u64; ImageDecoder::ALL.len()],
    levels: [LevelTotals; FrameReport::MAX_LEVELS],
    num_levels: usize,
    /// The times of each of several inputs.
    inputs: Vec<InputTimes>,
}

/// Frames or messages with one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Their number.
    pub count: u64,
    /// The message of the first.
    pub first: String,
}

/// Latencies of one stage in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StageSummary {
    /// Name of the stage.
    pub stage: &'static str,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

/// Bytes that one stage copies per frame, on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BytesSummary {
    /// Name of the stage.
    pub stage: &'static str,
    /// Within the host.
    pub host_copy: u64,
    /// To the device.
    pub upload: u64,
    /// From the device.
    pub download: u64,
}

/// A level of a sparse encoder in all frames.
#[derive(Clone, Copy, Debug, Default)]
struct LevelTotals {
    /// The sums of all frames.
    sums: LevelCounts,
    max_sites: u64,
}

/// The sites of a level of a sparse encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelSummary {
    /// Index of the level; 0 has the voxels.
    pub level: usize,
    /// Sites of a frame, on average.
    pub sites_mean: u64,
    /// Sites of the frame that has most.
    pub sites_max: u64,
    /// Sites of all frames beyond the capacity of the level.
    pub over_capacity: u64,
    /// Sites of the level before, of all frames, that the convolution to this level does not
    /// cover.
    pub inputs_without_output: u64,
}

impl Account {
    /// An account without frames.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of frames received.
    pub fn frames_in(&self) -> u64 {
        self.frames_in
    }

    /// Number of frames processed.
    pub fn frames_out(&self) -> u64 {
        self.frames_out
    }

    /// Number of detections in all frames.
    pub fn num_detections(&self) -> u64 {
        self.num_detections
    }

    /// Dropped frames, by [`crate::ErrorKind::reason`].
    pub fn dropped(&self) -> &BTreeMap<&'static str, Reason> {
        &self.dropped
    }

    /// Frames that were processed without their past sweeps, by reason.
    pub fn degraded(&self) -> &BTreeMap<&'static str, Reason> {
        &self.degraded
    }

    /// Items that limits dropped, by counter.
    pub fn truncated(&self) -> impl Iterator<Item = (Count, u64)> {
        let counts = Count::ALL.iter().map(|&count| (count, self.truncated[count as usize]));
        counts.filter(|&(_, num)| num > 0)
    }

    /// Compressed images of processed frames, by what decoded them.
    pub fn images(&self) -> impl Iterator<Item = (ImageDecoder, u64)> {
        ImageDecoder::ALL.into_iter().zip(self.images).filter(|&(_, num)| num > 0)
    }

    /// Processed frames whose stamp did not rise, by order.
    pub fn stamps(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let orders = StampOrder::ALL.iter().map(|&o| (o, self.stamps[o as usize]));
        let orders = orders.filter(|&(o, num)| o != StampOrder::Rising && num > 0);
        orders.map(|(o, num)| (o.name(), num))
    }

    /// Adds a processed frame.
    pub fn add_served(&mut self, frame: &FrameReport, num_detections: usize) {
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
        add_all(&mut self.images, &ImageDecoder::ALL.map(|decoder| frame.images(decoder)));
        for (level, counts) in self.levels.iter_mut().zip(frame.levels()) {
            level.add(counts, counts.num_sites);
        }
        self.num_levels = self.num_levels.max(frame.levels().len());
    }

    /// Adds the stamps of the inputs of a processed frame, if there are several. `now` is the
    /// time of its processing, if it is known.
    pub fn add_times(
        &mut self,
        stamp: Stamp,
        inputs: &[Option<FrameInput<'_>>],
        now: Option<Stamp>,
    ) {
        if inputs.len() < 2 {
            return;
        }
        if self.inputs.len() < inputs.len() {
            self.inputs.resize_with(inputs.len(), InputTimes::default);
        }
        for (times, input) in self.inputs.iter_mut().zip(inputs) {
            times.add(stamp, input.as_ref().map(|input| input.header.stamp), now);
        }
    }

    /// Adds the points of the clouds of a processed frame, if it has several inputs.
    pub fn add_clouds(&mut self, frame: &FrameReport) {
        for (times, cloud) in self.inputs.iter_mut().zip(frame.clouds()) {
            times.add_cloud(cloud);
        }
    }

    /// The stamps of one of several inputs, the frames without it, and its points.
    pub fn times_of(&self, input: usize) -> InputTimesSummary {
        self.inputs.get(input).map(InputTimes::summary).unwrap_or_default()
    }

    /// Adds frames dropped for one reason. Returns the number of frames with that reason.
    pub fn add_dropped(&mut self, error: &Error, num: u64) -> u64 {
        self.frames_in += num;
        count_reason(&mut self.dropped, error, num)
    }

    /// Adds frames that were replaced by newer ones before they were processed.
    pub fn add_overtaken(&mut self, num: u64) {
        self.add_unprocessed("overtaken", "a newer message came before its turn", num);
    }

    /// Adds frames that waited when the channel was stopped.
    pub fn add_abandoned(&mut self, num: u64) {
        self.add_unprocessed("abandoned", "the channel was stopped before its turn", num);
    }

    fn add_unprocessed(&mut self, key: &'static str, first: &str, num: u64) {
        if num > 0 {
            self.frames_in += num;
            let new = || Reason { count: 0, first: first.into() };
            self.dropped.entry(key).or_insert_with(new).count += num;
        }
    }

    /// Adds a frame that is processed without its past sweeps. Returns the number of frames
    /// with that reason.
    pub fn add_degraded(&mut self, error: &Error) -> u64 {
        count_reason(&mut self.degraded, error, 1)
    }

    /// Adds the order of a frame's stamp. Returns the number of frames of that order.
    pub fn add_stamp(&mut self, order: StampOrder) -> u64 {
        self.stamps[order as usize] += 1;
        self.stamps[order as usize]
    }

    /// Adds another account of the same channel.
    pub fn merge(&mut self, other: &Self) {
        self.frames_in += other.frames_in;
        self.frames_out += other.frames_out;
        self.num_detections += other.num_detections;
        merge_reasons(&mut self.dropped, &other.dropped);
        merge_reasons(&mut self.degraded, &other.degraded);
        add_all(&mut self.stamps, &other.stamps);
        add_all(&mut self.truncated, &other.truncated);
        add_all(&mut self.images, &other.images);
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => {
                    // The bounds are equal, so that all values are within them.
                    let _ = mine.add(theirs);
                }
                (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
                (_, None) => {}
            }
        }
        if self.inputs.len() < other.inputs.len() {
            self.inputs.resize_with(other.inputs.len(), InputTimes::default);
        }
        for (mine, theirs) in self.inputs.iter_mut().zip(&other.inputs) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.bytes.iter_mut().zip(&other.bytes) {
            add_all(mine, theirs);
        }
        for (mine, theirs) in self.levels.iter_mut().zip(&other.levels) {
            mine.add(&theirs.sums, theirs.max_sites);
        }
        self.num_levels = self.num_levels.max(other.num_levels);
    }

    /// Clears the account; keeps the memory.
    pub fn reset(&mut self) {
        let mut latencies = std::mem::replace(&mut self.latencies, std::array::from_fn(|_| None));
        latencies.iter_mut().flatten().for_each(Histogram::reset);
        let mut inputs = std::mem::take(&mut self.inputs);
        inputs.iter_mut().for_each(InputTimes::reset);
        *self = Self { latencies, inputs, ..Self::new() };
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

    /// Latencies of every stage that ran, in their order.
    pub fn stages_ms(&self) -> Vec<StageSummary> {
        let milliseconds = |nanos: u64| nanos as f64 / 1e6;
        let summary = |&stage: &Stage| {
            let histogram = self.latencies(stage)?;
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

    /// Latencies of a stage in nanoseconds; `None` for one that did not run.
    pub(super) fn latencies(&self, stage: Stage) -> Option<&Histogram<u64>> {
        self.latencies[stage as usize].as_ref().filter(|histogram| !histogram.is_empty())
    }

    /// Bytes that a stage copied in all frames.
    pub fn bytes(&self, stage: Stage, transfer: Transfer) -> u64 {
        self.bytes[stage as usize][transfer as usize]
    }

    /// The levels of a sparse encoder, finest first; none without one.
    pub fn levels(&self) -> impl Iterator<Item = LevelSummary> {
        let levels = self.levels[..self.num_levels].iter().enumerate();
        levels.map(|(level, LevelTotals { sums, max_sites })| LevelSummary {
            level,
            sites_mean: sums.num_sites / self.frames_out.max(1),
            sites_max: *max_sites,
            over_capacity: sums.num_over_capacity,
            inputs_without_output: sums.num_inputs_without_output,
        })
    }

    /// Bytes that stages copy per frame, on average; stages without copies are left out.
    pub fn bytes_per_frame(&self) -> Vec<BytesSummary> {
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

impl LevelTotals {
    fn add(&mut self, counts: &LevelCounts, max_sites: u64) {
        self.sums.num_sites += counts.num_sites;
        self.sums.num_over_capacity += counts.num_over_capacity;
        self.sums.num_inputs_without_output += counts.num_inputs_without_output;
        self.max_sites = self.max_sites.max(max_sites);
    }
}

fn count_reason(reasons: &mut BTreeMap<&'static str, Reason>, error: &Error, num: u64) -> u64 {
    let entry = reasons
        .entry(error.kind().reason())
        .or_insert_with(|| Reason { count: 0, first: error.to_string() });
    entry.count += num;
    entry.count
}

fn merge_reasons(
    reasons: &mut BTreeMap<&'static str, Reason>,
    others: &BTreeMap<&'static str, Reason>,
) {
    for (name, Reason { count, first }) in others {
        let entry =
            reasons.entry(name).or_insert_with(|| Reason { count: 0, first: first.clone() });
        entry.count += count;
    }
}

fn add_all<const N: usize>(sums: &mut [u64; N], others: &[u64; N]) {
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::ErrorKind;

    fn served(milliseconds: u64) -> Account {
        let mut frame = FrameReport::new();
        frame.add_duration(Stage::Infer, Duration::from_millis(milliseconds));
        frame.add_count(Count::PointsNotFinite, 2);
        for num_sites in [10 * milliseconds, milliseconds] {
            frame.add_level(LevelCounts {
                num_sites,
                num_over_capacity: 1,
                num_inputs_without_output: 3,
            });
        }
        let mut account = Account::new();
        account.add_served(&frame, 3);
        account.add_stamp(StampOrder::Equal);
        account.add_dropped(&Error::new(ErrorKind::Layout, "image", "too short"), 1);
        account
    }

    #[test]
    fn windows_add_up_to_the_whole() {
        let mut whole = Account::new();
        let mut window = served(2);
        whole.merge(&window);
        window.reset();
        assert_eq!((window.frames_in(), window.stages_ms().len()), (0, 0));
        whole.merge(&served(8));
        assert_eq!((whole.frames_in(), whole.frames_out(), whole.num_detections()), (4, 2, 6));
        assert_eq!(whole.dropped()["inconsistent_layout"].count, 2);
        whole.add_overtaken(0);
        assert_eq!((whole.frames_in(), whole.dropped().len()), (4, 1));
        whole.add_overtaken(3);
        assert_eq!((whole.frames_in(), whole.dropped()["overtaken"].count), (7, 3));
        assert_eq!(
            whole.truncated().collect::<Vec<_>>(),
            [
                (Count::PointsNotFinite, 4),
                (Count::SitesOverCapacity, 4),
                (Count::SitesWithoutOutput, 12)
            ]
        );
        let coarse = LevelSummary {
            level: 1,
            sites_mean: 5,
            sites_max: 8,
            over_capacity: 2,
            inputs_without_output: 6,
        };
        assert_eq!(whole.levels().nth(1), Some(coarse));
        assert_eq!((whole.levels().count(), window.levels().count()), (2, 0));
        assert_eq!(whole.stamps().collect::<Vec<_>>(), [("equal", 2)]);
        let infer = whole.stages_ms()[0];
        assert!((infer.p50 - 2.0).abs() < 0.01 && (infer.max - 8.0).abs() < 0.01, "{infer:?}");
    }
}
