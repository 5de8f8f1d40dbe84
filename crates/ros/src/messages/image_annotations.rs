//! `foxglove_msgs/ImageAnnotations`: what viewers draw on an image of the same stamp.

use super::field::Field;
use crate::cdr::Writer;
use det_post_types::{Result, Stamp};

/// Kinds of [`foxglove_msgs/PointsAnnotation`]: points, a line whose last point is
/// joined to the first, and lines of two points each.
///
/// [`foxglove_msgs/PointsAnnotation`]: https://docs.foxglove.dev/docs/sdk/schemas/points-annotation
const POINTS: u8 = 1;
const LINE_LOOP: u8 = 2;
const LINE_LIST: u8 = 4;

const LINE_WIDTH_PX: f64 = 2.0;
const POINT_SIZE_PX: f64 = 6.0;
const FONT_SIZE_PX: f64 = 14.0;
const WHITE: [f64; 4] = [1.0; 4];

/// A polygon of four corners and its label.
#[derive(Clone, Debug, PartialEq)]
pub struct LabeledOutline {
    /// Corners in pixels; (0, 0) is the top left corner of the top left pixel.
    pub corners: [[f64; 2]; 4],
    /// Red, green and blue, 0 to 1.
    pub color: [f64; 3],
    /// The label, whose top left corner is at the first corner.
    pub label: String,
}

/// A polygon and points of an object, and lines between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImagePoints {
    /// Points in pixels.
    pub points: Vec<[f64; 2]>,
    /// The corners of a polygon.
    pub outline: Vec<[f64; 2]>,
    /// The two ends of each line.
    pub lines: Vec<[f64; 2]>,
    /// Red, green and blue, 0 to 1.
    pub color: [f64; 3],
}

/// `foxglove_msgs/ImageAnnotations`.
pub struct ImageAnnotations;

impl ImageAnnotations {
    /// The ROS name.
    pub const TYPE: &'static str = "foxglove_msgs/msg/ImageAnnotations";

    /// Encodes the annotations of the image with this stamp, replacing the content of `bytes`.
    ///
    /// # Errors
    /// `Message` when the message exceeds 4 GiB.
    pub fn encode(
        stamp: Stamp,
        outlines: &[LabeledOutline],
        points: &[ImagePoints],
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let mut writer = Writer::new(bytes);
        writer.sequence_len(0); // circles
        let shapes: Vec<Shape<'_>> = outlines
            .iter()
            .map(|of| (LINE_LOOP, &of.corners[..], &of.color, LINE_WIDTH_PX))
            .chain(points.iter().flat_map(|of| {
                [
                    (LINE_LOOP, &of.outline[..], &of.color, LINE_WIDTH_PX),
                    (LINE_LIST, &of.lines[..], &of.color, LINE_WIDTH_PX),
                    (POINTS, &of.points[..], &of.color, POINT_SIZE_PX),
                ]
            }))
            .filter(|(_, points, ..)| !points.is_empty())
            .collect();
        writer.sequence(&shapes, |writer, &(kind, points, color, thickness)| {
            stamp.write(writer);
            writer.u8(kind);
            writer.sequence(points, |writer, point| writer.f64_array(point));
            write_color(writer, color, 1.0);
            writer.sequence_len(0); // colours of single points and lines
            write_color(writer, color, 0.0);
            writer.f64_array(&[thickness]);
        });
        writer.sequence(outlines, |writer, LabeledOutline { corners, color, label }| {
            stamp.write(writer);
            writer.f64_array(&corners[0]);
            writer.str(label);
            writer.f64_array(&[FONT_SIZE_PX]);
            writer.f64_array(&WHITE);
            write_color(writer, color, 0.6);
        });
        writer.finish(Self::TYPE)
    }
}

/// Kind, points, colour and thickness of points or lines.
type Shape<'a> = (u8, &'a [[f64; 2]], &'a [f64; 3], f64);

fn write_color(writer: &mut Writer<'_>, [r, g, b]: &[f64; 3], opacity: f64) {
    writer.f64_array(&[*r, *g, *b, opacity]);
}
