//! `ros_discovery_info`: announces which readers and writers belong to the node,
//! so that `ros2 node list` and `ros2 node info` show it.

use rustdds::bytes::Bytes;
use rustdds::policy::{Durability, History, Reliability};
use rustdds::{
    DomainParticipant, Duration, GUID, Publisher, QosPolicyBuilder, RTPSEntity, TopicKind,
};

use super::error::error;
use super::payload::{self, RawWriter};
use crate::NodeName;
use crate::cdr::Writer;
use det_post_types::Result;

const TOPIC: &str = "ros_discovery_info";
const TYPE: &str = "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_";

/// The published announcement of the node.
pub(super) struct Announcement {
    writer: RawWriter,
    entities: Entities,
}

/// `rmw_dds_common/ParticipantEntitiesInfo` of one node.
struct Entities {
    participant: GUID,
    node: NodeName,
    gid_len: usize,
    readers: Vec<GUID>,
    writers: Vec<GUID>,
}

/// Which kind of endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// It receives messages.
    Reader,
    /// It sends messages.
    Writer,
}

impl Announcement {
    /// Announces a node without endpoints. A global identifier has `gid_len`
    /// bytes.
    pub fn new(
        participant: &DomainParticipant,
        publisher: &Publisher,
        node: NodeName,
        gid_len: usize,
    ) -> Result<Self> {
        let qos = QosPolicyBuilder::new()
            .reliability(Reliability::Reliable { max_blocking_time: Duration::ZERO })
            .durability(Durability::TransientLocal)
            .history(History::KeepLast { depth: 1 })
            .build();
        let qos = super::qos::with_type(qos, "rmw_dds_common/msg/ParticipantEntitiesInfo");
        let refused = |cause| error(format!("cannot announce {}", node.full())).with_source(cause);
        let topic = participant
            .create_topic(TOPIC.to_owned(), TYPE.to_owned(), &qos, TopicKind::NoKey)
            .map_err(|cause| refused(Box::new(cause)))?;
        let writer = publisher
            .create_datawriter_no_key(&topic, Some(qos))
            .map_err(|cause| refused(Box::new(cause)))?;
        let entities = Entities {
            participant: participant.guid(),
            node,
            gid_len,
            readers: Vec::new(),
            writers: Vec::new(),
        };
        let announcement = Self { writer, entities };
        announcement.publish()?;
        Ok(announcement)
    }

    /// Announces another endpoint.
    pub fn add(&mut self, guid: GUID, direction: Direction) -> Result<()> {
        match direction {
            Direction::Reader => self.entities.readers.push(guid),
            Direction::Writer => self.entities.writers.push(guid),
        }
        self.publish()
    }

    /// Withdraws an endpoint.
    pub fn remove(&mut self, guid: GUID) -> Result<()> {
        self.entities.readers.retain(|other| *other != guid);
        self.entities.writers.retain(|other| *other != guid);
        self.publish()
    }

    fn publish(&self) -> Result<()> {
        let mut cdr = Vec::new();
        self.entities.encode(&mut cdr)?;
        payload::write(&self.writer, &Bytes::from(cdr), None, TOPIC)
    }
}

impl Entities {
    fn encode(&self, cdr: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(cdr);
        self.write_gid(&mut writer, self.participant);
        writer.sequence_len(1);
        writer.str(self.node.namespace());
        writer.str(self.node.name());
        for guids in [&self.readers, &self.writers] {
            writer.sequence_len(guids.len());
            for guid in guids {
                self.write_gid(&mut writer, *guid);
            }
        }
        writer.finish("rmw_dds_common/msg/ParticipantEntitiesInfo")
    }

    fn write_gid(&self, writer: &mut Writer<'_>, guid: GUID) {
        let bytes = guid.to_bytes();
        for i in 0..self.gid_len {
            writer.u8(bytes.get(i).copied().unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdr::Reader;

    #[test]
    fn the_node_is_announced_with_its_endpoints() {
        let guid = |n: u8| GUID::from_bytes(std::array::from_fn(|i| n + i as u8));
        for gid_len in [16, 24] {
            let entities = Entities {
                participant: guid(1),
                node: NodeName::new("/front", "det_post").unwrap(),
                gid_len,
                readers: vec![guid(20), guid(40)],
                writers: vec![guid(60)],
            };
            let mut cdr = Vec::new();
            entities.encode(&mut cdr).unwrap();
            let mut reader = Reader::new("test", &cdr).unwrap();
            let gid = |reader: &mut Reader<'_>| {
                let bytes: Vec<u8> = (0..gid_len).map(|_| reader.u8().unwrap()).collect();
                assert!(bytes[16..].iter().all(|byte| *byte == 0));
                bytes[..16].to_vec()
            };
            assert_eq!(gid(&mut reader), guid(1).to_bytes());
            assert_eq!(reader.sequence_len(1).unwrap(), 1);
            assert_eq!((reader.str().unwrap(), reader.str().unwrap()), ("/front", "det_post"));
            for guids in [&entities.readers, &entities.writers] {
                assert_eq!(reader.sequence_len(gid_len).unwrap(), guids.len());
                for guid in guids {
                    assert_eq!(gid(&mut reader), guid.to_bytes());
                }
            }
            assert_eq!(reader.remaining(), 0);
        }
    }
}
