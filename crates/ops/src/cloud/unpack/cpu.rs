//! The reference on the CPU.

use super::placement::{Placement, moved};
use super::{Layout, MAX_CHANNELS, Source, UnpackCounts};
use det_post_types::{CloudView, Datatype, PointRange, Points, TimeField};

/// Reads every point of a cloud that has points, and appends them.
pub(super) fn append(
    cloud: &CloudView<'_>,
    layout: &Layout,
    range: Option<&PointRange>,
    placement: &Placement,
    out: &mut Points,
) -> UnpackCounts {
    let big_endian = cloud.is_big_endian();
    let read = Read { cloud, layout, range };
    let any_position = |point: &[u8]| -> [f32; 3] {
        std::array::from_fn(|axis| value_of(point, layout.sources[axis], big_endian))
    };
    if *placement != Placement::default() {
        return read.points(out, any_position, |point, position| {
            place(placement, big_endian, point, position)
        });
    }
    let stay = |_: &[u8], position| Placed { position, is_cropped: false, has_time: true };
    match layout.plain_position(big_endian) {
        Some([x, y, z]) => read.points(
            out,
            |point| [x, y, z].map(|offset| f32::from_le_bytes(bytes_at(point, offset))),
            stay,
        ),
        None => read.points(out, any_position, stay),
    }
}

/// A point in the frame of the output.
struct Placed {
    position: [f32; 3],
    is_cropped: bool,
    has_time: bool,
}

fn place(placement: &Placement, big_endian: bool, point: &[u8], position: [f32; 3]) -> Placed {
    let seconds = placement.sweep.as_ref().map(|sweep| {
        let TimeField { offset, datatype, .. } = sweep.times;
        sweep.times.seconds_of(datatype.read(&point[offset as usize..], big_endian))
    });
    let position = match (&placement.sweep, seconds.flatten(), &placement.rows) {
        (Some(sweep), Some(seconds), _) => moved(&sweep.rows_at(seconds), position),
        (_, _, Some(rows)) => moved(rows, position),
        (_, _, None) => position,
    };
    Placed {
        position,
        is_cropped: placement.crop.is_some_and(|crop| crop.contains(position)),
        has_time: seconds.is_none_or(|seconds| seconds.is_some()),
    }
}

/// What is read of a cloud.
struct Read<'a> {
    cloud: &'a CloudView<'a>,
    layout: &'a Layout,
    range: Option<&'a PointRange>,
}

impl Read<'_> {
    fn points(
        &self,
        out: &mut Points,
        position_of: impl Fn(&[u8]) -> [f32; 3],
        place: impl Fn(&[u8], [f32; 3]) -> Placed,
    ) -> UnpackCounts {
        let Self { cloud, layout, range } = *self;
        let big_endian = cloud.is_big_endian();
        let channels = &layout.sources[3..layout.num_channels];
        let mut counts = UnpackCounts::default();
        let mut values = [0.0; MAX_CHANNELS];
        for row in 0..cloud.height() {
            for point in cloud.row(row).chunks_exact(cloud.point_step()) {
                let measured = position_of(point);
                if !measured.iter().all(|value| value.is_finite()) {
                    counts.num_not_finite += 1;
                    continue;
                }
                for (value, &source) in values[3..].iter_mut().zip(channels) {
                    *value = value_of(point, source, big_endian);
                }
                let values = &mut values[..layout.num_channels];
                if !values[3..].iter().all(|value| value.is_finite()) {
                    counts.num_not_finite += 1;
                    continue;
                }
                let Placed { position, is_cropped, has_time } = place(point, measured);
                counts.num_without_time += usize::from(!has_time);
                values[..3].copy_from_slice(&position);
                if !position.iter().all(|value| value.is_finite()) {
                    counts.num_not_finite += 1;
                } else if is_cropped {
                    counts.num_cropped += 1;
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
