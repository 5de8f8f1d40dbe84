//! Logs: `tracing` to stderr, so that stdout carries only results, and to
//! `/rosout` of live nodes.
//!
//! Events may quote names from messages and files. Their text is escaped and
//! cut by [`det_post_types::text`] before it is written, and the lines of one event after
//! the first begin with a mark: no name can forge an entry or steer a terminal.

use std::fmt::{self, Debug};
use std::io::IsTerminal;
use std::time::SystemTime;

use tracing::Event;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{FmtSpan, Writer, debug_fn};
use tracing_subscriber::fmt::time::{self, FormatTime};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::{Registry, reload};

use super::console_format::{self, ConsoleFormat};
use super::local_time::local_time;
use super::progress::AboveProgress;
use super::trace::ToTrace;
use crate::node::{LogRecord, Logs, write_field};
use det_post_ros::LogLevel;
use det_post_types::Stamp;

/// Where logs go.
pub(super) struct Sinks {
    /// To stderr.
    pub(super) stderr: bool,
    /// Of live nodes, also to `/rosout`.
    pub(super) rosout: bool,
    /// Whether stderr is read by the process that started this one, which logs its lines.
    pub(super) is_read: bool,
    /// The logger of a live node, whose lines on stderr have the form of
    /// `RCUTILS_CONSOLE_OUTPUT_FORMAT`, if that is set.
    pub(super) logger: Option<String>,
    /// Whether the spans of frames go to a trace.
    pub(super) is_traced: bool,
}

/// Starts logging: our own logs from `level` on (`debug`, `info`,
/// `warn`, `error`, `fatal`) where one is given, else as `RUST_LOG` says. Live
/// nodes may change the level. Calling it again changes nothing. Without either: our own
/// information, and warnings of libraries.
pub(super) fn init(level: Option<&str>, sinks: &Sinks) {
    let first = level.map(str::to_owned);
    let (filter, handle) = reload::Layer::new(filter_of(level));
    let colored = is_colored(std::io::stderr().is_terminal(), |name| std::env::var(name).ok());
    let form = sinks.logger.as_deref().zip(std::env::var(console_format::VARIABLE).ok());
    let ros_lines = form.map(|(logger, form)| {
        tracing_subscriber::fmt::layer()
            .event_format(ConsoleFormat::parse(&form, logger, colored))
            .with_writer(|| AboveProgress)
            .log_internal_errors(false)
    });
    let is_plain = ros_lines.is_none() && !sinks.is_read;
    let lines = tracing_subscriber::fmt::layer()
        .fmt_fields(fields())
        .with_writer(|| AboveProgress)
        .with_timer(LineTime { is_short: std::io::stderr().is_terminal() })
        .with_ansi(colored)
        .with_target(false)
        // Spans of frames have the level `trace`.
        .with_span_events(FmtSpan::CLOSE)
        // The fallback for a line that cannot be written is a panic.
        .log_internal_errors(false);
    // The time is added by the process that reads the lines.
    let read_lines = tracing_subscriber::fmt::layer()
        .fmt_fields(fields())
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .log_internal_errors(false);
    let mut logs: Vec<Box<dyn Layer<Registry> + Send + Sync>> = Vec::new();
    logs.extend((sinks.stderr && is_plain).then(|| lines.boxed()));
    logs.extend(ros_lines.filter(|_| sinks.stderr).map(Layer::boxed));
    logs.extend(sinks.is_read.then(|| read_lines.boxed()));
    logs.extend(sinks.rosout.then(|| ToNodes.boxed()));
    let trace = sinks.is_traced.then(|| ToTrace::process().with_filter(ToTrace::filter()));
    let subscriber = tracing_subscriber::registry().with(logs.with_filter(filter)).with(trace);
    // Fails only when a subscriber is there already: then that one stays.
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        Logs::process().set_level_control(Box::new(move |level| {
            let level = level.map_or(first.as_deref(), |level| Some(name_of(level)));
            // Fails only without the subscriber, which stays for good.
            let _ = handle.reload(filter_of(level));
        }));
    }
}

/// The time of a line: local hours, minutes and seconds for someone who watches, else the date of UTC with
/// microseconds.
struct LineTime {
    is_short: bool,
}

impl FormatTime for LineTime {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
        let nanos = since.and_then(|since| i64::try_from(since.as_nanos()).ok());
        let now = nanos.filter(|_| self.is_short).map(Stamp::from_nanos).and_then(local_time);
        match now.as_deref().and_then(|now| now.split(' ').nth(1)) {
            Some(time) => to.write_str(time),
            None => time::SystemTime.format_time(to),
        }
    }
}

/// The entries that are logged. `RUST_LOG` has levels, and levels of targets: `warn,det_post=debug`.
/// One that is neither means the default.
fn filter_of(level: Option<&str>) -> Targets {
    let of = |level: LevelFilter| {
        Targets::new().with_default(LevelFilter::WARN).with_target("det_post", level)
    };
    match level {
        // `tracing` has no level above error.
        Some("fatal") => Targets::new().with_default(LevelFilter::ERROR),
        Some(level) => of(level.parse().unwrap_or(LevelFilter::INFO)),
        None => {
            let named = std::env::var("RUST_LOG").ok().and_then(|filter| filter.parse().ok());
            named.unwrap_or_else(|| of(LevelFilter::INFO))
        }
    }
}

/// A level as `--log-level` takes it.
fn name_of(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
        LogLevel::Fatal => "fatal",
    }
}

/// Hands this program's entries to its live nodes. Entries of the libraries stay
/// on stderr: one of them may be about publishing an entry.
struct ToNodes;

impl<S: tracing::Subscriber> Layer<S> for ToNodes {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().starts_with(env!("CARGO_CRATE_NAME")) {
            return;
        }
        let logs = Logs::process();
        if !logs.is_published() {
            return;
        }
        logs.add(&LogRecord::of_event(event));
    }
}

/// Whether log lines have colours: as `NO_COLOR` and ROS's
/// `RCUTILS_COLORIZED_OUTPUT` say, else where stderr is a terminal.
fn is_colored(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return false;
    }
    match variable("RCUTILS_COLORIZED_OUTPUT").as_deref() {
        Some("0") => false,
        Some("1") => true,
        _ => is_terminal,
    }
}

/// Writes the fields of an event, escaped.
fn fields() -> impl for<'w> FormatFields<'w> + 'static {
    debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| -> fmt::Result {
        write_field(writer, field, value)
    })
    .delimited(" ")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn colours_are_for_terminals_unless_a_variable_says_otherwise() {
        for (is_terminal, no_color, colorized, expected) in [
            (true, None, None, true),
            (false, None, None, false),
            (true, Some("1"), None, false),
            (true, Some(""), None, true),
            (true, None, Some("0"), false),
            (false, None, Some("1"), true),
            (false, Some("1"), Some("1"), false),
            (false, None, Some("maybe"), false),
        ] {
            let variable = |name: &str| match name {
                "NO_COLOR" => no_color.map(str::to_owned),
                "RCUTILS_COLORIZED_OUTPUT" => colorized.map(str::to_owned),
                other => panic!("{other} is read"),
            };
            let found = is_colored(is_terminal, variable);
            assert_eq!(found, expected, "{is_terminal} {no_color:?} {colorized:?}");
        }
    }

    #[test]
    fn names_neither_forge_entries_nor_steer_terminals() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(fields())
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let topic = "/a\n2026-01-01T00:00:00Z  INFO all is well\r\u{1b}[2K";
            tracing::warn!("{topic}: no field {}", "x".repeat(14_000_000));
            tracing::info!(topic, number = 3, "plain");
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].ends_with("WARN det_post::cli::telemetry::tests: /a"), "{text}");
        assert!(lines[1].starts_with("    | 2026-01-01T00:00:00Z  INFO all is well\\r\\u{1b}[2K"));
        assert!(lines[1].ends_with(" more bytes)") && lines[1].len() < 8_000, "{text}");
        assert!(
            lines[2].contains("INFO") && lines[2].contains("plain topic=\"/a\\n2026"),
            "{text}"
        );
        assert!(text.ends_with("number=3\n"), "{text}");
    }

    /// What a node publishes, in the order it comes.
    struct Published(std::sync::mpsc::Sender<String>);

    impl det_post_ros::middleware::Publisher for Published {
        fn publish(&mut self, cdr: &[u8]) -> crate::Result<()> {
            let mut reader = det_post_ros::cdr::Reader::new("test", cdr)?;
            reader.i32()?;
            reader.u32()?;
            let level = reader.u8()?;
            let [name, text, file, module] =
                [reader.str()?, reader.str()?, reader.str()?, reader.str()?];
            let has_line = reader.u32()? > 0;
            let _ = self.0.send(format!("{level} {name} {text} {file} {module} {has_line}"));
            Ok(())
        }

        fn num_subscribers(&self) -> usize {
            0
        }
    }

    #[test]
    fn entries_of_this_program_reach_a_node() {
        let (sender, published) = std::sync::mpsc::channel();
        let node = det_post_ros::NodeName::new("front", "eyes").unwrap();
        let filter = filter_of(Some("info"));
        let subscriber = tracing_subscriber::registry().with(filter).with(ToNodes);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("before the node is there");
            let rosout = crate::node::Rosout::start(&node, Box::new(Published(sender)));
            let topic = "/a\n\u{1b}[2K";
            tracing::warn!(number = 3, "{topic}: lost");
            tracing::debug!("below the level");
            tracing::error!(target: "rten", "of a library");
            tracing::info!("last");
            drop(rosout.unwrap());
            tracing::info!("after its end");
        });
        let place = "src/cli/telemetry.rs det_post::cli::telemetry::tests true";
        // Tests beside this one may log, too.
        let found: Vec<String> = published.iter().filter(|text| text.ends_with(place)).collect();
        let expected = [
            format!("30 front.eyes /a\n    | \\u{{1b}}[2K: lost number=3 {place}"),
            format!("20 front.eyes last {place}"),
        ];
        assert_eq!(found, expected);
    }
}
