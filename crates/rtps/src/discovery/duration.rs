//! Durations in announcements (9.3.2).

use std::time::Duration;

use crate::wire::Cursor;

/// 292 years.
pub(crate) const INFINITE: Duration = Duration::from_secs(i64::MAX as u64 / 1_000_000_000);

/// A duration in nanoseconds of seconds and a fraction; infinite ones end in 292 years.
pub(super) fn duration(value: &mut Cursor<'_>) -> Option<Duration> {
    let (seconds, fraction) = (value.u32()?, value.u32()?);
    if seconds >= 0x7fff_ffff {
        return Some(INFINITE);
    }
    let nanos = (u64::from(fraction) * 1_000_000_000) >> 32;
    Some(Duration::new(seconds.into(), nanos as u32))
}
