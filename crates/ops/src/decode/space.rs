//! The memory in which decoders of boxes in space select candidates on a device.

use super::select::Limits;
use super::select::cuda::Selecting;
use super::thresholds::DeviceThresholds;
use crate::device::cuda::{DeviceBuffer, Stream};
use crate::shared::Motion;
use det_post_types::{Box3d, Error, ErrorKind, Result, ScoreThresholds};

/// What a box has to reach.
#[derive(Clone, Copy)]
pub(super) struct Passing<'a> {
    pub(super) scores: &'a ScoreThresholds,
    /// By class, the least norm of sine and cosine of the yaw; empty where none is asked for.
    pub(super) yaw_norms: &'a [f32],
}

/// Buffers of a decoder of boxes in space. Recorded graphs use the values last set.
pub(super) struct SelectionMemory {
    pub(super) selecting: Selecting<Box3d>,
    /// Of the found candidates.
    pub(super) motions: DeviceBuffer<Motion>,
    /// By selected candidate its index among the found ones.
    pub(super) places: DeviceBuffer<u32>,
    pub(super) thresholds: DeviceThresholds,
    pub(super) least_yaw_norms: DeviceBuffer<f32>,
}

impl SelectionMemory {
    /// For up to `num_found` found and `num_candidates` selected candidates, and as many classes
    /// and bins as `passing` has.
    pub(super) fn new(
        stream: &Stream,
        num_found: usize,
        num_candidates: usize,
        passing: Passing<'_>,
    ) -> Result<Self> {
        let mut memory = Self {
            selecting: Selecting::new(stream, num_found, 0)?,
            motions: DeviceBuffer::zeros(stream, num_found)?,
            places: DeviceBuffer::zeros(stream, num_candidates)?,
            thresholds: DeviceThresholds::new(stream, passing.scores)?,
            least_yaw_norms: DeviceBuffer::zeros(stream, passing.yaw_norms.len())?,
        };
        memory.least_yaw_norms.write(passing.yaw_norms)?;
        Ok(memory)
    }

    /// Writes thresholds and limits to the device, and waits.
    ///
    /// # Errors
    /// `Argument`, in the name of the operation `op`, for another number of classes or bins.
    pub(super) fn set(
        &mut self,
        op: &'static str,
        passing: Passing<'_>,
        limits: Limits,
    ) -> Result<()> {
        let [found, fixed] = [passing.yaw_norms.len(), self.least_yaw_norms.len()];
        if found != fixed {
            let message = format!("{found} yaw norms; their number is fixed at {fixed}");
            return Err(Error::new(ErrorKind::Argument, op, message));
        }
        self.thresholds.set(op, passing.scores)?;
        self.least_yaw_norms.write(passing.yaw_norms)?;
        self.selecting.set(limits)
    }

    /// Velocities and variances of the found candidates, and by selected candidate its index
    /// among them.
    pub(super) fn motions(&self) -> (&DeviceBuffer<Motion>, &DeviceBuffer<u32>) {
        (&self.motions, &self.places)
    }
}
