//! Payloads in their wire format: to the participant a message is the bytes of
//! CDR without the encapsulation header.

use std::cell::RefCell;
use std::convert::Infallible;

use rustdds::bytes::Bytes;
use rustdds::no_key::{
    DataWriter, Decode, DeserializerAdapter, SerializerAdapter, SimpleDataReader,
};
use rustdds::rpc::SampleIdentity;
use rustdds::{RepresentationIdentifier, Timestamp, WriteOptionsBuilder};

use super::error::error;
use crate::middleware::{InputKind, Receiver, deliver_body};
use det_post_types::{Error, Result};

/// Writes finished CDR messages.
pub(super) type RawWriter = DataWriter<Bytes, Raw>;

/// Reads messages, each decoded in place; `T` is what the decoder returns.
pub(super) type RawReader<T> = SimpleDataReader<T, Raw>;

/// Both directions, for every type.
pub(super) struct Raw;

const ENCODINGS: [RepresentationIdentifier; 2] =
    [RepresentationIdentifier::CDR_LE, RepresentationIdentifier::CDR_BE];

impl<T> DeserializerAdapter<T> for Raw {
    type Error = Infallible;
    type Decoded = T;

    fn supported_encodings() -> &'static [RepresentationIdentifier] {
        &ENCODINGS
    }

    fn transform_decoded(decoded: T) -> T {
        decoded
    }
}

impl SerializerAdapter<Bytes> for Raw {
    type Error = Infallible;

    fn output_encoding() -> RepresentationIdentifier {
        RepresentationIdentifier::CDR_LE
    }

    fn to_bytes(value: &Bytes) -> std::result::Result<Bytes, Infallible> {
        Ok(value.clone())
    }
}

fn is_big_endian(encoding: RepresentationIdentifier) -> bool {
    encoding == RepresentationIdentifier::CDR_BE
}

/// A receiver and the kind of its messages.
pub(super) struct Delivery {
    kind: InputKind,
    receiver: RefCell<Receiver>,
}

impl Delivery {
    /// A receiver of messages of `kind`.
    pub fn new(kind: InputKind, receiver: Receiver) -> Self {
        Self { kind, receiver: RefCell::new(receiver) }
    }

    /// The kind of the messages.
    pub fn kind(&self) -> InputKind {
        self.kind
    }

    /// Passes on the reason why a message cannot be delivered.
    pub fn refuse(&self, error: Error) {
        self.receiver.borrow_mut()(Err(error));
    }
}

/// Passes a message to a receiver, borrowed from the participant's cache.
#[derive(Clone)]
pub(super) struct Deliver<'d>(pub &'d Delivery);

impl<'de> Decode<'de, ()> for Deliver<'_> {
    type Error = Infallible;

    fn decode_bytes(
        self,
        body: &'de [u8],
        encoding: RepresentationIdentifier,
    ) -> std::result::Result<(), Infallible> {
        let Delivery { kind, receiver } = self.0;
        deliver_body(*kind, body, is_big_endian(encoding), &mut **receiver.borrow_mut());
        Ok(())
    }
}

/// Discards a message.
#[derive(Clone)]
pub(super) struct Discard;

impl<'de> Decode<'de, ()> for Discard {
    type Error = Infallible;

    fn decode_bytes(
        self,
        _: &'de [u8],
        _: RepresentationIdentifier,
    ) -> std::result::Result<(), Infallible> {
        Ok(())
    }
}

/// A copy of a small message.
#[derive(Debug)]
pub(super) struct Copied {
    /// The message without its header.
    pub body: Vec<u8>,
    /// Its byte order.
    pub big_endian: bool,
    /// Its length, which exceeds that of `body` for a message over the limit.
    pub len: usize,
}

/// Copies at most `max_len` bytes of a message.
#[derive(Clone)]
pub(super) struct CopyOut {
    pub max_len: usize,
}

impl<'de> Decode<'de, Copied> for CopyOut {
    type Error = Infallible;

    fn decode_bytes(
        self,
        body: &'de [u8],
        encoding: RepresentationIdentifier,
    ) -> std::result::Result<Copied, Infallible> {
        let copied = &body[..body.len().min(self.max_len)];
        let big_endian = is_big_endian(encoding);
        Ok(Copied { body: copied.to_owned(), big_endian, len: body.len() })
    }
}

/// Writes a whole CDR message in little endian. Its length is a multiple of
/// four: some readers refuse fragments of other lengths. `related` is the
/// request that the message answers.
///
/// # Errors
/// `Middleware`, naming `topic`, when the message is malformed or the reliable readers
/// are too far behind.
pub(super) fn write(
    writer: &RawWriter,
    cdr: &Bytes,
    related: Option<SampleIdentity>,
    topic: &str,
) -> Result<()> {
    if !cdr.starts_with(&[0, 1]) || cdr.len() < 4 || !cdr.len().is_multiple_of(4) {
        let start = &cdr[..cdr.len().min(4)];
        let found = format!("{} bytes that start {start:02x?}", cdr.len());
        return Err(error(format!("{topic}: {found} are not a padded little-endian CDR message")));
    }
    let options = WriteOptionsBuilder::new().source_timestamp(Timestamp::now());
    let options = match related {
        Some(request) => options.related_sample_identity(request),
        None => options,
    };
    match writer.write_with_options(cdr.slice(4..), options.build()) {
        Ok(_) => Ok(()),
        Err(cause) => {
            let cause = cause.forget_data();
            Err(error(format!("{topic}: {} bytes are not sent", cdr.len())).with_source(cause))
        }
    }
}
