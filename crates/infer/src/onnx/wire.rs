//! The wire format of protocol buffers, read in place.
//!
//! A [`Message`] walks over the fields of one message. It never reads past the
//! message, never panics and allocates nothing but the text of an error.
//! Groups, which proto3 does not have, are refused.

use det_post_types::{Error, ErrorKind, Result};

/// The most bytes of a varint.
const MAX_VARINT_BYTES: usize = 10;

/// The fields of one message that are not read yet.
#[derive(Clone, Debug)]
pub(super) struct Message<'a> {
    /// Name of its type, for errors.
    kind: &'static str,
    rest: &'a [u8],
    /// Where `rest` begins in the file.
    offset: usize,
}

/// A field of a message.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    /// Its number in the schema.
    pub(super) number: u64,
    value: Value<'a>,
    /// Name of the message's type.
    kind: &'static str,
    /// Where the field begins in the file.
    offset: usize,
}

#[derive(Clone, Debug)]
enum Value<'a> {
    Varint(u64),
    Fixed64,
    Bytes { bytes: &'a [u8], offset: usize },
    Fixed32([u8; 4]),
}

impl<'a> Message<'a> {
    /// A message of the type `kind` that takes all of `bytes`, which begin at
    /// `offset` in the file.
    pub(super) fn new(kind: &'static str, bytes: &'a [u8], offset: usize) -> Self {
        Self { kind, rest: bytes, offset }
    }

    /// The bytes that are not read yet.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.rest
    }

    /// The next field; `None` at the end of the message.
    ///
    /// # Errors
    /// `Model` when the field reaches past the message or is not of the format.
    pub(super) fn next_field(&mut self) -> Result<Option<Field<'a>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let offset = self.offset;
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                self.array::<8>()?;
                Value::Fixed64
            }
            2 => {
                let len = self.varint()?;
                let begin = self.offset;
                Value::Bytes { bytes: self.take(len)?, offset: begin }
            }
            5 => Value::Fixed32(self.array()?),
            wire_type => {
                return Err(
                    self.error(&format!("a field has the unknown wire type {wire_type}"), offset)
                );
            }
        };
        match key >> 3 {
            0 => Err(self.error("a field has the number 0", offset)),
            number => Ok(Some(Field { number, value, kind: self.kind, offset })),
        }
    }

    fn varint(&mut self) -> Result<u64> {
        let begin = self.offset;
        let mut value = 0_u64;
        for at in 0..MAX_VARINT_BYTES {
            let [byte] = self.array()?;
            // The tenth byte holds the last bit; more is cut, as the format has it.
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(&format!("a varint exceeds the limit of {MAX_VARINT_BYTES} bytes"), begin))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let Some((taken, rest)) = split else {
            let message = format!("{len} bytes where {} are left", self.rest.len());
            return Err(self.error(&message, self.offset));
        };
        self.rest = rest;
        self.offset += taken.len();
        Ok(taken)
    }

    fn error(&self, what: &str, offset: usize) -> Error {
        error(self.kind, what, offset)
    }
}

impl<'a> Field<'a> {
    /// The bytes of the field.
    pub(super) fn bytes(&self) -> Result<&'a [u8]> {
        match self.value {
            Value::Bytes { bytes, .. } => Ok(bytes),
            _ => Err(self.mismatch("bytes")),
        }
    }

    /// The field as a message of the type `kind`.
    pub(super) fn message(&self, kind: &'static str) -> Result<Message<'a>> {
        match self.value {
            Value::Bytes { bytes, offset } => Ok(Message::new(kind, bytes, offset)),
            _ => Err(self.mismatch("a message")),
        }
    }

    /// The field as text.
    pub(super) fn text(&self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.error("text that is not UTF-8"))
    }

    /// The field as an integer.
    pub(super) fn int(&self) -> Result<i64> {
        match self.value {
            Value::Varint(value) => Ok(value.cast_signed()),
            _ => Err(self.mismatch("an integer")),
        }
    }

    /// The field as a float.
    pub(super) fn float(&self) -> Result<f32> {
        match self.value {
            Value::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(self.mismatch("a float")),
        }
    }

    /// Gives each integer of a repeated field to `take`: one, or many when
    /// packed.
    pub(super) fn ints(&self, mut take: impl FnMut(i64) -> Result<()>) -> Result<()> {
        let Value::Bytes { bytes, offset } = self.value else { return take(self.int()?) };
        let mut packed = Message::new(self.kind, bytes, offset);
        while !packed.rest.is_empty() {
            take(packed.varint()?.cast_signed())?;
        }
        Ok(())
    }

    /// Gives each float of a repeated field to `take`: one, or many when packed.
    pub(super) fn floats(&self, mut take: impl FnMut(f32) -> Result<()>) -> Result<()> {
        let Value::Bytes { bytes, offset } = self.value else { return take(self.float()?) };
        let mut packed = Message::new(self.kind, bytes, offset);
        while !packed.rest.is_empty() {
            take(f32::from_le_bytes(packed.array()?))?;
        }
        Ok(())
    }

    fn mismatch(&self, expected: &str) -> Error {
        let found = match self.value {
            Value::Varint(_) => "a varint",
            Value::Fixed64 => "8 bytes",
            Value::Bytes { .. } => "bytes with a length",
            Value::Fixed32(_) => "4 bytes",
        };
        self.error(&format!("{found} instead of {expected}"))
    }

    /// An error about this field.
    pub(super) fn error(&self, what: &str) -> Error {
        error(self.kind, &format!("field {}: {what}", self.number), self.offset)
    }
}

fn error(kind: &str, what: &str, offset: usize) -> Error {
    Error::new(ErrorKind::Model, super::STAGE, format!("{kind} at byte {offset}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Result<Option<Field<'_>>> {
        Message::new("TestProto", bytes, 100).next_field()
    }

    #[test]
    fn fields_of_every_wire_type_are_read() {
        let bytes = [
            0x08, 0xac, 0x02, 0x12, 0x02, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f, 0x20, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x2a, 0x03, 0x01, 0x80, 0x01, 0x31, 1,
            2, 3, 4, 5, 6, 7, 8,
        ];
        let mut message = Message::new("TestProto", &bytes, 0);
        let mut next = || message.next_field().unwrap().unwrap();
        assert_eq!(next().int().unwrap(), 300);
        assert_eq!(next().text().unwrap(), "hi");
        assert_eq!(next().float().unwrap(), 1.0);
        assert_eq!(next().int().unwrap(), -1);
        let mut ints = Vec::new();
        let packed = next();
        let mut keep = |value| {
            ints.push(value);
            Ok(())
        };
        packed.ints(&mut keep).unwrap();
        assert_eq!(ints, [1, 128]);
        assert_eq!(next().number, 6);
        assert!(message.next_field().unwrap().is_none());
    }

    #[test]
    fn errors_name_the_message_and_the_byte() {
        for (bytes, text) in [
            (&[0x08][..], "TestProto at byte 101: 1 bytes where 0 are left"),
            (&[0x12, 0x05, 1], "TestProto at byte 102: 5 bytes where 1 are left"),
            (&[0x0b], "TestProto at byte 100: a field has the unknown wire type 3"),
            (&[0x00, 0x00], "TestProto at byte 100: a field has the number 0"),
            (
                &[0x08, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1],
                "exceeds the limit of 10 bytes",
            ),
        ] {
            let error = first(bytes).unwrap_err();
            assert!(error.message().contains(text), "{error}");
        }
        let field = first(&[0x08, 0x01]).unwrap().unwrap();
        let error = field.text().unwrap_err();
        assert!(error.message().contains("field 1: a varint instead of bytes"), "{error}");
        let field = first(&[0x0a, 0x01, 0xff]).unwrap().unwrap();
        assert!(field.text().unwrap_err().message().contains("not UTF-8"));
    }
}
