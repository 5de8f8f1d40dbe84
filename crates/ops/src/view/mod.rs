//! Decoders of boxes from the feature maps of several cameras.

pub mod attention;
pub mod channels_last;
pub mod detr3d_block;
pub mod layer_norm;
pub mod layer_stack;
pub mod linear;
pub mod map_statistics;
pub mod refine;
pub mod rows;
pub mod sample;
pub mod top_rows;
