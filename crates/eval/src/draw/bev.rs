//! Clouds and boxes from above.

use embedded_graphics::pixelcolor::Rgb888;

use super::camera::legend;
use super::canvas::{Canvas, Font};
use super::colors::{RINGS, TEXT, TRUTH, VEHICLE, class_color, color};
use super::labels::Labels;
use super::legend::{Entry, draw_legend};
use super::rect::Rect;
use det_post_ops::cloud::unpack::placement::Placement;
use det_post_ops::cloud::unpack::{UnpackParams, append};
use det_post_types::{Affine2, Box3d, CloudView, Detection3d, PointRange, Points, Result, Size};

/// Edge length of a bird's-eye image in pixels.
pub const BEV_SIZE: u32 = 1000;

/// Edge length from which detections have scores, in pixels.
const MIN_SIZE_OF_SCORES: u32 = 700;

/// Distances between rings, in metres; the first with at most [`MAX_RINGS`] is taken.
const RING_SPACINGS_M: [f32; 9] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];
const MAX_RINGS: f32 = 8.0;

/// The farthest that an image with the own vehicle reaches, where the vehicle has a pixel.
const MAX_REACH_M: f32 = 5000.0;

/// Length and width of the symbol of the own vehicle, as a car has them, in metres.
const VEHICLE_M: [f32; 2] = [4.5, 1.9];

/// Points, boxes and headings from above: x up, y to the left, rings with their distances in
/// metres around the own vehicle at the origin.
pub struct BevImage {
    canvas: Canvas,
    view: BevView,
    font: Font,
    has_truth: bool,
}

impl BevImage {
    /// Rings, and the points of a cloud inside `range`, `size` pixels wide and
    /// high.
    ///
    /// # Errors
    /// Returns the errors of unpacking the points.
    pub fn new(cloud: Option<&CloudView<'_>>, range: &PointRange, size: u32) -> Result<Self> {
        let clouds: Vec<_> = cloud.map(|cloud| (cloud, Placement::default())).into_iter().collect();
        Self::of_clouds(&clouds, range, size)
    }

    /// As [`BevImage::new`], of clouds that are moved.
    ///
    /// # Errors
    /// Returns the errors of unpacking the points.
    pub fn of_clouds(
        clouds: &[(&CloudView<'_>, Placement)],
        range: &PointRange,
        size: u32,
    ) -> Result<Self> {
        let params =
            UnpackParams { channels: Vec::new(), intensity_scale: 1.0, range: Some(*range) };
        let num_points = clouds.iter().map(|(cloud, _)| cloud.num_points()).sum();
        let mut points = Points::with_capacity(3, num_points);
        for (cloud, placement) in clouds {
            append(cloud, &params, placement, &mut points)?;
        }
        let mut canvas = Canvas::new(Size::new(size, size));
        let view = BevView::new(range, size);
        let font = if size < MIN_SIZE_OF_SCORES { Font::Small } else { Font::Medium };
        view.draw_rings(&mut canvas);
        for point in points.iter() {
            let height = (point[2] - range.min[2]) / (range.max[2] - range.min[2]);
            canvas.dot(view.pixel(point[0], point[1]), height_color(height));
        }
        view.draw_distances(&mut canvas, font);
        view.draw_vehicle(&mut canvas);
        Ok(Self { canvas, view, font, has_truth: false })
    }

    /// Draws boxes of truth in a thin line.
    pub fn draw_truth(&mut self, truth: impl IntoIterator<Item = Box3d>) {
        self.has_truth = true;
        for bbox in truth {
            self.draw_box(&bbox, color(TRUTH), 1);
        }
    }

    /// Draws detections, with their scores where the image is large enough for them, and in the
    /// upper left corner a legend of the colours.
    pub fn draw_detections(&mut self, detections: &[Detection3d], class_names: &[String]) {
        let mut labels = Labels::new(Font::Small);
        for detection in detections {
            let color = class_color(detection.class);
            let corners = self.draw_box(&detection.object.bbox, color, 2);
            if self.canvas.size().width >= MIN_SIZE_OF_SCORES {
                labels.add(&corners, format!("{:.2}", detection.score), color);
            }
        }
        let mut entries = legend(detections.iter().map(|found| found.class), class_names);
        if self.has_truth {
            entries.push(Entry { color: TRUTH, text: "ground truth".to_owned() });
        }
        entries.push(Entry { color: VEHICLE, text: "own vehicle".to_owned() });
        if let Some(area) = draw_legend(&mut self.canvas, &entries, self.font) {
            labels.keep_free(area);
        }
        labels.draw(&mut self.canvas);
    }

    /// The image.
    pub fn canvas(&self) -> &Canvas {
        &self.canvas
    }

    /// The image, without a copy.
    pub fn into_canvas(self) -> Canvas {
        self.canvas
    }

    /// Draws a box with its heading; returns its corners.
    fn draw_box(&mut self, b: &Box3d, color: Rgb888, width: u32) -> [[f32; 2]; 4] {
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
        corners
    }
}

/// Metres to pixels of a bird's-eye image.
struct BevView {
    pixel_from_m: Affine2,
    /// The farthest that the image shows forward, to the left, backward and to the right, in metres.
    reach_m: [f32; 4],
    ring_spacing_m: f32,
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
        let [x, y] = center;
        let half = 0.5 * extent_m;
        let reach_m = [half + x, half + y, half - x, half - y];
        let farthest = reach_m.into_iter().fold(0.0, f32::max);
        let is_enough = |spacing: &f32| farthest <= MAX_RINGS * spacing;
        let [.., largest] = RING_SPACINGS_M;
        let ring_spacing_m = RING_SPACINGS_M.into_iter().find(is_enough).unwrap_or(largest);
        Self { pixel_from_m, reach_m, ring_spacing_m }
    }

    fn pixel(&self, x: f32, y: f32) -> [f32; 2] {
        let Affine2 { scale, offset } = self.pixel_from_m;
        [scale[0] * y + offset[0], scale[1] * x + offset[1]]
    }

    /// The distances of rings in the image, and somewhat beyond for its corners.
    fn rings_m(&self) -> impl Iterator<Item = f32> {
        let farthest = 1.5 * self.reach_m.into_iter().fold(0.0, f32::max);
        let num = (farthest / self.ring_spacing_m).min(1.5 * MAX_RINGS) as u8;
        let spacing_m = self.ring_spacing_m;
        (1..=num).map(move |ring| f32::from(ring) * spacing_m)
    }

    fn draw_rings(&self, canvas: &mut Canvas) {
        let origin = self.pixel(0.0, 0.0);
        for radius_m in self.rings_m() {
            canvas.circle(origin, radius_m * self.pixel_from_m.scale[0].abs(), color(RINGS));
        }
    }

    /// Writes the distances onto the rings, in the direction in which the image shows most of them.
    fn draw_distances(&self, canvas: &mut Canvas, font: Font) {
        let [forward, left, backward, right] = self.reach_m;
        // To the right where it is as far as elsewhere: objects are ahead.
        let directions = [
            (right, [0.0, -1.0]),
            (forward, [1.0, 0.0]),
            (left, [0.0, 1.0]),
            (backward, [-1.0, 0.0]),
        ];
        let longest = directions.into_iter().rev().max_by(|(a, _), (b, _)| a.total_cmp(b));
        let Some((reach_m, [x, y])) = longest else { return };
        for radius_m in self.rings_m().take_while(|radius_m| *radius_m < reach_m) {
            let text = format!("{radius_m} m");
            let [width, height] = [font.width(&text) + 4.0, font.height()];
            let [column, row] = self.pixel(x * radius_m, y * radius_m);
            let field = Rect::at([column - 0.5 * width, row - 0.5 * height], [width, height]);
            let image = canvas.bounds();
            if field.moved_into(&image) == field {
                canvas.rectangle(&field, Rgb888::new(0, 0, 0));
                canvas.text([field.left + 2.0, field.top], &text, color(TEXT), font);
            }
        }
    }

    /// A car with a pointed front; none where the image shows less than a car.
    fn draw_vehicle(&self, canvas: &mut Canvas) {
        if self.reach_m.into_iter().any(|reach_m| reach_m.abs() > MAX_REACH_M)
            || VEHICLE_M[0] * self.pixel_from_m.scale[0].abs() > canvas.bounds().right
        {
            return;
        }
        let [half_length, half_width] = VEHICLE_M.map(|side| 0.5 * side);
        let shoulder = 0.3 * half_length;
        let at = |x, y| self.pixel(x, y);
        let ([left, top], [right, bottom]) =
            (at(shoulder, half_width), at(-half_length, -half_width));
        let symbol = color(VEHICLE);
        canvas.rectangle(&Rect { left, top, right, bottom }, symbol);
        let front = [at(half_length, 0.0), at(shoulder, half_width), at(shoulder, -half_width)];
        canvas.triangle(front, symbol);
    }
}

/// Low points dark, high points bright, all of them grey: only classes have colours.
fn height_color(height: f32) -> Rgb888 {
    let gray = 70.0 + 110.0 * height.clamp(0.0, 1.0);
    color([gray as u8; 3])
}
