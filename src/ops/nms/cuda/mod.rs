//! What every suppression on CUDA shares: memory, kernels, the order of steps.
//!
//! The steps and their promise stand in `kernels/nms.cuh`. The number of
//! candidates is read on the device; more than the capacity are not read. The
//! settings live in device memory: changing them changes what recorded graphs
//! do.

mod dispatch;
mod workspace;

pub use dispatch::{Suppression2d, Suppression3d};
pub(in crate::ops) use workspace::Parameters;
pub use workspace::{DeviceWorkspace, PreparedWorkspace};

use crate::device::cuda::abi::nms::NmsCounts;
use crate::device::cuda::{DeviceBuffer, MappedBuffer, Out, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{ClassMode, Kept};

/// How much a suppression on the device has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Candidates.
    pub candidates: usize,
    /// Classes that have a threshold or a group of their own, or are named in
    /// forbidden pairs.
    pub classes: usize,
}

/// What is left, on the device and in memory that the host reads.
pub(in crate::ops) struct Survivors {
    kept: DeviceBuffer<Kept>,
    counts: DeviceBuffer<NmsCounts>,
    published: MappedBuffer<Kept>,
    published_counts: MappedBuffer<NmsCounts>,
    read_counts: Vec<NmsCounts>,
}

/// The slices of [`Survivors`] that a kernel writes.
pub(in crate::ops) struct SurvivorsOut<'a> {
    pub kept: Out<'a, Kept>,
    pub counts: Out<'a, NmsCounts>,
    pub published: Out<'a, Kept>,
    pub published_counts: Out<'a, NmsCounts>,
}

impl Survivors {
    pub(in crate::ops) fn with_capacity(stream: &Stream, capacity: usize) -> Result<Self> {
        Ok(Self {
            kept: DeviceBuffer::zeros(stream, capacity)?,
            counts: DeviceBuffer::zeros(stream, 1)?,
            published: MappedBuffer::zeros(stream, capacity)?,
            published_counts: MappedBuffer::zeros(stream, 1)?,
            read_counts: Vec::with_capacity(1),
        })
    }

    pub(in crate::ops) fn output(&mut self, stream: &Stream) -> Result<SurvivorsOut<'_>> {
        Ok(SurvivorsOut {
            kept: self.kept.output(stream)?,
            counts: self.counts.output(stream)?,
            published: self.published.output(stream)?,
            published_counts: self.published_counts.output(stream)?,
        })
    }

    /// Waits for the stream and reads the survivors of `op`.
    pub(in crate::ops) fn read(
        &mut self,
        op: &'static str,
        stream: &Stream,
        keep: &mut Vec<Kept>,
    ) -> Result<()> {
        keep.clear();
        stream.synchronize()?;
        self.read_counts.clear();
        self.published_counts.copy_to(1, &mut self.read_counts);
        let counts = self.read_counts.first().copied().unwrap_or_default();
        let NmsCounts { num_kept, class_over } = counts;
        if class_over > 0 {
            let message =
                format!("class {} takes part and has no threshold", u64::from(class_over) - 1);
            return Err(Error::new(ErrorKind::Argument, op, message));
        }
        self.published.copy_to(num_kept as usize, keep);
        Ok(())
    }

    pub(in crate::ops) fn on_device(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        (&self.kept, &self.counts)
    }
}

/// A class mode as kernels read it: its number, and the groups.
pub(in crate::ops) fn class_mode_word(class_mode: &ClassMode) -> (u32, &[u32]) {
    match class_mode {
        ClassMode::Aware => (0, &[]),
        ClassMode::Agnostic => (1, &[]),
        ClassMode::Groups(groups) => (2, groups),
    }
}

/// Refuses more of something than a workspace has room for.
pub(in crate::ops) fn check_fits(
    op: &'static str,
    what: &str,
    num: usize,
    capacity: usize,
) -> Result<()> {
    if num <= capacity {
        return Ok(());
    }
    let message = format!("{num} {what}, there is room for {capacity}");
    Err(Error::new(ErrorKind::Argument, op, message))
}

/// Refuses an empty list of thresholds.
pub(in crate::ops) fn check_some(op: &'static str, thresholds: &[f32]) -> Result<()> {
    if !thresholds.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Argument, op, "0 thresholds, at least 1 is needed"))
}
