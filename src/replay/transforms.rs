//! The transforms of a recording, read ahead of its frames.

use std::path::Path;
use std::time::Duration;

use nalgebra::Isometry3;

use super::slice::before;
use crate::config::MotionTopic;
use det_post_ros::bag::{BagReader, LogSpan, ReadOptions, TopicInfo};
use det_post_ros::calibration_files::{StaticTransform, read_transforms};
use det_post_ros::cdr::Reader;
use det_post_ros::messages::{MotionType, TfMessage};
use det_post_ros::tf::TfBuffer;
use det_post_types::{Error, Result, Stamp};

/// How far transforms are read ahead of the frames. A pose is published after the sweep it
/// belongs to; without this, the sample that follows the newest sweep would be missing for the
/// interpolation.
const LOOKAHEAD_NS: i64 = 500_000_000;

/// How far before a slice its transforms are read: twice the window of the buffer, for an edge
/// with the fewest samples between which there is a pose.
const LOOKBACK: Duration = Duration::from_secs(20);

/// What a topic tells of poses.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Transforms.
    Moving,
    /// Transforms that hold for all time.
    Static,
    /// The motion of the vehicle, on this topic.
    Motion(String, MotionType),
}

/// A second reader of the recording that feeds a TF buffer.
pub(super) struct TransformFeed {
    reader: BagReader,
    /// By topic; `None` for a topic of other messages.
    contents: Vec<Option<Content>>,
    buffer: TfBuffer,
    read_to: Stamp,
    at_end: bool,
    is_warned: bool,
    /// What is wrong with the recording where it has transforms.
    damage: Vec<Error>,
}

impl TransformFeed {
    /// Opens the recording for only its transforms, and those topics of the vehicle's motion.
    pub(super) fn open(
        bag: &Path,
        options: &ReadOptions,
        motions: &[&MotionTopic],
    ) -> Result<Self> {
        let mut reader = BagReader::open_with(bag, options)?;
        let topics = reader.topics();
        let has_tf = topics.iter().any(|topic| is_transforms(topic) && is_tf(topic));
        let contents: Vec<_> = topics.iter().map(|topic| content(topic, motions, has_tf)).collect();
        for motion in motions {
            let is_of =
                |found: &Content| matches!(found, Content::Motion(of, _) if *of == motion.topic);
            if !contents.iter().flatten().any(is_of) {
                let (topic, wanted) = (&motion.topic, motion.message.type_name());
                tracing::warn!(
                    "the recording has no {wanted} on {topic}: {}",
                    recorded(topics, topic)
                );
            }
        }
        let wanted = topics.iter().zip(&contents).filter(|(_, content)| content.is_some());
        let wanted: Vec<String> = wanted.map(|(topic, _)| topic.name.clone()).collect();
        reader.select(&wanted.iter().map(String::as_str).collect::<Vec<_>>());
        Ok(Self {
            reader,
            contents,
            buffer: TfBuffer::default(),
            read_to: Stamp::from_nanos(i64::MIN),
            at_end: wanted.is_empty(),
            is_warned: false,
            damage: Vec::new(),
        })
    }

    /// Adds the static transforms of a file. Those of the recording to the same frames replace
    /// them.
    ///
    /// # Errors
    /// Returns the errors of [`read_transforms`] and of [`TfBuffer::insert`].
    pub(super) fn add_file(&mut self, path: &Path) -> Result<()> {
        for StaticTransform { parent, child, parent_from_child } in read_transforms(path)? {
            self.buffer.insert(&parent, &child, Stamp::default(), parent_from_child, true)?;
        }
        Ok(())
    }

    /// Skips the transforms before a slice that starts at `start`, except static ones and those
    /// of the last [`LOOKBACK`].
    ///
    /// # Errors
    /// Returns the errors of opening the recording.
    pub(super) fn skip_to(
        &mut self,
        bag: &Path,
        options: &ReadOptions,
        start: Stamp,
    ) -> Result<()> {
        let start = before(start, LOOKBACK);
        let mut reader = BagReader::open_with(bag, options)?;
        let topics = reader.topics().iter().zip(&self.contents);
        let topics = topics.filter(|(_, content)| **content == Some(Content::Static));
        let topics: Vec<String> = topics.map(|(topic, _)| topic.name.clone()).collect();
        reader.select(&topics.iter().map(String::as_str).collect::<Vec<_>>());
        reader.limit(LogSpan { from: None, to: Some(start) });
        loop {
            match reader.next_message() {
                Ok(Some(message)) => {
                    if let Some(content) = &self.contents[message.topic] {
                        insert(&mut self.buffer, message.data, content, &mut self.is_warned);
                    }
                }
                Ok(None) => break,
                // Messages after it are sound.
                Err(error) => self.damage.push(error),
            }
        }
        self.reader.limit(LogSpan { from: Some(start), to: None });
        Ok(())
    }

    /// Reads the transforms recorded up to [`LOOKAHEAD_NS`] after `log_time`.
    pub(super) fn advance_to(&mut self, log_time: Stamp) {
        let until = Stamp::from_nanos(log_time.nanos().saturating_add(LOOKAHEAD_NS));
        while !self.at_end && self.read_to <= until {
            match self.reader.next_message() {
                Ok(Some(message)) => {
                    self.read_to = message.log_time;
                    if let Some(content) = &self.contents[message.topic] {
                        insert(&mut self.buffer, message.data, content, &mut self.is_warned);
                    }
                }
                Ok(None) => self.at_end = true,
                // Messages after it are sound.
                Err(error) => self.damage.push(error),
            }
        }
    }

    /// Forgets the poses after `stamp`, once stamps have started over.
    pub(super) fn forget_after(&mut self, stamp: Stamp) {
        self.buffer.forget_after(stamp);
    }

    /// The damage that was met since the last call. The main reader meets only that of chunks
    /// with topics of the channels.
    pub(super) fn take_damage(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.damage)
    }

    /// The transform `target_from_source` at a time.
    ///
    /// # Errors
    /// `Transform` when it is unknown.
    pub(super) fn lookup(
        &self,
        target: &str,
        source: &str,
        stamp: Stamp,
    ) -> Result<Isometry3<f64>> {
        self.buffer.lookup(target, source, stamp)
    }
}

fn is_of(topic: &TopicInfo, type_name: &str) -> bool {
    topic.type_name.replacen("/msg/", "/", 1) == type_name.replacen("/msg/", "/", 1)
}

fn is_transforms(topic: &TopicInfo) -> bool {
    is_of(topic, TfMessage::TYPE)
}

/// Whether a topic is `/tf` or `/tf_static`.
fn is_tf(topic: &TopicInfo) -> bool {
    matches!(topic.name.trim_start_matches('/'), "tf" | "tf_static")
}

/// What a topic tells of poses; `None` for a topic of other messages, and, where the recording has `/tf` or
/// `/tf_static`, for transforms on other topics, as of other robots, which is a warning. So are messages that are not
/// CDR.
fn content(topic: &TopicInfo, motions: &[&MotionTopic], has_tf: bool) -> Option<Content> {
    let motion = motions.iter().find(|motion| motion.topic == topic.name);
    let content = match motion.filter(|motion| is_of(topic, motion.message.type_name())) {
        Some(motion) => Content::Motion(motion.topic.clone(), motion.message),
        None if !is_transforms(topic) => return None,
        None if has_tf && !is_tf(topic) => {
            tracing::warn!("the transforms of {} are left out: the recording has /tf", topic.name);
            return None;
        }
        None if topic.name.ends_with("tf_static") => Content::Static,
        None => Content::Moving,
    };
    match topic.check_serialization() {
        Ok(()) => Some(content),
        Err(error) => {
            tracing::warn!("transforms are left out: {error}");
            None
        }
    }
}

/// The type of a topic that is not the wanted one, or the topics of motion that there are.
fn recorded(topics: &[TopicInfo], wanted: &str) -> String {
    if let Some(topic) = topics.iter().find(|topic| topic.name == wanted) {
        return format!("its messages are {}; set densification.motion_type", topic.type_name);
    }
    let is_motion = |topic: &&TopicInfo| {
        let is_of = |of: MotionType| topic.type_name == of.type_name();
        MotionType::ALL.into_iter().any(is_of)
    };
    let names: Vec<&str> =
        topics.iter().filter(is_motion).map(|topic| topic.name.as_str()).collect();
    match names[..] {
        [] => "nor motion on any other topic".to_owned(),
        _ => format!("set densification.motion_topic to one of {}", names.join(", ")),
    }
}

/// Adds a message to the buffer. An invalid one is left out; the first of them is a warning, and
/// frames that need it are degraded or dropped.
fn insert(buffer: &mut TfBuffer, data: &[u8], content: &Content, is_warned: &mut bool) {
    let mut note = |result: Result<()>| {
        if let Err(error) = result
            && !std::mem::replace(is_warned, true)
        {
            let what = match content {
                Content::Motion(topic, _) => topic,
                Content::Static => "static transforms",
                Content::Moving => "transforms",
            };
            tracing::warn!("a message of {what} is left out, further ones are not named: {error}");
        }
    };
    if let Content::Motion(topic, message) = content {
        let read = Reader::new(message.type_name(), data).and_then(|data| message.read(data));
        return note(read.and_then(|motion| buffer.insert_motion(topic, &motion)));
    }
    let is_static = *content == Content::Static;
    match TfMessage::decode(data) {
        Ok(message) => message.transforms.for_each(|transform| {
            note(transform.and_then(|transform| buffer.insert_message(&transform, is_static)));
        }),
        Err(error) => note(Err(error)),
    }
}
