//! Publishers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use det_post_rtps::Writer;

use super::error::error;
use super::graph::Graph;
use super::peers::Endpoint;
use super::write::write;
use crate::middleware::{Publisher, Qos};
use det_post_types::Result;

/// A publisher. Dropping it withdraws the topic.
pub(super) struct DdsPublisher {
    /// `Some` until dropped.
    writer: Option<Writer>,
    endpoint: Arc<Endpoint>,
    graph: Weak<Graph>,
}

impl DdsPublisher {
    /// Announces a topic.
    pub fn new(graph: &Arc<Graph>, topic: String, type_name: &str, qos: Qos) -> Result<Self> {
        let (writer, endpoint) = graph.add_writer(Endpoint::of_topic(topic, type_name), qos)?;
        Ok(Self { writer: Some(writer), endpoint, graph: Arc::downgrade(graph) })
    }
}

impl Publisher for DdsPublisher {
    fn publish(&mut self, cdr: &[u8]) -> Result<()> {
        let topic = &self.endpoint.topic;
        match &self.writer {
            Some(writer) => write(writer, cdr, None, topic),
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
