//! Publishers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustdds::bytes::Bytes;

use super::announcement::Direction;
use super::error::error;
use super::graph::Graph;
use super::payload::{self, RawWriter};
use super::peers::Endpoint;
use super::qos;
use crate::middleware::{Publisher, Qos, Reliability};
use det_post_types::Result;

/// The most bytes that a reliable publisher sends within 6 s, for which the
/// participant may keep them.
pub const MAX_KEPT_BYTES: usize = 64 << 20;

/// The interval at which the participant frees messages that are confirmed.
const KEPT_FOR: Duration = Duration::from_secs(6);

/// A publisher. Dropping it withdraws the topic.
pub(super) struct DdsPublisher {
    /// `Some` until dropped.
    writer: Option<RawWriter>,
    endpoint: Arc<Endpoint>,
    graph: Weak<Graph>,
    kept: Option<Kept>,
}

impl DdsPublisher {
    /// Announces a topic.
    pub fn new(graph: &Arc<Graph>, topic: String, type_name: &str, qos: Qos) -> Result<Self> {
        let policies = qos::with_type(qos::of_writer(qos), type_name);
        let ours = Endpoint::of_topic(topic, type_name);
        let (writer, endpoint) = graph.add(ours, &policies, Direction::Writer, |topic| {
            graph.publisher.create_datawriter_no_key(topic, Some(policies.clone()))
        })?;
        let kept = (qos.reliability == Reliability::Reliable).then(|| Kept::new(Instant::now()));
        Ok(Self { writer: Some(writer), endpoint, graph: Arc::downgrade(graph), kept })
    }
}

impl Publisher for DdsPublisher {
    fn publish(&mut self, cdr: &[u8]) -> Result<()> {
        let topic = &self.endpoint.topic;
        if let Some(kept) = &mut self.kept
            && !kept.has_room(cdr.len(), Instant::now())
        {
            return Err(error(format!(
                "{topic}: a message of {} bytes exceeds the {MAX_KEPT_BYTES} bytes that may be \
                 sent reliably within {KEPT_FOR:?}; offer best effort, or publish less",
                cdr.len()
            )));
        }
        match &self.writer {
            Some(writer) => payload::write(writer, &Bytes::copy_from_slice(cdr), None, topic),
            None => Err(error(format!("{topic}: the publisher is closed"))),
        }
    }

    fn num_subscribers(&self) -> usize {
        self.endpoint.num_matched.load(Ordering::Relaxed)
    }
}

impl Drop for DdsPublisher {
    fn drop(&mut self) {
        if let (Some(writer), Some(graph)) = (self.writer.take(), self.graph.upgrade()) {
            graph.retire(writer);
        }
    }
}

/// Counts the bytes sent in the last one to two intervals of [`KEPT_FOR`].
struct Kept {
    since: Instant,
    num_bytes: usize,
    num_bytes_before: usize,
}

impl Kept {
    fn new(now: Instant) -> Self {
        Self { since: now, num_bytes: 0, num_bytes_before: 0 }
    }

    /// Counts `num_bytes` more, unless the total would exceed the limit.
    fn has_room(&mut self, num_bytes: usize, now: Instant) -> bool {
        let age = now.duration_since(self.since);
        if age >= KEPT_FOR {
            self.num_bytes_before = if age < 2 * KEPT_FOR { self.num_bytes } else { 0 };
            self.num_bytes = 0;
            self.since = now;
        }
        let total = self.num_bytes_before.saturating_add(self.num_bytes).saturating_add(num_bytes);
        let has_room = total <= MAX_KEPT_BYTES;
        if has_room {
            self.num_bytes += num_bytes;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_bytes_are_bounded_and_expire() {
        let start = Instant::now();
        let mut kept = Kept::new(start);
        let half = MAX_KEPT_BYTES / 2;
        // (seconds, bytes, whether they are sent)
        let steps = [
            (0, MAX_KEPT_BYTES + 1, false),
            (1, half, true),
            (2, half, true),
            (3, 1, false),
            (7, 1, false),
            (13, 1, true),
            (14, MAX_KEPT_BYTES, false),
            (30, MAX_KEPT_BYTES, true),
            (60, MAX_KEPT_BYTES, true),
        ];
        for (seconds, num_bytes, sent) in steps {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(kept.has_room(num_bytes, now), sent, "at {seconds} s");
        }
    }
}
