//! The transforms of a live node: inserted by the middleware, looked up by the
//! channels.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nalgebra::Isometry3;

use crate::runtime::account::Reason;
use det_post_ros::calibration_files::{StaticTransform, read_transforms};
use det_post_ros::messages::{TransformStamped, VehicleMotion};
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
    waits: Waits,
    refused: Option<Reason>,
}

/// Transforms flow while the last one arrived within this time.
const FLOWING: Duration = Duration::from_secs(1);

/// The most pairs of frames whose lookups timed out that are known, the newest.
const MAX_TIMED_OUT: usize = 64;

/// How long lookups wait. A state machine without a clock.
///
/// While transforms flow, every lookup waits until its deadline. While none arrive, a lookup
/// between two frames times out once, and does not wait again before the next transform.
#[derive(Debug, Default)]
struct Waits {
    num_inserted: u64,
    /// When the last one was inserted.
    inserted_at: Option<Instant>,
    timed_out: VecDeque<TimedOut>,
}

#[derive(Debug)]
struct TimedOut {
    target: String,
    source: String,
    /// `num_inserted` then.
    num_inserted: u64,
}

impl Waits {
    fn note_inserted(&mut self, now: Instant) {
        self.num_inserted += 1;
        self.inserted_at = Some(now);
    }

    /// How long a lookup that failed waits for the next transform; 0 when its error is final.
    fn left(&mut self, target: &str, source: &str, now: Instant, deadline: Instant) -> Duration {
        let left = deadline.saturating_duration_since(now);
        let inserted_ago = self.inserted_at.map(|at| now.saturating_duration_since(at));
        if inserted_ago.is_some_and(|ago| ago < FLOWING) {
            return left;
        }
        let num_inserted = self.num_inserted;
        let known = self.timed_out.iter_mut().find(|of| of.target == target && of.source == source);
        match known {
            Some(known) if known.num_inserted == num_inserted => return Duration::ZERO,
            Some(known) if left.is_zero() => known.num_inserted = num_inserted,
            None if left.is_zero() => {
                if self.timed_out.len() == MAX_TIMED_OUT {
                    self.timed_out.pop_front();
                }
                let (target, source) = (target.to_owned(), source.to_owned());
                self.timed_out.push_back(TimedOut { target, source, num_inserted });
            }
            _ => {}
        }
        left
    }
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
        self.insert_by(|buffer| buffer.insert_message(transform, is_static));
    }

    /// Inserts a message of the vehicle's motion on a topic, or counts its refusal.
    pub fn insert_motion(&self, topic: &str, message: &VehicleMotion<'_>) {
        self.insert_by(|buffer| buffer.insert_motion(topic, message));
    }

    fn insert_by(&self, insert: impl FnOnce(&mut TfBuffer) -> Result<()>) {
        let mut state = self.lock();
        match insert(&mut state.buffer) {
            Ok(()) => state.waits.note_inserted(Instant::now()),
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
            if result.is_ok() {
                return result;
            }
            let left = state.waits.left(target, source, Instant::now(), deadline);
            if left.is_zero() {
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
            num_inserted: state.waits.num_inserted,
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

    const MS: Duration = Duration::from_millis(1);

    fn stamp(ms: u32) -> Stamp {
        Stamp::from_nanos(i64::from(ms) * 1_000_000)
    }

    /// Sweeps and poses in virtual time: a thread takes the newest sweep when it is free, as in
    /// a live channel. Both are milliseconds of arrival and stamp. Returns the stamps of the
    /// sweeps that were processed, and whether with their pose.
    fn run(sweeps: &[(u32, u32)], poses: &[(u32, u32)], wait: Duration) -> Vec<(u32, bool)> {
        let (start, mut buffer, mut waits) =
            (Instant::now(), TfBuffer::default(), Waits::default());
        let mut poses = poses.to_vec();
        poses.sort_unstable();
        let mut poses = poses.into_iter().peekable();
        let (mut found, mut free) = (Vec::new(), 0);
        for (index, &(arrived, at)) in sweeps.iter().enumerate() {
            let begun = arrived.max(free);
            let is_overtaken = sweeps.get(index + 1).is_some_and(|(next, _)| *next <= begun);
            if is_overtaken {
                continue;
            }
            let (mut now, deadline) = (begun, start + begun * MS + wait);
            loop {
                while let Some((arrived, pose)) = poses.next_if(|(arrived, _)| *arrived <= now) {
                    let is_moved = Isometry3::translation(f64::from(pose), 0.0, 0.0);
                    buffer.insert("map", "lidar", stamp(pose), is_moved, false).unwrap();
                    waits.note_inserted(start + arrived * MS);
                }
                let pose = buffer.lookup("map", "lidar", stamp(at));
                if let Ok(pose) = &pose {
                    assert!((pose.translation.x - f64::from(at)).abs() < 1e-6, "{at}: {pose}");
                }
                let left = waits.left("map", "lidar", start + now * MS, deadline);
                if pose.is_ok() || left.is_zero() {
                    found.push((at, pose.is_ok()));
                    break;
                }
                let next = poses.peek().map_or(u32::MAX, |(arrived, _)| *arrived);
                now = next.min(now + left.as_millis() as u32);
            }
            free = now + 1;
        }
        found
    }

    #[test]
    fn every_order_of_sweeps_and_poses_within_the_wait_gives_every_pose() {
        let sweeps: Vec<_> = (0..40).map(|k| (k * 100 + 1, k * 100)).collect();
        let mut random = det_post_testing::random::Random::new(12);
        for latest in [0, 1, 30, 95] {
            for _ in 0..200 {
                let poses: Vec<_> = (0..40)
                    .map(|k| (k * 100 + 1 + random.below(latest as usize + 1) as u32, k * 100))
                    .collect();
                let found = run(&sweeps, &poses, 100 * MS);
                assert!(found.iter().all(|(_, is_known)| *is_known), "{poses:?}: {found:?}");
                assert_eq!(found.len(), 40, "{poses:?}");
            }
        }
    }

    #[test]
    fn one_late_pose_costs_one_sweep() {
        let sweeps: Vec<_> = (0..20).map(|k| (k * 100, k * 100)).collect();
        // The fifth comes after the next sweep; that one waits for its own all the same.
        let late = |k: u32| if k == 4 { 540 } else { k * 100 + 50 };
        let poses: Vec<_> = (0..20).map(|k| (late(k), k * 100)).collect();
        let found = run(&sweeps, &poses, 100 * MS);
        let unknown: Vec<_> = found.iter().filter(|(_, is_known)| !is_known).collect();
        assert_eq!(unknown, [&(400, false)]);
        assert_eq!(found.len(), 20);
    }

    #[test]
    fn sweeps_between_poses_need_a_wait_of_their_period() {
        // A sweep 10 ms after a pose waits for the next one, 90 ms after itself, and 30 ms longer.
        let sweeps: Vec<_> = (1..20).map(|k| (k * 200 + 10, k * 200 + 10)).collect();
        let poses: Vec<_> = (0..50).map(|k| (k * 100 + 30, k * 100)).collect();
        let num_known = |wait| run(&sweeps, &poses, wait).iter().filter(|(_, ok)| *ok).count();
        assert_eq!((num_known(100 * MS), num_known(130 * MS)), (0, 19));
    }

    #[test]
    fn lookups_without_transforms_do_not_make_others_wait_less() {
        let (start, mut waits) = (Instant::now(), Waits::default());
        let after = |ms: u32| start + ms * MS;
        waits.note_inserted(start);
        // Nothing has arrived for 5 s. A channel whose frame nothing publishes times out.
        assert_eq!(waits.left("map", "lidar_b", after(5000), after(5100)), 100 * MS);
        assert_eq!(waits.left("map", "lidar_b", after(5100), after(5100)), Duration::ZERO);
        assert_eq!(waits.left("map", "lidar_b", after(5100), after(5200)), Duration::ZERO);
        assert_eq!(waits.left("map", "lidar_a", after(5100), after(5200)), 100 * MS);
        // Once transforms arrive again, all wait.
        waits.note_inserted(after(5150));
        assert_eq!(waits.left("map", "lidar_b", after(5160), after(5200)), 40 * MS);
        // Any number of frames is bounded.
        for frame in 0..1000 {
            let _ = waits.left("map", &frame.to_string(), after(9000), after(9000));
        }
        assert_eq!(waits.timed_out.len(), MAX_TIMED_OUT);
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
