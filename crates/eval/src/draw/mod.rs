//! Images: boxes on images, clouds from above, curves, animations.
//!
//! Drawing is for people and not fast.

mod animation;
mod bev;
mod camera;
mod canvas;
mod colors;
mod image;
mod plot;

use embedded_graphics::pixelcolor::Rgb888;

pub use animation::Animation;
pub use bev::{BEV_SIZE, BevImage};
pub use camera::{draw_boxes, draw_camera, draw_camera_over_truth, side_by_side};
pub use canvas::Canvas;
pub use colors::class_rgb;
pub use image::{class_color, class_name, draw_image, image_canvas, label};
pub use plot::{Curve, save_plot};

/// Colour of truth, which is drawn below the detections, in a thin line.
const TRUTH_COLOR: Rgb888 = Rgb888::new(255, 255, 255);
