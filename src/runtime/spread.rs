//! The distribution of signed times.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The largest time that the median tells apart, in microseconds.
const MAX_MICROS: u64 = 3_600_000_000;

/// The number of times, their exact extremes and their median.
#[derive(Clone, Debug)]
pub struct Spread {
    /// Magnitudes of times below 0 and of the others, in microseconds; `None` until the first
    /// time.
    sides: Option<[Histogram<u32>; 2]>,
    min_ns: i64,
    max_ns: i64,
}

/// A distribution of times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpreadSummary {
    /// The least.
    pub min: f64,
    /// The median, to 1 % or 1 us.
    pub median: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// No times.
    pub fn new() -> Self {
        Self { sides: None, min_ns: i64::MAX, max_ns: i64::MIN }
    }

    /// Adds a time in nanoseconds.
    pub fn add(&mut self, nanos: i64) {
        if self.sides.is_none() {
            // Fails for bounds that do not fit each other only.
            let side = || Histogram::new_with_bounds(1, MAX_MICROS, 2).ok();
            self.sides = side().zip(side()).map(<[_; 2]>::from);
        }
        self.min_ns = self.min_ns.min(nanos);
        self.max_ns = self.max_ns.max(nanos);
        if let Some(sides) = &mut self.sides {
            let micros = Duration::from_nanos(nanos.unsigned_abs()).as_micros();
            let micros = u64::try_from(micros).unwrap_or(MAX_MICROS).min(MAX_MICROS);
            sides[usize::from(nanos >= 0)].saturating_record(micros);
        }
    }

    /// Adds the times of another distribution.
    pub fn merge(&mut self, other: &Self) {
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        match (&mut self.sides, &other.sides) {
            (Some(mine), Some(theirs)) => {
                for (mine, theirs) in mine.iter_mut().zip(theirs) {
                    // The bounds are equal, so that all values are within them.
                    let _ = mine.add(theirs);
                }
            }
            (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
            (_, None) => {}
        }
    }

    /// Removes all times; keeps the memory.
    pub fn reset(&mut self) {
        self.sides.iter_mut().flatten().for_each(Histogram::reset);
        (self.min_ns, self.max_ns) = (i64::MAX, i64::MIN);
    }

    /// The summary; `None` without times.
    pub fn summary(&self) -> Option<SpreadSummary> {
        let [negative, others] = self.sides.as_ref()?;
        let num = negative.len() + others.len();
        if num == 0 {
            return None;
        }
        // Of an even number, the lower of the two in the middle.
        let rank = num.div_ceil(2);
        // Between two ranks: a quotient that is rounded up is not the next rank.
        let at = |side: &Histogram<u32>, rank: u64| {
            side.value_at_quantile((rank as f64 - 0.5) / side.len() as f64) as f64 / 1e3
        };
        let median = match rank.checked_sub(negative.len()) {
            // Magnitudes below 0 are in the reverse order.
            None | Some(0) => -at(negative, negative.len() - rank + 1),
            Some(rank) => at(others, rank),
        };
        let [min, max] = [self.min_ns, self.max_ns].map(|nanos| nanos as f64 / 1e6);
        Some(SpreadSummary { min, median: median.clamp(min, max), max })
    }
}

impl Default for Spread {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(millis: &[i64]) -> Spread {
        let mut spread = Spread::new();
        millis.iter().for_each(|ms| spread.add(ms * 1_000_000));
        spread
    }

    #[test]
    fn the_median_is_that_of_the_sorted_times() {
        assert_eq!(Spread::new().summary(), None);
        for (times, [min, median, max]) in [
            (&[7][..], [7.0; 3]),
            (&[-7], [-7.0; 3]),
            (&[0, 0, 0], [0.0; 3]),
            (&[-20, -10, 30], [-20.0, -10.0, 30.0]),
            (&[-20, 10, 30], [-20.0, 10.0, 30.0]),
            (&[-20, -10, 30, 40], [-20.0, -10.0, 40.0]),
            (&[-40, -30, -20, -10], [-40.0, -30.0, -10.0]),
            (&[5, -5, 15, -15, 25], [-15.0, 5.0, 25.0]),
            (
                &[i64::MIN / 1_000_000, 0, i64::MAX / 1_000_000],
                [-9_223_372_036_854.0, 0.0, 9_223_372_036_854.0],
            ),
        ] {
            let found = spread(times).summary().unwrap();
            assert!((found.min - min).abs() <= 1e-3 * min.abs(), "{times:?} {found:?}");
            assert!(
                (found.median - median).abs() <= 0.01 * median.abs() + 1e-3,
                "{times:?} {found:?}"
            );
            assert!((found.max - max).abs() <= 1e-3 * max.abs(), "{times:?} {found:?}");
        }
    }

    #[test]
    fn the_median_of_any_number_of_times_is_the_one_in_the_middle() {
        for num in 1..=300 {
            let times: Vec<i64> = (1..=num).map(|n| 2 * n).collect();
            let reversed: Vec<i64> = times.iter().map(|ms| -ms).collect();
            for (times, exact) in [(times, num + num % 2), (reversed, -(num + 2 - num % 2))] {
                let median = spread(&times).summary().unwrap().median;
                let error = (median - exact as f64).abs();
                assert!(error <= 0.01 * exact.abs() as f64 + 1e-3, "{num} times: {median}");
            }
        }
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let mut sum = Spread::new();
        let mut part = spread(&[-3, 1]);
        sum.merge(&Spread::new());
        sum.merge(&part);
        part.reset();
        assert_eq!(part.summary(), None);
        sum.merge(&part);
        part.add(9_000_000);
        sum.merge(&part);
        assert_eq!(sum.summary(), spread(&[-3, 1, 9]).summary());
    }
}
