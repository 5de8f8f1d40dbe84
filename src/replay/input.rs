//! One input of a channel of a replay: its topics in the recording.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::InputConfig;
use crate::detectors::FrameInput;
use crate::runtime::channel::Channel;
use crate::runtime::input::InputTotals;
use det_post_ros::bag::{BagMessage, TopicInfo};
use det_post_ros::messages::CameraInfo;
use det_post_ros::middleware::{InputKind, Received};
use det_post_types::{CameraCalibration, Result};

/// An input of a channel: a topic of the recording.
pub(super) struct ReplayInput {
    /// Number of the topic; `None` when the recording does not have it.
    pub(super) topic: Option<usize>,
    /// Type of its messages.
    pub(super) kind: InputKind,
    /// The topic of the camera's CameraInfo, where the detector asks for it.
    pub(super) calibration: Option<CalibrationTopic>,
    /// What became of its messages, where there are several inputs.
    pub(super) totals: InputTotals,
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
        let number_of = |name: &str| topics.iter().position(|topic| topic.name == name);
        let topic = number_of(&config.topic);
        let kind = match topic {
            Some(topic) => channel.input_kind(index, &topics[topic].type_name)?,
            None => channel.live_input_kind(index),
        };
        let camera_info = config.camera_info.as_ref().filter(|_| channel.wants_calibration(index));
        let calibration = camera_info.and_then(|name| {
            let number = number_of(name)?;
            Some(CalibrationTopic { name: name.clone(), number, newest: Arc::default() })
        });
        Ok(Self { topic, kind, calibration, totals: InputTotals::default() })
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
        Received::Picture { header, payload } => Some(FrameInput::image(header, payload)),
        Received::Cloud { header, view } => Some(FrameInput::cloud(header, view)),
        Received::Tensors { header, tensors } => Some(FrameInput::tensors(header, tensors)),
        Received::CameraInfo(_)
        | Received::Transform { .. }
        | Received::Clock(_)
        | Received::Bond(_) => None,
    }
}
