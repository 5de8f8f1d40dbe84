//! Just enough CDR to read `sensor_msgs/PointCloud2` in tests of the ops.

use det_post_types::{CloudView, PointField, PointFields};

/// A little-endian CDR message, read from the front.
struct Reader<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize) -> &'a [u8] {
        self.at += len;
        &self.body[self.at - len..self.at]
    }

    fn u8(&mut self) -> u8 {
        self.bytes(1)[0]
    }

    fn u32(&mut self) -> u32 {
        self.at = self.at.next_multiple_of(4);
        u32::from_le_bytes(self.bytes(4).try_into().unwrap())
    }

    fn string(&mut self) -> &'a str {
        let len = self.u32() as usize;
        std::str::from_utf8(&self.bytes(len)[..len - 1]).unwrap()
    }
}

/// The cloud of a payload with its encapsulation header.
pub fn read(payload: &[u8]) -> det_post::Result<CloudView<'_>> {
    assert_eq!(payload[..2], [0, 1], "little-endian CDR");
    let mut reader = Reader { body: &payload[4..], at: 0 };
    let (_sec, _nanosec, _frame_id) = (reader.u32(), reader.u32(), reader.string());
    let (height, width) = (reader.u32(), reader.u32());
    let mut fields = PointFields::new();
    for _ in 0..reader.u32() {
        let (name, offset) = (reader.string(), reader.u32());
        let (datatype, count) = (reader.u8(), reader.u32());
        fields.push(PointField { name, offset, datatype, count })?;
    }
    let big_endian = reader.u8() != 0;
    let (point_step, row_step) = (reader.u32(), reader.u32());
    let len = reader.u32() as usize;
    CloudView::new([width, height], [point_step, row_step], big_endian, fields, reader.bytes(len))
}
