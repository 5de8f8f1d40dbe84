//! A point cloud on its way to the device.

use super::{DeviceBuffer, Loans, PinnedBuffer, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::types::CloudView;

/// How the points of a cloud lie in its bytes, checked by [`CloudView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudLayout {
    /// Points a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Bytes from point to point.
    pub point_step: usize,
    /// Bytes from row to row.
    pub row_step: usize,
    /// Whether values have their high byte first.
    pub big_endian: bool,
}

/// A pinned slot and device memory for one cloud of up to a number of bytes,
/// as it lay in its message.
#[derive(Debug)]
pub struct DeviceCloud {
    pinned: PinnedBuffer<u8>,
    bytes: DeviceBuffer<u8>,
    layout: Option<CloudLayout>,
}

impl CloudLayout {
    /// How a cloud in host memory lies.
    pub fn of(cloud: &CloudView<'_>) -> Self {
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
    /// Room for clouds of up to `num_bytes`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn with_capacity(stream: &Stream, num_bytes: usize) -> Result<Self> {
        let pinned = PinnedBuffer::zeros(stream, num_bytes)?;
        let bytes = DeviceBuffer::zeros(stream, num_bytes)?;
        Ok(Self { pinned, bytes, layout: None })
    }

    /// The most bytes a cloud may have.
    pub fn capacity(&self) -> usize {
        self.pinned.capacity()
    }

    /// Copies a cloud, the bytes from its first point to the end of its last,
    /// into the pinned slot and queues its upload.
    ///
    /// # Errors
    /// `Argument` when the cloud has more bytes than the capacity; `Device`
    /// when the upload fails.
    pub fn enqueue_upload(&mut self, cloud: &CloudView<'_>) -> Result<()> {
        self.pinned.enqueue_upload(used_bytes(cloud), &mut self.bytes)?;
        self.layout = Some(CloudLayout::of(cloud));
        Ok(())
    }

    /// Queues the upload of a cloud: as it lies, on loan, when that is in
    /// page-locked memory, else copied into the pinned slot, once. Gives the
    /// number of bytes that were copied on the host.
    ///
    /// # Errors
    /// Those of [`DeviceCloud::enqueue_upload`].
    pub fn enqueue_payload<'env>(
        &mut self,
        cloud: &CloudView<'env>,
        loans: &Loans<'_, 'env>,
    ) -> Result<usize> {
        let used = used_bytes(cloud);
        let num_copied = self.pinned.enqueue_payload(used, &mut self.bytes, loans)?;
        self.layout = Some(CloudLayout::of(cloud));
        Ok(num_copied)
    }

    /// The bytes, as they lay in the message.
    pub fn bytes(&self) -> &DeviceBuffer<u8> {
        &self.bytes
    }

    /// How the last cloud lies.
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

/// How many bytes a cloud has up to the end of its last point.
pub fn num_bytes(cloud: &CloudView<'_>) -> usize {
    match cloud.height().checked_sub(1) {
        Some(last) if cloud.width() > 0 => {
            last * cloud.row_step() + cloud.width() * cloud.point_step()
        }
        _ => 0,
    }
}
