//! Parts of a buffer: several buffers in one allocation, and buffers in the hands of other
//! streams.

use std::marker::PhantomData;

use super::{DeviceBuffer, In, Out, Plain, check_capacity};
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

impl<T: Plain> DeviceBuffer<T> {
    /// As [`DeviceBuffer::output`], of a buffer of which a launch reads other values. The caller
    /// has checked that no launch writes what it reads: `dense::arena`.
    pub(crate) fn shared_output(&self, stream: &Stream) -> Result<Out<'_, T>> {
        stream.check_owns(&self.stream)?;
        Ok(Out { data: self.address, len: self.len as u64, memory: PhantomData })
    }
}

impl<'a, T: Plain> Out<'a, T> {
    /// The values from `start` to `end`; those there are when there are fewer.
    pub(crate) fn range(self, start: usize, end: usize) -> Self {
        let [before, _] = self.split_at(end);
        let [_, range] = before.split_at(start);
        range
    }

    /// The values as bytes.
    pub(crate) fn bytes(self) -> Out<'a, u8> {
        Out { data: self.data, len: self.len * size_of::<T>() as u64, memory: PhantomData }
    }
}

impl<'a> Out<'a, u8> {
    /// Bytes that are values of `T`, as [`Out::bytes`] made them.
    pub(crate) fn of<T: Plain>(self) -> Out<'a, T> {
        Out { data: self.data, len: self.len / size_of::<T>() as u64, memory: PhantomData }
    }
}

impl<'a> In<'a, u8> {
    /// Bytes that are values of `T`, as [`In::bytes`] made them.
    pub(crate) fn of<T: Plain>(self) -> In<'a, T> {
        In { data: self.data, len: self.len / size_of::<T>() as u64, memory: PhantomData }
    }
}
