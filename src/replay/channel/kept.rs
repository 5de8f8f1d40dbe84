//! What a frame of a replay in flight keeps of its messages, for the inputs that it is passed on
//! with.

use std::ops::Range;
use std::sync::Arc;

use nalgebra::Isometry3;

use crate::detectors::{FrameInput, MAX_INPUTS};
use crate::replay::input::frame_input;
use crate::replay::unpacked::Unpacked;
use crate::runtime::frame_messages::FrameMessages;
use det_post_ros::bag::{BagMessage, Mapped};
use det_post_ros::middleware::{InputKind, deliver};
use det_post_types::{CameraCalibration, Error, ErrorKind, Result};

/// A message of the recording whose frame is in flight.
#[derive(Default)]
pub(super) struct SubmittedMessage {
    data: MessageData,
    /// What its bytes are, once they are unpacked; `None`: as they are recorded.
    unpacked: Option<InputKind>,
    /// Memory for a copy of the message, which is used again.
    copy: Vec<u8>,
    calibration: Option<Arc<CameraCalibration>>,
    pose: Option<Result<Isometry3<f64>>>,
}

/// Where the bytes of a message are.
#[derive(Default)]
enum MessageData {
    /// With the reader, until its next message.
    #[default]
    Lent,
    /// In a mapped file.
    Mapped(Mapped, Range<usize>),
    /// In the copy: the reader reuses its buffer.
    Copied,
}

/// The messages in buffers whose frame is in flight.
pub(super) struct SubmittedMessages {
    messages: FrameMessages,
    poses: Poses,
}

/// The poses of the sensors of a frame, by input.
type Poses = [Option<Result<Isometry3<f64>>>; MAX_INPUTS];

impl SubmittedMessages {
    /// Messages whose poses are not known yet.
    pub(super) fn new(messages: FrameMessages) -> Self {
        Self { messages, poses: [const { None }; MAX_INPUTS] }
    }

    /// Calls `work` with the inputs of the frame. The poses that it stores with them are those of
    /// the next call.
    ///
    /// # Errors
    /// Returns the errors of the views of the messages.
    pub(super) fn with_inputs<T>(
        &mut self,
        work: impl FnOnce(&mut [Option<FrameInput<'_>>]) -> T,
    ) -> Result<T> {
        let Self { messages, poses } = self;
        let views = messages.views()?;
        let mut inputs = messages.inputs(&views);
        for (input, pose) in inputs.iter_mut().zip(poses.iter_mut()) {
            if let Some(input) = input {
                input.pose = pose.take();
            }
        }
        let done = work(&mut inputs[..messages.num_inputs()]);
        for (pose, input) in poses.iter_mut().zip(inputs) {
            *pose = input.and_then(|input| input.pose);
        }
        Ok(done)
    }
}

impl SubmittedMessage {
    /// A message of the reader, in the memory of one that is over.
    pub(super) fn lent(self, calibration: Option<Arc<CameraCalibration>>) -> Self {
        let (data, unpacked) = (MessageData::Lent, None);
        Self { data, unpacked, copy: self.copy, calibration, pose: None }
    }

    /// Unpacks a packed cloud or a packet of video of the reader. Other messages remain with the reader.
    ///
    /// # Errors
    /// Returns the errors of [`Unpacked::unpack_to`].
    pub(super) fn unpack(
        &mut self,
        kind: InputKind,
        data: &[u8],
        unpacked: &mut Unpacked,
        max_bytes: usize,
    ) -> Result<()> {
        self.unpacked = unpacked.unpack_to(0, kind, data, max_bytes, &mut self.copy)?;
        if self.unpacked.is_some() {
            self.data = MessageData::Copied;
        }
        Ok(())
    }

    /// Keeps the bytes of the message beyond the reader's loan, without a copy where they are in a
    /// mapped file. A message that was unpacked is kept already.
    pub(super) fn keep(&mut self, message: &BagMessage<'_>) {
        if matches!(self.data, MessageData::Copied) {
            return;
        }
        self.data = match message.place() {
            Some((file, place)) => MessageData::Mapped(file.clone(), place),
            None => {
                self.copy.clear();
                self.copy.extend_from_slice(message.data);
                MessageData::Copied
            }
        };
    }

    /// Calls `work` with the input of the frame, whose bytes are `lent` unless they are kept, of a message that was
    /// recorded as `kind`. The pose that it stores with the input is that of the next call.
    ///
    /// # Errors
    /// The reason why the message cannot be decoded.
    pub(super) fn with_input<T>(
        &mut self,
        kind: InputKind,
        lent: &[u8],
        work: impl FnOnce(&mut [Option<FrameInput<'_>>]) -> T,
    ) -> Result<T> {
        let Self { data, unpacked, copy, calibration, pose } = self;
        let kind = unpacked.unwrap_or(kind);
        let data = match data {
            MessageData::Lent => lent,
            MessageData::Mapped(file, place) => file.get(place.clone()).unwrap_or_default(),
            MessageData::Copied => &copy[..],
        };
        let (mut work, mut done) = (Some(work), None);
        deliver(kind, data, &mut |received| {
            let Some(work) = work.take() else { return };
            done = Some(received.map(|received| {
                let calibration = calibration.as_deref();
                let input = frame_input(&received);
                let mut inputs =
                    [input.map(|input| FrameInput { calibration, pose: pose.take(), ..input })];
                let done = work(&mut inputs);
                let [input] = inputs;
                *pose = input.and_then(|input| input.pose);
                done
            }));
        });
        let none = || Err(Error::new(ErrorKind::Message, "replay", "not a sensor's message"));
        done.unwrap_or_else(none)
    }
}
