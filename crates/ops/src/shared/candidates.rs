//! Candidates in device memory.

use crate::device::cuda::{DeviceBuffer, Plain, Stream};
use det_post_types::{Candidate, Result};

/// The candidates of a frame and their number, both in device memory.
///
/// Kernels never read more than the capacity, even if the number is larger.
#[derive(Debug)]
pub struct DeviceCandidates<B> {
    /// The candidates, in any order.
    pub items: DeviceBuffer<Candidate<B>>,
    /// One value: the number of candidates.
    pub num: DeviceBuffer<u32>,
}

impl<B> DeviceCandidates<B>
where
    Candidate<B>: Plain,
{
    /// No candidates, with memory for `capacity`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn with_capacity(stream: &Stream, capacity: usize) -> Result<Self> {
        let items = DeviceBuffer::zeros(stream, capacity)?;
        Ok(Self { items, num: DeviceBuffer::zeros(stream, 1)? })
    }

    /// The maximum number of candidates.
    pub fn capacity(&self) -> usize {
        self.items.len()
    }

    /// Copies candidates from the host and waits: for tests, not for frames.
    ///
    /// # Errors
    /// `Argument` when there are more candidates than the capacity; `Device` when
    /// the copy fails.
    pub fn write(&mut self, candidates: &[Candidate<B>]) -> Result<()> {
        self.items.write(candidates)?;
        self.num.write(&[candidates.len() as u32])
    }
}
