//! A part of a recording: which frames are passed on, and what is read before them.
//!
//! A slice owns the frames whose log times are in it: those at which a frame's last message was
//! logged, or at which its deadline passed. Consecutive slices own every frame of the recording
//! once. What a frame needs of the time before the slice is read as well: past sweeps and
//! waiting inputs by processing the frames of the warm-up without passing them on, transforms
//! and calibrations by [`TransformFeed`](super::transforms::TransformFeed) and
//! [`read_calibrations`](super::calibrations::read_calibrations).

use std::str::FromStr;
use std::time::Duration;

use crate::config::{ChannelConfig, Past};
use det_post_ros::bag::LogSpan;
use det_post_types::{Error, ErrorKind, Result, Stamp};

/// Added to a warm-up: messages are logged up to this much later than they are stamped.
const MAX_LATENCY: Duration = Duration::from_secs(1);

/// A log time of a recording. As text: seconds since the epoch, `1700000000.25`, or after the
/// start of the recording, `+60`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTime {
    /// A time since the epoch.
    At(Stamp),
    /// A time after the first message of the recording, as the recording declares it.
    AfterStart(Duration),
}

impl LogTime {
    fn resolve(self, start: Option<Stamp>) -> Result<Stamp> {
        match (self, start) {
            (Self::At(stamp), _) => Ok(stamp),
            (Self::AfterStart(duration), Some(start)) => Ok(after(start, duration)),
            (Self::AfterStart(_), None) => {
                let message =
                    "the recording does not declare its start: name times since the epoch";
                Err(Error::new(ErrorKind::Usage, "replay", message))
            }
        }
    }
}

impl FromStr for LogTime {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || {
            "a time is seconds since the epoch such as 1700000000.25, or after the start of the \
             recording such as +60"
                .to_owned()
        };
        let (digits, is_relative) = match text.strip_prefix('+') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let nanos = nanos(digits).ok_or_else(wrong)?;
        Ok(match is_relative {
            true => Self::AfterStart(Duration::from_nanos(nanos)),
            false => Self::At(Stamp::from_nanos(i64::try_from(nanos).map_err(|_| wrong())?)),
        })
    }
}

/// Decimal seconds with up to nine places as nanoseconds, exactly.
fn nanos(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 9 {
        return None;
    }
    let part: u64 = format!("{part:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

/// The part of a recording whose frames a replay passes on; by default the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The first log time.
    pub from: Option<LogTime>,
    /// The end, exclusive.
    pub to: Option<LogTime>,
    /// The time before `from` whose frames are processed and not passed on. `None`: what the
    /// channels need for the same detections as those of a replay of the whole recording, which
    /// is all the time before where a network carries a memory from frame to frame.
    pub warm_up: Option<Duration>,
}

impl Slice {
    /// Whether it has no time of a recording with messages from the first to the last of these times.
    pub fn misses(&self, (first, last): (Stamp, Stamp)) -> bool {
        let at = |time: Option<LogTime>| time.and_then(|time| time.resolve(Some(first)).ok());
        at(self.from).is_some_and(|from| from > last) || at(self.to).is_some_and(|to| to <= first)
    }
}

/// A [`Slice`] of an open recording.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// The log times of the frames that are passed on.
    pub(super) owned: LogSpan,
    /// The log times of the messages that are read.
    pub(super) read: LogSpan,
    /// The log time of the first message that may make a frame, its warm-up included. Video is read in before it.
    pub(super) frames_from: Option<Stamp>,
}

impl Bounds {
    /// The bounds of a slice of a recording that starts at `start`, for these channels.
    ///
    /// # Errors
    /// `Usage` for a slice that ends before it starts, or whose times cannot be known.
    pub(super) fn new<'a>(
        slice: &Slice,
        start: Option<Stamp>,
        channels: impl Iterator<Item = &'a ChannelConfig>,
    ) -> Result<Self> {
        let resolve = |time: Option<LogTime>| time.map(|time| time.resolve(start)).transpose();
        let owned = LogSpan { from: resolve(slice.from)?, to: resolve(slice.to)? };
        if let LogSpan { from: Some(from), to: Some(to) } = owned
            && from >= to
        {
            let message = format!("the slice from {from} to {to} ends before it starts");
            return Err(Error::new(ErrorKind::Usage, "replay", message));
        }
        let warm_up = slice.warm_up.or_else(|| {
            let is_cut = owned.from.is_some();
            let warm_up = warm_up(channels);
            if is_cut && warm_up.is_none() {
                tracing::info!(
                    "a network remembers all frames before the slice, which are processed too; a \
                     warm-up limits them"
                );
            }
            warm_up
        });
        let read_from = owned.from.zip(warm_up).map(|(from, warm_up)| before(from, warm_up));
        let read = LogSpan { from: read_from, to: owned.to };
        Ok(Self { owned, read, frames_from: read_from })
    }
}

/// The warm-up with which these channels find in a slice what they find in the whole recording;
/// `None`: all the time before it.
pub fn warm_up<'a>(channels: impl IntoIterator<Item = &'a ChannelConfig>) -> Option<Duration> {
    channels.into_iter().map(needed).try_fold(Duration::ZERO, |all, one| Some(all.max(one?)))
}

fn needed(channel: &ChannelConfig) -> Option<Duration> {
    // Messages of several inputs wait for each other.
    let (num_inputs, sync) = (channel.inputs.len(), &channel.sync);
    let waiting = if num_inputs > 1 { sync.deadline * 2 + MAX_LATENCY } else { Duration::ZERO };
    match channel.kind.past() {
        Past::None => Some(waiting),
        Past::Recent(age) => Some(waiting.max(MAX_LATENCY) + age),
        Past::All => None,
    }
}

/// `stamp`, earlier by a duration.
pub(super) fn before(stamp: Stamp, duration: Duration) -> Stamp {
    let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    Stamp::from_nanos(stamp.nanos().saturating_sub(nanos))
}

pub(super) fn after(stamp: Stamp, duration: Duration) -> Stamp {
    let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    Stamp::from_nanos(stamp.nanos().saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        let at = |nanos| Ok(LogTime::At(Stamp::from_nanos(nanos)));
        let after = |nanos| Ok(LogTime::AfterStart(Duration::from_nanos(nanos)));
        assert_eq!("1700000000.123456789".parse(), at(1_700_000_000_123_456_789));
        assert_eq!("0".parse(), at(0));
        assert_eq!("+60".parse(), after(60_000_000_000));
        assert_eq!("+0.05".parse(), after(50_000_000));
        for wrong in ["", "+", "-1", "1.", ".5", "1e9", "nan", "+-1", "1.0000000001", "99999999999"]
        {
            assert!(wrong.parse::<LogTime>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_slice_ends_after_it_starts_and_knows_its_start() {
        let time = |text: &str| Some(text.parse().unwrap());
        let bounds = |from, to, start| {
            let slice = Slice { from, to, warm_up: Some(Duration::from_secs(1)) };
            Bounds::new(&slice, start, std::iter::empty())
        };
        let start = Some(Stamp::from_nanos(5_000_000_000));
        let found = bounds(time("+2"), time("8"), start).unwrap();
        let [from, read_from] = [7, 6].map(|s| Some(Stamp::from_nanos(s * 1_000_000_000)));
        assert_eq!((found.owned.from, found.read.from), (from, read_from));
        assert_eq!(found.owned.to, found.read.to);
        for (from, to, start) in [
            (time("+2"), time("7"), start),
            (time("8"), time("7"), start),
            (time("+2"), None, None),
        ] {
            let error = bounds(from, to, start).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        }
    }
}
