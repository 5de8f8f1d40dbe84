//! StreamPETR as three ONNX networks with a temporal memory, as Autoware deploys it.
//!
//! | network | inputs | outputs |
//! |---|---|---|
//! | backbone | `img` [1, N, 3, H, W] | `img_feats` [1, N, C, h, w] |
//! | position embedding | `img_metas_pad` \[3\] (H, W, 3), `intrinsics`, `img2lidar` [1, N, 4, 4], optionally `img_feats`, of which it uses the shape | `pos_embed` [1, T, C], `cone` [1, T, 8], T = N·h·w |
//! | head | `x` (the features), `pos_embed`, `cone`, `data_ego_pose`, `data_ego_pose_inv` [1, 4, 4], `pre_memory_embedding` [1, M, C], `pre_memory_reference_point` [1, M, 3], `pre_memory_timestamp` [1, M, 1], `pre_memory_egopose` [1, M, 4, 4], `pre_memory_velo` [1, M, 2], optionally `data_timestamp` \[1\] | `all_cls_scores`, `all_bbox_preds` (see [`decode_streampetr`](det_post_ops::decode::streampetr)), `post_memory_*` [1, M + P, ..] |
//!
//! Number of cameras N, image size H, W, memory length M, number of queries and layout of
//! the outputs are those of the files. The P queries with the best scores enter the memory
//! at the front.
//!
//! **Poses are relative.** The head moves its memory by `data_ego_pose_inv` and stores it
//! moved by `data_ego_pose`. With the transform of the previous frame to the current one as
//! the first and the identity as the second, the memory stays in the current frame of the
//! vehicle and its numbers stay small; boxes are equal, since the head uses nothing but the
//! product. Likewise the times of the memory are ages in seconds, which the host computes,
//! and `data_timestamp` is 0.
//!
//! **Embeddings** depend only on the matrices and are computed again when one changes.
//!
//! **A first frame** starts from a memory of zeros, as Autoware's node after a reset.
//! PyTorch starts from 256 learned points instead, which the files do not contain.
//!
//! Inputs of another name, other element types than f32 (`data_timestamp`: f32 or f64;
//! `img_metas_pad`: i32 or i64) and lengths that disagree are refused, by name. On a GPU
//! `data_timestamp` of f64 is refused, too; the position network runs on the host.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod decoder;
mod memory;
mod position;
mod signature;

pub use cpu::StreamPetr;
#[cfg(feature = "cuda")]
pub use cuda::DeviceStreamPetr;
pub use decoder::StreamPetrFamily;
pub use memory::{MEMORY_PARTS, Memory, MemoryValues};
pub use signature::{Lengths, Signature, Specs, StatedImages};

/// The matrices of all cameras, row by row, as the position network takes them.
#[derive(Clone, Copy, Debug)]
pub struct CameraMatrices<'a> {
    /// Intrinsic matrices of the network's images, [N, 4, 4].
    pub intrinsics: &'a [f32],
    /// Transforms from (u·z, v·z, z, 1) to the target frame, [N, 4, 4].
    pub target_from_image: &'a [f32],
}
