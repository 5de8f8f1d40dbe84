//! Ctrl-C and SIGTERM as a value that is passed down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, ErrorKind, Result};

/// Set once somebody asks to stop. The command then finishes what is under way;
/// a second request ends the process at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for both on a thread of its own.
    pub(super) fn listen() -> Result<Self> {
        let failed = |what, cause| Error::new(ErrorKind::Io, "signals", what).with_source(cause);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(|e: std::io::Error| failed("no runtime", e))?;
        let (interrupted, terminated) = {
            let _inside = runtime.enter();
            let hear = |kind| signal(kind).map_err(|e| failed("cannot hear a signal", e));
            (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?)
        };
        let interrupt = Self::default();
        let flag = interrupt.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || runtime.block_on(flag.follow(interrupted, terminated)))
            .map_err(|e| failed("no thread", e))?;
        Ok(interrupt)
    }

    async fn follow(self, mut interrupted: Signal, mut terminated: Signal) {
        loop {
            let heard = tokio::select! {
                heard = interrupted.recv() => heard,
                heard = terminated.recv() => heard,
            };
            if heard.is_none() {
                return;
            }
            if self.0.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            tracing::warn!("stopping: what is under way is being finished");
        }
    }

    /// The value as the library takes it.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether somebody asked to stop.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
