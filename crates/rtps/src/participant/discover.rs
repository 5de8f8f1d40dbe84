//! Participants and endpoints that come, change and go (8.5).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Instant;

use super::{Core, Former};
use crate::bounded::Bounded;
use crate::discovery::{
    Endpoint, EndpointData, ParticipantData, Peer, SEDP_READERS_READER, SEDP_READERS_WRITER,
    SEDP_WRITERS_READER, SEDP_WRITERS_WRITER, disposed_guid, mismatch,
};
use crate::qos::{Durability, Reliability};
use crate::reader::WriterProxy;
use crate::types::{
    EndpointKind, EntityId, Event, Guid, GuidPrefix, Mismatch, ParticipantInfo, RemovalReason,
};
use crate::wire::{DISPOSED, Data, UNREGISTERED, pid};

/// An announcement of the participant that these built-in endpoints belong to (9.3.2.12): the
/// bit that says that it has one, the endpoint, and ours that it matches.
const READERS: [(u32, EntityId, EntityId); 2] = [
    (1 << 3, SEDP_WRITERS_READER, SEDP_WRITERS_WRITER),
    (1 << 5, SEDP_READERS_READER, SEDP_READERS_WRITER),
];
const WRITERS: [(u32, EntityId, EntityId); 2] = [
    (1 << 2, SEDP_WRITERS_WRITER, SEDP_WRITERS_READER),
    (1 << 4, SEDP_READERS_WRITER, SEDP_READERS_READER),
];

/// What is told of a peer.
pub(super) fn info(peer: &Peer) -> ParticipantInfo {
    ParticipantInfo {
        guid: Guid { prefix: peer.data.prefix, entity: EntityId::PARTICIPANT },
        name: peer.data.name.clone(),
        user_data: peer.data.user_data.clone(),
        vendor: peer.data.vendor,
        address: *peer.meta.ip(),
    }
}

/// The address by which a peer is reached: the one that it sends from, else one in a network
/// of ours, else any.
pub(super) fn best(
    all: &[SocketAddrV4],
    heard_from: &Ipv4Addr,
    own: &[(Ipv4Addr, u8)],
) -> Option<SocketAddrV4> {
    let rank = |address: &&SocketAddrV4| {
        let ip = *address.ip();
        let mask = |len: u8| u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
        let is_near =
            own.iter().any(|(ours, len)| (ours.to_bits() ^ ip.to_bits()) & mask(*len) == 0);
        if ip == *heard_from {
            0
        } else if ip.is_loopback() {
            3
        } else if is_near {
            1
        } else {
            2
        }
    };
    all.iter().min_by_key(rank).copied()
}

impl Core {
    /// The announcement of a participant, or its end.
    pub(super) fn on_announcement(
        &mut self,
        source: GuidPrefix,
        data: &Data<'_>,
        from: SocketAddrV4,
        now: Instant,
    ) {
        if data.is_key || data.inline.status & (DISPOSED | UNREGISTERED) != 0 {
            let gone = disposed_guid(&data.inline, data.payload, pid::PARTICIPANT_GUID);
            let is_own = gone.is_some_and(|gone| gone.prefix == source);
            let peer = self.peers.map.get(&source);
            if is_own && peer.is_some_and(|peer| peer.sends_from(*from.ip())) {
                self.remove_peer(source, RemovalReason::Left);
            }
            return;
        }
        let Some(found) = ParticipantData::read(data.payload, self.config.limits.locators) else {
            self.statistics.malformed += 1;
            return;
        };
        let is_here = found.domain.is_none_or(|domain| domain == self.config.domain.into());
        if found.prefix != source || !is_here || source == self.config.prefix {
            return;
        }
        if let Some(peer) = self.peers.map.get_mut(&source) {
            // Counted where the datagram was admitted.
            if peer.sends_from(*from.ip()) && peer.data != found {
                self.update_peer(found, from);
            }
            return;
        }
        self.add_peer(found, from, now);
    }

    /// The addresses that a participant may send from: those that it announces, and every
    /// address of this machine if it is on it.
    fn sources_of(&self, data: &ParticipantData, from: SocketAddrV4) -> Vec<Ipv4Addr> {
        let announced = data.meta.iter().chain(&data.default).map(|address| *address.ip());
        let mut sources: Vec<Ipv4Addr> = announced.collect();
        let is_ours = |ip: &Ipv4Addr| self.config.own.iter().any(|(own, _)| own == ip);
        // Only this machine sends from its own addresses; any machine may announce 127.0.0.1.
        let is_here = is_ours(from.ip()) || from.ip().is_loopback();
        if is_here || sources.iter().any(|ip| !ip.is_loopback() && is_ours(ip)) {
            sources.extend(self.config.own.iter().map(|(own, _)| *own));
            sources.push(Ipv4Addr::LOCALHOST);
        }
        if sources.is_empty() {
            sources.push(*from.ip());
        }
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    fn add_peer(&mut self, data: ParticipantData, from: SocketAddrV4, now: Instant) {
        let sources = self.sources_of(&data, from);
        let meta = best(&data.meta, from.ip(), &self.config.own);
        let default = best(&data.default, from.ip(), &self.config.own).or(meta);
        let (Some(meta), Some(default)) = (meta.or(default), default) else { return };
        if !sources.contains(from.ip()) {
            self.statistics.forged += 1;
            return;
        }
        if self.peers.map.is_full() {
            let Some(least) = self.peers.least() else {
                self.statistics.participants_over_limit += 1;
                return;
            };
            self.statistics.participants_over_limit += 1;
            self.remove_peer(least, RemovalReason::Evicted);
        }
        let (prefix, builtin) = (data.prefix, data.builtin);
        let endpoints = Bounded::new(self.config.limits.endpoints);
        let peer = Peer { data, sources, meta, default, heard: now, endpoints };
        let event = Event::ParticipantDiscovered(info(&peer));
        if !self.peers.map.insert(prefix, peer) {
            return;
        }
        self.former.remove(&prefix);
        self.report(event);
        self.announce_to(vec![meta]);
        for (bit, entity, ours) in READERS {
            if builtin & bit != 0
                && let Some(writer) = self.writers.get_mut(&ours)
            {
                let (reliable, local) = (Reliability::Reliable, Durability::TransientLocal);
                let (_, out) = writer.add_reader(Guid { prefix, entity }, reliable, local, now);
                self.post(out);
            }
        }
        for (bit, entity, ours) in WRITERS {
            if builtin & bit != 0
                && let Some(reader) = self.readers.get_mut(&ours)
            {
                let guid = Guid { prefix, entity };
                reader.writers.insert(guid, WriterProxy::new(guid, true, now));
            }
        }
    }

    /// A known participant announces something else than before, from an address of its.
    fn update_peer(&mut self, data: ParticipantData, from: SocketAddrV4) {
        let sources = self.sources_of(&data, from);
        let meta = best(&data.meta, from.ip(), &self.config.own);
        let default = best(&data.default, from.ip(), &self.config.own).or(meta);
        if let (Some(meta), Some(default)) = (meta.or(default), default)
            && sources.contains(from.ip())
            && let Some(peer) = self.peers.map.get_mut(&data.prefix)
        {
            (peer.meta, peer.default, peer.sources, peer.data) = (meta, default, sources, data);
        }
    }

    /// Forgets a participant with all its endpoints.
    pub(super) fn remove_peer(&mut self, prefix: GuidPrefix, reason: RemovalReason) {
        let Some(peer) = self.peers.map.get(&prefix) else { return };
        let meta = peer.meta;
        if reason == RemovalReason::Lost {
            self.readers.values_mut().for_each(|reader| reader.remember(prefix));
        }
        let entities: Vec<EntityId> = peer.endpoints.keys().collect();
        for entity in entities {
            self.remove_endpoint(Guid { prefix, entity });
        }
        for (_, entity, ours) in READERS {
            if let Some(writer) = self.writers.get_mut(&ours) {
                writer.remove_reader(Guid { prefix, entity });
            }
        }
        for (_, entity, ours) in WRITERS {
            if let Some(reader) = self.readers.get_mut(&ours) {
                reader.remove_writer(Guid { prefix, entity });
            }
        }
        self.peers.map.remove(&prefix);
        if reason == RemovalReason::Lost {
            let former = Former { meta, told: None };
            self.former.insert_evicting(prefix, former, |_, former| former.told);
        }
        let guid = Guid { prefix, entity: EntityId::PARTICIPANT };
        self.report(Event::ParticipantRemoved { guid, reason });
    }

    /// Forgets a reader or writer of a peer.
    pub(super) fn remove_endpoint(&mut self, guid: Guid) {
        let Some(peer) = self.peers.map.get_mut(&guid.prefix) else { return };
        let Some(endpoint) = peer.endpoints.remove(&guid.entity) else { return };
        self.peers.num_endpoints -= 1;
        self.unmatch(guid);
        let kind = endpoint.data.info.kind;
        self.report(Event::EndpointRemoved { guid, kind });
    }

    /// Forgets all readers or all writers of a peer.
    pub(super) fn remove_endpoints(&mut self, prefix: GuidPrefix, kind: Option<EndpointKind>) {
        let Some(peer) = self.peers.map.get(&prefix) else { return };
        let all = peer.endpoints.iter();
        let of_kind = all.filter(|(_, endpoint)| Some(endpoint.data.info.kind) == kind);
        let entities: Vec<EntityId> = of_kind.map(|(entity, _)| *entity).collect();
        for entity in entities {
            self.remove_endpoint(Guid { prefix, entity });
        }
    }

    fn unmatch(&mut self, theirs: Guid) {
        let mut all = Vec::new();
        for (entity, reader) in &mut self.readers {
            if let Some(lost) = reader.remove_writer(theirs) {
                all.push((*entity, lost));
            }
        }
        for (entity, writer) in &mut self.writers {
            if writer.remove_reader(theirs) {
                all.push((*entity, 0));
            }
        }
        for (entity, lost) in all {
            let ours = Guid { prefix: self.config.prefix, entity };
            if lost > 0 {
                self.report(Event::Lost { reader: ours, writer: theirs, count: lost });
            }
            self.report(Event::Unmatched { ours, theirs });
        }
    }

    /// The announcement of a reader or writer.
    pub(super) fn on_endpoint(
        &mut self,
        kind: EndpointKind,
        of: GuidPrefix,
        sample: &[u8],
        now: Instant,
    ) {
        let Some(data) = EndpointData::read(kind, sample, self.config.limits.locators) else {
            self.statistics.malformed += 1;
            return;
        };
        let guid = data.info.guid;
        if guid.prefix != of || crate::discovery::is_builtin(guid.entity) {
            return;
        }
        let known = self.peers.map.get(&of).and_then(|peer| peer.endpoints.get(&guid.entity));
        match known {
            Some(endpoint) if endpoint.data == data => return,
            Some(endpoint) if endpoint.data.info.kind != kind => return,
            Some(_) => self.unmatch(guid),
            None => {
                let Some(evicted) = self.peers.make_room(of) else { return };
                if let Some((prefix, entity)) = evicted {
                    self.remove_endpoint(Guid { prefix, entity });
                }
                self.peers.num_endpoints += 1;
            }
        }
        let is_on_topic = self.is_on_topic(&data);
        let Some(peer) = self.peers.map.get_mut(&of) else { return };
        peer.endpoints.insert(guid.entity, Endpoint { data: data.clone(), is_on_topic });
        self.report(Event::EndpointDiscovered(data.info.clone()));
        let is_meant = |ours: &&EndpointData| ours.info.topic == data.info.topic;
        let readers = self.readers.values().map(|reader| &reader.data).filter(is_meant);
        let writers = self.writers.values().map(|writer| &writer.data).filter(is_meant);
        let ours: Vec<EndpointData> = match kind {
            EndpointKind::Writer => readers.cloned().collect(),
            EndpointKind::Reader => writers.cloned().collect(),
        };
        for ours in ours {
            self.try_match(&ours, &data, now);
        }
    }

    fn is_on_topic(&self, data: &EndpointData) -> bool {
        let topic = &data.info.topic;
        self.readers.values().any(|reader| reader.data.info.topic == *topic)
            || self.writers.values().any(|writer| writer.data.info.topic == *topic)
    }

    /// Matches a new endpoint of ours with those of peers.
    pub(super) fn match_ours(&mut self, ours: &EndpointData, now: Instant) {
        let mut found = Vec::new();
        for (_, peer) in self.peers.map.iter_mut() {
            for (_, endpoint) in peer.endpoints.iter_mut() {
                if endpoint.data.info.topic == ours.info.topic {
                    endpoint.is_on_topic = true;
                    if endpoint.data.info.kind != ours.info.kind {
                        found.push(endpoint.data.clone());
                    }
                }
            }
        }
        for theirs in found {
            self.try_match(ours, &theirs, now);
        }
    }

    /// Matches two endpoints of the same topic, or reports why they do not match.
    fn try_match(&mut self, ours: &EndpointData, theirs: &EndpointData, now: Instant) {
        let differs = if ours.info.type_name == theirs.info.type_name {
            match ours.info.kind {
                EndpointKind::Reader => mismatch(&theirs.qos, &ours.qos),
                EndpointKind::Writer => mismatch(&ours.qos, &theirs.qos),
            }
        } else {
            Some(Mismatch::TypeName(theirs.info.type_name.clone()))
        };
        let (our_guid, guid) = (ours.info.guid, theirs.info.guid);
        if let Some(mismatch) = differs {
            self.report(Event::Incompatible { ours: our_guid, theirs: guid, mismatch });
            return;
        }
        self.make_room_to_match(our_guid, guid.prefix);
        let is_in = if let Some(reader) = self.readers.get_mut(&our_guid.entity) {
            let is_reliable = ours.info.qos.reliability == Reliability::Reliable;
            reader.add_writer(guid, is_reliable, now)
        } else if let Some(writer) = self.writers.get_mut(&our_guid.entity) {
            let qos = theirs.info.qos;
            let (is_in, out) = writer.add_reader(guid, qos.reliability, qos.durability, now);
            self.post(out);
            is_in
        } else {
            false
        };
        if is_in {
            self.report(Event::Matched { ours: our_guid, theirs: guid });
        }
    }

    /// Makes room where an endpoint of ours is matched with as many as it may be: one of the
    /// participant with the most goes, unless that is `of` itself.
    fn make_room_to_match(&mut self, ours: Guid, of: GuidPrefix) {
        let reader = self.readers.get(&ours.entity);
        let writer = self.writers.get(&ours.entity);
        let is_full = reader.is_some_and(|reader| reader.writers.is_full())
            || writer.is_some_and(|writer| writer.readers.is_full());
        if !is_full {
            return;
        }
        let mut counts: BTreeMap<GuidPrefix, (usize, Guid)> = BTreeMap::new();
        for theirs in self.matched(ours.entity) {
            counts.entry(theirs.prefix).or_insert((0, theirs)).0 += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, (count, _))| *count);
        let Some((_, (_, theirs))) = most.filter(|(prefix, _)| *prefix != of) else { return };
        let reader = self.readers.get_mut(&ours.entity);
        let lost = reader.and_then(|reader| reader.remove_writer(theirs)).unwrap_or(0);
        if lost > 0 {
            self.report(Event::Lost { reader: ours, writer: theirs, count: lost });
        }
        if let Some(writer) = self.writers.get_mut(&ours.entity) {
            writer.remove_reader(theirs);
        }
        self.statistics.matches_over_limit += 1;
        self.report(Event::Unmatched { ours, theirs });
    }
}
