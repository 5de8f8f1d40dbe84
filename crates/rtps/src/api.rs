//! Handles of a participant that runs on sockets and a thread.

use std::task::Waker;
use std::time::Duration;

use crate::error::Error;
use crate::settings::{ParticipantSettings, ReaderSettings, WriterSettings};
use crate::types::{EndpointInfo, Event, Guid, ParticipantInfo, Sample, Statistics, WriteOptions};

/// A participant of a domain. Clones are the same participant, which leaves the domain when
/// the last clone and all readers and writers are dropped. Shared by threads.
#[derive(Clone)]
pub struct Participant {}

impl Participant {
    /// Joins a domain: opens sockets and starts the participant's thread.
    ///
    /// # Errors
    /// [`Error::Settings`] for a domain over 232 or an interface that does not exist,
    /// [`Error::Io`] when a socket or the thread cannot be had.
    pub fn join(_settings: ParticipantSettings) -> Result<Self, Error> {
        Err(Error::Closed)
    }

    /// Its identifier.
    pub fn guid(&self) -> Guid {
        Guid::default()
    }

    /// The oldest event that was not taken yet, awaited for at most `timeout`.
    pub fn next_event(&self, _timeout: Duration) -> Option<Event> {
        None
    }

    /// Creates a reader and announces it.
    ///
    /// # Errors
    /// [`Error::Settings`] for names or user data of more than 1000 bytes, [`Error::Closed`].
    pub fn create_reader(&self, _settings: ReaderSettings) -> Result<Reader, Error> {
        Err(Error::Closed)
    }

    /// Creates a writer and announces it.
    ///
    /// # Errors
    /// [`Error::Settings`] for names or user data of more than 1000 bytes, [`Error::Closed`].
    pub fn create_writer(&self, _settings: WriterSettings) -> Result<Writer, Error> {
        Err(Error::Closed)
    }

    /// The participants that are known now.
    pub fn participants(&self) -> Vec<ParticipantInfo> {
        Vec::new()
    }

    /// The readers and writers of peers that are known now.
    pub fn endpoints(&self) -> Vec<EndpointInfo> {
        Vec::new()
    }

    /// Counters.
    pub fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

/// A reader. Dropping it withdraws it; waiting samples are dropped.
pub struct Reader {}

impl Reader {
    /// Its identifier.
    pub fn guid(&self) -> Guid {
        Guid::default()
    }

    /// The oldest sample that waits. Samples of a reliable writer come in order, without
    /// gaps where [`Event::Lost`] reports none.
    pub fn take(&self) -> Option<Sample> {
        None
    }

    /// Waits until a sample can be taken, at most `timeout`; returns whether one can.
    pub fn wait(&self, _timeout: Duration) -> bool {
        false
    }

    /// Wakes `waker` whenever a sample arrives, until it is replaced.
    pub fn set_waker(&self, _waker: Option<Waker>) {}

    /// The writers of peers that are matched now.
    pub fn matched(&self) -> Vec<Guid> {
        Vec::new()
    }
}

/// A writer. Dropping it withdraws it, with samples that readers have not confirmed.
pub struct Writer {}

impl Writer {
    /// Its identifier.
    pub fn guid(&self) -> Guid {
        Guid::default()
    }

    /// Writes a sample: `data` is the encapsulation header (4 bytes) and CDR, padded to a
    /// multiple of four bytes. Never waits for readers. Returns the sample's number.
    ///
    /// # Errors
    /// [`Error::Limit`] for more bytes than a writer keeps, [`Error::Full`] for a writer that
    /// keeps all, [`Error::Closed`].
    pub fn write(&self, _data: &[u8], _options: &WriteOptions) -> Result<i64, Error> {
        Err(Error::Closed)
    }

    /// Whether every matched reliable reader has confirmed every sample. Readers that have
    /// confirmed nothing for 12 s are stalled and do not count.
    pub fn is_confirmed(&self) -> bool {
        true
    }

    /// Waits for [`Writer::is_confirmed`], at most `timeout`; returns it.
    pub fn wait_confirmed(&self, _timeout: Duration) -> bool {
        true
    }

    /// The readers of peers that are matched now.
    pub fn matched(&self) -> Vec<Guid> {
        Vec::new()
    }

    /// Whether a matched reliable reader is known to have discovered this writer: it has
    /// answered one of its heartbeats. A volatile sample that is written before that may not
    /// reach it.
    pub fn is_known_to(&self, _reader: Guid) -> bool {
        false
    }
}
