//! Values that the host writes before a frame and a GPU reads.

use crate::device::cuda::{DeviceBuffer, In, PinnedBuffer, Stream};
use crate::error::Result;

/// Values on the host, in page-locked memory and on the device.
#[derive(Debug)]
pub(super) struct Uploaded {
    /// To be written before [`Self::enqueue`].
    pub(super) host: Vec<f32>,
    pinned: PinnedBuffer<f32>,
    device: DeviceBuffer<f32>,
}

impl Uploaded {
    /// Zeros.
    pub(super) fn zeros(stream: &Stream, len: usize) -> Result<Self> {
        Ok(Self {
            host: vec![0.0; len],
            pinned: PinnedBuffer::zeros(stream, len)?,
            device: DeviceBuffer::zeros(stream, len)?,
        })
    }

    /// Queues the upload of all values. Waits for the upload before, if it is not complete.
    pub(super) fn enqueue(&mut self) -> Result<()> {
        self.pinned.enqueue_upload(&self.host, &mut self.device)
    }

    /// The values on the device.
    pub(super) fn device(&self) -> &DeviceBuffer<f32> {
        &self.device
    }

    /// The values, for a kernel to read.
    pub(super) fn input(&self, stream: &Stream) -> Result<In<'_, f32>> {
        self.device.input(stream)
    }
}
