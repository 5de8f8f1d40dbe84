//! Requests to stop (SIGINT, SIGTERM, SIGHUP) as a flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::exit::ExitStatus;
use det_post_ros::output_folder;
use det_post_types::{Error, ErrorKind, Result};

/// Signals that follow the first this soon belong to the same request: where a supervisor
/// such as systemd signals a whole group, `ros2 launch` signals the node a second time.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Set by the first signal that asks to stop. The command then finishes the frame in progress
/// and ends; a signal after [`SAME_REQUEST`] ends the process at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles the signals on a separate thread. SIGHUP stays ignored where the program was
    /// started with it ignored (`nohup`).
    ///
    /// # Errors
    /// `Io` when the system refuses a thread or a handler.
    pub(super) fn listen() -> Result<Self> {
        let failed = |what, cause| Error::new(ErrorKind::Io, "signals", what).with_source(cause);
        let unheard = |cause: std::io::Error| failed("cannot hear a signal", cause);
        // Past the limit of a file's size (`ulimit -f`) the system ends a process that does not
        // handle this; with a handler, writing fails with an error that names the file.
        signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(unheard)?;
        let hangup = (!hangup_is_ignored()).then_some(SIGHUP);
        let signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup)).map_err(unheard)?;
        let interrupt = Self::default();
        let flag = interrupt.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || flag.follow(signals))
            .map_err(|e| failed("no thread", e))?;
        Ok(interrupt)
    }

    fn follow(self, mut signals: Signals) {
        let mut signals = signals.forever();
        if signals.next().is_none() {
            return;
        }
        let first = Instant::now();
        self.0.store(true, Ordering::Relaxed);
        tracing::info!("stopping: work in progress is finished first");
        for _ in signals {
            if first.elapsed() > SAME_REQUEST
                && let Some(_guard) = output_folder::hold_off_moves()
            {
                std::process::exit(ExitStatus::Interrupted.code().into());
            }
        }
    }

    /// The flag.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether a signal asked to stop.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether SIGHUP is ignored, by the mask of ignored signals in
/// `/proc/self/status`; false where there is no such file.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signal 1 is the lowest bit.
    mask & 1 << (SIGHUP - 1) != 0
}
