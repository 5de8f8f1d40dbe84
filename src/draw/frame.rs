//! Boxes on images, clouds from above.

use std::collections::BTreeMap;

use embedded_graphics::pixelcolor::Rgb888;

use super::canvas::Canvas;
use super::image::{class_color, class_name, image_canvas, label};
use super::surround::draw_surround;
use crate::config::{ChannelConfig, ChannelKind};
use crate::detectors::{FrameSet, Payload};
use crate::error::Result;
use crate::ops::unpack::{UnpackParams, unpack};
use crate::types::{
    Affine2, Box3d, CloudView, Detection2d, Detection3d, Detections, ImageBox, ImagePayload,
    PointRange, Points, Size,
};

/// Edge length of a bird's-eye picture in pixels.
pub const BEV_SIZE: u32 = 1000;

/// Size of the picture of a frame without an image whose size is unknown.
const EMPTY_IMAGE: Size = Size::new(640, 640);

/// Colour of truth, which is drawn below the detections, in a thin line.
const TRUTH_COLOR: Rgb888 = Rgb888::new(255, 255, 255);

/// Position and spacing of the legend of a bird's-eye picture, in pixels.
const LEGEND_AT: f32 = 8.0;
const LEGEND_ROW: f32 = 18.0;

/// The range of a bird's-eye picture without one in the configuration.
const DEFAULT_RANGE: PointRange = PointRange { min: [-60.0, -60.0, -3.0], max: [60.0, 60.0, 5.0] };

/// Distance between the rings of a bird's-eye picture.
const RING_SPACING_M: f32 = 10.0;

/// The detections of a frame on its inputs: boxes in an image on the reference
/// input's image; boxes in space projected into the images of a surround channel,
/// else from above, inside `range`, over the points of the first input that is a
/// cloud.
///
/// # Errors
/// Those of decoding the inputs, and `Argument` for boxes in an image without
/// that image.
pub fn draw(
    frame: &FrameSet<'_>,
    reference: usize,
    detections: Detections<'_>,
    config: &ChannelConfig,
) -> Result<Canvas> {
    let class_names = config.kind.class_names();
    match detections {
        Detections::Boxes2d(found) => {
            let mut canvas = camera_canvas(frame, reference, config)?;
            draw_boxes(&mut canvas, found, class_names);
            Ok(canvas)
        }
        Detections::RotatedBoxes2d(found) => {
            let mut canvas = camera_canvas(frame, reference, config)?;
            draw_boxes(&mut canvas, found, class_names);
            Ok(canvas)
        }
        Detections::Boxes3d(found) => {
            if let ChannelKind::Surround(surround) = &config.kind {
                return draw_surround(frame, found, surround);
            }
            let mut clouds =
                frame.inputs.iter().flatten().filter_map(|input| match input.payload {
                    Payload::Cloud(cloud) => Some(cloud),
                    Payload::Image(_) | Payload::CloudOnDevice(_) | Payload::Tensors(_) => None,
                });
            let range = config.kind.point_range().unwrap_or(DEFAULT_RANGE);
            let mut picture = BevPicture::new(clouds.next(), &range, BEV_SIZE)?;
            picture.draw_detections(found, class_names);
            Ok(picture.canvas)
        }
    }
}

/// The image of a frame; an empty one where a frame has the outputs of a network instead.
fn camera_canvas(frame: &FrameSet<'_>, reference: usize, config: &ChannelConfig) -> Result<Canvas> {
    let ChannelKind::Camera(camera) = &config.kind else {
        return image_canvas(&frame.image(reference)?, None);
    };
    match frame.input(reference)?.payload {
        Payload::Tensors(_) => {
            let size = camera.source_size.or(camera.facts.input_size);
            Ok(Canvas::new(size.unwrap_or(EMPTY_IMAGE)))
        }
        Payload::Image(_) | Payload::Cloud(_) | Payload::CloudOnDevice(_) => {
            image_canvas(&frame.image(reference)?, None)
        }
    }
}

/// An image with the boxes, classes and scores of its detections, in its own size.
///
/// # Errors
/// Those of decompressing and converting the picture.
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
/// Those of [`draw_camera`].
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

fn draw_boxes<B: Copy + Into<ImageBox>>(
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

/// Two pictures beside each other, at the top.
pub fn side_by_side(left: &Canvas, right: &Canvas) -> Canvas {
    let [a, b] = [left.size(), right.size()];
    let mut canvas = Canvas::new(Size::new(a.width + b.width, a.height.max(b.height)));
    canvas.paste(left, [0, 0]);
    canvas.paste(right, [a.width, 0]);
    canvas
}

/// Points, boxes and headings from above: x up, y to the left, rings centred at the sensor.
pub struct BevPicture {
    canvas: Canvas,
    view: BevView,
}

impl BevPicture {
    /// Rings, and the points of a cloud inside `range`, `size` pixels wide and
    /// high.
    ///
    /// # Errors
    /// Those of unpacking the points.
    pub fn new(cloud: Option<&CloudView<'_>>, range: &PointRange, size: u32) -> Result<Self> {
        let params =
            UnpackParams { channels: Vec::new(), intensity_scale: 1.0, range: Some(*range) };
        let mut points = Points::with_capacity(3, cloud.map_or(0, CloudView::num_points));
        if let Some(cloud) = cloud {
            unpack(cloud, &params, &mut points)?;
        }
        let mut canvas = Canvas::new(Size::new(size, size));
        let view = BevView::new(range, size);
        view.draw_rings(&mut canvas);
        for point in points.iter() {
            let height = (point[2] - range.min[2]) / (range.max[2] - range.min[2]);
            canvas.dot(view.pixel(point[0], point[1]), height_color(height));
        }
        Ok(Self { canvas, view })
    }

    /// Draws boxes of truth in a thin line.
    pub fn draw_truth(&mut self, truth: impl IntoIterator<Item = Box3d>) {
        for bbox in truth {
            self.draw_box(&bbox, TRUTH_COLOR, 1);
        }
    }

    /// Draws detections with their scores, and in the upper left corner a legend of colours,
    /// classes and their numbers; without class names neither scores nor legend.
    pub fn draw_detections(&mut self, detections: &[Detection3d], class_names: &[String]) {
        let mut num_of_class = BTreeMap::new();
        for detection in detections {
            let color = class_color(detection.class);
            let corner = self.draw_box(&detection.object.bbox, color, 2);
            *num_of_class.entry(detection.class).or_insert(0_u32) += 1;
            if !class_names.is_empty() {
                self.canvas.text(corner, &format!("{:.2}", detection.score), color);
            }
        }
        if !class_names.is_empty() {
            for (row, (&class, num)) in num_of_class.iter().enumerate() {
                let text = format!("{} {num}", class_name(class_names, class));
                let at = [LEGEND_AT, LEGEND_AT + LEGEND_ROW * (row + 1) as f32];
                self.canvas.label(at, &text, class_color(class));
            }
        }
    }

    /// The image.
    pub fn canvas(&self) -> &Canvas {
        &self.canvas
    }

    /// Draws a box with its heading; returns the position of its front left corner.
    fn draw_box(&mut self, b: &Box3d, color: Rgb888, width: u32) -> [f32; 2] {
        let (sin, cos) = b.yaw_rad.sin_cos();
        let at = |forward: f32, left: f32| {
            let (forward, left) = (forward * b.length_m * 0.5, left * b.width_m * 0.5);
            self.view.pixel(
                b.center[0] + cos * forward - sin * left,
                b.center[1] + sin * forward + cos * left,
            )
        };
        let corners = [at(1.0, 1.0), at(1.0, -1.0), at(-1.0, -1.0), at(-1.0, 1.0)];
        let heading = [at(0.0, 0.0), at(1.5, 0.0)];
        self.canvas.polygon(&corners, color, width);
        self.canvas.line(heading[0], heading[1], color, width);
        corners[0]
    }
}

/// Metres to pixels of a bird's-eye picture.
struct BevView {
    pixel_from_m: Affine2,
}

impl BevView {
    fn new(range: &PointRange, size: u32) -> Self {
        let extent_m = (range.max[0] - range.min[0]).max(range.max[1] - range.min[1]);
        let scale = size as f32 / extent_m;
        let center = [0, 1].map(|axis| (range.min[axis] + range.max[axis]) * 0.5);
        let middle = size as f32 * 0.5;
        // Picture x is minus y of the vehicle, picture y is minus x.
        let pixel_from_m = Affine2 {
            scale: [-scale; 2],
            offset: [middle + scale * center[1], middle + scale * center[0]],
        };
        Self { pixel_from_m }
    }

    fn pixel(&self, x: f32, y: f32) -> [f32; 2] {
        let Affine2 { scale, offset } = self.pixel_from_m;
        [scale[0] * y + offset[0], scale[1] * x + offset[1]]
    }

    fn draw_rings(&self, canvas: &mut Canvas) {
        let gray = Rgb888::new(60, 60, 60);
        for ring in 1..=10 {
            let radius_m = ring as f32 * RING_SPACING_M;
            canvas.circle(self.pixel(0.0, 0.0), radius_m * self.pixel_from_m.scale[0].abs(), gray);
        }
    }
}

/// Low points blue, high points yellow.
fn height_color(height: f32) -> Rgb888 {
    let t = height.clamp(0.0, 1.0);
    Rgb888::new((60.0 + 195.0 * t) as u8, (90.0 + 140.0 * t) as u8, (200.0 - 140.0 * t) as u8)
}
