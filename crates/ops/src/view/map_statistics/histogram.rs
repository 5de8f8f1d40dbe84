//! Equal bins up to the largest value so far.

/// Bins; more than half of them are used.
pub(super) const NUM_EQUAL: usize = 4096;

/// How often magnitudes occur in bins of equal width, a power of two that doubles when a value is beyond
/// the last bin: the counts do not depend on the order of the values.
#[derive(Clone, Debug)]
pub(super) struct EqualBins {
    counts: Vec<u64>,
    width: f64,
}

impl Default for EqualBins {
    fn default() -> Self {
        Self { counts: vec![0; NUM_EQUAL], width: f32::MIN_POSITIVE.into() }
    }
}

impl EqualBins {
    /// Adds a magnitude that is finite.
    pub(super) fn add(&mut self, magnitude: f32) {
        let magnitude = f64::from(magnitude);
        while magnitude >= self.width * NUM_EQUAL as f64 {
            self.widen();
        }
        // Division by a power of two is exact.
        self.counts[(magnitude / self.width) as usize] += 1;
    }

    /// Merges bins in pairs.
    fn widen(&mut self) {
        let half = NUM_EQUAL / 2;
        for bin in 0..half {
            self.counts[bin] = self.counts[2 * bin] + self.counts[2 * bin + 1];
        }
        self.counts[half..].fill(0);
        self.width *= 2.0;
    }

    /// The counts up to the last that is not 0.
    pub(super) fn used(&self) -> &[u64] {
        let num = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        &self.counts[..num]
    }

    /// The width of a bin.
    pub(super) fn width(&self) -> f64 {
        self.width
    }
}
