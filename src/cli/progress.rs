//! The progress of a command on the terminal.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

/// The bar that is shown, if any: log lines are written above it.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn shown() -> MutexGuard<'static, Option<ProgressBar>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A progress bar, which disappears when it is dropped. There is none where stderr is not
/// a terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar of `length` steps, or without an end. A template names the unit.
    pub(super) fn new(length: Option<u64>, unit: &str) -> Self {
        let template = format!("{{bar:40}} {{pos}}/{{len}} {unit}, {{per_sec}}, {{eta}} left");
        let bar = match (length, ProgressStyle::with_template(&template)) {
            (Some(length), Ok(style)) => ProgressBar::new(length).with_style(style),
            _ => ProgressBar::new_spinner(),
        };
        *shown() = Some(bar.clone());
        Self(bar)
    }

    /// Moves the bar to a step.
    pub(super) fn set(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Moves the bar on by a step.
    pub(super) fn advance(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *shown() = None;
        self.0.finish_and_clear();
    }
}

/// Standard error, with what is written above the progress bar.
pub(super) struct AboveProgress;

impl Write for AboveProgress {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &*shown() {
            Some(bar) => bar.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
