//! The participants that are known, with their readers and writers.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use super::endpoint::EndpointData;
use super::participant::ParticipantData;
use crate::bounded::Bounded;
use crate::types::{EntityId, GuidPrefix};

/// A silent participant is dropped after that long, whatever it announces.
const MAX_LEASE: Duration = Duration::from_secs(300);

/// Another participant.
pub(crate) struct Peer {
    pub data: ParticipantData,
    /// The addresses that it sends from.
    pub sources: Vec<Ipv4Addr>,
    /// Where it is reached: for discovery, for samples.
    pub meta: SocketAddrV4,
    pub default: SocketAddrV4,
    /// When something arrived from it.
    pub heard: Instant,
    pub endpoints: Bounded<EntityId, Endpoint>,
}

/// A reader or writer of a peer.
pub(crate) struct Endpoint {
    pub data: EndpointData,
    /// It is on a topic of ours.
    pub is_on_topic: bool,
}

impl Peer {
    /// When it counts as lost.
    pub fn expires(&self) -> Instant {
        self.heard + self.data.lease.min(MAX_LEASE)
    }

    /// Whether it may send from an address.
    pub fn sends_from(&self, address: Ipv4Addr) -> bool {
        self.sources.contains(&address)
    }
}

/// All of them.
pub(crate) struct Peers {
    pub map: Bounded<GuidPrefix, Peer>,
    max_endpoints: usize,
    /// Endpoints of all peers.
    pub num_endpoints: usize,
    /// Endpoints that were refused or evicted.
    pub endpoints_over: u64,
}

impl Peers {
    pub fn new(max_participants: usize, max_endpoints: usize) -> Self {
        let map = Bounded::new(max_participants);
        Self { map, max_endpoints, num_endpoints: 0, endpoints_over: 0 }
    }

    /// The peer that goes when another one is to come: one without endpoints that has been
    /// silent longest, else the one with the most endpoints off our topics.
    pub fn least(&self) -> Option<GuidPrefix> {
        let without = self.map.iter().filter(|(_, peer)| peer.endpoints.is_empty());
        if let Some((prefix, _)) = without.min_by_key(|(_, peer)| peer.heard) {
            return Some(*prefix);
        }
        let off = |peer: &Peer| peer.endpoints.iter().filter(|(_, e)| !e.is_on_topic).count();
        let useless =
            self.map.iter().filter(|(_, p)| p.endpoints.iter().all(|(_, e)| !e.is_on_topic));
        useless.max_by_key(|(_, peer)| off(peer)).map(|(prefix, _)| *prefix)
    }

    /// Makes room for an endpoint of `of`: an endpoint off our topics of the participant with
    /// the most endpoints goes, unless that is `of` itself, whose new one is refused. Returns
    /// `None` for refused, else what went.
    pub fn make_room(&mut self, of: GuidPrefix) -> Option<Option<(GuidPrefix, EntityId)>> {
        if self.num_endpoints < self.max_endpoints {
            return Some(None);
        }
        self.endpoints_over += 1;
        let most = self.map.iter().max_by_key(|(_, peer)| peer.endpoints.len())?;
        let (prefix, peer) = (*most.0, most.1);
        if prefix == of {
            return None;
        }
        let off = peer.endpoints.iter().find(|(_, endpoint)| !endpoint.is_on_topic);
        off.map(|(entity, _)| Some((prefix, *entity)))
    }
}
