//! The transforms of a live node: filled by the middleware, asked by the channels.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nalgebra::Isometry3;

use crate::error::Result;
use crate::runtime::account::Reason;
use crate::transport::messages::TransformStamped;
use crate::transport::tf::{TfBuffer, TfLosses};
use crate::types::Stamp;

/// A TF buffer that threads share. Inserting waits for nothing but a lookup or
/// another insertion, each a matter of microseconds.
#[derive(Debug, Default)]
pub struct LiveTransforms {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    buffer: TfBuffer,
    num_taken: u64,
    /// `num_taken` when a channel last waited in vain: nobody waits again
    /// before something arrives.
    in_vain_at: Option<u64>,
    refused: Option<Reason>,
}

/// What became of the transforms so far.
#[derive(Clone, Debug, Default)]
pub struct TransformAccount {
    /// Taken in.
    pub num_taken: u64,
    /// Not taken in, and why the first was not.
    pub refused: Option<Reason>,
    /// Lost for want of room.
    pub losses: TfLosses,
}

impl LiveTransforms {
    /// Takes in a transform that arrived, or counts why not.
    pub fn insert(&self, transform: &TransformStamped<'_>, is_static: bool) {
        let mut state = self.lock();
        match state.buffer.insert_message(transform, is_static) {
            Ok(()) => state.num_taken += 1,
            Err(error) => note_refusal(&mut state, &error),
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Counts a transform that did not decode.
    pub fn refuse(&self, error: &crate::error::Error) {
        note_refusal(&mut self.lock(), error);
    }

    /// The transform `target_from_source` at `stamp`, for which a channel waits
    /// as long as `patience`: a pose is often published after the sweep it
    /// belongs to.
    ///
    /// # Errors
    /// Those of [`TfBuffer::lookup`].
    pub fn lookup(
        &self,
        target: &str,
        source: &str,
        stamp: Stamp,
        patience: Duration,
    ) -> Result<Isometry3<f64>> {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        loop {
            let result = state.buffer.lookup(target, source, stamp);
            let left = deadline.saturating_duration_since(Instant::now());
            if result.is_ok() || state.in_vain_at == Some(state.num_taken) {
                return result;
            }
            if left.is_zero() {
                state.in_vain_at = Some(state.num_taken);
                return result;
            }
            let (woken, _) =
                self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = woken;
        }
    }

    /// Forgets what is later than `stamp`: the clock started over.
    pub fn forget_after(&self, stamp: Stamp) {
        self.lock().buffer.forget_after(stamp);
    }

    /// What became of the transforms so far.
    pub fn account(&self) -> TransformAccount {
        let state = self.lock();
        TransformAccount {
            num_taken: state.num_taken,
            refused: state.refused.clone(),
            losses: state.buffer.losses(),
        }
    }

    /// The buffer is whole whenever the lock is free.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note_refusal(state: &mut State, error: &crate::error::Error) {
    let refused = &mut state.refused;
    if refused.is_none() {
        tracing::warn!("a transform is left out: {error}");
    }
    refused.get_or_insert_with(|| Reason { count: 0, first: error.to_string() }).count += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Header;

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
            assert!(transforms.lookup("map", "lidar", at, Duration::from_secs(10)).is_ok());
        });
    }

    #[test]
    fn nobody_waits_twice_for_a_stream_that_is_silent() {
        let transforms = LiveTransforms::default();
        let ask = || transforms.lookup("map", "lidar", Stamp::default(), Duration::from_millis(50));
        assert!(ask().is_err());
        let start = Instant::now();
        assert!((0..1000).all(|_| ask().is_err()));
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let transforms = LiveTransforms::default();
        transforms.insert(&TransformStamped { rotation: [0.0; 4], ..pose(1) }, false);
        transforms.insert(&TransformStamped { child_frame_id: "", ..pose(1) }, true);
        transforms.insert(&pose(1), false);
        let account = transforms.account();
        assert_eq!((account.num_taken, account.refused.unwrap().count), (1, 2));
    }
}
