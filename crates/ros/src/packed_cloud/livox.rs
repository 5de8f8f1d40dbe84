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

impl Fill for LivoxCustomMsg<'_> {
    fn fill(&self, _: &mut Codecs, data: &mut [u8]) -> Result<()> {
        let (points, padding) = data.split_at_mut(self.points.len().min(data.len()));
        points.copy_from_slice(&self.points[..points.len()]);
        padding.fill(0);
        Ok(())
    }
}
