//! The files of a replay: `detections.jsonl`, the recording `detections/`, `report.json`
//! and `images/`.
//!
//! The detections depend only on the inputs: the same replay writes the same bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::report::Report;
use super::{Replay, ReplayDetections, ReplayFrame};
use crate::config::ChannelConfig;
use crate::draw::{self, LabelImage};
use det_post_ros::OutputType;
use det_post_ros::bag::{BagWriter, Durability, OfferedQos};
use det_post_ros::messages::{Image, ImageAnnotations, LabelInfo, MarkerArray, definition};
use det_post_ros::output_folder::{OutputFolder, Replaces};
use det_post_types::{
    Box2d, Detection2d, Detections, Error, ErrorKind, Header, ImageBox, Masks, Result, Rle,
    RotatedBox2d,
};

/// The results of a replay; those of an earlier one are replaced. `unit.json` is the record of a
/// fleet about them, and goes with them.
pub(crate) const RESULTS: &[&str] =
    &["detections.jsonl", "detections/", "images/", "report.json", "unit.json"];

/// Writes the frames of a [`Replay`] to a folder:
///
/// | file | content |
/// |---|---|
/// | `detections.jsonl` | one line per processed frame |
/// | `detections/` | a recording of the detections, of what viewers draw of them (`…/markers`, `…/annotations`), of label images and, latched, of the class tables of outputs of `vision_msgs` |
/// | `report.json` | the [`Report`] |
/// | `images/` | the first frames of each channel with their detections |
///
/// Results take the place of earlier ones when they are complete; until then they are in
/// `det_post.partial/`. Files that det_post did not write are never replaced.
pub struct ReplayFiles {
    folder: OutputFolder,
    lines: BufWriter<File>,
    lines_path: PathBuf,
    bag: BagWriter,
    channels: Vec<ChannelTopics>,
    num_images: u64,
    message: Vec<u8>,
    /// The pixels of a label image.
    pixels: Vec<u8>,
}

/// The topics of a channel in the recording of detections.
struct ChannelTopics {
    /// Topics of the detections and their messages.
    detections: Vec<(usize, OutputType)>,
    /// Markers of boxes in space, or annotations of boxes in an image.
    shown: usize,
    /// Of masks, where they are published.
    label_images: Vec<(LabelImage, usize)>,
    /// The class table, where a message of `vision_msgs` has one.
    labels: Option<usize>,
    are_labels_written: bool,
    /// Frames that were drawn.
    num_drawn: u64,
}

impl ReplayFiles {
    /// Opens the folder and begins the files. Of each channel the first `num_images`
    /// frames that are not dropped are drawn.
    ///
    /// # Errors
    /// `Usage` when the folder holds a file of the same name that det_post did not write,
    /// `Io` naming the path when the system refuses or another process writes there.
    pub fn create(out: &Path, replay: &Replay, num_images: u64) -> Result<Self> {
        Self::in_folder(OutputFolder::open(out, Replaces::These(RESULTS))?, replay, num_images)
    }

    /// As [`Self::create`], in a folder that is open.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub(crate) fn in_folder(
        mut folder: OutputFolder,
        replay: &Replay,
        num_images: u64,
    ) -> Result<Self> {
        let lines_path = folder.file("detections.jsonl")?;
        let lines =
            File::create(&lines_path).map_err(|e| cannot("create", &lines_path).with_source(e))?;
        let mut bag = folder.recording(Some("detections"))?;
        let channels = replay.channels().map(|config| add_topics(&mut bag, config));
        Ok(Self {
            channels: channels.collect::<Result<_>>()?,
            bag,
            folder,
            lines: BufWriter::new(lines),
            lines_path,
            num_images,
            message: Vec::new(),
            pixels: Vec::new(),
        })
    }

    /// Writes the detections of a frame: a line, and a message with the stamp and
    /// coordinate frame of the input. A dropped frame writes nothing.
    ///
    /// # Errors
    /// `Io` when a file cannot be written, and those of drawing.
    pub fn write(&mut self, frame: &ReplayFrame<'_>) -> Result<()> {
        let Ok(found) = &frame.result else { return Ok(()) };
        let ReplayDetections { header, detections, log_time, .. } = found;
        write_line(&mut self.lines, frame.config, header, *detections)
            .map_err(|e| cannot("write", &self.lines_path).with_source(e))?;

        let topics = &mut self.channels[frame.channel];
        let ChannelConfig { kind, publish, .. } = frame.config;
        if let Some(labels) = topics.labels.filter(|_| !topics.are_labels_written) {
            let (class_names, threshold) = (kind.class_names(), kind.lowest_score_threshold());
            LabelInfo { header: *header, class_names, threshold }.encode(&mut self.message)?;
            self.bag.write(labels, *log_time, &self.message)?;
            topics.are_labels_written = true;
        }
        for &(topic, output_type) in &topics.detections {
            publish.format.encode(output_type, header, *detections, &mut self.message)?;
            self.bag.write(topic, *log_time, &self.message)?;
        }
        let names = kind.class_names();
        match *detections {
            Detections::Boxes2d(found) | Detections::Masked2d(found, _) => {
                draw::encode_annotations(header.stamp, found, names, &mut self.message)?;
            }
            Detections::RotatedBoxes2d(found) => {
                draw::encode_annotations(header.stamp, found, names, &mut self.message)?;
            }
            Detections::Boxes3d(found) => {
                draw::encode_markers(header, found, names, &mut self.message)?;
            }
        }
        self.bag.write(topics.shown, *log_time, &self.message)?;
        if let Detections::Masked2d(found, masks) = detections {
            for &(image, topic) in &topics.label_images {
                image.encode(header, found, masks, &mut self.pixels, &mut self.message)?;
                self.bag.write(topic, *log_time, &self.message)?;
            }
        }
        let topics = &mut self.channels[frame.channel];
        if topics.num_drawn < self.num_images {
            topics.num_drawn += 1;
            self.draw(frame, found)?;
        }
        Ok(())
    }

    /// The number of images so far.
    pub fn num_images(&self) -> u64 {
        self.channels.iter().map(|channel| channel.num_drawn).sum()
    }

    /// Draws a frame.
    fn draw(&mut self, frame: &ReplayFrame<'_>, found: &ReplayDetections<'_>) -> Result<()> {
        let ChannelConfig { name, sync, .. } = frame.config;
        let canvas = draw::draw(&found.inputs, sync.reference, found.detections, frame.config)?;
        let stamp_ns = found.header.stamp.nanos();
        let file = format!("images/{name}_{:06}_{stamp_ns}.png", frame.number);
        canvas.save(&self.folder.file(&file)?)
    }

    /// Writes the report and puts all files in place of earlier ones; those of a replay
    /// that was interrupted stay in `det_post.partial/`.
    ///
    /// # Errors
    /// `Io` when a file cannot be written, `Usage` as of [`Self::create`].
    pub fn finish(self, report: &Report) -> Result<()> {
        let folder = self.close(report)?;
        if report.is_interrupted() { folder.keep_partial() } else { folder.finish() }
    }

    /// Closes all files and writes the report. The folder is returned open, to be finished.
    ///
    /// # Errors
    /// `Io` when a file cannot be written.
    pub(crate) fn close(mut self, report: &Report) -> Result<OutputFolder> {
        self.lines.flush().map_err(|e| cannot("write", &self.lines_path).with_source(e))?;
        self.bag.finish()?;
        let json = serde_json::to_string_pretty(report).map_err(|e| {
            Error::new(ErrorKind::Io, "outputs", "cannot write report.json").with_source(e)
        })?;
        self.folder.write("report.json", &(json + "\n"))?;
        Ok(self.folder)
    }
}

/// Adds the topics of a channel: its detections and, below them, their class table.
fn add_topics(bag: &mut BagWriter, config: &ChannelConfig) -> Result<ChannelTopics> {
    let mut add = |topic: &str, type_name: &str, qos| {
        let text = definition(type_name).ok_or_else(|| {
            Error::new(ErrorKind::Argument, "outputs", format!("no type {type_name}"))
        })?;
        bag.add_topic(topic, type_name, &text, qos)
    };
    let latched =
        OfferedQos { depth: 1, durability: Durability::TransientLocal, ..OfferedQos::default() };
    let (mut detections, mut labels) = (Vec::new(), None);
    for (topic, output_type) in config.detection_topics() {
        let number = add(topic, output_type.type_name(), OfferedQos::default())?;
        detections.push((number, output_type));
        if output_type.is_vision() {
            let topic = format!("{}/label_info", config.output);
            labels = Some(add(&topic, LabelInfo::TYPE, latched)?);
        }
    }
    let (name, type_name) = match config.publish.format.output_type.is_3d() {
        true => ("markers", MarkerArray::TYPE),
        false => ("annotations", ImageAnnotations::TYPE),
    };
    let shown = add(&format!("{}/{name}", config.output), type_name, OfferedQos::default())?;
    let mut label_images = Vec::new();
    if config.publish.has_label_images {
        for image in LabelImage::ALL {
            let topic = format!("{}/{}", config.output, image.topic());
            label_images.push((image, add(&topic, Image::TYPE, OfferedQos::default())?));
        }
    }
    let (are_labels_written, num_drawn) = (false, 0);
    Ok(ChannelTopics { detections, shown, label_images, labels, are_labels_written, num_drawn })
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
    #[serde(flatten)]
    bbox: LineBox,
    /// Of heads with masks; absent for a mask beyond the capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<LineMask>,
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
        Self { class_id: detection.class, class_name, score: detection.score, bbox, mask: None }
    }
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
