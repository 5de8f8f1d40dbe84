//! The interface of a live node to the ROS graph.
//!
//! A [`Middleware`] joins the graph as one node. It delivers messages, decoded
//! and borrowed, publishes serialized CDR messages, and serves the services of
//! ROS nodes and managed nodes. It is independent of detections.
//!
//! Threads: a middleware has separate threads. It calls a [`Receiver`] for one
//! message after another; a receiver copies what it needs and returns without
//! waiting. It calls the [`Handler`] of services on other threads than those that
//! deliver messages: a transition may take as long as loading networks.
//!
//! Topic and service names are in the form of the node (`/x`, `x`, `~/x`); the
//! middleware expands and remaps them. Every method may be called at any time.

mod received;
mod service;
mod stamp_gaps;
#[cfg(any(feature = "dds", feature = "ros2"))]
mod watchers;

pub use received::{InputKind, Received, deliver};
pub use service::{DescribedType, Request, Response, ServiceKind};
pub use stamp_gaps::StampGaps;
#[cfg(any(feature = "dds", feature = "ros2"))]
pub(crate) use watchers::Watchers;

pub use crate::{Durability, Qos, Reliability};

use crate::{NodeName, Remaps};
use det_post_types::Result;

/// Options that every middleware is opened with.
#[derive(Clone, Debug)]
pub struct MiddlewareOptions {
    /// Name and namespace of the node.
    pub node: NodeName,
    /// Remappings of topics and services.
    pub remaps: Remaps,
}

/// A connection to the ROS graph. Dropping it leaves the graph.
pub trait Middleware: Send {
    /// Its name, such as `dds`, for logs and diagnostics.
    fn name(&self) -> &'static str;

    /// The full name of a topic, expanded and remapped.
    fn resolve(&self, topic: &str) -> String;

    /// Delivers the messages of a topic until the subscription is dropped.
    ///
    /// `receiver` is called with every message in the order of arrival: decoded, or
    /// the reason why it does not decode. Messages that the
    /// middleware drops are reported as [`MiddlewareEvent::Lost`].
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

    /// As [`Middleware::subscribe`]; messages for which `buffers` gives memory are put together
    /// there and delivered by [`MessageMemory::deliver`] in place of `receiver`. A middleware
    /// that gets its messages whole, from a library, passes all of them to `receiver`.
    ///
    /// # Errors
    /// The errors of [`Middleware::subscribe`].
    fn subscribe_into(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
        buffers: Box<dyn MessageBuffers>,
    ) -> Result<Box<dyn Subscription>> {
        drop(buffers);
        self.subscribe(topic, kind, qos, receiver)
    }

    /// Advertises a topic of messages of `type_name` (`package/msg/Type`) until
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

    /// Serves every [`ServiceKind`] under the name of the node for as long as the
    /// middleware is open. A request that does not decode is reported as
    /// [`MiddlewareEvent::Refused`].
    ///
    /// # Errors
    /// `Middleware` when the graph refuses, or services are served already.
    fn serve(&mut self, handler: Handler) -> Result<()>;

    /// Serves a service that no node has by itself under `name` for as long as the middleware is
    /// open.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses, or the type is not known to the middleware.
    fn serve_named(&mut self, kind: ServiceKind, name: &str, handler: Handler) -> Result<()>;

    /// Reports later events of the graph to `watcher`, from any thread.
    fn watch(&mut self, watcher: Watcher);

    /// Full names of the topics of a type that others publish, in order; `None` where the
    /// middleware does not know them.
    fn published_topics(&self, type_name: &str) -> Option<Vec<String>> {
        let _ = type_name;
        None
    }

    /// Whether every message that is lost before it reaches its receiver is reported as
    /// [`MiddlewareEvent::Lost`]. Otherwise their number is unknown, and
    /// [`MiddlewareEvent::Missing`] reports an estimate.
    fn counts_losses(&self) -> bool {
        true
    }
}

/// A subscription to a topic. Dropping it ends the subscription; a call of the
/// receiver that is in progress may end later.
pub trait Subscription: Send {
    /// Number of publishers that are matched now.
    fn num_publishers(&self) -> usize;
}

/// A publisher of a topic.
pub trait Publisher: Send {
    /// Publishes a whole CDR message with its encapsulation header, in little
    /// endian. Does not wait for subscribers.
    ///
    /// # Errors
    /// `Middleware` when the message could not be handed over; it is lost.
    fn publish(&mut self, cdr: &[u8]) -> Result<()>;

    /// Number of subscribers that are matched now. Cheap: called once per frame.
    fn num_subscribers(&self) -> usize;
}

/// Receives the messages of a topic, one call at a time.
pub type Receiver = Box<dyn FnMut(Result<Received<'_>>) + Send>;

/// Gives the memory in which large messages of a topic arrive, so that they are not copied
/// again.
pub trait MessageBuffers: Send {
    /// Memory for a message of `len` bytes, encapsulation header included; `None` where it
    /// has none, and the message goes to the [`Receiver`]. Called on a thread that receives
    /// datagrams: returns at once, and allocates nothing.
    fn buffer(&mut self, len: usize) -> Option<Box<dyn MessageMemory>>;
}

/// Memory for one message, which may be dropped before the message is complete.
pub trait MessageMemory: Send {
    /// The whole CDR message.
    fn bytes(&self) -> &[u8];

    /// The memory to fill.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Delivers the complete message, in turn with the calls of the [`Receiver`] and on their
    /// thread.
    fn deliver(self: Box<Self>);
}

/// Responds to requests, on any thread. The response is of the request's kind.
pub type Handler = Box<dyn Fn(Request) -> Response + Send + Sync>;

/// Receives events, on any thread.
pub type Watcher = Box<dyn Fn(MiddlewareEvent) + Send + Sync>;

/// Events of the graph. Topics are full names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MiddlewareEvent {
    /// A peer on a topic of ours requests or offers an incompatible quality of
    /// service: it is not matched.
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
        /// The type of ours.
        expected: String,
    },
    /// All peers on a topic of ours are compatible again, or the topic is no longer
    /// ours.
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
    /// Messages of a topic were lost before they reached a receiver.
    Lost {
        /// The topic.
        topic: String,
        /// Their number.
        count: u64,
    },
    /// Messages of a topic are missing by the stamps of the others: lost in
    /// transport, or never published.
    Missing {
        /// The topic.
        topic: String,
        /// Their estimated number.
        count: u64,
    },
    /// A request to a service did not decode.
    Refused {
        /// The service.
        service: String,
        /// The reason.
        reason: String,
    },
    /// A part of the middleware failed and does not work until a restart.
    Failed {
        /// The part and the reason.
        reason: String,
    },
}
