//! A virtual network with loss, delay and duplication.

use super::super::{Config, Core};
use crate::qos::{Durability, History, Qos, Reliability};
use crate::settings::{Limits, ReaderSettings, WriterSettings};
use crate::types::{Event, Guid, GuidPrefix};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

pub(super) const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 255, 0, 1), 7400);
pub(super) const TYPE: &str = "sensor_msgs::msg::dds_::Image_";

/// Numbers that look random, the same for the same seed.
pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end.max(1)
    }
}

/// What the network does to datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    /// Of a thousand.
    pub lost: u64,
    pub doubled: u64,
    /// A datagram takes up to so many milliseconds.
    pub delay_ms: u64,
}

pub(super) const NO_FAULTS: Faults = Faults { lost: 0, doubled: 0, delay_ms: 1 };

/// Participants, and the datagrams between them.
pub(super) struct Net {
    pub nodes: Vec<Core>,
    pub faults: Faults,
    pub now: Instant,
    pub random: Random,
    /// Neither receives nor sends nor sees time.
    pub is_stopped: Vec<bool>,
    /// Of each node since it was last asked.
    pub events: Vec<Vec<Event>>,
    /// By arrival, then by order of sending: from, to, bytes.
    flying: BTreeMap<(Instant, u64), (usize, usize, Vec<u8>)>,
    waiting: Vec<Vec<(usize, Vec<u8>)>>,
    due: Vec<Instant>,
    num_sent: u64,
}

pub(super) fn ip(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, node as u8 + 1)
}

pub(super) fn config(node: usize, limits: Limits) -> Config {
    let at = |port| vec![SocketAddrV4::new(ip(node), port)];
    Config {
        prefix: GuidPrefix([node as u8 + 1; 12]),
        domain: 0,
        name: format!("node {node}"),
        user_data: Vec::new(),
        limits,
        meta: at(7410),
        default: at(7411),
        announce_to: vec![GROUP],
        own: vec![(ip(node), 24)],
    }
}

impl Net {
    pub fn new(num: usize, faults: Faults, seed: u64) -> Self {
        let now = Instant::now();
        let nodes = (0..num).map(|node| Core::new(config(node, Limits::default()), now)).collect();
        Self {
            nodes,
            faults,
            now,
            random: Random(seed | 1),
            is_stopped: vec![false; num],
            events: vec![Vec::new(); num],
            flying: BTreeMap::new(),
            waiting: vec![Vec::new(); num],
            due: vec![now; num],
            num_sent: 0,
        }
    }

    /// Lets time pass, in steps of a millisecond or to what is next.
    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Lets time pass until `is_done`, at most `time`; returns whether it is.
    pub fn run_until(&mut self, time: Duration, is_done: impl Fn(&mut Self) -> bool) -> bool {
        let end = self.now + time;
        loop {
            self.step();
            if is_done(self) {
                return true;
            }
            if self.now >= end {
                return false;
            }
            let running = self.due.iter().zip(&self.is_stopped).filter(|(_, stopped)| !**stopped);
            let due = running.map(|(due, _)| *due).min().unwrap_or(end);
            let arrival = self.flying.first_key_value().map_or(end, |((at, _), _)| *at);
            self.now = due.min(arrival).max(self.now + Duration::from_millis(1)).min(end);
        }
    }

    /// Delivers what has arrived, and gives each node its time.
    fn step(&mut self) {
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= self.now
        {
            let (from, to, bytes) = entry.remove();
            if self.is_stopped[to] {
                // A socket's buffer.
                if self.waiting[to].len() < 200 {
                    self.waiting[to].push((from, bytes));
                }
            } else {
                self.nodes[to].handle(&bytes, SocketAddrV4::new(ip(from), 50_000), self.now);
            }
        }
        for node in 0..self.nodes.len() {
            if self.is_stopped[node] {
                continue;
            }
            for (from, bytes) in std::mem::take(&mut self.waiting[node]) {
                self.nodes[node].handle(&bytes, SocketAddrV4::new(ip(from), 50_000), self.now);
            }
            self.due[node] = self.nodes[node].tick(self.now);
            self.flush(node);
        }
    }

    /// Sends what a node wants to send.
    pub fn flush(&mut self, node: usize) {
        while let Some(datagram) = self.nodes[node].take_datagram() {
            for to in &datagram.to {
                let all = 0..self.nodes.len();
                let receivers = all.filter(|other| {
                    *other != node && (to.ip().is_multicast() || *to.ip() == ip(*other))
                });
                for receiver in receivers.collect::<Vec<_>>() {
                    let copies = 1 + u64::from(self.random.below(1000) < self.faults.doubled);
                    for _ in 0..copies {
                        if self.random.below(1000) < self.faults.lost {
                            continue;
                        }
                        let delay = self.random.below(1000 * self.faults.delay_ms.max(1));
                        self.num_sent += 1;
                        let key = (self.now + Duration::from_micros(delay), self.num_sent);
                        self.flying.insert(key, (node, receiver, datagram.bytes.clone()));
                    }
                }
            }
        }
        while let Some(event) = self.nodes[node].take_event() {
            self.events[node].push(event);
        }
    }

    pub fn reader(&mut self, node: usize, topic: &str, qos: Qos) -> Guid {
        let settings = ReaderSettings {
            topic: topic.to_owned(),
            type_name: TYPE.to_owned(),
            qos,
            user_data: Vec::new(),
            assembler: None,
        };
        let guid = self.nodes[node].create_reader(settings, self.now).unwrap();
        self.flush(node);
        guid
    }

    pub fn writer(&mut self, node: usize, topic: &str, qos: Qos, keep_unconfirmed: usize) -> Guid {
        let settings = WriterSettings {
            topic: topic.to_owned(),
            type_name: TYPE.to_owned(),
            qos,
            user_data: b"typehash=1;".to_vec(),
            keep_unconfirmed,
        };
        let guid = self.nodes[node].create_writer(settings, self.now).unwrap();
        self.flush(node);
        guid
    }

    pub fn write(&mut self, node: usize, writer: Guid, data: &[u8]) -> i64 {
        let options = Default::default();
        let number = self.nodes[node].write(writer.entity, data, &options, 1, self.now).unwrap();
        self.flush(node);
        number
    }

    pub fn is_matched(&self, node: usize, ours: Guid) -> bool {
        !self.nodes[node].matched(ours.entity).is_empty()
    }
}

pub(super) fn qos(reliability: Reliability, durability: Durability, depth: usize) -> Qos {
    Qos { reliability, durability, history: History::KeepLast(depth) }
}

pub(super) fn reliable(depth: usize) -> Qos {
    qos(Reliability::Reliable, Durability::Volatile, depth)
}

pub(super) fn best_effort(depth: usize) -> Qos {
    qos(Reliability::BestEffort, Durability::Volatile, depth)
}

/// A sample whose bytes tell its number and its length, which is padded as writers want it.
pub(super) fn sample(number: u64, len: usize) -> Vec<u8> {
    let body = (0..len).map(|i| (i as u64).wrapping_mul(7).wrapping_add(number) as u8);
    let mut sample: Vec<u8> =
        [0, 1, 0, 0].into_iter().chain(number.to_le_bytes()).chain(body).collect();
    sample.resize(sample.len().next_multiple_of(4), 0);
    sample
}
