//! What a scale does to the values of a level, by the logarithmic histogram.

use super::{LevelStatistics, MAX_INTEGER, ScaleError, end_of};

/// Cosines that are this near are equal: a factor changes none.
const SAME_COSINE: f64 = 1e-9;

/// Sums over the magnitudes of a level.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Of squares.
    original: f64,
    /// Of squares of quantized values.
    quantized: f64,
    /// Of products of both.
    product: f64,
}

/// Integrals from 0 to `t`, in steps of the scale, of the squared integer to which a value is
/// rounded, and of its product with the value.
fn integrals(t: f64) -> [f64; 2] {
    let largest = f64::from(MAX_INTEGER);
    let integer = (t + 0.5).floor().min(largest);
    // Each integer below has an interval of 1 around it, the mean of which it is.
    let below = (integer - 1.0).max(0.0);
    let whole = below * (below + 1.0) * (2.0 * below + 1.0) / 6.0;
    let begin = (integer - 0.5).max(0.0);
    let square = integer * integer * (t - begin);
    let product = integer * (t * t - begin * begin) / 2.0;
    [whole + square, whole + product]
}

impl LevelStatistics {
    /// The bins with values: both ends and the count.
    fn filled(&self) -> impl Iterator<Item = ([f64; 2], f64)> {
        let filled = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bin, &count)| {
            let begin = if bin == 0 { 0.0 } else { f64::from(end_of(bin - 1)) };
            ([begin, f64::from(end_of(bin).min(self.max)).max(begin)], count as f64)
        })
    }

    fn sums(&self, scale: f64) -> Sums {
        let mut sums = Sums::default();
        for ([begin, end], count) in self.filled() {
            let (a, b) = (begin / scale, end / scale);
            // Of values without a width.
            let [square, product] = if b - a < 1e-9 * b {
                let integer = (b + 0.5).floor().min(f64::from(MAX_INTEGER));
                [integer * integer, integer * b]
            } else {
                let ([p, q], [r, s]) = (integrals(a), integrals(b));
                [(r - p) / (b - a), (s - q) / (b - a)]
            };
            sums.original += count * (a * a + a * b + b * b) / 3.0;
            sums.quantized += count * square;
            sums.product += count * product;
        }
        sums
    }

    /// What a scale does to the values; a share of 0 where all are 0.
    pub fn error(&self, scale: f32) -> ScaleError {
        let Sums { original, quantized, product } = self.sums(scale.into());
        let difference = (original - 2.0 * product + quantized).max(0.0);
        let reached = f64::from(MAX_INTEGER) * f64::from(scale);
        let clipped: f64 = self
            .filled()
            .map(|([begin, end], count)| {
                // Scales by percentiles reach the end of a bin, rounded to f32.
                let part = (end - reached.max(begin)) / (end - begin).max(f64::MIN_POSITIVE);
                if end <= reached * (1.0 + 1e-6) { 0.0 } else { count * part.clamp(0.0, 1.0) }
            })
            .sum();
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        ScaleError {
            relative: ratio(difference, original).sqrt(),
            cosine: ratio(product, (original * quantized).sqrt()),
            clipped: ratio(clipped, self.num_finite as f64),
        }
    }

    /// The scale that reaches the end of a bin, or the largest value, with the greatest cosine; of
    /// equal ones the largest.
    pub(super) fn cosine_scale(&self) -> Option<f32> {
        let least = self.quantile(0.5);
        let ends = self.bins.iter().enumerate().rev().filter(|(_, count)| **count > 0);
        let mut best: Option<(f64, f32)> = None;
        for (bin, _) in ends {
            let reached = end_of(bin).min(self.max);
            let scale = reached / MAX_INTEGER;
            if reached < least || scale <= 0.0 {
                break;
            }
            let cosine = self.error(scale).cosine;
            if best.is_none_or(|(most, _)| cosine > most + SAME_COSINE) {
                best = Some((cosine, scale));
            }
        }
        best.map(|(_, scale)| scale)
    }
}
