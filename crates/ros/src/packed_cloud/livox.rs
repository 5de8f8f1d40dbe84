//! Livox's array of points, laid out as a `PointCloud2` with points of 20 bytes.

use super::codec::{Codecs, Fill, contradicts};
use crate::messages::{LivoxCustomMsg, PointCloud2};
use det_post_types::{Datatype, PointField, PointFields, Result};

const FIELDS: [(&str, u32, Datatype); 7] = [
    ("offset_time", 0, Datatype::U32),
    ("x", 4, Datatype::F32),
    ("y", 8, Datatype::F32),
    ("z", 12, Datatype::F32),
    ("intensity", 16, Datatype::U8),
    ("tag", 17, Datatype::U8),
    ("line", 18, Datatype::U8),
];

/// The message without its data.
pub(super) fn cloud<'a>(message: &LivoxCustomMsg<'a>) -> Result<PointCloud2<'a>> {
    let mut fields = PointFields::new();
    for (name, offset, datatype) in FIELDS {
        fields.push(PointField { name, offset, datatype: datatype.to_ros(), count: 1 })?;
    }
    let too_many = |_| contradicts(format!("{} points in a CustomMsg", message.num_points()));
    let width = u32::try_from(message.num_points()).map_err(too_many)?;
    let point_step = LivoxCustomMsg::POINT_STEP as u32;
    Ok(PointCloud2 {
        header: message.header,
        height: 1,
        width,
        fields,
        is_bigendian: message.is_big_endian,
        point_step,
        row_step: width.saturating_mul(point_step),
        data: &[],
        is_dense: false,
    })
}

/// The most by which the drivers' `timebase` is apart from their stamp, in nanoseconds: at 30 m/s points would be 0.3 m
/// off.
const MAX_TIME_APART: i128 = 10_000_000;

/// The seconds from the stamp of a message to its `timebase`, from which `offset_time` counts, where they are not the
/// same time.
pub(super) fn time_apart(message: &LivoxCustomMsg<'_>) -> Option<f64> {
    let apart = i128::from(message.timebase) - i128::from(message.header.stamp.nanos());
    (apart.abs() > MAX_TIME_APART).then_some(apart as f64 * 1e-9)
}

impl Fill for LivoxCustomMsg<'_> {
    fn fill(&self, _: &mut Codecs, data: &mut [u8]) -> Result<()> {
        let (points, padding) = data.split_at_mut(self.points.len().min(data.len()));
        points.copy_from_slice(&self.points[..points.len()]);
        padding.fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use det_post_types::{Header, Stamp};

    use super::*;

    #[test]
    fn times_that_are_apart_are_found() {
        const STAMP: i64 = 1_700_000_000_123_456_789;
        let cases = [
            (STAMP, STAMP as u64, None),
            // A stamp that was a double of seconds.
            (STAMP, STAMP as u64 + 211, None),
            (STAMP, STAMP as u64 + 10_000_000, None),
            (STAMP, STAMP as u64 - 10_000_001, Some(-10_000_001)),
            // The stamp is the end of the sweep; the clock of the device began with it.
            (STAMP, STAMP as u64 - 100_000_000, Some(-100_000_000)),
            (20_000_000_000, 3_000_000_000, Some(-17_000_000_000)),
            (0, u64::MAX, Some(i128::from(u64::MAX))),
            (-1, 0, None),
        ];
        for (stamp, timebase, expected) in cases {
            let header = Header { stamp: Stamp::from_nanos(stamp), frame_id: "livox" };
            let message = LivoxCustomMsg { header, timebase, ..LivoxCustomMsg::default() };
            let expected = expected.map(|nanos: i128| nanos as f64 * 1e-9);
            assert_eq!(time_apart(&message), expected, "{stamp} {timebase}");
        }
    }
}
