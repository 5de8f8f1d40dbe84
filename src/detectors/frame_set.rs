//! The inputs of one frame.

use nalgebra::Isometry3;

use super::motion::{Motion, MotionNeeds};
pub use crate::config::MAX_INPUTS;
use det_post_types::{
    CameraCalibration, CloudView, DeviceBytes, Error, ErrorKind, Header, ImagePayload,
    ReceivedTensors, Result, Stamp,
};

/// The type of the messages of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadKind {
    /// Images, raw or compressed.
    Image,
    /// Point clouds.
    Cloud,
    /// Outputs of a network that runs elsewhere.
    Tensors,
}

impl PayloadKind {
    /// Every type, in order.
    pub const ALL: [Self; 3] = [Self::Image, Self::Cloud, Self::Tensors];
}

/// The requirements of a detector for one of its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputNeeds {
    /// The type of the messages.
    pub kind: PayloadKind,
    /// The fixed frame of reference of the sensor's pose; `None` if the detector does not
    /// use the pose.
    pub pose_in: Option<String>,
    /// Whether the detector uses the calibration of the camera.
    pub calibration: bool,
    /// The motion that the detector uses; `None` if it uses none.
    pub motion: Option<MotionNeeds>,
}

impl InputNeeds {
    /// Messages of a type, without anything else.
    pub fn of(kind: PayloadKind) -> Self {
        Self { kind, pose_in: None, calibration: false, motion: None }
    }
}

/// A coordinate frame of the vehicle in which a detector finds objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetFrame {
    /// Its name, such as `base_link`.
    pub frame_id: String,
    /// The fixed frame of reference of its pose; `None` if the detector does not use the
    /// pose.
    pub pose_in: Option<String>,
}

/// The data of one message, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Pixels or a compressed image.
    Image(ImagePayload<'a>),
    /// Points.
    Cloud(&'a CloudView<'a>),
    /// Points in the memory of a GPU, which a detector on that GPU copies there.
    CloudOnDevice(&'a CloudView<'a, DeviceBytes<'a>>),
    /// Outputs of a network.
    Tensors(&'a ReceivedTensors<'a>),
}

impl Payload<'_> {
    /// Its type.
    pub fn kind(&self) -> PayloadKind {
        match self {
            Self::Image(_) => PayloadKind::Image,
            Self::Cloud(_) | Self::CloudOnDevice(_) => PayloadKind::Cloud,
            Self::Tensors(_) => PayloadKind::Tensors,
        }
    }

    /// Its name, with an article.
    fn name(&self) -> &'static str {
        match self {
            Self::Image(_) => "an image",
            Self::Cloud(_) => "a point cloud",
            Self::CloudOnDevice(_) => "a point cloud in the memory of a GPU",
            Self::Tensors(_) => "a list of tensors",
        }
    }
}

/// One input of a frame.
#[derive(Debug)]
pub struct FrameInput<'a> {
    /// Acquisition time and coordinate frame of the data.
    pub header: Header<'a>,
    /// The data.
    pub payload: Payload<'a>,
    /// The transform from the sensor to the frame [`InputNeeds::pose_in`] at the header's
    /// stamp, or the reason why it is unknown; `None` if the detector does not use it.
    pub pose: Option<Result<Isometry3<f64>>>,
    /// The newest calibration of the camera; `None` if there is none yet or the detector
    /// does not use it ([`InputNeeds::calibration`]).
    pub calibration: Option<&'a CameraCalibration>,
    /// The motion around the stamp ([`InputNeeds::motion`]), or the reason why it is unknown;
    /// `None` if the detector does not use it.
    pub motion: Option<Result<Motion>>,
}

impl<'a> FrameInput<'a> {
    /// An input without a pose.
    pub fn new(header: Header<'a>, payload: Payload<'a>) -> Self {
        Self { header, payload, pose: None, calibration: None, motion: None }
    }

    /// An image without a pose.
    pub fn image(header: Header<'a>, image: ImagePayload<'a>) -> Self {
        Self::new(header, Payload::Image(image))
    }

    /// A cloud without a pose.
    pub fn cloud(header: Header<'a>, cloud: &'a CloudView<'a>) -> Self {
        Self::new(header, Payload::Cloud(cloud))
    }

    /// Tensors without a pose.
    pub fn tensors(header: Header<'a>, tensors: &'a ReceivedTensors<'a>) -> Self {
        Self::new(header, Payload::Tensors(tensors))
    }

    /// The same input with the pose of its sensor.
    #[must_use]
    pub fn with_pose(self, world_from_sensor: Isometry3<f64>) -> Self {
        Self { pose: Some(Ok(world_from_sensor)), ..self }
    }

    /// `world_from_sensor`, if it is known.
    pub fn world_from_sensor(&self) -> Option<&Isometry3<f64>> {
        self.pose.as_ref().and_then(|pose| pose.as_ref().ok())
    }
}

/// The inputs of one frame, in the order of [`Detector::inputs`](super::Detector::inputs),
/// borrowed from the messages.
///
/// An input is `None` if none of its messages belongs to the frame, which happens only if
/// `sync.min_inputs` allows it.
///
/// ```
/// use det_post_types::{Encoding, Header, ImagePayload, ImageView, Size, Stamp};
/// use det_post::{FrameInput, FrameSet};
///
/// let pixels = [0; 4 * 2];
/// let gray = ImageView::new(Size::new(4, 2), 4, Encoding::Mono8, false, &pixels)?;
/// let header = Header { stamp: Stamp::from_ros(7, 0), frame_id: "camera_front" };
/// let front = Some(FrameInput::image(header, ImagePayload::Raw(gray)));
/// // The rear camera has sent nothing that belongs to this frame.
/// let inputs = [front, None];
/// let frame = FrameSet { stamp: header.stamp, inputs: &inputs, target_pose: None };
/// assert!(frame.image(0).is_ok());
/// assert_eq!(frame.image(1).unwrap_err().message(), "input 1 of 2 is missing from the frame");
/// # Ok::<(), det_post::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrameSet<'a> {
    /// Acquisition time of the frame: that of its reference input.
    pub stamp: Stamp,
    /// The inputs.
    pub inputs: &'a [Option<FrameInput<'a>>],
    /// The transform from the target frame of the detector to the frame
    /// [`TargetFrame::pose_in`] at the stamp, or the reason why it is unknown; `None` if the
    /// detector does not use it.
    pub target_pose: Option<&'a Result<Isometry3<f64>>>,
}

impl<'a> FrameSet<'a> {
    /// A frame with one input.
    pub fn single(input: &'a [Option<FrameInput<'a>>; 1]) -> Self {
        let stamp = input[0].as_ref().map(|input| input.header.stamp);
        Self { stamp: stamp.unwrap_or_default(), inputs: input, target_pose: None }
    }

    /// The frame with the inputs before a place, and with the others.
    pub fn split_at(&self, place: usize) -> (Self, Self) {
        let (before, others) = self.inputs.split_at(place.min(self.inputs.len()));
        (Self { inputs: before, ..*self }, Self { inputs: others, ..*self })
    }

    /// An input.
    ///
    /// # Errors
    /// `Argument` when the frame does not have it.
    pub fn input(&self, index: usize) -> Result<&'a FrameInput<'a>> {
        self.inputs.get(index).and_then(Option::as_ref).ok_or_else(|| {
            let num_inputs = self.inputs.len();
            let message = format!("input {index} of {num_inputs} is missing from the frame");
            Error::new(ErrorKind::Argument, "frame", message)
        })
    }

    /// The image of an input.
    ///
    /// # Errors
    /// `Argument` when the frame does not have it, or it is of another kind.
    pub fn image(&self, index: usize) -> Result<ImagePayload<'a>> {
        match self.input(index)?.payload {
            Payload::Image(image) => Ok(image),
            other => Err(unfit(index, other.name(), "an image")),
        }
    }

    /// The point cloud of an input.
    ///
    /// # Errors
    /// `Argument` when the frame does not have it, or it is of another kind.
    pub fn cloud(&self, index: usize) -> Result<&'a CloudView<'a>> {
        match self.input(index)?.payload {
            Payload::Cloud(cloud) => Ok(cloud),
            other => Err(unfit(index, other.name(), "a point cloud")),
        }
    }

    /// The tensors of an input.
    ///
    /// # Errors
    /// `Argument` when the frame does not have it, or it is of another kind.
    pub fn tensors(&self, index: usize) -> Result<&'a ReceivedTensors<'a>> {
        match self.input(index)?.payload {
            Payload::Tensors(tensors) => Ok(tensors),
            other => Err(unfit(index, other.name(), "a list of tensors")),
        }
    }
}

fn unfit(index: usize, found: &str, wanted: &str) -> Error {
    Error::new(ErrorKind::Argument, "frame", format!("input {index} is {found}, not {wanted}"))
}
