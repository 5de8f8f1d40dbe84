//! A participant on sockets: UDP over IPv4 (9.6.1), one thread that receives, and timers.

mod interfaces;
mod sockets;
mod worker;

pub(crate) use worker::Shared;

/// Ports (9.6.1.1): of a domain, of its multicast, and of the participants of a machine.
fn multicast_port(domain: u16) -> u16 {
    7400 + 250 * domain
}

/// The ports of a machine's participant, for discovery and for samples.
fn unicast_ports(domain: u16, participant: u16) -> [u16; 2] {
    [10, 11].map(|offset| 7400 + 250 * domain + 2 * participant + offset)
}

/// The last domain whose ports exist.
pub(crate) const MAX_DOMAIN: u16 = 232;

/// Participants of a machine that have ports in each domain.
const MAX_PARTICIPANTS: u16 = 119;
