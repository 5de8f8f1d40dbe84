//! The images of several cameras, with boxes in space projected into them.

use embedded_graphics::pixelcolor::Rgb888;
use nalgebra::{Isometry3, Point3};

use crate::config::{InputConfig, SurroundConfig};
use crate::detectors::surround::camera_from_target;
use crate::detectors::{FrameInput, FrameSet, Payload};
use det_post_eval::draw::{Canvas, Font, Labels, class_color, image_canvas, label};
use det_post_ops::image::decompress;
use det_post_types::{Box3d, CameraModel, Detection3d, ImagePayload, Result, Size};

/// Width of a camera's image, in pixels.
const TILE_WIDTH: u32 = 640;

/// The most images of a row.
const NUM_COLUMNS: usize = 3;

/// Parts of a box nearer than this to the plane of a camera are not drawn.
const MIN_DEPTH_M: f64 = 0.1;

/// The images of all cameras side by side, in the order of the inputs, with the boxes that
/// they show and the name of each: the coordinate frame of its image. A camera without
/// calibration or pose shows no boxes; one without an image is black, with the name of its topic.
///
/// # Errors
/// Returns the errors of decoding the images.
pub(super) fn draw_surround(
    frame: &FrameSet<'_>,
    detections: &[Detection3d],
    config: &SurroundConfig,
    inputs: &[InputConfig],
) -> Result<Canvas> {
    let num_columns = frame.inputs.len().clamp(1, NUM_COLUMNS);
    let num_rows = frame.inputs.len().div_ceil(num_columns);
    let tiles: Vec<Option<Canvas>> = frame
        .inputs
        .iter()
        .map(|input| {
            let input = input.as_ref();
            input.map(|input| tile(input, frame, detections, config)).transpose()
        })
        .collect::<Result<_>>()?;
    let height = tiles.iter().flatten().map(|tile| tile.size().height).max().unwrap_or(1);
    let size = Size::new(TILE_WIDTH * num_columns as u32, height * num_rows as u32);
    let mut canvas = Canvas::new(size);
    for (index, tile) in tiles.into_iter().enumerate() {
        let tile = tile.unwrap_or_else(|| {
            let mut empty = Canvas::new(Size::new(TILE_WIDTH, height));
            let topic = inputs.get(index).map_or("", |input| &input.topic);
            empty.title(&format!("{topic}: no image"));
            empty
        });
        let (column, row) = (index % num_columns, index / num_columns);
        canvas.paste(&tile, [column as u32 * TILE_WIDTH, row as u32 * height]);
    }
    Ok(canvas)
}

/// The image of a camera with the boxes that it shows.
fn tile(
    input: &FrameInput<'_>,
    frame: &FrameSet<'_>,
    detections: &[Detection3d],
    config: &SurroundConfig,
) -> Result<Canvas> {
    let image_size = match input.payload {
        Payload::Image(ImagePayload::Raw(image)) => image.size(),
        Payload::Image(ImagePayload::OnDevice(image)) => image.size(),
        Payload::Image(ImagePayload::Compressed(file)) => decompress::size(&file)?,
        Payload::Cloud(_) | Payload::CloudOnDevice(_) | Payload::Tensors(_) => {
            return Ok(Canvas::new(Size::new(TILE_WIDTH, 1)));
        }
    };
    let Payload::Image(payload) = &input.payload else { return Ok(Canvas::new(image_size)) };
    let height = u64::from(TILE_WIDTH) * u64::from(image_size.height);
    let height = (height / u64::from(image_size.width.max(1))).clamp(1, 4096) as u32;
    let mut canvas = image_canvas(payload, Some(Size::new(TILE_WIDTH, height)))?;
    let model = input.calibration.and_then(|calibration| CameraModel::new(calibration).ok());
    let pose = camera_from_target(config.compensate_skew, input, frame).ok();
    if let Some((model, camera_from_target)) = model.zip(pose) {
        let scale = f64::from(TILE_WIDTH) / f64::from(image_size.width);
        let view = View { model, camera_from_target, scale };
        let mut labels = Labels::new(Font::for_width(TILE_WIDTH));
        for detection in detections {
            let color = class_color(detection.class);
            let shown = view.draw_box(&mut canvas, &detection.object.bbox, color);
            let text = label(&config.facts.class_names, detection.class, detection.score);
            labels.add(&shown, text, color);
        }
        labels.draw(&mut canvas);
    }
    canvas.title(input.header.frame_id);
    Ok(canvas)
}

/// Where a camera shows points of the target frame.
struct View {
    model: CameraModel,
    camera_from_target: Isometry3<f64>,
    /// Pixels of the tile per pixel of the image.
    scale: f64,
}

impl View {
    /// Draws the edges of a box and a cross on its front. Returns those of its corners that are
    /// in the image.
    fn draw_box(&self, canvas: &mut Canvas, bbox: &Box3d, color: Rgb888) -> Vec<[f32; 2]> {
        let corners = self.corners(bbox);
        let edges = (0..8_usize).flat_map(|from| {
            let axes = [1, 2, 4].into_iter().filter(move |axis| from & axis == 0);
            axes.map(move |axis| (from, from | axis))
        });
        // Corners with bit 0 are in front.
        for (from, to) in edges.chain([(1, 7), (3, 5)]) {
            if let Some([from, to]) = self.line(corners[from], corners[to]) {
                canvas.line(from, to, color, 1);
            }
        }
        let Size { width, height } = canvas.size();
        let is_inside = |p: &[f32; 2]| {
            (0.0..width as f32).contains(&p[0]) && (0.0..height as f32).contains(&p[1])
        };
        corners.iter().filter_map(|corner| self.pixel(*corner)).filter(is_inside).collect()
    }

    /// The corners of a box in the camera's frame. Bits of the index: front, left, top.
    fn corners(&self, bbox: &Box3d) -> [Point3<f64>; 8] {
        let [x, y, z] = bbox.center.map(f64::from);
        let (sin, cos) = f64::from(bbox.yaw_rad).sin_cos();
        let half = [bbox.length_m, bbox.width_m, bbox.height_m].map(|side| 0.5 * f64::from(side));
        std::array::from_fn(|corner| {
            let sign = |bit: usize| if corner & bit == 0 { -1.0 } else { 1.0 };
            let [a, b, c] = [sign(1) * half[0], sign(2) * half[1], sign(4) * half[2]];
            let point = Point3::new(x + cos * a - sin * b, y + sin * a + cos * b, z + c);
            self.camera_from_target * point
        })
    }

    /// The part of a line in front of the camera, in pixels of the tile.
    fn line(&self, from: Point3<f64>, to: Point3<f64>) -> Option<[[f32; 2]; 2]> {
        let cut = |near: Point3<f64>, far: Point3<f64>| {
            let share = (MIN_DEPTH_M - near.z) / (far.z - near.z);
            near + (far - near) * share
        };
        let [from, to] = match (from.z >= MIN_DEPTH_M, to.z >= MIN_DEPTH_M) {
            (true, true) => [from, to],
            (false, true) => [cut(from, to), to],
            (true, false) => [from, cut(to, from)],
            (false, false) => return None,
        };
        Some([self.pixel(from)?, self.pixel(to)?])
    }

    /// The pixel of the tile that shows a point; `None` where the lens does not.
    fn pixel(&self, point: Point3<f64>) -> Option<[f32; 2]> {
        if point.z < MIN_DEPTH_M * 0.999 {
            return None;
        }
        let pixel = self.model.distort([point.x / point.z, point.y / point.z])?;
        Some(pixel.map(|at| ((at + 0.5) * self.scale - 0.5) as f32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::CameraCalibration;

    fn view() -> View {
        #[rustfmt::skip]
        let intrinsics = [
            100.0, 0.0, 99.5,
            0.0, 100.0, 49.5,
            0.0, 0.0, 1.0,
        ];
        let calibration = CameraCalibration {
            size: Size::new(200, 100),
            intrinsics,
            distortion_model: "plumb_bob".into(),
            distortion: vec![0.0; 5],
            binning: [1, 1],
            ..CameraCalibration::default()
        };
        let model = CameraModel::new(&calibration).unwrap();
        // x ahead, y left, z up to x right, y down, z ahead.
        let rotation = nalgebra::UnitQuaternion::from_basis_unchecked(&[
            nalgebra::Vector3::new(0.0, 0.0, 1.0),
            nalgebra::Vector3::new(-1.0, 0.0, 0.0),
            nalgebra::Vector3::new(0.0, -1.0, 0.0),
        ]);
        let camera_from_target =
            nalgebra::Isometry3::from_parts(nalgebra::Translation3::identity(), rotation);
        View { model, camera_from_target, scale: 0.5 }
    }

    #[test]
    fn boxes_are_drawn_where_they_project() {
        let view = view();
        let bbox = |x| Box3d {
            center: [x, 0.0, 0.0],
            length_m: 2.0,
            width_m: 2.0,
            height_m: 2.0,
            yaw_rad: 0.0,
        };
        let near = view.corners(&bbox(6.0))[2 | 4];
        let at = view.pixel(near).unwrap();
        // 1 m to the left and up at 5 m: 20 pixels of the image, 10 of the tile.
        assert!((at[0] - 39.5).abs() < 1e-3 && (at[1] - 14.5).abs() < 1e-3, "{at:?}");
        let mut canvas = Canvas::new(Size::new(100, 50));
        let red = Rgb888::new(255, 0, 0);
        assert!(!view.draw_box(&mut canvas, &bbox(6.0), red).is_empty());
        assert!(canvas.pixels().contains(&255));
        // A box around the camera is cut at its plane, one behind is not drawn.
        assert!(view.line(view.corners(&bbox(0.0))[0], view.corners(&bbox(0.0))[1]).is_some());
        let mut canvas = Canvas::new(Size::new(100, 50));
        assert!(view.draw_box(&mut canvas, &bbox(-6.0), red).is_empty());
        assert!(canvas.pixels().iter().all(|&value| value == 0));
    }
}
