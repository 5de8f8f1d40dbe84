//! Point clouds in device memory, as in their messages.

use super::{DeviceBuffer, PinnedBuffer, Stream, UploadScope};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{CloudView, DeviceBytes};

/// The memory layout of a point cloud, checked by [`CloudView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudLayout {
    /// Points per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Bytes from point to point.
    pub point_step: usize,
    /// Bytes from row to row.
    pub row_step: usize,
    /// Whether values are big-endian.
    pub big_endian: bool,
}

/// Pinned host memory and device memory for one cloud of a bounded size, with the
/// layout of its message.
#[derive(Debug)]
pub struct DeviceCloud {
    pinned: PinnedBuffer<u8>,
    bytes: DeviceBuffer<u8>,
    layout: Option<CloudLayout>,
}

impl CloudLayout {
    /// The layout of a cloud.
    pub fn of<B: Copy>(cloud: &CloudView<'_, B>) -> Self {
        Self {
            width: cloud.width(),
            height: cloud.height(),
            point_step: cloud.point_step(),
            row_step: cloud.row_step(),
            big_endian: cloud.is_big_endian(),
        }
    }
}

impl DeviceCloud {
    /// Memory for clouds of up to `num_bytes`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn with_capacity(stream: &Stream, num_bytes: usize) -> Result<Self> {
        let pinned = PinnedBuffer::zeros(stream, num_bytes)?;
        let bytes = DeviceBuffer::zeros(stream, num_bytes)?;
        Ok(Self { pinned, bytes, layout: None })
    }

    /// The maximum size of a cloud in bytes.
    pub fn capacity(&self) -> usize {
        self.pinned.capacity()
    }

    /// Copies a cloud, up to the end of its last point, into the pinned memory and
    /// queues its upload.
    ///
    /// # Errors
    /// `Argument` when the cloud is larger than the capacity; `Device` when the
    /// upload fails.
    pub fn enqueue_upload(&mut self, cloud: &CloudView<'_>) -> Result<()> {
        self.pinned.enqueue_upload(used_bytes(cloud), &mut self.bytes)?;
        self.layout = Some(CloudLayout::of(cloud));
        Ok(())
    }

    /// Queues the upload of a cloud: in place when it is in page-locked memory, else
    /// through one copy into the pinned memory. Returns the number of bytes copied
    /// on the host.
    ///
    /// # Errors
    /// Those of [`DeviceCloud::enqueue_upload`].
    pub fn enqueue_payload<'env>(
        &mut self,
        cloud: &CloudView<'env>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<usize> {
        let used = used_bytes(cloud);
        let num_copied = self.pinned.enqueue_payload(used, &mut self.bytes, scope)?;
        self.layout = Some(CloudLayout::of(cloud));
        Ok(num_copied)
    }

    /// Queues a copy of a cloud in memory of another library, after the work that writes it.
    ///
    /// # Errors
    /// `Argument` when the cloud is larger than the capacity or not on this GPU; `Device` when
    /// the copy fails.
    pub fn enqueue_copy<'env>(
        &mut self,
        cloud: &CloudView<'env, DeviceBytes<'env>>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<()> {
        self.bytes.enqueue_copy_of(cloud.data().first(num_bytes(cloud)), scope)?;
        self.layout = Some(CloudLayout::of(cloud));
        Ok(())
    }

    /// The bytes of the message.
    pub fn bytes(&self) -> &DeviceBuffer<u8> {
        &self.bytes
    }

    /// The layout of the last cloud.
    ///
    /// # Errors
    /// `Argument` when none was uploaded yet.
    pub fn layout(&self) -> Result<CloudLayout> {
        self.layout
            .ok_or_else(|| Error::new(ErrorKind::Argument, "device", "no cloud was uploaded yet"))
    }
}

/// The bytes of a cloud up to the end of its last point.
fn used_bytes<'a>(cloud: &CloudView<'a>) -> &'a [u8] {
    cloud.data().get(..num_bytes(cloud)).unwrap_or_default()
}

/// The size of a cloud in bytes, up to the end of its last point.
pub fn num_bytes<B: Copy>(cloud: &CloudView<'_, B>) -> usize {
    match cloud.height().checked_sub(1) {
        Some(last) if cloud.width() > 0 => {
            last * cloud.row_step() + cloud.width() * cloud.point_step()
        }
        _ => 0,
    }
}
