//! Parts of a buffer: several buffers in one allocation, and buffers in the hands of other
//! streams.

use std::marker::PhantomData;

use super::{DeviceBuffer, Out, Plain, check_capacity};
use crate::device::cuda::{Stream, error};
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
}
