//! What the participant refuses or gives up, in the log.

use std::time::{Duration, Instant};

use det_post_rtps::Statistics;

/// How often the counters are read.
const PERIOD: Duration = Duration::from_secs(1);

/// A counter of the participant, and what its number counts.
type Counter = (fn(&Statistics) -> u64, &'static str);

/// Those that are reported. Losses of messages are events.
const REPORTED: [Counter; 7] = [
    (
        |of| of.forged,
        "datagrams in a peer's name from an address that it did not announce, ignored",
    ),
    (|of| of.participants_over_limit, "participants over the limit, refused or replaced"),
    (|of| of.endpoints_over_limit, "endpoints over the limit, refused or replaced"),
    (|of| of.matches_over_limit, "matches over the limit, refused"),
    (|of| of.samples_over_limit, "messages over the size limit, refused"),
    (|of| of.sends_dropped, "datagrams that could not be sent"),
    (|of| of.stalled, "reliable subscribers that confirmed nothing and are not waited for"),
];

/// What was reported so far.
#[derive(Default)]
pub(super) struct Counters {
    last: Option<Instant>,
    reported: [u64; REPORTED.len()],
}

impl Counters {
    /// Warns of counters that have grown, each at 1 and whenever it has doubled.
    pub fn check(&mut self, now: Instant, read: impl FnOnce() -> Statistics) {
        if self.last.is_some_and(|last| now.duration_since(last) < PERIOD) {
            return;
        }
        self.last = Some(now);
        for (count, text) in self.grown(&read()) {
            tracing::warn!("dds: {count} {text}");
        }
    }

    fn grown(&mut self, now: &Statistics) -> Vec<(u64, &'static str)> {
        let mut grown = Vec::new();
        for ((read, text), reported) in REPORTED.into_iter().zip(&mut self.reported) {
            let count = read(now);
            if count > 0 && count >= reported.saturating_mul(2) {
                *reported = count;
                grown.push((count, text));
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_reported_when_it_has_doubled() {
        let mut counters = Counters::default();
        let mut reported = |forged| {
            let grown = counters.grown(&Statistics { forged, ..Statistics::default() });
            grown.into_iter().map(|(count, _)| count).collect::<Vec<_>>()
        };
        for (count, expected) in [(0, None), (1, Some(1)), (1, None), (3, Some(3)), (5, None)] {
            assert_eq!(reported(count), Vec::from_iter(expected), "{count}");
        }
        assert_eq!(reported(u64::MAX), [u64::MAX]);
    }
}
