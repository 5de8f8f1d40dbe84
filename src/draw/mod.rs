//! Images of frames with their detections, and messages that viewers draw: markers in space,
//! annotations of images.
//!
//! Drawing is for people and not fast: the first frames of a replay, and live frames while a
//! debug image has subscribers. `det_post_eval::draw` has what needs no frame.

mod annotations;
mod frame;
mod keypoints;
mod label_images;
mod markers;
mod surround;

pub use annotations::{encode_annotations, encode_detections};
pub use frame::draw;
pub use keypoints::{KEYPOINTS, encode_keypoints};
pub use label_images::LabelImage;
pub use markers::encode_markers;
