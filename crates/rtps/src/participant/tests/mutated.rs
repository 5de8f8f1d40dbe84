//! Datagrams of every kind with fields replaced, cut, repeated and mixed. Their number is in
//! `DET_POST_FUZZ_ITERATIONS`.

use super::net::{Random, config, qos, reliable, sample};
use super::peer::{Peer, READER, WRITER};
use crate::discovery::{
    SEDP_READERS_READER, SEDP_READERS_WRITER, SEDP_WRITERS_READER, SEDP_WRITERS_WRITER,
    SPDP_READER, SPDP_WRITER,
};
use crate::participant::Core;
use crate::qos::{Durability, Reliability};
use crate::settings::{Limits, ReaderSettings, WriterSettings};
use crate::types::{EntityId, Guid, SampleIdentity};
use crate::wire::{DataParts, NumberSet, ParameterWriter, Payload};
use std::time::{Duration, Instant};

const HEADER: usize = 20;

struct Site {
    core: Core,
    reader: Guid,
    writer: Guid,
    now: Instant,
}

/// One datagram of every kind from a matched peer.
fn seeds(peer: Peer, site: &Site) -> Vec<Vec<u8>> {
    let user = [EntityId::UNKNOWN, WRITER];
    let writers = [SEDP_WRITERS_READER, SEDP_WRITERS_WRITER];
    let readers = [SEDP_READERS_READER, SEDP_READERS_WRITER];
    let mut inline = ParameterWriter::default();
    inline.put_related(SampleIdentity { writer: site.reader, number: 3 });
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
    let mut gap = peer.message().to(site.core.guid().prefix);
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
    nack.nack_frag([READER, site.writer.entity], 2, &fragments, 4);
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
        peer.ack_nack([READER, site.writer.entity], 1, 3),
        peer.ack_nack(writers, 1, 2),
    ]
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    const ODD: [u32; 8] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0x100];
    for _ in 0..=random.below(4) {
        let at = HEADER + random.below(bytes.len().saturating_sub(HEADER) as u64) as usize;
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => {
                let other = random.below(seeds.len() as u64) as usize;
                bytes.extend_from_slice(&seeds[other][HEADER..]);
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
        bytes.truncate(4000);
    }
}

#[test]
fn mutated_datagrams_neither_panic_nor_exceed_the_limits() {
    let count: u64 =
        std::env::var("DET_POST_FUZZ_ITERATIONS").map_or(200_000, |text| text.parse().unwrap());
    let now = Instant::now();
    let limits = Limits { participants: 40, endpoints: 400, ..Limits::default() };
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
        keep_unconfirmed: 20,
    };
    let writer = core.create_writer(writer, now).unwrap();
    let mut site = Site { core, reader, writer, now };
    let peer = Peer::new(9);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let seeds = seeds(peer, &site);
    let mut num_honest = 0;
    for index in 0..count {
        if index % 5000 == 0 {
            for number in 0..3 {
                let data = sample(number, 40_000);
                site.core
                    .write(site.writer.entity, &data, &Default::default(), 1, site.now)
                    .unwrap();
            }
            num_honest += 1;
            assert_honest(&mut site, num_honest, peer);
        }
        let mut bytes = seeds[random.below(seeds.len() as u64) as usize].clone();
        mutate(&mut random, &mut bytes, &seeds);
        site.core.handle(&bytes, peer.from, site.now);
        if index % 64 == 63 {
            site.now += Duration::from_millis(2);
            site.core.tick(site.now);
            while site.core.take_datagram().is_some() {}
            while site.core.take_event().is_some() {}
            let found = site.core.statistics();
            assert!(found.held_bytes <= limits.participant_bytes, "{found:?}");
            assert!(found.history_bytes <= 3 * limits.writer_bytes, "{found:?}");
            assert!(found.participants <= 40 && found.endpoints <= 400, "{found:?}");
        }
    }
    println!("{count} datagrams: {:?}", site.core.statistics());
}

/// The fuzzed peer is announced again, and a peer of which no datagram is mutated gets its
/// sample through, in fragments.
fn assert_honest(site: &mut Site, number: i64, fuzzed: Peer) {
    let now = site.now;
    for peer in [fuzzed, Peer::new(3)] {
        peer.announce(&mut site.core, now);
        for (entity, topic) in [(WRITER, "rt/in"), (READER, "rt/out")] {
            let data = peer.endpoint(entity, topic, reliable(10));
            peer.announce_endpoint(&mut site.core, &data, 1, now);
        }
    }
    let honest = Peer::new(3);
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
