//! Participants, endpoints and addresses that hostile peers announce.

use super::net::reliable;
use super::peer::{Peer, READER, WRITER};
use super::site::Site;
use crate::discovery::{ParticipantData, SPDP_READER, SPDP_WRITER};
use crate::settings::Limits;
use crate::types::{EntityId, Event, GuidPrefix, RemovalReason};
use std::net::SocketAddrV4;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn discovery_hears_only_announcements_of_participants_from_strangers() {
    let mut site = Site::new(Limits::default());
    let stranger = Peer::new(7);
    let data = stranger.endpoint(WRITER, "rt/in", reliable(10));
    stranger.announce_endpoint(&mut site.core, &data, 1, site.now);
    let statistics = site.core.statistics();
    assert_eq!((statistics.participants, statistics.endpoints), (1, 2));
    assert_eq!(statistics.strangers, 2);
    // Nor endpoints that another participant announces.
    let data = stranger.endpoint(WRITER, "rt/in", reliable(10));
    site.peer.announce_endpoint(&mut site.core, &data, 2, site.now);
    assert_eq!(site.core.statistics().endpoints, 2);
}

#[test]
fn participants_are_bounded_and_a_flood_evicts_its_own() {
    let mut site = Site::new(Limits::default());
    for index in 0..10_000_u32 {
        let [a, b, c, d] = index.to_be_bytes();
        let mut peer = Peer::new(9);
        peer.prefix = GuidPrefix([5, 5, a, b, c, d, 1, 2, 3, 4, 5, 6]);
        peer.announce(&mut site.core, site.now);
        if index % 64 == 63 {
            site.now += Duration::from_millis(1);
            site.core.tick(site.now);
            site.drain();
        }
    }
    let statistics = site.core.statistics();
    assert_eq!(statistics.participants, 512);
    assert_eq!(statistics.participants_over_limit, 10_000 - 511);
    assert!(site.core.matched(site.reader.entity).len() == 1, "the honest peer is evicted");
    site.assert_serves(3);
}

#[test]
fn endpoints_are_bounded_and_a_flood_evicts_its_own() {
    let mut site = Site::new(Limits::default());
    let honest = Peer::new(3);
    site.join(honest, WRITER, READER);
    let rogue = Peer::new(4);
    rogue.announce(&mut site.core, site.now);
    for index in 0..10_000_u32 {
        let [_, a, b, c] = index.to_be_bytes();
        let topic = if index % 2 == 0 { "rt/in".to_owned() } else { format!("rt/other_{index}") };
        let data = rogue.endpoint(EntityId([a, b, c, 3]), &topic, reliable(10));
        rogue.announce_endpoint(&mut site.core, &data, i64::from(index) + 1, site.now);
        site.drain();
    }
    let statistics = site.core.statistics();
    assert_eq!(statistics.endpoints, 8192);
    assert_eq!(statistics.endpoints_over_limit, 10_000 - (8192 - 4));
    assert_eq!(site.core.matched(site.reader.entity).len(), 1024);
    assert!(statistics.matches_over_limit > 0);
    // Another participant's endpoints take the place of some of them.
    site.join(Peer::new(6), WRITER, EntityId([9, 9, 9, 4]));
}

#[test]
fn locators_are_bounded_and_those_that_are_no_hosts_ignored() {
    let mut data = ParticipantData::read(&Peer::new(1).announcement(SECOND), 16).unwrap();
    let addresses = (0..40).map(|i| SocketAddrV4::new([10, 0, 0, i].into(), 7410));
    data.meta = addresses.collect();
    data.meta.push(SocketAddrV4::new([224, 0, 0, 1].into(), 7410));
    assert_eq!(ParticipantData::read(&data.write(), 16).unwrap().meta.len(), 16);
    data.meta = [[0, 0, 0, 0], [239, 255, 0, 1], [255, 255, 255, 255]]
        .map(|ip| SocketAddrV4::new(ip.into(), 7410))
        .to_vec();
    assert_eq!(ParticipantData::read(&data.write(), 16).unwrap().meta, []);
}

#[test]
fn a_silent_participant_is_dropped_after_300_s_whatever_it_announces() {
    let mut site = Site::new(Limits::default());
    let peer = Peer::new(8);
    let sample = peer.announcement(Duration::from_secs(1 << 30));
    let bytes = peer.data([SPDP_READER, SPDP_WRITER], 1, &sample);
    site.core.handle(&bytes, peer.from, site.now);
    assert_eq!(site.core.statistics().participants, 2);
    site.wait(Duration::from_secs(299));
    assert_eq!(site.core.statistics().participants, 1);
    site.wait(Duration::from_secs(2));
    assert_eq!(site.core.statistics().participants, 0);
    let mut reasons = Vec::new();
    while let Some(event) = site.core.take_event() {
        if let Event::ParticipantRemoved { reason, .. } = event {
            reasons.push(reason);
        }
    }
    assert_eq!(reasons, [RemovalReason::Lost; 2]);
}

#[test]
fn nothing_is_kept_of_datagrams_of_invented_participants() {
    let mut site = Site::new(Limits::default());
    let before = (site.core.statistics(), site.drain());
    for index in 0..20_000_u32 {
        let [a, b, c, d] = index.to_be_bytes();
        let mut stranger = Peer::new(9);
        stranger.prefix = GuidPrefix([6, 6, a, b, c, d, 1, 2, 3, 4, 5, 6]);
        let heartbeat = stranger.heartbeat(WRITER, [1, 1 << 40], 1);
        site.core.handle(&heartbeat, stranger.from, site.now);
        let bytes = stranger.data([EntityId::UNKNOWN, WRITER], 1, &[7; 100]);
        site.core.handle(&bytes, stranger.from, site.now);
    }
    let after = site.core.statistics();
    assert_eq!(after.strangers - before.0.strangers, 40_000);
    assert_eq!((after.participants, after.endpoints), (1, 2));
    assert_eq!(after.held_bytes, before.0.held_bytes);
    assert_eq!(site.drain(), (0, 0), "strangers are not answered");
}

#[test]
fn participants_that_come_and_are_lost_leave_a_bounded_trace() {
    let limits = Limits { participants: 40, matches: 20, ..Limits::default() };
    let mut site = Site::new(limits);
    for index in 0..300_u32 {
        let [.., a, b] = index.to_be_bytes();
        let mut peer = Peer::new(9);
        peer.prefix = GuidPrefix([7, 7, a, b, 1, 1, 1, 1, 1, 1, 1, 1]);
        let lease = peer.announcement(SECOND);
        let bytes = peer.data([SPDP_READER, SPDP_WRITER], 1, &lease);
        site.core.handle(&bytes, peer.from, site.now);
        let data = peer.endpoint(WRITER, "rt/in", reliable(10));
        peer.announce_endpoint(&mut site.core, &data, 1, site.now);
        let heartbeat = peer.heartbeat(WRITER, [1, 1], 1);
        site.core.handle(&heartbeat, peer.from, site.now);
        if index % 10 == 9 {
            site.wait(2 * SECOND);
            site.drain();
        }
    }
    let statistics = site.core.statistics();
    assert!(statistics.participants <= 1 && statistics.endpoints <= 2, "{statistics:?}");
    assert!(statistics.held_bytes < 16 << 10, "{statistics:?}");
    assert!(site.core.former.len() <= 64);
    site.assert_serves(3);
}

#[test]
fn texts_of_peers_that_are_too_long_are_left_out() {
    let mut data = ParticipantData::read(&Peer::new(1).announcement(SECOND), 16).unwrap();
    for (len, is_kept) in [(999, true), (1001, false)] {
        (data.name, data.user_data) = ("n".repeat(len), vec![7; len]);
        let found = ParticipantData::read(&data.write(), 16).unwrap();
        assert_eq!(
            (found.name.len(), found.user_data.len()),
            if is_kept { (len, len) } else { (0, 0) }
        );
    }
    // A topic that is too long is none.
    let mut site = Site::new(Limits::default());
    let before = site.core.statistics();
    let peer = site.peer;
    let data = peer.endpoint(EntityId([0, 0, 7, 3]), &"t".repeat(1001), reliable(10));
    peer.announce_endpoint(&mut site.core, &data, 2, site.now);
    let after = site.core.statistics();
    assert_eq!((after.endpoints, after.malformed), (before.endpoints, before.malformed + 1));
}
