//! Score thresholds in logit space: what is turned away costs no exponential.

/// The score of a logit: `1 / (1 + exp(-logit))` in f32.
#[inline]
pub(crate) fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// A score threshold, to be compared with logits.
///
/// Exact: `passes(logit)` is `sigmoid(logit) >= score_threshold` for every f32.
/// NaN never passes, and nothing passes a threshold that is NaN or above 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogitThreshold {
    /// The smallest logit that passes; NaN when none does.
    least: f32,
}

impl LogitThreshold {
    /// Finds the smallest logit that reaches a score, by bisection over all
    /// floats: 32 exponentials.
    pub(crate) fn new(score_threshold: f32) -> Self {
        let reaches = |rank| sigmoid(from_rank(rank)) >= score_threshold;
        let (mut below, mut least) = (rank_of(f32::NEG_INFINITY), rank_of(f32::INFINITY));
        if !reaches(least) {
            return Self { least: f32::NAN };
        }
        if reaches(below) {
            return Self { least: f32::NEG_INFINITY };
        }
        while least - below > 1 {
            let middle = below + (least - below) / 2;
            if reaches(middle) {
                least = middle;
            } else {
                below = middle;
            }
        }
        Self { least: from_rank(least) }
    }

    /// Whether the score of a logit reaches the threshold.
    #[inline]
    pub(crate) fn passes(self, logit: f32) -> bool {
        logit >= self.least
    }
}

/// Position of a float in the order of all floats, -0 before +0.
fn rank_of(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

fn from_rank(rank: u32) -> f32 {
    f32::from_bits(if rank >> 31 == 1 { rank & !(1 << 31) } else { !rank })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_are_in_the_order_of_floats() {
        let floats =
            [f32::NEG_INFINITY, -1.0, -f32::MIN_POSITIVE, -0.0, 0.0, 1e-45, 2.5, f32::INFINITY];
        assert!(floats.is_sorted_by(|a, b| rank_of(*a) < rank_of(*b)));
        assert!(floats.iter().all(|&v| from_rank(rank_of(v)).to_bits() == v.to_bits()));
    }

    #[test]
    fn the_border_is_exact_for_every_neighbour() {
        for step in 0..=1000 {
            let score_threshold = step as f32 / 1000.0;
            let threshold = LogitThreshold::new(score_threshold);
            let border = rank_of(threshold.least);
            for rank in border.saturating_sub(1000)..=border.saturating_add(1000) {
                let logit = from_rank(rank);
                let expected = sigmoid(logit) >= score_threshold;
                assert_eq!(threshold.passes(logit), expected, "{score_threshold} {logit}");
            }
        }
    }

    #[test]
    fn extreme_thresholds() {
        for (score_threshold, logit, passes) in [
            (0.0, f32::NEG_INFINITY, true),
            (-1.0, f32::NEG_INFINITY, true),
            (0.0, f32::NAN, false),
            (1.0, f32::INFINITY, true),
            (1.0, 30.0, true),
            (1.0, 10.0, false),
            (1.000_000_1, f32::INFINITY, false),
            (f32::NAN, f32::INFINITY, false),
            (1e-45, -103.0, sigmoid(-103.0) >= 1e-45),
        ] {
            let found = LogitThreshold::new(score_threshold).passes(logit);
            assert_eq!(found, passes, "{score_threshold} {logit}");
        }
    }

    proptest! {
        #[test]
        fn equals_the_comparison_of_scores(score_threshold in -0.1_f32..1.1, bits: u32, near in -20.0_f32..20.0) {
            let threshold = LogitThreshold::new(score_threshold);
            for logit in [f32::from_bits(bits), near] {
                prop_assert_eq!(threshold.passes(logit), sigmoid(logit) >= score_threshold);
            }
        }
    }
}
