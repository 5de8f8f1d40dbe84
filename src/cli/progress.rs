//! The progress of a command on the terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between lines of progress where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The bar that is shown, if any: log lines are written above it.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn shown() -> MutexGuard<'static, Option<ProgressBar>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The progress of some steps: a bar, which disappears when it is dropped, or, where stderr is
/// no terminal, a line in the log every ten seconds.
pub(super) struct Progress {
    bar: ProgressBar,
    unit: String,
    /// `None` on a terminal.
    lines: Option<Lines>,
}

/// When lines are logged.
struct Lines {
    start: Instant,
    /// Number of the next line.
    next: AtomicU64,
}

impl Progress {
    /// Of `length` steps, or without an end; `unit` names them.
    pub(super) fn new(length: Option<u64>, unit: &str) -> Self {
        let template = format!("{{bar:40}} {{pos}}/{{len}} {unit}, {{per_sec}}, {{eta}} left");
        let bar = match (length, ProgressStyle::with_template(&template)) {
            (Some(length), Ok(style)) => ProgressBar::new(length).with_style(style),
            _ => ProgressBar::new_spinner(),
        };
        *shown() = Some(bar.clone());
        let lines = (!io::stderr().is_terminal())
            .then(|| Lines { start: Instant::now(), next: AtomicU64::new(1) });
        Self { bar, unit: unit.to_owned(), lines }
    }

    /// Moves to a step.
    pub(super) fn set(&self, position: u64) {
        self.bar.set_position(position);
        self.log();
    }

    /// Moves on by a step.
    pub(super) fn advance(&self) {
        self.bar.inc(1);
        self.log();
    }

    fn log(&self) {
        let Some(lines) = &self.lines else { return };
        let elapsed = lines.start.elapsed();
        if lines.is_due(elapsed) {
            let line = line(self.bar.position(), self.bar.length(), &self.unit, elapsed);
            tracing::info!("{line}");
        }
    }
}

impl Lines {
    /// Whether a line is due that no other thread logs.
    fn is_due(&self, elapsed: Duration) -> bool {
        let reached = elapsed.as_secs() / LINE_INTERVAL.as_secs();
        let next = self.next.load(Ordering::Relaxed);
        reached >= next
            && self
                .next
                .compare_exchange(next, reached + 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// Steps, the rate, and the time that is left at this rate.
fn line(position: u64, length: Option<u64>, unit: &str, elapsed: Duration) -> String {
    let rate = position as f64 / elapsed.as_secs_f64().max(1e-9);
    match length {
        Some(length) if rate > 0.0 => {
            let left = length.saturating_sub(position) as f64 / rate;
            format!("{position} of {length} {unit}, {rate:.1} a second, {left:.0} s left")
        }
        Some(length) => format!("{position} of {length} {unit}"),
        None => format!("{position} {unit}, {rate:.1} a second"),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *shown() = None;
        self.bar.finish_and_clear();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_every_ten_seconds() {
        let lines = Lines { start: Instant::now(), next: AtomicU64::new(1) };
        let due =
            [0, 9, 10, 11, 19, 20, 57, 58, 60].map(|at| lines.is_due(Duration::from_secs(at)));
        assert_eq!(due, [false, false, true, false, false, true, true, false, true]);
    }

    #[test]
    fn lines_say_what_is_left() {
        let after = Duration::from_secs(10);
        let of_all = line(40, Some(100), "messages", after);
        assert_eq!(of_all, "40 of 100 messages, 4.0 a second, 15 s left");
        assert_eq!(line(0, Some(100), "messages", after), "0 of 100 messages");
        assert_eq!(line(40, None, "frames", after), "40 frames, 4.0 a second");
        // A recording may hold more than it says.
        assert_eq!(line(40, Some(3), "frames", after), "40 of 3 frames, 4.0 a second, 0 s left");
    }
}
