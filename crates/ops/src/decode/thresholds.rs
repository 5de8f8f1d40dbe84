//! Score thresholds as tables for the device.

use crate::device::cuda::{DeviceBuffer, In, Stream, mirrors};
use det_post_types::{Error, ErrorKind, Result, ScoreThresholds};

/// Thresholds as kernels read them: `Thresholds` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ThresholdArgs<'a> {
    /// Ascending upper limits of the distance bins.
    pub limits: In<'a, f32>,
    /// Class by class, the score threshold of each bin; NaN where nothing passes.
    pub least: In<'a, f32>,
}

mirrors!(ThresholdArgs<'_>, "decode/threshold.cuh", "Thresholds");

/// Thresholds in device memory, for a fixed number of classes and bins. Recorded
/// graphs use the values last set.
pub(crate) struct DeviceThresholds {
    /// Upper limits of the bins.
    pub(crate) limits: DeviceBuffer<f32>,
    /// Class by class, the score threshold of each bin; NaN where nothing passes.
    pub(crate) least_scores: DeviceBuffer<f32>,
}

impl DeviceThresholds {
    pub(crate) fn new(stream: &Stream, thresholds: &ScoreThresholds) -> Result<Self> {
        let (limits, least_scores) = tables(thresholds);
        let mut tables = Self {
            limits: DeviceBuffer::zeros(stream, limits.len())?,
            least_scores: DeviceBuffer::zeros(stream, least_scores.len())?,
        };
        tables.limits.write(&limits)?;
        tables.least_scores.write(&least_scores)?;
        Ok(tables)
    }

    /// The tables, for a kernel on a stream.
    pub(crate) fn args(&self, stream: &Stream) -> Result<ThresholdArgs<'_>> {
        let (limits, least) = (self.limits.input(stream)?, self.least_scores.input(stream)?);
        Ok(ThresholdArgs { limits, least })
    }

    /// Writes thresholds of as many classes and bins, and waits.
    pub(crate) fn set(&mut self, op: &'static str, thresholds: &ScoreThresholds) -> Result<()> {
        let (limits, least_scores) = tables(thresholds);
        let [found, expected] =
            [[limits.len(), least_scores.len()], [self.limits.len(), self.least_scores.len()]];
        if found != expected {
            let message =
                format!("{found:?} limits and thresholds; the numbers are fixed at {expected:?}");
            return Err(Error::new(ErrorKind::Argument, op, message));
        }
        self.limits.write(&limits)?;
        self.least_scores.write(&least_scores)
    }
}

fn tables(thresholds: &ScoreThresholds) -> (Vec<f32>, Vec<f32>) {
    let num_bins = thresholds.distance_upper_limits_m.len().max(1);
    let least_scores = thresholds
        .per_class
        .iter()
        .flat_map(|bins| (0..num_bins).map(|bin| bins.get(bin).copied().unwrap_or(f32::NAN)));
    (thresholds.distance_upper_limits_m.clone(), least_scores.collect())
}
