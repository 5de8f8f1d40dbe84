//! `point_cloud_interfaces/CompressedPointCloud2`.

use super::field::{message, record};
use det_post_types::{Header, PointFields};

record! {
    /// `point_cloud_interfaces/CompressedPointCloud2`, a cloud as point_cloud_transport and Cloudini
    /// publish it, unchecked. [`Unpacker`](crate::packed_cloud::Unpacker) decompresses it.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct CompressedPointCloud2<'a> {
        /// Stamp and frame.
        pub header: Header<'a>,
        /// Rows; 1 for an unorganised cloud.
        pub height: u32,
        /// Points per row.
        pub width: u32,
        /// The fields of a point that is decompressed.
        pub fields: PointFields<'a>,
        /// Whether values are big endian.
        pub is_bigendian: bool,
        /// Bytes from one point to the next.
        pub point_step: u32,
        /// Bytes from one row to the next.
        pub row_step: u32,
        /// The points, compressed.
        pub compressed_data: &'a [u8],
        /// Whether the sender states that all points are finite.
        pub is_dense: bool,
        /// The name of the compression: `draco`, `zlib`, `zstd`, `cloudini`; Cloudini's plugin of
        /// point_cloud_transport leaves it empty.
        pub format: &'a str,
    }
}

message! {
    /// `PointField` when it has too many fields or one with too long a name.
    CompressedPointCloud2<'a>: "point_cloud_interfaces/msg/CompressedPointCloud2"
}
