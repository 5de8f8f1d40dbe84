//! The services of the node.
//!
//! Who calls is known by one of two ways. CycloneDDS's ROS puts 16 bytes before
//! the request (half of the client's identifier, and a number), which go back
//! before the response. Fast DDS's ROS sends the identity beside the message,
//! as DDS-RPC has it, and the response names it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustdds::SequenceNumber;
use rustdds::bytes::Bytes;
use rustdds::no_key::DeserializedCacheChange;
use rustdds::rpc::SampleIdentity;

use super::announcement::Direction;
use super::answers::{Answer, Answers};
use super::payload::{Copied, CopyOut, RawReader};
use super::peers::Endpoint;
use super::threads::{Stop, Threads, waker_of_this_thread};
use super::{Graph, error, leaving, qos};
use crate::error::Result;
use crate::transport::cdr::{Reader, Writer};
use crate::transport::door::{DoorEvent, Handler, Qos, Request, ServiceKind};
use crate::transport::messages::{read_request, write_response};

/// The longest request that is read.
const MAX_REQUEST_LEN: usize = 64 << 10;

/// How often it is looked whether the caller of a response listens.
const LISTENING_POLL: Duration = Duration::from_millis(5);

/// Starts to serve `kinds`, each under its full name, one request after the
/// other on a thread of their own.
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
    threads.spawn(thread_name, graph, move |stop| run(services, &handler, stop))?;
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
        if services.iter().any(|service| service.answers.are_waiting()) {
            stop.wait_at_most(LISTENING_POLL);
        } else {
            stop.wait();
        }
    }
    let deadline = Instant::now() + leaving::PATIENCE;
    services.into_iter().for_each(|service| service.finish(deadline));
}

struct Service {
    graph: Arc<Graph>,
    kind: ServiceKind,
    name: String,
    requests: RawReader<Copied>,
    answers: Answers,
}

/// Whom a response goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// By a header before the message.
    Header { client: u64, number: i64 },
    /// By an identity beside the message.
    Beside(SampleIdentity),
}

impl Service {
    fn new(graph: &Arc<Graph>, kind: ServiceKind, name: String) -> Result<Self> {
        let (reading, writing) = (qos::of_reader(Qos::DEFAULT), qos::of_writer(Qos::DEFAULT));
        let asked = Endpoint::of_requests(&name, kind.type_name());
        let (requests, _) = graph.join(asked, &reading, Direction::Reader, |topic| {
            graph.subscriber.create_simple_datareader_no_key(topic, Some(reading.clone()))
        })?;
        let answered = Endpoint::of_responses(&name, kind.type_name());
        let (responses, _) = graph.join(answered, &writing, Direction::Writer, |topic| {
            graph.publisher.create_datawriter_no_key(topic, Some(writing.clone()))
        })?;
        let answers = Answers::new(graph, name.clone(), responses, requests.guid())?;
        Ok(Self { graph: Arc::clone(graph), kind, name, requests, answers })
    }

    /// Answers what was asked. A withdrawn message ends one look, hence the
    /// second.
    fn serve(&mut self, handler: &Handler, stop: &Stop) {
        let late = self.answers.flush();
        self.tell_refused(late);
        let mut num_empty_looks = 0;
        while num_empty_looks < 2 && !stop.is_due() {
            let answered =
                match self.requests.try_take_one_with(CopyOut { max_len: MAX_REQUEST_LEN }) {
                    Ok(Some(message)) => self.answer(message, handler),
                    Ok(None) => {
                        num_empty_looks += 1;
                        continue;
                    }
                    Err(cause) => Err(error("request is not CDR").with_source(cause)),
                };
            self.tell_refused(answered);
        }
    }

    /// Answers what waits, by `deadline`, and leaves the graph.
    fn finish(mut self, deadline: Instant) {
        self.answers.hurry(deadline);
        loop {
            let late = self.answers.flush();
            self.tell_refused(late);
            if !self.answers.are_waiting() {
                break;
            }
            std::thread::sleep(LISTENING_POLL);
        }
        let Self { graph, requests, answers, .. } = self;
        graph.leave(requests.guid());
        graph.see_off(answers.into_writer());
    }

    fn tell_refused(&self, answered: Result<()>) {
        if let Err(reason) = answered {
            let (service, reason) = (self.name.clone(), reason.to_string());
            self.graph.tell(&DoorEvent::Refused { service, reason });
        }
    }

    fn answer(
        &mut self,
        message: DeserializedCacheChange<Copied>,
        handler: &Handler,
    ) -> Result<()> {
        let from = message.writer_guid();
        let beside = message.related_sample_identity().map(|mut identity| {
            // Fast DDS leaves the number to the message that carries it.
            if identity.sequence_number == SequenceNumber::UNKNOWN {
                identity.sequence_number = message.sequence_number;
            }
            identity
        });
        let (caller, request) = read(self.kind, beside, &message.into_value())?;
        let response = handler(request);

        let mut cdr = Vec::new();
        let mut writer = Writer::new(&mut cdr);
        let related = match caller {
            Caller::Header { client, number } => {
                writer.u64(client);
                writer.i64(number);
                None
            }
            Caller::Beside(identity) => Some(identity),
        };
        write_response(&response, &mut writer);
        writer.finish(self.kind.type_name())?;
        self.answers.send(Answer { caller: from, related, cdr: Bytes::from(cdr) })
    }
}

/// Who asks what. `beside` is the identity that came with the message.
fn read(
    kind: ServiceKind,
    beside: Option<SampleIdentity>,
    message: &Copied,
) -> Result<(Caller, Request)> {
    let mut reader = Reader::of_body(kind.type_name(), &message.body, message.big_endian);
    if message.len > message.body.len() {
        let (len, most) = (message.len, message.body.len());
        return Err(reader.error(format!("request has {len} bytes, {most} is the most")));
    }
    let caller = match beside {
        Some(identity) => Caller::Beside(identity),
        None => Caller::Header { client: reader.u64()?, number: reader.i64()? },
    };
    Ok((caller, read_request(kind, &mut reader)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustdds::GUID;

    fn message(body: &[u8], big_endian: bool) -> Copied {
        Copied { body: body.to_owned(), big_endian, len: body.len() }
    }

    #[test]
    fn the_caller_is_known_either_way() {
        let kind = ServiceKind::GetState;
        let header: Vec<u8> = (1..=16).chain([0, 0, 0, 0]).collect();
        for (big_endian, client, number) in [
            (false, 0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09),
            (true, 0x0102_0304_0506_0708, 0x090a_0b0c_0d0e_0f10),
        ] {
            let (caller, request) = read(kind, None, &message(&header, big_endian)).unwrap();
            assert_eq!((caller, request), (Caller::Header { client, number }, Request::GetState));
        }
        let identity = SampleIdentity {
            writer_guid: GUID::from_bytes([7; 16]),
            sequence_number: SequenceNumber::new(3),
        };
        let (caller, request) = read(kind, Some(identity), &message(&[0; 4], false)).unwrap();
        assert_eq!((caller, request), (Caller::Beside(identity), Request::GetState));
    }

    #[test]
    fn a_request_without_a_caller_or_of_too_many_bytes_is_refused() {
        let kind = ServiceKind::GetState;
        assert!(read(kind, None, &message(&[0; 12], false)).is_err());
        let long = Copied { len: 70_000, ..message(&[0; 64], false) };
        let error = read(kind, None, &long).unwrap_err();
        assert!(error.message().contains("70000 bytes, 64 is the most"), "{error}");
    }
}
