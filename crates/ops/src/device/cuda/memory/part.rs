//! Parts of a buffer: several buffers in one allocation, and items of a batch in the hands of
//! other streams.

use std::marker::PhantomData;

use cudarc::driver::result;

use super::{BUFFER_ALIGNMENT, DeviceBuffer, Out, Plain, check_capacity};
use crate::device::cuda::{Stream, error, failed};
use det_post_types::Result;

impl DeviceBuffer<u8> {
    /// Splits `len` values off the start, as [`Out::carve`]; a buffer of the same stream.
    ///
    /// # Errors
    /// `Argument` when fewer bytes than [`Out::num_carved_bytes`] are left.
    pub fn carve<T: Plain>(&mut self, len: usize) -> Result<DeviceBuffer<T>> {
        let num_bytes = Out::<T>::num_carved_bytes(len);
        check_capacity("device", num_bytes, self.len)?;
        let (address, stream) = (self.address, self.stream.clone());
        self.address += num_bytes as u64;
        self.len -= num_bytes;
        Ok(DeviceBuffer { address, len, stream, values: PhantomData })
    }
}

impl<T: Plain> DeviceBuffer<T> {
    /// The same memory as a buffer of another stream of the same GPU, which lasts as long as that
    /// stream or, borrowed, as its owner keeps it. The caller orders the work of the two streams.
    ///
    /// # Errors
    /// `Device` when the stream is of another GPU.
    pub fn on(&self, stream: &Stream) -> Result<Self> {
        let (from, to) = (self.stream.device(), stream.device());
        if from.ordinal() != to.ordinal() {
            return Err(error(format!("a buffer of {from} was given to a stream of {to}")));
        }
        stream.keep(&self.stream)?;
        let stream = stream.clone();
        Ok(Self { address: self.address, len: self.len, stream, values: PhantomData })
    }

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
        stream.keep(&self.stream)?;
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
        self.stream.keep(&source.stream)?;
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
