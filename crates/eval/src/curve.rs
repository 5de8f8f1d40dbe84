//! Precision-recall curves: recall positions and interpolation.

/// Recall positions of nuScenes and COCO: 0, 0.01, …, 1.
pub const NUM_RECALL_POINTS: usize = 101;

/// The recall positions, computed as in both published evaluations: when a recall
/// is reached exactly, the last digit decides between two entries.
pub fn recall_points() -> [f64; NUM_RECALL_POINTS] {
    std::array::from_fn(|i| if i + 1 == NUM_RECALL_POINTS { 1.0 } else { i as f64 * 0.01 })
}

/// Cumulative counts of ranked detections.
pub(super) struct Ranking {
    /// Recall after each entry.
    pub(super) recall: Vec<f64>,
    /// True positives so far.
    pub(super) num_true: Vec<f64>,
    /// False positives so far.
    pub(super) num_false: Vec<f64>,
}

impl Ranking {
    /// Counts entries in descending order of score.
    pub(super) fn new(is_true: impl Iterator<Item = bool>, num_truth: usize) -> Self {
        let mut ranking = Self { recall: Vec::new(), num_true: Vec::new(), num_false: Vec::new() };
        let (mut num_true, mut num_false) = (0.0, 0.0);
        for is_true in is_true {
            *(if is_true { &mut num_true } else { &mut num_false }) += 1.0;
            ranking.recall.push(num_true / num_truth as f64);
            ranking.num_true.push(num_true);
            ranking.num_false.push(num_false);
        }
        ranking
    }

    /// Precision after each entry. `epsilon` is added to the denominator, as COCO
    /// does.
    pub(super) fn precision(&self, epsilon: f64) -> Vec<f64> {
        let pairs = self.num_true.iter().zip(&self.num_false);
        pairs.map(|(tp, fp)| tp / (fp + tp + epsilon)).collect()
    }
}

/// Piecewise linear interpolation of `ys` over non-descending `xs`, as
/// `numpy.interp`: for repeated `xs` the last value holds. Below all `xs` the
/// result is the first value, above all of them `right`.
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

/// Makes a series non-ascending: each value becomes the maximum from it on.
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
    fn interpolation_has_the_edges_of_numpy() {
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
    fn an_envelope_does_not_ascend() {
        let mut values = [0.2, 0.9, 0.5, 0.7, 0.0];
        envelope(&mut values);
        assert_eq!(values, [0.9, 0.9, 0.7, 0.7, 0.0]);
    }
}
