//! The protocol of a channel and its process: small binary messages, a length and its
//! bytes, little-endian. Both ends are the same program.

use std::cell::Cell;
use std::io::{Read, Write};

use nalgebra::{Isometry3, Quaternion, Translation3, UnitQuaternion};

use crate::config::{ChannelConfig, Config};
use det_post_types::{Error, ErrorKind, Result};

/// The stage of errors of the proxy and its process.
pub(super) const STAGE: &str = "isolated";

/// Requests of the proxy.
pub(super) mod request {
    pub const START: u8 = 0;
    pub const MEMORY: u8 = 1;
    pub const FRAME: u8 = 2;
    pub const RECONFIGURE: u8 = 3;
    pub const RESET: u8 = 4;
    pub const WARM_UP: u8 = 5;
    pub const PREPARE: u8 = 6;
}

/// Responses of the process.
pub(super) mod response {
    pub const DONE: u8 = 0;
    pub const STARTED: u8 = 1;
    pub const DETECTED: u8 = 2;
    pub const FAILED: u8 = 3;
}

/// The maximum size of a message; the largest ones are detections with masks, which
/// `mask_capacity_bytes` limits, and configurations.
const MAX_BYTES: usize = 272 << 20;

/// A message that is written or read. Its memory is reused.
#[derive(Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
    /// The position of the next value to read.
    position: Cell<usize>,
}

impl Message {
    /// Starts a new message.
    pub(super) fn start(&mut self, tag: u8) -> &mut Self {
        self.bytes.clear();
        self.position.set(0);
        self.bytes.push(tag);
        self
    }

    pub(super) fn put_u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    pub(super) fn put_u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Writes the bits, so that every value is preserved.
    pub(super) fn put_f32(&mut self, value: f32) -> &mut Self {
        self.put_u32(value.to_bits())
    }

    pub(super) fn put_text(&mut self, text: &str) -> &mut Self {
        self.put_u64(text.len() as u64);
        self.bytes.extend(text.as_bytes());
        self
    }

    pub(super) fn put_transform(&mut self, transform: &Isometry3<f64>) -> &mut Self {
        let Isometry3 { rotation, translation } = transform;
        for value in rotation.coords.iter().chain(translation.vector.iter()) {
            self.put_u64(value.to_bits());
        }
        self
    }

    /// The tag of a message that was received.
    pub(super) fn tag(&self) -> Result<u8> {
        self.position.set(0);
        self.take::<1>().map(|[tag]| tag)
    }

    pub(super) fn u32(&self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn usize(&self) -> Result<usize> {
        usize::try_from(self.u64()?).map_err(|_| malformed())
    }

    pub(super) fn f32(&self) -> Result<f32> {
        self.u32().map(f32::from_bits)
    }

    pub(super) fn text(&self) -> Result<&str> {
        let len = self.usize()?;
        let start = self.position.get();
        let end = start.checked_add(len).ok_or_else(malformed)?;
        self.position.set(end);
        let bytes = self.bytes.get(start..end).ok_or_else(malformed)?;
        std::str::from_utf8(bytes).map_err(|_| malformed())
    }

    pub(super) fn transform(&self) -> Result<Isometry3<f64>> {
        let mut values = [0.0; 7];
        for value in &mut values {
            *value = f64::from_bits(self.u64()?);
        }
        let [i, j, k, w, x, y, z] = values;
        // Not normalised again, which could change its bits.
        let rotation = UnitQuaternion::new_unchecked(Quaternion::new(w, i, j, k));
        Ok(Isometry3::from_parts(Translation3::new(x, y, z), rotation))
    }

    fn take<const N: usize>(&self) -> Result<[u8; N]> {
        let position = self.position.get();
        let rest = self.bytes.get(position..).ok_or_else(malformed)?;
        let value = rest.first_chunk().copied().ok_or_else(malformed)?;
        self.position.set(position + N);
        Ok(value)
    }

    pub(super) fn send(&self, to: &mut impl Write) -> std::io::Result<()> {
        let len = u32::try_from(self.bytes.len()).map_err(std::io::Error::other)?;
        to.write_all(&len.to_le_bytes())?;
        to.write_all(&self.bytes)?;
        to.flush()
    }

    /// Waits for a message; `false` when the other end is closed.
    pub(super) fn receive(&mut self, from: &mut impl Read) -> std::io::Result<bool> {
        let mut len = [0; 4];
        match from.read_exact(&mut len) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            other => other?,
        }
        let len = u32::from_le_bytes(len) as usize;
        if len > MAX_BYTES {
            return Err(std::io::Error::other(format!(
                "a message of {len} bytes exceeds the limit"
            )));
        }
        self.bytes.resize(len, 0);
        self.position.set(0);
        from.read_exact(&mut self.bytes).map(|()| true)
    }
}

pub(super) fn malformed() -> Error {
    Error::new(ErrorKind::Message, STAGE, "a message between the processes is malformed")
}

/// Appends the parameters of a channel, and the keys of another node that they come from, which errors
/// of the process name.
pub(super) fn put_channel(message: &mut Message, config: &ChannelConfig) {
    let keys: Vec<_> = config.users_keys().collect();
    message.put_text(&config.to_yaml()).put_u32(keys.len() as u32);
    for (name, key) in keys {
        message.put_text(name).put_text(key);
    }
}

/// Reads what [`put_channel`] wrote of the channel of a name.
pub(super) fn take_channel(message: &Message, name: &str) -> Result<ChannelConfig> {
    let channels = Config::parse(message.text()?)?.channels;
    let found = channels.into_iter().find(|channel| channel.name == name);
    let mut channel = found.ok_or_else(malformed)?;
    for _ in 0..message.u32()? {
        channel.name_users_key(message.text()?, message.text()?);
    }
    Ok(channel)
}

/// Appends an error.
pub(super) fn put_error(message: &mut Message, error: &Error) {
    message.put_text(error.kind().reason()).put_text(&error.to_string());
}

/// Reads what [`put_error`] wrote.
pub(super) fn take_error(message: &Message) -> Result<Error> {
    let reason = message.text()?;
    let kind = ErrorKind::ALL.into_iter().find(|kind| kind.reason() == reason);
    Ok(Error::new(kind.unwrap_or(ErrorKind::Inference), "isolated", message.text()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_comes_back() {
        let rotation = UnitQuaternion::from_euler_angles(0.1, -0.2, 0.3);
        let transform = Isometry3::from_parts(Translation3::new(1.5, -2.0, 1e9), rotation);
        let mut message = Message::default();
        message.start(7).put_u32(3).put_u64(u64::MAX).put_f32(f32::NAN).put_text("naïve");
        message.put_transform(&transform);
        let mut wire = Vec::new();
        message.send(&mut wire).unwrap();
        let mut received = Message::default();
        assert!(received.receive(&mut &wire[..]).unwrap());
        assert_eq!(received.tag().unwrap(), 7);
        assert_eq!((received.u32().unwrap(), received.u64().unwrap()), (3, u64::MAX));
        assert_eq!(received.f32().unwrap().to_bits(), f32::NAN.to_bits());
        assert_eq!(received.text().unwrap(), "naïve");
        assert_eq!(received.transform().unwrap(), transform);
        assert!(received.u32().is_err(), "there is no more");
    }

    #[test]
    fn an_end_and_a_broken_message_differ() {
        let mut message = Message::default();
        assert!(!message.receive(&mut &[][..]).unwrap());
        assert!(message.receive(&mut &[5, 0, 0, 0, 1][..]).is_err());
        assert!(message.receive(&mut &[0xff; 8][..]).is_err());
        message.start(1).put_u64(u64::MAX);
        message.tag().unwrap();
        assert!(message.text().is_err(), "longer than the message");
    }
}
