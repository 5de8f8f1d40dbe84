//! A picture on its way to the device.

use super::{DeviceBuffer, Loans, PinnedBuffer, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Encoding, ImageView, Size};

/// How a picture lies in its bytes, checked by [`ImageView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLayout {
    /// Width and height.
    pub size: Size,
    /// Bytes from row to row.
    pub step: usize,
    /// What the bytes mean.
    pub encoding: Encoding,
    /// Whether 16-bit samples have their high byte first.
    pub big_endian: bool,
}

impl ImageLayout {
    /// How a picture in host memory lies.
    pub fn of(image: &ImageView<'_>) -> Self {
        Self {
            size: image.size(),
            step: image.step(),
            encoding: image.encoding(),
            big_endian: image.is_big_endian(),
        }
    }
}

/// Bytes after the picture that kernels may read, without a meaning.
pub const TAIL_BYTES: usize = 16;

/// A pinned slot and device memory for one picture of up to a number of bytes,
/// as it lay in its message.
#[derive(Debug)]
pub struct DeviceImage {
    pinned: PinnedBuffer<u8>,
    bytes: DeviceBuffer<u8>,
    layout: Option<ImageLayout>,
}

impl DeviceImage {
    /// Room for pictures of up to `num_bytes`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn with_capacity(stream: &Stream, num_bytes: usize) -> Result<Self> {
        let pinned = PinnedBuffer::zeros(stream, num_bytes)?;
        let bytes = DeviceBuffer::zeros(stream, num_bytes.saturating_add(TAIL_BYTES))?;
        Ok(Self { pinned, bytes, layout: None })
    }

    /// The most bytes that a picture may have.
    pub fn capacity(&self) -> usize {
        self.pinned.capacity()
    }

    /// Copies a picture into the pinned slot and queues its upload.
    ///
    /// # Errors
    /// `Argument` when the picture has more bytes than the capacity; `Device`
    /// when the upload fails.
    pub fn enqueue_upload(&mut self, image: &ImageView<'_>) -> Result<()> {
        self.pinned.enqueue_upload(image.data(), &mut self.bytes)?;
        self.layout = Some(ImageLayout::of(image));
        Ok(())
    }

    /// Queues the upload of a picture: as it lies, on loan, when that is in
    /// page-locked memory, else copied into the pinned slot, once. Gives the
    /// number of bytes that were copied on the host.
    ///
    /// # Errors
    /// Those of [`DeviceImage::enqueue_upload`].
    pub fn enqueue_payload<'env>(
        &mut self,
        image: &ImageView<'env>,
        loans: &Loans<'_, 'env>,
    ) -> Result<usize> {
        let num_copied = self.pinned.enqueue_payload(image.data(), &mut self.bytes, loans)?;
        self.layout = Some(ImageLayout::of(image));
        Ok(num_copied)
    }

    /// The first `num_bytes` of the pinned slot, to be written, after the upload
    /// before has been read out. [`DeviceImage::enqueue_written`] sends them.
    ///
    /// # Errors
    /// `Argument` when that is more than the capacity; `Device` when earlier
    /// work failed.
    pub fn slot(&mut self, num_bytes: usize) -> Result<&mut [u8]> {
        self.pinned.values_mut(num_bytes)
    }

    /// Queues the upload of a picture of `num_bytes` that was written into the
    /// slot and lies there as `layout` says, by [`ImageLayout::of`] its view.
    ///
    /// # Errors
    /// `Argument` when that is more than the capacity; `Device` when the upload
    /// fails.
    pub fn enqueue_written(&mut self, layout: ImageLayout, num_bytes: usize) -> Result<()> {
        self.pinned.enqueue_written(num_bytes, &mut self.bytes)?;
        self.layout = Some(layout);
        Ok(())
    }

    /// The bytes, as they lay in the message, and [`TAIL_BYTES`] more.
    pub fn bytes(&self) -> &DeviceBuffer<u8> {
        &self.bytes
    }

    /// How the last picture lies.
    ///
    /// # Errors
    /// `Argument` when none was uploaded yet.
    pub fn layout(&self) -> Result<ImageLayout> {
        self.layout
            .ok_or_else(|| Error::new(ErrorKind::Argument, "device", "no picture was uploaded yet"))
    }
}
