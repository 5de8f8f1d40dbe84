//! Boxes on images.

use super::TRUTH_COLOR;
use super::canvas::Canvas;
use super::image::{class_color, image_canvas, label};
use det_post_types::{Detection2d, ImageBox, ImagePayload, Result, Size};

/// An image with the boxes, classes and scores of its detections, in its own size.
///
/// # Errors
/// Returns the errors of decompressing and converting the image.
pub fn draw_camera<B: Copy + Into<ImageBox>>(
    payload: &ImagePayload<'_>,
    detections: &[Detection2d<B>],
    class_names: &[String],
) -> Result<Canvas> {
    draw_camera_over_truth(payload, &[], detections, class_names)
}

/// As [`draw_camera`], with boxes of truth below the detections.
///
/// # Errors
/// Returns the errors of [`draw_camera`].
pub fn draw_camera_over_truth<B: Copy + Into<ImageBox>>(
    payload: &ImagePayload<'_>,
    truth: &[ImageBox],
    detections: &[Detection2d<B>],
    class_names: &[String],
) -> Result<Canvas> {
    let mut canvas = image_canvas(payload, None)?;
    for bbox in truth {
        canvas.polygon(&bbox.corners(), TRUTH_COLOR, 1);
    }
    draw_boxes(&mut canvas, detections, class_names);
    Ok(canvas)
}

/// Draws the boxes, classes and scores of detections.
pub fn draw_boxes<B: Copy + Into<ImageBox>>(
    canvas: &mut Canvas,
    detections: &[Detection2d<B>],
    class_names: &[String],
) {
    for detection in detections {
        let color = class_color(detection.class);
        let corners = detection.bbox.into().corners();
        let top =
            corners.into_iter().fold(corners[0], |top, c| if c[1] < top[1] { c } else { top });
        canvas.polygon(&corners, color, 2);
        canvas.label(top, &label(class_names, detection.class, detection.score), color);
    }
}

/// Two images beside each other, at the top.
pub fn side_by_side(left: &Canvas, right: &Canvas) -> Canvas {
    let [a, b] = [left.size(), right.size()];
    let mut canvas = Canvas::new(Size::new(a.width + b.width, a.height.max(b.height)));
    canvas.paste(left, [0, 0]);
    canvas.paste(right, [a.width, 0]);
    canvas
}
