//! The peers on our topics: those that are matched, and those that cannot be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use det_post_rtps::{EndpointKind, Event, Guid, Mismatch};

use super::names;
use crate::middleware::MiddlewareEvent;

/// The most incompatible peers that are reported.
const MAX_INCOMPATIBLE: usize = 256;

/// The most writers of others that are remembered, to be named where a topic has none.
const MAX_WRITERS: usize = 1024;

/// A reader or writer of ours.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// Full ROS name of the topic or of the service.
    pub topic: String,
    /// DDS name of the topic.
    pub dds_topic: String,
    /// ROS name of the type.
    pub type_name: String,
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
            type_name: type_name.to_owned(),
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
            type_name: format!("{type_name}_Request"),
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
            type_name: format!("{type_name}_Response"),
            ..Self::of_requests(service, type_name)
        }
    }
}

/// Our endpoints and the peers that cannot match.
#[derive(Default)]
pub(super) struct Peers {
    ours: BTreeMap<Guid, Arc<Endpoint>>,
    /// Ours, theirs. Each pair is reported once.
    incompatible: BTreeSet<(Guid, Guid)>,
    /// DDS names of the topics and types of the writers of others.
    writers: BTreeMap<Guid, [String; 2]>,
}

impl Peers {
    /// Adds an endpoint of ours.
    pub fn add(&mut self, guid: Guid, endpoint: Endpoint) -> Arc<Endpoint> {
        let endpoint = Arc::new(endpoint);
        self.ours.insert(guid, Arc::clone(&endpoint));
        endpoint
    }

    /// Removes an endpoint of ours and returns the events that follow.
    pub fn remove(&mut self, guid: Guid) -> Vec<MiddlewareEvent> {
        let settled = self.settle(|ours, _| ours == guid);
        self.ours.remove(&guid);
        settled
    }

    /// Follows an event of the participant and returns the events that follow.
    pub fn update(&mut self, event: Event) -> Vec<MiddlewareEvent> {
        match event {
            Event::Matched { ours, theirs } => {
                let mut events = self.settle(|a, b| (a, b) == (ours, theirs));
                let endpoint = self.ours.get(&ours);
                events.extend(endpoint.and_then(|ours| {
                    ours.num_matched.fetch_add(1, Ordering::Relaxed);
                    let topic = ours.topic.clone();
                    (!ours.is_service).then_some(MiddlewareEvent::PeerFound { topic })
                }));
                events
            }
            Event::Unmatched { ours, .. } => {
                let endpoint = self.ours.get(&ours);
                let gone = endpoint.and_then(|ours| {
                    ours.num_matched.fetch_sub(1, Ordering::Relaxed);
                    let topic = ours.topic.clone();
                    (!ours.is_service).then_some(MiddlewareEvent::PeerGone { topic })
                });
                Vec::from_iter(gone)
            }
            Event::Incompatible { ours, theirs, mismatch } => {
                Vec::from_iter(self.refuse(ours, theirs, mismatch))
            }
            Event::EndpointRemoved { guid, .. } => {
                self.writers.remove(&guid);
                self.settle(|_, theirs| theirs == guid)
            }
            Event::EndpointDiscovered(found) => {
                if found.kind == EndpointKind::Writer && self.writers.len() < MAX_WRITERS {
                    self.writers.insert(found.guid, [found.topic, found.type_name]);
                }
                Vec::new()
            }
            Event::Lost { reader, count, .. } => {
                let topic = self.ours.get(&reader).map(|ours| ours.topic.clone());
                Vec::from_iter(topic.map(|topic| MiddlewareEvent::Lost { topic, count }))
            }
            Event::ParticipantDiscovered(_) | Event::ParticipantRemoved { .. } => Vec::new(),
        }
    }

    /// Full ROS names of the topics of a ROS type that others publish, in order.
    pub fn published_topics(&self, type_name: &str) -> Vec<String> {
        let wanted = names::message_type(type_name);
        let found = self.writers.values().filter(|[_, dds_type]| *dds_type == wanted);
        let topics = found.filter_map(|[topic, _]| names::ros_topic(topic));
        let topics: BTreeSet<&str> = topics.collect();
        topics.into_iter().map(str::to_owned).collect()
    }

    /// Forgets incompatible pairs (ours, theirs), and returns the topics that no peer is
    /// incompatible on any more.
    fn settle(&mut self, is_settled: impl Fn(Guid, Guid) -> bool) -> Vec<MiddlewareEvent> {
        let before = self.incompatible_topics();
        self.incompatible.retain(|(ours, theirs)| !is_settled(*ours, *theirs));
        let after = self.incompatible_topics();
        let settled = before.difference(&after).cloned();
        settled.map(|topic| MiddlewareEvent::Compatible { topic }).collect()
    }

    /// Topics of ours with a peer that cannot match.
    fn incompatible_topics(&self) -> BTreeSet<String> {
        let ours = self.incompatible.iter().filter_map(|(ours, _)| self.ours.get(ours));
        ours.map(|ours| ours.topic.clone()).collect()
    }

    fn refuse(&mut self, ours: Guid, theirs: Guid, mismatch: Mismatch) -> Option<MiddlewareEvent> {
        if self.incompatible.len() >= MAX_INCOMPATIBLE {
            return None;
        }
        let endpoint = self.ours.get(&ours)?;
        let is_new = self.incompatible.insert((ours, theirs));
        let topic = endpoint.topic.clone();
        is_new.then(|| match mismatch {
            Mismatch::TypeName(found) => MiddlewareEvent::IncompatibleType {
                topic,
                found: names::ros_type(&found),
                expected: names::ros_type(&endpoint.dds_type),
            },
            other => MiddlewareEvent::IncompatibleQos { topic, policy: other.name().to_owned() },
        })
    }
}

#[cfg(test)]
mod tests {
    use det_post_rtps::{Durability, EndpointInfo, History, Qos, Reliability};

    use super::*;

    fn guid(kind: u8, n: u8) -> Guid {
        let mut bytes = [n; 16];
        bytes[15] = kind;
        Guid::from_bytes(bytes)
    }

    #[test]
    fn topics_of_a_type_are_known_while_they_are_published() {
        let mut peers = Peers::default();
        let writer = |n, topic: &str, dds_type: &str| {
            Event::EndpointDiscovered(EndpointInfo {
                guid: guid(3, n),
                kind: EndpointKind::Writer,
                topic: topic.to_owned(),
                type_name: dds_type.to_owned(),
                qos: Qos {
                    reliability: Reliability::BestEffort,
                    durability: Durability::Volatile,
                    history: History::KeepLast(1),
                },
                user_data: Vec::new(),
            })
        };
        let image = "sensor_msgs::msg::dds_::Image_";
        let all = [("rt/b", image), ("rt/a", image), ("rt/a", image), ("rt/c", "x"), ("q", image)];
        for (n, (topic, dds_type)) in (1..).zip(all) {
            assert_eq!(peers.update(writer(n, topic, dds_type)), []);
        }
        assert_eq!(peers.published_topics("sensor_msgs/msg/Image"), ["/a", "/b"]);
        let gone = |n| Event::EndpointRemoved { guid: guid(3, n), kind: EndpointKind::Writer };
        for n in [1, 2] {
            assert_eq!(peers.update(gone(n)), []);
        }
        assert_eq!(peers.published_topics("sensor_msgs/msg/Image"), ["/a"]);
    }

    #[test]
    fn events_follow_matches_and_mismatches() {
        let mut peers = Peers::default();
        let (ours, theirs) = (guid(4, 1), guid(3, 2));
        let endpoint = peers.add(ours, Endpoint::of_topic("/a".to_owned(), "x/msg/Y"));
        let topic = || "/a".to_owned();
        let policy = "ownership".to_owned();
        let mismatch = Mismatch::Ownership;
        let refused = Event::Incompatible { ours, theirs, mismatch };
        let qos = [MiddlewareEvent::IncompatibleQos { topic: topic(), policy }];
        assert_eq!(peers.update(refused.clone()), qos);
        assert_eq!(peers.update(refused), []);
        let found = [
            MiddlewareEvent::Compatible { topic: topic() },
            MiddlewareEvent::PeerFound { topic: topic() },
        ];
        assert_eq!(peers.update(Event::Matched { ours, theirs }), found);
        assert_eq!(endpoint.num_matched.load(Ordering::Relaxed), 1);
        let gone = [MiddlewareEvent::PeerGone { topic: topic() }];
        assert_eq!(peers.update(Event::Unmatched { ours, theirs }), gone);
        assert_eq!(endpoint.num_matched.load(Ordering::Relaxed), 0);
        let lost = Event::Lost { reader: ours, writer: theirs, count: 3 };
        assert_eq!(peers.update(lost), [MiddlewareEvent::Lost { topic: topic(), count: 3 }]);

        let other = Mismatch::TypeName("p::msg::dds_::Q_".to_owned());
        let told = peers.update(Event::Incompatible { ours, theirs, mismatch: other });
        let (found, expected) = ("p/msg/Q".to_owned(), "x/msg/Y".to_owned());
        assert_eq!(told, [MiddlewareEvent::IncompatibleType { topic: topic(), found, expected }]);
        assert_eq!(peers.remove(ours), [MiddlewareEvent::Compatible { topic: topic() }]);
    }
}
