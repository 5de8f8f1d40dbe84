//! Operations of perception, on the CPU and on CUDA.
//!
//! One folder each, in families: `mod.rs` states the contract and checks the arguments, `cpu.rs`
//! is the reference. Operations that run on CUDA have `cuda.rs`, which launches, and
//! `kernels.rs`, which declares the parameters of the kernels in `kernels/<family>/<op>.cu`.
//!
//! | family | operations |
//! |---|---|
//! | [`image`] | [`decompress`](image::decompress), [`letterbox`](image::letterbox), [`resample`](image::resample) |
//! | [`cloud`] | [`unpack`](cloud::unpack), [`densify`](cloud::densify), [`voxelize`](cloud::voxelize), [`pillar_features`](cloud::pillar_features), [`scatter`](cloud::scatter) |
//! | [`sparse`] | [`voxel_mean`](sparse::voxel_mean), [`rulebook`](sparse::rulebook), [`conv`](sparse::conv), [`max_pool`](sparse::max_pool), [`to_map`](sparse::to_map) |
//! | [`view`] | [`channels_last`](view::channels_last), [`sample`](view::sample), [`attention`](view::attention), [`linear`](view::linear), [`layer_norm`](view::layer_norm), [`layer_stack`](view::layer_stack), [`refine`](view::refine), [`top_rows`](view::top_rows), [`detr3d_block`](view::detr3d_block), [`bev_pool`](view::bev_pool), [`depth_image`](view::depth_image) |
//! | [`dense`] | layers of networks: [`conv`](dense::conv), [`conv_transpose`](dense::conv_transpose), [`matmul`](dense::matmul) |
//! | [`decode`] | [`yolo`](decode::yolo), [`center`](decode::center), [`anchor`](decode::anchor), [`query`](decode::query), [`streampetr`](decode::streampetr), [`select`](decode::select), [`gather`](decode::gather) |
//! | [`nms`] | [`none`](nms::none), [`iou`](nms::iou), [`fast`](nms::fast), [`soft`](nms::soft), [`rotated`](nms::rotated), [`circle`](nms::circle), [`bev`](nms::bev), [`bev_fast`](nms::bev_fast), [`iou_3d`](nms::iou_3d); between two kinds in a row [`survivors`](nms::survivors) |
//! | [`arrays`] | arrays of other libraries: [`candidates`](arrays::candidates), [`voxels`](arrays::voxels), [`sparse`](arrays::sparse) |
//!
//! `shared` has what families share on a GPU: candidates, and the counters of a frame.
//! [`device`] is where a channel runs: the CPU, or one CUDA GPU.
//!
//! Operations copy nothing between host and device, and allocate nothing once their
//! workspaces have grown to the sizes of the data.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod arrays;
pub mod cloud;
pub mod decode;
pub mod dense;
pub mod device;
pub mod image;
pub mod nms;
#[cfg(feature = "cuda")]
pub mod shared;
pub mod sparse;
pub mod view;
