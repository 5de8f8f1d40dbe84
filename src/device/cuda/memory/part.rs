//! Parts of a buffer in the hands of other streams: items of a batch.

use std::marker::PhantomData;

use cudarc::driver::result;

use super::{BUFFER_ALIGNMENT, DeviceBuffer, Plain, check_capacity};
use crate::device::cuda::{Stream, failed};
use crate::error::Result;

impl<T: Plain> DeviceBuffer<T> {
    /// `len` values from `start` on as a buffer of another stream of the same GPU; `None` where
    /// they are not aligned to [`BUFFER_ALIGNMENT`]. The memory stays as long as that stream. The
    /// caller orders the work of the two streams.
    ///
    /// # Errors
    /// `Argument` when there are fewer values.
    pub(in crate::device::cuda) fn part(
        &self,
        stream: &Stream,
        start: usize,
        len: usize,
    ) -> Result<Option<Self>> {
        check_capacity("device", start.saturating_add(len), self.len)?;
        let address = self.address + (start * size_of::<T>()) as u64;
        if !address.is_multiple_of(BUFFER_ALIGNMENT as u64) {
            return Ok(None);
        }
        stream.keep(&self.stream);
        Ok(Some(Self { address, len, stream: stream.clone(), values: PhantomData }))
    }

    /// Queues a copy of the values of another stream's buffer from `start` on, as many as this
    /// one holds. The caller orders the work of the two streams.
    ///
    /// # Errors
    /// `Argument` when there are fewer values; `Device` when the copy fails.
    pub(in crate::device::cuda) fn enqueue_copy_from(
        &mut self,
        source: &Self,
        start: usize,
    ) -> Result<()> {
        check_capacity("device", start.saturating_add(self.len), source.len)?;
        self.stream.keep(&source.stream);
        self.stream.bind()?;
        let from = source.address + (start * size_of::<T>()) as u64;
        let num_bytes = self.len * size_of::<T>();
        // SAFETY: both allocations have these bytes (checked); the source stays until this
        // buffer's stream has ended its work, since the stream keeps it.
        let copied =
            unsafe { result::memcpy_dtod_async(self.address, from, num_bytes, self.stream.raw()) };
        copied.map_err(|e| failed("queue a copy on the device", e))
    }
}
