//! Processes that stop and go on, restart under the same name, and are impersonated.

use super::net::{NO_FAULTS, Net, best_effort, ip, qos, reliable, sample};
use super::peer::{Peer, READER, WRITER};
use super::site::Site;
use crate::discovery::{SEDP_WRITERS_WRITER, SPDP_READER, SPDP_WRITER};
use crate::participant::Core;
use crate::qos::{Durability, Qos, Reliability};
use crate::settings::Limits;
use crate::types::{EntityId, Event, Guid, Mismatch, RemovalReason, SampleIdentity, WriteOptions};
use crate::wire::{DataParts, Header, Payload, Submessage};
use std::net::SocketAddrV4;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Two participants with a topic in each direction, of each reliability.
struct Pair {
    net: Net,
    /// Node, ours.
    writers: Vec<(usize, Guid)>,
    readers: Vec<(usize, Guid)>,
}

impl Pair {
    fn new() -> Self {
        let mut net = Net::new(2, NO_FAULTS, 5);
        let (mut writers, mut readers) = (Vec::new(), Vec::new());
        for (name, policies) in [("reliable", reliable(10)), ("best_effort", best_effort(10))] {
            for (from, to) in [(0, 1), (1, 0)] {
                let topic = format!("rt/{name}_{from}");
                writers.push((from, net.writer(from, &topic, policies, 100)));
                readers.push((to, net.reader(to, &topic, policies)));
            }
        }
        let mut pair = Self { net, writers, readers };
        assert!(pair.matches(10 * SECOND));
        pair.assert_serves();
        pair
    }

    fn matches(&mut self, within: Duration) -> bool {
        let all = [&self.writers[..], &self.readers[..]].concat();
        self.net
            .run_until(within, |net| all.iter().all(|(node, ours)| net.is_matched(*node, *ours)))
    }

    fn assert_serves(&mut self) {
        for index in 0..self.writers.len() {
            let ((from, writer), (to, reader)) = (self.writers[index], self.readers[index]);
            while self.net.nodes[to].take(reader.entity).is_some() {}
            for len in [10, 50_000] {
                let data = sample(self.net.random.next(), len);
                self.net.write(from, writer, &data);
                let is_ready =
                    self.net.run_until(SECOND * 3, |net| net.nodes[to].is_ready(reader.entity));
                assert!(is_ready, "topic {index}: {len} bytes do not arrive");
                let found = self.net.nodes[to].take(reader.entity).unwrap();
                assert_eq!(found.data.bytes(), data);
            }
        }
    }

    /// The events since the last call.
    fn events(&mut self, node: usize) -> Vec<Event> {
        std::mem::take(&mut self.net.events[node])
    }
}

#[test]
fn a_participant_that_was_stopped_past_every_lease_matches_again_within_5_s() {
    for stopped in [0, 1] {
        for seconds in [6, 11, 20, 60] {
            let mut pair = Pair::new();
            pair.events(1 - stopped);
            pair.net.is_stopped[stopped] = true;
            pair.net.run(seconds * SECOND);
            let is_lost = pair.events(1 - stopped).iter().any(|event| {
                matches!(event, Event::ParticipantRemoved { reason: RemovalReason::Lost, .. })
            });
            assert_eq!(is_lost, seconds > 10, "{seconds} s");
            pair.net.is_stopped[stopped] = false;
            assert!(pair.matches(5 * SECOND), "{stopped}, {seconds} s");
            pair.assert_serves();
        }
    }
}

#[test]
fn both_stopped_match_again() {
    let mut pair = Pair::new();
    pair.net.is_stopped = vec![true, true];
    pair.net.run(30 * SECOND);
    pair.net.is_stopped = vec![false, false];
    assert!(pair.matches(5 * SECOND));
    pair.assert_serves();
}

#[test]
fn a_participant_that_leaves_is_gone_at_once_and_a_dead_one_within_12_s() {
    let mut pair = Pair::new();
    pair.net.nodes[0].leave();
    pair.net.flush(0);
    pair.net.is_stopped[0] = true;
    pair.net.run(SECOND);
    let left = |event: &Event| {
        matches!(event, Event::ParticipantRemoved { reason: RemovalReason::Left, .. })
    };
    let events = pair.events(1);
    assert!(events.iter().any(left));
    assert_eq!(events.iter().filter(|e| matches!(e, Event::EndpointRemoved { .. })).count(), 4);
    let mut pair = Pair::new();
    pair.net.is_stopped[0] = true;
    pair.net.run(12 * SECOND);
    assert_eq!(pair.net.nodes[1].participants(), []);
}

#[test]
fn a_participant_that_restarts_under_the_same_name_is_heard() {
    let mut pair = Pair::new();
    for _ in 0..5 {
        pair.assert_serves();
        let extra = pair.net.writer(0, "rt/extra", reliable(1), 0);
        pair.net.run(SECOND);
        let now = pair.net.now;
        pair.net.nodes[0].delete(extra.entity, now);
        pair.net.flush(0);
    }
    // A new process: its numbers start again, what it knew is gone.
    let config = super::net::config(0, Limits::default());
    pair.net.nodes[0] = Core::new(config, pair.net.now);
    pair.writers.clear();
    pair.readers.clear();
    for (name, policies) in [("reliable", reliable(10)), ("best_effort", best_effort(10))] {
        let topic = format!("rt/{name}_0");
        pair.writers.push((0, pair.net.writer(0, &topic, policies, 100)));
        pair.readers.push((1, pair.net.reader(1, &topic, policies)));
    }
    pair.net.run(5 * SECOND);
    assert!(pair.matches(SECOND));
    pair.assert_serves();
}

#[test]
fn a_writer_that_starts_a_new_numbering_is_heard() {
    for policies in [reliable(10), best_effort(10)] {
        let mut net = Net::new(1, NO_FAULTS, 1);
        let reader = net.reader(0, "rt/t", policies);
        let peer = Peer::new(9);
        let now = net.now;
        peer.announce(&mut net.nodes[0], now);
        let data = peer.endpoint(WRITER, "rt/t", policies);
        peer.announce_endpoint(&mut net.nodes[0], &data, 1, now);
        let mut count = 0;
        let mut send = |net: &mut Net, number: i64| {
            count += 1;
            let (now, core) = (net.now, &mut net.nodes[0]);
            core.handle(
                &peer.data([EntityId::UNKNOWN, WRITER], number, &sample(1, 10)),
                peer.from,
                now,
            );
            core.handle(&peer.heartbeat(WRITER, [number, number], count), peer.from, now);
            net.run(Duration::from_millis(500));
        };
        (1000..1010).for_each(|number| send(&mut net, number));
        (1..10).for_each(|number| send(&mut net, number));
        let numbers: Vec<i64> =
            std::iter::from_fn(|| net.nodes[0].take(reader.entity)).map(|s| s.number).collect();
        assert!(numbers.ends_with(&[7, 8, 9]), "{numbers:?}");
        assert_eq!(net.nodes[0].statistics().renumbered, 1);
    }
}

#[test]
fn what_is_sent_in_a_peers_name_from_elsewhere_changes_nothing_and_is_counted() {
    let mut pair = Pair::new();
    let victim = pair.net.nodes[0].guid().prefix;
    let forger = Peer { prefix: victim, from: SocketAddrV4::new(ip(77), 7410) };
    let writer = pair.writers[0].1.entity;
    let reader = pair.readers[0].1;
    let mut message = forger.message();
    let mut far = crate::wire::NumberSet::new(1 << 40);
    far.insert(1 << 40);
    message.gap([EntityId::UNKNOWN, writer], 1, &far);
    let mut leave = forger.message();
    let guid = pair.net.nodes[0].guid();
    leave.data(&DataParts {
        reader: crate::discovery::SPDP_READER,
        writer: crate::discovery::SPDP_WRITER,
        number: 2,
        inline: &crate::wire::disposal(guid),
        payload: Payload::Key(&[]),
    });
    let forged = [
        message.finish(),
        leave.finish(),
        forger.heartbeat(writer, [1 << 40, 1 << 41], 999),
        forger.data([EntityId::UNKNOWN, writer], 50, &sample(1, 10)),
        forger.fragment(writer, 50, [1, 1000, 5000]),
        forger.ack_nack([reader.entity, pair.writers[1].1.entity], 1, 999),
        forger.data(
            [crate::discovery::SPDP_READER, crate::discovery::SPDP_WRITER],
            3,
            &forger.announcement(SECOND),
        ),
    ];
    for bytes in &forged {
        let now = pair.net.now;
        pair.net.nodes[1].handle(bytes, forger.from, now);
    }
    assert_eq!(pair.net.nodes[1].statistics().forged, forged.len() as u64);
    assert!(!pair.net.nodes[1].is_ready(reader.entity));
    pair.assert_serves();
    pair.net.run(20 * SECOND);
    assert!(pair.matches(SECOND));
    pair.assert_serves();
    let removed = pair.events(1);
    assert!(!removed.iter().any(|event| matches!(event, Event::ParticipantRemoved { .. })));
}

#[test]
fn what_a_forger_on_the_same_address_does_is_recovered_from() {
    let mut pair = Pair::new();
    let victim = pair.net.nodes[0].guid().prefix;
    let forger = Peer { prefix: victim, from: SocketAddrV4::new(ip(0), 7410) };
    let writer = pair.writers[0].1.entity;
    let now = pair.net.now;
    let bytes = forger.heartbeat(writer, [1 << 40, 1 << 41], 999_999);
    pair.net.nodes[1].handle(&bytes, forger.from, now);
    // The true heartbeats are below that numbering.
    let (from, ours) = pair.writers[0];
    for number in 0..10 {
        pair.net.write(from, ours, &sample(number, 10));
        pair.net.run(Duration::from_millis(300));
    }
    pair.assert_serves();
}

#[test]
fn both_related_identities_are_written_and_an_unknown_number_is_the_samples() {
    let mut net = Net::new(2, NO_FAULTS, 1);
    let writer = net.writer(0, "rr/s", reliable(10), 10);
    let reader = net.reader(1, "rr/s", reliable(10));
    assert!(
        net.run_until(10 * SECOND, |net| net.is_matched(0, writer) && net.is_matched(1, reader))
    );
    for (len, number) in [(10, 5), (50_000, 6)] {
        let related = SampleIdentity { writer: reader, number };
        let options =
            WriteOptions { related: Some(related), source_timestamp: Some(1_500_000_001) };
        net.nodes[0].write(writer.entity, &sample(0, len), &options, 0, net.now).unwrap();
        net.flush(0);
        assert!(net.run_until(SECOND, |net| net.nodes[1].is_ready(reader.entity)));
        let found = net.nodes[1].take(reader.entity).unwrap();
        assert_eq!((found.related, found.source_timestamp), (Some(related), Some(1_500_000_001)));
    }
    let unknown = SampleIdentity { writer: reader, number: -1 << 32 };
    let options = WriteOptions { related: Some(unknown), source_timestamp: None };
    let number = net.nodes[0].write(writer.entity, &sample(0, 8), &options, 9, net.now).unwrap();
    net.flush(0);
    assert!(net.run_until(SECOND, |net| net.nodes[1].is_ready(reader.entity)));
    let found = net.nodes[1].take(reader.entity).unwrap();
    assert_eq!(found.related, Some(SampleIdentity { writer: reader, number }));
}

#[test]
fn mismatches_are_reported_by_name_on_both_sides() {
    let latched = qos(Reliability::Reliable, Durability::TransientLocal, 1);
    let cases: [(Qos, Qos, Option<Mismatch>); 4] = [
        (best_effort(1), reliable(1), Some(Mismatch::Reliability)),
        (reliable(1), latched, Some(Mismatch::Durability)),
        (latched, best_effort(1), None),
        (reliable(1), reliable(5), None),
    ];
    for (offered, requested, expected) in cases {
        let mut net = Net::new(2, NO_FAULTS, 1);
        net.writer(0, "rt/t", offered, 10);
        net.reader(1, "rt/t", requested);
        net.run(2 * SECOND);
        for node in [0, 1] {
            let found: Vec<Mismatch> = net.events[node]
                .iter()
                .filter_map(|event| match event {
                    Event::Incompatible { mismatch, .. } => Some(mismatch.clone()),
                    _ => None,
                })
                .collect();
            assert_eq!(found, expected.clone().into_iter().collect::<Vec<_>>(), "{node}");
        }
    }
}

#[test]
fn a_deleted_endpoint_is_withdrawn_and_its_place_taken_by_a_new_one() {
    let mut net = Net::new(2, NO_FAULTS, 1);
    let reader = net.reader(1, "rt/t", reliable(10));
    for round in 0..5 {
        let writer = net.writer(0, "rt/t", reliable(10), 10);
        assert!(
            net.run_until(5 * SECOND, |net| {
                net.is_matched(0, writer) && net.nodes[1].matched(reader.entity) == [writer]
            }),
            "{round}"
        );
        net.write(0, writer, &sample(round, 10));
        assert!(net.run_until(SECOND, |net| net.nodes[1].take(reader.entity).is_some()));
        net.nodes[0].delete(writer.entity, net.now);
        net.flush(0);
        assert!(net.run_until(SECOND, |net| net.nodes[1].matched(reader.entity).is_empty()));
    }
    net.run(5 * SECOND);
    // Announcements of what is gone are not kept.
    assert_eq!(net.nodes[0].statistics().history_bytes, 0);
    assert_eq!(net.nodes[1].endpoints(), []);
}

#[test]
fn a_peer_learns_that_this_writer_is_known_to_a_reader_when_it_answers() {
    let mut net = Net::new(2, NO_FAULTS, 1);
    let writer = net.writer(0, "rt/t", reliable(10), 10);
    let reader = net.reader(1, "rt/t", reliable(10));
    assert!(net.run_until(5 * SECOND, |net| net.nodes[0].is_known_to(writer.entity, reader)));
    assert!(!net.nodes[0].is_known_to(writer.entity, Guid { entity: READER, ..reader }));
}

/// The bases and counts of the requests to a peer's writer of samples since the last call.
fn requests(site: &mut Site, peer: Peer) -> Vec<(i64, u32)> {
    requests_to(site, peer, WRITER)
}

fn requests_to(site: &mut Site, peer: Peer, writer: EntityId) -> Vec<(i64, u32)> {
    let mut all = Vec::new();
    while let Some(datagram) = site.core.take_datagram() {
        if datagram.to != [peer.from] {
            continue;
        }
        let (_, submessages) = Header::read(&datagram.bytes).unwrap();
        all.extend(submessages.filter_map(|submessage| match submessage {
            Some(Submessage::AckNack(ack)) if ack.writer == writer => {
                Some((ack.set.base(), ack.count))
            }
            _ => None,
        }));
    }
    all
}

#[test]
fn the_counts_of_requests_go_on_rising_when_a_writer_is_matched_again() {
    let mut site = Site::new(Limits::default());
    let peer = site.peer;
    let mut all = Vec::new();
    for _ in 0..3 {
        site.wait(SECOND);
        let found = requests(&mut site, peer);
        assert!(!found.is_empty());
        all.extend(found);
        site.wait(100 * SECOND);
        assert_eq!(site.core.matched(site.reader.entity), []);
        all.extend(requests(&mut site, peer));
        site.join(peer, WRITER, READER);
    }
    assert!(all.is_sorted_by(|(_, a), (_, b)| a < b), "{all:?}");
    assert!(all.iter().all(|(base, _)| *base == 1), "{all:?}");
}

#[test]
fn fast_dds_is_asked_from_0_on_for_everything() {
    let mut site = Site::new(Limits::default());
    let peer = Peer::new(4);
    announce_fast_dds(&mut site, peer);
    let data = peer.endpoint(WRITER, "rt/in", reliable(10));
    peer.announce_endpoint(&mut site.core, &data, 1, site.now);
    site.wait(SECOND);
    let found = requests(&mut site, peer);
    assert!(!found.is_empty() && found.iter().all(|(base, _)| *base == 0), "{found:?}");
}

#[test]
fn a_heartbeat_before_the_first_request_does_not_replace_it() {
    // Fast DDS that did not notice a pause thinks that its announcements were confirmed, and sends
    // them again only when it is asked from 0 on.
    let mut site = Site::new(Limits::default());
    let peer = Peer::new(4);
    announce_fast_dds(&mut site, peer);
    site.core.handle(&peer.heartbeat(SEDP_WRITERS_WRITER, [1, 3], 7), peer.from, site.now);
    site.wait(SECOND);
    let found = requests_to(&mut site, peer, SEDP_WRITERS_WRITER);
    assert_eq!(found[0].0, 0, "{found:?}");
    assert!(found.len() > 2 && found[1..].iter().all(|(base, _)| *base == 1), "{found:?}");
}

fn announce_fast_dds(site: &mut Site, peer: Peer) {
    let mut sample = peer.announcement(100 * SECOND);
    let vendor = sample.windows(6).position(|bytes| bytes == [0x16, 0, 4, 0, 1, 0x7e]).unwrap();
    sample[vendor + 5] = 0x0f;
    let bytes = peer.data([SPDP_READER, SPDP_WRITER], 1, &sample);
    site.core.handle(&bytes, peer.from, site.now);
}
