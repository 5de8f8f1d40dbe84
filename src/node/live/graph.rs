//! The state of the ROS graph, as the middleware reports it.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::transport_of;
use crate::node::status::TopicStatus;
use det_post_ros::middleware::MiddlewareEvent;

/// The most topics whose events are kept, and the most failed parts.
const MAX_EVENTS: usize = 64;

/// The events of the middleware so far.
#[derive(Clone, Default)]
pub(super) struct Graph {
    /// The topics that the node subscribes to.
    inputs: BTreeSet<String>,
    /// The last event of each topic whose messages cannot arrive.
    pub(super) events: BTreeMap<String, String>,
    /// Messages that were lost before they reached the node, by topic.
    pub(super) lost: BTreeMap<String, u64>,
    /// Messages that are missing by their stamps, by topic: in total, and since
    /// the last summary.
    pub(super) missing: BTreeMap<String, [u64; 2]>,
    /// The reason why the last transition failed.
    pub(super) failure: Option<String>,
    /// Parts of the middleware that failed.
    pub(super) lost_parts: Vec<String>,
    pub(super) num_refused_requests: u64,
}

impl Graph {
    /// No events yet, of a node that subscribes to these topics.
    pub(super) fn new(inputs: impl IntoIterator<Item = String>) -> Self {
        Self { inputs: inputs.into_iter().collect(), ..Self::default() }
    }

    /// Records an event of `middleware` and logs it.
    pub(super) fn note(&mut self, event: MiddlewareEvent, middleware: &str) {
        match event {
            MiddlewareEvent::IncompatibleQos { topic, policy } => {
                self.note_mismatch(topic, format!("a peer has another {policy}"));
            }
            MiddlewareEvent::IncompatibleType { topic, found, expected } => {
                let advice = transport_of(&found, &expected).map(|transport| {
                    format!("; set `input_transport: {transport}` of the channel")
                });
                let advice = advice.unwrap_or_default();
                let event = format!("a peer has type {found}, this node {expected}{advice}");
                self.note_mismatch(topic, event);
            }
            MiddlewareEvent::Compatible { topic } => {
                if self.events.remove(&topic).is_some() {
                    tracing::info!("{topic}: quality of service and type of all peers match");
                }
            }
            // Of an output every `ros2 topic echo` is a peer.
            MiddlewareEvent::PeerFound { topic } if self.inputs.contains(&topic) => {
                tracing::info!("{topic}: a peer joined");
            }
            MiddlewareEvent::PeerGone { topic } if self.inputs.contains(&topic) => {
                tracing::info!("{topic}: a peer left");
            }
            MiddlewareEvent::PeerFound { topic } => tracing::debug!("{topic}: a peer joined"),
            MiddlewareEvent::PeerGone { topic } => tracing::debug!("{topic}: a peer left"),
            MiddlewareEvent::Lost { topic, count } => {
                if let Some(total) = entry(&mut self.lost, &topic) {
                    *total = total.saturating_add(count);
                }
            }
            MiddlewareEvent::Missing { topic, count } => self.note_missing(&topic, count),
            MiddlewareEvent::Refused { service, reason } => {
                self.num_refused_requests += 1;
                tracing::warn!("{service}: a request is refused: {reason}");
            }
            MiddlewareEvent::Failed { reason } => {
                tracing::error!("{middleware}: {reason}");
                if self.lost_parts.len() < MAX_EVENTS {
                    self.lost_parts.push(reason);
                }
            }
        }
    }

    /// The status of a topic. `counts_losses` is that of the middleware.
    pub(super) fn topic_status(&self, topic: &str, counts_losses: bool) -> TopicStatus<'_> {
        let num_lost = || self.lost.get(topic).copied().unwrap_or(0);
        let [num_missing, num_missing_now] = self.missing.get(topic).copied().unwrap_or_default();
        TopicStatus {
            event: self.events.get(topic).map(String::as_str),
            num_lost: counts_losses.then(num_lost),
            num_missing,
            num_missing_now,
        }
    }

    /// The present state. Counts since the last summary start over.
    pub(super) fn summary(&mut self) -> Self {
        let summary = self.clone();
        self.missing.values_mut().for_each(|[_, now]| *now = 0);
        summary
    }

    fn note_missing(&mut self, topic: &str, count: u64) {
        let Some([total, now]) = entry(&mut self.missing, topic) else { return };
        let before = *total;
        *total = before.saturating_add(count);
        *now = now.saturating_add(count);
        // At powers of two, not with every message.
        if total.leading_zeros() != before.leading_zeros() {
            tracing::warn!(
                "{topic}: {total} messages missing by their stamps so far: lost on the way, or \
                 never published; see Socket buffers in docs/ros2.md"
            );
        }
    }

    fn note_mismatch(&mut self, topic: String, event: String) {
        let is_known = self.events.get(&topic) == Some(&event);
        if !is_known {
            tracing::warn!("{topic}: {event}: incompatible; no messages will be delivered");
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;

    /// The levels of what is logged.
    #[derive(Clone, Default)]
    struct LevelsSeen(Arc<Mutex<Vec<tracing::Level>>>);

    impl<S: tracing::Subscriber> Layer<S> for LevelsSeen {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }
    }

    #[test]
    fn peers_of_inputs_are_information_and_others_details() {
        use tracing::Level;
        let seen = LevelsSeen::default();
        let subscriber = tracing_subscriber::registry().with(seen.clone());
        tracing::subscriber::with_default(subscriber, || {
            let mut graph = Graph::new(["/image".to_owned()]);
            for topic in ["/image", "/det_post/camera/detections"] {
                graph.note(MiddlewareEvent::PeerFound { topic: topic.into() }, "test");
                graph.note(MiddlewareEvent::PeerGone { topic: topic.into() }, "test");
            }
        });
        let expected = [Level::INFO, Level::INFO, Level::DEBUG, Level::DEBUG];
        assert_eq!(*seen.0.lock().unwrap(), expected);
    }
}
