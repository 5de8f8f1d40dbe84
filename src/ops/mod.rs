//! Verbs. One folder each: `mod.rs` states the contract and chooses the side,
//! `cpu.rs` is the reference.

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
pub mod nms_rotated;
pub mod nms_soft;
pub mod overlap;
pub mod pillar_features;
pub mod scatter;
pub mod select;
pub mod unpack;
pub mod voxelize;
