//! Subscriptions, each on a separate thread.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use det_post_rtps::{Assembler, Guid, Reader, SampleData, Target};

use super::graph::Graph;
use super::peers::Endpoint;
use super::threads::{Stop, StopHandle, Threads, waker_of_this_thread};
use crate::middleware::{
    InputKind, MessageBuffers, MessageMemory, Qos, Receiver, Subscription, deliver,
};
use det_post_types::Result;

/// A subscription. Dropping it ends its thread.
pub(super) struct DdsSubscription {
    endpoint: Arc<Endpoint>,
    stop: StopHandle,
}

/// What to subscribe to, and where its messages go.
pub(super) struct Input {
    /// Full ROS name of the topic.
    pub topic: String,
    pub kind: InputKind,
    pub qos: Qos,
    pub receiver: Receiver,
    /// Memory for messages of more than a datagram.
    pub buffers: Option<Box<dyn MessageBuffers>>,
}

/// Subscribes and starts to deliver.
pub(super) fn start(
    graph: &Arc<Graph>,
    threads: &mut Threads,
    input: Input,
) -> Result<DdsSubscription> {
    let Input { topic, kind, qos, receiver, buffers } = input;
    let thread_name = format!("dds {topic}");
    let assembler = buffers.map(|buffers| -> Box<dyn Assembler> { Box::new(Buffers(buffers)) });
    let ours = Endpoint::of_topic(topic, kind.type_name());
    let (reader, endpoint) = graph.add_reader(ours, qos, assembler)?;
    let delivery = Delivery { reader, kind, receiver };
    let of_thread = Arc::clone(graph);
    let stop = threads.spawn(&thread_name, &graph.watchers, move |stop| {
        let reader = delivery.run(stop);
        of_thread.remove(reader.guid());
    })?;
    Ok(DdsSubscription { endpoint, stop })
}

impl Subscription for DdsSubscription {
    fn num_publishers(&self) -> usize {
        self.endpoint.num_matched.load(Ordering::Relaxed)
    }
}

impl Drop for DdsSubscription {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

struct Delivery {
    reader: Reader,
    kind: InputKind,
    receiver: Receiver,
}

impl Delivery {
    /// Delivers until `stop`.
    fn run(mut self, stop: &Stop) -> Reader {
        self.reader.set_waker(Some(waker_of_this_thread()));
        while !stop.is_due() {
            match self.reader.take() {
                Some(sample) => self.deliver(sample.data),
                None => stop.wait(),
            }
        }
        self.reader
    }

    fn deliver(&mut self, data: SampleData) {
        match data {
            // The end of an instance.
            SampleData::Owned(bytes) if bytes.is_empty() => {}
            SampleData::Owned(bytes) => deliver(self.kind, &bytes, &mut *self.receiver),
            SampleData::Target(target) => {
                // Every target is one of `Buffers`.
                if let Ok(memory) = target.into_any().downcast::<Memory>() {
                    memory.0.deliver();
                }
            }
        }
    }
}

/// The receiver's buffers, for the participant.
struct Buffers(Box<dyn MessageBuffers>);

impl Assembler for Buffers {
    fn target(&mut self, _: Guid, len: usize, _: &[u8]) -> Option<Box<dyn Target>> {
        let memory = self.0.buffer(len)?;
        Some(Box::new(Memory(memory)))
    }
}

/// One of the receiver's buffers.
struct Memory(Box<dyn MessageMemory>);

impl Target for Memory {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
