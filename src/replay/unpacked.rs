//! Messages of a recording as channels read them.

use det_post_ros::middleware::InputKind;
use det_post_ros::packed_cloud::Unpacker;
use det_post_types::Result;

/// Memory for a packed cloud that is unpacked.
#[derive(Default)]
pub(super) struct Unpacked {
    pub(super) unpacker: Unpacker,
    message: Vec<u8>,
}

impl Unpacked {
    /// A packed cloud as a `PointCloud2` with at most `max_bytes` of data; other messages as they are.
    ///
    /// # Errors
    /// Returns the errors of [`Unpacker::unpack`].
    pub(super) fn of<'m>(
        &'m mut self,
        kind: InputKind,
        data: &'m [u8],
        max_bytes: usize,
    ) -> Result<(InputKind, &'m [u8])> {
        let InputKind::PackedCloud(packed) = kind else { return Ok((kind, data)) };
        let Self { unpacker, message } = self;
        unpacker.unpack_to(packed, data, max_bytes, message)?;
        Ok((InputKind::PointCloud2, message))
    }
}
