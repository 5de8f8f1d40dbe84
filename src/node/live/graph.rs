//! What the door tells of the graph.

use std::collections::BTreeMap;

use super::Shared;
use crate::node::status::TopicStatus;
use crate::node::worker::lock;
use crate::transport::door::DoorEvent;

/// The most topics of which the last event is kept, and the most lost parts.
const MAX_EVENTS: usize = 64;

/// What the door told of the graph.
#[derive(Clone, Default)]
pub(super) struct Graph {
    /// The last event of a topic that stands in the way of messages.
    pub(super) events: BTreeMap<String, String>,
    /// Messages that were lost before the node had them, by topic.
    pub(super) lost: BTreeMap<String, u64>,
    /// Messages that are missing by their stamps, by topic: in all, and since
    /// the last look.
    pub(super) missing: BTreeMap<String, [u64; 2]>,
    /// Why the last change of state failed.
    pub(super) failure: Option<String>,
    /// Parts of the door that are lost.
    pub(super) lost_parts: Vec<String>,
    pub(super) num_refused_requests: u64,
}

impl Shared {
    pub(super) fn note_event(&self, event: DoorEvent) {
        let mut graph = lock(&self.graph);
        match event {
            DoorEvent::IncompatibleQos { topic, policy } => {
                graph.note(topic, format!("a peer has another {policy}"));
            }
            DoorEvent::IncompatibleType { topic, found } => {
                graph.note(topic, format!("a peer has type {found}"));
            }
            DoorEvent::Compatible { topic } => {
                if graph.events.remove(&topic).is_some() {
                    tracing::info!("{topic}: no peer stands in the way any more");
                }
            }
            DoorEvent::PeerFound { topic } => tracing::debug!("{topic}: a peer joined"),
            DoorEvent::PeerGone { topic } => tracing::info!("{topic}: a peer left"),
            DoorEvent::Lost { topic, count } => {
                if let Some(total) = entry(&mut graph.lost, &topic) {
                    *total = total.saturating_add(count);
                }
            }
            DoorEvent::Missing { topic, count } => graph.note_missing(&topic, count),
            DoorEvent::Refused { service, reason } => {
                graph.num_refused_requests += 1;
                tracing::warn!("{service}: a request is refused: {reason}");
            }
            DoorEvent::Failed { reason } => {
                tracing::error!("{}: {reason}", self.door_name);
                if graph.lost_parts.len() < MAX_EVENTS {
                    graph.lost_parts.push(reason);
                }
            }
        }
    }
}

impl Graph {
    /// What was told of a topic, by a door that counts lost messages or not.
    pub(super) fn told(&self, topic: &str, counts_losses: bool) -> TopicStatus<'_> {
        let num_lost = || self.lost.get(topic).copied().unwrap_or(0);
        let [num_missing, num_missing_now] = self.missing.get(topic).copied().unwrap_or_default();
        TopicStatus {
            event: self.events.get(topic).map(String::as_str),
            num_lost: counts_losses.then(num_lost),
            num_missing,
            num_missing_now,
        }
    }

    /// What there is now; counts since the last look begin anew.
    pub(super) fn look(&mut self) -> Self {
        let seen = self.clone();
        self.missing.values_mut().for_each(|[_, now]| *now = 0);
        seen
    }

    fn note_missing(&mut self, topic: &str, count: u64) {
        let Some([total, now]) = entry(&mut self.missing, topic) else { return };
        let before = *total;
        *total = before.saturating_add(count);
        *now = now.saturating_add(count);
        // At every power of two, not with every message.
        if total.leading_zeros() != before.leading_zeros() {
            tracing::warn!(
                "{topic}: {total} messages missing by their stamps so far: lost on the way, or \
                 never published; see Socket buffers in docs/ros2.md"
            );
        }
    }

    fn note(&mut self, topic: String, event: String) {
        let is_known = self.events.get(&topic) == Some(&event);
        if !is_known {
            tracing::warn!("{topic}: {event}: nothing flows between the two");
        }
        if self.events.len() < MAX_EVENTS || self.events.contains_key(&topic) {
            self.events.insert(topic, event);
        }
    }
}

/// The entry of a topic; `None` beyond the topics that are kept.
fn entry<'a, T: Default>(of: &'a mut BTreeMap<String, T>, topic: &str) -> Option<&'a mut T> {
    if of.len() >= MAX_EVENTS && !of.contains_key(topic) {
        return None;
    }
    Some(of.entry(topic.to_owned()).or_default())
}
