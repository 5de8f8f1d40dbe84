//! Publishers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use det_post_rtps::{SampleIdentity, WriteOptions, Writer};

use super::error::error;
use super::graph::Graph;
use super::peers::Endpoint;
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

/// Writes a whole CDR message in little endian. Its length is a multiple of
/// four: some readers refuse fragments of other lengths. `related` is the
/// request that the message answers.
///
/// # Errors
/// `Middleware`, naming `topic`, when the message is malformed or larger than a writer keeps.
pub(super) fn write(
    writer: &Writer,
    cdr: &[u8],
    related: Option<SampleIdentity>,
    topic: &str,
) -> Result<()> {
    if !cdr.starts_with(&[0, 1]) || cdr.len() < 4 || !cdr.len().is_multiple_of(4) {
        let start = &cdr[..cdr.len().min(4)];
        let found = format!("{} bytes that start {start:02x?}", cdr.len());
        return Err(error(format!("{topic}: {found} are not a padded little-endian CDR message")));
    }
    let options = WriteOptions { related, source_timestamp: None };
    match writer.write(cdr, &options) {
        Ok(_) => Ok(()),
        Err(cause) => {
            Err(error(format!("{topic}: {} bytes are not sent", cdr.len())).with_source(cause))
        }
    }
}
