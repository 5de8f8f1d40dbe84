//! Writers (8.4.7 to 8.4.9): best effort and reliable, samples of one datagram and of many.

mod history;
mod proxy;

use std::time::{Duration, Instant};

pub(crate) use history::{Change, FRAGMENT};
pub(crate) use proxy::ReaderProxy;

use crate::bounded::Bounded;
use crate::discovery::EndpointData;
use crate::error::Error;
use crate::qos::{Durability, History as Keep, Reliability};
use crate::settings::Limits;
use crate::types::{EntityId, Guid};
use crate::wire::{AckNack, Message, NackFrag, NumberSet};
use history::{Address, History};

/// Bytes that are sent again for one request; the reader asks for the rest again.
const MAX_REPAIR: usize = 2 << 20;

/// A sample that was sent less than this ago is on its way.
const IN_FLIGHT: Duration = Duration::from_millis(5);

/// A message and the readers that it goes to, one of each participant.
pub(crate) struct Outgoing {
    pub to: Vec<Guid>,
    pub bytes: Vec<u8>,
}

/// A writer of ours.
pub(crate) struct Writer {
    pub data: EndpointData,
    pub readers: Bounded<Guid, ReaderProxy>,
    history: History,
    last: i64,
    depth: usize,
    max_samples: usize,
    max_bytes: usize,
    keeps_all: bool,
    heartbeat_count: u32,
    pub num_stalled: u64,
}

impl Writer {
    /// `keep_unconfirmed`: samples over the depth that are kept for readers.
    pub fn new(data: EndpointData, keep_unconfirmed: usize, limits: &Limits) -> Self {
        const MAX_SAMPLES: usize = 1 << 16;
        let (depth, keeps_all) = match data.qos.qos.history {
            Keep::KeepLast(depth) => (depth.clamp(1, MAX_SAMPLES), false),
            Keep::KeepAll => (limits.reader_samples.clamp(1, MAX_SAMPLES), true),
        };
        let more = if keeps_all { 0 } else { keep_unconfirmed.min(MAX_SAMPLES) };
        let max_samples = depth + more;
        Self {
            data,
            readers: Bounded::new(limits.matches),
            history: History::new(max_samples + 1),
            last: 0,
            depth,
            max_samples,
            max_bytes: limits.writer_bytes,
            keeps_all,
            heartbeat_count: 0,
            num_stalled: 0,
        }
    }

    fn guid(&self) -> Guid {
        self.data.info.guid
    }

    pub fn bytes(&self) -> usize {
        self.history.bytes
    }

    fn is_reliable(&self) -> bool {
        self.data.qos.qos.reliability == Reliability::Reliable
    }

    fn is_volatile(&self) -> bool {
        self.data.qos.qos.durability == Durability::Volatile
    }

    /// Matches a reader. A durable one also gets what the history holds.
    pub fn add_reader(
        &mut self,
        guid: Guid,
        reliability: Reliability,
        durability: Durability,
        now: Instant,
    ) -> (bool, Vec<Outgoing>) {
        let is_reliable = self.is_reliable() && reliability == Reliability::Reliable;
        let is_durable = !self.is_volatile() && durability != Durability::Volatile;
        let start = if is_durable { 1 } else { self.last + 1 };
        let mut out = Vec::new();
        let mut reader = ReaderProxy::new(is_reliable, start, now);
        if start <= self.last {
            reader.expect(now);
            reader.heartbeat_at = is_reliable.then_some(now);
        }
        let is_in = self.readers.insert(guid, reader);
        if is_in && is_durable && !is_reliable {
            let to = self.address(Some(guid));
            for (number, change) in self.history.changes.iter() {
                let all = history::messages(*number, change, to);
                out.extend(all.into_iter().map(|message| to_one(guid, message)));
            }
        }
        (is_in, out)
    }

    /// This process stood still for so long.
    pub fn stood_still(&mut self, time: Duration) {
        self.readers.iter_mut().for_each(|(_, reader)| reader.stood_still(time));
    }

    pub fn remove_reader(&mut self, guid: Guid) -> bool {
        let is_removed = self.readers.remove(&guid).is_some();
        self.trim();
        is_removed
    }

    /// To one reader, or to all.
    fn address(&self, reader: Option<Guid>) -> Address {
        let Guid { prefix: from, entity: writer } = self.guid();
        let to = reader.map(|reader| reader.prefix);
        Address { from, writer, to, reader: reader.map_or(EntityId::UNKNOWN, |r| r.entity) }
    }

    fn range(&self) -> [i64; 2] {
        [self.history.first().unwrap_or(self.last + 1), self.last]
    }

    fn heartbeat(&mut self, message: &mut Message, address: Address) {
        self.heartbeat_count = self.heartbeat_count.wrapping_add(1);
        message.heartbeat(address.ids(), self.range(), self.heartbeat_count);
    }

    /// Writes a sample; gives its number and the messages that carry it.
    ///
    /// # Errors
    /// `Limit` for a sample that is too long, `Full` where all is kept and nothing more fits.
    pub fn write(&mut self, change: Change, now: Instant) -> Result<(i64, Vec<Outgoing>), Error> {
        let size = change.payload.len();
        if size > self.max_bytes {
            return Err(Error::Limit { what: "bytes of a sample", limit: self.max_bytes });
        }
        self.trim();
        let samples = self.history.changes.len();
        let is_full = samples >= self.max_samples || self.history.bytes + size > self.max_bytes;
        if self.keeps_all && is_full {
            return Err(Error::Full { samples, bytes: self.history.bytes });
        }
        self.last += 1;
        let number = self.last;
        let mut messages = history::messages(number, &change, self.address(None));
        let is_kept = !self.is_volatile() || self.readers.iter().any(|(_, r)| r.is_reliable);
        if self.is_reliable() || !self.is_volatile() {
            if is_kept {
                self.history.add(number, change);
            }
            self.readers.iter_mut().for_each(|(_, reader)| reader.expect(now));
            self.trim();
        }
        if self.readers.iter().any(|(_, reader)| reader.is_reliable)
            && let Some(message) = messages.last_mut()
        {
            let address = self.address(None);
            self.heartbeat(message, address);
        }
        let to = self.one_of_each();
        let send = |message: Message| Outgoing { to: to.clone(), bytes: message.finish() };
        Ok((
            number,
            if to.is_empty() { Vec::new() } else { messages.into_iter().map(send).collect() },
        ))
    }

    /// A reader of each participant.
    fn one_of_each(&self) -> Vec<Guid> {
        let mut guids: Vec<Guid> = self.readers.keys().collect();
        guids.dedup_by_key(|guid| guid.prefix);
        guids
    }

    /// Forgets a sample.
    pub fn remove(&mut self, number: i64) {
        self.history.remove(number);
    }

    /// All up to this number is confirmed by every reliable reader that is not stalled.
    fn confirmed(&self) -> i64 {
        let active = self.readers.iter().filter(|(_, r)| r.is_reliable && !r.is_stalled);
        active.map(|(_, reader)| reader.confirmed).min().unwrap_or(self.last)
    }

    /// Whether every reader has confirmed everything, but stalled ones.
    pub fn is_confirmed(&self) -> bool {
        let mut active = self.readers.iter().filter(|(_, r)| r.is_reliable && !r.is_stalled);
        active.all(|(_, reader)| reader.confirmed >= self.last)
    }

    /// Drops the samples that need not be kept.
    fn trim(&mut self) {
        let confirmed = self.confirmed();
        let kept = if self.is_volatile() { 0 } else { self.depth };
        while let Some(first) = self.history.first() {
            let num = self.history.changes.len();
            let is_confirmed = first <= confirmed && num > kept;
            let is_over = num > self.max_samples || self.history.bytes > self.max_bytes;
            if !(is_confirmed || is_over && !self.keeps_all) {
                break;
            }
            self.history.pop_first();
        }
        // What disposes of something is of no use to later readers.
        if self.data.info.topic.is_empty() {
            let keys = self.history.changes.iter().filter(|(_, change)| change.is_key);
            let done: Vec<i64> =
                keys.map(|(number, _)| *number).filter(|n| *n <= confirmed).collect();
            done.into_iter().for_each(|number| self.history.remove(number));
        }
    }

    /// A reader confirms, and asks for what it misses.
    pub fn on_ack_nack(&mut self, guid: Guid, ack: &AckNack, now: Instant) -> Vec<Outgoing> {
        let last = self.last;
        let Some(reader) = self.readers.get_mut(&guid) else { return Vec::new() };
        if !reader.is_reliable || !reader.confirm(ack.set.base().max(1), ack.count, last, now) {
            return Vec::new();
        }
        let start = reader.start;
        let address = self.address(Some(guid));
        let mut out = Vec::new();
        let mut gap: Option<(i64, NumberSet)> = None;
        let mut repaired = 0;
        for number in
            ack.set.iter().filter(|number| *number >= 1).take_while(|number| *number <= last)
        {
            match self.history.changes.get_mut(&number).filter(|_| number >= start) {
                Some(change) => {
                    let is_in_flight = now.duration_since(change.sent) < IN_FLIGHT;
                    if repaired > MAX_REPAIR || is_in_flight {
                        continue;
                    }
                    change.sent = now;
                    repaired += change.payload.len();
                    let all = history::messages(number, change, address);
                    out.extend(all.into_iter().map(|message| to_one(guid, message)));
                }
                None => {
                    // All before the start are named at once.
                    let end = if number < start { start } else { number + 1 };
                    let (_, set) = gap.get_or_insert((number, NumberSet::new(end)));
                    set.insert(number);
                }
            }
        }
        if let Some((from, set)) = gap {
            let mut message = address.message();
            message.gap(address.ids(), from, &set);
            out.push(to_one(guid, message));
        }
        if !out.is_empty() || !ack.is_final && ack.set.is_empty() {
            let mut message = address.message();
            self.heartbeat(&mut message, address);
            out.push(to_one(guid, message));
        }
        self.trim();
        out
    }

    /// A reader asks for fragments.
    pub fn on_nack_frag(&mut self, guid: Guid, nack: &NackFrag, now: Instant) -> Vec<Outgoing> {
        let address = self.address(Some(guid));
        let Some(reader) = self.readers.get(&guid) else { return Vec::new() };
        let Some(change) = self.history.changes.get_mut(&nack.number) else { return Vec::new() };
        if !reader.is_reliable || nack.number < reader.start {
            return Vec::new();
        }
        let mut out = Vec::new();
        for fragment in nack.fragments.iter().take(MAX_REPAIR / FRAGMENT) {
            let Some(message) = history::fragment_message(nack.number, change, fragment, address)
            else {
                break;
            };
            out.push(to_one(guid, message));
        }
        if !out.is_empty() {
            change.sent = now;
        }
        out
    }

    /// The heartbeats that are due.
    pub fn on_tick(&mut self, now: Instant) -> Vec<Outgoing> {
        let last = self.last;
        let mut due = Vec::new();
        let mut num_stalled = 0;
        for (guid, reader) in self.readers.iter_mut() {
            let (is_due, has_stalled) = reader.on_tick(last, now);
            num_stalled += u64::from(has_stalled);
            if is_due {
                due.push(*guid);
            }
        }
        self.num_stalled += num_stalled;
        if num_stalled > 0 {
            self.trim();
        }
        let mut out = Vec::new();
        for guid in due {
            let address = self.address(Some(guid));
            let mut message = address.message();
            self.heartbeat(&mut message, address);
            out.push(to_one(guid, message));
        }
        out
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.readers.iter().filter_map(|(_, reader)| reader.heartbeat_at).min()
    }
}

fn to_one(reader: Guid, message: Message) -> Outgoing {
    Outgoing { to: vec![reader], bytes: message.finish() }
}
