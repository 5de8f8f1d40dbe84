//! The transforms of a recording, read ahead of its frames.

use std::path::Path;
use std::time::Duration;

use nalgebra::Isometry3;

use super::slice::before;
use det_post_ros::bag::{BagReader, LogSpan, ReadOptions, TopicInfo};
use det_post_ros::calibration_files::{StaticTransform, read_transforms};
use det_post_ros::messages::TfMessage;
use det_post_ros::tf::TfBuffer;
use det_post_types::{Error, Result, Stamp};

/// How far transforms are read ahead of the frames. A pose is published after the sweep it
/// belongs to; without this, the sample that follows the newest sweep would be missing for the
/// interpolation.
const LOOKAHEAD_NS: i64 = 500_000_000;

/// How far before a slice its transforms are read: twice the window of the buffer, for an edge
/// with the fewest samples between which there is a pose.
const LOOKBACK: Duration = Duration::from_secs(20);

/// A second reader of the recording that feeds a TF buffer.
pub(super) struct TransformFeed {
    reader: BagReader,
    /// By topic, whether its transforms hold for all time; `None` for a topic of other messages.
    is_static: Vec<Option<bool>>,
    buffer: TfBuffer,
    read_to: Stamp,
    at_end: bool,
    is_warned: bool,
    /// What is wrong with the recording where it has transforms.
    damage: Vec<Error>,
}

impl TransformFeed {
    /// Opens the recording for only its transforms.
    pub(super) fn open(bag: &Path, options: &ReadOptions) -> Result<Self> {
        let mut reader = BagReader::open_with(bag, options)?;
        let topics = reader.topics();
        let is_static: Vec<_> = topics.iter().map(is_static).collect();
        let wanted = topics.iter().zip(&is_static).filter(|(_, is_static)| is_static.is_some());
        let wanted: Vec<String> = wanted.map(|(topic, _)| topic.name.clone()).collect();
        reader.select(&wanted.iter().map(String::as_str).collect::<Vec<_>>());
        Ok(Self {
            reader,
            is_static,
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
        let topics = reader.topics().iter().zip(&self.is_static);
        let topics = topics.filter(|(_, is_static)| **is_static == Some(true));
        let topics: Vec<String> = topics.map(|(topic, _)| topic.name.clone()).collect();
        reader.select(&topics.iter().map(String::as_str).collect::<Vec<_>>());
        reader.limit(LogSpan { from: None, to: Some(start) });
        loop {
            match reader.next_message() {
                Ok(Some(message)) => {
                    if self.is_static[message.topic].is_some() {
                        insert(&mut self.buffer, message.data, true, &mut self.is_warned);
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
                    if let Some(is_static) = self.is_static[message.topic] {
                        insert(&mut self.buffer, message.data, is_static, &mut self.is_warned);
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

/// Whether the transforms of a topic hold for all time; `None` for a topic of other messages.
/// Transforms that are not CDR are a warning.
fn is_static(topic: &TopicInfo) -> Option<bool> {
    let name = topic.type_name.replacen("/msg/", "/", 1);
    if name != TfMessage::TYPE.replacen("/msg/", "/", 1) {
        return None;
    }
    match topic.check_serialization() {
        Ok(()) => Some(topic.name.ends_with("tf_static")),
        Err(error) => {
            tracing::warn!("transforms are left out: {error}");
            None
        }
    }
}

/// Adds the transforms of a message to the buffer. An invalid one is left out; the first of
/// them is a warning, and frames that need it are degraded or dropped.
fn insert(buffer: &mut TfBuffer, data: &[u8], is_static: bool, is_warned: &mut bool) {
    let mut note = |result: Result<()>| {
        if let Err(error) = result
            && !std::mem::replace(is_warned, true)
        {
            tracing::warn!("a transform is left out: {error}");
        }
    };
    match TfMessage::decode(data) {
        Ok(message) => message.transforms.for_each(|transform| {
            note(transform.and_then(|transform| buffer.insert_message(&transform, is_static)));
        }),
        Err(error) => note(Err(error)),
    }
}
