//! An input of a channel in the live graph: its topics.

use std::sync::Arc;
use std::time::Instant;

use super::calibration::{CalibrationHealth, CalibrationSummary};
use super::channel_state::{ChannelState, lock};
use super::diagnostics::InputHealth;
use super::status::TopicStatus;
use crate::config::{ChannelConfig, InputConfig};
use crate::runtime::arrivals::{Arrivals, Note};
use crate::runtime::input::InputSummary;
use crate::runtime::slot::{Offered, SlotWriter};
use crate::runtime::unpacking;
use crate::runtime::video_decoder::VideoPlace;
use det_post_ops::device::PayloadMemory;
use det_post_ros::middleware::{InputKind, Middleware, Receiver, Subscription};
use det_post_types::{Error, ErrorKind, Result};

/// The topics of an input.
pub(super) struct LiveInput {
    config: InputConfig,
    index: usize,
    kind: InputKind,
    /// Full name of the topic, after it is subscribed.
    topic: String,
    /// The same of its CameraInfo, if it has one.
    camera_info: Option<String>,
    /// While the node is active.
    subscriptions: Option<Subscriptions>,
}

struct Subscriptions {
    sensor: Box<dyn Subscription>,
    camera_info: Option<Box<dyn Subscription>>,
}

/// An input's end of the slot, and memory of the same kind in which its messages arrive.
pub(super) struct InputSlot {
    pub(super) writer: SlotWriter,
    pub(super) memory: Vec<PayloadMemory>,
    /// Memory of that kind for pictures of video that are decoded.
    pub(super) decoded: PayloadMemory,
    /// Where video is decoded.
    pub(super) video: VideoPlace,
}

impl LiveInput {
    /// Input number `index` of a channel, which carries messages of `kind`.
    pub(super) fn new(config: &InputConfig, index: usize, kind: InputKind) -> Self {
        Self {
            config: config.clone(),
            index,
            kind,
            topic: config.topic.clone(),
            camera_info: config.camera_info.clone(),
            subscriptions: None,
        }
    }

    /// Full name of the topic.
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// Subscribes to the topic and, if configured, to CameraInfo.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses, `Io` when there is no thread.
    pub(super) fn subscribe(
        &mut self,
        middleware: &mut dyn Middleware,
        channel: &ChannelConfig,
        slot: InputSlot,
        state: &Arc<ChannelState>,
    ) -> Result<()> {
        let InputConfig { topic, camera_info, .. } = &self.config;
        self.topic = middleware.resolve(topic);
        let arrivals = Arrivals {
            kind: self.kind,
            writer: slot.writer,
            memory: slot.memory,
            decoded: slot.decoded,
            video: slot.video,
            max_payload_bytes: channel.live.max_payload_bytes,
            note: note(channel, self.index, Arc::clone(state)),
        };
        let qos = channel.live.qos;
        let sensor = match self.kind {
            InputKind::PackedCloud(packed) => {
                let receiver = unpacking::receiver(packed, arrivals)?;
                middleware.subscribe(topic, self.kind, qos, receiver)?
            }
            // Their packets are copied for the decoder.
            InputKind::Video(_) => {
                let (receiver, _) = arrivals.into_receiver();
                middleware.subscribe(topic, self.kind, qos, receiver)?
            }
            kind => {
                let (receiver, buffers) = arrivals.into_receiver();
                middleware.subscribe_into(topic, kind, qos, receiver, buffers)?
            }
        };
        let camera_info = match camera_info {
            None => None,
            Some(topic) => {
                self.camera_info = Some(middleware.resolve(topic));
                let receiver = camera_info_receiver(&channel.name, self.index, Arc::clone(state));
                let qos = channel.live.qos;
                Some(middleware.subscribe(topic, InputKind::CameraInfo, qos, receiver)?)
            }
        };
        self.subscriptions = Some(Subscriptions { sensor, camera_info });
        Ok(())
    }

    /// The topics that nothing publishes, with the types of their messages.
    pub(super) fn without_publisher(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let of = self.subscriptions.as_ref();
        let sensor = of.map(|of| (&*of.sensor, self.topic.as_str(), self.kind));
        let camera_info =
            of.and_then(|of| of.camera_info.as_deref()).zip(self.camera_info.as_deref());
        let camera_info = camera_info.map(|(of, topic)| (of, topic, InputKind::CameraInfo));
        let silent =
            sensor.into_iter().chain(camera_info).filter(|(of, ..)| of.num_publishers() == 0);
        silent.map(|(_, topic, kind)| (topic, kind.type_name()))
    }

    /// Ends the subscriptions.
    pub(super) fn unsubscribe(&mut self) {
        self.subscriptions = None;
    }

    /// The health of the input. `topic_status` is the status of a topic.
    pub(super) fn health<'a, 't: 'a>(
        &'a self,
        summary: &'a InputSummary,
        calibration: Option<&'a CalibrationSummary>,
        topic_status: &impl Fn(&str) -> TopicStatus<'t>,
    ) -> InputHealth<'a> {
        let subscriptions = self.subscriptions.as_ref();
        let calibration = calibration.zip(self.camera_info.as_deref());
        InputHealth {
            topic: &self.topic,
            num_publishers: subscriptions.map_or(0, |of| of.sensor.num_publishers()),
            status: topic_status(&self.topic),
            calibration: calibration.map(|(summary, topic)| CalibrationHealth {
                topic,
                num_publishers: subscriptions
                    .and_then(|of| of.camera_info.as_ref())
                    .map(|subscription| subscription.num_publishers()),
                status: topic_status(topic),
                summary,
            }),
            summary,
        }
    }
}

/// Records CameraInfo messages.
fn camera_info_receiver(channel: &str, index: usize, state: Arc<ChannelState>) -> Receiver {
    let name = format!("{channel}.camera_info");
    Box::new(move |received| {
        let Some(watch) = &state.inputs[index].calibration else { return };
        let text = received.as_ref().err().map(ToString::to_string);
        let times = lock(watch).receive(Instant::now(), received);
        log_refused(&name, times, text);
    })
}

/// Counts every message of an input.
fn note(channel: &ChannelConfig, index: usize, state: Arc<ChannelState>) -> Note {
    let name = channel.name.clone();
    let mut encodings = Encodings::default();
    Box::new(move |offered| {
        if matches!(offered, Ok(Offered::Closed)) {
            return;
        }
        let text = offered.as_ref().err().map(ToString::to_string);
        let is_new = offered.as_ref().err().is_some_and(|error| encodings.is_new(error));
        let times = lock(&state.inputs[index].account).note(Instant::now(), offered);
        log_refused(&name, if is_new { 1 } else { times }, text);
    })
}

/// The encodings of an input that were refused: each is a warning once.
#[derive(Default)]
struct Encodings(Vec<String>);

impl Encodings {
    /// More of an input are details in the log.
    const MAX: usize = 8;

    /// Whether an error refuses an encoding that none before did.
    fn is_new(&mut self, error: &Error) -> bool {
        let is_known = self.0.iter().any(|known| known == error.message());
        if error.kind() != ErrorKind::Encoding || is_known || self.0.len() >= Self::MAX {
            return false;
        }
        self.0.push(error.message().to_owned());
        true
    }
}

/// Logs a refused message. The first with a reason is a warning.
fn log_refused(name: &str, times: u64, error: Option<String>) {
    match (times, error) {
        (1, Some(error)) => tracing::warn!("channel {name}: message refused: {error}"),
        (_, Some(error)) => tracing::debug!("channel {name}: message refused: {error}"),
        (_, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Encoding;

    #[test]
    fn each_refused_encoding_is_new_once() {
        let refused = |name: &str| Encoding::from_ros(name).unwrap_err();
        let mut encodings = Encodings::default();
        for name in ["rgb16", "32FC1"] {
            assert!(encodings.is_new(&refused(name)), "{name}");
            assert!(!encodings.is_new(&refused(name)), "{name}");
        }
        assert!(!encodings.is_new(&Error::new(ErrorKind::Layout, "image", "short")));
        let many = (0..20).filter(|n| encodings.is_new(&refused(&format!("x{n}")))).count();
        assert_eq!(many, Encodings::MAX - 2);
    }
}
