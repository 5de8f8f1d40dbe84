//! What a writer sends and a reader does not get is reported.

use super::net::{TYPE, best_effort, sample};
use super::peer::WRITER;
use super::site::Site;
use crate::discovery::{SPDP_READER, SPDP_WRITER};
use crate::settings::{Limits, ReaderSettings};
use crate::types::{EntityId, Event, Guid};
use crate::wire::{DataParts, NumberSet, ParameterWriter, Payload, disposal, pid};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The lost samples that were reported since the last call.
fn num_lost(site: &mut Site) -> u64 {
    let events = std::iter::from_fn(|| site.core.take_event());
    let lost = events.map(|event| if let Event::Lost { count, .. } = event { count } else { 0 });
    lost.sum()
}

/// The peer says that it leaves.
fn leave(site: &mut Site) {
    let guid = Guid { prefix: site.peer.prefix, entity: EntityId::PARTICIPANT };
    let mut list = ParameterWriter::sample();
    list.put(pid::PARTICIPANT_GUID, &guid.to_bytes());
    let mut message = site.peer.message();
    message.data(&DataParts {
        reader: SPDP_READER,
        writer: SPDP_WRITER,
        number: 2,
        inline: &disposal(guid),
        payload: Payload::Key(&list.end()),
    });
    site.handle(&message.finish());
}

#[test]
fn what_a_best_effort_writer_leaves_incomplete_is_reported_without_a_later_sample() {
    const TOTAL: u32 = 15 << 20;
    let mut site = Site::new(Limits::default());
    let reader = ReaderSettings {
        topic: "rt/images".to_owned(),
        type_name: TYPE.to_owned(),
        qos: best_effort(10),
        user_data: Vec::new(),
        assembler: None,
    };
    let reader = site.core.create_reader(reader, site.now).unwrap();
    let images = EntityId([0, 0, 7, 3]);
    let data = site.peer.endpoint(images, "rt/images", best_effort(10));
    let (peer, now) = (site.peer, site.now);
    peer.announce_endpoint(&mut site.core, &data, 2, now);
    let part = |site: &mut Site, number| {
        let bytes = site.peer.fragment(images, number, [1, 60_000, TOTAL]);
        site.handle(&bytes);
    };
    let whole = |site: &mut Site, number: i64| {
        let data = sample(number as u64, 100);
        let bytes = site.peer.data([EntityId::UNKNOWN, images], number, &data);
        site.handle(&bytes);
        assert_eq!(site.core.take(reader.entity).unwrap().data.bytes(), data);
    };
    // Begun before this reader joined: it is not lost.
    part(&mut site, 4);
    whole(&mut site, 5);
    assert_eq!(num_lost(&mut site), 0);
    // The last ones: nothing arrives of 7, and no later sample is whole.
    (6..=8).filter(|number| *number != 7).for_each(|number| part(&mut site, number));
    site.wait(3 * SECOND);
    assert_eq!(num_lost(&mut site), 0, "they may still arrive");
    site.peer.announce(&mut site.core, site.now);
    site.wait(6 * SECOND);
    assert_eq!(num_lost(&mut site), 3);
    whole(&mut site, 9);
    assert_eq!(num_lost(&mut site), 0, "each is counted once");
    // One after the other, without a pause: four are put together at a time.
    (10..20).for_each(|number| part(&mut site, number));
    site.wait(SECOND / 10);
    assert_eq!(num_lost(&mut site), 6);
    // Late parts of what is lost change nothing.
    (10..16).for_each(|number| part(&mut site, number));
    whole(&mut site, 21);
    assert_eq!(num_lost(&mut site), 5);
    // The writer leaves in the middle of one.
    part(&mut site, 22);
    assert_eq!(num_lost(&mut site), 0);
    leave(&mut site);
    assert_eq!(num_lost(&mut site), 1);
}

#[test]
fn what_a_reliable_writer_no_longer_has_is_reported_whether_a_heartbeat_or_a_gap_tells() {
    let mut site = Site::new(Limits::default());
    let heartbeat = |site: &mut Site, range, count| {
        let bytes = site.peer.heartbeat(WRITER, range, count);
        site.handle(&bytes);
    };
    let gap = |site: &mut Site, start, base| {
        let mut message = site.peer.message();
        message.gap([EntityId::UNKNOWN, WRITER], start, &NumberSet::new(base));
        site.handle(&message.finish());
    };
    let whole = |site: &mut Site, number: i64| {
        let data = sample(number as u64, 100);
        let bytes = site.peer.data([EntityId::UNKNOWN, WRITER], number, &data);
        site.handle(&bytes);
    };
    let num_taken = |site: &mut Site| {
        let reader = site.reader.entity;
        std::iter::from_fn(|| site.core.take(reader)).count()
    };
    // Published before this reader joined: it is not for it.
    heartbeat(&mut site, [3, 4], 1);
    gap(&mut site, 3, 5);
    assert_eq!(num_lost(&mut site), 0);
    // A writer that keeps two samples, by a gap.
    heartbeat(&mut site, [5, 10], 2);
    gap(&mut site, 5, 8);
    assert_eq!(num_lost(&mut site), 3);
    // After one that is still to come.
    whole(&mut site, 9);
    gap(&mut site, 10, 11);
    gap(&mut site, 10, 11);
    assert_eq!((num_lost(&mut site), num_taken(&mut site)), (1, 0), "each is counted once");
    // By a heartbeat.
    heartbeat(&mut site, [11, 13], 3);
    assert_eq!((num_lost(&mut site), num_taken(&mut site)), (1, 1));
    // Complete ones before the end of a gap are delivered.
    whole(&mut site, 12);
    gap(&mut site, 11, 14);
    assert_eq!((num_lost(&mut site), num_taken(&mut site)), (2, 1));
    // The writer leaves with what it announced: the one that is there waits for it in vain.
    heartbeat(&mut site, [14, 16], 4);
    whole(&mut site, 15);
    assert_eq!(num_lost(&mut site), 0, "they may still arrive");
    leave(&mut site);
    assert_eq!(num_lost(&mut site), 3);
}

#[test]
fn what_a_reliable_writer_published_while_it_was_away_is_counted_once() {
    let mut site = Site::new(Limits::default());
    let bytes = site.peer.heartbeat(WRITER, [1, 4], 1);
    site.handle(&bytes);
    let data = sample(1, 100);
    (1..=2).for_each(|number| {
        let bytes = site.peer.data([EntityId::UNKNOWN, WRITER], number, &data);
        site.handle(&bytes);
    });
    // Its announcements hold for 100 s.
    site.wait(110 * SECOND);
    assert_eq!(num_lost(&mut site), 0, "it may come back with them");
    site.join(site.peer, WRITER, super::peer::READER);
    let bytes = site.peer.heartbeat(WRITER, [1, 9], 2);
    site.handle(&bytes);
    let mut message = site.peer.message();
    message.gap([EntityId::UNKNOWN, WRITER], 3, &NumberSet::new(8));
    site.handle(&message.finish());
    assert_eq!(num_lost(&mut site), 5);
}
