//! What a live node asks of its way into the ROS graph.
//!
//! A [`Middleware`] joins the graph as one node. It brings messages in, decoded and
//! borrowed; it takes finished CDR messages out; it serves the services that
//! every ROS node or managed node has. It knows nothing of detections.
//!
//! Threads: a middleware has its own. It calls a [`Receiver`] for one message after
//! the other; a receiver copies what it wants and returns, it never waits. It
//! calls the [`Handler`] of services off the threads that deliver messages,
//! for a change of state may take as long as loading networks.
//!
//! Topic and service names are as the node says them (`/x`, `x`, `~/x`); the
//! middleware expands and remaps them. Every method may be called at any time.

mod service;
mod stamp_gaps;
mod watchers;

pub use service::{Request, Response, ServiceKind};
pub use stamp_gaps::StampGaps;
pub(in crate::transport) use watchers::Watchers;

pub use crate::ros::{Durability, Qos, Reliability};

use crate::error::Result;
use crate::ros::{NodeName, Remaps};
use crate::transport::cdr::Reader;
use crate::transport::messages::{
    CameraInfo, CompressedImage, Image, PointCloud2, TfMessage, TransformStamped,
};
use crate::types::{CloudView, Header, ImagePayload, Stamp};

/// Who the node is in the graph: what every middleware is opened with.
#[derive(Clone, Debug)]
pub struct MiddlewareOptions {
    /// Name and namespace.
    pub node: NodeName,
    /// Other names for topics and services.
    pub remaps: Remaps,
}

/// A way into the ROS graph. Dropping it leaves the graph.
pub trait Middleware: Send {
    /// Name of the kind of middleware, such as `dds`, for logs and diagnostics.
    fn name(&self) -> &'static str;

    /// The full name of a topic once it is expanded and remapped.
    fn resolve(&self, topic: &str) -> String;

    /// Brings in the messages of a topic until the subscription is dropped.
    ///
    /// `receiver` gets every message, in the order of arrival: decoded where
    /// that is possible, else the reason why not. Messages the middleware itself has
    /// to drop are told as [`MiddlewareEvent::Lost`].
    ///
    /// # Errors
    /// `Middleware` when the graph refuses.
    fn subscribe(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
    ) -> Result<Box<dyn Subscription>>;

    /// Announces a topic of messages of `type_name` (`package/msg/Type`) until
    /// the publisher is dropped.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses, or the type is not known to the middleware.
    fn advertise(
        &mut self,
        topic: &str,
        type_name: &'static str,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>>;

    /// Serves every [`ServiceKind`] under the node's name for as long as the
    /// middleware is open. A request that does not decode is answered by the middleware as
    /// its middleware does, and told as [`MiddlewareEvent::Refused`].
    ///
    /// # Errors
    /// `Middleware` when the graph refuses, or services are served already.
    fn serve(&mut self, handler: Handler) -> Result<()>;

    /// Tells what happens in the graph from now on, from any thread.
    fn watch(&mut self, watcher: Watcher);

    /// Whether every message that is lost before its receiver is reported as
    /// [`MiddlewareEvent::Lost`]. Otherwise their number is unknown, and
    /// [`MiddlewareEvent::Missing`] reports an estimate.
    fn counts_losses(&self) -> bool {
        true
    }
}

/// A topic that is being received. Dropping it ends the subscription; a call of
/// the receiver that is under way may still end after that.
pub trait Subscription: Send {
    /// Publishers that are matched now.
    fn num_publishers(&self) -> usize;
}

/// A topic that is being published.
pub trait Publisher: Send {
    /// Sends a whole CDR message, encapsulation header included, in little
    /// endian. Never waits for a subscriber.
    ///
    /// # Errors
    /// `Middleware` when the message could not be handed over; it is lost.
    fn publish(&mut self, cdr: &[u8]) -> Result<()>;

    /// Subscribers that are matched now. Cheap: asked once a frame.
    fn num_subscribers(&self) -> usize;
}

/// Takes what arrives on a topic. One call at a time.
pub type Receiver = Box<dyn FnMut(Result<Received<'_>>) + Send>;

/// Answers requests, from any thread. The response is that of the request's
/// kind.
pub type Handler = Box<dyn Fn(Request) -> Response + Send + Sync>;

/// Is told of events, from any thread.
pub type Watcher = Box<dyn Fn(MiddlewareEvent) + Send + Sync>;

/// What may be subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// `sensor_msgs/Image`.
    Image,
    /// `sensor_msgs/CompressedImage`.
    CompressedImage,
    /// `sensor_msgs/PointCloud2`.
    PointCloud2,
    /// `sensor_msgs/CameraInfo`.
    CameraInfo,
    /// `tf2_msgs/TFMessage`.
    Transforms {
        /// Whether the transforms hold for all time (`/tf_static`).
        is_static: bool,
    },
    /// `rosgraph_msgs/Clock`.
    Clock,
}

impl InputKind {
    /// The ROS name of the messages.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Image => Image::TYPE,
            Self::CompressedImage => CompressedImage::TYPE,
            Self::PointCloud2 => PointCloud2::TYPE,
            Self::CameraInfo => CameraInfo::TYPE,
            Self::Transforms { .. } => TfMessage::TYPE,
            Self::Clock => "rosgraph_msgs/msg/Clock",
        }
    }
}

/// A message that arrived, borrowed from the middleware for the length of the call.
#[derive(Clone, Copy, Debug)]
pub enum Received<'a> {
    /// Of `Image` and `CompressedImage`.
    Picture {
        /// Time and frame.
        header: Header<'a>,
        /// Pixels, or a file.
        payload: ImagePayload<'a>,
    },
    /// Of `PointCloud2`.
    Cloud {
        /// Time and frame.
        header: Header<'a>,
        /// The points.
        view: &'a CloudView<'a>,
    },
    /// Of `CameraInfo`.
    CameraInfo(&'a CameraInfo<'a>),
    /// One of the transforms of a `TFMessage`, which gives as many calls as it
    /// has transforms.
    Transform {
        /// The transform, unchecked.
        transform: TransformStamped<'a>,
        /// Whether it holds for all time.
        is_static: bool,
    },
    /// Of `Clock`.
    Clock(Stamp),
}

impl Received<'_> {
    /// The stamp of a message that has one header.
    pub fn stamp(&self) -> Option<Stamp> {
        match self {
            Self::Picture { header, .. } | Self::Cloud { header, .. } => Some(header.stamp),
            Self::CameraInfo(info) => Some(info.header.stamp),
            Self::Transform { .. } | Self::Clock(_) => None,
        }
    }
}

/// Decodes a whole CDR message of a kind and hands it to the receiver: the
/// messages of middlewares that get bytes.
pub fn deliver(kind: InputKind, cdr: &[u8], receiver: &mut dyn FnMut(Result<Received<'_>>)) {
    let message = Reader::new(kind.type_name(), cdr);
    if let Err(error) = message.and_then(|message| read(kind, message, receiver)) {
        receiver(Err(error));
    }
}

/// As [`deliver`], of a message whose encapsulation header was read already.
pub fn deliver_body(
    kind: InputKind,
    body: &[u8],
    big_endian: bool,
    receiver: &mut dyn FnMut(Result<Received<'_>>),
) {
    let message = Reader::of_body(kind.type_name(), body, big_endian);
    if let Err(error) = read(kind, message, receiver) {
        receiver(Err(error));
    }
}

fn read(
    kind: InputKind,
    mut message: Reader<'_>,
    receiver: &mut dyn FnMut(Result<Received<'_>>),
) -> Result<()> {
    match kind {
        InputKind::Image => {
            let image = Image::read(message)?;
            let payload = ImagePayload::Raw(image.view()?);
            receiver(Ok(Received::Picture { header: image.header, payload }));
        }
        InputKind::CompressedImage => {
            let file = CompressedImage::read(message)?;
            let payload = ImagePayload::Compressed(file.view()?);
            receiver(Ok(Received::Picture { header: file.header, payload }));
        }
        InputKind::PointCloud2 => {
            let cloud = PointCloud2::read(message)?;
            receiver(Ok(Received::Cloud { header: cloud.header, view: &cloud.view()? }));
        }
        InputKind::CameraInfo => receiver(Ok(Received::CameraInfo(&CameraInfo::read(message)?))),
        InputKind::Transforms { is_static } => {
            for transform in TfMessage::read(message)?.transforms {
                receiver(Ok(Received::Transform { transform: transform?, is_static }));
            }
        }
        InputKind::Clock => {
            let stamp = Stamp::from_ros(message.i32()?, message.u32()?);
            receiver(Ok(Received::Clock(stamp)));
        }
    }
    Ok(())
}

/// What happens in the graph. Topics are full names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MiddlewareEvent {
    /// A peer on a topic of ours asks for or offers another quality of service,
    /// so that nothing flows between the two.
    IncompatibleQos {
        /// The topic.
        topic: String,
        /// The policy, as ROS names it, such as `reliability`.
        policy: String,
    },
    /// A peer uses a topic of ours with another type.
    IncompatibleType {
        /// The topic.
        topic: String,
        /// Its type.
        found: String,
    },
    /// No peer on a topic of ours has another quality of service or type any
    /// more, or the topic is ours no more.
    Compatible {
        /// The topic.
        topic: String,
    },
    /// A publisher or subscriber has joined a topic of ours.
    PeerFound {
        /// The topic.
        topic: String,
    },
    /// A publisher or subscriber has left a topic of ours.
    PeerGone {
        /// The topic.
        topic: String,
    },
    /// Messages of a topic were lost before a receiver could see them.
    Lost {
        /// The topic.
        topic: String,
        /// How many.
        count: u64,
    },
    /// Messages of a topic are missing by the stamps of the others: lost on the
    /// way, or never published.
    Missing {
        /// The topic.
        topic: String,
        /// How many, estimated.
        count: u64,
    },
    /// A request to a service did not decode.
    Refused {
        /// The service.
        service: String,
        /// Why.
        reason: String,
    },
    /// A part of the middleware failed and is lost until a restart.
    Failed {
        /// What, and why.
        reason: String,
    },
}
