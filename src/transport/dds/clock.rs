//! Notices that the system's clock was set back.
//!
//! The participant orders best-effort messages by the time of their arrival on
//! that clock, and shows none that arrived later than now: for as long as the
//! clock was set back, such topics are silent.

use std::time::{Duration, Instant, SystemTime};

/// What adjusting a clock may do between two looks.
const TOLERANCE: Duration = Duration::from_millis(100);

/// Both clocks as they were last looked at.
pub(super) struct ClockWatch {
    wall: SystemTime,
    steady: Instant,
}

impl ClockWatch {
    /// Watches from now on.
    pub fn new() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }

    /// By how much the clock was set back since the last look.
    pub fn look(&mut self) -> Option<Duration> {
        self.look_at(SystemTime::now(), Instant::now())
    }

    fn look_at(&mut self, wall: SystemTime, steady: Instant) -> Option<Duration> {
        let expected = self.wall + steady.duration_since(self.steady);
        *self = Self { wall, steady };
        expected.duration_since(wall).ok().filter(|back| *back > TOLERANCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_was_set_back_is_noticed() {
        let mut watch = ClockWatch::new();
        let (wall, steady) = (watch.wall, watch.steady);
        let at = |seconds: f64| Duration::from_secs_f64(seconds);
        // (seconds on the wall's clock, seconds that have passed, by how much)
        let looks = [
            (1.0, 1.0, None),
            (1.95, 2.0, None),
            (100.0, 3.0, None),
            (98.5, 3.5, Some(2.0)),
            (99.0, 4.0, None),
        ];
        for (on_wall, passed, back) in looks {
            let found = watch.look_at(wall + at(on_wall), steady + at(passed));
            assert_eq!(found, back.map(at), "{on_wall}");
        }
    }
}
