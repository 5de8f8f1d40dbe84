//! Truth of a recording: detection arrays with their companions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::companions::{Companion, PartsByTopic};
use super::streams::{Classes, Streams, insert};
use crate::{GroundTruth2d, GroundTruth3d};
use det_post_ros::bag::{BagReader, TopicInfo};
use det_post_ros::cdr::Reader;
use det_post_ros::messages::{Detection2DArray, Detection3DArray, read_header};
use det_post_ros::truth::{ATTRIBUTES_SUFFIX, decode_2d, decode_3d};
use det_post_types::{Error, ErrorKind, Evidence, Result, Stamp};

/// Truth by topic.
pub type Truth = Streams<GroundTruth2d, GroundTruth3d>;

/// A topic of truth and its companion, as numbers of the recording's topics.
struct Pair {
    array: usize,
    attributes: usize,
    /// Masks and keypoints.
    companions: Vec<Companion>,
    /// The half of a frame that came first, by stamp.
    waiting: BTreeMap<Stamp, Vec<u8>>,
}

/// Reads the truth of a recording, all of it unless the user stops it.
///
/// # Errors
/// `DamagedBag` when nothing can be read, `Argument` when no topic is truth. Messages that are
/// malformed are left out and named in [`Streams::damage`].
pub(super) fn read(path: &Path, classes: &mut Classes, stop: &AtomicBool) -> Result<Truth> {
    let mut reader = BagReader::open(path)?;
    let topics = reader.topics().to_vec();
    let mut pairs = pairs(&topics);
    if pairs.is_empty() {
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        return Err(Error::new(
            ErrorKind::Argument,
            "eval",
            format!(
                "{} holds no truth, which is a topic of detection arrays with another beside it \
                 that ends in {ATTRIBUTES_SUFFIX}; its topics are {}",
                path.display(),
                names.join(" ")
            ),
        ));
    }
    let wanted: Vec<&str> = pairs
        .iter()
        .flat_map(|pair| {
            let companions = pair.companions.iter().map(|companion| companion.topic());
            [pair.array, pair.attributes].into_iter().chain(companions)
        })
        .map(|topic| topics[topic].name.as_str())
        .collect();
    reader.select(&wanted);
    let (mut truth, mut parts) = (Truth::new(), PartsByTopic::default());
    while !stop.load(Ordering::Relaxed) {
        let message = match reader.next_message() {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(error) => {
                truth.add_damage(|| format!("{}: {error}", path.display()));
                continue;
            }
        };
        let time = message.log_time;
        let name = &topics[message.topic].name;
        let damage =
            |error: &Error| format!("{}: {name} at {time}: {}", path.display(), error.message());
        let companion = pairs.iter().find_map(|pair| {
            let own = pair.companions.iter().find(|own| own.topic() == message.topic)?;
            Some((&topics[pair.array].name, *own))
        });
        if let Some((array, companion)) = companion {
            match companion.read(message.data) {
                Ok(read) => parts.add(array, read),
                Err(error) => truth.add_damage(|| damage(&error)),
            }
            continue;
        }
        let of_message = |pair: &&mut Pair| [pair.array, pair.attributes].contains(&message.topic);
        let Some(pair) = pairs.iter_mut().find(of_message) else { continue };
        let header =
            Reader::new("truth", message.data).and_then(|mut of| Ok(read_header(&mut of)?.stamp));
        let stamp = match header {
            Ok(stamp) => stamp,
            Err(error) => {
                truth.add_damage(|| damage(&error));
                continue;
            }
        };
        let Some(other) = pair.waiting.remove(&stamp) else {
            pair.waiting.insert(stamp, message.data.to_vec());
            continue;
        };
        let [array, attributes] = match message.topic == pair.array {
            true => [message.data, &other],
            false => [&other, message.data],
        };
        match add(&mut truth, &topics[pair.array], [array, attributes], classes) {
            Ok(0) => {}
            Ok(num) => truth.add_damage(|| {
                let place = format!("{}: {} at {time}", path.display(), topics[pair.array].name);
                format!("{place}: {num} objects do not count: box or visibility not finite, or box reversed")
            }),
            Err(error) => truth.add_damage(|| damage(&error)),
        }
    }
    parts.finish(&mut truth.cameras);
    truth.num_incomplete = pairs.iter().map(|pair| pair.waiting.len()).sum();
    Ok(truth)
}

fn pairs(topics: &[TopicInfo]) -> Vec<Pair> {
    let is_array =
        |t: &TopicInfo| matches!(&*t.type_name, Detection2DArray::TYPE | Detection3DArray::TYPE);
    let companion = |topic: &TopicInfo| {
        topics
            .iter()
            .position(|other| other.name.strip_suffix(ATTRIBUTES_SUFFIX) == Some(&*topic.name))
    };
    let arrays = topics.iter().enumerate().filter(|(_, topic)| is_array(topic));
    arrays
        .filter_map(|(array, topic)| {
            let attributes = companion(topic)?;
            let companions = Companion::all(topic, topics);
            Some(Pair { array, attributes, companions, waiting: BTreeMap::new() })
        })
        .collect()
}

/// Adds a frame of truth. How many of its objects no filter can count.
fn add(
    truth: &mut Truth,
    topic: &TopicInfo,
    [array, attributes]: [&[u8]; 2],
    classes: &mut Classes,
) -> Result<usize> {
    let (is_new, num_unusable) = if topic.type_name == Detection2DArray::TYPE {
        let (header, objects) = decode_2d(array, attributes)?;
        let objects = objects.iter().map(|object| GroundTruth2d {
            class: classes.index(object.class_name),
            bbox: object.bbox,
            visibility: object.visibility,
        });
        let objects: Vec<_> = objects.collect();
        let is_usable = |of: &&GroundTruth2d| of.bbox.is_valid() && of.visibility.is_finite();
        let num_usable = objects.iter().filter(is_usable).count();
        let num_unusable = objects.len() - num_usable;
        let names = [&*topic.name, &*topic.name, header.frame_id];
        (insert(&mut truth.cameras, names, header.stamp, objects), num_unusable)
    } else {
        let (header, objects) = decode_3d(array, attributes)?;
        let objects = objects.iter().map(|object| GroundTruth3d {
            class: classes.index(object.class_name),
            bbox: object.bbox,
            velocity_mps: object.velocity_mps,
            evidence: object.evidence,
            visibility: object.visibility,
        });
        let objects: Vec<_> = objects.collect();
        // Of a cloud, visibility is not read.
        let is_usable = |of: &&GroundTruth3d| {
            let is_of_cloud = matches!(of.evidence, Evidence::Points(_));
            of.bbox.is_valid() && (is_of_cloud || of.visibility.is_finite())
        };
        let num_usable = objects.iter().filter(is_usable).count();
        let num_unusable = objects.len() - num_usable;
        let names = [&*topic.name, &*topic.name, header.frame_id];
        (insert(&mut truth.lidars, names, header.stamp, objects), num_unusable)
    };
    truth.num_repeated += usize::from(!is_new);
    Ok(num_unusable)
}
