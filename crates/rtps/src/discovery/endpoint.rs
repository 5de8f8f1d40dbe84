//! The announcement of a reader or writer (8.5.4.4, 9.6.2.2).

use std::net::SocketAddrV4;

use super::participant::{add_locator, list};
use super::qos::EndpointQos;
use super::{MAX_TEXT, VENDOR};
use crate::types::{EndpointInfo, EndpointKind, EntityId, Guid};
use crate::wire::{Inline, Parameter, ParameterWriter, parameters, pid};

/// What is announced of a reader or writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointData {
    pub info: EndpointInfo,
    pub qos: EndpointQos,
    /// Addresses of the endpoint itself; mostly none.
    pub unicast: Vec<SocketAddrV4>,
}

impl EndpointData {
    /// Reads a sample with its encapsulation header; at most `locators` addresses.
    pub fn read(kind: EndpointKind, sample: &[u8], locators: usize) -> Option<Self> {
        let mut cursor = list(sample)?;
        let mut qos = EndpointQos::unsaid(kind);
        let (mut guid, mut topic, mut type_name) = (None, None, None);
        let (mut user_data, mut unicast) = (Vec::new(), Vec::new());
        let mut is_valid = true;
        parameters(&mut cursor, |parameter| {
            let Parameter { id, mut value } = parameter;
            match id {
                pid::ENDPOINT_GUID => guid = value.guid(),
                pid::TOPIC_NAME => topic = value.text(MAX_TEXT),
                pid::TYPE_NAME => type_name = value.text(MAX_TEXT),
                pid::USER_DATA => user_data = value.octets(MAX_TEXT).unwrap_or_default(),
                pid::UNICAST_LOCATOR => add_locator(&mut unicast, value, locators),
                _ => is_valid &= qos.read(Parameter { id, value }).is_some(),
            }
        })?;
        if !is_valid {
            return None;
        }
        let (topic, type_name, policies) = (topic?, type_name?, qos.qos);
        let guid = guid?;
        let info = EndpointInfo { guid, kind, topic, type_name, qos: policies, user_data };
        Some(Self { info, qos, unicast })
    }

    /// The sample of an endpoint of ours, with its encapsulation header.
    pub fn write(&self) -> Vec<u8> {
        let EndpointInfo { guid, topic, type_name, user_data, .. } = &self.info;
        let mut list = ParameterWriter::sample();
        list.put(pid::ENDPOINT_GUID, &guid.to_bytes());
        let participant = Guid { prefix: guid.prefix, entity: EntityId::PARTICIPANT };
        list.put(pid::PARTICIPANT_GUID, &participant.to_bytes());
        list.put(pid::PROTOCOL_VERSION, &[2, 3, 0, 0]);
        list.put(pid::VENDOR_ID, &[VENDOR[0], VENDOR[1], 0, 0]);
        list.put_text(pid::TOPIC_NAME, topic);
        list.put_text(pid::TYPE_NAME, type_name);
        self.qos.write(&mut list);
        if !user_data.is_empty() {
            list.put_octets(pid::USER_DATA, user_data);
        }
        list.end()
    }
}

/// Which entity a sample without data disposes of: by its inline key, or by its payload,
/// a list or the key itself.
pub(crate) fn disposed_guid(inline: &Inline, payload: &[u8], key: u16) -> Option<Guid> {
    if inline.key_hash.is_some() {
        return inline.key_hash;
    }
    let mut guid = None;
    if let Some(mut cursor) = list(payload) {
        parameters(&mut cursor, |Parameter { id, mut value }| {
            if id == key {
                guid = value.guid();
            }
        })?;
        return guid;
    }
    let bytes = payload.get(4..20)?;
    bytes.try_into().ok().map(Guid::from_bytes)
}
