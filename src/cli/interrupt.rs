//! Requests to stop (SIGINT, SIGTERM, SIGHUP) as a flag.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(|e: std::io::Error| failed("no runtime", e))?;
        let signals = {
            let _inside = runtime.enter();
            let hear = |kind| signal(kind).map_err(|e| failed("cannot hear a signal", e));
            let hangup = match hangup_is_ignored() {
                true => None,
                false => Some(hear(SignalKind::hangup())?),
            };
            // Past the limit of a file's size (`ulimit -f`) the system ends a process that does not
            // handle this; with a handler, writing fails with an error that names the file.
            drop(hear(SignalKind::from_raw(libc::SIGXFSZ))?);
            let interrupted = hear(SignalKind::interrupt())?;
            Signals { interrupted, terminated: hear(SignalKind::terminate())?, hangup }
        };
        let interrupt = Self::default();
        let flag = interrupt.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || runtime.block_on(flag.follow(signals)))
            .map_err(|e| failed("no thread", e))?;
        Ok(interrupt)
    }

    async fn follow(self, mut signals: Signals) {
        if signals.next().await.is_none() {
            return;
        }
        let first = Instant::now();
        self.0.store(true, Ordering::Relaxed);
        tracing::info!("stopping: work in progress is finished first");
        while signals.next().await.is_some() {
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

/// The signals that ask to stop.
struct Signals {
    interrupted: Signal,
    terminated: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// The next of them; `None` when no more can come.
    async fn next(&mut self) -> Option<()> {
        let Self { interrupted, terminated, hangup } = self;
        poll_fn(|context| {
            let signals = [Some(&mut *interrupted), Some(&mut *terminated), hangup.as_mut()];
            let mut heard = signals.into_iter().flatten().map(|signal| signal.poll_recv(context));
            heard.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }
}

/// Whether SIGHUP is ignored, by the mask of ignored signals in
/// `/proc/self/status`; false where there is no such file.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signal 1 is the lowest bit.
    mask & 1 << (libc::SIGHUP - 1) != 0
}
