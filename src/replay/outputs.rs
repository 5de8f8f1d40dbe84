//! What a replay writes below `--out`: `detections.jsonl`, the recording
//! `detections/`, `report.json` and `pictures/`.
//!
//! The detections depend on the input alone: the same replay writes the same
//! bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::report::Report;
use crate::draw::Canvas;
use crate::error::{Error, ErrorKind, Result};
use crate::output_folder::{OutputFolder, Replaces};
use crate::transport::bag::{BagWriter, Durability, OfferedQos};
use crate::transport::messages::{LabelInfo, definition};
use crate::types::{Detections, Header, OutputType, Stamp};

/// The results of a replay; those of an earlier one are replaced.
pub(crate) const REPLACES: Replaces =
    Replaces::These(&["detections.jsonl", "detections/", "pictures/", "report.json"]);

/// What the outputs know of a channel.
pub(super) struct OutputChannel {
    /// The channel's name.
    pub(super) name: String,
    /// Topic of its detections.
    pub(super) topic: String,
    /// The message that its detections are written as.
    pub(super) output_type: OutputType,
    /// Its class table.
    pub(super) class_names: Vec<String>,
    /// The `class_id` of each class in messages.
    pub(super) class_ids: Vec<String>,
    /// Score from which its detections are published.
    pub(super) score_threshold: f32,
}

/// The files of a replay; all of them, or none when there is no folder.
pub(super) struct Outputs {
    files: Option<Files>,
    channels: Vec<OutputChannel>,
}

struct Files {
    folder: OutputFolder,
    lines: BufWriter<File>,
    lines_path: PathBuf,
    bag: BagWriter,
    /// Per channel: the topic of its detections and of its class table, and
    /// whether the table is written.
    topics: Vec<(usize, usize, bool)>,
    num_pictures: u64,
    message: Vec<u8>,
}

impl Outputs {
    /// Begins the files in the folder. Of each channel the first `num_pictures`
    /// frames are drawn.
    ///
    /// # Errors
    /// `Usage` and `Io` of the folder, naming the path.
    pub(super) fn create(folder: Option<OutputFolder>, num_pictures: u64) -> Result<Self> {
        let Some(mut folder) = folder else {
            return Ok(Self { files: None, channels: Vec::new() });
        };
        let lines_path = folder.file("detections.jsonl")?;
        let lines =
            File::create(&lines_path).map_err(|e| cannot("create", &lines_path).with_source(e))?;
        let files = Files {
            bag: folder.recording(Some("detections"))?,
            folder,
            lines: BufWriter::new(lines),
            lines_path,
            topics: Vec::new(),
            num_pictures,
            message: Vec::new(),
        };
        Ok(Self { files: Some(files), channels: Vec::new() })
    }

    /// Announces a channel; returns its number.
    ///
    /// # Errors
    /// `Io` when the recording cannot be written.
    pub(super) fn add_channel(&mut self, channel: OutputChannel) -> Result<usize> {
        if let Some(files) = &mut self.files {
            // Below the detections: outputs may share a parent.
            let labels_topic = format!("{}/label_info", channel.topic);
            let mut add = |topic: &str, type_name: &str, qos| {
                let text = definition(type_name).ok_or_else(|| {
                    Error::new(ErrorKind::Argument, "outputs", format!("no type {type_name}"))
                })?;
                files.bag.add_topic(topic, type_name, &text, qos)
            };
            let latched = OfferedQos {
                depth: 1,
                durability: Durability::TransientLocal,
                ..OfferedQos::default()
            };
            let detections =
                add(&channel.topic, channel.output_type.type_name(), OfferedQos::default())?;
            let labels = add(&labels_topic, LabelInfo::TYPE, latched)?;
            files.topics.push((detections, labels, false));
        }
        self.channels.push(channel);
        Ok(self.channels.len() - 1)
    }

    /// Writes the detections of a frame: a line, and a message with the stamp
    /// and frame of the input, recorded at the input's log time.
    ///
    /// # Errors
    /// `Io` when a file cannot be written.
    pub(super) fn write(
        &mut self,
        channel: usize,
        header: &Header<'_>,
        log_time: Stamp,
        detections: Detections<'_>,
    ) -> Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let of_channel = &self.channels[channel];
        write_line(&mut files.lines, of_channel, header, detections)
            .map_err(|e| cannot("write", &files.lines_path).with_source(e))?;

        let (detections_topic, labels_topic, labels_written) = &mut files.topics[channel];
        let OutputChannel { class_names, class_ids, score_threshold, .. } = of_channel;
        if !*labels_written {
            let table = LabelInfo { header: *header, class_names, threshold: *score_threshold };
            table.encode(&mut files.message)?;
            files.bag.write(*labels_topic, log_time, &files.message)?;
            *labels_written = true;
        }
        let message = &mut files.message;
        of_channel.output_type.encode(header, detections, class_ids, message)?;
        files.bag.write(*detections_topic, log_time, &files.message)
    }

    /// Whether frame number `frame` of a channel, from zero, is to be drawn.
    pub(super) fn wants_picture(&self, frame: u64) -> bool {
        self.files.as_ref().is_some_and(|files| frame < files.num_pictures)
    }

    /// Saves the picture of a frame.
    ///
    /// # Errors
    /// `Io` when it cannot be written.
    pub(super) fn save_picture(
        &mut self,
        channel: &str,
        frame: u64,
        stamp: Stamp,
        canvas: &Canvas,
    ) -> Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let name = format!("pictures/{channel}_{frame:06}_{}.png", stamp.nanos());
        canvas.save(&files.folder.file(&name)?)
    }

    /// Closes all files and writes the report. The folder is given back, to be
    /// finished.
    ///
    /// # Errors
    /// `Io` when a file cannot be written.
    pub(super) fn close(self, report: &Report) -> Result<Option<OutputFolder>> {
        let Some(mut files) = self.files else { return Ok(None) };
        files.lines.flush().map_err(|e| cannot("write", &files.lines_path).with_source(e))?;
        files.bag.finish()?;
        let json = serde_json::to_string_pretty(report).map_err(|e| {
            Error::new(ErrorKind::Io, "outputs", "cannot write report.json").with_source(e)
        })?;
        files.folder.write("report.json", &(json + "\n"))?;
        Ok(Some(files.folder))
    }
}

fn cannot(verb: &str, path: &Path) -> Error {
    Error::new(ErrorKind::Io, "outputs", format!("cannot {verb} {}", path.display()))
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

/// A detection in source-image pixels.
#[derive(Serialize)]
struct Line2d<'a> {
    class_id: u32,
    class_name: &'a str,
    score: f32,
    /// Left, top, right, bottom.
    r#box: [f32; 4],
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

fn write_line(
    lines: &mut BufWriter<File>,
    channel: &OutputChannel,
    header: &Header<'_>,
    detections: Detections<'_>,
) -> std::io::Result<()> {
    let name_of = |class: u32| channel.class_names.get(class as usize).map_or("", String::as_str);
    let mut line = Line {
        channel: &channel.name,
        topic: &channel.topic,
        stamp_ns: header.stamp.nanos(),
        frame_id: header.frame_id,
        detections_2d: None,
        detections_3d: None,
    };
    match detections {
        Detections::Boxes2d(detections) => {
            let detections = detections.iter().map(|d| Line2d {
                class_id: d.class,
                class_name: name_of(d.class),
                score: d.score,
                r#box: [d.bbox.x1, d.bbox.y1, d.bbox.x2, d.bbox.y2],
            });
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
