//! Log output: `tracing` to stderr; stdout is for results.
//!
//! Events may quote names from messages and files. Their text is escaped and
//! cut by [`crate::text`] before it is written, and the lines of one event after
//! the first begin with a mark: no name can forge an entry or steer a terminal.

use std::fmt::{self, Debug, Write};
use std::io::IsTerminal;

use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use super::progress::AboveProgress;
use crate::text::{LineBreaks, Shown};

/// The filter without `RUST_LOG`: our own information, and warnings of libraries.
const DEFAULT_FILTER: &str = "warn,det_post=info";

/// Starts logging to stderr: our own logs from `level` on (`debug`, `info`,
/// `warn`, `error`, `fatal`) where one is given, else by `RUST_LOG`.
/// Calling it again changes nothing.
pub(super) fn init(level: Option<&str>) {
    let filter = match level {
        // `tracing` has no level above error.
        Some("fatal") => EnvFilter::new("error"),
        Some(level) => EnvFilter::new(format!("warn,det_post={level}")),
        None => {
            EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER))
        }
    };
    // Fails only when a subscriber exists already, which then stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .fmt_fields(fields())
        .with_writer(|| AboveProgress)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // The fallback for a line that cannot be written is a panic.
        .log_internal_errors(false)
        .try_init();
}

/// Writes the fields of an event, escaped.
fn fields() -> impl for<'w> FormatFields<'w> + 'static {
    debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| -> fmt::Result {
        let mut shown = Shown::new(writer, LineBreaks::Marked);
        match field.name() {
            "message" => write!(shown, "{value:?}")?,
            name => write!(shown, "{name}={value:?}")?,
        }
        shown.finish()
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
}
