//! `ros_discovery_info`: announces which readers and writers belong to the node,
//! so that `ros2 node list` and `ros2 node info` show it.

use det_post_rtps::{Guid, Participant, Writer as DdsWriter, WriterSettings};

use super::error::cannot_join;
use super::{names, qos, write};
use crate::NodeName;
use crate::cdr::Writer;
use crate::middleware::Qos;
use det_post_types::Result;

const TOPIC: &str = "ros_discovery_info";
const TYPE: &str = "rmw_dds_common/msg/ParticipantEntitiesInfo";

/// The published announcement of the node.
pub(super) struct Announcement {
    writer: DdsWriter,
    entities: Entities,
}

/// `rmw_dds_common/ParticipantEntitiesInfo` of one node.
struct Entities {
    participant: Guid,
    node: NodeName,
    gid_len: usize,
    readers: Vec<Guid>,
    writers: Vec<Guid>,
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
    pub fn new(participant: &Participant, node: NodeName, gid_len: usize) -> Result<Self> {
        let settings = WriterSettings {
            topic: TOPIC.to_owned(),
            type_name: names::message_type(TYPE),
            qos: qos::policies(Qos::LATCHED),
            user_data: qos::user_data(TYPE),
            // A reader that is behind gets the newest announcement.
            keep_unconfirmed: 0,
        };
        let writer =
            participant.create_writer(settings).map_err(|cause| cannot_join(TOPIC, cause))?;
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
    pub fn add(&mut self, guid: Guid, direction: Direction) -> Result<()> {
        match direction {
            Direction::Reader => self.entities.readers.push(guid),
            Direction::Writer => self.entities.writers.push(guid),
        }
        self.publish()
    }

    /// Withdraws an endpoint.
    pub fn remove(&mut self, guid: Guid) -> Result<()> {
        self.entities.readers.retain(|other| *other != guid);
        self.entities.writers.retain(|other| *other != guid);
        self.publish()
    }

    fn publish(&self) -> Result<()> {
        let mut cdr = Vec::new();
        self.entities.encode(&mut cdr)?;
        write::write(&self.writer, &cdr, None, TOPIC)
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
        writer.finish(TYPE)
    }

    fn write_gid(&self, writer: &mut Writer<'_>, guid: Guid) {
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
        let guid = |n: u8| Guid::from_bytes(std::array::from_fn(|i| n + i as u8));
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
