//! The services of the node.
//!
//! Requests identify their client in one of two ways. With CycloneDDS 16 bytes
//! precede the request (half of the client's identifier and a number) and are
//! returned before the response. With Fast DDS the identity is metadata of the
//! message, as in DDS-RPC, and the response refers to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use det_post_rtps::{Reader as DdsReader, Sample, SampleIdentity};

use super::graph::{DRAIN_TIMEOUT, Graph};
use super::peers::Endpoint;
use super::responses::{Response, Responses};
use super::threads::{Stop, Threads, waker_of_this_thread};
use crate::cdr::{Reader, Writer};
use crate::messages::{read_request, write_response};
use crate::middleware::{Handler, MiddlewareEvent, Qos, Request, ServiceKind};
use det_post_types::{Error, Result};

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
    for service in &services {
        service.requests.set_waker(Some(waker_of_this_thread()));
    }
    while !stop.is_due() {
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
    requests: DdsReader,
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
        let requests = Endpoint::of_requests(&name, kind.type_name());
        let (requests, _) = graph.add_reader(requests, Qos::DEFAULT, None)?;
        let responses = Endpoint::of_responses(&name, kind.type_name());
        let (writer, _) = graph.add_writer(responses, Qos::DEFAULT)?;
        let responses = Responses::new(name.clone(), writer);
        Ok(Self { graph: Arc::clone(graph), kind, name, requests, responses })
    }

    /// Responds to the requests that have arrived.
    fn serve(&mut self, handler: &Handler, stop: &Stop) {
        self.flush();
        while !stop.is_due() {
            let Some(sample) = self.requests.take() else { break };
            if sample.data.bytes().is_empty() {
                continue;
            }
            match self.respond(&sample, handler) {
                Ok(response) => self.responses.push(response),
                Err(error) => self.report(&error),
            }
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.responses.flush(&self.requests) {
            self.report(&error);
        }
    }

    /// Sends the waiting responses by `deadline` and leaves the graph.
    fn finish(mut self, deadline: Instant) {
        self.responses.wait_until(deadline);
        loop {
            self.flush();
            if !self.responses.are_waiting() {
                break;
            }
            std::thread::sleep(RESPONSE_POLL);
        }
        let Self { graph, requests, responses, .. } = self;
        graph.remove(requests.guid());
        graph.retire(responses.into_writer());
    }

    fn report(&self, error: &Error) {
        let (service, reason) = (self.name.clone(), error.to_string());
        self.graph.watchers.report(&MiddlewareEvent::Refused { service, reason });
    }

    fn respond(&self, sample: &Sample, handler: &Handler) -> Result<Response> {
        let (client, request) = read(self.kind, sample.related, sample.data.bytes())?;
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
        Ok(Response { client: sample.writer, related, cdr })
    }
}

/// The client and its request. `identity` is what the metadata of the message names.
fn read(
    kind: ServiceKind,
    identity: Option<SampleIdentity>,
    message: &[u8],
) -> Result<(Client, Request)> {
    let mut reader = Reader::new(kind.type_name(), message)?;
    let len = reader.remaining();
    if len > MAX_REQUEST_LEN {
        let most = MAX_REQUEST_LEN;
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
    use det_post_rtps::Guid;

    fn message(body: &[u8], big_endian: bool) -> Vec<u8> {
        [&[0, u8::from(!big_endian), 0, 0], body].concat()
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
        let identity = SampleIdentity { writer: Guid::from_bytes([7; 16]), number: 3 };
        let (found, request) = read(kind, Some(identity), &message(&[0; 4], false)).unwrap();
        assert_eq!((found, request), (Client::Metadata(identity), Request::GetState));
    }

    #[test]
    fn a_request_without_a_client_or_of_too_many_bytes_is_refused() {
        let kind = ServiceKind::GetState;
        assert!(read(kind, None, &message(&[0; 12], false)).is_err());
        let error = read(kind, None, &message(&vec![0; 70_000], false)).unwrap_err();
        assert!(error.message().contains("70000 bytes exceeds the limit of 65536"), "{error}");
    }
}
