//! Images in device memory, as in their messages.

use crate::device::cuda::{
    DeviceBuffer, DevicePayload, In, Stream, TAIL_BYTES, TransferBytes, UploadScope,
};
use det_post_types::{DeviceBytes, Encoding, Error, ErrorKind, ImageView, Result, Size};

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

/// Pinned host memory and device memory for one image of a bounded size, with the
/// layout of its message.
#[derive(Debug)]
pub struct DeviceImage {
    payload: DevicePayload,
    layout: Option<ImageLayout>,
}

impl DeviceImage {
    /// Memory for images of up to `num_bytes`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn with_capacity(stream: &Stream, num_bytes: usize) -> Result<Self> {
        let payload = DevicePayload::with_capacity(stream, num_bytes, TAIL_BYTES)?;
        Ok(Self { payload, layout: None })
    }

    /// The maximum size of an image in bytes.
    pub fn capacity(&self) -> usize {
        self.payload.capacity()
    }

    /// Copies an image into the pinned memory and queues its upload.
    ///
    /// # Errors
    /// `Argument` when the image is larger than the capacity; `Device` when the
    /// upload fails.
    pub fn enqueue_upload(&mut self, image: &ImageView<'_>) -> Result<()> {
        self.payload.enqueue_upload(image.data())?;
        self.layout = Some(ImageLayout::of(image));
        Ok(())
    }

    /// Makes an image readable for kernels: in place when it is in page-locked memory, by an
    /// upload unless the scope reads in place, else through one copy into the pinned memory.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceImage::enqueue_upload`].
    pub fn enqueue_payload<'env>(
        &mut self,
        image: &ImageView<'env>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<TransferBytes> {
        let moved = self.payload.enqueue_payload(image.data(), scope)?;
        self.layout = Some(ImageLayout::of(image));
        Ok(moved)
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
        self.payload.enqueue_copy(image.data(), scope)?;
        self.layout = Some(ImageLayout::of(image));
        Ok(())
    }

    /// The first `num_bytes` of the pinned memory, to be written, after the previous
    /// image has been read. [`DeviceImage::enqueue_written`] passes them on.
    ///
    /// # Errors
    /// `Argument` when that is more than the capacity; `Device` when earlier
    /// work failed.
    pub fn slot(&mut self, num_bytes: usize) -> Result<&mut [u8]> {
        self.payload.slot(num_bytes)
    }

    /// Makes an image of `num_bytes` that was written into the pinned memory readable for
    /// kernels, with the layout that [`ImageLayout::of`] its view gives: in place if the scope
    /// reads so, else by an upload. Returns the bytes uploaded.
    ///
    /// # Errors
    /// `Argument` when that is more than the capacity; `Device` when the upload
    /// fails.
    pub fn enqueue_written(
        &mut self,
        layout: ImageLayout,
        num_bytes: usize,
        scope: &UploadScope<'_, '_>,
    ) -> Result<usize> {
        let num_uploaded = self.payload.enqueue_written(num_bytes, scope)?;
        self.layout = Some(layout);
        Ok(num_uploaded)
    }

    /// The device memory, into which work on the device writes an image of this layout; it is
    /// the layout of the image from now on.
    ///
    /// # Errors
    /// `Argument` when the image is larger than the capacity; `Device` when earlier work failed.
    pub fn device_written(&mut self, layout: ImageLayout) -> Result<&mut DeviceBuffer<u8>> {
        let num_bytes = layout.step.saturating_mul(layout.encoding.num_rows(layout.size.height));
        if num_bytes > self.capacity() {
            let capacity = self.capacity();
            let message = format!("an image of {num_bytes} bytes, the memory holds {capacity}");
            return Err(Error::new(ErrorKind::Argument, "device", message));
        }
        self.layout = Some(layout);
        self.payload.device_written()
    }

    /// Whether kernels read the image in host memory, at an address that differs from image to
    /// image.
    pub fn is_in_place(&self) -> bool {
        self.payload.is_in_place()
    }

    /// The device memory, which holds the image unless it is read in place.
    pub fn bytes(&self) -> &DeviceBuffer<u8> {
        self.payload.device_bytes()
    }

    /// The bytes of the message, and [`TAIL_BYTES`] more, for kernels on `stream`.
    ///
    /// # Errors
    /// Returns the errors of [`DevicePayload::input`].
    pub fn input(&self, stream: &Stream) -> Result<In<'_, u8>> {
        self.payload.input(stream)
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
