//! The lines of `detections.jsonl`, a frame each.

use std::fs::File;
use std::io::{BufWriter, Write};

use serde::Serialize;

use crate::config::ChannelConfig;
use det_post_types::{
    Box2d, Detection2d, Detections, Header, ImageBox, Keypoint, Masks, Rle, RotatedBox2d,
};

/// One line of `detections.jsonl`. Other tools read these names.
#[derive(Serialize)]
struct Line<'a> {
    channel: &'a str,
    topic: &'a str,
    stamp_ns: i64,
    frame_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detections_2d: Option<Vec<Line2d<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detections_3d: Option<Vec<Line3d<'a>>>,
}

/// A detection in source-image pixels.
#[derive(Serialize)]
struct Line2d<'a> {
    class_id: u32,
    class_name: &'a str,
    score: f32,
    #[serde(flatten)]
    bbox: LineBox,
    /// Of heads with masks; absent for a mask beyond the capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<LineMask>,
    /// Of heads with keypoints: x, y and score of each, in the network's order.
    #[serde(skip_serializing_if = "Option::is_none")]
    keypoints: Option<Vec<[f32; 3]>>,
}

/// A mask as COCO writes it.
#[derive(Serialize)]
struct LineMask {
    /// Rows and columns of the source image.
    size: [u32; 2],
    /// Lengths of runs, column by column, as a string.
    counts: String,
}

impl LineMask {
    fn of(masks: &Masks<'_>, detection: usize) -> Option<Self> {
        let rle = Rle::of(&masks.get(detection)?);
        let size = [rle.size().height, rle.size().width];
        Some(Self { size, counts: rle.to_compressed() })
    }
}

/// A box in source-image pixels.
#[derive(Serialize)]
#[serde(untagged)]
enum LineBox {
    Aligned {
        /// Left, top, right, bottom.
        r#box: [f32; 4],
    },
    Rotated {
        center: [f32; 2],
        /// Width, height.
        size: [f32; 2],
        /// Turn of the width from +x towards +y, in radians.
        theta: f32,
    },
}

impl<'a> Line2d<'a> {
    fn new<B: Copy + Into<ImageBox>>(detection: &Detection2d<B>, class_name: &'a str) -> Self {
        let bbox = match detection.bbox.into() {
            ImageBox::Aligned(Box2d { x1, y1, x2, y2 }) => {
                LineBox::Aligned { r#box: [x1, y1, x2, y2] }
            }
            ImageBox::Rotated(RotatedBox2d { cx, cy, width, height, angle_rad }) => {
                LineBox::Rotated { center: [cx, cy], size: [width, height], theta: angle_rad }
            }
        };
        Self {
            class_id: detection.class,
            class_name,
            score: detection.score,
            bbox,
            mask: None,
            keypoints: None,
        }
    }
}

fn numbers_of(&Keypoint { x, y, score }: &Keypoint) -> [f32; 3] {
    [x, y, score]
}

/// A detection in the cloud's frame, metres and radians.
#[derive(Serialize)]
struct Line3d<'a> {
    class_id: u32,
    class_name: &'a str,
    score: f32,
    center: [f32; 3],
    /// Length, width, height.
    size: [f32; 3],
    yaw: f32,
    velocity: Option<[f32; 2]>,
}

/// Writes the line of a frame.
///
/// # Errors
/// Returns the errors of writing.
pub(super) fn write_line(
    lines: &mut BufWriter<File>,
    config: &ChannelConfig,
    header: &Header<'_>,
    detections: Detections<'_>,
) -> std::io::Result<()> {
    let class_names = config.kind.class_names();
    let name_of = |class: u32| class_names.get(class as usize).map_or("", String::as_str);
    let mut line = Line {
        channel: &config.name,
        topic: &config.output,
        stamp_ns: header.stamp.nanos(),
        frame_id: header.frame_id,
        detections_2d: None,
        detections_3d: None,
    };
    match detections {
        Detections::Boxes2d(detections) => {
            let detections = detections.iter().map(|d| Line2d::new(d, name_of(d.class)));
            line.detections_2d = Some(detections.collect());
        }
        Detections::Masked2d(detections, masks) => {
            let lines = detections.iter().enumerate().map(|(index, d)| Line2d {
                mask: LineMask::of(&masks, index),
                ..Line2d::new(d, name_of(d.class))
            });
            line.detections_2d = Some(lines.collect());
        }
        Detections::Keypoints2d(detections, keypoints) => {
            let lines = detections.iter().enumerate().map(|(index, d)| Line2d {
                keypoints: Some(keypoints.of(index).iter().map(numbers_of).collect()),
                ..Line2d::new(d, name_of(d.class))
            });
            line.detections_2d = Some(lines.collect());
        }
        Detections::RotatedBoxes2d(detections) => {
            let detections = detections.iter().map(|d| Line2d::new(d, name_of(d.class)));
            line.detections_2d = Some(detections.collect());
        }
        Detections::Boxes3d(detections) => {
            let detections = detections.iter().map(|d| {
                let b = &d.object.bbox;
                Line3d {
                    class_id: d.class,
                    class_name: name_of(d.class),
                    score: d.score,
                    center: b.center,
                    size: [b.length_m, b.width_m, b.height_m],
                    yaw: b.yaw_rad,
                    velocity: d.object.velocity_mps,
                }
            });
            line.detections_3d = Some(detections.collect());
        }
    }
    serde_json::to_writer(&mut *lines, &line)?;
    lines.write_all(b"\n")
}
