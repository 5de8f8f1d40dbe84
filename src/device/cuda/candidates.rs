//! Candidates in device memory.

use super::{DeviceBuffer, Plain, Stream};
use crate::error::Result;
use crate::types::Candidate;

/// Candidates of a frame, and how many there are, both on the device.
///
/// More than the capacity are never read, whatever the number says.
#[derive(Debug)]
pub struct DeviceCandidates<B> {
    /// The candidates, in any order.
    pub items: DeviceBuffer<Candidate<B>>,
    /// One number: how many of them there are.
    pub num: DeviceBuffer<u32>,
}

impl<B> DeviceCandidates<B>
where
    Candidate<B>: Plain,
{
    /// Room for `capacity` candidates; none are there yet.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn with_capacity(stream: &Stream, capacity: usize) -> Result<Self> {
        let items = DeviceBuffer::zeros(stream, capacity)?;
        Ok(Self { items, num: DeviceBuffer::zeros(stream, 1)? })
    }

    /// The most candidates it holds.
    pub fn capacity(&self) -> usize {
        self.items.len()
    }

    /// Copies candidates from the host and waits: for tests, not for frames.
    ///
    /// # Errors
    /// `Argument` when there are more than the capacity; `Device` when the copy
    /// fails.
    pub fn write(&mut self, candidates: &[Candidate<B>]) -> Result<()> {
        self.items.write(candidates)?;
        self.num.write(&[candidates.len() as u32])
    }
}
