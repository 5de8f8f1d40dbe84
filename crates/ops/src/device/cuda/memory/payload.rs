//! Payloads of messages on their way to kernels.

use super::host_address::{Borrowed, device_address};
use super::{DeviceBuffer, In, PinnedBuffer, UploadScope, check_capacity};
use crate::device::cuda::Stream;
use det_post_types::{DeviceBytes, Error, ErrorKind, Result};

/// Bytes after an image that kernels may read; their values are undefined.
pub const TAIL_BYTES: usize = 16;

/// A payload of a bounded size for kernels to read: in device memory, or where it is in host
/// memory (`zero_copy`).
#[derive(Debug)]
pub struct DevicePayload {
    pinned: PinnedBuffer<u8>,
    bytes: DeviceBuffer<u8>,
    capacity: usize,
    /// Bytes after a payload that kernels may read.
    tail: usize,
    source: Source,
    stream: Stream,
}

/// Where kernels read a payload.
#[derive(Debug)]
enum Source {
    /// In device memory.
    Device,
    /// In the page-locked memory, which must not be written before the stream's work is done.
    Pinned(u64),
    /// In memory that is borrowed while a scope lasts.
    Borrowed(Borrowed),
}

/// The bytes that a payload took on its way to kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferBytes {
    /// Bytes copied on the host.
    pub num_copied: usize,
    /// Bytes uploaded.
    pub num_uploaded: usize,
}

impl DevicePayload {
    /// Memory for payloads of up to `capacity` bytes, behind which kernels may read `tail` bytes more,
    /// whose values are undefined.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn with_capacity(stream: &Stream, capacity: usize, tail: usize) -> Result<Self> {
        let with_tail = capacity.saturating_add(tail);
        Ok(Self {
            pinned: PinnedBuffer::zeros(stream, with_tail)?,
            bytes: DeviceBuffer::zeros(stream, with_tail)?,
            capacity,
            tail,
            source: Source::Device,
            stream: stream.clone(),
        })
    }

    /// The maximum size of a payload in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Copies a payload into the page-locked memory and queues its upload.
    ///
    /// # Errors
    /// `Argument` when the payload is larger than the capacity; `Device` when the upload fails.
    pub fn enqueue_upload(&mut self, payload: &[u8]) -> Result<()> {
        self.wait_for_readers()?;
        check_capacity("payload", payload.len(), self.capacity)?;
        self.pinned.enqueue_upload(payload, &mut self.bytes)
    }

    /// Makes a payload readable for kernels: where it is, if the scope reads in place and the
    /// memory is page-locked; else by an upload from there, or from a copy.
    ///
    /// # Errors
    /// Returns the errors of [`Self::enqueue_upload`].
    pub fn enqueue_payload<'env>(
        &mut self,
        payload: &'env [u8],
        scope: &UploadScope<'_, 'env>,
    ) -> Result<TransferBytes> {
        check_capacity("payload", payload.len(), self.capacity)?;
        let num_bytes = payload.len();
        if !scope.reads_in_place() {
            self.wait_for_readers()?;
            let num_copied = self.pinned.enqueue_payload(payload, &mut self.bytes, scope)?;
            return Ok(TransferBytes { num_copied, num_uploaded: num_bytes });
        }
        if let Some(borrowed) = scope.borrow(payload, self.tail) {
            self.source = Source::Borrowed(borrowed);
            return Ok(TransferBytes::default());
        }
        self.slot(num_bytes)?.copy_from_slice(payload);
        let num_uploaded = self.enqueue_written(num_bytes, scope)?;
        Ok(TransferBytes { num_copied: num_bytes, num_uploaded })
    }

    /// The first `num_bytes` of the page-locked memory, to be written, after the previous payload
    /// has been read. [`Self::enqueue_written`] passes them on.
    ///
    /// # Errors
    /// `Argument` when that is more than the capacity; `Device` when earlier work failed.
    pub fn slot(&mut self, num_bytes: usize) -> Result<&mut [u8]> {
        self.wait_for_readers()?;
        check_capacity("payload", num_bytes, self.capacity)?;
        self.pinned.values_mut(num_bytes)
    }

    /// Makes the first `num_bytes` of the page-locked memory readable for kernels: in place if the
    /// scope reads so, else by an upload. Returns the bytes uploaded.
    ///
    /// # Errors
    /// `Argument` when that is more than the capacity; `Device` when the upload fails.
    pub fn enqueue_written(
        &mut self,
        num_bytes: usize,
        scope: &UploadScope<'_, '_>,
    ) -> Result<usize> {
        if scope.reads_in_place() {
            let address = self.pinned.values(num_bytes)?.as_ptr() as usize;
            if let Some(address) = device_address(address, num_bytes.max(1)) {
                self.source = Source::Pinned(address);
                return Ok(0);
            }
        }
        self.source = Source::Device;
        self.pinned.enqueue_written(num_bytes, &mut self.bytes)?;
        Ok(num_bytes)
    }

    /// Queues a copy of a payload of another library, after the work that writes it.
    ///
    /// # Errors
    /// `Argument` when it is larger than the capacity or not on this GPU; `Device` when the copy
    /// fails.
    pub fn enqueue_copy<'env>(
        &mut self,
        payload: DeviceBytes<'env>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<()> {
        check_capacity("payload", payload.len(), self.capacity)?;
        self.device_written()?.enqueue_copy_of(payload, scope)
    }

    /// The device memory, into which work on the device writes a payload; kernels read it there.
    ///
    /// # Errors
    /// `Device` when earlier work failed.
    pub fn device_written(&mut self) -> Result<&mut DeviceBuffer<u8>> {
        self.wait_for_readers()?;
        Ok(&mut self.bytes)
    }

    /// The device memory, which holds the payload unless it is read in place.
    pub fn device_bytes(&self) -> &DeviceBuffer<u8> {
        &self.bytes
    }

    /// Whether kernels read the payload in host memory: its address differs from payload to
    /// payload, and work that reads it cannot be recorded.
    pub fn is_in_place(&self) -> bool {
        !matches!(self.source, Source::Device)
    }

    /// The payload and the bytes after it, for kernels on `stream`.
    ///
    /// # Errors
    /// `Device` when the payload belongs to another stream, or its scope has ended.
    pub fn input(&self, stream: &Stream) -> Result<In<'_, u8>> {
        let in_place = |address, len| {
            stream.check_owns(&self.stream)?;
            Ok(In::at(address, len))
        };
        match &self.source {
            Source::Device => self.bytes.input(stream),
            Source::Pinned(address) => in_place(*address, (self.capacity + self.tail) as u64),
            Source::Borrowed(borrowed) if borrowed.is_alive() => {
                in_place(borrowed.address, borrowed.len)
            }
            Source::Borrowed(_) => {
                let message = "the payload was borrowed for an earlier frame";
                Err(Error::new(ErrorKind::Device, "device", message))
            }
        }
    }

    /// Waits until no kernel reads the page-locked memory.
    fn wait_for_readers(&mut self) -> Result<()> {
        if let Source::Pinned(_) = self.source {
            self.stream.synchronize()?;
        }
        self.source = Source::Device;
        Ok(())
    }
}
