//! What a hostile peer can make a participant keep, send and compute.

use super::net::{best_effort, config, reliable, sample};
use super::peer::{Peer, READER, WRITER};
use super::site::Site;
use crate::discovery::{
    SEDP_READERS_READER, SEDP_READERS_WRITER, SEDP_WRITERS_READER, SEDP_WRITERS_WRITER, SPDP_WRITER,
};
use crate::participant::Core;
use crate::settings::{Limits, WriterSettings};
use crate::types::{EntityId, Event};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn heartbeats_and_gaps_of_any_range_take_no_time_and_memory() {
    let mut site = Site::new(Limits::default());
    let mut count = 0;
    for last in [20_000_000, 1 << 40, 1 << 62] {
        for first in [1, 2, last] {
            count += 1;
            let bytes = site.peer.heartbeat(WRITER, [first, last], count);
            site.handle(&bytes);
            site.wait(SECOND);
            let (num, bytes) = site.drain();
            assert!(num < 60 && bytes < 16 << 10, "{num} datagrams of {bytes} bytes");
        }
    }
    for base in [20_000_000, 1 << 40, 1 << 62] {
        for start in [1, 2, 10_000, base - 1] {
            let mut message = site.peer.message();
            let mut set = crate::wire::NumberSet::new(base);
            (0..256).for_each(|offset| set.insert(base + offset));
            message.gap([EntityId::UNKNOWN, WRITER], start, &set);
            site.handle(&message.finish());
            site.wait(SECOND);
        }
    }
    assert!(site.held() < MIB);
    site.assert_serves(3);
}

#[test]
fn numbers_above_the_limit_are_malformed() {
    let mut site = Site::new(Limits::default());
    let before = site.core.statistics().malformed;
    let far = (1 << 62) + 1;
    let ids = [READER, site.writer.entity];
    for (index, bytes) in [
        site.peer.heartbeat(WRITER, [1, far], 100),
        site.peer.heartbeat(WRITER, [far, i64::MAX], 101),
        site.peer.heartbeat(WRITER, [5, 3], 102),
        site.peer.heartbeat(WRITER, [0, 3], 102),
        site.peer.data([EntityId::UNKNOWN, WRITER], i64::MAX, &[0, 1, 0, 0]),
        site.peer.data([EntityId::UNKNOWN, WRITER], 0, &[0, 1, 0, 0]),
        site.peer.data([EntityId::UNKNOWN, WRITER], -5, &[0, 1, 0, 0]),
        site.peer.fragment(WRITER, 1, [0, 100, 1000]),
        site.peer.fragment(WRITER, 1, [1, 0, 1000]),
        site.peer.fragment(WRITER, 1, [1, 100, 0]),
    ]
    .into_iter()
    .enumerate()
    {
        site.handle(&bytes);
        assert_eq!(site.core.statistics().malformed, before + index as u64 + 1, "{index}");
    }
    // Requests for what does not exist are not answered with it.
    let writer = site.writer.entity;
    site.core.write(writer, &sample(1, 50_000), &Default::default(), 1, site.now).unwrap();
    site.drain();
    for (count, base) in [0, 2, 1 << 40, 1 << 62].into_iter().enumerate() {
        let bytes = site.peer.ack_nack(ids, base, 50 + count as u32);
        site.handle(&bytes);
        let (num, bytes) = site.drain();
        assert!(num < 10 && bytes < 60_000, "{base}: {num} datagrams of {bytes} bytes");
    }
    for fragment in [0_i64, 5, u32::MAX as i64 - 300] {
        let mut set = crate::wire::NumberSet::new(fragment);
        (0..256).for_each(|offset| set.insert(fragment + offset));
        let mut message = site.peer.message();
        message.nack_frag(ids, 1, &set, 1);
        site.handle(&message.finish());
        let (num, _) = site.drain();
        assert!(num <= 4, "{fragment}: {num} datagrams");
    }
    site.assert_serves(3);
}

#[test]
fn fragments_take_memory_as_they_arrive() {
    let mut site = Site::new(Limits::default());
    let stranger = Peer::new(7);
    let claims = [256 << 20, 120 << 20, u32::MAX];
    for number in 2..6 {
        for total in claims {
            for start in [1, 2, total / 1000] {
                for writer in [SPDP_WRITER, SEDP_WRITERS_WRITER, SEDP_READERS_WRITER, WRITER] {
                    let bytes = site.peer.fragment(writer, number, [start, 1000, total]);
                    site.handle(&bytes);
                    let bytes = stranger.fragment(writer, number, [start, 1000, total]);
                    site.core.handle(&bytes, stranger.from, site.now);
                }
            }
        }
    }
    assert!(site.held() < MIB, "{} bytes", site.held());
    // Within the limit of a sample, from a matched writer.
    for number in 0..4000 {
        let bytes = site.peer.fragment(WRITER, 100 + number, [1, 1000, 60 << 20]);
        site.handle(&bytes);
    }
    assert!(site.held() < 8 * MIB, "{} bytes", site.held());
    site.assert_serves(3);
    // Dropped after 4 s of silence.
    site.wait(5 * SECOND);
    assert!(site.held() < 64 << 10, "{} bytes", site.held());
    assert!(site.core.statistics().unfinished_dropped > 0);
}

#[test]
fn unfinished_samples_stay_within_the_limits_of_reader_and_participant() {
    let limits = Limits { reader_bytes: 4 * MIB, participant_bytes: 6 * MIB, ..Limits::default() };
    let mut site = Site::new(limits);
    for name in 20..24 {
        site.join(Peer::new(name), WRITER, READER);
    }
    for number in 1..200 {
        for name in 20..24 {
            let peer = Peer::new(name);
            for fragment in 1..20 {
                let bytes = peer.fragment(WRITER, number, [fragment, 60_000, 3 << 20]);
                site.core.handle(&bytes, peer.from, site.now);
                assert!(site.held() <= 4 * MIB, "{} bytes", site.held());
            }
        }
    }
    assert!(site.core.statistics().unfinished_dropped > 0);
    site.assert_serves(3);
}

#[test]
fn a_reader_that_confirms_nothing_is_stalled_and_holds_nothing_up() {
    let mut site = Site::new(Limits::default());
    let writer = site.writer.entity;
    site.core.write(writer, &sample(1, 10), &Default::default(), 1, site.now).unwrap();
    assert!(!site.core.is_confirmed(writer));
    for second in 0..11 {
        site.wait(SECOND);
        site.peer.announce(&mut site.core, site.now);
        assert!(!site.core.is_confirmed(writer), "{second}");
    }
    site.wait(2 * SECOND);
    assert!(site.core.is_confirmed(writer));
    // The writer and both announcers: the peer answers nothing.
    assert_eq!(site.core.statistics().stalled, 3);
    // The sample; in 13 s 16 heartbeats of each writer, 6 announcements, and 8 requests to the
    // peer's writer, which sends no heartbeat.
    assert_eq!(site.drain().0, 1 + 3 * 16 + 6 + 8);
    // What it does not confirm is kept no longer than for others.
    for number in 2..2000 {
        site.core.write(writer, &sample(number, 1000), &Default::default(), 1, site.now).unwrap();
        site.drain();
    }
    assert!(site.core.statistics().history_bytes < 100 << 10);
    // It is served again as soon as it answers.
    site.wait(Duration::from_millis(20));
    site.drain();
    let ack = site.peer.ack_nack([READER, writer], 1999, 1);
    site.handle(&ack);
    assert!(site.drain().0 > 0);
    assert!(!site.core.is_confirmed(writer));
}

#[test]
fn histories_and_queues_are_bounded() {
    let limits = Limits { writer_bytes: MIB, datagrams: 100, events: 50, ..Limits::default() };
    let mut site = Site::new(limits);
    let writer = site.writer.entity;
    for number in 0..1000 {
        site.core
            .write(writer, &sample(number, 100_000), &Default::default(), 1, site.now)
            .unwrap();
        assert!(site.core.statistics().history_bytes <= MIB + (64 << 10));
    }
    assert!(site.core.write(writer, &vec![0; MIB + 4], &Default::default(), 1, site.now).is_err());
    assert_eq!(site.drain().0, 100);
    assert!(site.core.statistics().sends_dropped > 0);
    for name in 30..200 {
        Peer::new(name).announce(&mut site.core, site.now);
    }
    let num = std::iter::from_fn(|| site.core.take_event()).count();
    assert_eq!(num, 50);
    assert!(site.core.statistics().events_dropped > 0);
}

#[test]
fn samples_that_are_not_taken_are_replaced_and_counted() {
    let mut site = Site::new(Limits::default());
    for number in 1..=1000 {
        let bytes = site.peer.data([EntityId::UNKNOWN, WRITER], number, &sample(0, 1000));
        site.handle(&bytes);
        let bytes = site.peer.heartbeat(WRITER, [1, number], number as u32);
        site.handle(&bytes);
    }
    assert!(site.held() < 20 << 10, "{}", site.held());
    assert_eq!(site.core.statistics().samples_replaced, 990);
    let lost: u64 = std::iter::from_fn(|| site.core.take_event())
        .map(|event| if let Event::Lost { count, .. } = event { count } else { 0 })
        .sum();
    assert_eq!(lost, 990);
    assert_eq!(site.core.take(site.reader.entity).unwrap().number, 991);
}

#[test]
fn a_writer_without_readers_keeps_nothing_that_is_volatile() {
    let now = Instant::now();
    let mut core = Core::new(config(0, Limits::default()), now);
    for qos in [reliable(10), best_effort(10)] {
        let settings = WriterSettings {
            topic: "rt/x".to_owned(),
            type_name: super::net::TYPE.to_owned(),
            qos,
            user_data: Vec::new(),
            keep_unconfirmed: 100,
        };
        let writer = core.create_writer(settings, now).unwrap();
        let before = core.statistics().history_bytes;
        core.write(writer.entity, &sample(1, 1000), &Default::default(), 1, now).unwrap();
        assert_eq!(core.statistics().history_bytes, before);
    }
    let ids = [SEDP_WRITERS_READER, SEDP_READERS_READER];
    assert!(ids.iter().all(|reader| !core.is_ready(*reader)));
}

#[test]
fn samples_of_chosen_numbers_wait_within_the_window() {
    let mut site = Site::new(Limits::default());
    let ids = [EntityId::UNKNOWN, WRITER];
    // Before a heartbeat tells where the numbers start, any may be the first.
    for index in 0..20_000_i64 {
        let number = 1 + index * 7_919 % 1_000_003;
        let bytes = site.peer.data(ids, number, &[0, 1, 0, 0, 9, 9, 9, 9]);
        site.handle(&bytes);
    }
    assert!(site.held() < 256 << 10, "{} bytes", site.held());
    // And of an old numbering: the first is missing.
    let heartbeat = site.peer.heartbeat(WRITER, [1, 2_000_000], 1);
    site.handle(&heartbeat);
    for number in (2..20_000).rev() {
        let bytes = site.peer.data(ids, number, &[0, 1, 0, 0, 9, 9, 9, 9]);
        site.handle(&bytes);
    }
    assert!(site.held() < 256 << 10, "{} bytes", site.held());
    site.assert_serves(3);
}

#[test]
fn a_writer_is_told_once_what_a_late_reader_does_not_get() {
    let now = Instant::now();
    let mut core = Core::new(config(0, Limits::default()), now);
    let settings = WriterSettings {
        topic: "rt/out".to_owned(),
        type_name: super::net::TYPE.to_owned(),
        qos: reliable(10),
        user_data: Vec::new(),
        keep_unconfirmed: 100,
    };
    let writer = core.create_writer(settings, now).unwrap();
    for number in 0..50_000 {
        core.write(writer.entity, &sample(number, 4), &Default::default(), 1, now).unwrap();
    }
    let peer = Peer::new(9);
    peer.announce(&mut core, now);
    let data = peer.endpoint(READER, "rt/out", reliable(10));
    peer.announce_endpoint(&mut core, &data, 1, now);
    while core.take_datagram().is_some() {}
    let ask = peer.ack_nack([READER, writer.entity], 1, 1);
    core.handle(&ask, peer.from, now);
    let answer: Vec<_> = std::iter::from_fn(|| core.take_datagram()).collect();
    assert_eq!(answer.len(), 2, "a GAP and a heartbeat");
    assert!(answer.iter().all(|datagram| datagram.bytes.len() < 120));
}
