//! A client of a service by `det_post_rtps`, which identifies itself as Fast DDS does.

use super::peer::{PATIENCE, dds_type};
use det_post_rtps::{
    Durability, History, Interfaces, Participant, ParticipantSettings, Qos, Reader, ReaderSettings,
    Reliability, SampleIdentity, WriteOptions, Writer, WriterSettings,
};
use std::time::{Duration, Instant};

const QOS: Qos = Qos {
    reliability: Reliability::Reliable,
    durability: Durability::Volatile,
    history: History::KeepLast(10),
};

/// A client that identifies itself in the metadata of its requests.
pub struct MetadataClient {
    requests: Writer,
    responses: Reader,
    _participant: Participant,
}

impl MetadataClient {
    /// A client of a service by its full name.
    pub fn new(domain: u16, service: &str, service_type: &str) -> Self {
        let interfaces = Interfaces::Localhost;
        let settings = ParticipantSettings { interfaces, ..ParticipantSettings::new(domain) };
        let participant = Participant::join(settings).unwrap();
        let type_of = |part: &str| dds_type(&format!("{service_type}_{part}"));
        let requests = participant.create_writer(WriterSettings {
            topic: format!("rq{service}Request"),
            type_name: type_of("Request"),
            qos: QOS,
            user_data: Vec::new(),
            keep_unconfirmed: 100,
        });
        let responses = participant.create_reader(ReaderSettings {
            topic: format!("rr{service}Reply"),
            type_name: type_of("Response"),
            qos: QOS,
            user_data: Vec::new(),
            assembler: None,
        });
        let (requests, responses) = (requests.unwrap(), responses.unwrap());
        Self { requests, responses, _participant: participant }
    }

    /// The response to a request, both whole messages.
    pub fn ask(&self, request: &[u8]) -> Vec<u8> {
        let began = Instant::now();
        // A volatile request reaches only the servers that know this client.
        let is_known = |reader| self.requests.is_known_to(reader);
        while !self.requests.matched().into_iter().any(is_known) {
            assert!(began.elapsed() < PATIENCE, "no server");
            std::thread::sleep(Duration::from_millis(5));
        }
        // As Fast DDS does it: the reader of the responses, and no number.
        let writer = self.responses.guid();
        let related = Some(SampleIdentity { writer, number: 0 });
        let options = WriteOptions { related, source_timestamp: None };
        let number = self.requests.write(request, &options).unwrap();
        let asked = SampleIdentity { writer, number };
        loop {
            assert!(began.elapsed() < PATIENCE, "no answer");
            match self.responses.take() {
                Some(response) if response.related == Some(asked) => {
                    return response.data.bytes().to_owned();
                }
                _ => self.responses.wait(Duration::from_millis(50)),
            };
        }
    }
}
