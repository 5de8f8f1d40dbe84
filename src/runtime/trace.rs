//! The frames of channels and their stages over time, as a trace that Perfetto
//! (<https://ui.perfetto.dev>) and `chrome://tracing` show.
//!
//! The format is the array of Chrome's trace events, one a line; a file that ends early can be
//! read. Durations are measured; the stages of a frame are drawn one after the other from its
//! start, in their order, whatever was in flight beside them. Frames in flight at once are on several tracks of
//! their channel.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use det_post_types::{FrameReport, Stage, Stamp};

/// The first line of a trace: the name of the process.
pub(crate) const MARK: &str =
    "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"det_post\"}}";

/// The most events of a trace: about 150 MB.
const MAX_EVENTS: u64 = 1_000_000;

/// A trace that is being written.
pub struct Trace(Mutex<State>);

struct State {
    file: Box<dyn Write + Send>,
    start: Instant,
    /// Channel and end of the last frame of each track.
    tracks: Vec<(String, Duration)>,
    num_events: u64,
    max_events: u64,
    /// Why nothing is written any more.
    failure: Option<io::Error>,
}

/// A frame that is done.
pub struct TracedFrame<'a> {
    /// Name of its channel.
    pub channel: &'a str,
    /// Stamp of its reference input.
    pub stamp: Stamp,
    /// Number of its detections.
    pub num_detections: usize,
    /// Its durations.
    pub report: &'a FrameReport,
}

impl Trace {
    /// Begins a trace.
    ///
    /// # Errors
    /// Returns the errors of writing.
    pub fn start(file: Box<dyn Write + Send>) -> io::Result<Self> {
        Self::with_limit(file, MAX_EVENTS)
    }

    fn with_limit(mut file: Box<dyn Write + Send>, max_events: u64) -> io::Result<Self> {
        file.write_all(MARK.as_bytes())?;
        let (tracks, num_events, failure) = (Vec::new(), 0, None);
        let start = Instant::now();
        Ok(Self(Mutex::new(State { file, start, tracks, num_events, max_events, failure })))
    }

    /// Adds a frame that ends now. An error of writing ends the trace, see [`Self::finish`].
    pub fn add(&self, frame: &TracedFrame<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = state.start.elapsed();
        state.add(frame, end);
    }

    /// Adds a frame that was dropped now.
    pub fn add_dropped(&self, channel: &str, reason: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = state.start.elapsed();
        let tid = state.track(channel, at, at);
        state.write(&json!({
            "name": format!("dropped: {reason}"), "cat": "frame", "ph": "i", "s": "t",
            "ts": micros(at), "pid": 1, "tid": tid,
        }));
    }

    /// Closes the trace. Returns whether it has all events.
    ///
    /// # Errors
    /// The first of writing.
    pub fn finish(&self) -> io::Result<bool> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.failure.take() {
            return Err(error);
        }
        state.file.write_all(b"\n]\n")?;
        state.file.flush()?;
        Ok(state.num_events < state.max_events)
    }
}

impl State {
    fn add(&mut self, frame: &TracedFrame<'_>, end: Duration) {
        let TracedFrame { channel, stamp, num_detections, report } = frame;
        let stages = Stage::ALL.iter().filter(|&&stage| stage != Stage::Total);
        let stages = stages.filter_map(|&stage| Some((stage, report.duration(stage)?)));
        let total = report.duration(Stage::Total).unwrap_or_default();
        // Stages that ran before the frame was complete are not part of the total.
        let sum: Duration = stages.clone().map(|(_, duration)| duration).sum();
        let start = end.saturating_sub(total.max(sum));
        let tid = self.track(channel, start, end);
        self.write(&json!({
            "name": "frame", "cat": "frame", "ph": "X", "pid": 1, "tid": tid,
            "ts": micros(start), "dur": micros(end - start),
            "args": {
                "stamp": stamp.to_string(), "detections": num_detections,
                "total_ms": 1e3 * total.as_secs_f64(),
            },
        }));
        let mut at = start;
        for (stage, duration) in stages {
            let duration = duration.min(end.saturating_sub(at));
            self.write(&json!({
                "name": stage.name(), "cat": "stage", "ph": "X", "pid": 1, "tid": tid,
                "ts": micros(at), "dur": micros(duration),
            }));
            at += duration;
        }
    }

    /// The first track of a channel that is free from `start` on, taken until `end`.
    fn track(&mut self, channel: &str, start: Duration, end: Duration) -> usize {
        let is_free = |(name, busy): &(String, Duration)| name == channel && *busy <= start;
        if let Some(track) = self.tracks.iter().position(is_free) {
            self.tracks[track].1 = end;
            return track + 1;
        }
        self.tracks.push((channel.to_owned(), end));
        let track = self.tracks.len();
        self.write(&json!({
            "name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": {"name": channel},
        }));
        track
    }

    fn write(&mut self, event: &serde_json::Value) {
        if self.failure.is_some() || self.num_events >= self.max_events {
            return;
        }
        self.num_events += 1;
        if let Err(error) = write!(self.file, ",\n{event}") {
            tracing::error!("trace: {error}: no more events are written");
            self.failure = Some(error);
        } else if self.num_events == self.max_events {
            tracing::warn!("trace: it has {} events and takes no more", self.max_events);
        }
    }
}

fn micros(time: Duration) -> f64 {
    // Nanoseconds, as decimals of Chrome's microseconds.
    (time.as_nanos() as f64) / 1e3
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn events(&self) -> Vec<Value> {
            serde_json::from_slice(&self.0.lock().unwrap()).unwrap()
        }
    }

    fn report() -> FrameReport {
        let mut report = FrameReport::new();
        report.add_duration(Stage::Letterbox, Duration::from_millis(2));
        report.add_duration(Stage::Infer, Duration::from_millis(5));
        report.add_duration(Stage::Total, Duration::from_millis(8));
        report
    }

    #[test]
    fn stages_follow_each_other_inside_their_frame() {
        let file = Shared::default();
        let trace = Trace::start(Box::new(file.clone())).unwrap();
        let report = report();
        let frame = TracedFrame {
            channel: "camera",
            stamp: Stamp::from_nanos(1_500_000_000),
            num_detections: 3,
            report: &report,
        };
        // The second frame begins while the first is in progress, the third after it.
        for end in [20, 24, 40] {
            trace.0.lock().unwrap().add(&frame, Duration::from_millis(end));
        }
        trace.add_dropped("lidar", "malformed_message");
        assert!(trace.finish().unwrap());
        let events = file.events();
        let of = |phase: &str, name: &str| -> Vec<(f64, f64, u64)> {
            let found = events.iter().filter(|e| e["ph"] == phase && e["name"] == name);
            let number = |value: &Value| value.as_f64().unwrap_or(-1.0);
            found
                .map(|e| (number(&e["ts"]), number(&e["dur"]), e["tid"].as_u64().unwrap_or(0)))
                .collect()
        };
        let frames = of("X", "frame");
        assert_eq!(frames, [(12e3, 8e3, 1), (16e3, 8e3, 2), (32e3, 8e3, 1)]);
        assert_eq!(of("X", "letterbox")[0], (12e3, 2e3, 1));
        assert_eq!(of("X", "infer")[0], (14e3, 5e3, 1));
        assert_eq!(of("i", "dropped: malformed_message")[0].2, 3);
        let names: Vec<&Value> = events
            .iter()
            .filter(|e| e["name"] == "thread_name")
            .map(|e| &e["args"]["name"])
            .collect();
        assert_eq!(names, ["camera", "camera", "lidar"]);
        assert_eq!(events[2]["args"]["stamp"], "1.500000000");
    }

    #[test]
    fn a_trace_has_an_end() {
        let file = Shared::default();
        let trace = Trace::with_limit(Box::new(file.clone()), 5).unwrap();
        let report = report();
        for _ in 0..100 {
            let stamp = Stamp::default();
            trace.add(&TracedFrame { channel: "a", stamp, num_detections: 0, report: &report });
        }
        assert!(!trace.finish().unwrap());
        assert_eq!(file.events().len(), 1 + 5);
    }
}
