//! The announcement of a participant (8.5.3.2, 9.6.2.2).

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use super::duration::duration;
use super::{BUILTIN_ENDPOINTS, MAX_TEXT, VENDOR};
use crate::types::{EntityId, Guid, GuidPrefix};
use crate::wire::{Cursor, Parameter, ParameterWriter, parameters, pid};

/// What a participant announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParticipantData {
    pub prefix: GuidPrefix,
    pub vendor: [u8; 2],
    pub name: String,
    pub user_data: Vec<u8>,
    pub lease: Duration,
    pub builtin: u32,
    /// `None` of a participant that does not say it.
    pub domain: Option<u32>,
    /// Addresses for discovery, and for samples.
    pub meta: Vec<SocketAddrV4>,
    pub default: Vec<SocketAddrV4>,
    pub meta_multicast: Vec<SocketAddrV4>,
}

/// The lease of a participant that announces none (8.5.3.2).
const DEFAULT_LEASE: Duration = Duration::from_secs(100);

impl ParticipantData {
    /// Reads a sample with its encapsulation header; at most `locators` addresses of a kind.
    pub fn read(sample: &[u8], locators: usize) -> Option<Self> {
        let mut cursor = list(sample)?;
        let mut data = Self {
            prefix: GuidPrefix::default(),
            vendor: [0; 2],
            name: String::new(),
            user_data: Vec::new(),
            lease: DEFAULT_LEASE,
            builtin: 0,
            domain: None,
            meta: Vec::new(),
            default: Vec::new(),
            meta_multicast: Vec::new(),
        };
        let mut guid = None;
        parameters(&mut cursor, |Parameter { id, mut value }| match id {
            pid::PARTICIPANT_GUID => guid = value.guid(),
            pid::VENDOR_ID => data.vendor = value.array().unwrap_or_default(),
            pid::LEASE_DURATION => data.lease = duration(&mut value).unwrap_or(DEFAULT_LEASE),
            pid::BUILTIN_ENDPOINT_SET => data.builtin = value.u32().unwrap_or(0),
            pid::DOMAIN_ID => data.domain = value.u32(),
            pid::ENTITY_NAME => data.name = value.text(MAX_TEXT).unwrap_or_default(),
            pid::USER_DATA => data.user_data = value.octets(MAX_TEXT).unwrap_or_default(),
            pid::METATRAFFIC_UNICAST_LOCATOR => add_locator(&mut data.meta, value, locators),
            pid::DEFAULT_UNICAST_LOCATOR => add_locator(&mut data.default, value, locators),
            _ => {}
        })?;
        data.prefix = guid.filter(|guid| guid.entity == EntityId::PARTICIPANT)?.prefix;
        Some(data)
    }

    /// The sample of this participant, with its encapsulation header.
    pub fn write(&self) -> Vec<u8> {
        let mut list = ParameterWriter::sample();
        list.put(pid::PROTOCOL_VERSION, &[2, 3, 0, 0]);
        list.put(pid::VENDOR_ID, &[VENDOR[0], VENDOR[1], 0, 0]);
        let guid = Guid { prefix: self.prefix, entity: EntityId::PARTICIPANT };
        list.put(pid::PARTICIPANT_GUID, &guid.to_bytes());
        list.put_u32(pid::BUILTIN_ENDPOINT_SET, BUILTIN_ENDPOINTS);
        if let Some(domain) = self.domain {
            list.put_u32(pid::DOMAIN_ID, domain);
        }
        for (id, addresses) in [
            (pid::METATRAFFIC_UNICAST_LOCATOR, &self.meta),
            (pid::DEFAULT_UNICAST_LOCATOR, &self.default),
            (pid::METATRAFFIC_MULTICAST_LOCATOR, &self.meta_multicast),
        ] {
            addresses.iter().for_each(|address| list.put(id, &locator(*address)));
        }
        let lease = [(self.lease.as_secs() as u32).to_le_bytes(), [0; 4]].concat();
        list.put(pid::LEASE_DURATION, &lease);
        if !self.name.is_empty() {
            list.put_text(pid::ENTITY_NAME, &self.name);
        }
        if !self.user_data.is_empty() {
            list.put_octets(pid::USER_DATA, &self.user_data);
        }
        list.end()
    }
}

/// The list of parameters in a sample: PL_CDR of either byte order (10.5).
pub(super) fn list(sample: &[u8]) -> Option<Cursor<'_>> {
    let (header, body) = sample.split_first_chunk::<4>()?;
    match header[..2] {
        [0, 2] => Some(Cursor::new(body, true)),
        [0, 3] => Some(Cursor::new(body, false)),
        _ => None,
    }
}

/// Adds an address of UDP over IPv4; others are ignored.
pub(super) fn add_locator(found: &mut Vec<SocketAddrV4>, mut value: Cursor<'_>, most: usize) {
    let mut read = || {
        let (kind, port) = (value.u32()?, value.u32()?);
        value.take(12)?;
        let ip = Ipv4Addr::from(value.array::<4>()?);
        let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
        let is_host = !(ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast());
        (kind == 1 && is_host).then(|| SocketAddrV4::new(ip, port))
    };
    if let Some(address) = read()
        && found.len() < most
        && !found.contains(&address)
    {
        found.push(address);
    }
}

fn locator(address: SocketAddrV4) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[0] = 1;
    bytes[4..8].copy_from_slice(&u32::from(address.port()).to_le_bytes());
    bytes[20..].copy_from_slice(&address.ip().octets());
    bytes
}
