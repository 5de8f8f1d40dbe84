//! What all endpoints of the middleware share: the participant, the matched
//! peers and the announcement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustdds::dds::result::CreateError;
use rustdds::{DomainParticipant, GUID, QosPolicies, RTPSEntity, StatusEvented, Topic, TopicKind};

use super::announcement::{Announcement, Direction};
use super::clock::ClockWatch;
use super::environment::DdsSettings;
use super::error::{cannot_join, error};
use super::payload::RawWriter;
use super::peers::{Endpoint, Peers};
use super::retired::RetiredWriter;
use super::threads::Stop;
use crate::NodeName;
use crate::middleware::{MiddlewareEvent, Watchers};
use det_post_types::Result;

/// How often a middleware that closes checks its retired writers.
const RETIRED_POLL: Duration = Duration::from_millis(2);

/// Our place in the graph: what all endpoints share.
pub(super) struct Graph {
    pub(super) publisher: rustdds::Publisher,
    pub(super) subscriber: rustdds::Subscriber,
    pub(super) watchers: Watchers,
    announcement: Mutex<Announcement>,
    peers: Mutex<Peers>,
    retired: Mutex<Vec<RetiredWriter>>,
    /// Last, so that the endpoints are dropped before the participant.
    participant: DomainParticipant,
}

impl Graph {
    /// Joins the graph as `node`.
    pub(super) fn join(node: NodeName, settings: &DdsSettings) -> Result<Self> {
        let participant = settings.participant()?;
        let none = QosPolicies::qos_none();
        let refused = |cause| error("cannot create publisher and subscriber").with_source(cause);
        let publisher = participant.create_publisher(&none).map_err(refused)?;
        let subscriber = participant.create_subscriber(&none).map_err(refused)?;
        let announcement = Announcement::new(&participant, &publisher, node, settings.gid_len)?;
        Ok(Self {
            publisher,
            subscriber,
            watchers: Watchers::default(),
            announcement: Mutex::new(announcement),
            peers: Mutex::default(),
            retired: Mutex::default(),
            participant,
        })
    }

    /// Follows discovery, the system's clock and the retired writers until
    /// `stop`.
    pub(super) fn observe(&self, stop: &Stop) {
        let statuses = self.participant.status_listener();
        let mut clock = ClockWatch::new();
        while !stop.is_due() {
            while let Some(status) = statuses.try_recv_status() {
                let events = self.peers().update(status);
                events.iter().for_each(|event| self.watchers.report(event));
            }
            if let Some(back) = clock.check() {
                let reason = format!(
                    "the system's clock was set back by {back:.1?}: best-effort topics are \
                     silent for as long, or until a restart"
                );
                self.watchers.report(&MiddlewareEvent::Failed { reason });
            }
            self.drop_drained();
            stop.wait();
        }
    }

    /// Adds an endpoint to the graph. `create` makes it from its topic.
    pub(super) fn add<E: RTPSEntity>(
        &self,
        endpoint: Endpoint,
        qos: &QosPolicies,
        direction: Direction,
        create: impl FnOnce(&Topic) -> std::result::Result<E, CreateError>,
    ) -> Result<(E, Arc<Endpoint>)> {
        let endpoint = Arc::new(endpoint);
        let topic = self.topic(&endpoint, qos)?;
        // Peers may match as soon as the entity exists; the lock holds their
        // events back until the endpoint is registered.
        let mut peers = self.peers();
        let entity = create(&topic).map_err(|cause| cannot_join(&endpoint.topic, cause))?;
        peers.add(entity.guid(), Arc::clone(&endpoint));
        drop(peers);
        lock(&self.announcement).add(entity.guid(), direction)?;
        Ok((entity, endpoint))
    }

    fn topic(&self, endpoint: &Endpoint, qos: &QosPolicies) -> Result<Topic> {
        let (name, dds_type) = (endpoint.dds_topic.clone(), endpoint.dds_type.clone());
        self.participant
            .create_topic(name, dds_type, qos, TopicKind::NoKey)
            .map_err(|cause| cannot_join(&endpoint.topic, cause))
    }

    /// Removes an endpoint from the graph.
    pub(super) fn remove(&self, guid: GUID) {
        let settled = self.peers().remove(guid);
        settled.iter().for_each(|event| self.watchers.report(event));
        if let Err(error) = lock(&self.announcement).remove(guid) {
            self.watchers.report(&MiddlewareEvent::Failed { reason: error.to_string() });
        }
    }

    /// The endpoints and the peers that are matched with them.
    pub(super) fn peers(&self) -> MutexGuard<'_, Peers> {
        lock(&self.peers)
    }

    /// Removes a writer once its readers have confirmed what it sent.
    pub(super) fn retire(&self, writer: RawWriter) {
        lock(&self.retired).push(RetiredWriter::new(writer));
        self.drop_drained();
    }

    /// Drops the retired writers that are drained. Returns whether others
    /// remain.
    fn drop_drained(&self) -> bool {
        let now = Instant::now();
        let mut retired = lock(&self.retired);
        let drained: Vec<_> = retired.extract_if(.., |writer| writer.is_drained(now)).collect();
        let some_remain = !retired.is_empty();
        drop(retired);
        drained.iter().for_each(|writer| self.remove(writer.guid()));
        some_remain
    }

    /// Waits until all retired writers are drained.
    pub(super) fn drain_retired(&self) {
        while self.drop_drained() {
            std::thread::sleep(RETIRED_POLL);
        }
    }
}

/// Locks a mutex whose value a panic leaves whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
