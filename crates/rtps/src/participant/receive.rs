//! Datagrams that arrive (8.3.4: the receiver's state).

use std::net::SocketAddrV4;
use std::time::Instant;

use super::Core;
use crate::discovery::{
    SEDP_READERS_READER, SEDP_WRITERS_READER, SPDP_WRITER, disposed_guid, is_builtin,
};
use crate::reader::{Ask, Effects, Reader};
use crate::types::{EndpointKind, EntityId, Event, Guid, GuidPrefix, SampleIdentity};
use crate::wire::{DISPOSED, Data, Header, Message, NumberSet, Submessage, UNREGISTERED, pid};

/// The vendor whose writers send again what they think is confirmed, for a request from
/// number 0 on; the specification has no such number, and others refuse it.
const FAST_DDS: [u8; 2] = [0x01, 0x0f];

/// What precedes a submessage in its datagram.
struct State {
    source: GuidPrefix,
    /// The source is a known participant, at an address of its.
    is_known: bool,
    /// The datagram was counted as one of an unknown participant.
    is_stranger: bool,
    is_for_us: bool,
    timestamp: Option<i64>,
    from: SocketAddrV4,
    now: Instant,
}

impl Core {
    /// Processes a datagram. Whatever its bytes are, what is kept stays within the limits.
    pub fn handle(&mut self, datagram: &[u8], from: SocketAddrV4, now: Instant) {
        self.observe(now);
        self.statistics.datagrams += 1;
        let Some((Header { prefix }, submessages)) = Header::read(datagram) else {
            self.statistics.malformed += 1;
            return;
        };
        if prefix == self.config.prefix {
            return;
        }
        let is_known = self.admit(prefix, from, now);
        let mut state = State {
            source: prefix,
            is_known,
            is_stranger: false,
            is_for_us: true,
            timestamp: None,
            from,
            now,
        };
        for submessage in submessages {
            match submessage {
                None => self.statistics.malformed += 1,
                Some(submessage) => self.on_submessage(submessage, &mut state),
            }
        }
    }

    /// Whether a participant is known, and sends from an address that it announced.
    fn admit(&mut self, prefix: GuidPrefix, from: SocketAddrV4, now: Instant) -> bool {
        match self.peers.map.get_mut(&prefix) {
            Some(peer) if peer.sends_from(*from.ip()) => {
                peer.heard = now;
                true
            }
            Some(_) => {
                self.statistics.forged += 1;
                false
            }
            None => {
                self.tell_former(prefix, from, now);
                false
            }
        }
    }

    fn on_submessage(&mut self, submessage: Submessage<'_>, state: &mut State) {
        match submessage {
            Submessage::InfoDestination(prefix) => {
                state.is_for_us = prefix == GuidPrefix::default() || prefix == self.config.prefix;
            }
            Submessage::InfoTimestamp(timestamp) => state.timestamp = timestamp,
            Submessage::InfoSource(prefix) => {
                state.source = prefix;
                state.is_known =
                    prefix != self.config.prefix && self.admit(prefix, state.from, state.now);
            }
            Submessage::Data(data) if data.writer == SPDP_WRITER => {
                if state.is_for_us {
                    self.on_announcement(state.source, &data, state.from, state.now);
                }
            }
            other if state.is_known => {
                if state.is_for_us {
                    self.on_known(other, state);
                }
            }
            _ => {
                // What is forged was counted where the datagram was admitted.
                if !state.is_stranger && !self.peers.map.contains(&state.source) {
                    state.is_stranger = true;
                    self.statistics.strangers += 1;
                }
            }
        }
    }

    /// A submessage of a known participant.
    fn on_known(&mut self, submessage: Submessage<'_>, state: &State) {
        let now = state.now;
        let guid = |entity| Guid { prefix: state.source, entity };
        match submessage {
            Submessage::Data(mut data) => {
                let writer = guid(data.writer);
                if is_builtin(data.writer)
                    && let Some(end) = end_of(&data)
                {
                    data.payload = &[];
                    data.inline.related = Some(end);
                }
                self.pass_to_readers(data.reader, writer, now, |reader| {
                    reader.on_data(writer, &data, state.timestamp, now)
                });
                self.bound_memory(writer);
            }
            Submessage::DataFrag(fragment) => {
                let writer = guid(fragment.writer);
                self.pass_to_readers(fragment.reader, writer, now, |reader| {
                    reader.on_fragment(writer, &fragment, state.timestamp, now)
                });
                self.bound_memory(writer);
            }
            Submessage::Heartbeat(heartbeat) => {
                let writer = guid(heartbeat.writer);
                self.pass_to_readers(heartbeat.reader, writer, now, |reader| {
                    reader.on_heartbeat(writer, &heartbeat, now)
                });
            }
            Submessage::Gap(gap) => {
                let writer = guid(gap.writer);
                self.pass_to_readers(gap.reader, writer, now, |reader| reader.on_gap(writer, &gap));
            }
            Submessage::AckNack(ack) => {
                if let Some(writer) = self.writers.get_mut(&ack.writer) {
                    let out = writer.on_ack_nack(guid(ack.reader), &ack, now);
                    self.has_changed = true;
                    self.post(out);
                }
            }
            Submessage::NackFrag(nack) => {
                if let Some(writer) = self.writers.get_mut(&nack.writer) {
                    let out = writer.on_nack_frag(guid(nack.reader), &nack, now);
                    self.post(out);
                }
            }
            _ => {}
        }
    }

    /// Passes something of a writer to the reader that it is for, or to all matched ones.
    fn pass_to_readers(
        &mut self,
        reader: EntityId,
        writer: Guid,
        now: Instant,
        mut pass: impl FnMut(&mut Reader) -> Effects,
    ) {
        let mut all = Vec::new();
        for (entity, candidate) in &mut self.readers {
            let is_meant = reader == EntityId::UNKNOWN || reader == *entity;
            if is_meant && candidate.writers.contains(&writer) {
                let effects = pass(candidate);
                self.statistics.copied_bytes += effects.copied as u64;
                if effects.is_something() {
                    all.push((*entity, effects));
                }
            }
        }
        for (entity, effects) in all {
            self.follow(entity, writer, effects, now);
        }
    }

    /// Does what follows from something that a reader was passed.
    pub(super) fn follow(
        &mut self,
        reader: EntityId,
        writer: Guid,
        effects: Effects,
        now: Instant,
    ) {
        let Effects { lost, is_ready, ask, is_renumbered, .. } = effects;
        if let Some(ask) = ask {
            self.send_ask(reader, &ask);
        }
        if is_builtin(reader) {
            if is_renumbered {
                // The process is another one, which announces what it has again.
                self.remove_endpoints(writer.prefix, kind_of(reader));
            }
            if is_ready {
                self.read_builtin(reader, now);
            }
            return;
        }
        if lost > 0 {
            let reader = Guid { prefix: self.config.prefix, entity: reader };
            self.report(Event::Lost { reader, writer, count: lost });
        }
        if is_ready {
            self.ready.insert(reader);
        }
    }

    fn send_ask(&mut self, reader: EntityId, ask: &Ask) {
        let Some(address) = self.address_of(ask.writer) else { return };
        let Guid { prefix, entity: writer } = ask.writer;
        let peer = self.peers.map.get(&prefix);
        let takes_zero = peer.is_some_and(|peer| peer.data.vendor == FAST_DDS);
        let set = if ask.set.base() > 0 || takes_zero { ask.set } else { NumberSet::new(1) };
        let Some(reader_of) = self.readers.get_mut(&reader) else { return };
        let mut message = Message::from(self.config.prefix).to(prefix);
        message.ack_nack(reader, writer, &set, reader_of.next_count(), ask.is_final);
        for (number, fragments) in &ask.fragments {
            let count = reader_of.next_count();
            message.nack_frag([reader, writer], *number, fragments, count);
        }
        self.send(vec![address], message.finish());
    }

    /// Processes the announcements of endpoints that are ready.
    fn read_builtin(&mut self, reader: EntityId, now: Instant) {
        while let Some(sample) = self.take(reader) {
            let Some(kind) = kind_of(reader) else { continue };
            match sample.related {
                Some(SampleIdentity { writer: gone, .. }) if sample.data.bytes().is_empty() => {
                    if gone.prefix == sample.writer.prefix {
                        self.remove_endpoint(gone);
                    }
                }
                _ => self.on_endpoint(kind, sample.writer.prefix, sample.data.bytes(), now),
            }
        }
    }

    /// Drops unfinished samples, then the oldest that wait, while all readers hold too much.
    fn bound_memory(&mut self, newest: Guid) {
        loop {
            let held: usize = self.readers.values().map(Reader::held).sum();
            if held <= self.config.limits.participant_bytes {
                return;
            }
            let mut largest: Vec<(&EntityId, &mut Reader)> = self.readers.iter_mut().collect();
            largest.sort_by_key(|(_, reader)| std::cmp::Reverse(reader.held()));
            if largest.iter_mut().any(|(_, reader)| reader.drop_silent(newest)) {
                continue;
            }
            let Some((entity, reader)) = largest.into_iter().next() else { return };
            let Some(writer) = reader.drop_oldest() else { return };
            let reader = Guid { prefix: self.config.prefix, entity: *entity };
            self.report(Event::Lost { reader, writer, count: 1 });
        }
    }
}

/// The kind of endpoints that a built-in reader hears of.
fn kind_of(reader: EntityId) -> Option<EndpointKind> {
    match reader {
        SEDP_WRITERS_READER => Some(EndpointKind::Writer),
        SEDP_READERS_READER => Some(EndpointKind::Reader),
        _ => None,
    }
}

/// The endpoint that a sample of discovery disposes of, in the place of a related identity,
/// which such a sample does not have.
fn end_of(data: &Data<'_>) -> Option<SampleIdentity> {
    let is_end = data.is_key || data.inline.status & (DISPOSED | UNREGISTERED) != 0;
    let guid = disposed_guid(&data.inline, data.payload, pid::ENDPOINT_GUID).filter(|_| is_end)?;
    Some(SampleIdentity { writer: guid, number: data.number })
}
