//! The peers on our topics: those that are matched, and those that cannot be.
//!
//! The participant reports every endpoint that it discovers or loses; [`Peers`]
//! keeps those on our topics. DDS matches only by the name of the topic; here a
//! peer of another type is reported as such and not counted as matched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustdds::{DomainParticipantStatusEvent as Status, EndpointDescription, GUID, QosPolicies};

use super::{names, qos};
use crate::middleware::MiddlewareEvent;

/// The most matched peers that are tracked, twice the endpoints that the participant
/// keeps. Stale ones remain only when status events were lost.
const MAX_MATCHED: usize = 16_384;

/// The most incompatible peers that are reported.
const MAX_INCOMPATIBLE: usize = 256;

/// A reader or writer of ours.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// Full ROS name of the topic or of the service.
    pub topic: String,
    /// DDS name of the topic.
    pub dds_topic: String,
    /// DDS name of the type.
    pub dds_type: String,
    /// Whether it belongs to a service, whose clients are not reported.
    pub is_service: bool,
    /// Peers that are matched now.
    pub num_matched: AtomicUsize,
}

impl Endpoint {
    /// An endpoint of a topic.
    pub fn of_topic(topic: String, type_name: &str) -> Self {
        Self {
            dds_topic: names::topic(&topic),
            dds_type: names::message_type(type_name),
            is_service: false,
            topic,
            num_matched: AtomicUsize::new(0),
        }
    }

    /// The endpoint of the requests of a service.
    pub fn of_requests(service: &str, type_name: &str) -> Self {
        Self {
            dds_topic: names::request_topic(service),
            dds_type: names::request_type(type_name),
            is_service: true,
            topic: service.to_owned(),
            num_matched: AtomicUsize::new(0),
        }
    }

    /// The endpoint of the responses of a service.
    pub fn of_responses(service: &str, type_name: &str) -> Self {
        Self {
            dds_topic: names::response_topic(service),
            dds_type: names::response_type(type_name),
            ..Self::of_requests(service, type_name)
        }
    }
}

/// Our endpoints and their peers.
#[derive(Default)]
pub(super) struct Peers {
    ours: BTreeMap<GUID, Arc<Endpoint>>,
    /// Ours, theirs.
    matched: BTreeSet<(GUID, GUID)>,
    /// Ours, theirs. Each pair is reported once.
    incompatible: BTreeSet<(GUID, GUID)>,
    /// Peers of another type on a topic of ours, with that topic. Each is reported
    /// once.
    of_other_type: BTreeMap<GUID, String>,
}

impl Peers {
    /// Adds an endpoint of ours.
    pub fn add(&mut self, guid: GUID, endpoint: Arc<Endpoint>) {
        self.ours.insert(guid, endpoint);
    }

    /// Removes an endpoint of ours and returns the events that follow.
    pub fn remove(&mut self, guid: GUID) -> Vec<MiddlewareEvent> {
        let before = self.incompatible_topics();
        self.matched.retain(|(ours, _)| *ours != guid);
        self.incompatible.retain(|(ours, _)| *ours != guid);
        let settled = self.settled_since(&before);
        self.ours.remove(&guid);
        settled
    }

    /// The peers that are matched with `ours`.
    pub fn matched_with(&self, ours: GUID) -> impl Iterator<Item = GUID> {
        self.matched.iter().filter(move |(a, _)| *a == ours).map(|(_, theirs)| *theirs)
    }

    /// Whether `ours` is matched with `theirs`.
    pub fn is_matched(&self, ours: GUID, theirs: GUID) -> bool {
        self.matched.contains(&(ours, theirs))
    }

    /// Follows a change that the participant reports and returns the events that
    /// follow.
    pub fn update(&mut self, status: Status) -> Vec<MiddlewareEvent> {
        let before = self.incompatible_topics();
        let mut events = self.apply(status);
        events.extend(self.settled_since(&before));
        events
    }

    fn settled_since(&self, before: &BTreeSet<String>) -> Vec<MiddlewareEvent> {
        let after = self.incompatible_topics();
        let settled = before.difference(&after).cloned();
        settled.map(|topic| MiddlewareEvent::Compatible { topic }).collect()
    }

    /// Topics of ours with a peer that cannot match.
    fn incompatible_topics(&self) -> BTreeSet<String> {
        let of_other_qos = self.incompatible.iter().filter_map(|(ours, _)| self.ours.get(ours));
        let of_other_type = self.of_other_type.values().cloned();
        of_other_qos.map(|ours| ours.topic.clone()).chain(of_other_type).collect()
    }

    fn apply(&mut self, status: Status) -> Vec<MiddlewareEvent> {
        match status {
            Status::ReaderDetected { reader: theirs }
            | Status::WriterDetected { writer: theirs } => {
                self.check_type(&theirs).into_iter().collect()
            }
            Status::RemoteReaderMatched { local_writer: ours, remote_reader: theirs }
            | Status::RemoteWriterMatched { local_reader: ours, remote_writer: theirs } => {
                self.add_match(ours, theirs).into_iter().collect()
            }
            Status::RemoteReaderQosIncompatible {
                local_writer: ours,
                remote_reader: theirs,
                requested_qos,
                offered_qos,
            }
            | Status::RemoteWriterQosIncompatible {
                local_reader: ours,
                remote_writer: theirs,
                requested_qos,
                offered_qos,
            } => self.refuse(ours, theirs, &offered_qos, &requested_qos).into_iter().collect(),
            Status::ReaderLost { guid, .. } | Status::WriterLost { guid, .. } => {
                self.lose(|theirs| theirs == guid)
            }
            Status::ParticipantLost { id, .. } => self.lose(|theirs| theirs.prefix == id),
            _ => Vec::new(),
        }
    }

    fn check_type(&mut self, theirs: &EndpointDescription) -> Option<MiddlewareEvent> {
        let ours = self.ours.values().find(|ours| ours.dds_topic == theirs.topic_name)?;
        if ours.dds_type == theirs.type_name {
            return None;
        }
        if self.of_other_type.len() >= MAX_INCOMPATIBLE {
            return None;
        }
        let (topic, expected) = (ours.topic.clone(), names::ros_type(&ours.dds_type));
        let is_new = self.of_other_type.insert(theirs.guid, topic.clone()).is_none();
        let found = names::ros_type(&theirs.type_name);
        is_new.then_some(MiddlewareEvent::IncompatibleType { topic, found, expected })
    }

    fn add_match(&mut self, ours: GUID, theirs: GUID) -> Option<MiddlewareEvent> {
        let endpoint = self.ours.get(&ours)?;
        self.incompatible.remove(&(ours, theirs));
        if self.matched.len() >= MAX_MATCHED {
            return None;
        }
        if self.of_other_type.contains_key(&theirs) || !self.matched.insert((ours, theirs)) {
            return None;
        }
        endpoint.num_matched.fetch_add(1, Ordering::Relaxed);
        (!endpoint.is_service).then(|| MiddlewareEvent::PeerFound { topic: endpoint.topic.clone() })
    }

    fn refuse(
        &mut self,
        ours: GUID,
        theirs: GUID,
        offered: &QosPolicies,
        requested: &QosPolicies,
    ) -> Option<MiddlewareEvent> {
        let topic = self.ours.get(&ours)?.topic.clone();
        let policy = qos::mismatch(offered, requested)?;
        if self.incompatible.len() >= MAX_INCOMPATIBLE {
            return None;
        }
        let is_new = self.incompatible.insert((ours, theirs));
        is_new.then_some(MiddlewareEvent::IncompatibleQos { topic, policy })
    }

    fn lose(&mut self, is_lost: impl Fn(GUID) -> bool) -> Vec<MiddlewareEvent> {
        self.of_other_type.retain(|theirs, _| !is_lost(*theirs));
        self.incompatible.retain(|(_, theirs)| !is_lost(*theirs));
        let (lost, kept) =
            std::mem::take(&mut self.matched).into_iter().partition(|(_, theirs)| is_lost(*theirs));
        self.matched = kept;
        let lost: BTreeSet<(GUID, GUID)> = lost;
        let mut events = Vec::new();
        for (ours, _) in lost {
            let Some(endpoint) = self.ours.get(&ours) else { continue };
            endpoint.num_matched.fetch_sub(1, Ordering::Relaxed);
            if !endpoint.is_service {
                events.push(MiddlewareEvent::PeerGone { topic: endpoint.topic.clone() });
            }
        }
        events
    }
}
