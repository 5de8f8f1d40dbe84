//! The extension module `det_post._ops`: operations on arrays of any library that speaks DLPack.
//!
//! `python/det_post/_ops.pyi` declares the functions with their types; their documentation is
//! that of the functions here.

mod argument;
mod array;
mod bev_pool;
mod channel;
mod cloud;
mod column;
mod decode;
mod detector;
mod error;
mod gpu;
mod image;
mod library;
mod masks;
mod overlaps;
mod sparse;
mod suppression;
mod surround;
mod views;

/// Operations on arrays; see det_post.ops.
#[pyo3::pymodule]
mod _ops {
    #[pymodule_export]
    use crate::array::Output;
    #[pymodule_export]
    use crate::bev_pool::{BevPool, bev_pool};
    #[pymodule_export]
    use crate::cloud::{pillar_features, voxel_mean, voxelize};
    #[pymodule_export]
    use crate::decode::{
        decode_anchor, decode_center, decode_query, decode_streampetr, decode_yolo,
    };
    #[pymodule_export]
    use crate::detector::{Camera, Lidar};
    #[pymodule_export]
    use crate::image::{letterbox, warp_affine};
    #[pymodule_export]
    use crate::overlaps::{box_overlaps, points_in_boxes};
    #[pymodule_export]
    use crate::sparse::{
        Rulebook, Sites, SparseWeights, scatter, sparse_conv, sparse_max_pool, to_map,
    };
    #[pymodule_export]
    use crate::suppression::{
        batched_nms, circle_nms, fast_nms, nms, nms_3d, nms_bev, nms_rotated, soft_nms,
    };
    #[pymodule_export]
    use crate::surround::Surround;
    #[pymodule_export]
    use crate::views::ViewDecoder;
}
