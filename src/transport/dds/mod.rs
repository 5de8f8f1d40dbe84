//! The door of a ROS 2 graph without ROS: a DDS participant in pure Rust.
//!
//! [`DdsDoor`] joins the domain that ROS's environment names and speaks as one
//! ROS node: names of topics, types and services as ROS mangles them, QoS of
//! ROS, `ros_discovery_info` for `ros2 node`, and services as CycloneDDS and
//! Fast DDS call them.
//!
//! A message is decoded while it lies in the participant's cache, on the
//! subscription's own thread, so that the receiver's copy is the only one after
//! the fragments are joined. Until the receiver returns, later messages of the
//! same topic wait for the cache.
//!
//! Memory: a subscription keeps its depth of messages, and up to 64 MiB of
//! fragments of unfinished messages; a reliable publisher keeps at most
//! [`MAX_KEPT_BYTES`] of what it sent. What a hostile peer can make the
//! participant keep is bounded by the copy of `rustdds` in `third_party/`.
//!
//! Not here: DDS security, static peers, shared memory, and multicast groups
//! other than discovery's. Endpoints match by topic; a peer of another type is
//! told of, and what it sends is refused where it does not decode.

mod announcement;
mod answers;
mod clock;
mod environment;
mod leaving;
mod names;
mod payload;
mod peers;
mod publisher;
mod qos;
mod service;
mod subscription;
mod threads;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustdds::{DomainParticipant, GUID, QosPolicies, StatusEvented, Topic, TopicKind};

pub use environment::{DdsSettings, DiscoveryRange};
pub use publisher::MAX_KEPT_BYTES;

use crate::error::{Error, ErrorKind, Result};
use crate::transport::door::{
    Door, DoorEvent, DoorOptions, Handler, InputKind, Publisher, Qos, Receiver, ServiceKind,
    Subscription, Watcher,
};
use announcement::{Announcement, Direction};
use clock::ClockWatch;
use leaving::Leaving;
use peers::{Endpoint, Peers};
use threads::{Stop, Threads};

const STAGE: &str = "dds";

/// A node in the ROS 2 graph over DDS.
pub struct DdsDoor {
    options: DoorOptions,
    /// Of subscriptions and services. Before the graph, which they share: the
    /// participant leaves once they have ended.
    threads: Threads,
    /// Notices who comes and goes, to the end: services ask for that.
    noticing: Threads,
    graph: Arc<Graph>,
    serves: bool,
}

/// Our place in the graph: what all endpoints share.
struct Graph {
    publisher: rustdds::Publisher,
    subscriber: rustdds::Subscriber,
    announcement: Mutex<Announcement>,
    peers: Mutex<Peers>,
    watchers: Mutex<Vec<Watcher>>,
    leaving: Mutex<Vec<Leaving>>,
    /// Last, so that the endpoints are gone when the participant leaves.
    participant: DomainParticipant,
}

impl DdsDoor {
    /// Joins the graph.
    ///
    /// # Errors
    /// `Door` when no participant can be started.
    pub fn open(options: DoorOptions, settings: &DdsSettings) -> Result<Self> {
        environment::warn_of_limits();
        let participant = settings.participant()?;
        let none = QosPolicies::qos_none();
        let refused = |cause| error("cannot read or write").with_source(cause);
        let publisher = participant.create_publisher(&none).map_err(refused)?;
        let subscriber = participant.create_subscriber(&none).map_err(refused)?;
        let announcement =
            Announcement::new(&participant, &publisher, options.node.clone(), settings.gid_len)?;
        let graph = Arc::new(Graph {
            publisher,
            subscriber,
            announcement: Mutex::new(announcement),
            peers: Mutex::default(),
            watchers: Mutex::default(),
            leaving: Mutex::default(),
            participant,
        });
        let mut noticing = Threads::default();
        let noticed = Arc::clone(&graph);
        noticing.spawn("dds graph", &graph, move |stop| noticed.notice(stop))?;
        Ok(Self { options, threads: Threads::default(), noticing, graph, serves: false })
    }
}

impl Door for DdsDoor {
    fn name(&self) -> &'static str {
        "dds"
    }

    fn resolve(&self, topic: &str) -> String {
        self.options.remaps.resolve(&self.options.node, topic)
    }

    fn subscribe(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
    ) -> Result<Box<dyn Subscription>> {
        let topic = self.resolve(topic);
        let subscription =
            subscription::start(&self.graph, &mut self.threads, topic, kind, qos, receiver)?;
        Ok(Box::new(subscription))
    }

    fn advertise(
        &mut self,
        topic: &str,
        type_name: &'static str,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        let topic = self.resolve(topic);
        Ok(Box::new(publisher::DdsPublisher::new(&self.graph, topic, type_name, qos)?))
    }

    fn serve(&mut self, handler: Handler) -> Result<()> {
        if self.serves {
            return Err(error("services are served already"));
        }
        let handler = Arc::new(handler);
        // A change of state may take as long as loading networks: the others are
        // answered meanwhile.
        let (changing, quick): (Vec<_>, Vec<_>) =
            ServiceKind::ALL.into_iter().partition(|kind| *kind == ServiceKind::ChangeState);
        for (name, kinds) in [("dds services", quick), ("dds state", changing)] {
            let named = kinds.into_iter().map(|kind| {
                (
                    kind,
                    self.options.remaps.resolve(&self.options.node, &format!("~/{}", kind.name())),
                )
            });
            service::start(&self.graph, &mut self.threads, name, named, &handler)?;
        }
        self.serves = true;
        Ok(())
    }

    fn watch(&mut self, watcher: Watcher) {
        held(&self.graph.watchers).push(watcher);
    }
}

impl Drop for DdsDoor {
    fn drop(&mut self) {
        // Services hand over their writers as they end.
        self.threads.end();
        self.graph.await_leaving();
        self.noticing.end();
    }
}

impl Graph {
    /// Notices what happens until it is stopped.
    fn notice(&self, stop: &Stop) {
        let statuses = self.participant.status_listener();
        let mut clock = ClockWatch::new();
        while !stop.is_due() {
            while let Some(status) = statuses.try_recv_status() {
                let events = held(&self.peers).notice(status);
                events.iter().for_each(|event| self.tell(event));
            }
            if let Some(back) = clock.look() {
                let reason = format!(
                    "the system's clock was set back by {back:.1?}: best-effort topics are \
                     silent for as long, or until a restart"
                );
                self.tell(&DoorEvent::Failed { reason });
            }
            self.let_go();
            stop.wait();
        }
    }

    /// Adds an endpoint made by `create`, which is given its topic, to the
    /// graph.
    fn join<E: rustdds::RTPSEntity>(
        &self,
        endpoint: Endpoint,
        qos: &QosPolicies,
        direction: Direction,
        create: impl FnOnce(&Topic) -> std::result::Result<E, rustdds::dds::result::CreateError>,
    ) -> Result<(E, Arc<Endpoint>)> {
        let endpoint = Arc::new(endpoint);
        let topic = self.topic(&endpoint, qos)?;
        // Peers may match from here on, and are noticed once the endpoint is known.
        let mut peers = held(&self.peers);
        let entity = create(&topic).map_err(|cause| refused(&endpoint.topic, cause))?;
        peers.add(entity.guid(), Arc::clone(&endpoint));
        drop(peers);
        held(&self.announcement).add(entity.guid(), direction)?;
        Ok((entity, endpoint))
    }

    fn topic(&self, endpoint: &Endpoint, qos: &QosPolicies) -> Result<Topic> {
        let (name, dds_type) = (endpoint.dds_topic.clone(), endpoint.dds_type.clone());
        self.participant
            .create_topic(name, dds_type, qos, TopicKind::NoKey)
            .map_err(|cause| refused(&endpoint.topic, cause))
    }

    /// Forgets an endpoint that is no more.
    fn leave(&self, guid: GUID) {
        let settled = held(&self.peers).remove(guid);
        settled.iter().for_each(|event| self.tell(event));
        if let Err(error) = held(&self.announcement).remove(guid) {
            self.tell(&DoorEvent::Failed { reason: error.to_string() });
        }
    }

    fn tell(&self, event: &DoorEvent) {
        held(&self.watchers).iter().for_each(|watcher| watcher(event.clone()));
    }
}

fn refused(topic: &str, cause: rustdds::dds::result::CreateError) -> Error {
    error(format!("cannot join {topic}")).with_source(cause)
}

fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Door, STAGE, message)
}

/// Locks for good: nothing here can be left half done by a panic.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
