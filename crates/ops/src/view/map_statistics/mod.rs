//! The values of feature maps over many frames, and the scales of int8 levels that follow.
//!
//! One pass fills two histograms of the magnitudes of a level, of bounded memory: logarithmic bins
//! less than 1 % wide, and 2049 to 4096 equal bins up to the largest value. A scale `s` is the
//! value of 1: a value becomes `s` times the nearest integer, at most 127, so that magnitudes above
//! `127 s` are cut.
//!
//! | [`ScaleMethod`] | the scale is such that | source |
//! |---|---|---|
//! | `Percentile` | `127 s` reaches a share of the magnitudes | |
//! | `Entropy` | the Kullback-Leibler divergence of the quantized histogram from the histogram is least | S. Migacz, 8-bit inference with TensorRT, 2017 |
//! | `Cosine` | the cosine of the angle between quantized and original values is greatest | |
//!
//! [`LevelStatistics::error`] measures a scale: from the logarithmic bins, in which values are taken
//! to be evenly spread.

mod entropy;
mod error;
mod histogram;
#[cfg(test)]
mod tests;

use self::histogram::EqualBins;
use crate::view::sample::MapsView;

/// The largest integer of an int8 level.
const MAX_INTEGER: f32 = 127.0;

/// Low bits of a magnitude that bins do not tell apart: bins are less than 1 % wide.
const BIN_SHIFT: u32 = 16;
const NUM_BINS: usize = 1 << (31 - BIN_SHIFT);

/// How the scale of a level is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScaleMethod {
    /// Integers reach this share of the magnitudes, above 0 and at most 1.
    Percentile(f64),
    /// The least divergence of the histograms.
    Entropy,
    /// The least angle.
    Cosine,
}

/// What a scale does to the values of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleError {
    /// The root of the sum of squared differences, as a share of the root of the sum of squared values.
    pub relative: f64,
    /// The cosine of the angle between quantized and original values; 0 when all become 0.
    pub cosine: f64,
    /// The share of values that are cut.
    pub clipped: f64,
}

/// How often magnitudes occur in the levels of feature maps.
#[derive(Clone, Debug, Default)]
pub struct MapStatistics {
    num_frames: u64,
    levels: Vec<LevelStatistics>,
}

/// The magnitudes of a level.
#[derive(Clone, Debug)]
pub struct LevelStatistics {
    bins: Vec<u64>,
    equal: EqualBins,
    num_finite: u64,
    num_not_finite: u64,
    max: f32,
}

impl MapStatistics {
    /// Adds the texels of a frame, of the views that have an image; a frame without any does
    /// not count. Integers count times their scale.
    pub fn add<'m>(&mut self, maps: impl Into<MapsView<'m>>, is_present: impl Fn(usize) -> bool) {
        let maps = maps.into();
        if !(0..maps.num_views()).any(&is_present) {
            return;
        }
        self.num_frames += 1;
        self.levels.resize_with(maps.levels().len(), LevelStatistics::new);
        for (index, statistics) in self.levels.iter_mut().enumerate() {
            for view in (0..maps.num_views()).filter(|&view| is_present(view)) {
                maps.for_each_value(index, view, |value| statistics.add(value));
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
        Self {
            bins: vec![0; NUM_BINS],
            equal: EqualBins::default(),
            num_finite: 0,
            num_not_finite: 0,
            max: 0.0,
        }
    }

    fn add(&mut self, value: f32) {
        let magnitude = value.abs();
        if magnitude.is_finite() {
            self.bins[(magnitude.to_bits() >> BIN_SHIFT) as usize] += 1;
            self.equal.add(magnitude);
            self.num_finite += 1;
            self.max = self.max.max(magnitude);
        } else {
            self.num_not_finite += 1;
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
        for (bin, of_bin) in self.bins.iter().enumerate() {
            num += of_bin;
            if num >= needed && num > 0 {
                return end_of(bin).min(self.max);
            }
        }
        self.max
    }

    /// The value of 1 of an int8 level by a method. `None` when all values are 0 or none is finite.
    pub fn scale(&self, method: ScaleMethod) -> Option<f32> {
        let reached = match method {
            ScaleMethod::Percentile(share) => self.quantile(share),
            ScaleMethod::Entropy => (entropy::reach(&self.equal) as f32).min(self.max),
            ScaleMethod::Cosine => return self.cosine_scale(),
        };
        let scale = reached / MAX_INTEGER;
        (scale > 0.0).then_some(scale)
    }
}

/// The largest magnitude of a logarithmic bin.
fn end_of(bin: usize) -> f32 {
    f32::from_bits(((bin as u32 + 1) << BIN_SHIFT) - 1)
}
