//! Ctrl-C as a value that is passed down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Set once the user asks to stop. The command then finishes its outputs; a
/// second request ends the process at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C on a thread of its own.
    pub(super) fn listen() -> Result<Self> {
        let interrupt = Self::default();
        let flag = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(|e| Error::new(ErrorKind::Io, "signals", "no runtime").with_source(e))?;
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                runtime.block_on(async {
                    while tokio::signal::ctrl_c().await.is_ok() {
                        if flag.0.swap(true, Ordering::Relaxed) {
                            std::process::exit(130);
                        }
                        tracing::warn!("stopping: the outputs are being finished");
                    }
                });
            })
            .map_err(|e| Error::new(ErrorKind::Io, "signals", "no thread").with_source(e))?;
        Ok(interrupt)
    }

    /// Whether the user asked to stop.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
