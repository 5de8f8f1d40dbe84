//! Times in the time zone of this machine.

use det_post_types::Stamp;

/// A stamp to the second, with its distance from UTC: `2026-11-29 21:00:00 +0100`; `None` where the C
/// library has no such date.
pub(super) fn local_time(stamp: Stamp) -> Option<String> {
    let seconds = libc::time_t::try_from(stamp.nanos().div_euclid(1_000_000_000)).ok()?;
    let at = broken_down(seconds)?;
    let offset = at.tm_gmtoff / 60;
    let sign = if offset < 0 { '-' } else { '+' };
    let offset = offset.abs();
    Some(format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02} {sign}{:02}{:02}",
        i64::from(at.tm_year) + 1900,
        at.tm_mon + 1,
        at.tm_mday,
        at.tm_hour,
        at.tm_min,
        at.tm_sec,
        offset / 60,
        offset % 60
    ))
}

#[expect(unsafe_code, reason = "the time zone is the C library's")]
fn broken_down(seconds: libc::time_t) -> Option<libc::tm> {
    let mut at = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to memory of their types that lives through the call; no thread of this
    // program changes the environment that names the time zone.
    let found = unsafe { libc::localtime_r(&raw const seconds, at.as_mut_ptr()) };
    // SAFETY: zeros are a valid `tm`, whose only pointer may be null.
    (!found.is_null()).then(|| unsafe { at.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_a_zone_of_this_day() {
        let text = local_time(Stamp::from_ros(1_700_000_000, 999_999_999)).unwrap();
        assert!(text.starts_with("2023-11-1"), "{text}");
        let [_, time, zone] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(time.ends_with(":20") && zone.len() == 5, "{text}");
        // Before 1970, and further than a calendar has dates.
        assert!(local_time(Stamp::from_ros(-1, 0)).is_some());
    }
}
