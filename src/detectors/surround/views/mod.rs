//! DETR3D and Sparse4D behind a backbone.
//!
//! The backbone takes the images `[N, 3, H, W]` (or `[1, N, 3, H, W]`) and gives one
//! output a level, `[N, C, h, w]`, `[N, h, w, C]` or `[N, C / 32, h, w, 32]` (or with a leading 1),
//! f32, f16 or int8. The decoder looks into the maps where its queries project, and its queries
//! become candidates. Maps whose channels are side by side are read where the backbone has left
//! them, others are written channels last. Maps are int8 where the backbone gives them so, and
//! where the configuration has their scales.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod device_maps;
mod family;
mod load;
mod maps;

#[cfg(feature = "cuda")]
pub(super) use device_maps::DeviceViewMaps;
pub use family::ViewFamily;
pub(super) use family::{input_size, motion_of, unseen_views, write_views};
pub(super) use maps::ViewMaps;
