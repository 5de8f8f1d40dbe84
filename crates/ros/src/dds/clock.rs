//! Detects that the system's clock was set back.
//!
//! The participant orders best-effort messages by their time of arrival on that
//! clock and delivers none that arrived in the future: such topics are silent
//! for as long as the clock was set back.

use std::time::{Duration, Instant, SystemTime};

/// The largest step back that adjusting a clock takes between two checks.
const TOLERANCE: Duration = Duration::from_millis(100);

/// The readings of both clocks at the last check.
pub(super) struct ClockWatch {
    wall: SystemTime,
    steady: Instant,
}

impl ClockWatch {
    /// Starts from now.
    pub fn new() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }

    /// By how much the clock was set back since the last check.
    pub fn check(&mut self) -> Option<Duration> {
        self.check_at(SystemTime::now(), Instant::now())
    }

    fn check_at(&mut self, wall: SystemTime, steady: Instant) -> Option<Duration> {
        let expected = self.wall + steady.duration_since(self.steady);
        *self = Self { wall, steady };
        expected.duration_since(wall).ok().filter(|back| *back > TOLERANCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_was_set_back_is_detected() {
        let mut watch = ClockWatch::new();
        let (wall, steady) = (watch.wall, watch.steady);
        let at = |seconds: f64| Duration::from_secs_f64(seconds);
        // (seconds on the system's clock, seconds that have passed, step back)
        let checks = [
            (1.0, 1.0, None),
            (1.95, 2.0, None),
            (100.0, 3.0, None),
            (98.5, 3.5, Some(2.0)),
            (99.0, 4.0, None),
        ];
        for (on_wall, passed, back) in checks {
            let found = watch.check_at(wall + at(on_wall), steady + at(passed));
            assert_eq!(found, back.map(at), "{on_wall}");
        }
    }
}
