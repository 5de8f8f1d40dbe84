//! The reference on the CPU.

use super::{Layout, MAX_CHANNELS, Source, UnpackCounts};
use det_post_types::{CloudView, Datatype, PointRange, Points};

/// Reads every point of a cloud that has points. `out` is empty.
pub(super) fn unpack(
    cloud: &CloudView<'_>,
    layout: &Layout,
    range: Option<&PointRange>,
    out: &mut Points,
) -> UnpackCounts {
    let big_endian = cloud.is_big_endian();
    match layout.plain_position(big_endian) {
        Some([x, y, z]) => read_points(cloud, layout, range, out, |point| {
            [x, y, z].map(|offset| f32::from_le_bytes(bytes_at(point, offset)))
        }),
        None => read_points(cloud, layout, range, out, |point| {
            std::array::from_fn(|axis| value_of(point, layout.sources[axis], big_endian))
        }),
    }
}

fn read_points(
    cloud: &CloudView<'_>,
    layout: &Layout,
    range: Option<&PointRange>,
    out: &mut Points,
    position_of: impl Fn(&[u8]) -> [f32; 3],
) -> UnpackCounts {
    let big_endian = cloud.is_big_endian();
    let channels = &layout.sources[3..layout.num_channels];
    let mut counts = UnpackCounts::default();
    let mut values = [0.0; MAX_CHANNELS];
    for row in 0..cloud.height() {
        for point in cloud.row(row).chunks_exact(cloud.point_step()) {
            let position = position_of(point);
            if !position.iter().all(|value| value.is_finite()) {
                counts.num_not_finite += 1;
                continue;
            }
            values[..3].copy_from_slice(&position);
            for (value, &source) in values[3..].iter_mut().zip(channels) {
                *value = value_of(point, source, big_endian);
            }
            let values = &values[..layout.num_channels];
            if !values[3..].iter().all(|value| value.is_finite()) {
                counts.num_not_finite += 1;
            } else if range.is_some_and(|range| !range.contains(position)) {
                counts.num_out_of_range += 1;
            } else if out.push(values) {
                counts.num_points += 1;
            } else {
                counts.num_over_capacity += 1;
            }
        }
    }
    counts
}

#[inline]
fn value_of(point: &[u8], source: Source, big_endian: bool) -> f32 {
    let Source::Field { offset, datatype, scale } = source else { return 0.0 };
    macro_rules! read {
        ($type:ty) => {{
            let bytes = bytes_at(point, offset);
            if big_endian { <$type>::from_be_bytes(bytes) } else { <$type>::from_le_bytes(bytes) }
        }};
    }
    let value = match datatype {
        Datatype::I8 => f32::from(read!(i8)),
        Datatype::U8 => f32::from(read!(u8)),
        Datatype::I16 => f32::from(read!(i16)),
        Datatype::U16 => f32::from(read!(u16)),
        Datatype::I32 => read!(i32) as f32,
        Datatype::U32 => read!(u32) as f32,
        Datatype::F32 => read!(f32),
        Datatype::F64 => read!(f64) as f32,
    };
    value * scale
}

/// The `N` bytes at an offset that the layout has checked.
#[inline]
fn bytes_at<const N: usize>(point: &[u8], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&point[offset..offset + N]);
    bytes
}
