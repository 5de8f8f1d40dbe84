//! The transforms of a live node: inserted by the middleware, looked up by the
//! channels.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nalgebra::Isometry3;

use crate::runtime::account::Reason;
use det_post_ros::calibration_files::{StaticTransform, read_transforms};
use det_post_ros::messages::TransformStamped;
use det_post_ros::tf::{TfBuffer, TfLosses};
use det_post_types::{Result, Stamp};

/// A TF buffer shared between threads. An insertion waits only for a lookup or
/// another insertion, each a matter of microseconds.
#[derive(Debug, Default)]
pub struct LiveTransforms {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    buffer: TfBuffer,
    num_inserted: u64,
    /// `num_inserted` at the last timeout of a lookup: no lookup waits again before
    /// the next transform arrives.
    timed_out_at: Option<u64>,
    refused: Option<Reason>,
}

/// Counts of transforms.
#[derive(Clone, Debug, Default)]
pub struct TransformAccount {
    /// Inserted.
    pub num_inserted: u64,
    /// Refused, with the reason of the first.
    pub refused: Option<Reason>,
    /// Lost due to full capacities.
    pub losses: TfLosses,
}

impl LiveTransforms {
    /// Inserts a transform, or counts its refusal.
    pub fn insert(&self, transform: &TransformStamped<'_>, is_static: bool) {
        let mut state = self.lock();
        match state.buffer.insert_message(transform, is_static) {
            Ok(()) => state.num_inserted += 1,
            Err(error) => note_refusal(&mut state, &error),
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Inserts the static transforms of a file. Those of the graph to the same frames replace
    /// them.
    ///
    /// # Errors
    /// Returns the errors of [`read_transforms`] and of [`TfBuffer::insert`].
    pub fn insert_file(&self, path: &Path) -> Result<()> {
        for StaticTransform { parent, child, parent_from_child } in read_transforms(path)? {
            let buffer = &mut self.lock().buffer;
            buffer.insert(&parent, &child, Stamp::default(), parent_from_child, true)?;
        }
        Ok(())
    }

    /// Counts a transform that did not decode.
    pub fn refuse(&self, error: &det_post_types::Error) {
        note_refusal(&mut self.lock(), error);
    }

    /// The transform `target_from_source` at `stamp`. Waits for it until `deadline`:
    /// a pose is often published after the sweep that it belongs to.
    ///
    /// # Errors
    /// Returns the errors of [`TfBuffer::lookup`].
    pub fn lookup(
        &self,
        target: &str,
        source: &str,
        stamp: Stamp,
        deadline: Instant,
    ) -> Result<Isometry3<f64>> {
        let mut state = self.lock();
        loop {
            let result = state.buffer.lookup(target, source, stamp);
            let left = deadline.saturating_duration_since(Instant::now());
            if result.is_ok() || state.timed_out_at == Some(state.num_inserted) {
                return result;
            }
            if left.is_zero() {
                state.timed_out_at = Some(state.num_inserted);
                return result;
            }
            let (woken, _) =
                self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = woken;
        }
    }

    /// Removes samples later than `stamp`, after the clock started over.
    pub fn forget_after(&self, stamp: Stamp) {
        self.lock().buffer.forget_after(stamp);
    }

    /// Counts of transforms.
    pub fn account(&self) -> TransformAccount {
        let state = self.lock();
        TransformAccount {
            num_inserted: state.num_inserted,
            refused: state.refused.clone(),
            losses: state.buffer.losses(),
        }
    }

    /// A panic leaves the buffer whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note_refusal(state: &mut State, error: &det_post_types::Error) {
    let refused = &mut state.refused;
    if refused.is_none() {
        tracing::warn!("transform refused: {error}");
    }
    refused.get_or_insert_with(|| Reason { count: 0, first: error.to_string() }).count += 1;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use det_post_types::Header;

    fn pose(seconds: i32) -> TransformStamped<'static> {
        TransformStamped {
            header: Header { stamp: Stamp::from_ros(seconds, 0), frame_id: "map" },
            child_frame_id: "lidar",
            translation: [1.0, 0.0, 0.0],
            rotation: [0.0, 0.0, 0.0, 1.0],
        }
    }

    #[test]
    fn a_late_pose_is_waited_for() {
        let transforms = LiveTransforms::default();
        transforms.insert(&pose(1), false);
        let at = Stamp::from_ros(1, 500_000_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                transforms.insert(&pose(2), false);
            });
            let deadline = Instant::now() + Duration::from_secs(10);
            assert!(transforms.lookup("map", "lidar", at, deadline).is_ok());
        });
    }

    #[test]
    fn after_a_timeout_lookups_do_not_wait_until_a_transform_arrives() {
        let transforms = LiveTransforms::default();
        let ask = || {
            let deadline = Instant::now() + Duration::from_millis(50);
            transforms.lookup("map", "lidar", Stamp::default(), deadline)
        };
        assert!(ask().is_err());
        let start = Instant::now();
        assert!((0..1000).all(|_| ask().is_err()));
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn lookups_of_a_frame_wait_together_until_its_deadline() {
        let transforms = LiveTransforms::default();
        let start = Instant::now();
        let deadline = start + Duration::from_millis(300);
        for second in 1..=20 {
            // Transforms of others arrive between the lookups.
            transforms.insert(&pose(second), false);
            assert!(transforms.lookup("map", "camera", Stamp::default(), deadline).is_err());
        }
        let waited = start.elapsed();
        assert!(
            waited >= Duration::from_millis(300) && waited < Duration::from_secs(3),
            "{waited:?}"
        );
    }

    #[test]
    fn refused_transforms_are_counted() {
        let transforms = LiveTransforms::default();
        transforms.insert(&TransformStamped { rotation: [0.0; 4], ..pose(1) }, false);
        transforms.insert(&TransformStamped { child_frame_id: "", ..pose(1) }, true);
        transforms.insert(&pose(1), false);
        let account = transforms.account();
        assert_eq!((account.num_inserted, account.refused.unwrap().count), (1, 2));
    }
}
