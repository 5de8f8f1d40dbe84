//! Operations. One folder each: `mod.rs` states the contract and checks the
//! arguments, `cpu.rs` is the reference. Operations that run on CUDA have `cuda.rs`,
//! which launches, and `kernels.rs`, which declares the parameters of the kernels in
//! `kernels/<op>.cu`.
//!
//! | stage | operations |
//! |---|---|
//! | input, camera | [`decompress`], [`letterbox`] |
//! | input, LiDAR | [`unpack`], [`densify`], [`voxelize`], [`pillar_features`], [`scatter`] |
//! | sparse networks | [`voxel_mean`], [`rulebook`], [`sparse_conv`], [`sparse_max_pool`], [`to_map`] |
//! | output | [`decode_yolo`], [`decode_center`], [`decode_anchor`], [`select`], [`gather`] |
//! | suppression | [`nms`], which selects one of [`nms_none`], [`nms_iou`], [`nms_fast`], [`nms_soft`], [`nms_rotated`], [`nms_circle`], [`nms_bev`], [`nms_iou_3d`] |
//!
//! Operations copy nothing between host and device, and allocate nothing once their
//! workspaces have grown to the sizes of the data.

pub mod decode_anchor;
pub mod decode_center;
pub mod decode_yolo;
pub mod decompress;
pub mod densify;
pub mod gather;
pub mod letterbox;
pub mod logit;
pub mod nms;
pub mod nms_bev;
pub mod nms_circle;
pub mod nms_fast;
pub mod nms_iou;
pub mod nms_iou_3d;
pub mod nms_none;
pub mod nms_rotated;
pub mod nms_soft;
pub mod overlap;
pub mod pillar_features;
pub mod rulebook;
pub mod scatter;
pub mod select;
pub mod sparse_conv;
pub mod sparse_max_pool;
#[cfg(feature = "cuda")]
mod thresholds;
pub mod to_map;
pub mod unpack;
pub mod voxel_mean;
pub mod voxelize;
