//! The health of a live node: pure functions from counts to diagnostic statuses.
//!
//! | status | WARN | ERROR |
//! |---|---|---|
//! | `NODE: node` | not active; incompatible peers | a transition failed; a part of the middleware is lost |
//! | `NODE: CHANNEL: input` (`input N` of several) | silent for `gap_warn_s`; below `min_rate_hz`; messages refused, or missing by their stamps; frames processed without it | silent for `gap_error_s` |
//! | `NODE: CHANNEL: camera_info` (`camera_info N`) | none for `gap_warn_s`; another size or frame than the images; not calibrated; messages refused | |
//! | `NODE: CHANNEL: frames` | frames dropped or degraded; a capacity met; scores above 1 or NaN; invalid boxes; unknown classes; stamps that do not rise | all frames dropped; input, but no output for `gap_error_s`; the thread has ended |
//! | `NODE: CHANNEL: latency` | 99th percentile over `latency_budget_ms` | |
//! | `NODE: CHANNEL: device` | it failed and is built again; the CPU replaces it | it failed too often, or is lost: frames are dropped |

use std::time::{Duration, Instant};

use super::calibration::CalibrationHealth;
use super::frame_window::{FrameSummary, FrameWindow};
use super::status::{BUFFERS, StatusBuilder, TopicStatus, cause_of_silence};
use crate::config::{ChannelConfig, ChannelKind};
use crate::runtime::account::{LevelSummary, Reason};
use crate::runtime::input::InputSummary;
use crate::runtime::input_times::PointTotals;
use crate::runtime::serving::Serving;
use crate::runtime::spread::SpreadSummary;
use crate::runtime::supervisor::Health;
use det_post_ros::messages::{DiagnosticLevel, DiagnosticStatus};

/// The state of a channel since the last summary.
pub struct ChannelHealth<'a> {
    /// The node: prefix of the names of statuses.
    pub node: &'a str,
    /// The present configuration.
    pub config: &'a ChannelConfig,
    /// Number of failures of its device since the last summary.
    pub num_failures_now: u64,
    /// Whether the inputs are subscribed.
    pub is_active: bool,
    /// Whether the thread of the channel has ended unexpectedly.
    pub is_dead: bool,
    /// The inputs since the last summary.
    pub inputs: Vec<InputHealth<'a>>,
    /// The frames since the last summary.
    pub window: &'a FrameWindow,
    /// Totals of the frames.
    pub frames: &'a FrameSummary,
}

/// The state of an input since the last summary.
pub struct InputHealth<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Number of matched publishers.
    pub num_publishers: usize,
    /// Its status in the graph.
    pub status: TopicStatus<'a>,
    /// The CameraInfo of the camera, if it is subscribed.
    pub calibration: Option<CalibrationHealth<'a>>,
    /// Its messages since the last summary.
    pub summary: &'a InputSummary,
}

impl ChannelHealth<'_> {
    /// All statuses of the channel.
    pub fn statuses(&self, now: Instant) -> Vec<DiagnosticStatus> {
        let inputs = self.inputs.iter().enumerate();
        let mut statuses: Vec<_> =
            inputs.clone().map(|(index, input)| self.input(index, input)).collect();
        statuses.extend([self.frames(now), self.latency(), self.device()]);
        statuses.extend(inputs.filter_map(|(index, input)| {
            let status = self.status(&self.part("camera_info", index));
            input.calibration.as_ref().map(|of| of.complete(status, &self.config.live))
        }));
        statuses
    }

    /// The name of a part of an input, numbered if there are several inputs.
    fn part(&self, part: &str, index: usize) -> String {
        if self.inputs.len() == 1 { part.to_owned() } else { format!("{part} {index}") }
    }

    /// The messages of the reference input.
    fn reference(&self) -> Option<&InputSummary> {
        self.inputs.get(self.config.sync.reference).map(|input| input.summary)
    }

    fn status(&self, part: &str) -> StatusBuilder {
        let name = format!("{}: {}: {part}", self.node, self.config.name);
        StatusBuilder::new(name, &self.frames.serving.device)
    }

    fn input(&self, index: usize, health: &InputHealth<'_>) -> DiagnosticStatus {
        let live = &self.config.live;
        let InputHealth { topic, num_publishers, status: topic_status, summary: input, .. } =
            health;
        let totals = &input.totals;
        let mut status = self.status(&self.part("input", index));
        if self.is_active {
            let silence = input.silence.as_secs_f64();
            let cause = cause_of_silence(*num_publishers, topic_status);
            let what = if totals.num_received == 0 { "no message yet" } else { "no message" };
            let message = format!("{what} for {silence:.1} s: {cause}");
            if input.silence >= live.gap_error {
                status.note(DiagnosticLevel::Error, &message);
            } else if input.silence >= live.gap_warn {
                status.note(DiagnosticLevel::Warn, &message);
            }
            status.note_refused(input);
            if topic_status.num_missing_now > 0 {
                let message = format!(
                    "{} messages missing by their stamps: lost on the way, or never published; {BUFFERS}",
                    topic_status.num_missing_now
                );
                status.note(DiagnosticLevel::Warn, &message);
            }
            let num_missing = self.window.account.times_of(index).num_missing;
            if num_missing > 0 {
                let message = format!("{num_missing} frames processed without it");
                status.note(DiagnosticLevel::Warn, &message);
            }
            if input.rate_hz < live.min_rate_hz {
                let message = format!(
                    "{:.1} Hz, at least {:.1} Hz expected",
                    input.rate_hz, live.min_rate_hz
                );
                status.note(DiagnosticLevel::Warn, &message);
            }
            status.otherwise(format!("{:.1} Hz", input.rate_hz));
        } else {
            status.otherwise("the node is not active".into());
        }
        status.value("topic", *topic);
        status.value("publishers", num_publishers.to_string());
        status.value("rate_hz", format!("{:.2}", input.rate_hz));
        status.value("silence_s", format!("{:.3}", input.silence.as_secs_f64()));
        status.value("longest_gap_s", format!("{:.3}", input.longest_gap.as_secs_f64()));
        let age = self.window.age_s.map_or("unknown".into(), |age| format!("{age:.4}"));
        status.value("stamp_age_s", age);
        status.value("received", totals.num_received.to_string());
        status.value("overtaken", totals.num_overtaken.to_string());
        if self.inputs.len() > 1 {
            status.value("state", input_state(health, live.gap_warn));
            status.value("unused", totals.num_unused.to_string());
            let times = self.window.account.times_of(index);
            status.value("missing", times.num_missing.to_string());
            for (name, num) in times.points.iter().flat_map(PointTotals::named) {
                status.value(&format!("points_{name}"), num.to_string());
            }
            for (what, spread) in [("skew", times.skew_ms), ("age", times.age_ms)] {
                let Some(SpreadSummary { min, median, max }) = spread else { continue };
                for (part, ms) in [("min", min), ("median", median), ("max", max)] {
                    status.value(&format!("{what}_{part}_ms"), format!("{ms:.3}"));
                }
            }
        }
        status.value("abandoned", totals.num_abandoned.to_string());
        topic_status.add_losses(&mut status);
        status.reasons("refused", &totals.refused);
        status.into_inner()
    }

    fn frames(&self, now: Instant) -> DiagnosticStatus {
        let account = &self.window.account;
        let mut status = self.status("frames");
        self.add_output_problems(&mut status);
        let none_out = account.frames_out() == 0;
        let dropped = if none_out { DiagnosticLevel::Error } else { DiagnosticLevel::Warn };
        for (level, what, reasons) in [
            (dropped, "dropped", account.dropped()),
            (DiagnosticLevel::Warn, "degraded (no past sweeps or motion)", account.degraded()),
        ] {
            for (name, Reason { count, first }) in reasons {
                status.note(level, &format!("{count} frames {what}: {name}: {first}"));
            }
        }
        let overtaken = self.reference().map_or(0, |input| input.num_overtaken_now);
        if overtaken > 0 {
            let message = format!("{overtaken} frames superseded by a newer frame");
            status.note(DiagnosticLevel::Warn, &message);
        }
        for (count, num) in account.truncated().filter(|(count, _)| count.is_warning()) {
            status.note(DiagnosticLevel::Warn, &format!("{num} {}", count.name()));
        }
        for (order, num) in account.stamps() {
            status.note(DiagnosticLevel::Warn, &format!("{num} stamps {order}"));
        }
        if self.window.num_future > 0 {
            let message = format!("{} stamps in the future", self.window.num_future);
            status.note(DiagnosticLevel::Warn, &message);
        }
        let num = account.frames_out();
        status.otherwise(format!("{num} frames, {} detections", account.num_detections()));

        let since = self.frames.last_output.map(|at| now.saturating_duration_since(at));
        let since = since.map_or("never".into(), |since| format!("{:.3}", since.as_secs_f64()));
        status.value("since_output_s", since);
        status.value("frames_in", account.frames_in().to_string());
        status.value("frames_out", num.to_string());
        status.value("frames_out_total", self.frames.num_out.to_string());
        status.value("detections", account.num_detections().to_string());
        status.value("skipped", self.window.num_skipped.to_string());
        status.reasons("dropped", account.dropped());
        status.reasons("degraded", account.degraded());
        account.truncated().for_each(|(count, num)| status.value(count.name(), num.to_string()));
        for (by, num) in account.images() {
            status.value(&format!("images_decoded_{}", by.name()), num.to_string());
        }
        for LevelSummary { level, sites_mean, sites_max, .. } in account.levels() {
            status.value(&format!("level_{level}_sites_mean"), sites_mean.to_string());
            status.value(&format!("level_{level}_sites_max"), sites_max.to_string());
        }
        account
            .stamps()
            .for_each(|(order, num)| status.value(&format!("stamps_{order}"), num.to_string()));
        status.into_inner()
    }

    fn add_output_problems(&self, status: &mut StatusBuilder) {
        if self.is_dead {
            status.note(DiagnosticLevel::Error, "channel thread terminated unexpectedly");
        }
        if let Some(Reason { count, first }) = &self.window.unpublished {
            status.note(DiagnosticLevel::Warn, &format!("{count} not published: {first}"));
        }
        let unanswered = self.reference().and_then(|input| input.unanswered_for);
        let unanswered = unanswered.filter(|_| self.is_active);
        if let Some(waited) = unanswered.filter(|waited| *waited >= self.config.live.gap_error) {
            let message = format!("input arrives, but no output for {:.1} s", waited.as_secs_f64());
            status.note(DiagnosticLevel::Error, &message);
        }
    }

    fn device(&self) -> DiagnosticStatus {
        let Serving { health, num_failures, last_failure, device, engine, process_id } =
            &self.frames.serving;
        let mut status = self.status("device");
        let wanted = self.config.device;
        let last = last_failure.as_deref().unwrap_or("no failure");
        let problem = match health {
            Health::Good if self.num_failures_now > 0 => {
                let num = self.num_failures_now;
                Some((DiagnosticLevel::Warn, format!("built again after {num} failures: {last}")))
            }
            Health::Good => None,
            Health::Rebuilding => {
                Some((DiagnosticLevel::Warn, format!("failed, to be built again: {last}")))
            }
            Health::OnFallback => Some((
                DiagnosticLevel::Warn,
                format!("{wanted} failed, running on the CPU: {last}"),
            )),
            Health::BackingOff => Some((
                DiagnosticLevel::Error,
                format!("backing off after too many failures: {last}"),
            )),
            Health::Lost => Some((
                DiagnosticLevel::Error,
                format!("unusable in this process after a CUDA fault: {last}"),
            )),
        };
        if let Some((level, message)) = problem {
            status.note(level, &message);
        }
        status.otherwise(format!("{engine} on {device}"));
        status.value("health", health.name());
        status.value("device", device.as_str());
        status.value("device_wanted", wanted.to_string());
        status.value("failures", num_failures.to_string());
        if let Some(last) = last_failure {
            status.value("last_failure", last.as_str());
        }
        let process = process_id.map_or("the node's".into(), |id| id.to_string());
        status.value("process", process);
        status.value("engine", engine.as_str());
        for (key, model) in models(&self.config.kind) {
            status.value(key, model);
        }
        status.into_inner()
    }

    fn latency(&self) -> DiagnosticStatus {
        let mut status = self.status("latency");
        let response = self.window.response_us.as_ref().filter(|response| !response.is_empty());
        match response {
            None => status.otherwise("no frames".into()),
            Some(response) => {
                let ms = |quantile| response.value_at_quantile(quantile) as f64 / 1e3;
                let [p50, p99] = [0.5, 0.99].map(ms);
                let budget = self.config.live.latency_budget.map(|b| b.as_secs_f64() * 1e3);
                if let Some(budget) = budget.filter(|budget| p99 > *budget) {
                    let message =
                        format!("p99 latency {p99:.1} ms exceeds the {budget:.1} ms budget");
                    status.note(DiagnosticLevel::Warn, &message);
                }
                status.otherwise(format!("p50 {p50:.1} ms, p99 {p99:.1} ms"));
                status.value("response_p50_ms", format!("{p50:.3}"));
                status.value("response_p99_ms", format!("{p99:.3}"));
            }
        }
        for stage in self.window.account.stages_ms() {
            status.value(&format!("{}_p50_ms", stage.stage), format!("{:.3}", stage.p50));
            status.value(&format!("{}_p99_ms", stage.stage), format!("{:.3}", stage.p99));
        }
        for moved in self.window.account.bytes_per_frame() {
            for (what, num) in [
                ("host_copy", moved.host_copy),
                ("upload", moved.upload),
                ("download", moved.download),
            ] {
                status.value(&format!("{}_{what}_bytes", moved.stage), num.to_string());
            }
        }
        status.into_inner()
    }
}

/// The state of one of several inputs, the most specific first.
fn input_state(health: &InputHealth<'_>, gap_warn: Duration) -> &'static str {
    let InputHealth { calibration, summary, .. } = health;
    if summary.num_refused_now > 0 {
        "refused"
    } else if calibration.as_ref().is_some_and(|calibration| !calibration.has_arrived()) {
        "no_camera_info"
    } else if summary.totals.num_received == 0 {
        "no_message"
    } else if summary.silence >= gap_warn {
        "stale"
    } else if summary.num_unused_now > 0 {
        "late"
    } else {
        "ok"
    }
}

fn models(kind: &ChannelKind) -> Vec<(&'static str, String)> {
    match kind {
        ChannelKind::Camera(camera) => {
            camera.model_paths().map(|(key, path)| (key, path.display().to_string())).collect()
        }
        ChannelKind::Lidar(lidar) => {
            lidar.model_paths().map(|(key, path)| (key, path.display().to_string())).collect()
        }
        ChannelKind::Surround(surround) => {
            surround.model_paths().map(|(key, path)| (key, path.display().to_string())).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::runtime::input::InputAccount;

    /// The input's status a second after it was opened, with one publisher.
    fn silent_input(status: TopicStatus<'_>) -> DiagnosticStatus {
        let overrides = ["c.input:=/i", "c.head:=yolov8", "c.model_path:=m", "c.gap_warn_s:=0.5"];
        let config = Config::load(&[], &overrides.map(String::from)).unwrap();
        let (now, window) = (Instant::now(), FrameWindow::new());
        let summary = InputAccount::new(now).look(now + Duration::from_secs(1));
        let serving = Serving {
            health: Health::Good,
            num_failures: 0,
            last_failure: None,
            device: "cpu".into(),
            engine: "an engine".into(),
            process_id: None,
        };
        let input = InputHealth {
            topic: "/i",
            num_publishers: 1,
            status,
            calibration: None,
            summary: &summary,
        };
        ChannelHealth {
            node: "n",
            config: &config.channels[0],
            num_failures_now: 0,
            is_active: true,
            is_dead: false,
            inputs: Vec::new(),
            window: &window,
            frames: &FrameSummary { serving, last_output: None, num_out: 0 },
        }
        .input(0, &input)
    }

    #[test]
    fn losses_that_are_not_counted_are_unknown() {
        let value = |status: &DiagnosticStatus, key: &str| {
            let found = status.values.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.clone()).unwrap()
        };
        let topic = |num_lost, num_missing, num_missing_now| TopicStatus {
            event: None,
            num_lost,
            num_missing,
            num_missing_now,
        };
        // (status of the topic, lost_in_middleware, missing_by_stamps, message)
        let cases = [
            (topic(Some(0), 0, 0), "0", "0", "silent, or their messages are lost on the way"),
            (topic(Some(7), 0, 0), "7", "0", "7 messages were lost on the way"),
            (topic(None, 0, 0), "unknown", "0", "silent, or their messages are lost on the way"),
            (topic(None, 198, 30), "unknown", "198", "30 messages missing by their stamps"),
        ];
        for (topic, lost, missing, message) in cases {
            let status = silent_input(topic);
            assert_eq!(value(&status, "lost_in_middleware"), lost);
            assert_eq!(value(&status, "missing_by_stamps"), missing);
            assert!(status.message.contains(message), "{status:?}");
            assert_eq!(status.level, DiagnosticLevel::Warn);
        }
    }

    #[test]
    fn quoted_texts_are_escaped_and_truncated() {
        let event = format!("a peer has type x/msg/Y\n\u{1b}[2J{}", "y".repeat(1_000_000));
        let topic = TopicStatus { event: Some(&event), ..TopicStatus::default() };
        let status = silent_input(topic);
        assert!(status.message.contains("x/msg/Y\\n\\u{1b}[2J"), "{status:?}");
        assert!(status.message.len() < 8_000, "{} bytes", status.message.len());
    }

    #[test]
    fn the_health_of_a_device_has_its_level_and_message() {
        let overrides = ["c.input:=/i", "c.head:=yolov8", "c.model_path:=m", "device:=cuda:3"];
        let config = Config::load(&[], &overrides.map(String::from)).unwrap();
        let window = FrameWindow::new();
        let found = |health, num_failures, num_failures_now| {
            let serving = Serving {
                health,
                num_failures,
                last_failure: (num_failures > 0).then(|| "infer: a fault".to_owned()),
                device: "cuda:3 (a GPU)".into(),
                engine: "an engine".into(),
                process_id: Some(77),
            };
            let frames = FrameSummary { serving, last_output: None, num_out: 0 };
            let status = ChannelHealth {
                node: "n",
                config: &config.channels[0],
                num_failures_now,
                is_active: true,
                is_dead: false,
                inputs: Vec::new(),
                window: &window,
                frames: &frames,
            }
            .device();
            assert_eq!(
                (status.name.as_str(), status.values.len()),
                ("n: c: device", 7 + usize::from(num_failures > 0))
            );
            assert!(status.values.contains(&("health".into(), health.name().into())));
            assert!(status.values.contains(&("device_wanted".into(), "cuda:3".into())));
            assert!(status.values.contains(&("process".into(), "77".into())));
            (status.level, status.message)
        };
        use DiagnosticLevel::{Error, Ok, Warn};
        // (health, failures, new failures, level, message)
        let cases = [
            (Health::Good, 0, 0, Ok, "an engine on cuda:3 (a GPU)"),
            (Health::Good, 2, 0, Ok, "an engine on cuda:3 (a GPU)"),
            (Health::Good, 2, 1, Warn, "built again after 1 failures: infer: a fault"),
            (Health::Rebuilding, 1, 0, Warn, "failed, to be built again: infer: a fault"),
            (Health::OnFallback, 4, 0, Warn, "cuda:3 failed, running on the CPU: infer: a fault"),
            (
                Health::BackingOff,
                3,
                0,
                Error,
                "backing off after too many failures: infer: a fault",
            ),
            (
                Health::Lost,
                1,
                0,
                Error,
                "unusable in this process after a CUDA fault: infer: a fault",
            ),
        ];
        for (health, num_failures, num_now, level, message) in cases {
            let found = found(health, num_failures, num_now);
            assert_eq!(found, (level, message.to_owned()), "{health:?}");
        }
    }
}
