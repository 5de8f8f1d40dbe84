//! Clouds and boxes from above.

use std::collections::BTreeMap;

use embedded_graphics::pixelcolor::Rgb888;

use super::TRUTH_COLOR;
use super::canvas::Canvas;
use super::image::{class_color, class_name};
use det_post_ops::cloud::unpack::{UnpackParams, unpack};
use det_post_types::{Affine2, Box3d, CloudView, Detection3d, PointRange, Points, Result, Size};

/// Edge length of a bird's-eye image in pixels.
pub const BEV_SIZE: u32 = 1000;

/// Position and spacing of the legend of a bird's-eye image, in pixels.
const LEGEND_AT: f32 = 8.0;
const LEGEND_ROW: f32 = 18.0;

/// Distance between the rings of a bird's-eye image.
const RING_SPACING_M: f32 = 10.0;

/// Points, boxes and headings from above: x up, y to the left, rings centred at the sensor.
pub struct BevImage {
    canvas: Canvas,
    view: BevView,
}

impl BevImage {
    /// Rings, and the points of a cloud inside `range`, `size` pixels wide and
    /// high.
    ///
    /// # Errors
    /// Returns the errors of unpacking the points.
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

    /// The image, without a copy.
    pub fn into_canvas(self) -> Canvas {
        self.canvas
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

/// Metres to pixels of a bird's-eye image.
struct BevView {
    pixel_from_m: Affine2,
}

impl BevView {
    fn new(range: &PointRange, size: u32) -> Self {
        let extent_m = (range.max[0] - range.min[0]).max(range.max[1] - range.min[1]);
        let scale = size as f32 / extent_m;
        let center = [0, 1].map(|axis| (range.min[axis] + range.max[axis]) * 0.5);
        let middle = size as f32 * 0.5;
        // Image x is minus y of the vehicle, image y is minus x.
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
