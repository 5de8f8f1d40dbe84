//! Sigmoid, exponential and power with the same result on every platform, score thresholds in
//! logit space, and the class of the greatest logit.
//!
//! The functions are computed in f64 and rounded once to f32. The f64 exponentials
//! of common libraries are accurate enough that the rounded f32 is the same
//! everywhere, except for about one argument in 2^28, whose exact result is within
//! the f64 error of the midpoint between two f32. They are meant for the few rows
//! that pass a threshold.

use det_post_types::ScoreThresholds;

/// `1 / (1 + exp(-logit))`. NaN stays NaN.
#[inline]
pub fn sigmoid(logit: f32) -> f32 {
    (1.0 / (1.0 + (-f64::from(logit)).exp())) as f32
}

/// `exp(value)`. NaN stays NaN.
#[inline]
pub fn exp(value: f32) -> f32 {
    f64::from(value).exp() as f32
}

/// `value ^ exponent`. NaN stays NaN.
#[inline]
pub fn power(value: f32, exponent: f32) -> f32 {
    f64::from(value).powf(f64::from(exponent)) as f32
}

/// The smallest logit whose [`sigmoid`] is at least `threshold`: for every logit,
/// `logit >= logit_bound(threshold)` equals `sigmoid(logit) >= threshold`.
///
/// Minus infinity if every logit passes; NaN, with which every comparison is false,
/// if none does (a threshold above 1, or NaN). A NaN logit never passes.
pub fn logit_bound(threshold: f32) -> f32 {
    let passes = |key: i32| sigmoid(from_key(key)) >= threshold;
    let (mut fails, mut holds) = (key(f32::NEG_INFINITY), key(f32::INFINITY));
    if passes(fails) {
        return f32::NEG_INFINITY;
    }
    if !passes(holds) {
        return f32::NAN;
    }
    while fails + 1 < holds {
        let middle = fails.midpoint(holds);
        if passes(middle) { holds = middle } else { fails = middle }
    }
    from_key(holds)
}

/// The smallest logit that passes for any class at any distance; NaN if none does.
pub fn lowest_bound(thresholds: &ScoreThresholds) -> f32 {
    let classes = 0..thresholds.per_class.len() as u32;
    let lowest = classes.filter_map(|class| thresholds.lowest(class)).reduce(f32::min);
    lowest.map_or(f32::NAN, logit_bound)
}

/// The class of the greatest logit, the lowest on ties, and the logit; `None` when all
/// are NaN. `num_nan` is raised by 1 if any is.
#[inline]
pub fn best_class(
    logits: impl IntoIterator<Item = f32>,
    num_nan: &mut usize,
) -> Option<(u32, f32)> {
    let mut best = None;
    let mut has_nan = false;
    for (class, logit) in (0..).zip(logits) {
        if logit.is_nan() {
            has_nan = true;
        } else if best.is_none_or(|(_, best)| logit > best) {
            best = Some((class, logit));
        }
    }
    *num_nan += usize::from(has_nan);
    best
}

/// Maps floats to integers in the same order; adjacent floats differ by one.
fn key(value: f32) -> i32 {
    let bits = value.to_bits().cast_signed();
    if bits < 0 { i32::MIN - bits } else { bits }
}

fn from_key(key: i32) -> f32 {
    let bits = if key < 0 { i32::MIN - key } else { key };
    f32::from_bits(bits.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_values() {
        for (logit, expected) in [
            (0.0, 0.5),
            (f32::INFINITY, 1.0),
            (f32::NEG_INFINITY, 0.0),
            (1.0, 0.731_058_6),
            (-4.0, 0.017_986_21),
        ] {
            assert_eq!(sigmoid(logit), expected, "{logit}");
        }
        assert_eq!(exp(1.0), std::f32::consts::E);
        assert!(sigmoid(f32::NAN).is_nan() && exp(f32::NAN).is_nan());
    }

    #[test]
    fn bounds_at_the_ends() {
        assert_eq!(logit_bound(0.0), f32::NEG_INFINITY);
        assert_eq!(logit_bound(-1.0), f32::NEG_INFINITY);
        assert!(logit_bound(1.000_001).is_nan());
        assert!(logit_bound(f32::NAN).is_nan());
        assert!(logit_bound(1.0).is_finite());
        assert!(sigmoid(logit_bound(f32::MIN_POSITIVE)) > 0.0);
        assert!(logit_bound(0.5).abs() < 1e-6);
    }

    #[test]
    fn the_neighbourhood_of_every_usual_bound_decides_alike() {
        for percent in 0..=100_u8 {
            let threshold = f32::from(percent) / 100.0;
            let bound = logit_bound(threshold);
            let near = key(bound.max(-3e38));
            for logit in (near - 5_000..near + 5_000).map(from_key) {
                assert_eq!(logit >= bound, sigmoid(logit) >= threshold, "{threshold} {logit}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_logit_decides_as_its_score(bits: u32, threshold in -0.1_f32..1.1) {
            let logit = f32::from_bits(bits);
            prop_assert_eq!(logit >= logit_bound(threshold), sigmoid(logit) >= threshold);
        }

        #[test]
        fn a_score_as_threshold_decides_alike(logit in -30_f32..30.0, steps in -50_i32..50) {
            let threshold = sigmoid(from_key(key(logit) + steps));
            prop_assert_eq!(logit >= logit_bound(threshold), sigmoid(logit) >= threshold);
        }
    }
}
