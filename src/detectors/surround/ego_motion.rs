//! The motion of the vehicle between consecutive frames.

use std::time::Duration;

use nalgebra::Isometry3;

use det_post_types::{Count, FrameReport, Stamp};

/// The time and the pose of the previous frame, for heads with a memory.
#[derive(Debug, Default)]
pub struct EgoMotion {
    previous: Option<(Stamp, Isometry3<f64>)>,
}

/// The relation of a frame to the previous one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// It has no previous frame: the memory is empty.
    First,
    /// It follows the previous frame.
    Next {
        /// Points of the previous target frame to points of the current one.
        current_from_previous: Isometry3<f64>,
        /// The time since the previous frame, above 0.
        elapsed: Duration,
    },
}

impl EgoMotion {
    /// The step to a frame. A gap above `max_gap` ends the sequence, which is counted.
    pub fn step(
        &self,
        stamp: Stamp,
        world_from_target: &Isometry3<f64>,
        max_gap: Duration,
        report: &mut FrameReport,
    ) -> Step {
        let Some((then, world_from_previous)) = &self.previous else { return Step::First };
        let nanos = stamp.nanos().saturating_sub(then.nanos());
        let elapsed = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
        if elapsed.is_zero() || elapsed > max_gap {
            report.add_count(Count::MemoryCleared, 1);
            return Step::First;
        }
        let current_from_previous = world_from_target.inv_mul(world_from_previous);
        Step::Next { current_from_previous, elapsed }
    }

    /// Ends the step: the frame is in the memory.
    pub fn commit(&mut self, stamp: Stamp, world_from_target: Isometry3<f64>) {
        self.previous = Some((stamp, world_from_target));
    }

    /// Forgets the previous frame.
    pub fn reset(&mut self) {
        self.previous = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_relative_and_gaps_end_a_sequence() {
        let max_gap = Duration::from_millis(500);
        let mut motion = EgoMotion::default();
        let mut report = FrameReport::new();
        let pose = |x: f64| Isometry3::translation(1e6 + x, -2e6, 0.0);
        let stamp = |ms: i64| Stamp::from_nanos(ms * 1_000_000);
        assert_eq!(motion.step(stamp(0), &pose(0.0), max_gap, &mut report), Step::First);
        motion.commit(stamp(0), pose(0.0));
        let Step::Next { current_from_previous, elapsed } =
            motion.step(stamp(100), &pose(1.5), max_gap, &mut report)
        else {
            panic!("a step of 100 ms");
        };
        assert_eq!(elapsed, Duration::from_millis(100));
        // What was at the origin is now behind.
        assert!((current_from_previous.translation.x + 1.5).abs() < 1e-9);
        assert!(matches!(
            motion.step(stamp(500), &pose(1.5), max_gap, &mut report),
            Step::Next { .. }
        ));
        assert_eq!(report.count(Count::MemoryCleared), 0);
        for at in [501, 0, -5] {
            let step = motion.step(stamp(at), &pose(1.5), max_gap, &mut report);
            assert_eq!(step, Step::First, "{at} ms");
        }
        assert_eq!(report.count(Count::MemoryCleared), 3);
        motion.reset();
        assert_eq!(motion.step(stamp(1), &pose(0.0), max_gap, &mut report), Step::First);
        assert_eq!(report.count(Count::MemoryCleared), 3);
    }
}
