//! What lives on the thread of ROS 2.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver as Queue;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures::{FutureExt, Stream, StreamExt};
use r2r::qos::{DurabilityPolicy, ReliabilityPolicy};

use super::native::Native;
use super::services::{Jobs, serve_all};
use super::{Command, SharedWatcher, error, profile};
use crate::error::Result;
use crate::transport::door::{
    DoorEvent, Durability, Handler, InputKind, Qos, Receiver, Reliability, deliver,
};
use crate::types::NodeName;

/// The longest wait for a message; commands and the end wait as long.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// How often the publishers of our inputs are looked up.
const LOOKUP_PERIOD: Duration = Duration::from_secs(1);

/// The node, and what it takes.
pub(super) struct Graph {
    node: r2r::Node,
    inputs: Vec<Input>,
    /// Moves waiting requests on to the thread that answers.
    services: Vec<Box<dyn FnMut()>>,
    jobs: Option<Jobs>,
    watcher: SharedWatcher,
    next_id: u64,
    next_lookup: Instant,
}

/// A subscription.
struct Input {
    id: u64,
    topic: String,
    kind: InputKind,
    qos: Qos,
    /// Hands over what has arrived.
    drain: Box<dyn FnMut()>,
    num_publishers: Arc<AtomicUsize>,
    /// The policy that did not fit at the last look, which has been told.
    mismatch: Option<&'static str>,
}

impl Graph {
    /// Creates the node. r2r panics where ROS cannot be initialised.
    pub(super) fn open(name: &NodeName, watcher: SharedWatcher) -> Result<Self> {
        let create = || {
            let context = r2r::Context::create()?;
            r2r::Node::create(context, name.name(), name.namespace())
        };
        let node = match catch_unwind(AssertUnwindSafe(create)) {
            Ok(Ok(node)) => node,
            Ok(Err(cause)) => {
                return Err(error(format!("cannot create node {}", name.full())).with_source(cause));
            }
            Err(panic) => {
                let reason = panic.downcast_ref::<String>().map_or("unknown", String::as_str);
                return Err(error(format!("cannot initialise ROS: {reason}")));
            }
        };
        Ok(Self {
            node,
            inputs: Vec::new(),
            services: Vec::new(),
            jobs: None,
            watcher,
            next_id: 0,
            next_lookup: Instant::now(),
        })
    }

    /// Waits for messages and requests and passes them on, until told to stop.
    pub(super) fn spin(&mut self, commands: &Queue<Command>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            while let Ok(command) = commands.try_recv() {
                command(self);
            }
            if self.inputs.is_empty() && self.services.is_empty() {
                // With nothing to wait for r2r returns at once.
                std::thread::sleep(MAX_WAIT);
                continue;
            }
            self.node.spin_once(MAX_WAIT);
            self.inputs.iter_mut().for_each(|input| (input.drain)());
            self.services.iter_mut().for_each(|pass_on| pass_on());
            if Instant::now() >= self.next_lookup {
                self.next_lookup = Instant::now() + LOOKUP_PERIOD;
                self.look_up_publishers();
            }
        }
    }

    pub(super) fn subscribe(
        &mut self,
        topic: String,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
        num_publishers: Arc<AtomicUsize>,
    ) -> Result<u64> {
        let drain = self.open_input(&topic, kind, qos, receiver).map_err(|cause| {
            error(format!("cannot subscribe to {topic} as {}", kind.type_name())).with_source(cause)
        })?;
        let id = self.next_id;
        self.next_id += 1;
        let mismatch = None;
        self.inputs.push(Input { id, topic, kind, qos, drain, num_publishers, mismatch });
        self.next_lookup = Instant::now();
        Ok(id)
    }

    fn open_input(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
    ) -> r2r::Result<Box<dyn FnMut()>> {
        use r2r::sensor_msgs::msg::{CompressedImage, Image, PointCloud2};
        let (node, qos) = (&mut self.node, profile(qos));
        Ok(match kind {
            InputKind::Image => lend(node.subscribe_native::<Image>(topic, qos)?, receiver),
            InputKind::CompressedImage => {
                lend(node.subscribe_native::<CompressedImage>(topic, qos)?, receiver)
            }
            InputKind::PointCloud2 => {
                lend(node.subscribe_native::<PointCloud2>(topic, qos)?, receiver)
            }
            InputKind::CameraInfo | InputKind::Transforms { .. } | InputKind::Clock => {
                let stream = node.subscribe_raw(topic, kind.type_name(), qos)?;
                decode(stream, kind, receiver)
            }
        })
    }

    pub(super) fn unsubscribe(&mut self, id: u64) {
        self.inputs.retain(|input| input.id != id);
    }

    pub(super) fn advertise(
        &mut self,
        topic: &str,
        type_name: &str,
        qos: r2r::QosProfile,
    ) -> Result<r2r::PublisherUntyped> {
        self.node.create_publisher_untyped(topic, type_name, qos).map_err(|cause| {
            let package = type_name.split('/').next().unwrap_or(type_name);
            let message = format!(
                "cannot publish {type_name} on {topic}; if {package} was not installed when \
                 det_post was built, build it again with it"
            );
            error(message).with_source(cause)
        })
    }

    pub(super) fn withdraw(&mut self, publisher: r2r::PublisherUntyped) {
        self.node.destroy_publisher_untyped(publisher);
    }

    pub(super) fn serve(&mut self, handler: Handler, watcher: SharedWatcher) -> Result<()> {
        if self.jobs.is_some() {
            return Err(error("services are served already"));
        }
        let jobs = Jobs::start(handler, watcher)?;
        self.services = serve_all(&mut self.node, &jobs)
            .map_err(|cause| error("cannot serve the node's services").with_source(cause))?;
        self.jobs = Some(jobs);
        Ok(())
    }

    /// Counts the publishers of each input and tells of changes.
    fn look_up_publishers(&mut self) {
        let mut events = Vec::new();
        for input in &mut self.inputs {
            let Ok(publishers) = self.node.get_publishers_info_by_topic(&input.topic, false) else {
                continue;
            };
            let topic = || input.topic.clone();
            let type_name = input.kind.type_name();
            let (ours, others): (Vec<_>, Vec<_>) =
                publishers.iter().partition(|publisher| publisher.topic_type == type_name);
            let before = input.num_publishers.swap(ours.len(), Ordering::Relaxed);
            if ours.len() > before {
                events.push(DoorEvent::PeerFound { topic: topic() });
                events.extend(others.iter().map(|publisher| DoorEvent::IncompatibleType {
                    topic: topic(),
                    found: publisher.topic_type.clone(),
                }));
            } else if ours.len() < before {
                events.push(DoorEvent::PeerGone { topic: topic() });
            }
            let mismatch =
                ours.iter().find_map(|publisher| unfit(input.qos, &publisher.qos_profile));
            if let Some(policy) = mismatch.filter(|_| input.mismatch != mismatch) {
                events.push(DoorEvent::IncompatibleQos { topic: topic(), policy: policy.into() });
            }
            input.mismatch = mismatch;
        }
        if let Some(watcher) = &*self.watcher.lock().unwrap_or_else(PoisonError::into_inner) {
            events.into_iter().for_each(watcher);
        }
    }
}

/// The policy of a publisher that offers less than is asked for.
fn unfit(asked: Qos, offered: &r2r::QosProfile) -> Option<&'static str> {
    let reliability = asked.reliability == Reliability::Reliable
        && matches!(offered.reliability, ReliabilityPolicy::BestEffort);
    let durability = asked.durability == Durability::TransientLocal
        && matches!(offered.durability, DurabilityPolicy::Volatile);
    match (reliability, durability) {
        (true, _) => Some("reliability"),
        (_, true) => Some("durability"),
        _ => None,
    }
}

/// Lends native messages to their receiver.
fn lend<T: Native + 'static>(
    mut stream: impl Stream<Item = r2r::NativeMsg<T>> + Unpin + 'static,
    mut receiver: Receiver,
) -> Box<dyn FnMut()> {
    Box::new(move || {
        while let Some(Some(message)) = stream.next().now_or_never() {
            T::lend(&message, &mut receiver);
        }
    })
}

/// Decodes serialised messages for their receiver.
fn decode(
    mut stream: impl Stream<Item = Vec<u8>> + Unpin + 'static,
    kind: InputKind,
    mut receiver: Receiver,
) -> Box<dyn FnMut()> {
    Box::new(move || {
        while let Some(Some(cdr)) = stream.next().now_or_never() {
            deliver(kind, &cdr, &mut receiver);
        }
    })
}
