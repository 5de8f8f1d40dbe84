//! The files of a replay: `detections.jsonl`, the recording `detections/`, `report.json`
//! and `images/`.
//!
//! The detections depend only on the inputs: the same replay writes the same bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::lines::write_line;
use super::report::Report;
use super::{Replay, ReplayDetections, ReplayFrame};
use crate::config::{ChannelConfig, ChannelKind};
use crate::draw::{self, KEYPOINTS, LabelImage};
use det_post_ros::OutputType;
use det_post_ros::bag::{BagWriter, Durability, OfferedQos};
use det_post_ros::messages::{
    Image, ImageAnnotations, LabelInfo, MarkerArray, PointCloud2, definition,
};
use det_post_ros::output_folder::{OutputFolder, Replaces};
use det_post_types::{Detections, Error, ErrorKind, Result};

/// The results of a replay; those of an earlier one are replaced. `unit.json` is the record of a
/// fleet about them, and goes with them.
pub(crate) const RESULTS: &[&str] =
    &["detections.jsonl", "detections/", "images/", "report.json", "unit.json"];

/// Writes the frames of a [`Replay`] to a folder:
///
/// | file | content |
/// |---|---|
/// | `detections.jsonl` | one line per processed frame |
/// | `detections/` | a recording of the detections, of what viewers draw of them (`…/markers`, `…/annotations`), of keypoints, of label images and, latched, of the class tables of outputs of `vision_msgs` |
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
    /// The pixels of a label image, or keypoints.
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
    /// Of heads with keypoints.
    keypoints: Option<usize>,
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
        if let Detections::Boxes3d(found) = *detections {
            draw::encode_markers(header, found, names, &mut self.message)?;
        } else {
            let shown = (names, publish.format.keypoint_threshold);
            draw::encode_detections(header.stamp, detections, shown, &mut self.message)?;
        }
        self.bag.write(topics.shown, *log_time, &self.message)?;
        if let Detections::Masked2d(found, masks) = detections {
            for &(image, topic) in &topics.label_images {
                image.encode(header, found, masks, &mut self.pixels, &mut self.message)?;
                self.bag.write(topic, *log_time, &self.message)?;
            }
        }
        if let (Some(keypoints), Some(topic)) = (detections.keypoints(), topics.keypoints) {
            let (data, message) = (&mut self.pixels, &mut self.message);
            draw::encode_keypoints(header, detections.len(), &keypoints, data, message)?;
            self.bag.write(topic, *log_time, message)?;
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
    let has_keypoints =
        matches!(&config.kind, ChannelKind::Camera(camera) if camera.has_keypoints());
    let keypoints = match has_keypoints {
        true => {
            let topic = format!("{}/{KEYPOINTS}", config.output);
            Some(add(&topic, PointCloud2::TYPE, OfferedQos::default())?)
        }
        false => None,
    };
    Ok(ChannelTopics {
        detections,
        shown,
        label_images,
        keypoints,
        labels,
        are_labels_written: false,
        num_drawn: 0,
    })
}

fn cannot(verb: &str, path: &Path) -> Error {
    Error::new(ErrorKind::Io, "outputs", format!("cannot {verb} {}", path.display()))
}
