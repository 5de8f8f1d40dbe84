//! The time of the node: the system's, or that of `/clock`.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::types::Stamp;

/// No `/clock` message has come yet.
const UNSET: i64 = i64::MIN;

/// What time it is, for ages of frames and stamps of the node's own messages.
/// How long things take is measured otherwise.
#[derive(Debug)]
pub struct NodeClock {
    is_simulated: bool,
    simulated_ns: AtomicI64,
    num_jumps: AtomicU64,
    num_jumps_told: AtomicU64,
}

impl NodeClock {
    /// The system's clock, or one that [`NodeClock::set`] moves.
    pub fn new(is_simulated: bool) -> Self {
        let simulated_ns = AtomicI64::new(UNSET);
        let [num_jumps, num_jumps_told] = [0, 0].map(AtomicU64::new);
        Self { is_simulated, simulated_ns, num_jumps, num_jumps_told }
    }

    /// Whether it is moved by `/clock`.
    pub fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// Takes the time of a `/clock` message. When it goes back, returns how
    /// often it did so far.
    pub fn set(&self, now: Stamp) -> Option<u64> {
        let before = self.simulated_ns.swap(now.nanos(), Ordering::Relaxed);
        let goes_back = before != UNSET && now.nanos() < before;
        goes_back.then(|| self.num_jumps.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// How often `/clock` went back.
    pub fn num_jumps(&self) -> u64 {
        self.num_jumps.load(Ordering::Relaxed)
    }

    /// How often `/clock` went back since this was last asked.
    pub fn num_new_jumps(&self) -> u64 {
        let num_jumps = self.num_jumps();
        num_jumps - self.num_jumps_told.swap(num_jumps, Ordering::Relaxed)
    }

    /// The time; `None` before the first `/clock` message.
    pub fn now(&self) -> Option<Stamp> {
        if !self.is_simulated {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            return Some(Stamp::from_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)));
        }
        match self.simulated_ns.load(Ordering::Relaxed) {
            UNSET => None,
            nanos => Some(Stamp::from_nanos(nanos)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_is_unknown_until_it_is_told() {
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
