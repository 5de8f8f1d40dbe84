//! The values of feature maps over many frames, from which scales of int8 levels follow.

use crate::view::sample::{FeatureMaps, Texels};

/// The largest integer of an int8 level.
const MAX_INTEGER: f32 = 127.0;

/// Low bits of a magnitude that bins do not tell apart: bins are less than 1 % wide.
const BIN_SHIFT: u32 = 16;
const NUM_BINS: usize = 1 << (31 - BIN_SHIFT);

/// How often magnitudes occur in the levels of feature maps, in bins whose ends are less than
/// 1 % apart.
#[derive(Clone, Debug, Default)]
pub struct MapStatistics {
    num_frames: u64,
    levels: Vec<LevelStatistics>,
}

/// The magnitudes of a level.
#[derive(Clone, Debug)]
pub struct LevelStatistics {
    bins: Vec<u64>,
    num_finite: u64,
    num_not_finite: u64,
    max: f32,
}

impl MapStatistics {
    /// Adds the texels of a frame, of the views that have an image; a frame without any does
    /// not count. Integers count times their scale.
    pub fn add(&mut self, maps: &FeatureMaps, is_present: impl Fn(usize) -> bool) {
        if !(0..maps.num_views()).any(&is_present) {
            return;
        }
        self.num_frames += 1;
        self.levels.resize_with(maps.levels().len(), LevelStatistics::new);
        for (statistics, level) in self.levels.iter_mut().zip(maps.levels()) {
            let view_len = level.texels().len() / maps.num_views();
            for view in (0..maps.num_views()).filter(|&view| is_present(view)) {
                let range = view * view_len..(view + 1) * view_len;
                match level.texels() {
                    Texels::F32(values) => statistics.add(values[range].iter().copied()),
                    Texels::F16(values) => statistics.add(values[range].iter().map(|v| v.to_f32())),
                    Texels::I8 { values, scale } => {
                        statistics.add(values[range].iter().map(|&v| f32::from(v) * scale));
                    }
                }
            }
        }
    }

    /// Frames so far.
    pub fn num_frames(&self) -> u64 {
        self.num_frames
    }

    /// The levels; none before the first frame.
    pub fn levels(&self) -> &[LevelStatistics] {
        &self.levels
    }
}

impl LevelStatistics {
    fn new() -> Self {
        Self { bins: vec![0; NUM_BINS], num_finite: 0, num_not_finite: 0, max: 0.0 }
    }

    fn add(&mut self, values: impl Iterator<Item = f32>) {
        for value in values {
            let magnitude = value.abs();
            if magnitude.is_finite() {
                self.bins[(magnitude.to_bits() >> BIN_SHIFT) as usize] += 1;
                self.num_finite += 1;
                self.max = self.max.max(magnitude);
            } else {
                self.num_not_finite += 1;
            }
        }
    }

    /// The largest magnitude.
    pub fn max(&self) -> f32 {
        self.max
    }

    /// Values that are infinite or not a number; they count nowhere else.
    pub fn num_not_finite(&self) -> u64 {
        self.num_not_finite
    }

    /// The least end of a bin, or the largest magnitude, that at least `share` of the
    /// magnitudes do not exceed.
    pub fn quantile(&self, share: f64) -> f32 {
        let needed = (share * self.num_finite as f64).ceil() as u64;
        let mut num = 0;
        for (bin, of_bin) in (0_u32..).zip(&self.bins) {
            num += of_bin;
            if num >= needed && num > 0 {
                return f32::from_bits(((bin + 1) << BIN_SHIFT) - 1).min(self.max);
            }
        }
        self.max
    }

    /// The value of 1 of an int8 level that reaches up to [`Self::quantile`]; larger magnitudes
    /// are cut. `None` when all values are 0 or none is finite.
    pub fn scale(&self, share: f64) -> Option<f32> {
        let scale = self.quantile(share) / MAX_INTEGER;
        (scale > 0.0).then_some(scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample::FeatureLevel;

    fn statistics(views: &[Vec<f32>; 2], is_present: impl Fn(usize) -> bool) -> MapStatistics {
        let size = [views[0].len(), 1];
        let level = FeatureLevel::new(size, Texels::F32(views.concat()));
        let mut statistics = MapStatistics::default();
        statistics.add(&FeatureMaps::new(2, 1, vec![level]).unwrap(), is_present);
        statistics
    }

    #[test]
    fn quantiles_are_within_a_percent_and_the_largest_is_exact() {
        let values: Vec<f32> = (1..=10_000_u16).map(|i| -f32::from(i) * 0.001).collect();
        let found = statistics(&[values.clone(), values], |_| true);
        let level = &found.levels()[0];
        assert_eq!((found.num_frames(), level.max()), (1, 10.0));
        for share in [0.5_f64, 0.9, 0.999, 0.9999] {
            let (exact, found) = (10.0 * share as f32, level.quantile(share));
            assert!(found >= exact * 0.9999 && found <= exact * 1.01, "{share}: {found}");
        }
        assert_eq!(level.quantile(1.0), 10.0);
        assert_eq!(level.scale(1.0), Some(10.0 / 127.0));
    }

    #[test]
    fn outliers_are_cut_by_a_quantile() {
        let mut values = vec![1.0; 20_000];
        values[7] = 1000.0;
        let found = statistics(&[values.clone(), values], |_| true);
        let level = &found.levels()[0];
        assert_eq!(level.max(), 1000.0);
        assert!(level.quantile(0.9999) <= 1.01);
    }

    #[test]
    fn missing_views_and_values_that_are_not_finite_do_not_count() {
        let views = [vec![2.0, f32::NAN, f32::NEG_INFINITY, 0.0], vec![100.0; 4]];
        let found = statistics(&views, |view| view == 0);
        let level = &found.levels()[0];
        assert_eq!((level.max(), level.num_not_finite()), (2.0, 2));
        assert_eq!(level.scale(0.9999), Some(2.0 / 127.0));
        let zeros = statistics(&[vec![0.0; 4], vec![0.0; 4]], |_| true);
        assert_eq!(zeros.levels()[0].scale(1.0), None);
        let none = statistics(&[vec![1.0; 4], vec![1.0; 4]], |_| false);
        assert_eq!((none.num_frames(), none.levels().len()), (0, 0));
    }

    #[test]
    fn integers_and_halves_count_as_their_values() {
        let level = |texels| {
            let maps = FeatureMaps::new(1, 1, vec![FeatureLevel::new([3, 1], texels)]).unwrap();
            let mut statistics = MapStatistics::default();
            statistics.add(&maps, |_| true);
            statistics.levels()[0].max()
        };
        assert_eq!(level(Texels::I8 { values: vec![-100, 3, 0], scale: 0.5 }), 50.0);
        let halves = [0.25, -8.0, 1.0].map(half::f16::from_f32).to_vec();
        assert_eq!(level(Texels::F16(halves)), 8.0);
    }
}
