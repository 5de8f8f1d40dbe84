//! Pictures of frames with their detections, curves and animations (feature `pictures`), the
//! colours of classes, and messages that viewers draw: markers in space, annotations of pictures.
//!
//! Drawing is for people and not fast: the first frames of a replay, and live frames while a
//! debug image has subscribers.

#[cfg(feature = "pictures")]
mod animation;
mod annotations;
#[cfg(feature = "pictures")]
mod canvas;
mod colors;
#[cfg(feature = "pictures")]
mod frame;
#[cfg(feature = "pictures")]
mod image;
mod markers;
#[cfg(feature = "pictures")]
mod plot;
#[cfg(feature = "pictures")]
mod surround;

#[cfg(feature = "pictures")]
pub use {
    animation::Animation,
    canvas::Canvas,
    frame::{BEV_SIZE, BevPicture, draw, draw_camera, draw_camera_over_truth, side_by_side},
    image::draw_image,
    plot::{Curve, save_plot},
};

pub use annotations::encode_annotations;
pub use colors::class_rgb;
pub use markers::encode_markers;
