//! The services of the node.
//!
//! Requests identify their client in one of two ways. With CycloneDDS 16 bytes
//! precede the request (half of the client's identifier and a number) and are
//! returned before the response. With Fast DDS the identity is metadata of the
//! message, as in DDS-RPC, and the response refers to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustdds::SequenceNumber;
use rustdds::bytes::Bytes;
use rustdds::no_key::DeserializedCacheChange;
use rustdds::rpc::SampleIdentity;

use super::announcement::Direction;
use super::error::error;
use super::graph::Graph;
use super::payload::{Copied, CopyOut, RawReader};
use super::peers::Endpoint;
use super::qos;
use super::responses::{Response, Responses};
use super::retired::DRAIN_TIMEOUT;
use super::threads::{Stop, Threads, waker_of_this_thread};
use crate::cdr::{Reader, Writer};
use crate::messages::{read_request, write_response};
use crate::middleware::{Handler, MiddlewareEvent, Qos, Request, ServiceKind};
use det_post_types::Result;

/// The longest request that is read.
const MAX_REQUEST_LEN: usize = 64 << 10;

/// Interval at which waiting responses are flushed.
const RESPONSE_POLL: Duration = Duration::from_millis(5);

/// Serves `kinds`, each under its full name, one request after the other on a
/// common thread.
pub(super) fn start(
    graph: &Arc<Graph>,
    threads: &mut Threads,
    thread_name: &str,
    kinds: impl Iterator<Item = (ServiceKind, String)>,
    handler: &Arc<Handler>,
) -> Result<()> {
    let services =
        kinds.map(|(kind, name)| Service::new(graph, kind, name)).collect::<Result<Vec<_>>>()?;
    let handler = Arc::clone(handler);
    threads.spawn(thread_name, &graph.watchers, move |stop| run(services, &handler, stop))?;
    Ok(())
}

fn run(mut services: Vec<Service>, handler: &Handler, stop: &Stop) {
    let waker = waker_of_this_thread();
    while !stop.is_due() {
        for service in &services {
            service.requests.set_waker(Some(waker.clone()));
        }
        for service in &mut services {
            service.serve(handler, stop);
        }
        if services.iter().any(|service| service.responses.are_waiting()) {
            stop.wait_at_most(RESPONSE_POLL);
        } else {
            stop.wait();
        }
    }
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    services.into_iter().for_each(|service| service.finish(deadline));
}

struct Service {
    graph: Arc<Graph>,
    kind: ServiceKind,
    name: String,
    requests: RawReader<Copied>,
    responses: Responses,
}

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    /// From the header before the request.
    Header { client: u64, number: i64 },
    /// From the metadata of the request.
    Metadata(SampleIdentity),
}

impl Service {
    fn new(graph: &Arc<Graph>, kind: ServiceKind, name: String) -> Result<Self> {
        let part = |part: &str| format!("{}_{part}", kind.type_name());
        let reading = qos::with_type(qos::of_reader(Qos::DEFAULT), &part("Request"));
        let writing = qos::with_type(qos::of_writer(Qos::DEFAULT), &part("Response"));
        let request_endpoint = Endpoint::of_requests(&name, kind.type_name());
        let (requests, _) = graph.add(request_endpoint, &reading, Direction::Reader, |topic| {
            graph.subscriber.create_simple_datareader_no_key(topic, Some(reading.clone()))
        })?;
        let response_endpoint = Endpoint::of_responses(&name, kind.type_name());
        let (writer, _) = graph.add(response_endpoint, &writing, Direction::Writer, |topic| {
            graph.publisher.create_datawriter_no_key(topic, Some(writing.clone()))
        })?;
        let responses = Responses::new(graph, name.clone(), writer, requests.guid())?;
        Ok(Self { graph: Arc::clone(graph), kind, name, requests, responses })
    }

    /// Responds to the requests in the cache. A disposed one reads as an empty
    /// cache, hence two reads.
    fn serve(&mut self, handler: &Handler, stop: &Stop) {
        let flushed = self.responses.flush();
        self.report_error(flushed);
        let mut num_empty_reads = 0;
        while num_empty_reads < 2 && !stop.is_due() {
            let result = match self.requests.try_take_one_with(CopyOut { max_len: MAX_REQUEST_LEN })
            {
                Ok(Some(message)) => self.respond(message, handler),
                Ok(None) => {
                    num_empty_reads += 1;
                    continue;
                }
                Err(cause) => Err(error("request is not CDR").with_source(cause)),
            };
            self.report_error(result);
        }
    }

    /// Sends the waiting responses by `deadline` and leaves the graph.
    fn finish(mut self, deadline: Instant) {
        self.responses.wait_until(deadline);
        loop {
            let flushed = self.responses.flush();
            self.report_error(flushed);
            if !self.responses.are_waiting() {
                break;
            }
            std::thread::sleep(RESPONSE_POLL);
        }
        let Self { graph, requests, responses, .. } = self;
        graph.remove(requests.guid());
        graph.retire(responses.into_writer());
    }

    fn report_error(&self, result: Result<()>) {
        if let Err(reason) = result {
            let (service, reason) = (self.name.clone(), reason.to_string());
            self.graph.watchers.report(&MiddlewareEvent::Refused { service, reason });
        }
    }

    fn respond(
        &mut self,
        message: DeserializedCacheChange<Copied>,
        handler: &Handler,
    ) -> Result<()> {
        let writer_guid = message.writer_guid();
        let identity = message.related_sample_identity().map(|mut identity| {
            // Fast DDS omits the sequence number, which is that of the message.
            if identity.sequence_number == SequenceNumber::UNKNOWN {
                identity.sequence_number = message.sequence_number;
            }
            identity
        });
        let (client, request) = read(self.kind, identity, &message.into_value())?;
        let response = handler(request);

        let mut cdr = Vec::new();
        let mut writer = Writer::new(&mut cdr);
        let related = match client {
            Client::Header { client, number } => {
                writer.u64(client);
                writer.i64(number);
                None
            }
            Client::Metadata(identity) => Some(identity),
        };
        write_response(&response, &mut writer);
        writer.finish(self.kind.type_name())?;
        self.responses.send(Response { client: writer_guid, related, cdr: Bytes::from(cdr) })
    }
}

/// The client and its request. `identity` is that in the metadata of the message.
fn read(
    kind: ServiceKind,
    identity: Option<SampleIdentity>,
    message: &Copied,
) -> Result<(Client, Request)> {
    let mut reader = Reader::of_body(kind.type_name(), &message.body, message.big_endian);
    if message.len > message.body.len() {
        let (len, most) = (message.len, message.body.len());
        return Err(reader.error(format!("request of {len} bytes exceeds the limit of {most}")));
    }
    let client = match identity {
        Some(identity) => Client::Metadata(identity),
        None => Client::Header { client: reader.u64()?, number: reader.i64()? },
    };
    Ok((client, read_request(kind, &mut reader)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustdds::GUID;

    fn message(body: &[u8], big_endian: bool) -> Copied {
        Copied { body: body.to_owned(), big_endian, len: body.len() }
    }

    #[test]
    fn the_client_is_identified_either_way() {
        let kind = ServiceKind::GetState;
        let header: Vec<u8> = (1..=16).chain([0, 0, 0, 0]).collect();
        for (big_endian, client, number) in [
            (false, 0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09),
            (true, 0x0102_0304_0506_0708, 0x090a_0b0c_0d0e_0f10),
        ] {
            let (found, request) = read(kind, None, &message(&header, big_endian)).unwrap();
            assert_eq!((found, request), (Client::Header { client, number }, Request::GetState));
        }
        let identity = SampleIdentity {
            writer_guid: GUID::from_bytes([7; 16]),
            sequence_number: SequenceNumber::new(3),
        };
        let (found, request) = read(kind, Some(identity), &message(&[0; 4], false)).unwrap();
        assert_eq!((found, request), (Client::Metadata(identity), Request::GetState));
    }

    #[test]
    fn a_request_without_a_client_or_of_too_many_bytes_is_refused() {
        let kind = ServiceKind::GetState;
        assert!(read(kind, None, &message(&[0; 12], false)).is_err());
        let long = Copied { len: 70_000, ..message(&[0; 64], false) };
        let error = read(kind, None, &long).unwrap_err();
        assert!(error.message().contains("70000 bytes exceeds the limit of 64"), "{error}");
    }
}
