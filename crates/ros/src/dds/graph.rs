//! What all endpoints of the middleware share: the participant, the matched
//! peers and the announcement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use det_post_rtps::{
    Assembler, Event, Guid, Participant, Reader, ReaderSettings, Writer, WriterSettings,
};

use super::announcement::{Announcement, Direction};
use super::counters::Counters;
use super::environment::DdsSettings;
use super::error::cannot_join;
use super::peers::{Endpoint, Peers};
use super::qos;
use super::threads::Stop;
use crate::NodeName;
use crate::middleware::{MiddlewareEvent, Qos, Watchers};
use det_post_types::Result;

/// How long a writer that is no longer written with waits for readers that do not confirm: what
/// the frame in flight leaves of the second in which the program is to end.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// How long the observer waits for an event before it looks for the end.
const EVENT_WAIT: Duration = Duration::from_millis(50);

/// Our place in the graph: what all endpoints share.
pub(super) struct Graph {
    pub(super) watchers: Watchers,
    announcement: Mutex<Announcement>,
    peers: Mutex<Peers>,
    /// Writers that are no longer written with, and when they are dropped at the latest: until
    /// then readers may ask for what they have not confirmed, such as the response to `shutdown`.
    retired: Mutex<Vec<(Writer, Instant)>>,
    participant: Participant,
}

impl Graph {
    /// Joins the graph as `node`.
    pub(super) fn join(node: NodeName, settings: &DdsSettings) -> Result<Self> {
        let participant = settings.participant(node.full())?;
        let announcement = Announcement::new(&participant, node, settings.gid_len)?;
        Ok(Self {
            watchers: Watchers::default(),
            announcement: Mutex::new(announcement),
            peers: Mutex::default(),
            retired: Mutex::default(),
            participant,
        })
    }

    /// Follows discovery, losses and the retired writers until `stop`.
    pub(super) fn observe(&self, stop: &Stop) {
        let mut counters = Counters::default();
        while !stop.is_due() {
            if let Some(event) = self.participant.next_event(EVENT_WAIT) {
                self.note(event);
            }
            counters.check(Instant::now(), || self.participant.statistics());
            self.drop_drained();
        }
    }

    fn note(&self, event: Event) {
        let events = lock(&self.peers).update(event);
        events.iter().for_each(|event| self.watchers.report(event));
    }

    /// Adds a reader to the graph, which puts messages together where `assembler` says.
    pub(super) fn add_reader(
        &self,
        endpoint: Endpoint,
        qos: Qos,
        assembler: Option<Box<dyn Assembler>>,
    ) -> Result<(Reader, Arc<Endpoint>)> {
        let settings = ReaderSettings {
            topic: endpoint.dds_topic.clone(),
            type_name: endpoint.dds_type.clone(),
            qos: qos::policies(qos),
            user_data: qos::user_data(&endpoint.type_name),
            assembler,
        };
        // Peers may match as soon as the reader exists; the lock holds their
        // events back until it is registered.
        let mut peers = lock(&self.peers);
        let reader = self.participant.create_reader(settings);
        let reader = reader.map_err(|cause| cannot_join(&endpoint.topic, cause))?;
        let endpoint = peers.add(reader.guid(), endpoint);
        drop(peers);
        lock(&self.announcement).add(reader.guid(), Direction::Reader)?;
        Ok((reader, endpoint))
    }

    /// Adds a writer to the graph.
    pub(super) fn add_writer(
        &self,
        endpoint: Endpoint,
        qos: Qos,
    ) -> Result<(Writer, Arc<Endpoint>)> {
        let settings = WriterSettings {
            topic: endpoint.dds_topic.clone(),
            type_name: endpoint.dds_type.clone(),
            qos: qos::policies(qos),
            user_data: qos::user_data(&endpoint.type_name),
            keep_unconfirmed: qos::MAX_UNCONFIRMED,
        };
        let mut peers = lock(&self.peers);
        let writer = self.participant.create_writer(settings);
        let writer = writer.map_err(|cause| cannot_join(&endpoint.topic, cause))?;
        let endpoint = peers.add(writer.guid(), endpoint);
        drop(peers);
        lock(&self.announcement).add(writer.guid(), Direction::Writer)?;
        Ok((writer, endpoint))
    }

    /// Topics of a type that peers publish.
    pub(super) fn published_topics(&self, type_name: &str) -> Vec<String> {
        lock(&self.peers).published_topics(type_name)
    }

    /// Removes an endpoint from the graph.
    pub(super) fn remove(&self, guid: Guid) {
        let settled = lock(&self.peers).remove(guid);
        settled.iter().for_each(|event| self.watchers.report(event));
        if let Err(error) = lock(&self.announcement).remove(guid) {
            self.watchers.report(&MiddlewareEvent::Failed { reason: error.to_string() });
        }
    }

    /// Removes a writer once its readers have confirmed what it sent, or after
    /// [`DRAIN_TIMEOUT`].
    pub(super) fn retire(&self, writer: Writer) {
        lock(&self.retired).push((writer, Instant::now() + DRAIN_TIMEOUT));
        self.drop_drained();
    }

    fn drop_drained(&self) {
        let is_drained = |(writer, until): &mut (Writer, Instant)| {
            writer.is_confirmed() || Instant::now() >= *until
        };
        let drained: Vec<_> = lock(&self.retired).extract_if(.., is_drained).collect();
        drained.iter().for_each(|(writer, _)| self.remove(writer.guid()));
    }

    /// Waits until all retired writers are removed.
    pub(super) fn drain(&self) {
        let retired = std::mem::take(&mut *lock(&self.retired));
        for (writer, until) in retired {
            writer.wait_confirmed(until.saturating_duration_since(Instant::now()));
            self.remove(writer.guid());
        }
    }
}

/// Locks a mutex whose value a panic leaves whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
