//! The bytes of messages: DDSI-RTPS chapter 8.3 (structure and validity of submessages)
//! and chapter 9.4 (their encoding).

mod cursor;
mod encode;
mod numbers;
mod parameters;
mod submessage;

pub(crate) use cursor::Cursor;
pub(crate) use encode::{DataParts, FragmentParts, Message, Payload, disposal};
pub(crate) use numbers::NumberSet;
pub(crate) use parameters::{Inline, Parameter, ParameterWriter, parameters, pid};
pub(crate) use submessage::{
    AckNack, Data, DataFrag, Gap, Header, Heartbeat, NackFrag, Submessage,
};

/// Status bits of inline QoS (9.6.4.9): the instance is disposed, or unregistered.
pub(crate) const DISPOSED: u32 = 1;
pub(crate) const UNREGISTERED: u32 = 2;

/// Nanoseconds since 1970 of a time on the wire (9.3.2.1); `None` for the invalid time.
pub(crate) fn nanos(seconds: u32, fraction: u32) -> Option<i64> {
    let nanos = (u64::from(fraction) * 1_000_000_000) >> 32;
    (seconds != u32::MAX).then(|| i64::from(seconds) * 1_000_000_000 + nanos as i64)
}

/// A time on the wire, such that [`nanos`] gives it back.
pub(crate) fn wire_time(nanos: i64) -> (u32, u32) {
    let nanos = nanos.max(0);
    let (seconds, rest) = (nanos / 1_000_000_000, (nanos % 1_000_000_000) as u64);
    let fraction = (rest << 32).div_ceil(1_000_000_000);
    (seconds as u32, fraction.min(u64::from(u32::MAX)) as u32)
}

#[cfg(test)]
mod tests;
