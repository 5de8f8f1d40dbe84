//! The spans of frames and their stages over time, as a trace that Perfetto
//! (<https://ui.perfetto.dev>) and `chrome://tracing` show.
//!
//! The format is the array of Chrome's trace events, one a line; a file that ends early can be
//! read. Frames in flight at once are on several tracks of their channel. A stage that was measured
//! elsewhere, as on a GPU, is drawn after the one before it, whatever was in flight beside it.

use std::fmt::Debug;
use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use det_post_types::FRAME_SPANS;

/// The first line of a trace: the name of the process.
pub(super) const MARK: &str =
    "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"det_post\"}}";

/// The most events of a trace: about 150 MB.
const MAX_EVENTS: u64 = 1_000_000;

/// Writes the spans of frames to a trace, from [`Self::start`] to [`Self::finish`]. Clones share it.
#[derive(Clone, Default)]
pub(super) struct ToTrace(Arc<Mutex<Option<State>>>);

struct State {
    file: Box<dyn Write + Send>,
    start: Instant,
    tracks: Vec<Track>,
    num_events: u64,
    max_events: u64,
    /// Why nothing is written any more.
    failure: Option<io::Error>,
}

struct Track {
    channel: String,
    is_busy: bool,
}

/// A span that is open.
struct Open {
    begun: Instant,
    track: usize,
    fields: Fields,
    /// Of a frame: where a stage that was measured elsewhere is drawn.
    next_stage: Instant,
}

/// The fields of a span or an event.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl ToTrace {
    /// The layer of this process.
    pub(super) fn process() -> Self {
        static PROCESS: LazyLock<ToTrace> = LazyLock::new(ToTrace::default);
        PROCESS.clone()
    }

    /// The spans that it takes.
    pub(super) fn filter() -> Targets {
        Targets::new().with_target(FRAME_SPANS, LevelFilter::TRACE)
    }

    /// Begins a trace.
    ///
    /// # Errors
    /// Returns the errors of writing.
    pub(super) fn start(&self, file: Box<dyn Write + Send>) -> io::Result<()> {
        self.start_with_limit(file, MAX_EVENTS)
    }

    fn start_with_limit(&self, mut file: Box<dyn Write + Send>, max_events: u64) -> io::Result<()> {
        file.write_all(MARK.as_bytes())?;
        let (tracks, num_events, failure) = (Vec::new(), 0, None);
        let start = Instant::now();
        *self.lock() = Some(State { file, start, tracks, num_events, max_events, failure });
        Ok(())
    }

    /// Closes the trace. Returns whether it has all events.
    ///
    /// # Errors
    /// The first of writing.
    pub(super) fn finish(&self) -> io::Result<bool> {
        let Some(mut state) = self.lock().take() else { return Ok(true) };
        if let Some(error) = state.failure {
            return Err(error);
        }
        state.file.write_all(b"\n]\n")?;
        state.file.flush()?;
        Ok(state.num_events < state.max_events)
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ToTrace {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let begun = Instant::now();
        let (Some(span), mut guard) = (context.span(id), self.lock()) else { return };
        let Some(state) = guard.as_mut() else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let track = match frame_of(&span) {
            Some(frame) => frame.extensions().get::<Open>().map(|open| open.track),
            None => fields.take_text("channel").map(|channel| state.take_track(&channel)),
        };
        if let Some(track) = track {
            let open = Open { begun, track, fields, next_stage: begun };
            span.extensions_mut().insert(open);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            values.record(&mut open.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut guard = self.lock();
        if let Some(state) = guard.as_mut()
            && let Some((channel, reason)) =
                fields.take_text("channel").zip(fields.take_text("dropped"))
        {
            let track = state.take_track(&channel);
            state.tracks[track].is_busy = false;
            state.write(&json!({
                "name": format!("dropped: {reason}"), "cat": "frame", "ph": "i", "s": "t",
                "ts": state.micros(Instant::now()), "pid": 1, "tid": track + 1,
            }));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(Open { mut begun, track, mut fields, .. }) =
            span.extensions_mut().remove::<Open>()
        else {
            return;
        };
        let mut end = Instant::now();
        let frame = frame_of(&span);
        if let Some(frame) = &frame
            && let Some(frame) = frame.extensions_mut().get_mut::<Open>()
        {
            if let Some(micros) = fields.0.remove("micros").and_then(|micros| micros.as_f64()) {
                begun = frame.next_stage.min(end);
                end =
                    end.min(begun + Duration::try_from_secs_f64(1e-6 * micros).unwrap_or_default());
            }
            frame.next_stage = end;
        }
        let stage = fields.take_text("stage");
        let mut guard = self.lock();
        let Some(state) = guard.as_mut() else { return };
        state.write(&json!({
            "name": stage.as_deref().unwrap_or(span.name()),
            "cat": if stage.is_some() { "stage" } else { "frame" },
            "ph": "X", "pid": 1, "tid": track + 1, "ts": state.micros(begun),
            "dur": 1e-3 * (end.saturating_duration_since(begun).as_nanos() as f64),
            "args": fields.0,
        }));
        if let (None, Some(track)) = (frame, state.tracks.get_mut(track)) {
            track.is_busy = false;
        }
    }
}

/// The frame of a stage; `None` of a span that is one.
fn frame_of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<SpanRef<'a, S>> {
    span.parent().filter(|_| span.name() == "stage")
}

impl State {
    /// A free track of a channel, which is busy from now on.
    fn take_track(&mut self, channel: &str) -> usize {
        let is_free = |track: &Track| track.channel == channel && !track.is_busy;
        if let Some(track) = self.tracks.iter().position(is_free) {
            self.tracks[track].is_busy = true;
            return track;
        }
        self.tracks.push(Track { channel: channel.to_owned(), is_busy: true });
        let track = self.tracks.len() - 1;
        self.write(&json!({
            "name": "thread_name", "ph": "M", "pid": 1, "tid": track + 1, "args": {"name": channel},
        }));
        track
    }

    /// Nanoseconds since the begin, as decimals of Chrome's microseconds.
    fn micros(&self, at: Instant) -> f64 {
        1e-3 * (at.saturating_duration_since(self.start).as_nanos() as f64)
    }

    fn write(&mut self, event: &Value) {
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

impl Fields {
    fn take_text(&mut self, name: &str) -> Option<String> {
        match self.0.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use tracing::field::Empty;
    use tracing::{Span, trace, trace_span};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use det_post_types::{FrameReport, Stage};

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

    fn frame(channel: &str) -> Span {
        trace_span!(target: FRAME_SPANS, "frame", channel, stamp = "1.500000000", detections = Empty)
    }

    /// The events of a trace of at most so many, and whether it has all.
    fn traced(max_events: u64, frames: impl FnOnce()) -> (Vec<Value>, bool) {
        let (file, trace) = (Shared::default(), ToTrace::default());
        let layer = trace.clone().with_filter(ToTrace::filter());
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            frame("before it begins").in_scope(|| ());
            trace.start_with_limit(Box::new(file.clone()), max_events).unwrap();
            frames();
        });
        let is_whole = trace.finish().unwrap();
        let bytes = file.0.lock().unwrap().clone();
        (serde_json::from_slice(&bytes).unwrap(), is_whole)
    }

    #[test]
    fn stages_are_inside_their_frame() {
        let pause = Duration::from_millis(4);
        let (events, is_whole) = traced(100, || {
            let (first, second) = (frame("camera"), frame("camera"));
            let mut report = FrameReport::new();
            first.in_scope(|| {
                report.time(Stage::Letterbox, || std::thread::sleep(pause));
                std::thread::sleep(pause);
                report.add_duration(Stage::Infer, pause / 2);
                report.add_duration(Stage::Postprocess, Duration::from_secs(9));
                report.add_duration(Stage::Total, pause);
            });
            first.record("detections", 3);
            drop((first, second));
            drop(frame("camera"));
            trace!(target: FRAME_SPANS, channel = "lidar", dropped = "malformed_message");
            tracing::error!(channel = "lidar", dropped = "an event of the log");
        });
        assert!(is_whole);
        let of = |phase: &str, name: &str| -> Vec<&Value> {
            events.iter().filter(|e| e["ph"] == phase && e["name"] == name).collect()
        };
        let time = |event: &Value| {
            let (at, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            (at, at + length, event["tid"].as_u64().unwrap())
        };
        let frames = of("X", "frame");
        assert_eq!(frames.iter().map(|frame| time(frame).2).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(frames[0]["args"], json!({"stamp": "1.500000000", "detections": 3}));
        let (begin, end, _) = time(frames[0]);
        let stages = ["letterbox", "infer", "postprocess"].map(|name| time(of("X", name)[0]));
        assert!(stages.iter().all(|stage| stage.2 == 1 && begin <= stage.0 && stage.1 <= end));
        let [letterbox, infer, postprocess] = stages;
        assert!(letterbox.1 - letterbox.0 >= 4e3, "{letterbox:?}");
        assert!((infer.0 - letterbox.1).abs() < 1e-3 && (infer.1 - infer.0 - 2e3).abs() < 1e-3);
        // Longer than the frame: cut.
        assert!((postprocess.0 - infer.1).abs() < 1e-3, "{stages:?}");
        assert_eq!(of("X", "total").len(), 0);
        assert_eq!(of("i", "dropped: malformed_message")[0]["tid"], 3);
        let names = of("M", "thread_name").into_iter().map(|event| &event["args"]["name"]);
        assert_eq!(names.collect::<Vec<_>>(), ["camera", "camera", "lidar"]);
        assert_eq!(events.len(), 1 + 3 + 3 + 3 + 1);
    }

    #[test]
    fn a_trace_has_an_end() {
        let (events, is_whole) = traced(5, || (0..100).for_each(|_| drop(frame("a"))));
        assert!(!is_whole);
        assert_eq!(events.len(), 1 + 5);
    }
}
