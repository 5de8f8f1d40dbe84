//! Boxes on images.

use std::collections::BTreeMap;

use super::canvas::{Canvas, Font};
use super::colors::{TRUTH, class_color, class_rgb, color};
use super::image::{class_name, image_canvas, label};
use super::labels::Labels;
use super::legend::{Entry, with_footer};
use det_post_types::{
    Detection2d, ImageBox, ImagePayload, Keypoints, Masks, Result, Rle, Size, bones,
};

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

/// As [`draw_camera`], with the masks and the boxes of truth below the boxes of the detections, and a
/// legend below the image. Detections behind the last mask have none.
///
/// # Errors
/// Returns the errors of [`draw_camera`].
pub fn draw_camera_over_truth<B: Copy + Into<ImageBox>>(
    payload: &ImagePayload<'_>,
    truth: &[ImageBox],
    detections: &[Detection2d<B>],
    masks: &[Option<Rle>],
    class_names: &[String],
) -> Result<Canvas> {
    let mut canvas = image_canvas(payload, None)?;
    for (detection, mask) in detections.iter().zip(masks).rev() {
        let Some(mask) = mask else { continue };
        mask.for_each(tint(&mut canvas, detection.class));
    }
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
    for (index, detection) in detections.iter().enumerate().rev() {
        let Some(mask) = masks.get(index) else { continue };
        mask.for_each(tint(canvas, detection.class));
    }
}

/// Mixes pixels of an image, by column and row, with the colour of a class.
fn tint(canvas: &mut Canvas, class: u32) -> impl FnMut(u32, u32) {
    let Size { width, height } = canvas.size();
    let color = class_rgb(class);
    let pixels = canvas.pixels_mut();
    move |x, y| {
        if x < width && y < height {
            let pixel = 3 * (y as usize * width as usize + x as usize);
            for (value, color) in pixels[pixel..pixel + 3].iter_mut().zip(color) {
                *value = value.midpoint(color);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{Box2d, Encoding, ImageView};

    #[test]
    fn masks_are_below_boxes_and_mixed_with_the_image() {
        let size = Size::new(200, 200);
        let grey = vec![100; 200 * 200 * 3];
        let image = ImageView::new(size, 3 * 200, Encoding::Rgb8, false, &grey).unwrap();
        let bbox = Box2d { x1: 50.0, y1: 50.0, x2: 150.0, y2: 150.0 };
        let detection = Detection2d { bbox: ImageBox::from(bbox), score: 0.9, class: 1 };
        // Rows 90 to 109 of two columns; the second detection has no mask.
        let runs = vec![100 * 200 + 90, 20, 180, 20, 98 * 200 + 90];
        let masks = [Some(Rle::new(size, runs).unwrap())];
        let payload = ImagePayload::Raw(image);
        let found = [detection, detection];
        let with = draw_camera_over_truth(&payload, &[], &found, &masks, &[]).unwrap();
        let without = draw_camera_over_truth(&payload, &[], &found, &[], &[]).unwrap();
        let rgb = |canvas: &Canvas, x: usize, y: usize| {
            let at = 3 * (y * canvas.size().width as usize + x);
            [0, 1, 2].map(|channel| canvas.pixels()[at + channel])
        };
        let mixed = class_rgb(1).map(|value| 100_u8.midpoint(value));
        assert_eq!([rgb(&with, 100, 95), rgb(&with, 101, 109)], [mixed; 2]);
        assert_eq!([rgb(&with, 99, 95), rgb(&with, 102, 95)], [[100; 3]; 2]);
        assert_eq!([rgb(&with, 100, 89), rgb(&without, 100, 95)], [[100; 3]; 2]);
        // The border of the box.
        assert_eq!(rgb(&with, 100, 50), class_rgb(1));
    }
}
