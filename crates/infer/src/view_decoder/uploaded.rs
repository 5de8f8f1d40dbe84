//! Values that the host writes before a frame and a GPU reads.

use det_post_ops::device::cuda::{DeviceBuffer, In, PinnedBuffer, Stream};
use det_post_types::Result;

/// Values on the host, in page-locked memory and on the device.
#[derive(Debug)]
pub(super) struct Uploaded {
    host: Vec<f32>,
    /// Whether the device has the values of the host, once queued work is done.
    is_uploaded: bool,
    pinned: PinnedBuffer<f32>,
    device: DeviceBuffer<f32>,
}

impl Uploaded {
    /// Zeros.
    pub(super) fn zeros(stream: &Stream, len: usize) -> Result<Self> {
        Ok(Self {
            host: vec![0.0; len],
            is_uploaded: false,
            pinned: PinnedBuffer::zeros(stream, len)?,
            device: DeviceBuffer::zeros(stream, len)?,
        })
    }

    /// Replaces the first values and queues the upload of all. Waits for the upload before, if it is
    /// not complete.
    pub(super) fn upload(&mut self, values: impl Iterator<Item = f32>) -> Result<()> {
        self.host.iter_mut().zip(values).for_each(|(to, value)| *to = value);
        self.is_uploaded = false;
        self.pinned.enqueue_upload(&self.host, &mut self.device)?;
        self.is_uploaded = true;
        Ok(())
    }

    /// As [`Self::upload`] for values that differ from those of the last upload; others are not uploaded
    /// again. Returns whether they differ.
    pub(super) fn update(&mut self, values: impl Iterator<Item = f32> + Clone) -> Result<bool> {
        let is_same = self.is_uploaded && self.host.iter().copied().eq(values.clone());
        if !is_same {
            self.upload(values)?;
        }
        Ok(!is_same)
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
