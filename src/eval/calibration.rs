//! How far scores can be believed: of the detections with a score about s, a
//! share of s should be right.

use super::Scored;

/// Ranges of scores: [0, 0.1), [0.1, 0.2), …, [0.9, 1].
pub const NUM_BINS: usize = 10;

/// The detections of one range of scores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// How many there are.
    pub num_detections: usize,
    /// Their mean score; `None` without any.
    pub mean_score: Option<f64>,
    /// The share of them that is right; `None` without any.
    pub precision: Option<f64>,
}

/// A reliability diagram.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// By range of scores, from low to high.
    pub bins: [Bin; NUM_BINS],
    /// Expected calibration error: the mean gap between score and precision of
    /// the bins, weighed by their detections; `None` without any.
    pub expected_error: Option<f64>,
}

/// Sorts detections that count into bins by their scores; scores outside 0 to
/// 1 go to the first and the last.
pub fn calibration<'a>(scored: impl IntoIterator<Item = &'a Scored>) -> Calibration {
    let mut sums = [(0_usize, 0.0, 0_usize); NUM_BINS];
    for entry in scored {
        let score = f64::from(entry.score);
        let (num, sum, num_right) =
            &mut sums[((score * NUM_BINS as f64) as usize).min(NUM_BINS - 1)];
        *num += 1;
        *sum += score;
        *num_right += usize::from(entry.is_right);
    }
    let total: usize = sums.iter().map(|(num, ..)| num).sum();
    let gaps: f64 = sums.iter().map(|&(_, sum, num_right)| (sum - num_right as f64).abs()).sum();
    let bins = sums.map(|(num_detections, sum, num_right)| {
        let share = |part: f64| (num_detections > 0).then(|| part / num_detections as f64);
        Bin { num_detections, mean_score: share(sum), precision: share(num_right as f64) }
    });
    Calibration { bins, expected_error: (total > 0).then(|| gaps / total as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_compared_with_what_came_true() {
        let scored = [(0.95, true), (1.0, true), (0.91, false), (0.25, false), (-3.0, false)]
            .map(|(score, is_right)| Scored { score, is_right });
        let found = calibration(&scored);
        assert_eq!(found.bins.map(|bin| bin.num_detections), [1, 0, 1, 0, 0, 0, 0, 0, 0, 3]);
        assert!((found.bins[9].mean_score.unwrap() - 2.86 / 3.0).abs() < 1e-6);
        assert!((found.bins[9].precision.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(found.bins[1], Bin::default());
        let expected = (3.0 + 0.25 + 0.86) / 5.0;
        assert!((found.expected_error.unwrap() - expected).abs() < 1e-6, "{found:?}");
        assert_eq!(calibration(&[]).expected_error, None);
    }
}
