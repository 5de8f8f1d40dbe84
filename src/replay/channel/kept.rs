//! What a frame of a replay in flight keeps of its messages, for the inputs that it is passed on
//! with.

use std::ops::Range;
use std::sync::Arc;

use nalgebra::Isometry3;

use crate::detectors::{FrameInput, MAX_INPUTS};
use crate::replay::input::frame_input;
use crate::replay::unpacked::{Unpacked, UnpackedTo};
use crate::runtime::frame_messages::FrameMessages;
use det_post_ops::image::decompress::video::DevicePicture;
use det_post_ros::bag::{BagMessage, Mapped};
use det_post_ros::middleware::{InputKind, deliver};
use det_post_types::{CameraCalibration, Error, ErrorKind, Header, ImagePayload, Result, Stamp};

/// A message of the recording whose frame is in flight.
#[derive(Default)]
pub(super) struct SubmittedMessage {
    data: MessageData,
    /// What its bytes are, once they are unpacked; `None`: as they are recorded.
    unpacked: Option<InputKind>,
    /// Memory for a copy of the message, which is used again.
    copy: Vec<u8>,
    /// The same for a picture of video on the channel's GPU.
    picture: DevicePicture,
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
    /// In the picture; the header of its message.
    Picture { stamp: Stamp, frame_id: String },
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
        let Self { copy, picture, .. } = self;
        let (data, unpacked) = (MessageData::Lent, None);
        Self { data, unpacked, copy, picture, calibration, pose: None }
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
        let Self { copy, picture, .. } = self;
        match unpacked.unpack_to(0, kind, data, max_bytes, copy, picture)? {
            UnpackedTo::Itself => {}
            UnpackedTo::Message(kind) => {
                (self.unpacked, self.data) = (Some(kind), MessageData::Copied);
            }
            UnpackedTo::Picture(Header { stamp, frame_id }) => {
                self.data = MessageData::Picture { stamp, frame_id: frame_id.to_owned() };
            }
        }
        Ok(())
    }

    /// Keeps the bytes of the message beyond the reader's loan, without a copy where they are in a
    /// mapped file. A message that was unpacked is kept already.
    pub(super) fn keep(&mut self, message: &BagMessage<'_>) {
        if matches!(self.data, MessageData::Copied | MessageData::Picture { .. }) {
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
        let Self { data, unpacked, copy, picture, calibration, pose } = self;
        let kind = unpacked.unwrap_or(kind);
        let data = match data {
            MessageData::Lent => lent,
            MessageData::Mapped(file, place) => file.get(place.clone()).unwrap_or_default(),
            MessageData::Copied => &copy[..],
            MessageData::Picture { stamp, frame_id } => {
                let (header, image) = (Header { stamp: *stamp, frame_id }, picture.view()?);
                let input = FrameInput::image(header, ImagePayload::OnDevice(image));
                return Ok(with_pose(Some(input), calibration.as_deref(), pose, work));
            }
        };
        let (mut work, mut done) = (Some(work), None);
        deliver(kind, data, &mut |received| {
            let Some(work) = work.take() else { return };
            done = Some(received.map(|received| {
                with_pose(frame_input(&received), calibration.as_deref(), pose, work)
            }));
        });
        let none = || Err(Error::new(ErrorKind::Message, "replay", "not a sensor's message"));
        done.unwrap_or_else(none)
    }
}

/// Calls `work` with an input that has the calibration and the pose, which is kept afterwards.
fn with_pose<'a, T>(
    input: Option<FrameInput<'a>>,
    calibration: Option<&'a CameraCalibration>,
    pose: &mut Option<Result<Isometry3<f64>>>,
    work: impl FnOnce(&mut [Option<FrameInput<'_>>]) -> T,
) -> T {
    let mut inputs = [input.map(|input| FrameInput { calibration, pose: pose.take(), ..input })];
    let done = work(&mut inputs);
    let [input] = inputs;
    *pose = input.and_then(|input| input.pose);
    done
}
