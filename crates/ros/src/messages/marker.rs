//! `visualization_msgs/MarkerArray`, in the layout since Humble.

use super::detection::Pose;
use super::field::Field;
use crate::cdr::Writer;
use det_post_types::{Header, Result};

/// The shape of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum MarkerShape {
    /// From `points[0]` to `points[1]`; scale x is the width of the shaft, y
    /// that of the head.
    Arrow = 0,
    /// A box of size `scale`.
    Cube = 1,
    /// A line between every pair of `points`, scale x wide.
    LineList = 5,
    /// `text` towards the viewer, scale z high.
    Text = 9,
}

/// The action of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum MarkerAction {
    /// Shows it, and replaces the one with the same namespace and number.
    Add = 0,
    /// Removes all markers of its namespace, or of the topic if it has none.
    DeleteAll = 3,
}

/// `visualization_msgs/Marker`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marker<'a> {
    /// Stamp and frame.
    pub header: Header<'a>,
    /// Namespace.
    pub namespace: &'a str,
    /// Number within its namespace.
    pub id: i32,
    /// Its shape.
    pub shape: MarkerShape,
    /// Its action.
    pub action: MarkerAction,
    /// Its pose.
    pub pose: Pose,
    /// Size, by shape.
    pub scale: [f64; 3],
    /// Red, green, blue, opacity, 0 to 1.
    pub color: [f32; 4],
    /// Nanoseconds until it expires; 0 for never.
    pub lifetime_ns: i64,
    /// Points, by shape, relative to the pose.
    pub points: &'a [[f64; 3]],
    /// Text, by shape.
    pub text: &'a str,
}

/// A `visualization_msgs/MarkerArray` that is being written.
pub struct MarkerArray<'a> {
    writer: Writer<'a>,
}

impl<'a> MarkerArray<'a> {
    /// The ROS name.
    pub const TYPE: &'static str = "visualization_msgs/msg/MarkerArray";

    /// Starts a message of `num_markers` in `bytes`, replacing what is there.
    pub fn new(bytes: &'a mut Vec<u8>, num_markers: usize) -> Self {
        let mut writer = Writer::new(bytes);
        writer.sequence_len(num_markers);
        Self { writer }
    }

    /// Appends a marker.
    pub fn push(&mut self, marker: &Marker<'_>) {
        let writer = &mut self.writer;
        marker.header.write(writer);
        writer.str(marker.namespace);
        writer.i32(marker.id);
        writer.i32(marker.shape as i32);
        writer.i32(marker.action as i32);
        marker.pose.write(writer);
        writer.f64_array(&marker.scale);
        marker.color.iter().for_each(|value| writer.f32(*value));
        writer.i32(i32::try_from(marker.lifetime_ns / 1_000_000_000).unwrap_or(i32::MAX));
        writer.u32((marker.lifetime_ns % 1_000_000_000) as u32);
        writer.bool(false); // not locked to its frame
        writer.sequence_len(marker.points.len());
        marker.points.iter().for_each(|point| writer.f64_array(point));
        writer.sequence_len(0); // colours of points
        writer.str(""); // texture, its image and its coordinates
        Header::default().write(writer);
        writer.str("");
        writer.bytes(&[]);
        writer.sequence_len(0);
        writer.str(marker.text);
        writer.str(""); // mesh, its file and its materials
        writer.str("");
        writer.bytes(&[]);
        writer.bool(false);
    }

    /// Ends the message. As many markers must have been pushed as were
    /// announced.
    ///
    /// # Errors
    /// `Message` when it exceeds 4 GiB.
    pub fn finish(self) -> Result<()> {
        self.writer.finish(Self::TYPE)
    }
}
