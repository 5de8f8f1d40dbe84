//! What the participant tells of its state.

use super::{Core, discover};
use crate::types::{EndpointInfo, EntityId, Guid, ParticipantInfo, Statistics};
use crate::writer::Writer;

impl Core {
    /// See [`crate::Writer::is_confirmed`].
    pub fn is_confirmed(&self, writer: EntityId) -> bool {
        self.writers.get(&writer).is_none_or(Writer::is_confirmed)
    }

    /// See [`crate::Writer::is_known_to`].
    pub fn is_known_to(&self, writer: EntityId, reader: Guid) -> bool {
        let reader = self.writers.get(&writer).and_then(|writer| writer.readers.get(&reader));
        reader.is_some_and(|reader| reader.has_answered)
    }

    /// The endpoints of peers that are matched with one of ours.
    pub fn matched(&self, entity: EntityId) -> Vec<Guid> {
        let of_reader = self.readers.get(&entity).map(|reader| reader.writers.keys().collect());
        let of_writer = || self.writers.get(&entity).map(|w| w.readers.keys().collect());
        of_reader.or_else(of_writer).unwrap_or_default()
    }

    /// The participants that are known.
    pub fn participants(&self) -> Vec<ParticipantInfo> {
        self.peers.map.iter().map(|(_, peer)| discover::info(peer)).collect()
    }

    /// The endpoints of peers that are known.
    pub fn endpoints(&self) -> Vec<EndpointInfo> {
        let all = self.peers.map.iter().flat_map(|(_, peer)| peer.endpoints.iter());
        all.map(|(_, endpoint)| endpoint.data.info.clone()).collect()
    }

    /// Counters.
    pub fn statistics(&self) -> Statistics {
        let mut sum = self.statistics;
        let past = &self.past;
        sum.samples_over_limit = past.samples_over_limit;
        sum.samples_replaced = past.samples_replaced;
        sum.matches_over_limit += past.matches_over_limit;
        sum.unfinished_dropped = past.unfinished_dropped;
        sum.renumbered = past.renumbered;
        sum.stalled = past.stalled;
        for reader in self.readers.values() {
            let past = reader.past();
            sum.samples_over_limit += reader.samples_over;
            sum.samples_replaced += reader.replaced;
            sum.matches_over_limit += reader.writers.over;
            sum.unfinished_dropped += past.dropped;
            sum.renumbered += past.renumbered;
            sum.held_bytes += reader.held();
        }
        for writer in self.writers.values() {
            sum.stalled += writer.num_stalled;
            sum.matches_over_limit += writer.readers.over;
            sum.history_bytes += writer.bytes();
        }
        sum.participants_over_limit += self.peers.map.over;
        sum.endpoints_over_limit = self.peers.endpoints_over;
        sum.events_dropped = self.events.over;
        sum.sends_dropped += self.out.over;
        sum.participants = self.peers.map.len();
        sum.endpoints = self.peers.num_endpoints;
        sum
    }
}
