//! A participant, and a peer that is matched with it.

use super::net::{config, qos, reliable, sample};
use super::peer::{Peer, READER, WRITER};
use crate::participant::Core;
use crate::qos::{Durability, Reliability};
use crate::settings::{Limits, ReaderSettings, WriterSettings};
use crate::types::{EntityId, Guid};
use std::time::{Duration, Instant};

/// A participant with a reliable reader of `rt/in` and a reliable, durable writer of `rt/out`,
/// and a peer whose endpoints match them.
pub(super) struct Site {
    pub core: Core,
    pub reader: Guid,
    pub writer: Guid,
    pub peer: Peer,
    pub now: Instant,
}

impl Site {
    pub fn new(limits: Limits) -> Self {
        let now = Instant::now();
        let mut core = Core::new(config(0, limits), now);
        let reader = ReaderSettings {
            topic: "rt/in".to_owned(),
            type_name: super::net::TYPE.to_owned(),
            qos: reliable(10),
            user_data: Vec::new(),
            assembler: None,
        };
        let reader = core.create_reader(reader, now).unwrap();
        let writer = WriterSettings {
            topic: "rt/out".to_owned(),
            type_name: super::net::TYPE.to_owned(),
            qos: qos(Reliability::Reliable, Durability::TransientLocal, 10),
            user_data: Vec::new(),
            keep_unconfirmed: 100,
        };
        let writer = core.create_writer(writer, now).unwrap();
        let mut site = Self { core, reader, writer, peer: Peer::new(9), now };
        site.join(site.peer, WRITER, READER);
        site
    }

    pub fn join(&mut self, peer: Peer, writer: EntityId, reader: EntityId) {
        peer.announce(&mut self.core, self.now);
        let data = peer.endpoint(writer, "rt/in", reliable(10));
        peer.announce_endpoint(&mut self.core, &data, 1, self.now);
        let data = peer.endpoint(reader, "rt/out", reliable(10));
        peer.announce_endpoint(&mut self.core, &data, 1, self.now);
        let theirs = Guid { prefix: peer.prefix, entity: writer };
        assert!(self.core.matched(self.reader.entity).contains(&theirs));
        let theirs = Guid { prefix: peer.prefix, entity: reader };
        assert!(self.core.matched(self.writer.entity).contains(&theirs));
        self.drain();
    }

    pub fn handle(&mut self, bytes: &[u8]) {
        self.core.handle(bytes, self.peer.from, self.now);
    }

    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.core.tick(self.now).min(end).max(self.now + Duration::from_millis(1));
        }
        self.core.tick(self.now);
    }

    pub fn drain(&mut self) -> (usize, usize) {
        let mut sum = (0, 0);
        while let Some(datagram) = self.core.take_datagram() {
            sum = (sum.0 + 1, sum.1 + datagram.bytes.len());
        }
        sum
    }

    pub fn held(&self) -> usize {
        self.core.statistics().held_bytes
    }

    /// An honest peer of another name is served.
    pub fn assert_serves(&mut self, name: u8) {
        let honest = Peer::new(name);
        let already = Guid { prefix: honest.prefix, entity: WRITER };
        if !self.core.matched(self.reader.entity).contains(&already) {
            self.join(honest, WRITER, READER);
        }
        while self.core.take(self.reader.entity).is_some() {}
        let data = sample(name.into(), 100);
        let bytes = honest.data([EntityId::UNKNOWN, WRITER], 1, &data);
        self.core.handle(&bytes, honest.from, self.now);
        self.core.handle(&honest.heartbeat(WRITER, [1, 1], 1), honest.from, self.now);
        let found = self.core.take(self.reader.entity).unwrap();
        assert_eq!(found.data.bytes(), data);
    }
}
