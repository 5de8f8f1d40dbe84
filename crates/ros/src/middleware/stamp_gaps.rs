//! Estimates of missing messages from the gaps between stamps.

use std::collections::VecDeque;

use det_post_types::Stamp;

/// Number of intervals that the period is estimated from.
const MAX_INTERVALS: usize = 32;

/// Number of intervals from which on gaps are counted.
const MIN_INTERVALS: usize = 8;

/// An interval is a gap from this multiple of the period on.
const GAP_PERIODS: f64 = 1.5;

/// A longer interval is a pause of the publisher, not a gap: 10 s.
const PAUSE_NS: i64 = 10_000_000_000;

/// Estimates how many messages of a periodic topic are missing, for
/// middlewares that do not count lost messages.
///
/// The period is the 12.5th percentile of the last 32 intervals: close to the
/// publisher's even where most messages are lost, and robust to a few stamps that
/// are close together. An interval of at least one and a half periods counts as
/// its number of periods, rounded, less one. Stamps that repeat or decrease and
/// pauses of more than 10 s count nothing; after a decrease or a pause the
/// period is estimated again. Messages that the publisher skips cannot be
/// distinguished from lost ones.
#[derive(Clone, Debug, Default)]
pub struct StampGaps {
    last: Option<Stamp>,
    intervals_ns: VecDeque<i64>,
}

impl StampGaps {
    /// Adds the stamp of a message. Returns the number of messages that are missing
    /// between the last one and this one.
    pub fn note(&mut self, stamp: Stamp) -> u64 {
        let last = self.last.replace(stamp);
        let Some(last) = last else { return 0 };
        let interval_ns = stamp.nanos().saturating_sub(last.nanos());
        if interval_ns == 0 {
            return 0;
        }
        if !(1..PAUSE_NS).contains(&interval_ns) {
            self.intervals_ns.clear();
            return 0;
        }
        let missing = self.period_ns().map_or(0, |period_ns| {
            let num_periods = interval_ns as f64 / period_ns as f64;
            if num_periods < GAP_PERIODS { 0 } else { num_periods.round() as u64 - 1 }
        });
        if self.intervals_ns.len() == MAX_INTERVALS {
            self.intervals_ns.pop_front();
        }
        self.intervals_ns.push_back(interval_ns);
        missing
    }

    fn period_ns(&self) -> Option<i64> {
        let mut sorted: Vec<i64> = self.intervals_ns.iter().copied().collect();
        sorted.sort_unstable();
        let enough = sorted.len() >= MIN_INTERVALS;
        sorted.get(sorted.len() / 8).copied().filter(|_| enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Total of missing messages, for stamps in milliseconds.
    fn missing(stamps_ms: impl IntoIterator<Item = i64>) -> u64 {
        let mut gaps = StampGaps::default();
        stamps_ms.into_iter().map(|ms| gaps.note(Stamp::from_nanos(ms * 1_000_000))).sum()
    }

    #[test]
    fn gaps_of_a_periodic_topic_are_counted() {
        let every = |period_ms: i64| (0..200).map(move |number| number * period_ms);
        assert_eq!(missing(every(33)), 0);
        assert_eq!(missing(every(33).filter(|ms| ms / 33 != 50)), 1);
        assert_eq!(missing(every(100).filter(|ms| !(5_000..8_000).contains(ms))), 30);
        // An interval of a third more or less is jitter.
        assert_eq!(missing(every(100).map(|ms| ms + [0, 15, 3, 12][(ms / 100 % 4) as usize])), 0);
        // Two stamps close together, now and then.
        assert_eq!(
            missing(
                every(100)
                    .flat_map(|ms| [ms, ms + 1].into_iter().take(1 + usize::from(ms % 2_000 == 0)))
            ),
            0
        );
    }

    #[test]
    fn most_messages_may_be_missing() {
        // 42 of 240 arrived, as measured with default buffers: about every sixth.
        let mut random = 12_345_u64;
        let came: Vec<i64> = (0..2_400)
            .filter(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % 240 < 42
            })
            .map(|number| number * 33)
            .collect();
        let expected = 2_400 - came.len() as u64;
        let found = missing(came);
        assert!(found > expected * 3 / 4 && found <= expected, "{found} of {expected}");
    }

    #[test]
    fn pauses_restarts_and_few_messages_count_nothing() {
        assert_eq!(missing([0, 100, 900, 1_000]), 0, "no period is known");
        let steady = (0..20).map(|number| number * 100);
        let later = |start: i64| steady.clone().map(move |ms| ms + start);
        assert_eq!(missing(steady.clone().chain(later(60_000))), 0, "a pause");
        assert_eq!(missing(later(60_000).chain(steady.clone())), 0, "a restart");
        assert_eq!(missing(std::iter::repeat_n(5, 50)), 0, "one stamp");
        let slower = (0..60).map(|number| 2_000 + number * 500);
        assert!(missing(steady.chain(slower)) < 4 * 32, "another period is learnt");
        assert_eq!(missing([i64::MIN / 1_000_000, i64::MAX / 1_000_000, 0]), 0);
    }
}
