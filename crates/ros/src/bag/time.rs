//! The position in time of a file of a recording.

use det_post_types::Stamp;

/// The position in time of a file.
pub(super) enum Head {
    /// A message of this time is ready.
    Ready(Stamp),
    /// More is to be loaded; no message of it is earlier than this.
    NotBefore(Stamp),
    /// As `NotBefore`, but the memory budget has no memory for it now.
    Blocked(Stamp),
    /// Nothing more.
    End,
}

/// Log times are unsigned in MCAP; those beyond the year 2262 saturate.
pub(super) fn stamp(nanos: u64) -> Stamp {
    Stamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}
