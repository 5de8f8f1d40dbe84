//! Who is in the domain: DDSI-RTPS chapter 8.5 (SPDP, SEDP), with the encoding of 9.6.2.

mod duration;
mod endpoint;
mod participant;
mod peers;
mod qos;

pub(crate) use endpoint::{EndpointData, disposed_guid};
pub(crate) use participant::ParticipantData;
pub(crate) use peers::{Endpoint, Peer, Peers};
pub(crate) use qos::{EndpointQos, mismatch};

use crate::types::EntityId;

/// No assigned vendor: peers then follow only the specification.
pub(crate) const VENDOR: [u8; 2] = [0x01, 0x7e];

/// Bytes of a name or of user data.
pub(crate) const MAX_TEXT: usize = 1000;

/// Built-in entities (9.3.1.5).
pub(crate) const SPDP_WRITER: EntityId = EntityId([0, 1, 0, 0xc2]);
pub(crate) const SPDP_READER: EntityId = EntityId([0, 1, 0, 0xc7]);
pub(crate) const SEDP_WRITERS_WRITER: EntityId = EntityId([0, 0, 3, 0xc2]);
pub(crate) const SEDP_WRITERS_READER: EntityId = EntityId([0, 0, 3, 0xc7]);
pub(crate) const SEDP_READERS_WRITER: EntityId = EntityId([0, 0, 4, 0xc2]);
pub(crate) const SEDP_READERS_READER: EntityId = EntityId([0, 0, 4, 0xc7]);

/// The built-in entities that this participant has: announcer and detector of participants,
/// writers and readers (9.3.2.12).
pub(crate) const BUILTIN_ENDPOINTS: u32 = 0x3f;

/// Whether an entity is built in.
pub(crate) fn is_builtin(entity: EntityId) -> bool {
    entity.0[3] & 0xc0 == 0xc0
}

#[cfg(test)]
mod tests;
