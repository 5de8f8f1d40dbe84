//! The participant without sockets, clock and threads (8.2.4, 8.4.2.2.2): datagrams and time go
//! in, datagrams, samples and events come out.

mod discover;
mod receive;
mod state;
mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use crate::bounded::{Bounded, Queue};
use crate::discovery::{
    self, EndpointData, EndpointQos, MAX_TEXT, ParticipantData, Peers, SEDP_READERS_READER,
    SEDP_READERS_WRITER, SEDP_WRITERS_READER, SEDP_WRITERS_WRITER,
};
use crate::error::Error;
use crate::qos::{Durability, History, Qos, Reliability};
use crate::reader::Reader;
use crate::settings::{Limits, ReaderSettings, WriterSettings};
use crate::types::{
    EndpointInfo, EndpointKind, EntityId, Event, Guid, GuidPrefix, Sample, Statistics, WriteOptions,
};
use crate::wire::disposal;
use crate::writer::{Change, Outgoing, Writer};

/// What this participant announces as its lease, and how often it does.
const LEASE: Duration = Duration::from_secs(10);
const ANNOUNCE: Duration = Duration::from_millis(2500);

/// How a participant starts.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub prefix: GuidPrefix,
    pub domain: u16,
    pub name: String,
    pub user_data: Vec<u8>,
    pub limits: Limits,
    /// Addresses of this participant: for discovery, and for samples.
    pub meta: Vec<SocketAddrV4>,
    pub default: Vec<SocketAddrV4>,
    /// Where it announces itself: a multicast group, and addresses of participants to find.
    pub announce_to: Vec<SocketAddrV4>,
    /// Addresses of this machine, with the lengths of their networks' prefixes.
    pub own: Vec<(Ipv4Addr, u8)>,
}

/// A datagram to send. A multicast address is sent to on every interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub to: Vec<SocketAddrV4>,
    pub bytes: Vec<u8>,
}

/// A participant that another one stops to be, after it was lost.
struct Former {
    meta: SocketAddrV4,
    told: Option<Instant>,
}

/// The participant.
pub(crate) struct Core {
    config: Config,
    peers: Peers,
    readers: BTreeMap<EntityId, Reader>,
    writers: BTreeMap<EntityId, Writer>,
    /// The number of each endpoint of ours in the history of its announcer.
    announced: BTreeMap<EntityId, i64>,
    /// Participants that were lost: what they send calls for an announcement.
    former: Bounded<GuidPrefix, Former>,
    next_entity: u32,
    statistics: Statistics,
    /// Counters of readers and writers that are gone.
    past: Statistics,
    out: Queue<Datagram>,
    events: Queue<Event>,
    ready: BTreeSet<EntityId>,
    /// Something that a thread may wait for: an event, a confirmation.
    has_changed: bool,
    announce_at: Instant,
    /// The latest time that was given.
    seen: Instant,
    passed: Option<Instant>,
}

impl Core {
    /// A participant that announces itself at the first tick.
    pub fn new(config: Config, now: Instant) -> Self {
        let limits = config.limits;
        let mut core = Self {
            peers: Peers::new(limits.participants, limits.endpoints),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            announced: BTreeMap::new(),
            former: Bounded::new(64),
            next_entity: 1,
            statistics: Statistics::default(),
            past: Statistics::default(),
            out: Queue::new(limits.datagrams),
            events: Queue::new(limits.events),
            ready: BTreeSet::new(),
            has_changed: false,
            announce_at: now,
            seen: now,
            passed: None,
            config,
        };
        core.add_builtin();
        core
    }

    /// The writers and readers by which endpoints are announced (8.5.4.2).
    fn add_builtin(&mut self) {
        let builtin = Limits {
            matches: self.config.limits.participants,
            sample_bytes: 64 << 10,
            reader_bytes: 4 << 20,
            reader_samples: 1024,
            writer_bytes: 64 << 20,
            ..self.config.limits
        };
        let qos = Qos {
            reliability: Reliability::Reliable,
            durability: Durability::TransientLocal,
            history: History::KeepLast(1 << 16),
        };
        for entity in [SEDP_WRITERS_WRITER, SEDP_READERS_WRITER] {
            let data = self.endpoint_data(entity, EndpointKind::Writer, qos);
            self.writers.insert(entity, Writer::new(data, 0, &builtin));
        }
        for entity in [SEDP_WRITERS_READER, SEDP_READERS_READER] {
            let data = self.endpoint_data(entity, EndpointKind::Reader, qos);
            self.readers.insert(entity, Reader::new(data, None, &builtin));
        }
    }

    fn endpoint_data(&self, entity: EntityId, kind: EndpointKind, qos: Qos) -> EndpointData {
        let info = EndpointInfo {
            guid: Guid { prefix: self.config.prefix, entity },
            kind,
            topic: String::new(),
            type_name: String::new(),
            qos,
            user_data: Vec::new(),
        };
        EndpointData { info, qos: EndpointQos::new(qos), unicast: Vec::new() }
    }

    /// Its identifier.
    pub fn guid(&self) -> Guid {
        Guid { prefix: self.config.prefix, entity: EntityId::PARTICIPANT }
    }

    fn own_data(&self) -> ParticipantData {
        let multicast = self.config.announce_to.iter().filter(|to| to.ip().is_multicast());
        ParticipantData {
            prefix: self.config.prefix,
            vendor: discovery::VENDOR,
            name: self.config.name.clone(),
            user_data: self.config.user_data.clone(),
            lease: LEASE,
            builtin: discovery::BUILTIN_ENDPOINTS,
            domain: Some(self.config.domain.into()),
            meta: self.config.meta.clone(),
            default: self.config.default.clone(),
            meta_multicast: multicast.copied().collect(),
        }
    }

    fn new_entity(&mut self, kind: u8) -> EntityId {
        let [_, a, b, c] = self.next_entity.to_be_bytes();
        self.next_entity += 1;
        EntityId([a, b, c, kind])
    }

    /// Creates and announces a reader.
    ///
    /// # Errors
    /// `Settings` for names or user data that are too long.
    pub fn create_reader(&mut self, settings: ReaderSettings, now: Instant) -> Result<Guid, Error> {
        let ReaderSettings { topic, type_name, qos, user_data, assembler } = settings;
        check_texts(&topic, &type_name, &user_data)?;
        let entity = self.new_entity(0x04);
        let mut data = self.endpoint_data(entity, EndpointKind::Reader, qos);
        (data.info.topic, data.info.type_name, data.info.user_data) = (topic, type_name, user_data);
        let limits = self.config.limits;
        self.readers.insert(entity, Reader::new(data.clone(), assembler, &limits));
        self.announce_endpoint(&data, now);
        Ok(data.info.guid)
    }

    /// Creates and announces a writer.
    ///
    /// # Errors
    /// `Settings` for names or user data that are too long.
    pub fn create_writer(&mut self, settings: WriterSettings, now: Instant) -> Result<Guid, Error> {
        let WriterSettings { topic, type_name, qos, user_data, keep_unconfirmed } = settings;
        check_texts(&topic, &type_name, &user_data)?;
        let entity = self.new_entity(0x03);
        let mut data = self.endpoint_data(entity, EndpointKind::Writer, qos);
        (data.info.topic, data.info.type_name, data.info.user_data) = (topic, type_name, user_data);
        let writer = Writer::new(data.clone(), keep_unconfirmed, &self.config.limits);
        self.writers.insert(entity, writer);
        self.announce_endpoint(&data, now);
        Ok(data.info.guid)
    }

    fn announce_endpoint(&mut self, data: &EndpointData, now: Instant) {
        let announcer = announcer_of(data.info.kind);
        if let Some(number) = self.write_builtin(announcer, data.write(), None, now) {
            self.announced.insert(data.info.guid.entity, number);
        }
        self.match_ours(data, now);
    }

    /// Writes an announcement, or with `disposed` the end of one.
    fn write_builtin(
        &mut self,
        announcer: EntityId,
        payload: Vec<u8>,
        disposed: Option<Guid>,
        now: Instant,
    ) -> Option<i64> {
        let inline = disposed.map(disposal).unwrap_or_default();
        let is_key = disposed.is_some();
        let change = Change { inline, payload, is_key, timestamp: 0, sent: now };
        let (number, out) = self.writers.get_mut(&announcer)?.write(change, now).ok()?;
        self.post(out);
        Some(number)
    }

    /// Deletes and withdraws a reader or writer.
    pub fn delete(&mut self, entity: EntityId, now: Instant) {
        let kind = if let Some(reader) = self.readers.remove(&entity) {
            let past = reader.past();
            self.past.samples_over_limit += reader.samples_over;
            self.past.samples_replaced += reader.replaced;
            self.past.matches_over_limit += reader.writers.over;
            self.past.unfinished_dropped += past.dropped;
            self.past.renumbered += past.renumbered;
            EndpointKind::Reader
        } else if let Some(writer) = self.writers.remove(&entity) {
            self.past.stalled += writer.num_stalled;
            self.past.matches_over_limit += writer.readers.over;
            EndpointKind::Writer
        } else {
            return;
        };
        self.ready.remove(&entity);
        let announcer = announcer_of(kind);
        if let Some(number) = self.announced.remove(&entity)
            && let Some(writer) = self.writers.get_mut(&announcer)
        {
            writer.remove(number);
        }
        let guid = Guid { prefix: self.config.prefix, entity };
        let mut list = crate::wire::ParameterWriter::sample();
        list.put(crate::wire::pid::ENDPOINT_GUID, &guid.to_bytes());
        self.write_builtin(announcer, list.end(), Some(guid), now);
    }

    /// Writes a sample; `timestamp` is the time in nanoseconds since 1970.
    ///
    /// # Errors
    /// `Closed` when there is no such writer; errors of the writer.
    pub fn write(
        &mut self,
        writer: EntityId,
        data: &[u8],
        options: &WriteOptions,
        timestamp: i64,
        now: Instant,
    ) -> Result<i64, Error> {
        let inline = options.related.map(|related| {
            let mut list = crate::wire::ParameterWriter::default();
            list.put_related(related);
            list.end()
        });
        let change = Change {
            inline: inline.unwrap_or_default(),
            payload: data.to_vec(),
            is_key: false,
            timestamp: options.source_timestamp.unwrap_or(timestamp),
            sent: now,
        };
        let writer = self.writers.get_mut(&writer).ok_or(Error::Closed)?;
        let (number, out) = writer.write(change, now)?;
        self.post(out);
        Ok(number)
    }

    /// The oldest sample that waits at a reader.
    pub fn take(&mut self, reader: EntityId) -> Option<Sample> {
        self.readers.get_mut(&reader)?.take()
    }

    /// Whether a sample waits at a reader.
    pub fn is_ready(&self, reader: EntityId) -> bool {
        self.readers.get(&reader).is_some_and(Reader::is_ready)
    }

    /// Readers at which samples have arrived since the last call.
    pub fn take_ready(&mut self) -> BTreeSet<EntityId> {
        std::mem::take(&mut self.ready)
    }

    /// Whether there may be an event or a confirmation that was not there at the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// The next datagram to send.
    pub fn take_datagram(&mut self) -> Option<Datagram> {
        self.out.pop()
    }

    /// The next event.
    pub fn take_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Counts datagrams that the system did not send.
    pub fn count_unsent(&mut self, count: u64) {
        self.statistics.sends_dropped += count;
    }

    fn report(&mut self, event: Event) {
        self.has_changed = true;
        self.events.push(event);
    }

    /// Sends what a writer wants to send to readers.
    fn post(&mut self, all: Vec<Outgoing>) {
        for Outgoing { to, bytes } in all {
            let mut addresses: Vec<SocketAddrV4> =
                to.iter().filter_map(|reader| self.address_of(*reader)).collect();
            addresses.dedup();
            self.send(addresses, bytes);
        }
    }

    fn send(&mut self, to: Vec<SocketAddrV4>, bytes: Vec<u8>) {
        if !to.is_empty() {
            self.out.offer(Datagram { to, bytes });
        }
    }

    /// Where an endpoint of a peer is reached.
    fn address_of(&self, guid: Guid) -> Option<SocketAddrV4> {
        let peer = self.peers.map.get(&guid.prefix)?;
        if discovery::is_builtin(guid.entity) {
            return Some(peer.meta);
        }
        let endpoint = peer.endpoints.get(&guid.entity)?;
        let of_endpoint = discover::best(&endpoint.data.unicast, peer.meta.ip(), &self.config.own);
        Some(of_endpoint.unwrap_or(peer.default))
    }
}

fn announcer_of(kind: EndpointKind) -> EntityId {
    match kind {
        EndpointKind::Reader => SEDP_READERS_WRITER,
        EndpointKind::Writer => SEDP_WRITERS_WRITER,
    }
}

fn check_texts(topic: &str, type_name: &str, user_data: &[u8]) -> Result<(), Error> {
    for (what, len) in [
        ("name of a topic", topic.len()),
        ("name of a type", type_name.len()),
        ("user data", user_data.len()),
    ] {
        if len > MAX_TEXT {
            let message = format!("{what}: {len} bytes; at most {MAX_TEXT} are allowed");
            return Err(Error::Settings(message));
        }
    }
    if topic.is_empty() {
        return Err(Error::Settings("name of a topic: it is empty".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
