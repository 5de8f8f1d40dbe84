//! What a best-effort writer sends and a reader does not get is reported.

use super::net::{TYPE, best_effort, sample};
use super::site::Site;
use crate::discovery::{SPDP_READER, SPDP_WRITER};
use crate::settings::{Limits, ReaderSettings};
use crate::types::{EntityId, Event, Guid};
use crate::wire::{DataParts, ParameterWriter, Payload, disposal, pid};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The lost samples that were reported since the last call.
fn num_lost(site: &mut Site) -> u64 {
    let events = std::iter::from_fn(|| site.core.take_event());
    let lost = events.map(|event| if let Event::Lost { count, .. } = event { count } else { 0 });
    lost.sum()
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
    assert_eq!(num_lost(&mut site), 1);
}
