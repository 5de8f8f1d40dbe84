//! The clock of the node: the system's, or `/clock`.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use det_post_types::Stamp;

/// The value before the first `/clock` message.
const UNSET: i64 = i64::MIN;

/// The clock for ages of frames and stamps of the node's own messages. Durations
/// are measured by a monotonic clock instead.
#[derive(Debug)]
pub struct NodeClock {
    is_simulated: bool,
    simulated_ns: AtomicI64,
    num_jumps: AtomicU64,
    num_jumps_reported: AtomicU64,
}

impl NodeClock {
    /// The system's clock, or a simulated one, set by [`NodeClock::set`].
    pub fn new(is_simulated: bool) -> Self {
        if let Some(warning) = warning_of(SystemTime::now()).filter(|_| !is_simulated) {
            tracing::warn!("{warning}");
        }
        let simulated_ns = AtomicI64::new(UNSET);
        let [num_jumps, num_jumps_reported] = [0, 0].map(AtomicU64::new);
        Self { is_simulated, simulated_ns, num_jumps, num_jumps_reported }
    }

    /// Whether `/clock` sets the time.
    pub fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// Sets the time of a `/clock` message. If it jumps back, returns the number of
    /// such jumps so far.
    pub fn set(&self, now: Stamp) -> Option<u64> {
        let before = self.simulated_ns.swap(now.nanos(), Ordering::Relaxed);
        let goes_back = before != UNSET && now.nanos() < before;
        goes_back.then(|| self.num_jumps.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Number of backward jumps of `/clock`.
    pub fn num_jumps(&self) -> u64 {
        self.num_jumps.load(Ordering::Relaxed)
    }

    /// Number of backward jumps since the last call.
    pub fn num_new_jumps(&self) -> u64 {
        let num_jumps = self.num_jumps();
        num_jumps - self.num_jumps_reported.swap(num_jumps, Ordering::Relaxed)
    }

    /// The time; `None` before the first `/clock` message.
    pub fn now(&self) -> Option<Stamp> {
        if !self.is_simulated {
            return Some(stamp_of(SystemTime::now()));
        }
        match self.simulated_ns.load(Ordering::Relaxed) {
            UNSET => None,
            nanos => Some(Stamp::from_nanos(nanos)),
        }
    }
}

/// What is wrong with a time of the system's clock.
fn warning_of(now: SystemTime) -> Option<&'static str> {
    (now < UNIX_EPOCH).then_some(
        "the clock of this machine is before 1970: ages of messages and stamps of diagnostics are wrong; set it",
    )
}

/// A time as a stamp, which is negative before 1970.
fn stamp_of(time: SystemTime) -> Stamp {
    let nanos = |of: Duration| i64::try_from(of.as_nanos()).unwrap_or(i64::MAX);
    Stamp::from_nanos(match time.duration_since(UNIX_EPOCH) {
        Ok(since) => nanos(since),
        Err(before) => -nanos(before.duration()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_negative() {
        let second = Duration::from_secs(1);
        assert_eq!(stamp_of(UNIX_EPOCH + second), Stamp::from_nanos(1_000_000_000));
        assert_eq!(stamp_of(UNIX_EPOCH - second), Stamp::from_nanos(-1_000_000_000));
        assert!(warning_of(UNIX_EPOCH - second).is_some_and(|text| text.contains("before 1970")));
        assert_eq!(warning_of(UNIX_EPOCH), None);
    }

    #[test]
    fn simulated_time_is_unknown_until_it_is_set() {
        let clock = NodeClock::new(true);
        assert_eq!(clock.now(), None);
        for (seconds, num_jumps, jump) in
            [(5, 0, None), (5, 0, None), (6, 0, None), (1, 1, Some(1)), (2, 1, None)]
        {
            assert_eq!(clock.set(Stamp::from_ros(seconds, 0)), jump);
            assert_eq!(clock.num_new_jumps(), u64::from(jump.is_some()));
            assert_eq!(
                (clock.now(), clock.num_jumps()),
                (Some(Stamp::from_ros(seconds, 0)), num_jumps)
            );
        }
        assert!(NodeClock::new(false).now().unwrap() > Stamp::from_ros(1_600_000_000, 0));
    }
}
