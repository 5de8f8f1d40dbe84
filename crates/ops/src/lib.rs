//! Operations of perception on the CPU and on CUDA, in families. One folder each: `mod.rs` states the contract and checks the
//! arguments, `cpu.rs` is the reference. Operations that run on CUDA have `cuda.rs`,
//! which launches, and `kernels.rs`, which declares the parameters of the kernels in
//! `kernels/<family>/<op>.cu`.
//!
//! | stage | operations |
//! |---|---|
//! | input, camera | [`decompress`], [`letterbox`], [`resample`] |
//! | input, LiDAR | [`unpack`], [`densify`], [`voxelize`], [`pillar_features`], [`scatter`] |
//! | sparse networks | [`voxel_mean`], [`rulebook`], [`sparse_conv`], [`sparse_max_pool`], [`to_map`] |
//! | view decoders | [`channels_last`], [`view_sample`], [`attention`], [`linear`], [`layer_norm`], [`layer_stack`], [`refine`], [`top_rows`], [`detr3d_block`] |
//! | output | [`decode_yolo`], [`decode_center`], [`decode_anchor`], [`decode_query`], [`decode_streampetr`], [`select`], [`gather`] |
//! | suppression | [`nms`], which selects one of [`nms_none`], [`nms_iou`], [`nms_fast`], [`nms_soft`], [`nms_rotated`], [`nms_circle`], [`nms_bev`], [`nms_bev_fast`], [`nms_iou_3d`]; between two kinds in a row [`survivors`] |
//! | arrays of other libraries | [`candidate_arrays`], [`voxel_arrays`], [`sparse_arrays`] |
//!
//! Operations copy nothing between host and device, and allocate nothing once their
//! workspaces have grown to the sizes of the data.
//!
//! ```
//! use det_post_ops::nms::Workspace;
//! use det_post_ops::nms::iou::nms_iou;
//! use det_post_types::{Box2d, Candidate, ClassMode, NmsIou};
//!
//! let candidate = |x, score, source| {
//!     let bbox = Box2d::new(x, 0.0, x + 10.0, 10.0);
//!     Candidate { bbox, score, class: 0, source }
//! };
//! let candidates = [candidate(0.0, 0.6, 0), candidate(1.0, 0.9, 1), candidate(50.0, 0.7, 2)];
//! let nms = NmsIou {
//!     iou_threshold: 0.5,
//!     offset: 0,
//!     class_mode: ClassMode::Aware,
//!     score_threshold: None,
//!     max_num: usize::MAX,
//! };
//! let mut keep = Vec::new();
//! nms_iou(&candidates, &nms, &mut Workspace::with_capacity(3), &mut keep)?;
//! assert_eq!(keep.iter().map(|kept| kept.index).collect::<Vec<_>>(), [1, 2]);
//! # Ok::<(), det_post_types::Error>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod arrays;
pub mod cloud;
pub mod decode;
pub mod device;
pub mod image;
pub mod nms;
pub mod sparse;
pub mod view;
