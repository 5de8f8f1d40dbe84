use super::*;
use crate::types::{EntityId, GuidPrefix};

const FROM: GuidPrefix = GuidPrefix([3; 12]);
const READER: EntityId = EntityId([0, 0, 1, 4]);
const WRITER: EntityId = EntityId([0, 0, 2, 3]);

fn read(bytes: &[u8]) -> Vec<Option<Submessage<'_>>> {
    Header::read(bytes).unwrap().1.collect()
}

#[test]
fn what_is_written_is_read() {
    let mut set = NumberSet::new(7);
    [7, 38, 39, 262].into_iter().for_each(|number| set.insert(number));
    set.insert(263);
    set.insert(6);
    assert_eq!(set.iter().collect::<Vec<_>>(), [7, 38, 39, 262]);
    let mut message = Message::from(FROM).to(GuidPrefix([5; 12]));
    message.timestamp(1_700_000_000_123_456_789);
    message.ack_nack(READER, WRITER, &set, 9, true);
    message.gap([READER, WRITER], 3, &set);
    message.nack_frag([READER, WRITER], 4, &set, 2);
    message.heartbeat([READER, WRITER], [2, 1 << 40], 8);
    let bytes = message.finish();
    let (header, _) = Header::read(&bytes).unwrap();
    assert_eq!(header.prefix, FROM);
    let all = read(&bytes);
    assert!(matches!(all[0], Some(Submessage::InfoDestination(GuidPrefix([5, ..])))));
    let Some(Submessage::InfoTimestamp(Some(time))) = all[1] else { panic!() };
    assert_eq!(time, 1_700_000_000_123_456_789);
    let Some(Submessage::AckNack(ack)) = all[2] else { panic!() };
    assert_eq!((ack.set, ack.count, ack.is_final), (set, 9, true));
    let Some(Submessage::Gap(gap)) = all[3] else { panic!() };
    assert_eq!((gap.start, gap.set), (3, set));
    let Some(Submessage::NackFrag(nack)) = all[4] else { panic!() };
    assert_eq!((nack.number, nack.fragments), (4, set));
    let Some(Submessage::Heartbeat(beat)) = all[5] else { panic!() };
    assert_eq!((beat.first, beat.last, beat.count, beat.is_final), (2, 1 << 40, 8, false));
    assert_eq!(all.len(), 6);
}

#[test]
fn either_byte_order_is_read() {
    // A HEARTBEAT and a DATA with inline QoS in big endian.
    let mut bytes = Message::from(FROM).finish();
    bytes.extend([0x07, 0, 0, 28]);
    bytes.extend([&READER.0[..], &WRITER.0].concat());
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 6]);
    bytes.extend([0x15, 0b110, 0, 0, 0, 0, 0, 16]);
    bytes.extend([&READER.0[..], &WRITER.0, &[0, 0, 0, 0, 0, 0, 0, 5]].concat());
    bytes.extend([0x80, 0x0f, 0, 24]);
    bytes.extend([9; 16]);
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 77, 0, 1, 0, 0]);
    bytes.extend([0, 0, 0, 0, 1, 2, 3, 4]);
    let all = read(&bytes);
    let Some(Submessage::Heartbeat(beat)) = all[0] else { panic!("{all:?}") };
    assert_eq!((beat.first, beat.last, beat.count), (2, 1 << 32, 6));
    let Some(Submessage::Data(data)) = all[1] else { panic!("{all:?}") };
    assert_eq!((data.number, data.payload), (5, &[0, 0, 0, 0, 1, 2, 3, 4][..]));
    assert_eq!(data.inline.related.unwrap().number, 77);
}

#[test]
fn times_survive_the_wire() {
    for time in [0, 1, 999_999_999, 1_000_000_000, 1_700_000_000_000_000_001] {
        let (seconds, fraction) = wire_time(time);
        assert_eq!(nanos(seconds, fraction), Some(time));
    }
    assert_eq!(nanos(u32::MAX, u32::MAX), None);
}

#[test]
fn what_is_cut_or_foreign_is_malformed() {
    let mut message = Message::from(FROM);
    message.heartbeat([READER, WRITER], [1, 5], 8);
    let bytes = message.finish();
    for len in 0..20 {
        assert!(Header::read(&bytes[..len]).is_none(), "{len}");
    }
    for len in 21..bytes.len() {
        assert!(matches!(read(&bytes[..len])[..], [None]), "{len}");
    }
    let mut other = bytes.clone();
    other[4] = 3;
    assert!(Header::read(&other).is_none());
    // A bitmap of more than 256 numbers.
    let mut message = Message::from(FROM);
    message.ack_nack(READER, WRITER, &NumberSet::new(1), 1, false);
    let mut bytes = message.finish();
    bytes[20 + 4 + 16..20 + 4 + 20].copy_from_slice(&257_u32.to_le_bytes());
    assert!(matches!(read(&bytes)[..], [None]));
}
