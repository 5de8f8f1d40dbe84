//! Precision over recall: the grid and the interpolation that definitions share.

/// Recall positions of nuScenes and COCO: 0, 0.01, …, 1.
pub const NUM_RECALL_POINTS: usize = 101;

/// The recall positions, computed as both definitions compute them: at a recall
/// that is reached exactly, the last digit decides which side is taken.
pub fn recall_points() -> [f64; NUM_RECALL_POINTS] {
    std::array::from_fn(|i| if i + 1 == NUM_RECALL_POINTS { 1.0 } else { i as f64 * 0.01 })
}

/// Counts of a ranking after each of its entries.
pub(super) struct Ranking {
    /// Found by then, of all there are.
    pub(super) recall: Vec<f64>,
    /// Right by then.
    pub(super) num_right: Vec<f64>,
    /// Wrong by then.
    pub(super) num_wrong: Vec<f64>,
}

impl Ranking {
    /// Counts through verdicts in the order of their scores.
    pub(super) fn new(is_right: impl Iterator<Item = bool>, num_truth: usize) -> Self {
        let mut ranking = Self { recall: Vec::new(), num_right: Vec::new(), num_wrong: Vec::new() };
        let (mut num_right, mut num_wrong) = (0.0, 0.0);
        for is_right in is_right {
            *(if is_right { &mut num_right } else { &mut num_wrong }) += 1.0;
            ranking.recall.push(num_right / num_truth as f64);
            ranking.num_right.push(num_right);
            ranking.num_wrong.push(num_wrong);
        }
        ranking
    }

    /// Right of all, after each entry; `epsilon` keeps the division defined
    /// where a definition asks for it.
    pub(super) fn precision(&self, epsilon: f64) -> Vec<f64> {
        let pairs = self.num_right.iter().zip(&self.num_wrong);
        pairs.map(|(right, wrong)| right / (wrong + right + epsilon)).collect()
    }
}

/// Piecewise linear interpolation of `ys` over ascending `xs` with plateaus
/// allowed: at an `x` that stands more than once, the last of them holds. Left
/// of all the first value, right of all `right`.
pub(super) fn interpolate(x: f64, xs: &[f64], ys: &[f64], right: f64) -> f64 {
    let above = xs.partition_point(|&known| known <= x);
    let (Some(&first), Some(&last)) = (ys.first(), xs.last()) else { return right };
    if above == 0 {
        first
    } else if above == xs.len() {
        if x > last { right } else { ys[above - 1] }
    } else if xs[above - 1] == x {
        ys[above - 1]
    } else {
        let slope = (ys[above] - ys[above - 1]) / (xs[above] - xs[above - 1]);
        slope * (x - xs[above - 1]) + ys[above - 1]
    }
}

/// Makes a series fall: each value becomes the largest from it on.
pub(super) fn envelope(precision: &mut [f64]) {
    let mut best = 0.0_f64;
    for value in precision.iter_mut().rev() {
        best = best.max(*value);
        *value = best;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_has_numpys_edges() {
        let (xs, ys) = ([0.1, 0.5, 0.5, 0.9], [1.0, 0.8, 0.4, 0.6]);
        // numpy.interp(x, xs, ys, right=0)
        let cases = [(0.0, 1.0), (0.1, 1.0), (0.3, 0.9), (0.5, 0.4), (0.7, 0.5), (0.9, 0.6)];
        for (x, expected) in cases {
            let found = interpolate(x, &xs, &ys, 0.0);
            assert!((found - expected).abs() < 1e-12, "{x}: {found}");
        }
        assert_eq!(interpolate(0.91, &xs, &ys, 0.0).to_bits(), 0);
        assert_eq!(interpolate(0.5, &[], &[], 7.0).to_bits(), 7.0_f64.to_bits());
    }

    #[test]
    fn an_envelope_only_falls() {
        let mut values = [0.2, 0.9, 0.5, 0.7, 0.0];
        envelope(&mut values);
        assert_eq!(values, [0.9, 0.9, 0.7, 0.7, 0.0]);
    }
}
