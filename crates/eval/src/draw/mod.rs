//! Images: boxes on images, clouds from above, curves, animations.
//!
//! Drawing is for people and not fast.

mod animation;
mod bev;
mod camera;
mod canvas;
mod colors;
mod image;
mod labels;
mod legend;
mod plot;
mod rect;

pub use animation::{Animation, AnimationPaths};
pub use bev::{BEV_SIZE, BevImage};
pub use camera::{
    draw_boxes, draw_camera, draw_camera_over_truth, draw_keypoints, draw_masks, side_by_side,
};
pub use canvas::{Canvas, Font};
pub(crate) use colors::{BACKGROUND, GRID, IDEAL, TEXT, VERDICTS};
pub use colors::{class_color, class_rgb};
pub use image::{class_name, draw_image, image_canvas, label};
pub use labels::Labels;
pub use plot::{Curve, save_plot};
