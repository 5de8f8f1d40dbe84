//! One input of a channel of a replay: its topics in the recording.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::InputConfig;
use crate::detectors::FrameInput;
use crate::runtime::channel::Channel;
use crate::runtime::input::InputTotals;
use det_post_ros::bag::{BagMessage, TopicInfo};
use det_post_ros::messages::CameraInfo;
use det_post_ros::middleware::{InputKind, Received};
use det_post_types::{CameraCalibration, Error, ErrorKind, Result};

/// An input of a channel: a topic of the recording.
pub(super) struct ReplayInput {
    /// Its topic.
    pub(super) topic: InputTopic,
    /// The topic of the camera's CameraInfo, where the detector asks for it.
    pub(super) calibration: Option<CalibrationTopic>,
    /// What became of its messages, where there are several inputs.
    pub(super) totals: InputTotals,
}

/// The topic of an input among those of the recording, where a topic of one name may have
/// messages of several types.
#[derive(Clone)]
pub(super) struct InputTopic {
    /// Number of the topic whose messages are read; `None` when the recording does not have it.
    pub(super) number: Option<usize>,
    /// Type of its messages.
    pub(super) kind: InputKind,
    /// The topics of the same name that are not read, and the reason.
    others: Vec<(usize, String)>,
}

impl InputTopic {
    /// The topic of a name. Of several types with this name the one is read that the input can
    /// take and that has messages, first the one that a live input takes.
    ///
    /// # Errors
    /// `Config` when the input can take none of the types.
    fn find(channel: &Channel, index: usize, name: &str, topics: &[TopicInfo]) -> Result<Self> {
        let live = channel.live_input_kind(index);
        let mut numbers: Vec<usize> = numbers_of(name, topics).collect();
        let kind_of = |number: &usize| {
            let topic = &topics[*number];
            let key = &channel.config().name;
            let of_input = |error: Error| {
                Error::new(error.kind(), "replay", format!("{key}.input: {}", error.message()))
            };
            topic.check_serialization().map_err(of_input)?;
            channel.input_kind(index, &topic.type_name)
        };
        // The last key keeps the order of the recording.
        numbers.sort_by_key(|number| {
            let kind = kind_of(number).ok();
            (kind.is_none(), topics[*number].num_messages == Some(0), kind != Some(live), *number)
        });
        let Some((first, others)) = numbers.split_first() else {
            return Ok(Self { number: None, kind: live, others: Vec::new() });
        };
        let kind = kind_of(first)?;
        let others = others.iter().map(|other| {
            let (read, other_type) = (described(&topics[*first]), described(&topics[*other]));
            let text = format!("{name} carries {other_type} as well; {read} is read");
            (*other, text)
        });
        Ok(Self { number: Some(*first), kind, others: others.collect() })
    }

    /// Whether a message is of this topic, also one of another type.
    pub(super) fn has(&self, message: &BagMessage<'_>) -> bool {
        self.number == Some(message.topic)
            || self.others.iter().any(|(other, _)| *other == message.topic)
    }

    /// Checks the type of a message of this topic.
    ///
    /// # Errors
    /// `MessageType` for a message of a type that is not read.
    pub(super) fn check_type(&self, message: &BagMessage<'_>) -> Result<()> {
        match self.others.iter().find(|(other, _)| *other == message.topic) {
            Some((_, text)) => Err(Error::new(ErrorKind::MessageType, "replay", text)),
            None => Ok(()),
        }
    }
}

fn numbers_of(name: &str, topics: &[TopicInfo]) -> impl Iterator<Item = usize> {
    topics.iter().enumerate().filter(move |(_, topic)| topic.name == name).map(|(at, _)| at)
}

/// The type of a topic, with the serialization where it is not that of ROS 2.
fn described(topic: &TopicInfo) -> String {
    match topic.check_serialization() {
        Ok(()) => topic.type_name.clone(),
        Err(_) => format!("{} serialized as {}", topic.type_name, topic.serialization),
    }
}

/// A topic of CameraInfo in the recording.
#[derive(Clone)]
pub(super) struct CalibrationTopic {
    pub(super) name: String,
    pub(super) number: usize,
    /// Shared with the thread that reads the recording.
    newest: Arc<Mutex<Option<Arc<CameraCalibration>>>>,
}

impl CalibrationTopic {
    /// Whether a calibration was read.
    pub(super) fn is_known(&self) -> bool {
        lock(&self.newest).is_some()
    }

    /// Stores the calibration of a message, if it is of this topic.
    pub(super) fn take(&self, message: &BagMessage<'_>) {
        if self.number != message.topic {
            return;
        }
        match CameraInfo::decode(message.data) {
            Ok(info) => *lock(&self.newest) = Some(Arc::new(info.calibration())),
            Err(error) => tracing::warn!("{}: message refused: {error}", self.name),
        }
    }
}

impl ReplayInput {
    /// Input number `index` of a channel, among the topics of the recording.
    ///
    /// # Errors
    /// `Config` when the channel cannot take the type of its topic.
    pub(super) fn find(
        channel: &Channel,
        index: usize,
        config: &InputConfig,
        topics: &[TopicInfo],
    ) -> Result<Self> {
        let topic = InputTopic::find(channel, index, &config.topic, topics)?;
        let camera_info = config.camera_info.as_ref().filter(|_| channel.wants_calibration(index));
        let calibration = camera_info.and_then(|name| {
            // Messages of another type are refused one by one.
            let is_read = |number: &usize| topics[*number].type_name == CameraInfo::TYPE;
            let number = numbers_of(name, topics).find(is_read);
            let number = number.or_else(|| numbers_of(name, topics).next())?;
            Some(CalibrationTopic { name: name.clone(), number, newest: Arc::default() })
        });
        Ok(Self { topic, calibration, totals: InputTotals::default() })
    }

    /// The newest calibration of the camera, where the detector asks for it.
    pub(super) fn calibration(&self) -> Option<Arc<CameraCalibration>> {
        lock(&self.calibration.as_ref()?.newest).clone()
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sensor's message as an input of a frame; `None` for other messages.
pub(super) fn frame_input<'a>(message: &Received<'a>) -> Option<FrameInput<'a>> {
    match *message {
        Received::Image { header, payload } => Some(FrameInput::image(header, payload)),
        Received::Cloud { header, view } => Some(FrameInput::cloud(header, view)),
        Received::Tensors { header, tensors } => Some(FrameInput::tensors(header, tensors)),
        Received::Packed { .. }
        | Received::Video { .. }
        | Received::CameraInfo(_)
        | Received::Transform { .. }
        | Received::Motion(_)
        | Received::Clock(_)
        | Received::Bond(_) => None,
    }
}
