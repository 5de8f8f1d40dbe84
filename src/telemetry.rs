//! Logs: `tracing` to stderr, so that stdout carries results alone.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// What is shown when `RUST_LOG` says nothing: our own progress, and only the
/// warnings of the libraries beneath.
const DEFAULT_FILTER: &str = "warn,det_post=info";

/// Starts logging to stderr: our own logs from `level` on (`debug`, `info`,
/// `warn`, `error`, `fatal`) where one is given, else as `RUST_LOG` says.
/// Calling it again changes nothing.
pub fn init(level: Option<&str>) {
    let filter = match level {
        // `tracing` has no level above error.
        Some("fatal") => EnvFilter::new("error"),
        Some(level) => EnvFilter::new(format!("warn,det_post={level}")),
        None => {
            EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER))
        }
    };
    // Fails only when a subscriber is there already: then that one stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // The fallback for a line that cannot be written is a panic.
        .log_internal_errors(false)
        .try_init();
}
