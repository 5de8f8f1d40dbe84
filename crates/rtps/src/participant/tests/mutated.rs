//! Datagrams of every kind with fields replaced, cut, repeated and mixed: ours, and those that
//! peers of other implementations sent. Their number is in `DET_POST_FUZZ_ITERATIONS`.

use super::capture::{Implementation, Ours, Session, session};
use super::net::{Random, config, reliable, sample};
use super::peer::{Peer, READER, WRITER};
use crate::discovery::{
    SEDP_READERS_READER, SEDP_READERS_WRITER, SEDP_WRITERS_READER, SEDP_WRITERS_WRITER,
    SPDP_READER, SPDP_WRITER,
};
use crate::participant::{Config, Core};
use crate::settings::Limits;
use crate::types::{EntityId, Guid, SampleIdentity};
use crate::wire::{DataParts, NumberSet, ParameterWriter, Payload};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

const HEADER: usize = 20;

/// The longest mutated datagram.
const MAX_DATAGRAM: usize = 16_000;

/// Mutated datagrams between two honest samples.
const ROUND: u64 = 5000;

fn num_datagrams() -> u64 {
    std::env::var("DET_POST_FUZZ_ITERATIONS").map_or(200_000, |text| text.parse().unwrap())
}

/// A participant that mutated datagrams are given to.
struct Site {
    core: Core,
    reader: Guid,
    writer: Guid,
    now: Instant,
    /// With their senders.
    seeds: Vec<(Vec<u8>, SocketAddrV4)>,
}

/// One datagram of every kind from a matched peer.
fn seeds(peer: Peer, ours: &Ours) -> Vec<Vec<u8>> {
    let user = [EntityId::UNKNOWN, WRITER];
    let writers = [SEDP_WRITERS_READER, SEDP_WRITERS_WRITER];
    let readers = [SEDP_READERS_READER, SEDP_READERS_WRITER];
    let mut inline = ParameterWriter::default();
    inline.put_related(SampleIdentity { writer: ours.reader, number: 3 });
    let inline = inline.end();
    let mut message = peer.message();
    message.timestamp(1_000_000_007);
    let [reader, writer] = user;
    let payload = sample(1, 40);
    message.data(&DataParts {
        reader,
        writer,
        number: 6,
        inline: &inline,
        payload: Payload::Data(&payload),
    });
    message.heartbeat(user, [1, 9], 5);
    let mut gap = peer.message().to(ours.core.guid().prefix);
    let mut set = NumberSet::new(9);
    [9, 11, 40].into_iter().for_each(|number| set.insert(number));
    gap.gap(user, 3, &set);
    let mut end = peer.message();
    end.data(&DataParts {
        reader: SEDP_WRITERS_READER,
        writer: SEDP_WRITERS_WRITER,
        number: 2,
        inline: &crate::wire::disposal(Guid { prefix: peer.prefix, entity: WRITER }),
        payload: Payload::Key(&[]),
    });
    let mut nack = peer.message();
    let mut fragments = NumberSet::new(1);
    (1..200).for_each(|fragment| fragments.insert(fragment));
    nack.nack_frag([READER, ours.writer.entity], 2, &fragments, 4);
    let mut other = peer.message().finish();
    other.extend([0x0c, 1, 20, 0, 0, 0, 0, 0, 2, 4, 1, 2]);
    other.extend([8; 12]);
    other.extend([0x13, 1, 24, 0]);
    other.extend([1; 24]);
    other.extend([0x0f, 1, 28, 0, 1, 0, 0, 0]);
    other.extend([1; 24]);
    vec![
        message.finish(),
        gap.finish(),
        end.finish(),
        nack.finish(),
        other,
        peer.data([SPDP_READER, SPDP_WRITER], 1, &peer.announcement(Duration::from_secs(60))),
        peer.data(writers, 2, &peer.endpoint(EntityId([0, 0, 9, 3]), "rt/in", reliable(3)).write()),
        peer.data(
            readers,
            2,
            &peer.endpoint(EntityId([0, 0, 9, 4]), "rt/out", reliable(3)).write(),
        ),
        peer.fragment(WRITER, 7, [1, 100, 1000]),
        peer.fragment(WRITER, 8, [3, 1000, 60 << 20]),
        peer.fragment(SEDP_WRITERS_WRITER, 7, [1, 100, 1000]),
        peer.heartbeat(SEDP_WRITERS_WRITER, [1, 3], 3),
        peer.ack_nack([READER, ours.writer.entity], 1, 3),
        peer.ack_nack(writers, 1, 2),
    ]
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>, seeds: &[(Vec<u8>, SocketAddrV4)]) {
    const ODD: [u32; 8] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0x100];
    for _ in 0..=random.below(4) {
        // Fields are more often at the start.
        let end = if random.below(2) == 0 { bytes.len().min(200) } else { bytes.len() };
        let at = HEADER + random.below(end.saturating_sub(HEADER) as u64) as usize;
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => {
                let other = random.below(seeds.len() as u64) as usize;
                bytes.extend_from_slice(&seeds[other].0[HEADER..]);
            }
            2 if at < bytes.len() => bytes[at] = random.next() as u8,
            3 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            4 if at + 4 <= bytes.len() => {
                let at = at & !3;
                let odd = ODD[random.below(8) as usize];
                bytes[at..at + 4].copy_from_slice(&odd.to_le_bytes());
            }
            5 if at + 2 <= bytes.len() => {
                let at = at & !1;
                bytes[at..at + 2].copy_from_slice(&(random.next() as u16).to_le_bytes());
            }
            _ => {
                let doubled = bytes[at.min(bytes.len())..].to_vec();
                bytes.extend(doubled);
            }
        }
        bytes.truncate(MAX_DATAGRAM);
    }
}

fn limits() -> Limits {
    Limits { participants: 40, endpoints: 400, ..Limits::default() }
}

impl Site {
    fn new(ours: Ours, seeds: Vec<(Vec<u8>, SocketAddrV4)>, now: Instant) -> Self {
        let Ours { core, reader, writer } = ours;
        Self { core, reader, writer, now, seeds }
    }

    /// Gives it mutated datagrams.
    fn fuzz(&mut self, random: &mut Random, count: u64) {
        let limits = limits();
        for index in 0..count {
            let seed = random.below(self.seeds.len() as u64) as usize;
            let (mut bytes, from) = self.seeds[seed].clone();
            mutate(random, &mut bytes, &self.seeds);
            self.core.handle(&bytes, from, self.now);
            if index % 64 == 63 {
                self.now += Duration::from_millis(2);
                self.core.tick(self.now);
                while self.core.take_datagram().is_some() {}
                while self.core.take_event().is_some() {}
                let found = self.core.statistics();
                assert!(found.held_bytes <= limits.participant_bytes, "{found:?}");
                assert!(found.history_bytes <= 4 * limits.writer_bytes, "{found:?}");
                assert!(found.participants <= 40 && found.endpoints <= 400, "{found:?}");
            }
        }
    }

    fn write_some(&mut self) {
        for number in 0..3 {
            let data = sample(number, 40_000);
            self.core.write(self.writer.entity, &data, &Default::default(), 1, self.now).unwrap();
        }
    }
}

#[test]
fn mutated_datagrams_neither_panic_nor_exceed_the_limits() {
    let now = Instant::now();
    let peer = Peer::new(9);
    let ours = Ours::new(config(0, limits()), now);
    let seeds = seeds(peer, &ours).into_iter().map(|bytes| (bytes, peer.from)).collect();
    let mut site = Site::new(ours, seeds, now);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let count = num_datagrams();
    for round in 0..count.div_ceil(ROUND) {
        site.write_some();
        // The fuzzed peer is announced again.
        for known in [peer, Peer::new(3)] {
            join(&mut site, known);
        }
        assert_honest(&mut site, round as i64 + 1);
        site.fuzz(&mut random, ROUND.min(count - round * ROUND));
    }
    println!("{count} datagrams: {:?}", site.core.statistics());
}

/// Of each kind of datagrams, by their submessages and their writers, some.
fn some_of_each(session: &Session) -> Vec<(Vec<u8>, SocketAddrV4)> {
    let mut kinds: BTreeMap<Vec<u8>, Vec<(Vec<u8>, SocketAddrV4)>> = BTreeMap::new();
    for (bytes, from) in &session.datagrams {
        let mut kind = Vec::new();
        let mut rest = &bytes[HEADER.min(bytes.len())..];
        while let [id, flags, low, high, body @ ..] = rest
            && kind.len() < 60
        {
            kind.extend([*id, *flags]);
            kind.extend(body.get(8..12).unwrap_or_default());
            let len = usize::from(u16::from_le_bytes([*low, *high]));
            rest = if len == 0 { &[] } else { body.get(len..).unwrap_or_default() };
        }
        let some = kinds.entry(kind).or_default();
        if some.len() < 6 {
            let len = bytes.len().min(MAX_DATAGRAM);
            some.push((bytes[..len].to_vec(), *from));
        }
    }
    kinds.into_values().flatten().collect()
}

fn fuzz_with_datagrams_of(implementation: Implementation) {
    let Some(session) = session(implementation) else { return };
    let began = Instant::now();
    let seeds = some_of_each(&session);
    let config = Config { limits: limits(), ..session.config.clone() };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let count = num_datagrams();
    let mut site = Site::new(Ours::new(config.clone(), began), seeds.clone(), began);
    for round in 0..count.div_ceil(ROUND) {
        // A participant that has been through much, and one that has just met the peer.
        if round % 20 == 19 {
            site = Site::new(Ours::new(config.clone(), site.now), seeds.clone(), site.now);
        }
        for (bytes, from) in &session.datagrams {
            site.core.handle(bytes, *from, site.now);
        }
        let after = site.core.statistics();
        if round % 20 == 19 || round == 0 {
            assert_eq!(after.malformed, 0, "datagrams of {implementation:?}");
            assert!(after.copied_bytes > 300_000, "{after:?}");
        }
        site.write_some();
        join(&mut site, Peer::new(3));
        assert_honest(&mut site, round as i64 + 1);
        site.fuzz(&mut random, ROUND.min(count - round * ROUND));
    }
    println!(
        "{count} datagrams in {:.1?}, of {} of {implementation:?}: {:?}",
        began.elapsed(),
        seeds.len(),
        site.core.statistics()
    );
}

#[test]
fn mutated_datagrams_of_cyclone_do_no_harm() {
    fuzz_with_datagrams_of(Implementation::Cyclone);
}

#[test]
fn mutated_datagrams_of_fast_dds_do_no_harm() {
    fuzz_with_datagrams_of(Implementation::FastDds);
}

/// A peer with a writer of what is read and a reader of what is written.
fn join(site: &mut Site, peer: Peer) {
    peer.announce(&mut site.core, site.now);
    for (entity, topic) in [(WRITER, "rt/in"), (READER, "rt/out")] {
        let data = peer.endpoint(entity, topic, reliable(10));
        peer.announce_endpoint(&mut site.core, &data, 1, site.now);
    }
}

/// A peer of which no datagram is mutated gets its sample through, in fragments.
fn assert_honest(site: &mut Site, number: i64) {
    let (now, honest) = (site.now, Peer::new(3));
    while site.core.take(site.reader.entity).is_some() {}
    for fragment in 1..=3 {
        let bytes = honest.fragment(WRITER, number, [fragment, 1000, 3000]);
        site.core.handle(&bytes, honest.from, now);
    }
    let bytes = honest.heartbeat(WRITER, [number, number], number as u32);
    site.core.handle(&bytes, honest.from, now);
    let mut found = std::iter::from_fn(|| site.core.take(site.reader.entity));
    let is_there = found.any(|sample| sample.writer.prefix == honest.prefix);
    assert!(is_there, "the honest sample {number} does not arrive");
}
