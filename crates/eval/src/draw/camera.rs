//! Boxes on images.

use std::collections::BTreeMap;

use super::canvas::{Canvas, Font};
use super::colors::{TRUTH, class_color, class_rgb, color};
use super::image::{class_name, image_canvas, label};
use super::labels::Labels;
use super::legend::{Entry, with_footer};
use det_post_types::{Detection2d, ImageBox, ImagePayload, Keypoints, Masks, Result, Size, bones};

/// An image with the boxes, classes and scores of its detections, in its own size.
///
/// # Errors
/// Returns the errors of decompressing and converting the image.
pub fn draw_camera<B: Copy + Into<ImageBox>>(
    payload: &ImagePayload<'_>,
    detections: &[Detection2d<B>],
    class_names: &[String],
) -> Result<Canvas> {
    let mut canvas = image_canvas(payload, None)?;
    draw_boxes(&mut canvas, detections, class_names);
    Ok(canvas)
}

/// As [`draw_camera`], with boxes of truth below the detections, and a legend below the image.
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
        canvas.polygon(&bbox.corners(), color(TRUTH), 1);
    }
    draw_boxes(&mut canvas, detections, class_names);
    let mut legend = legend(detections.iter().map(|detection| detection.class), class_names);
    legend.push(Entry { color: TRUTH, text: "ground truth".to_owned() });
    let font = Font::for_width(canvas.size().width);
    Ok(with_footer(&canvas, &legend, font))
}

/// Draws the boxes, classes and scores of detections.
pub fn draw_boxes<B: Copy + Into<ImageBox>>(
    canvas: &mut Canvas,
    detections: &[Detection2d<B>],
    class_names: &[String],
) {
    let mut labels = Labels::new(Font::for_width(canvas.size().width));
    for detection in detections {
        let color = class_color(detection.class);
        let corners = detection.bbox.into().corners();
        canvas.polygon(&corners, color, 2);
        labels.add(&corners, label(class_names, detection.class, detection.score), color);
    }
    labels.draw(canvas);
}

/// Colours the masks of detections, the best last.
pub fn draw_masks(canvas: &mut Canvas, detections: &[Detection2d], masks: &Masks<'_>) {
    let Size { width, height } = canvas.size();
    for (index, detection) in detections.iter().enumerate().rev() {
        let Some(mask) = masks.get(index) else { continue };
        let color = class_rgb(detection.class);
        let pixels = canvas.pixels_mut();
        mask.for_each(|x, y| {
            if x < width && y < height {
                let pixel = 3 * (y as usize * width as usize + x as usize);
                for (value, color) in pixels[pixel..pixel + 3].iter_mut().zip(color) {
                    *value = value.midpoint(color);
                }
            }
        });
    }
}

/// Draws the keypoints of detections with at least a score, and the lines between them where their
/// meaning is known; the best detection last.
pub fn draw_keypoints(
    canvas: &mut Canvas,
    detections: &[Detection2d],
    keypoints: &Keypoints<'_>,
    threshold: f32,
) {
    for (index, detection) in detections.iter().enumerate().rev() {
        let own = keypoints.of(index);
        let color = class_color(detection.class);
        let position = |at: usize| {
            let keypoint = own.get(at).filter(|keypoint| keypoint.score >= threshold)?;
            Some([keypoint.x, keypoint.y])
        };
        for &[from, to] in bones(own.len()) {
            if let (Some(from), Some(to)) = (position(from), position(to)) {
                canvas.line(from, to, color, 2);
            }
        }
        for [x, y] in (0..own.len()).filter_map(position) {
            let [left, top, right, bottom] = [x - DOT, y - DOT, x + DOT, y + DOT];
            let corners = [[left, top], [right, top], [right, bottom], [left, bottom]];
            canvas.polygon(&corners, color, 2);
        }
    }
}

/// Half of the side of a keypoint's square, in pixels.
const DOT: f32 = 2.0;

/// The classes that are there, with their numbers.
pub(super) fn legend(classes: impl Iterator<Item = u32>, class_names: &[String]) -> Vec<Entry> {
    let mut num_of_class = BTreeMap::new();
    for class in classes {
        *num_of_class.entry(class).or_insert(0_u32) += 1;
    }
    let entry = |(class, num)| Entry {
        color: class_rgb(class),
        text: format!("{num} {}", class_name(class_names, class)),
    };
    num_of_class.into_iter().map(entry).collect()
}

/// Two images beside each other, at the top.
pub fn side_by_side(left: &Canvas, right: &Canvas) -> Canvas {
    let [a, b] = [left.size(), right.size()];
    let mut canvas = Canvas::new(Size::new(a.width + b.width, a.height.max(b.height)));
    canvas.paste(left, [0, 0]);
    canvas.paste(right, [a.width, 0]);
    canvas
}
