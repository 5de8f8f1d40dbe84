//! Stamp and frame of a message.

use std::fmt;

/// Acquisition time in nanoseconds since the epoch of the clock that stamped
/// the message (never the time of arrival).
///
/// ROS stamps carry a signed 32-bit second, so every ROS stamp fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(i64);

impl Stamp {
    /// A stamp from nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A stamp from the two fields of `builtin_interfaces/Time`.
    pub const fn from_ros(sec: i32, nanosec: u32) -> Self {
        Self(sec as i64 * 1_000_000_000 + nanosec as i64)
    }

    /// Nanoseconds since the epoch.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The two fields of `builtin_interfaces/Time`; seconds outside 32 bits
    /// saturate.
    pub fn to_ros(self) -> (i32, u32) {
        let sec = self.0.div_euclid(1_000_000_000);
        let nanosec = self.0.rem_euclid(1_000_000_000) as u32;
        match i32::try_from(sec) {
            Ok(sec) => (sec, nanosec),
            Err(_) if sec < 0 => (i32::MIN, 0),
            Err(_) => (i32::MAX, 999_999_999),
        }
    }

    /// Seconds from `earlier` to `self`; negative when `self` is the earlier.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.0.wrapping_sub(earlier.0) as f64 * 1e-9
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

/// `std_msgs/Header`, borrowed from its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// Acquisition time.
    pub stamp: Stamp,
    /// Name of the coordinate frame of the data.
    pub frame_id: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ros_fields_round_trip() {
        for (sec, nanosec) in [(0, 0), (1_700_000_000, 999_999_999), (-1, 5), (i32::MIN, 0)] {
            assert_eq!(Stamp::from_ros(sec, nanosec).to_ros(), (sec, nanosec));
        }
    }

    #[test]
    fn seconds_outside_ros_saturate() {
        assert_eq!(Stamp::from_nanos(i64::MAX).to_ros(), (i32::MAX, 999_999_999));
        assert_eq!(Stamp::from_nanos(i64::MIN).to_ros(), (i32::MIN, 0));
    }

    #[test]
    fn display_is_seconds() {
        assert_eq!(Stamp::from_ros(7, 80).to_string(), "7.000000080");
        assert_eq!(Stamp::from_nanos(-1_500_000_000).to_string(), "-1.500000000");
    }
}
