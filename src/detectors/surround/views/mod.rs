//! DETR3D and Sparse4D behind a backbone.
//!
//! The backbone takes the images `[N, 3, H, W]` (or `[1, N, 3, H, W]`) and gives one
//! output a level, `[N, C, h, w]` or `[N, h, w, C]` (or with a leading 1), f32 or f16. Its
//! maps are written channels last, the decoder looks into them where its queries project,
//! and its queries become candidates. Maps are int8 where the configuration has their scales.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod family;
mod load;
mod maps;

pub use family::ViewFamily;
pub(super) use family::{input_size, motion_of, unseen_views, write_views};
pub(super) use maps::ViewMaps;
#[cfg(feature = "cuda")]
pub(super) use maps::{device_maps, device_sources};
