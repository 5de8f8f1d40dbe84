//! Detections as a replay writes them: lines or a recording.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

use super::streams::{Classes, Streams, insert};
use crate::parts::Parts;
use det_post_ros::bag::{BagReader, TopicInfo};
use det_post_ros::messages::{Detection2DArray, Detection3DArray};
use det_post_ros::truth::ATTRIBUTES_SUFFIX;
use det_post_types::{
    Box2d, Box3d, Detection2d, Detection3d, Error, ErrorKind, ImageBox, Keypoint, Object3d, Result,
    Rle, RotatedBox2d, Size, Stamp, input_file,
};

/// U+FEFF at the start of a text of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The longest line that is read: a frame of 65536 detections has half of that.
const MAX_LINE_BYTES: usize = 32 << 20;

/// Detections by topic.
pub type Detections = Streams<Detection2d<ImageBox>, Detection3d>;

/// Reads `detections.jsonl`, a replay's folder that holds it, or a recording
/// with detection arrays, whole unless the user stops it.
///
/// # Errors
/// `Io` when the file cannot be read, `Message` for a line that is too long,
/// `DamagedBag` when nothing of a recording can be read. Lines and messages that are malformed
/// are left out and named in [`Streams::damage`].
pub(super) fn read(path: &Path, classes: &mut Classes, stop: &AtomicBool) -> Result<Detections> {
    match lines_of(path) {
        Some(lines) => read_lines(&lines, classes, stop),
        None => read_recording(path, classes, stop),
    }
}

/// The file of lines that a path means, if it means one.
fn lines_of(path: &Path) -> Option<PathBuf> {
    let inside = path.join("detections.jsonl");
    if inside.is_file() {
        return Some(inside);
    }
    let is_lines = path.extension().is_some_and(|e| e == "jsonl" || e == "json");
    (path.is_file() && is_lines).then(|| path.to_owned())
}

/// A line of `detections.jsonl`, as `src/replay/lines.rs` writes it.
#[derive(Deserialize)]
struct Line {
    channel: String,
    topic: String,
    stamp_ns: i64,
    frame_id: String,
    detections_2d: Option<Vec<Line2d>>,
    detections_3d: Option<Vec<Line3d>>,
}

/// What is no number is null in JSON.
type Number = Option<f32>;

#[derive(Deserialize)]
struct Line2d {
    /// A number in files of this program; anything in others.
    #[serde(default)]
    class_id: serde_json::Value,
    class_name: String,
    score: Number,
    #[serde(flatten)]
    bbox: LineBox,
    mask: Option<LineMask>,
    /// x, y and score of each.
    keypoints: Option<Vec<[Number; 3]>>,
}

#[derive(Deserialize)]
struct LineMask {
    /// Rows and columns.
    size: [u32; 2],
    counts: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum LineBox {
    Aligned { r#box: [Number; 4] },
    Rotated { center: [Number; 2], size: [Number; 2], theta: Number },
}

#[derive(Deserialize)]
struct Line3d {
    /// A number in files of this program; anything in others.
    #[serde(default)]
    class_id: serde_json::Value,
    class_name: String,
    score: Number,
    center: [Number; 3],
    size: [Number; 3],
    yaw: Number,
    velocity: Option<[Number; 2]>,
}

fn number(value: Number) -> f32 {
    value.unwrap_or(f32::NAN)
}

fn read_lines(path: &Path, classes: &mut Classes, stop: &AtomicBool) -> Result<Detections> {
    let cannot_read = |e| {
        Error::new(ErrorKind::Io, "eval", format!("cannot read {}", path.display())).with_source(e)
    };
    let mut file = BufReader::new(input_file::open(path).map_err(cannot_read)?);
    let mut streams = Detections::new();
    let (mut text, mut number) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        text.clear();
        number += 1;
        let mut bounded = file.by_ref().take(MAX_LINE_BYTES as u64 + 1);
        if bounded.read_until(b'\n', &mut text).map_err(cannot_read)? == 0 {
            break;
        }
        let place = || format!("line {number} of {}", path.display());
        if text.len() > MAX_LINE_BYTES {
            let message = format!("{} has more than {MAX_LINE_BYTES} bytes", place());
            return Err(Error::new(ErrorKind::Message, "eval", message));
        }
        // Editors of other systems write a mark of the byte order and empty lines.
        if number == 1 && text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let line: Line = match serde_json::from_slice(&text) {
            Ok(line) => line,
            Err(error) => {
                streams.add_damage(|| format!("{} is no frame: {error}", place()));
                continue;
            }
        };
        let names = [&*line.channel, &*line.topic, &*line.frame_id];
        let stamp = Stamp::from_nanos(line.stamp_ns);
        let mut is_new = true;
        let in_images = line.detections_2d.iter().flatten().map(|found| found.score);
        let in_space = line.detections_3d.iter().flatten().map(|found| found.score);
        streams.check_scores(in_images.chain(in_space).flatten(), place);
        if let Some(found) = line.detections_2d {
            let parts = match parts_of(&found) {
                Ok(parts) => parts,
                Err(error) => {
                    streams.add_damage(|| format!("{}: {}", place(), error.message()));
                    continue;
                }
            };
            let found = found.into_iter().map(|d| detection_2d(&d, classes)).collect();
            is_new = insert(&mut streams.cameras, names, stamp, found);
            let own = streams.cameras.iter_mut().find(|stream| stream.topic == line.topic);
            if let Some(stream) = own.filter(|_| is_new && parts != Parts::default()) {
                stream.parts.insert(stamp, parts);
            }
        }
        if let Some(found) = line.detections_3d {
            let found = found.into_iter().map(|d| detection_3d(&d, classes)).collect();
            is_new = insert(&mut streams.lidars, names, stamp, found);
        }
        streams.num_repeated += usize::from(!is_new);
    }
    Ok(streams)
}

/// The masks and keypoints of a frame; no list of what no detection has.
///
/// # Errors
/// `Argument` for a mask that is none.
fn parts_of(found: &[Line2d]) -> Result<Parts> {
    let mask = |line: &Line2d| {
        let of = |LineMask { size: [height, width], counts }: &LineMask| {
            Rle::from_compressed(Size::new(*width, *height), counts)
        };
        line.mask.as_ref().map(of).transpose()
    };
    let keypoints = |line: &Line2d| {
        let numbers = line.keypoints.iter().flatten();
        let points = numbers.map(|numbers| numbers.map(number));
        points.map(|[x, y, score]| Keypoint { x, y, score }).collect()
    };
    let mut parts = Parts::default();
    if found.iter().any(|line| line.mask.is_some()) {
        parts.masks = found.iter().map(mask).collect::<Result<_>>()?;
    }
    if found.iter().any(|line| line.keypoints.is_some()) {
        parts.keypoints = found.iter().map(keypoints).collect();
    }
    Ok(parts)
}

/// The number of a class.
fn number_of(class_id: &serde_json::Value) -> Option<u32> {
    class_id.as_u64().and_then(|id| u32::try_from(id).ok())
}

fn detection_2d(line: &Line2d, classes: &mut Classes) -> Detection2d<ImageBox> {
    let bbox = match line.bbox {
        LineBox::Aligned { r#box } => {
            let [x1, y1, x2, y2] = r#box.map(number);
            Box2d::new(x1, y1, x2, y2).into()
        }
        LineBox::Rotated { center, size, theta } => {
            let ([cx, cy], [width, height]) = (center.map(number), size.map(number));
            RotatedBox2d { cx, cy, width, height, angle_rad: number(theta) }.into()
        }
    };
    Detection2d {
        class: classes.numbered(&line.class_name, number_of(&line.class_id)),
        score: number(line.score),
        bbox,
    }
}

fn detection_3d(line: &Line3d, classes: &mut Classes) -> Detection3d {
    let [length_m, width_m, height_m] = line.size.map(number);
    let center = line.center.map(number);
    let bbox = Box3d { center, length_m, width_m, height_m, yaw_rad: number(line.yaw) };
    let velocity_mps = line.velocity.map(|velocity| velocity.map(number));
    Detection3d {
        class: classes.numbered(&line.class_name, number_of(&line.class_id)),
        score: number(line.score),
        object: Object3d { bbox, velocity_mps, variance: None },
    }
}

/// Reads the detection arrays of a recording that are not truth. They carry no
/// velocities.
fn read_recording(path: &Path, classes: &mut Classes, stop: &AtomicBool) -> Result<Detections> {
    let mut reader = BagReader::open(path)?;
    let topics = reader.topics().to_vec();
    let is_truth = |name: &str| {
        topics.iter().any(|other| other.name.strip_suffix(ATTRIBUTES_SUFFIX) == Some(name))
    };
    let wanted: Vec<&str> = topics
        .iter()
        .filter(|t| matches!(&*t.type_name, Detection2DArray::TYPE | Detection3DArray::TYPE))
        .map(|topic| topic.name.as_str())
        .filter(|name| !is_truth(name))
        .collect();
    reader.select(&wanted);
    let mut streams = Detections::new();
    while !stop.load(Ordering::Relaxed) {
        let message = match reader.next_message() {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(error) => {
                streams.add_damage(|| format!("{}: {error}", path.display()));
                continue;
            }
        };
        let topic = &topics[message.topic];
        let added = match &*topic.type_name {
            Detection2DArray::TYPE => add_2d(&mut streams, topic, message.data, classes),
            Detection3DArray::TYPE => add_3d(&mut streams, topic, message.data, classes),
            _ => continue,
        };
        let place = || format!("{}: {} at {}", path.display(), topic.name, message.log_time);
        match added {
            Ok(Added { is_new, scores }) => {
                streams.num_repeated += usize::from(!is_new);
                streams.check_scores(scores.into_iter(), place);
            }
            Err(error) => streams.add_damage(|| format!("{}: {}", place(), error.message())),
        }
    }
    Ok(streams)
}

/// A frame of a message.
struct Added {
    /// Whether its topic had none of its stamp.
    is_new: bool,
    scores: Vec<f32>,
}

/// Adds the boxes in an image of a message.
///
/// # Errors
/// `Message` when it is malformed.
fn add_2d(
    streams: &mut Detections,
    topic: &TopicInfo,
    data: &[u8],
    classes: &mut Classes,
) -> Result<Added> {
    let array = Detection2DArray::decode(data)?;
    let names = [&*topic.name, &*topic.name, array.header.frame_id];
    let mut found = Vec::new();
    for detection in array.detections {
        let detection = detection?;
        let Some(best) = detection.best else { continue };
        found.push(Detection2d {
            class: classes.index(best.class_id),
            score: best.score as f32,
            bbox: detection.bbox(),
        });
    }
    let scores = found.iter().map(|detection| detection.score).collect();
    let is_new = insert(&mut streams.cameras, names, array.header.stamp, found);
    Ok(Added { is_new, scores })
}

/// As [`add_2d`], for boxes in space.
///
/// # Errors
/// `Message` when it is malformed.
fn add_3d(
    streams: &mut Detections,
    topic: &TopicInfo,
    data: &[u8],
    classes: &mut Classes,
) -> Result<Added> {
    let array = Detection3DArray::decode(data)?;
    let names = [&*topic.name, &*topic.name, array.header.frame_id];
    let mut found = Vec::new();
    for detection in array.detections {
        let detection = detection?;
        let Some(best) = detection.best else { continue };
        let [length_m, width_m, height_m] = detection.size.map(|size| size as f32);
        let center = detection.center.position.map(|value| value as f32);
        let yaw_rad = detection.center.yaw_rad() as f32;
        let bbox = Box3d { center, length_m, width_m, height_m, yaw_rad };
        found.push(Detection3d {
            class: classes.index(best.class_id),
            score: best.score as f32,
            object: Object3d { bbox, velocity_mps: None, variance: None },
        });
    }
    let scores = found.iter().map(|detection| detection.score).collect();
    let is_new = insert(&mut streams.lidars, names, array.header.stamp, found);
    Ok(Added { is_new, scores })
}
