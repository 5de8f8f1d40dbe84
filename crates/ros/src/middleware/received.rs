//! The messages that a node subscribes to, decoded and borrowed.

use crate::cdr::Reader;
use crate::messages::{
    BondStatus, CameraInfo, Clock, CompressedImage, Image, MotionType, PointCloud2, TensorList,
    TfMessage, TransformStamped, VehicleMotion, read_header,
};
use crate::packed_cloud::PackedCloud;
use crate::video::{VideoMessage, names_video};
use det_post_types::{CloudView, Header, ImagePayload, ReceivedTensors, Result, Stamp};

/// The messages that a node subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// `sensor_msgs/Image`.
    Image,
    /// `sensor_msgs/CompressedImage`.
    CompressedImage,
    /// `sensor_msgs/PointCloud2`.
    PointCloud2,
    /// A cloud that is no `PointCloud2` on the wire.
    PackedCloud(PackedCloud),
    /// Messages that are packets of video and nothing else.
    Video(VideoMessage),
    /// `isaac_ros_tensor_list_interfaces/TensorList`.
    TensorList,
    /// `sensor_msgs/CameraInfo`.
    CameraInfo,
    /// `tf2_msgs/TFMessage`.
    Transforms {
        /// Whether the transforms hold for all time (`/tf_static`).
        is_static: bool,
    },
    /// A message of the vehicle's motion.
    Motion(MotionType),
    /// `rosgraph_msgs/Clock`.
    Clock,
    /// `bond/Status`.
    Bond,
}

impl InputKind {
    /// The messages of clouds.
    pub const CLOUDS: [Self; 5] = [
        Self::PointCloud2,
        Self::PackedCloud(PackedCloud::Compressed),
        Self::PackedCloud(PackedCloud::LivoxDriver2),
        Self::PackedCloud(PackedCloud::LivoxDriver),
        Self::PackedCloud(PackedCloud::LivoxInterfaces),
    ];

    /// The messages of images.
    pub const IMAGES: [Self; 4] = [
        Self::Image,
        Self::CompressedImage,
        Self::Video(VideoMessage::Foxglove),
        Self::Video(VideoMessage::Ffmpeg),
    ];

    /// Whether messages of this ROS name are images.
    pub fn is_image(type_name: &str) -> bool {
        Self::IMAGES.iter().any(|kind| kind.type_name() == type_name)
    }

    /// How a CDR message of this kind carries a packet of video; `None` where it carries none.
    pub fn video_in(self, cdr: &[u8]) -> Option<VideoMessage> {
        let reader = || Reader::new(self.type_name(), cdr);
        match self {
            Self::Video(message) => Some(message),
            Self::Image => {
                let image = reader().and_then(Image::read).ok()?;
                names_video(image.encoding).then_some(VideoMessage::Image)
            }
            Self::CompressedImage => {
                let file = reader().and_then(CompressedImage::read).ok()?;
                names_video(file.format).then_some(VideoMessage::CompressedImage)
            }
            _ => None,
        }
    }

    /// Whether messages of this ROS name are clouds.
    pub fn is_cloud(type_name: &str) -> bool {
        Self::CLOUDS.iter().any(|kind| kind.type_name() == type_name)
    }

    /// The ROS name of the messages.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Image => Image::TYPE,
            Self::CompressedImage => CompressedImage::TYPE,
            Self::PointCloud2 => PointCloud2::TYPE,
            Self::PackedCloud(packed) => packed.type_name(),
            Self::Video(message) => message.type_name(),
            Self::TensorList => TensorList::TYPE,
            Self::CameraInfo => CameraInfo::TYPE,
            Self::Transforms { .. } => TfMessage::TYPE,
            Self::Motion(of) => of.type_name(),
            Self::Clock => Clock::TYPE,
            Self::Bond => BondStatus::TYPE,
        }
    }
}

/// A message that arrived, borrowed from the middleware for the duration of the call.
#[derive(Clone, Copy, Debug)]
pub enum Received<'a> {
    /// Of `Image` and `CompressedImage`.
    Image {
        /// Stamp and frame.
        header: Header<'a>,
        /// Pixels, or a compressed file.
        payload: ImagePayload<'a>,
    },
    /// Of `PointCloud2`.
    Cloud {
        /// Stamp and frame.
        header: Header<'a>,
        /// The points.
        view: &'a CloudView<'a>,
    },
    /// Of `PackedCloud`, to be unpacked by [`Unpacker`](crate::packed_cloud::Unpacker).
    Packed {
        /// Stamp and frame.
        header: Header<'a>,
        /// The whole message.
        cdr: &'a [u8],
    },
    /// Of `Video`, and of `Image` and `CompressedImage` that name a codec of video: to be decoded by
    /// [`VideoDecoder`](crate::video::VideoDecoder) in the order of the messages.
    Video {
        /// Stamp and frame.
        header: Header<'a>,
        /// How the message carries its packet.
        message: VideoMessage,
        /// The whole message.
        cdr: &'a [u8],
    },
    /// Of `TensorList`.
    Tensors {
        /// Stamp and frame.
        header: Header<'a>,
        /// The tensors.
        tensors: &'a ReceivedTensors<'a>,
    },
    /// Of `CameraInfo`.
    CameraInfo(&'a CameraInfo<'a>),
    /// A transform of a `TFMessage`; each transform is a separate call.
    Transform {
        /// The transform, unchecked.
        transform: TransformStamped<'a>,
        /// Whether it holds for all time.
        is_static: bool,
    },
    /// Of `Motion`.
    Motion(VehicleMotion<'a>),
    /// Of `Clock`.
    Clock(Stamp),
    /// Of `Bond`.
    Bond(BondStatus<'a>),
}

impl Received<'_> {
    /// The stamp of a message that has one header.
    pub fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::Image { header, .. }
            | Self::Cloud { header, .. }
            | Self::Packed { header, .. }
            | Self::Video { header, .. }
            | Self::Tensors { header, .. } => Some(header.stamp),
            Self::CameraInfo(info) => Some(info.header.stamp),
            Self::Motion(motion) => Some(motion.header.stamp),
            Self::Transform { .. } | Self::Clock(_) | Self::Bond(_) => None,
        }
    }
}

/// Decodes a whole CDR message of a kind and passes it to the receiver.
pub fn deliver(kind: InputKind, cdr: &[u8], receiver: &mut dyn FnMut(Result<Received<'_>>)) {
    let message = Reader::new(kind.type_name(), cdr);
    if let Err(error) = message.and_then(|message| read(kind, message, cdr, receiver)) {
        receiver(Err(error));
    }
}

fn read(
    kind: InputKind,
    mut message: Reader<'_>,
    cdr: &[u8],
    receiver: &mut dyn FnMut(Result<Received<'_>>),
) -> Result<()> {
    match kind {
        InputKind::Image => {
            let image = Image::read(message)?;
            if names_video(image.encoding) {
                let (header, message) = (image.header, VideoMessage::Image);
                receiver(Ok(Received::Video { header, message, cdr }));
                return Ok(());
            }
            let payload = ImagePayload::Raw(image.view()?);
            receiver(Ok(Received::Image { header: image.header, payload }));
        }
        InputKind::CompressedImage => {
            let file = CompressedImage::read(message)?;
            if names_video(file.format) {
                let (header, message) = (file.header, VideoMessage::CompressedImage);
                receiver(Ok(Received::Video { header, message, cdr }));
                return Ok(());
            }
            let payload = ImagePayload::Compressed(file.view()?);
            receiver(Ok(Received::Image { header: file.header, payload }));
        }
        InputKind::PointCloud2 => {
            let cloud = PointCloud2::read(message)?;
            receiver(Ok(Received::Cloud { header: cloud.header, view: &cloud.view()? }));
        }
        InputKind::PackedCloud(_) => {
            receiver(Ok(Received::Packed { header: read_header(&mut message)?, cdr }));
        }
        InputKind::Video(carrier) => {
            let header = read_header(&mut message)?;
            receiver(Ok(Received::Video { header, message: carrier, cdr }));
        }
        InputKind::TensorList => {
            let list = TensorList::read(message)?;
            receiver(Ok(Received::Tensors { header: list.header, tensors: &list.tensors }));
        }
        InputKind::CameraInfo => receiver(Ok(Received::CameraInfo(&CameraInfo::read(message)?))),
        InputKind::Transforms { is_static } => {
            for transform in TfMessage::read(message)?.transforms {
                receiver(Ok(Received::Transform { transform: transform?, is_static }));
            }
        }
        InputKind::Motion(of) => receiver(Ok(Received::Motion(of.read(message)?))),
        InputKind::Clock => {
            receiver(Ok(Received::Clock(Clock::read(message)?.clock)));
        }
        InputKind::Bond => receiver(Ok(Received::Bond(BondStatus::read(message)?))),
    }
    Ok(())
}
