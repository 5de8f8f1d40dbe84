//! The times of the points of a cloud: the fields that drivers write them to, and their units.

use super::{CloudView, Datatype, Stamp};

/// Points that are measured further than this from the stamp of their cloud, in seconds, have no
/// usable time.
pub const MAX_POINT_TIME_S: f32 = 1.0;

/// Points of a cloud of which the times are looked at to find their origin and their span.
const NUM_SAMPLES: usize = 1024;

super::named! {
    /// The unit of the times of points.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TimeUnit {
        /// Seconds.
        Seconds => "s",
        /// Milliseconds.
        Milliseconds => "ms",
        /// Microseconds.
        Microseconds => "us",
        /// Nanoseconds.
        Nanoseconds => "ns",
    }
    /// The name in parameters.
    pub fn name;
}

super::named! {
    /// The time from which the times of points count.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TimeOrigin {
        /// The stamp of the cloud.
        Stamp => "stamp",
        /// The epoch of the stamps.
        Epoch => "epoch",
    }
    /// The name in parameters.
    pub fn name;
}

/// How the times of points are found in a cloud. What is `None` follows from the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointTimes {
    /// Name of the field; else the first of [`PointTimes::NAMES`] that the cloud has.
    pub field: Option<String>,
    /// Its unit; else the unit of a name that ends in `_ns`, `_us`, `_ms` or `_s`, nanoseconds for
    /// integers, seconds for FLOAT32, and for FLOAT64 nanoseconds from 1e17 on, microseconds from
    /// 1e14 on, milliseconds from 1e11 on, seconds below.
    pub unit: Option<TimeUnit>,
    /// Its origin; else the stamp for times of up to [`MAX_POINT_TIME_S`], for others the one, stamp or epoch, to which they are nearer.
    pub origin: Option<TimeOrigin>,
}

/// The times of the points of one cloud.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeField {
    /// Bytes from the start of a point.
    pub offset: u32,
    /// The type of the values.
    pub datatype: Datatype,
    /// The value at the stamp of the cloud.
    pub base: f64,
    /// Seconds of a unit.
    pub unit_s: f64,
}

impl TimeUnit {
    /// Nanoseconds of a unit.
    fn nanos(self) -> f64 {
        match self {
            Self::Seconds => 1e9,
            Self::Milliseconds => 1e6,
            Self::Microseconds => 1e3,
            Self::Nanoseconds => 1.0,
        }
    }

    /// Seconds of a unit.
    fn seconds(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Milliseconds => 1e-3,
            Self::Microseconds => 1e-6,
            Self::Nanoseconds => 1e-9,
        }
    }

    /// The unit of a field whose values are up to `largest`.
    fn of(name: &str, datatype: Datatype, largest: f64) -> Self {
        let named = [
            ("_ns", Self::Nanoseconds),
            ("_us", Self::Microseconds),
            ("_ms", Self::Milliseconds),
            ("_s", Self::Seconds),
        ];
        if let Some((_, unit)) = named.iter().find(|(end, _)| name.ends_with(end)) {
            return *unit;
        }
        match datatype {
            Datatype::F32 => Self::Seconds,
            Datatype::F64 if largest < 1e11 => Self::Seconds,
            Datatype::F64 if largest < 1e14 => Self::Milliseconds,
            Datatype::F64 if largest < 1e17 => Self::Microseconds,
            _ => Self::Nanoseconds,
        }
    }
}

impl PointTimes {
    /// Names of fields, the preferred first.
    pub const NAMES: [&str; 18] = [
        "time",
        "t",
        "timestamp",
        "time_stamp",
        "offset_time",
        "time_offset",
        "timeoffset",
        "point_time_offset",
        "point_time",
        "relative_time",
        "time_s",
        "time_ms",
        "time_us",
        "time_ns",
        "offset_time_ns",
        "time_offset_us",
        "time_offset_ns",
        "timestamp_ns",
    ];

    /// The times of the points of a cloud with a stamp; `None` when it has no such field, or the
    /// field is not within its points.
    pub fn find(&self, cloud: &CloudView<'_>, stamp: Stamp) -> Option<TimeField> {
        let field = match &self.field {
            Some(name) => cloud.fields().find(&[name]),
            None => cloud.fields().find(&Self::NAMES),
        }?;
        let datatype = Datatype::from_ros(field.datatype).filter(|_| field.count > 0)?;
        let end = (field.offset as usize).checked_add(datatype.size())?;
        if end > cloud.point_step() {
            return None;
        }
        let raw = TimeField { offset: field.offset, datatype, base: 0.0, unit_s: 1.0 };
        let finite = raw.samples(cloud).filter(|value| value.is_finite());
        let largest = finite.fold(
            0.0,
            |largest: f64, value| {
                if value.abs() > largest.abs() { value } else { largest }
            },
        );
        let unit = self.unit.unwrap_or_else(|| TimeUnit::of(field.name, datatype, largest.abs()));
        let at_stamp = stamp.nanos() as f64 / unit.nanos();
        let is_from_epoch = match self.origin {
            Some(origin) => origin == TimeOrigin::Epoch,
            // Times within a scan count from the stamp, also in a simulation that begins at 0.
            None => {
                let is_long = largest.abs() * unit.seconds() > f64::from(MAX_POINT_TIME_S);
                is_long && (largest - at_stamp).abs() < largest.abs()
            }
        };
        let base = if is_from_epoch { at_stamp } else { 0.0 };
        Some(TimeField { base, unit_s: unit.seconds(), ..raw })
    }
}

impl TimeField {
    /// Seconds from the stamp of the cloud to a value: `(value - base) * unit_s` in f64, rounded to
    /// f32; `None` when that is not finite or further than [`MAX_POINT_TIME_S`].
    #[inline]
    pub fn seconds_of(&self, value: f64) -> Option<f32> {
        let seconds = ((value - self.base) * self.unit_s) as f32;
        (seconds.abs() <= MAX_POINT_TIME_S).then_some(seconds)
    }

    /// The first and the last time of a cloud, in seconds from its stamp; `None` without usable
    /// times. Of large clouds the times of 1024 points at equal distances are looked at, and that
    /// of the last one.
    pub fn span(&self, cloud: &CloudView<'_>) -> Option<[f32; 2]> {
        let usable = self.samples(cloud).filter_map(|value| self.seconds_of(value));
        usable.fold(None, |span, seconds| {
            let [first, last] = span.unwrap_or([seconds; 2]);
            Some([first.min(seconds), last.max(seconds)])
        })
    }

    /// The values of some points, among them the first and the last one.
    fn samples<'c>(&self, cloud: &'c CloudView<'_>) -> impl Iterator<Item = f64> + use<'c> {
        let Self { offset, datatype, .. } = *self;
        let num = cloud.num_points();
        let step = num.div_ceil(NUM_SAMPLES).max(1);
        let last = num.checked_sub(1).filter(|last| last % step > 0);
        (0..num).step_by(step).chain(last).map(move |index| {
            let start = index % cloud.width() * cloud.point_step() + offset as usize;
            datatype.read(&cloud.row(index / cloud.width())[start..], cloud.is_big_endian())
        })
    }
}

impl Datatype {
    /// The value at the start of `bytes`, which f64 holds exactly.
    ///
    /// # Panics
    /// When there are fewer bytes than [`Datatype::size`].
    #[inline]
    pub fn read(self, bytes: &[u8], is_big_endian: bool) -> f64 {
        macro_rules! read {
            ($type:ty) => {{
                let mut value = [0; size_of::<$type>()];
                value.copy_from_slice(&bytes[..size_of::<$type>()]);
                if is_big_endian {
                    <$type>::from_be_bytes(value)
                } else {
                    <$type>::from_le_bytes(value)
                }
            }};
        }
        match self {
            Self::I8 => f64::from(read!(i8)),
            Self::U8 => f64::from(read!(u8)),
            Self::I16 => f64::from(read!(i16)),
            Self::U16 => f64::from(read!(u16)),
            Self::I32 => f64::from(read!(i32)),
            Self::U32 => f64::from(read!(u32)),
            Self::F32 => f64::from(read!(f32)),
            Self::F64 => read!(f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PointField, PointFields};

    const STAMP: Stamp = Stamp::from_ros(1_750_000_000, 50_000_000);

    /// A cloud of points with nothing but times.
    fn find(
        times: &PointTimes,
        (name, datatype): (&str, u8),
        values: &[f64],
        stamp: Stamp,
    ) -> Option<(TimeField, Option<[f32; 2]>)> {
        let mut fields = PointFields::new();
        fields.push(PointField { name, offset: 3, datatype, count: 1 }).unwrap();
        let mut data = Vec::new();
        for value in values {
            let mut bytes = match datatype {
                6 => (*value as u32).to_le_bytes().to_vec(),
                7 => (*value as f32).to_le_bytes().to_vec(),
                _ => value.to_le_bytes().to_vec(),
            };
            bytes.resize(10, 0);
            data.extend([0xEE; 3]);
            data.extend(bytes);
        }
        let size = [values.len() as u32, 1];
        let view = CloudView::new(size, [13, 0], false, fields, &data).unwrap();
        let field = times.find(&view, stamp)?;
        Some((field, field.span(&view)))
    }

    #[test]
    fn the_forms_of_drivers_are_read() {
        let auto = PointTimes::default();
        let stamp_s = 1_750_000_000.05;
        // Velodyne, Ouster and Livox (custom), Autoware, Hesai and RoboSense, Livox, microseconds.
        for (name, datatype, first, last) in [
            ("time", 7, -0.04, 0.05),
            ("t", 6, 0.0, 9.9e7),
            ("time_stamp", 6, 0.0, 9.9e7),
            ("offset_time", 6, 5.0, 9.9e7),
            ("timestamp", 8, stamp_s, stamp_s + 0.099),
            ("timestamp", 8, stamp_s * 1e9, (stamp_s + 0.099) * 1e9),
            ("timestamp", 8, stamp_s * 1e6, (stamp_s + 0.099) * 1e6),
            ("timestamp", 8, stamp_s * 1e3, (stamp_s + 0.099) * 1e3),
            ("time_offset_us", 6, 0.0, 99_000.0),
            ("point_time", 8, 0.0, 0.099),
        ] {
            let values = [first, 0.5 * (first + last), last, first];
            let (_, span) = find(&auto, (name, datatype), &values, STAMP).unwrap();
            let [from, to] = span.unwrap_or_else(|| panic!("{name}"));
            let is_near = |found: f32, expected: f32| (found - expected).abs() < 1e-6;
            let expected = if name == "time" { [-0.04, 0.05] } else { [0.0, 0.099] };
            assert!(is_near(from, expected[0]) && is_near(to, expected[1]), "{name} {span:?}");
        }
    }

    #[test]
    fn times_of_a_simulation_that_begins_at_0_count_from_the_stamp() {
        for seconds in [0.0, 0.05, 0.12, 0.5] {
            let stamp = Stamp::from_nanos((seconds * 1e9) as i64);
            let (_, span) = find(&PointTimes::default(), ("time", 7), &[0.0, 0.1], stamp).unwrap();
            assert_eq!(span, Some([0.0, 0.1]), "{seconds}");
        }
    }

    #[test]
    fn what_is_given_holds() {
        let given = PointTimes {
            field: Some("firing".into()),
            unit: Some(TimeUnit::Milliseconds),
            origin: Some(TimeOrigin::Epoch),
        };
        let stamp = Stamp::from_nanos(2_000_000_000);
        let (_, span) = find(&given, ("firing", 7), &[2010.0, 1990.0], stamp).unwrap();
        assert_eq!(span, Some([-0.01, 0.01]));
        assert!(find(&given, ("time", 7), &[0.0], stamp).is_none());
        assert!(find(&PointTimes::default(), ("firing", 7), &[0.0], stamp).is_none());
        let relative = PointTimes { origin: Some(TimeOrigin::Stamp), ..given };
        assert_eq!(find(&relative, ("firing", 7), &[2010.0], stamp).unwrap().1, None);
    }

    #[test]
    fn times_that_are_none_do_not_count() {
        let auto = PointTimes::default();
        let values = [f64::NAN, 0.02, f64::INFINITY, 0.01, -1.5];
        let (field, span) = find(&auto, ("time", 7), &values, STAMP).unwrap();
        assert_eq!(span, Some([0.01, 0.02]));
        assert_eq!(field.seconds_of(f64::NAN), None);
        assert_eq!((field.seconds_of(1.0), field.seconds_of(1.01)), (Some(1.0), None));
        assert_eq!(find(&auto, ("time", 7), &[], STAMP).unwrap().1, None);
        // Beyond the point.
        assert!(find(&auto, ("time", 8), &[0.0], STAMP).is_some());
        assert!(find(&auto, ("time", 9), &[0.0], STAMP).is_none());
    }

    #[test]
    fn the_last_point_of_a_large_cloud_is_seen() {
        let values: Vec<f64> = (0..5000).map(|index| f64::from(index) * 1e-5).collect();
        let (_, span) = find(&PointTimes::default(), ("t", 7), &values, STAMP).unwrap();
        assert_eq!(span, Some([0.0, 0.04999]));
    }
}
