//! The feature maps of several cameras: decoders of boxes, and maps seen from above.

pub mod attention;
pub mod bev_pool;
pub mod channels_last;
pub mod depth_image;
pub mod detr3d_block;
pub mod layer_norm;
pub mod layer_stack;
pub mod linear;
pub mod map_statistics;
pub mod refine;
pub mod rows;
pub mod sample;
pub mod top_rows;
