//! What topics have beside their boxes: masks as label images, keypoints as clouds.

use std::collections::BTreeMap;

use super::streams::Stream;
use crate::parts::Parts;
use det_post_ros::bag::TopicInfo;
use det_post_ros::messages::{Image, PointCloud2};
use det_post_types::{Encoding, Error, ErrorKind, Keypoint, Result, Rle, Size, Stamp};

/// The end of the topic of label images: the value of a pixel is the position of its object in
/// the array, from 1; 0 is none.
const INSTANCES: &str = "/instances";
/// The end of the topic of keypoints: a row per object, a point per keypoint.
const KEYPOINTS: &str = "/keypoints";

/// `FLOAT32` of `sensor_msgs/PointField`.
const FLOAT32: u8 = 7;

/// A companion of a topic of boxes, by its number in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Companion {
    Instances(usize),
    Keypoints(usize),
}

impl Companion {
    /// The companions of a topic.
    pub(super) fn all(topic: &TopicInfo, topics: &[TopicInfo]) -> Vec<Self> {
        let find = |type_name: &str, end: &str| {
            topics.iter().position(|other| {
                other.type_name == type_name && other.name.strip_suffix(end) == Some(&*topic.name)
            })
        };
        let instances = find(Image::TYPE, INSTANCES).map(Self::Instances);
        let keypoints = find(PointCloud2::TYPE, KEYPOINTS).map(Self::Keypoints);
        instances.into_iter().chain(keypoints).collect()
    }

    /// The number of its topic.
    pub(super) const fn topic(self) -> usize {
        match self {
            Self::Instances(topic) | Self::Keypoints(topic) => topic,
        }
    }

    /// The parts of a frame in a message.
    ///
    /// # Errors
    /// `Message` for one of another form; errors of decoding.
    pub(super) fn read(self, message: &[u8]) -> Result<(Stamp, Parts)> {
        match self {
            Self::Instances(_) => masks_of(message),
            Self::Keypoints(_) => keypoints_of(message),
        }
    }
}

/// The parts of frames by topic and stamp: they may come before their boxes.
#[derive(Default)]
pub(super) struct PartsByTopic(BTreeMap<(String, Stamp), Parts>);

impl PartsByTopic {
    /// Adds a part of a frame of a topic of boxes.
    pub(super) fn add(&mut self, topic: &str, (stamp, parts): (Stamp, Parts)) {
        let all = self.0.entry((topic.to_owned(), stamp)).or_default();
        if !parts.masks.is_empty() {
            all.masks = parts.masks;
        }
        if !parts.keypoints.is_empty() {
            all.keypoints = parts.keypoints;
        }
    }

    /// Gives the streams of the topics their parts.
    pub(super) fn finish<T>(self, streams: &mut [Stream<T>]) {
        for ((topic, stamp), parts) in self.0 {
            if let Some(stream) = streams.iter_mut().find(|stream| stream.topic == topic) {
                stream.parts.insert(stamp, parts);
            }
        }
    }
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Message, "eval", message)
}

/// The masks of a label image, `mono8` or `mono16`, by the positions of their objects.
fn masks_of(message: &[u8]) -> Result<(Stamp, Parts)> {
    let message = Image::decode(message)?;
    let image = message.view()?;
    let size = image.size();
    let (is_wide, is_big_endian) = match image.encoding() {
        Encoding::Mono8 => (false, false),
        Encoding::Mono16 => (true, image.is_big_endian()),
        _ => {
            let found = message.encoding;
            return Err(refused(format!("a label image of {found}; mono8 or mono16 expected")));
        }
    };
    let value = |row: &[u8], x: usize| match (is_wide, is_big_endian) {
        (false, _) => usize::from(row[x]),
        (true, true) => usize::from(u16::from_be_bytes([row[2 * x], row[2 * x + 1]])),
        (true, false) => usize::from(u16::from_le_bytes([row[2 * x], row[2 * x + 1]])),
    };
    let rows: Vec<&[u8]> = (0..size.height as usize).map(|y| image.row(y)).collect();
    let columns = (0..size.width as usize).flat_map(|x| rows.iter().map(move |row| value(row, x)));
    let masks = of_labels(size, columns)?;
    Ok((message.header.stamp, Parts { masks, keypoints: Vec::new() }))
}

/// The masks of labels, which come column by column.
fn of_labels(size: Size, labels: impl Iterator<Item = usize>) -> Result<Vec<Option<Rle>>> {
    /// The lengths of runs so far, and the end of the last.
    #[derive(Default)]
    struct Runs(Vec<u32>, u32);
    let mut all: Vec<Option<Runs>> = Vec::new();
    let (mut position, mut run) = (0_u32, (0, 0));
    let mut end = |(label, start): (usize, u32), position: u32| {
        let Some(index) = label.checked_sub(1).filter(|_| start < position) else { return };
        if all.len() <= index {
            all.resize_with(index + 1, || None);
        }
        let Runs(counts, last) = all[index].get_or_insert_default();
        counts.extend([start - *last, position - start]);
        *last = position;
    };
    for label in labels {
        if label != run.0 {
            end(run, position);
            run = (label, position);
        }
        position += 1;
    }
    end(run, position);
    let whole = |Runs(mut counts, last): Runs| {
        if last < position {
            counts.push(position - last);
        }
        Rle::new(size, counts)
    };
    all.into_iter().map(|runs| runs.map(whole).transpose()).collect()
}

/// The keypoints of a cloud as `OUTPUT/keypoints` has them.
fn keypoints_of(message: &[u8]) -> Result<(Stamp, Parts)> {
    let cloud = PointCloud2::decode(message)?;
    cloud.view()?;
    let offset = |name: &str| {
        let field = cloud.fields.as_slice().iter().find(|field| field.name == name);
        let field = field.filter(|field| field.datatype == FLOAT32 && !cloud.is_bigendian);
        field.map(|field| field.offset as usize).ok_or_else(|| {
            refused(format!("keypoints have no field `{name}` of little-endian FLOAT32"))
        })
    };
    let offsets = [offset("x")?, offset("y")?, offset("score")?];
    let [row_step, point_step] = [cloud.row_step, cloud.point_step].map(|step| step as usize);
    let keypoint = |row: usize, column: usize| {
        let number = |offset: usize| {
            let at = row * row_step + column * point_step + offset;
            let bytes = cloud.data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(f32::from_le_bytes)
        };
        let [x, y, score] = offsets.map(number);
        Some(Keypoint { x: x?, y: y?, score: score? })
    };
    let of_object = |row: usize| -> Option<Vec<Keypoint>> {
        (0..cloud.width as usize).map(|column| keypoint(row, column)).collect()
    };
    let keypoints: Option<Vec<_>> = (0..cloud.height as usize).map(of_object).collect();
    let keypoints = keypoints.ok_or_else(|| refused("keypoints exceed the data".to_owned()))?;
    Ok((cloud.header.stamp, Parts { masks: Vec::new(), keypoints }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{Header, PointField, PointFields};

    #[test]
    fn labels_become_runs() {
        let size = Size::new(2, 3);
        let of = |labels: [usize; 6]| {
            let masks = of_labels(size, labels.into_iter()).unwrap();
            masks
                .into_iter()
                .map(|mask| mask.map(|mask| mask.counts().to_vec()))
                .collect::<Vec<_>>()
        };
        assert!(of([0; 6]).is_empty());
        assert_eq!(of([1; 6]), [Some(vec![0, 6])]);
        assert_eq!(
            of([3, 1, 1, 0, 3, 1]),
            [Some(vec![1, 2, 2, 1]), None, Some(vec![0, 1, 3, 1, 1])]
        );
        assert_eq!(of([0, 0, 2, 2, 0, 0]), [None, Some(vec![2, 2, 2])]);
    }

    #[test]
    fn label_images_and_clouds_are_read() {
        let stamp = Stamp::from_nanos(7);
        let header = Header { stamp, frame_id: "c" };
        let mut bytes = Vec::new();
        let image = |encoding, is_bigendian, step, data| Image {
            header,
            height: 1,
            width: 3,
            encoding,
            is_bigendian,
            step,
            data,
        };
        for (encoding, is_bigendian, step, data) in [
            ("mono8", false, 4, &[0, 2, 2, 9][..]),
            ("mono16", false, 6, &[0, 0, 2, 0, 2, 0]),
            ("mono16", true, 6, &[0, 0, 0, 2, 0, 2]),
        ] {
            image(encoding, is_bigendian, step, data).encode(&mut bytes).unwrap();
            let (at, parts) = Companion::Instances(0).read(&bytes).unwrap();
            assert_eq!((at, parts.masks.len(), parts.mask(1).unwrap().area()), (stamp, 2, 2));
        }
        image("rgb8", false, 9, &[0; 9]).encode(&mut bytes).unwrap();
        let error = Companion::Instances(0).read(&bytes).unwrap_err();
        assert!(error.message().contains("mono8 or mono16"), "{error}");

        let data: Vec<u8> = (0..12).flat_map(|n| (n as f32).to_le_bytes()).collect();
        let mut cloud = |names: [&str; 3], height: u32| {
            let mut fields = PointFields::new();
            for (offset, name) in (0..).step_by(4).zip(names) {
                fields.push(PointField { name, offset, datatype: FLOAT32, count: 1 }).unwrap();
            }
            let cloud = PointCloud2 {
                header,
                height,
                width: 2,
                fields,
                is_bigendian: false,
                point_step: 12,
                row_step: 24,
                data: &data,
                is_dense: true,
            };
            cloud.encode(&mut bytes).unwrap();
            Companion::Keypoints(0).read(&bytes)
        };
        let (at, parts) = cloud(["x", "y", "score"], 2).unwrap();
        assert_eq!((at, parts.keypoints.len()), (stamp, 2));
        assert_eq!(parts.keypoints(1)[1], Keypoint { x: 9.0, y: 10.0, score: 11.0 });
        assert!(cloud(["x", "y", "z"], 2).unwrap_err().message().contains("`score`"));
        assert!(cloud(["x", "y", "score"], 3).is_err());
    }
}
