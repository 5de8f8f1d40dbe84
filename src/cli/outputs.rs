//! What a replay writes: `detections.jsonl` and the recording of detections.
//!
//! Both depend on the input alone, so that the same replay gives the same
//! bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::transport::bag::{BagWriter, OfferedQos};
use crate::transport::messages::{self, detection_2d, detection_3d, label_info};
use crate::types::{Detection2d, Detection3d, Header, Stamp};

/// The detections of one frame.
#[derive(Clone, Copy)]
pub(super) enum Detections<'a> {
    /// Of a camera channel.
    Camera(&'a [Detection2d]),
    /// Of a lidar channel.
    Lidar(&'a [Detection3d]),
}

impl Detections<'_> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Camera(detections) => detections.len(),
            Self::Lidar(detections) => detections.len(),
        }
    }
}

/// The names a channel writes under.
pub(super) struct OutputChannel {
    pub(super) name: String,
    pub(super) topic: String,
    pub(super) class_names: Vec<String>,
    detections_id: usize,
    label_info_id: usize,
    label_info_written: bool,
    score_threshold: f32,
}

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

#[derive(Serialize)]
struct Line2d<'a> {
    class_id: u32,
    class_name: &'a str,
    score: f32,
    r#box: [f32; 4],
}

#[derive(Serialize)]
struct Line3d<'a> {
    class_id: u32,
    class_name: &'a str,
    score: f32,
    center: [f32; 3],
    size: [f32; 3],
    yaw: f32,
    velocity: Option<[f32; 2]>,
}
