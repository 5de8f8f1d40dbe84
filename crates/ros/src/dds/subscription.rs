//! Subscriptions, each on a separate thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustdds::dds::result::ReadError;
use rustdds::{GUID, SequenceNumber};

use super::announcement::Direction;
use super::graph::Graph;
use super::payload::{Deliver, Delivery, Discard, RawReader};
use super::peers::Endpoint;
use super::qos;
use super::threads::{Stop, StopHandle, Threads, waker_of_this_thread};
use crate::middleware::{Durability, InputKind, MiddlewareEvent, Qos, Receiver, Subscription};
use det_post_types::{Error, ErrorKind, Result};

/// Number of followed writers from which on those that have left are dropped.
const MAX_FOLLOWED: usize = 16;

/// The longest gap in a writer's sequence numbers that counts as lost messages.
/// A longer one means that the writer started a new numbering.
const MAX_GAP: i64 = 1 << 20;

/// A subscription. Dropping it ends its thread.
pub(super) struct DdsSubscription {
    endpoint: Arc<Endpoint>,
    stop: StopHandle,
}

/// Subscribes and starts to deliver.
pub(super) fn start(
    graph: &Arc<Graph>,
    threads: &mut Threads,
    topic: String,
    kind: InputKind,
    qos: Qos,
    receiver: Receiver,
) -> Result<DdsSubscription> {
    let thread_name = format!("dds {topic}");
    let ours = Endpoint::of_topic(topic, kind.type_name());
    let policies = qos::with_type(qos::of_reader(qos), kind.type_name());
    let (reader, endpoint) = graph.add(ours, &policies, Direction::Reader, |topic| {
        graph.subscriber.create_simple_datareader_no_key(topic, Some(policies.clone()))
    })?;
    let input = Input {
        reader,
        endpoint: Arc::clone(&endpoint),
        graph: Arc::clone(graph),
        qos,
        delivery: Delivery::new(kind, receiver),
        numbering: Numbering::default(),
        num_unnumbered: 0,
    };
    input.discard_old();
    let stop = threads.spawn(&thread_name, &graph.watchers, move |stop| input.run(stop))?;
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

struct Input {
    reader: RawReader<()>,
    endpoint: Arc<Endpoint>,
    graph: Arc<Graph>,
    qos: Qos,
    delivery: Delivery,
    numbering: Numbering,
    /// Refused messages whose sequence numbers are unknown.
    num_unnumbered: u64,
}

impl Input {
    fn run(mut self, stop: &Stop) {
        let waker = waker_of_this_thread();
        while !stop.is_due() {
            // Set before the cache is read, so that later messages wake the thread.
            self.reader.set_waker(Some(waker.clone()));
            self.drain(stop);
            stop.wait();
        }
        self.graph.remove(self.reader.guid());
    }

    /// Delivers the messages in the cache. A disposed one reads as an empty cache,
    /// hence two reads.
    fn drain(&mut self, stop: &Stop) {
        let mut num_empty_reads = 0;
        while num_empty_reads < 2 && !stop.is_due() {
            match self.reader.try_take_one_with(Deliver(&self.delivery)) {
                Ok(Some(message)) => self.follow(message.writer_guid(), message.sequence_number),
                Ok(None) => num_empty_reads += 1,
                Err(cause) => self.refuse(cause),
            }
        }
    }

    fn follow(&mut self, writer: GUID, number: SequenceNumber) {
        let missing = self.numbering.follow(writer, number.into());
        // Messages that were refused undecoded are missing here but not lost.
        let count = missing.saturating_sub(self.num_unnumbered);
        self.num_unnumbered = 0;
        if count > 0 {
            let topic = self.endpoint.topic.clone();
            self.graph.watchers.report(&MiddlewareEvent::Lost { topic, count });
        }
        if self.numbering.len() > MAX_FOLLOWED {
            let peers = self.graph.peers();
            let ours = self.reader.guid();
            self.numbering.retain(|writer| peers.is_matched(ours, writer));
        }
    }

    /// Passes the receiver the error of a message whose encoding is not CDR.
    fn refuse(&mut self, cause: ReadError) {
        let stage = self.delivery.kind().type_name();
        let error = Error::new(ErrorKind::Message, stage, "message is not CDR").with_source(cause);
        self.delivery.refuse(error);
        self.num_unnumbered += 1;
    }

    fn is_volatile(&self) -> bool {
        self.qos.durability == Durability::Volatile
    }

    /// Discards the messages in the participant's cache: it outlives the readers
    /// of a topic and would deliver old messages to a new reader.
    fn discard_old(&self) {
        while self.is_volatile() && !matches!(self.reader.try_take_one_with(Discard), Ok(None)) {}
    }
}

/// Detects gaps in the sequence numbers of writers.
#[derive(Default)]
struct Numbering(BTreeMap<GUID, i64>);

impl Numbering {
    /// Number of messages missing between the last one of `writer` and this one.
    fn follow(&mut self, writer: GUID, number: i64) -> u64 {
        let last = self.0.entry(writer).or_insert(number);
        let missing = number.saturating_sub(*last).saturating_sub(1);
        *last = number.max(*last);
        if missing > MAX_GAP { 0 } else { u64::try_from(missing).unwrap_or(0) }
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn retain(&mut self, keep: impl Fn(GUID) -> bool) {
        self.0.retain(|writer, _| keep(*writer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_writer_by_writer() {
        let mut numbering = Numbering::default();
        let (a, b) = (GUID::from_bytes([1; 16]), GUID::from_bytes([2; 16]));
        // (writer, number, messages that are missing)
        let messages = [
            (a, 7, 0),
            (a, 8, 0),
            (b, 100, 0),
            (a, 12, 3),
            (a, 12, 0),
            (a, 10, 0),
            (b, 102, 1),
            (a, 13, 0),
            (a, 14 + MAX_GAP, 1 << 20),
            (a, 16 + 2 * MAX_GAP, 0),
            (a, i64::MAX, 0),
        ];
        for (writer, number, missing) in messages {
            assert_eq!(numbering.follow(writer, number), missing, "{number}");
        }
        numbering.retain(|writer| writer == a);
        assert_eq!((numbering.len(), numbering.follow(b, 200)), (1, 0));
    }
}
