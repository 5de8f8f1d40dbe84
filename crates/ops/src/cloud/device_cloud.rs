//! Point clouds in device memory, as in their messages.

use crate::device::cuda::{DevicePayload, In, Stream, TransferBytes, UploadScope};
use det_post_types::{CloudView, DeviceBytes, Error, ErrorKind, Result};

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
    payload: DevicePayload,
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
        let payload = DevicePayload::with_capacity(stream, num_bytes, 0)?;
        Ok(Self { payload, layout: None })
    }

    /// The maximum size of a cloud in bytes.
    pub fn capacity(&self) -> usize {
        self.payload.capacity()
    }

    /// Copies a cloud, up to the end of its last point, into the pinned memory and
    /// queues its upload.
    ///
    /// # Errors
    /// `Argument` when the cloud is larger than the capacity; `Device` when the
    /// upload fails.
    pub fn enqueue_upload(&mut self, cloud: &CloudView<'_>) -> Result<()> {
        self.payload.enqueue_upload(used_bytes(cloud))?;
        self.layout = Some(CloudLayout::of(cloud));
        Ok(())
    }

    /// Makes a cloud readable for kernels: in place when it is in page-locked memory, by an
    /// upload unless the scope reads in place, else through one copy into the pinned memory.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceCloud::enqueue_upload`].
    pub fn enqueue_payload<'env>(
        &mut self,
        cloud: &CloudView<'env>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<TransferBytes> {
        let moved = self.payload.enqueue_payload(used_bytes(cloud), scope)?;
        self.layout = Some(CloudLayout::of(cloud));
        Ok(moved)
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
        self.payload.enqueue_copy(cloud.data().first(num_bytes(cloud)), scope)?;
        self.layout = Some(CloudLayout::of(cloud));
        Ok(())
    }

    /// The bytes of the message, for kernels on `stream`.
    ///
    /// # Errors
    /// Returns the errors of [`DevicePayload::input`].
    pub fn input(&self, stream: &Stream) -> Result<In<'_, u8>> {
        self.payload.input(stream)
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
