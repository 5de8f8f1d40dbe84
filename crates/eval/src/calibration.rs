//! Calibration of scores: of the detections with a score near s, a share of s
//! should be true positives.

use super::Scored;

/// Number of bins of scores: [0, 0.1), [0.1, 0.2), …, [0.9, 1].
pub const NUM_BINS: usize = 10;

/// The detections of one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Number of detections.
    pub num_detections: usize,
    /// Their mean score; `None` for an empty bin.
    pub mean_score: Option<f64>,
    /// The share of true positives; `None` for an empty bin.
    pub precision: Option<f64>,
}

/// A reliability diagram.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The bins in ascending order of score.
    pub bins: [Bin; NUM_BINS],
    /// Expected calibration error: the mean absolute difference of score and
    /// precision of the bins, weighted by their detections; `None` without detections.
    pub expected_error: Option<f64>,
}

/// The reliability diagram of evaluated detections. Scores outside 0 to 1 are no
/// probabilities, and left out.
pub fn calibration<'a>(scored: impl IntoIterator<Item = &'a Scored>) -> Calibration {
    let mut sums = [(0_usize, 0.0, 0_usize); NUM_BINS];
    for entry in scored.into_iter().filter(|entry| (0.0..=1.0).contains(&entry.score)) {
        let score = f64::from(entry.score);
        let (num, sum, num_true) =
            &mut sums[((score * NUM_BINS as f64) as usize).min(NUM_BINS - 1)];
        *num += 1;
        *sum += score;
        *num_true += usize::from(entry.is_right);
    }
    let total: usize = sums.iter().map(|(num, ..)| num).sum();
    let gaps: f64 = sums.iter().map(|&(_, sum, num_true)| (sum - num_true as f64).abs()).sum();
    let bins = sums.map(|(num_detections, sum, num_true)| {
        let share = |part: f64| (num_detections > 0).then(|| part / num_detections as f64);
        Bin { num_detections, mean_score: share(sum), precision: share(num_true as f64) }
    });
    Calibration { bins, expected_error: (total > 0).then(|| gaps / total as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_compared_with_precision() {
        let scored = [
            (0.95, true),
            (1.0, true),
            (0.91, false),
            (0.25, false),
            (-3.0, false),
            (1.5, true),
            (f32::NAN, true),
        ]
        .map(|(score, is_right)| Scored { score, is_right });
        let found = calibration(&scored);
        assert_eq!(found.bins.map(|bin| bin.num_detections), [0, 0, 1, 0, 0, 0, 0, 0, 0, 3]);
        assert!((found.bins[9].mean_score.unwrap() - 2.86 / 3.0).abs() < 1e-6);
        assert!((found.bins[9].precision.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(found.bins[1], Bin::default());
        let expected = (0.25 + 0.86) / 4.0;
        assert!((found.expected_error.unwrap() - expected).abs() < 1e-6, "{found:?}");
        assert_eq!(calibration(&[]).expected_error, None);
    }
}
