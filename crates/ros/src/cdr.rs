//! CDR, the wire format of ROS 2 messages: plain XCDR1 after a four-byte
//! encapsulation header.
//!
//! [`Reader`] borrows: strings and byte sequences are slices of the message.
//! It never reads beyond the message, never panics, and allocates only the text
//! of an error. Every number is aligned to its own size, counted from the
//! fifth byte. Bytes after the last field are padding and are ignored.
//!
//! [`Writer`] appends little-endian CDR to a buffer of the caller and pads the
//! end to four bytes, which some receivers require.

use det_post_types::{Error, ErrorKind, Result};

const ENCAPSULATION_LEN: usize = 4;

/// The first bytes of a zstd frame.
const ZSTD_MAGIC: [u8; ENCAPSULATION_LEN] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes from `offset` in the body, which follows the encapsulation header, to
/// the next multiple of `alignment` (a power of two).
fn padding(offset: usize, alignment: usize) -> usize {
    offset.wrapping_neg() & (alignment - 1)
}

/// Reads the fields of one message in order.
///
/// Errors have the kind `Message`, the message type as their stage, and name
/// the offset in the message, what is needed and what is left.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    message_type: &'static str,
    body: &'a [u8],
    /// Offset in the body at which the next field may start.
    offset: usize,
    big_endian: bool,
}

macro_rules! read_numbers {
    ($($number:ident)*) => {$(
        #[doc = concat!("The next field, of type `", stringify!($number), "`.")]
        ///
        /// # Errors
        /// `Message` when the message ends before its end.
        pub fn $number(&mut self) -> Result<$number> {
            let bytes = self.aligned()?;
            Ok(if self.big_endian {
                $number::from_be_bytes(bytes)
            } else {
                $number::from_le_bytes(bytes)
            })
        }
    )*};
}

impl<'a> Reader<'a> {
    /// A reader at the first field of `bytes`, a whole message with its
    /// encapsulation header. `message_type` is the stage of all errors.
    ///
    /// # Errors
    /// `Message` when the header is missing or its encapsulation is not plain CDR,
    /// big or little endian; `Encoding` for a message that is compressed by zstd.
    pub fn new(message_type: &'static str, bytes: &'a [u8]) -> Result<Self> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Message, message_type, message));
        let Some((header, body)) = bytes.split_first_chunk::<ENCAPSULATION_LEN>() else {
            return refuse(format!(
                "message has {} bytes, fewer than the {ENCAPSULATION_LEN} of the encapsulation \
                 header",
                bytes.len()
            ));
        };
        let big_endian = match header {
            [0, 0, ..] => true,
            [0, 1, ..] => false,
            &ZSTD_MAGIC => {
                let message = "the message is compressed by zstd (`ros2 bag record \
                               --compression-mode message`), which is not read: convert the folder \
                               of the recording, with its metadata.yaml, by `ros2 bag convert` \
                               (docs/troubleshooting.md)";
                return Err(Error::new(ErrorKind::Encoding, message_type, message));
            }
            [a, b, ..] => {
                return refuse(format!(
                    "encapsulation is {a:02x} {b:02x}; read are 00 00 (CDR_BE) and 00 01 (CDR_LE)"
                ));
            }
        };
        Ok(Self::of_body(message_type, body, big_endian))
    }

    /// A reader at the first field of `body`, a message whose encapsulation
    /// header was read already.
    pub fn of_body(message_type: &'static str, body: &'a [u8], big_endian: bool) -> Self {
        Self { message_type, body, offset: 0, big_endian }
    }

    /// Whether numbers are big endian.
    pub fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// Number of bytes that are not read yet.
    pub fn remaining(&self) -> usize {
        self.body.len() - self.offset
    }

    /// The bytes that are not read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.body[self.offset..]
    }

    /// Offset in the message at which the next field may start.
    fn position(&self) -> usize {
        ENCAPSULATION_LEN + self.offset
    }

    /// An error of kind `Message` about the last field.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Message, self.message_type, message)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let taken = self.offset.checked_add(len).and_then(|end| self.body.get(self.offset..end));
        match taken {
            Some(taken) => {
                self.offset += len;
                Ok(taken)
            }
            None => Err(self.error(format!(
                "{len} bytes are required at byte {}, {} are left",
                self.position(),
                self.remaining()
            ))),
        }
    }

    fn aligned<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(padding(self.offset, N))?;
        let mut value = [0; N];
        value.copy_from_slice(self.take(N)?);
        Ok(value)
    }

    read_numbers! { u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }

    /// The next field, of type `bool`.
    ///
    /// # Errors
    /// `Message` when the message ends before, or the byte is neither 0 nor 1.
    pub fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => {
                let at = self.position() - 1;
                Err(self.error(format!("bool at byte {at} must be 0 or 1, found {other}")))
            }
        }
    }

    /// The next field, a fixed-size array of `f64`.
    ///
    /// # Errors
    /// `Message` when the message ends before its end.
    pub fn f64_array<const N: usize>(&mut self) -> Result<[f64; N]> {
        let mut values = [0.0; N];
        for value in &mut values {
            *value = self.f64()?;
        }
        Ok(values)
    }

    /// The next field, a string, without its terminator. A length of 0, without a
    /// terminator, is accepted as an empty string.
    ///
    /// # Errors
    /// `Message` when the string exceeds the message, does not end in a zero byte
    /// or is not UTF-8.
    pub fn str(&mut self) -> Result<&'a str> {
        let len = self.sequence_len(1)?;
        let at = self.position();
        let Some((terminator, text)) = self.take(len)?.split_last() else {
            return Ok("");
        };
        if *terminator != 0 {
            return Err(self.error(format!(
                "string of {len} bytes at byte {at} ends in {terminator:#04x}, not in a zero"
            )));
        }
        std::str::from_utf8(text).map_err(|error| {
            self.error(format!("string of {len} bytes at byte {at} is not UTF-8"))
                .with_source(error)
        })
    }

    /// The next field, a sequence of bytes.
    ///
    /// # Errors
    /// `Message` when the sequence exceeds the message.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.sequence_len(1)?;
        self.take(len)
    }

    /// The next field, a sequence of structs of `size` bytes whose largest number has four: their bytes as on the
    /// wire, `stride` from one to the next.
    ///
    /// # Errors
    /// `Message` when that many structs exceed the message.
    pub fn structs(&mut self, size: usize, stride: usize) -> Result<&'a [u8]> {
        let len = self.sequence_len(size)?;
        self.take(len.saturating_mul(stride).saturating_sub(stride - size))
    }

    /// The number of elements of a sequence. Its first element is the next field.
    /// `min_element_size` is the smallest size of an element in bytes.
    ///
    /// # Errors
    /// `Message` when that many elements exceed the rest of the message.
    pub fn sequence_len(&mut self, min_element_size: usize) -> Result<usize> {
        let len = self.u32()? as usize;
        let needed = len.saturating_mul(min_element_size);
        if needed > self.remaining() {
            return Err(self.error(format!(
                "sequence of {len} elements at byte {} needs {needed} bytes or more, {} are left",
                self.position(),
                self.remaining()
            )));
        }
        Ok(len)
    }
}

/// The elements of the last sequence of a message, decoded one by one.
///
/// Yields at most one error, as the last item. Allocates nothing. A clone
/// continues from the same element.
#[derive(Clone, Debug)]
pub struct Sequence<'a, T> {
    reader: Reader<'a>,
    remaining: usize,
    read: fn(&mut Reader<'a>) -> Result<T>,
}

impl<'a, T> Sequence<'a, T> {
    /// The sequence that is the next field of `reader`. `read` decodes an element
    /// of at least `min_element_size` bytes.
    ///
    /// # Errors
    /// `Message` when the elements exceed the message.
    pub fn new(
        mut reader: Reader<'a>,
        min_element_size: usize,
        read: fn(&mut Reader<'a>) -> Result<T>,
    ) -> Result<Self> {
        let remaining = reader.sequence_len(min_element_size)?;
        Ok(Self { reader, remaining, read })
    }

    /// Number of elements that are not decoded yet, as the message states it.
    pub fn len(&self) -> usize {
        self.remaining
    }

    /// Whether all elements are decoded.
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }
}

impl<T> Iterator for Sequence<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let element = (self.read)(&mut self.reader);
        if element.is_err() {
            self.remaining = 0;
        }
        Some(element)
    }
}

/// Writes the fields of one message in order, little endian.
///
/// The buffer is the caller's and is reused: nothing is allocated once it has
/// grown to the largest message.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
}

macro_rules! write_numbers {
    ($($number:ident)*) => {$(
        #[doc = concat!("Appends a field of type `", stringify!($number), "`.")]
        pub fn $number(&mut self, value: $number) {
            self.align(size_of::<$number>());
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    )*};
}

impl<'a> Writer<'a> {
    /// A writer of a new message that replaces the content of `bytes`.
    pub fn new(bytes: &'a mut Vec<u8>) -> Self {
        bytes.clear();
        bytes.extend_from_slice(&[0, 1, 0, 0]);
        Self { bytes }
    }

    fn align(&mut self, alignment: usize) {
        let padding = padding(self.bytes.len() - ENCAPSULATION_LEN, alignment);
        self.bytes.resize(self.bytes.len() + padding, 0);
    }

    write_numbers! { u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }

    /// Appends a field of type `bool`.
    pub fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    /// Appends the elements of a fixed-size array of `f64`.
    pub fn f64_array(&mut self, values: &[f64]) {
        for &value in values {
            self.f64(value);
        }
    }

    /// Appends a string and its terminator.
    pub fn str(&mut self, value: &str) {
        self.sequence_len(value.len() + 1);
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
    }

    /// Appends a sequence of bytes.
    pub fn bytes(&mut self, value: &[u8]) {
        self.sequence_len(value.len());
        self.bytes.extend_from_slice(value);
    }

    /// Appends the number of elements of a sequence; the elements follow. A number
    /// of more than 32 bits is refused by [`Writer::finish`].
    pub fn sequence_len(&mut self, len: usize) {
        self.u32(len as u32);
    }

    /// Appends a sequence whose elements `write` appends.
    pub fn sequence<T>(&mut self, elements: &[T], write: impl Fn(&mut Self, &T)) {
        self.sequence_len(elements.len());
        elements.iter().for_each(|element| write(self, element));
    }

    /// Completes the message: pads it to a multiple of four bytes.
    ///
    /// # Errors
    /// `Message` in stage `message_type` when the message has more bytes than
    /// its 32-bit lengths can count; it is discarded.
    pub fn finish(mut self, message_type: &'static str) -> Result<()> {
        self.align(4);
        let len = self.bytes.len();
        if u32::try_from(len).is_err() {
            self.bytes.clear();
            return Err(Error::new(
                ErrorKind::Message,
                message_type,
                format!("message of {len} bytes exceeds the limit of {}", u32::MAX),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new("test", bytes).unwrap()
    }

    #[test]
    fn only_plain_cdr_is_read() {
        // (header, accepted)
        let cases: [(&[u8], bool); 8] = [
            (&[], false),
            (&[0, 1, 0], false),
            (&[0, 0, 0, 0], true),
            (&[0, 1, 0, 3], true),
            (&[0, 2, 0, 0], false),
            (&[0, 3, 0, 0], false),
            (&[0, 7, 0, 0], false),
            (&[1, 1, 0, 0], false),
        ];
        for (header, accepted) in cases {
            assert_eq!(Reader::new("test", header).is_ok(), accepted, "{header:?}");
        }
        let error = Reader::new("test", &[0, 9, 0, 0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Message);
        assert!(error.message().contains("00 09"), "{error}");
    }

    #[test]
    fn numbers_are_aligned_in_both_byte_orders() {
        // u8, then u16 at 2, u32 at 4, f64 at 8 and u8, f32 at 20: offsets without the header.
        let little = [
            0, 1, 0, 0, 7, 9, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 5,
            9, 9, 9, 0, 0, 0x20, 0xc0,
        ];
        let big = [
            0, 0, 0, 0, 7, 9, 0x12, 0x34, 0x12, 0x34, 0x56, 0x78, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 5,
            9, 9, 9, 0xc0, 0x20, 0, 0,
        ];
        let readers = [
            reader(&little),
            reader(&big),
            Reader::of_body("test", &little[4..], false),
            Reader::of_body("test", &big[4..], true),
        ];
        for mut r in readers {
            assert_eq!(r.u8().unwrap(), 7);
            assert_eq!(r.u16().unwrap(), 0x1234);
            assert_eq!(r.u32().unwrap(), 0x1234_5678);
            assert_eq!(r.f64().unwrap().to_bits(), 1.5f64.to_bits());
            assert_eq!(r.u8().unwrap(), 5);
            assert_eq!(r.f32().unwrap().to_bits(), (-2.5f32).to_bits());
            assert_eq!(r.remaining(), 0);
            let error = r.u32().unwrap_err();
            assert_eq!(error.to_string(), "test: 4 bytes are required at byte 28, 0 are left");
        }
    }

    #[test]
    fn strings_are_checked() {
        // (length field, content, what is read)
        let cases: [(u8, &[u8], Option<&str>); 9] = [
            (0, b"", Some("")),
            (1, b"\0", Some("")),
            (4, b"abc\0", Some("abc")),
            (4, b"abc\0\0\0\0", Some("abc")),
            (3, b"\xc3\xa9\0", Some("é")),
            (3, b"abc", None),
            (5, b"abc\0", None),
            (3, b"\xff\xfe\0", None),
            (255, b"abc\0", None),
        ];
        for (len, content, expected) in cases {
            let mut bytes = vec![0, 1, 0, 0, len, 0, 0, 0];
            bytes.extend_from_slice(content);
            assert_eq!(reader(&bytes).str().ok(), expected, "{len} {content:?}");
        }
    }

    #[test]
    fn sequence_lengths_are_checked_before_use() {
        for (len, element, accepted) in [
            (0u32, 8, true),
            (2, 8, true),
            (3, 8, false),
            (16, 1, true),
            (17, 1, false),
            (u32::MAX, 1, false),
            (u32::MAX, usize::MAX, false),
        ] {
            let mut bytes = vec![0, 1, 0, 0];
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(&[0; 16]);
            assert_eq!(reader(&bytes).sequence_len(element).is_ok(), accepted, "{len} {element}");
        }
    }

    #[test]
    fn a_bool_is_zero_or_one() {
        for (byte, expected) in [(0, Some(false)), (1, Some(true)), (2, None), (255, None)] {
            assert_eq!(reader(&[0, 1, 0, 0, byte]).bool().ok(), expected);
        }
    }

    #[test]
    fn a_sequence_ends_with_its_first_error() {
        let bytes = [0, 1, 0, 0, 3, 0, 0, 0, 1, 9, 1];
        let sequence = Sequence::new(reader(&bytes), 1, Reader::bool).unwrap();
        assert_eq!(sequence.len(), 3);
        let items: Vec<_> = sequence.map(|item| item.ok()).collect();
        assert_eq!(items, [Some(true), None]);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = vec![1, 2, 3];
        for text in ["", "a", "frame", "naïve"] {
            let mut w = Writer::new(&mut bytes);
            w.u8(200);
            w.str(text);
            w.i64(-5);
            w.bool(true);
            w.f64_array(&[1.0, -0.1]);
            w.bytes(&[1, 2, 3, 4, 5]);
            w.u16(65_535);
            w.i8(-1);
            w.f32(0.25);
            w.u64(u64::MAX);
            w.i16(-2);
            w.i32(i32::MIN);
            w.u32(7);
            w.u8(1);
            w.finish("test").unwrap();
            assert_eq!(bytes.len() % 4, 0);

            let mut r = reader(&bytes);
            assert_eq!(r.u8().unwrap(), 200);
            assert_eq!(r.str().unwrap(), text);
            assert_eq!(r.i64().unwrap(), -5);
            assert!(r.bool().unwrap());
            assert_eq!(r.f64_array::<2>().unwrap(), [1.0, -0.1]);
            assert_eq!(r.bytes().unwrap(), [1, 2, 3, 4, 5]);
            assert_eq!(r.u16().unwrap(), 65_535);
            assert_eq!(r.i8().unwrap(), -1);
            assert_eq!(r.f32().unwrap().to_bits(), 0.25f32.to_bits());
            assert_eq!(r.u64().unwrap(), u64::MAX);
            assert_eq!(r.i16().unwrap(), -2);
            assert_eq!(r.i32().unwrap(), i32::MIN);
            assert_eq!(r.u32().unwrap(), 7);
            assert_eq!(r.u8().unwrap(), 1);
            assert_eq!(r.remaining(), 3);
        }
    }

    #[test]
    fn memory_is_reused() {
        let mut bytes = Vec::new();
        let write = |bytes: &mut Vec<u8>| {
            let mut w = Writer::new(bytes);
            w.bytes(&[0; 1000]);
            w.finish("test").unwrap();
            (bytes.as_ptr(), bytes.capacity())
        };
        assert_eq!(write(&mut bytes), write(&mut bytes));
    }
}
