//! A peer that sends any datagrams, written by the encoder of this crate or byte by byte.

use super::net::{TYPE, ip};
use crate::discovery::{
    EndpointData, EndpointQos, ParticipantData, SEDP_READERS_READER, SEDP_READERS_WRITER,
    SEDP_WRITERS_READER, SEDP_WRITERS_WRITER, SPDP_READER, SPDP_WRITER, VENDOR,
};
use crate::participant::Core;
use crate::qos::Qos;
use crate::types::{EndpointInfo, EndpointKind, EntityId, Guid, GuidPrefix};
use crate::wire::{DataParts, FragmentParts, Message, NumberSet, Payload};
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

pub(super) const WRITER: EntityId = EntityId([0, 0, 1, 3]);
pub(super) const READER: EntityId = EntityId([0, 0, 2, 4]);

/// A participant of which a test sends every datagram.
#[derive(Clone, Copy)]
pub(super) struct Peer {
    pub prefix: GuidPrefix,
    pub from: SocketAddrV4,
}

impl Peer {
    pub fn new(name: u8) -> Self {
        let from = SocketAddrV4::new(ip(name.into()), 7410);
        Self { prefix: GuidPrefix([name; 12]), from }
    }

    pub fn message(&self) -> Message {
        Message::from(self.prefix)
    }

    pub fn announcement(&self, lease: Duration) -> Vec<u8> {
        ParticipantData {
            prefix: self.prefix,
            vendor: VENDOR,
            name: "peer".to_owned(),
            user_data: Vec::new(),
            lease,
            builtin: 0x3f,
            domain: None,
            meta: vec![self.from],
            default: vec![self.from],
            meta_multicast: Vec::new(),
        }
        .write()
    }

    pub fn announce(&self, core: &mut Core, now: Instant) {
        let sample = self.announcement(Duration::from_secs(100));
        let bytes = self.data([SPDP_READER, SPDP_WRITER], 1, &sample);
        core.handle(&bytes, self.from, now);
    }

    pub fn data(&self, [reader, writer]: [EntityId; 2], number: i64, payload: &[u8]) -> Vec<u8> {
        let mut message = self.message();
        let payload = Payload::Data(payload);
        message.data(&DataParts { reader, writer, number, inline: &[], payload });
        message.finish()
    }

    pub fn fragment(
        &self,
        writer: EntityId,
        number: i64,
        [fragment, size, total]: [u32; 3],
    ) -> Vec<u8> {
        let mut message = self.message();
        message.data_frag(&FragmentParts {
            reader: EntityId::UNKNOWN,
            writer,
            number,
            fragment,
            size: size as u16,
            total,
            inline: &[],
            payload: &vec![7; size as usize],
        });
        message.finish()
    }

    pub fn heartbeat(&self, writer: EntityId, range: [i64; 2], count: u32) -> Vec<u8> {
        let mut message = self.message();
        message.heartbeat([EntityId::UNKNOWN, writer], range, count);
        message.finish()
    }

    pub fn ack_nack(&self, ids: [EntityId; 2], base: i64, count: u32) -> Vec<u8> {
        let mut message = self.message();
        let mut set = NumberSet::new(base);
        (0..256).for_each(|offset| set.insert(base + offset));
        message.ack_nack(ids[0], ids[1], &set, count, false);
        message.finish()
    }

    pub fn endpoint(&self, entity: EntityId, topic: &str, qos: Qos) -> EndpointData {
        let kind = if entity.0[3] == 3 { EndpointKind::Writer } else { EndpointKind::Reader };
        let info = EndpointInfo {
            guid: Guid { prefix: self.prefix, entity },
            kind,
            topic: topic.to_owned(),
            type_name: TYPE.to_owned(),
            qos,
            user_data: Vec::new(),
        };
        EndpointData { info, qos: EndpointQos::new(qos), unicast: Vec::new() }
    }

    /// Announces an endpoint as the `number`th, with the heartbeat that makes it certain.
    pub fn announce_endpoint(
        &self,
        core: &mut Core,
        data: &EndpointData,
        number: i64,
        now: Instant,
    ) {
        let (ids, writer) = match data.info.kind {
            EndpointKind::Writer => {
                ([SEDP_WRITERS_READER, SEDP_WRITERS_WRITER], SEDP_WRITERS_WRITER)
            }
            EndpointKind::Reader => {
                ([SEDP_READERS_READER, SEDP_READERS_WRITER], SEDP_READERS_WRITER)
            }
        };
        core.handle(&self.data(ids, number, &data.write()), self.from, now);
        core.handle(&self.heartbeat(writer, [1, number], number as u32), self.from, now);
    }
}
