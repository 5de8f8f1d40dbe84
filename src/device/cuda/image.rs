//! Images in device memory, as in their messages.

use super::{DeviceBuffer, PinnedBuffer, Stream, UploadScope};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{DeviceBytes, Encoding, ImageView, Size};

/// The memory layout of an image, checked by [`ImageView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLayout {
    /// Width and height.
    pub size: Size,
    /// Bytes from row to row.
    pub step: usize,
    /// Encoding of the bytes.
    pub encoding: Encoding,
    /// Whether 16-bit samples are big-endian.
    pub big_endian: bool,
}

impl ImageLayout {
    /// The layout of an image.
    pub fn of<B: Copy>(image: &ImageView<'_, B>) -> Self {
        Self {
            size: image.size(),
            step: image.step(),
            encoding: image.encoding(),
            big_endian: image.is_big_endian(),
        }
    }
}

/// Bytes after an image that kernels may read; their values are undefined.
pub const TAIL_BYTES: usize = 16;

/// Pinned host memory and device memory for one image of a bounded size, with the
/// layout of its message.
#[derive(Debug)]
pub struct DeviceImage {
    pinned: PinnedBuffer<u8>,
    bytes: DeviceBuffer<u8>,
    layout: Option<ImageLayout>,
}

impl DeviceImage {
    /// Memory for images of up to `num_bytes`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn with_capacity(stream: &Stream, num_bytes: usize) -> Result<Self> {
        let pinned = PinnedBuffer::zeros(stream, num_bytes)?;
        let bytes = DeviceBuffer::zeros(stream, num_bytes.saturating_add(TAIL_BYTES))?;
        Ok(Self { pinned, bytes, layout: None })
    }

    /// The maximum size of an image in bytes.
    pub fn capacity(&self) -> usize {
        self.pinned.capacity()
    }

    /// Copies an image into the pinned memory and queues its upload.
    ///
    /// # Errors
    /// `Argument` when the image is larger than the capacity; `Device` when the
    /// upload fails.
    pub fn enqueue_upload(&mut self, image: &ImageView<'_>) -> Result<()> {
        self.pinned.enqueue_upload(image.data(), &mut self.bytes)?;
        self.layout = Some(ImageLayout::of(image));
        Ok(())
    }

    /// Queues the upload of an image: in place when it is in page-locked memory,
    /// else through one copy into the pinned memory. Returns the number of bytes
    /// copied on the host.
    ///
    /// # Errors
    /// Those of [`DeviceImage::enqueue_upload`].
    pub fn enqueue_payload<'env>(
        &mut self,
        image: &ImageView<'env>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<usize> {
        let num_copied = self.pinned.enqueue_payload(image.data(), &mut self.bytes, scope)?;
        self.layout = Some(ImageLayout::of(image));
        Ok(num_copied)
    }

    /// Queues a copy of an image in memory of another library, after the work that writes it.
    ///
    /// # Errors
    /// `Argument` when the image is larger than the capacity or not on this GPU; `Device` when
    /// the copy fails.
    pub fn enqueue_copy<'env>(
        &mut self,
        image: &ImageView<'env, DeviceBytes<'env>>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<()> {
        self.bytes.enqueue_copy_of(image.data(), scope)?;
        self.layout = Some(ImageLayout::of(image));
        Ok(())
    }

    /// The first `num_bytes` of the pinned memory, to be written, after the previous
    /// upload has read it. [`DeviceImage::enqueue_written`] uploads them.
    ///
    /// # Errors
    /// `Argument` when that is more than the capacity; `Device` when earlier
    /// work failed.
    pub fn slot(&mut self, num_bytes: usize) -> Result<&mut [u8]> {
        self.pinned.values_mut(num_bytes)
    }

    /// Queues the upload of an image of `num_bytes` that was written into the pinned
    /// memory, with the layout that [`ImageLayout::of`] its view gives.
    ///
    /// # Errors
    /// `Argument` when that is more than the capacity; `Device` when the upload
    /// fails.
    pub fn enqueue_written(&mut self, layout: ImageLayout, num_bytes: usize) -> Result<()> {
        self.pinned.enqueue_written(num_bytes, &mut self.bytes)?;
        self.layout = Some(layout);
        Ok(())
    }

    /// The device memory, into which work on the device writes an image of this layout; it is
    /// the layout of the image from now on.
    ///
    /// # Errors
    /// `Argument` when the image is larger than the capacity.
    pub fn device_written(&mut self, layout: ImageLayout) -> Result<&mut DeviceBuffer<u8>> {
        let num_bytes = layout.step.saturating_mul(layout.encoding.num_rows(layout.size.height));
        if num_bytes > self.capacity() {
            let capacity = self.capacity();
            let message = format!("an image of {num_bytes} bytes, the memory holds {capacity}");
            return Err(Error::new(ErrorKind::Argument, "device", message));
        }
        self.layout = Some(layout);
        Ok(&mut self.bytes)
    }

    /// The bytes of the message, and [`TAIL_BYTES`] more.
    pub fn bytes(&self) -> &DeviceBuffer<u8> {
        &self.bytes
    }

    /// The layout of the last image.
    ///
    /// # Errors
    /// `Argument` when none was uploaded yet.
    pub fn layout(&self) -> Result<ImageLayout> {
        self.layout
            .ok_or_else(|| Error::new(ErrorKind::Argument, "device", "no image was uploaded yet"))
    }
}
