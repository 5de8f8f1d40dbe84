//! `foxglove_msgs/ImageAnnotations`: what viewers draw on an image of the same stamp.

use super::field::Field;
use crate::cdr::Writer;
use det_post_types::{Result, Stamp};

/// The kind of [`foxglove_msgs/PointsAnnotation`] whose last point is joined to the first.
///
/// [`foxglove_msgs/PointsAnnotation`]: https://docs.foxglove.dev/docs/sdk/schemas/points-annotation
const LINE_LOOP: u8 = 2;

const LINE_WIDTH_PX: f64 = 2.0;
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

/// `foxglove_msgs/ImageAnnotations`.
pub struct ImageAnnotations;

impl ImageAnnotations {
    /// The ROS name.
    pub const TYPE: &'static str = "foxglove_msgs/msg/ImageAnnotations";

    /// Encodes the annotations of the image with this stamp, replacing the content of `bytes`.
    ///
    /// # Errors
    /// `Message` when the message exceeds 4 GiB.
    pub fn encode(stamp: Stamp, outlines: &[LabeledOutline], bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        writer.sequence_len(0); // circles
        writer.sequence(outlines, |writer, LabeledOutline { corners, color, .. }| {
            stamp.write(writer);
            writer.u8(LINE_LOOP);
            writer.sequence(corners, |writer, corner| writer.f64_array(corner));
            write_color(writer, color, 1.0);
            writer.sequence_len(0); // colours of single lines
            write_color(writer, color, 0.0);
            writer.f64_array(&[LINE_WIDTH_PX]);
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

fn write_color(writer: &mut Writer<'_>, [r, g, b]: &[f64; 3], opacity: f64) {
    writer.f64_array(&[*r, *g, *b, opacity]);
}
