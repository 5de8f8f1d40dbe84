//! The same problems on the CPU and on the GPU, and the answers compared.
//!
//! A problem knows how to make itself, its answer on the CPU and its answer on
//! the device. Integers, orders and indices must be equal; floats are equal or
//! within the units in the last place that `docs/numerics.md` states. Without
//! a GPU the suite says so and passes, unless `DET_POST_REQUIRE=cuda` makes
//! that a failure.
#![cfg(feature = "cuda")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod attention;
mod bev_pool;
mod camera_frame;
mod candidate_arrays;
mod channels_last;
mod decode_anchor;
mod decode_center;
mod decode_proposals;
mod decode_sites;
mod decode_streampetr;
mod decode_yolo;
mod decode_yolo_final;
mod decode_yolo_outputs;
mod dense_conv;
mod dense_maps;
mod dense_pair;
mod dense_pointwise;
mod dense_products;
mod dense_rows;
mod dense_select;
mod densify;
mod depth_image;
mod gather;
mod keypoints;
mod layer_stack;
mod layer_stack_folded;
mod letterbox;
mod linear;
mod mask;
mod nms;
mod nms_bev;
mod nms_bev_fast;
mod nms_circle;
mod nms_fast;
mod nms_iou;
mod nms_iou_3d;
mod nms_none;
mod nms_rotated;
mod nms_soft;
mod overlaps;
mod pillar_features;
mod resample;
mod rulebook;
mod scatter;
mod select;
mod sparse_arrays;
mod sparse_conv;
mod sparse_max_pool;
mod sparse_merge;
mod survivors;
mod to_map;
mod top_rows;
mod unpack;
mod voxel_arrays;
mod voxel_mean;
mod voxel_points;
mod voxelize;
