//! Totals of channels as text for Prometheus, in its text format 0.0.4. `docs/metrics.md` lists
//! the metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::account::{Account, Reason};
use super::input::InputTotals;
use det_post_types::{Stage, Transfer};

/// The first line of the text.
pub(crate) const MARK: &str = "# Metrics of det_post";

/// Upper bounds of the buckets of durations, in seconds.
const BOUNDS_S: [f64; 13] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// The totals of a channel.
pub(crate) struct ChannelMetrics<'a> {
    pub(crate) name: &'a str,
    pub(crate) account: &'a Account,
    /// Messages by topic, where they are counted apart from frames.
    pub(crate) inputs: Vec<(&'a str, &'a InputTotals)>,
}

/// The metrics of all channels.
pub(crate) fn to_prometheus(channels: &[ChannelMetrics<'_>]) -> String {
    let mut text = Text(format!("{MARK}\n"));
    text.family("info", "gauge", "Version of the program.");
    text.sample("info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    frames(&mut text, channels);
    messages(&mut text, channels);
    durations(&mut text, channels);
    text.0
}

fn frames(text: &mut Text, channels: &[ChannelMetrics<'_>]) {
    type Total = fn(&Account) -> u64;
    let totals: [(&str, &str, Total); 3] = [
        ("frames_received_total", "Frames that were processed or dropped.", Account::frames_in),
        ("frames_processed_total", "Frames with detections, be it none.", Account::frames_out),
        ("detections_total", "Detections in processed frames.", Account::num_detections),
    ];
    for (name, help, total) in totals {
        text.family(name, "counter", help);
        for channel in channels {
            text.sample(name, &[("channel", channel.name)], total(channel.account));
        }
    }
    type Reasons = fn(&Account) -> &BTreeMap<&'static str, Reason>;
    let by_reason: [(&str, &str, Reasons); 2] = [
        ("frames_dropped_total", "Frames that could not be processed.", Account::dropped),
        ("frames_degraded_total", "Sweeps processed without past ones.", Account::degraded),
    ];
    for (name, help, reasons) in by_reason {
        text.family(name, "counter", help);
        for channel in channels {
            for (reason, Reason { count, .. }) in reasons(channel.account) {
                text.sample(name, &[("channel", channel.name), ("reason", reason)], *count);
            }
        }
    }
    let name = "losses_total";
    text.family(name, "counter", "What limits dropped, and unexpected data, by kind.");
    for channel in channels {
        for (count, num) in channel.account.truncated() {
            text.sample(name, &[("channel", channel.name), ("kind", count.name())], num);
        }
    }
    let name = "copied_bytes_total";
    text.family(name, "counter", "Bytes that stages copied.");
    for channel in channels {
        for stage in Stage::ALL {
            for transfer in Transfer::ALL {
                let num = channel.account.bytes(stage, transfer);
                let labels = [
                    ("channel", channel.name),
                    ("stage", stage.name()),
                    ("direction", transfer.name()),
                ];
                if num > 0 {
                    text.sample(name, &labels, num);
                }
            }
        }
    }
}

fn messages(text: &mut Text, channels: &[ChannelMetrics<'_>]) {
    type Total = fn(&InputTotals) -> u64;
    let totals: [(&str, &str, Total); 3] = [
        ("messages_received_total", "Messages that were accepted.", |of| of.num_received),
        ("messages_overtaken_total", "Messages that a newer one replaced.", |of| of.num_overtaken),
        ("messages_unused_total", "Messages of no frame.", |of| of.num_unused),
    ];
    for (name, help, total) in totals {
        text.family(name, "counter", help);
        for channel in channels {
            for (topic, totals) in &channel.inputs {
                let labels = [("channel", channel.name), ("topic", topic)];
                text.sample(name, &labels, total(totals));
            }
        }
    }
    let name = "messages_refused_total";
    text.family(name, "counter", "Messages that could not be used.");
    for channel in channels {
        for (topic, totals) in &channel.inputs {
            for (reason, Reason { count, .. }) in &totals.refused {
                let labels = [("channel", channel.name), ("topic", topic), ("reason", reason)];
                text.sample(name, &labels, *count);
            }
        }
    }
}

fn durations(text: &mut Text, channels: &[ChannelMetrics<'_>]) {
    let name = "stage_duration_seconds";
    text.family(name, "histogram", "Duration of a stage of a frame; the stage total is all of it.");
    for channel in channels {
        for stage in Stage::ALL {
            let Some(histogram) = channel.account.latencies(stage) else { continue };
            let (mut cumulative, mut sum_s) = ([0; BOUNDS_S.len()], 0.0);
            for recorded in histogram.iter_recorded() {
                let (num, seconds) =
                    (recorded.count_at_value(), recorded.value_iterated_to() as f64 / 1e9);
                sum_s += num as f64 * seconds;
                let buckets = BOUNDS_S.iter().zip(&mut cumulative);
                buckets.filter(|(bound, _)| seconds <= **bound).for_each(|(_, sum)| *sum += num);
            }
            let count = histogram.len();
            let labels = [("channel", channel.name), ("stage", stage.name())];
            let bucket = "stage_duration_seconds_bucket";
            for (bound, num) in BOUNDS_S.iter().zip(cumulative) {
                let bound = bound.to_string();
                text.sample(bucket, &[&labels[..], &[("le", &bound)]].concat(), num);
            }
            text.sample(bucket, &[&labels[..], &[("le", "+Inf")]].concat(), count);
            text.sample("stage_duration_seconds_sum", &labels, sum_s);
            text.sample("stage_duration_seconds_count", &labels, count);
        }
    }
}

/// Metrics as they are written.
struct Text(String);

impl Text {
    /// Begins a metric.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "# HELP det_post_{name} {help}\n# TYPE det_post_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let escaped =
            |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.0, "det_post_{name}{{{}}} {value}", labels.join(","));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use det_post_types::{Count, Error, ErrorKind, FrameReport};

    #[test]
    fn every_total_is_a_sample_of_its_metric() {
        let mut account = Account::new();
        for milliseconds in [1, 8, 7000] {
            let mut frame = FrameReport::new();
            frame.add_duration(Stage::Total, Duration::from_millis(milliseconds));
            frame.add_bytes(Stage::Upload, Transfer::Upload, 1000);
            frame.add_count(Count::PointsNotFinite, 2);
            account.add_served(&frame, 4);
        }
        account.add_dropped(&Error::new(ErrorKind::Layout, "image", "too short"), 2);
        let mut totals = InputTotals { num_received: 5, num_overtaken: 1, ..Default::default() };
        totals.add_refused(&Error::new(ErrorKind::Message, "cdr", "cut"));
        let channels = [ChannelMetrics {
            name: "front \"left\"\\",
            account: &account,
            inputs: vec![("/image", &totals)],
        }];
        let text = to_prometheus(&channels);
        let channel = "channel=\"front \\\"left\\\"\\\\\"";
        for line in [
            format!("det_post_frames_received_total{{{channel}}} 5"),
            format!("det_post_frames_processed_total{{{channel}}} 3"),
            format!("det_post_frames_dropped_total{{{channel},reason=\"inconsistent_layout\"}} 2"),
            format!("det_post_detections_total{{{channel}}} 12"),
            format!("det_post_losses_total{{{channel},kind=\"points_not_finite\"}} 6"),
            format!(
                "det_post_copied_bytes_total{{{channel},stage=\"upload\",direction=\"upload\"}} \
                 3000"
            ),
            format!("det_post_messages_received_total{{{channel},topic=\"/image\"}} 5"),
            format!(
                "det_post_messages_refused_total{{{channel},topic=\"/image\",\
                 reason=\"malformed_message\"}} 1"
            ),
            format!(
                "det_post_stage_duration_seconds_bucket{{{channel},stage=\"total\",le=\"0.0005\"}} \
                 0"
            ),
            format!(
                "det_post_stage_duration_seconds_bucket{{{channel},stage=\"total\",le=\"0.01\"}} 2"
            ),
            format!(
                "det_post_stage_duration_seconds_bucket{{{channel},stage=\"total\",le=\"+Inf\"}} 3"
            ),
            format!("det_post_stage_duration_seconds_count{{{channel},stage=\"total\"}} 3"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        let sum = text.lines().find(|line| line.contains("seconds_sum")).unwrap();
        let sum: f64 = sum.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((sum - 7.009).abs() < 0.01, "{sum}");
        // A metric stands together, below its help and its type.
        let mut families: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('{').next().unwrap())
            .collect();
        families.dedup();
        let mut unique = families.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(families.len(), unique.len(), "{families:?}");
    }
}
