//! Bytes in the memory of a GPU.

use std::marker::PhantomData;

use crate::error::{Error, ErrorKind};

/// Bytes in the memory of a GPU, borrowed from the library that allocated them.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBytes<'a> {
    address: u64,
    len: usize,
    stream: u64,
    memory: PhantomData<&'a [u8]>,
}

impl DeviceBytes<'_> {
    /// `len` bytes at a device address. They are read after the work that is queued on `stream`
    /// so far, the driver's handle of a stream (`CUstream`); 0 and 1 are the legacy default
    /// stream, 2 is the one of the calling thread.
    ///
    /// # Safety
    /// The stream is a live one of the GPU that the bytes are on. Until the lifetime ends they
    /// stay allocated, and nothing writes to them except that work.
    pub unsafe fn new(address: u64, len: usize, stream: u64) -> Self {
        Self { address, len, stream, memory: PhantomData }
    }

    /// No bytes.
    #[must_use]
    pub fn none() -> Self {
        Self { address: 0, len: 0, stream: 0, memory: PhantomData }
    }

    /// The first `len` of the bytes; all if there are no more.
    #[must_use]
    pub fn first(self, len: usize) -> Self {
        Self { len: self.len.min(len), ..self }
    }

    /// The device address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The handle of the stream whose work writes the bytes.
    pub fn stream(&self) -> u64 {
        self.stream
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The error of a stage that reads host memory.
    pub fn refused(&self, stage: &'static str) -> Error {
        let message = format!(
            "{} bytes in the memory of a GPU; a detector on that GPU, in this process, reads them",
            self.len
        );
        Error::new(ErrorKind::Argument, stage, message)
    }
}
