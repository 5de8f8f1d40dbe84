//! Handles of a participant that runs on sockets and a thread.

use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use crate::error::Error;
use crate::io::Shared;
use crate::settings::{ParticipantSettings, ReaderSettings, WriterSettings};
use crate::types::{EndpointInfo, Event, Guid, ParticipantInfo, Sample, Statistics, WriteOptions};

/// Leaves the domain when it is dropped.
struct Joined {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // Its panic has been reported by the thread itself.
            let _ = thread.join();
        }
    }
}

/// A participant of a domain. Clones are the same participant, which leaves the domain when
/// the last clone and all readers and writers are dropped. Shared by threads.
#[derive(Clone)]
pub struct Participant {
    joined: Arc<Joined>,
}

impl Participant {
    /// Joins a domain: opens sockets and starts the participant's thread.
    ///
    /// # Errors
    /// [`Error::Settings`] for a domain over 232 or an interface that does not exist,
    /// [`Error::Io`] when a socket or the thread cannot be had.
    pub fn join(settings: ParticipantSettings) -> Result<Self, Error> {
        let (shared, thread) = Shared::start(settings)?;
        Ok(Self { joined: Arc::new(Joined { shared, thread: Some(thread) }) })
    }

    fn shared(&self) -> &Shared {
        &self.joined.shared
    }

    /// Its identifier.
    pub fn guid(&self) -> Guid {
        self.shared().lock().core.guid()
    }

    /// The oldest event that was not taken yet, awaited for at most `timeout`.
    pub fn next_event(&self, timeout: Duration) -> Option<Event> {
        self.shared().wait(timeout, |core| core.take_event())
    }

    /// Creates a reader and announces it.
    ///
    /// # Errors
    /// [`Error::Settings`] for names or user data of more than 1000 bytes, [`Error::Closed`].
    pub fn create_reader(&self, settings: ReaderSettings) -> Result<Reader, Error> {
        let guid = self.shared().with(|core, now| core.create_reader(settings, now))?;
        Ok(Reader { joined: Arc::clone(&self.joined), guid })
    }

    /// Creates a writer and announces it.
    ///
    /// # Errors
    /// [`Error::Settings`] for names or user data of more than 1000 bytes, [`Error::Closed`].
    pub fn create_writer(&self, settings: WriterSettings) -> Result<Writer, Error> {
        let guid = self.shared().with(|core, now| core.create_writer(settings, now))?;
        Ok(Writer { joined: Arc::clone(&self.joined), guid })
    }

    /// The participants that are known now.
    pub fn participants(&self) -> Vec<ParticipantInfo> {
        self.shared().lock().core.participants()
    }

    /// The readers and writers of peers that are known now.
    pub fn endpoints(&self) -> Vec<EndpointInfo> {
        self.shared().lock().core.endpoints()
    }

    /// Counters.
    pub fn statistics(&self) -> Statistics {
        self.shared().lock().core.statistics()
    }
}

/// A reader. Dropping it withdraws it; waiting samples are dropped.
pub struct Reader {
    joined: Arc<Joined>,
    guid: Guid,
}

impl Reader {
    /// Its identifier.
    pub fn guid(&self) -> Guid {
        self.guid
    }

    /// The oldest sample that waits. Samples of a reliable writer come in order, without
    /// gaps where [`Event::Lost`] reports none.
    pub fn take(&self) -> Option<Sample> {
        self.joined.shared.lock().core.take(self.guid.entity)
    }

    /// Waits until a sample can be taken, at most `timeout`; returns whether one can.
    pub fn wait(&self, timeout: Duration) -> bool {
        let entity = self.guid.entity;
        self.joined.shared.wait(timeout, |core| core.is_ready(entity).then_some(())).is_some()
    }

    /// Wakes `waker` whenever a sample arrives, until it is replaced.
    pub fn set_waker(&self, waker: Option<Waker>) {
        let mut state = self.joined.shared.lock();
        let old = match waker {
            Some(waker) => state.wakers.insert(self.guid.entity, waker),
            None => state.wakers.remove(&self.guid.entity),
        };
        drop(state);
        // Dropped without the lock: that is code of the caller.
        drop(old);
    }

    /// The writers of peers that are matched now.
    pub fn matched(&self) -> Vec<Guid> {
        self.joined.shared.lock().core.matched(self.guid.entity)
    }
}

/// A writer. Dropping it withdraws it, with samples that readers have not confirmed.
pub struct Writer {
    joined: Arc<Joined>,
    guid: Guid,
}

impl Writer {
    /// Its identifier.
    pub fn guid(&self) -> Guid {
        self.guid
    }

    /// Writes a sample: `data` is the encapsulation header (4 bytes) and CDR, padded to a
    /// multiple of four bytes. Never waits for readers. Returns the sample's number.
    ///
    /// # Errors
    /// [`Error::Limit`] for more bytes than a writer keeps, [`Error::Full`] for a writer that
    /// keeps all, [`Error::Closed`].
    pub fn write(&self, data: &[u8], options: &WriteOptions) -> Result<i64, Error> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        let entity = self.guid.entity;
        self.joined.shared.with(|core, now| core.write(entity, data, options, time, now))
    }

    /// Whether every matched reliable reader has confirmed every sample. Readers that have
    /// confirmed nothing for 12 s are stalled and do not count.
    pub fn is_confirmed(&self) -> bool {
        self.joined.shared.lock().core.is_confirmed(self.guid.entity)
    }

    /// Waits for [`Writer::is_confirmed`], at most `timeout`; returns it.
    pub fn wait_confirmed(&self, timeout: Duration) -> bool {
        let entity = self.guid.entity;
        self.joined.shared.wait(timeout, |core| core.is_confirmed(entity).then_some(())).is_some()
    }

    /// The readers of peers that are matched now.
    pub fn matched(&self) -> Vec<Guid> {
        self.joined.shared.lock().core.matched(self.guid.entity)
    }

    /// Whether a matched reliable reader is known to have discovered this writer: it has
    /// answered one of its heartbeats. A volatile sample that is written before that may not
    /// reach it.
    pub fn is_known_to(&self, reader: Guid) -> bool {
        self.joined.shared.lock().core.is_known_to(self.guid.entity, reader)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.set_waker(None);
        let entity = self.guid.entity;
        self.joined.shared.with(|core, now| core.delete(entity, now));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let entity = self.guid.entity;
        self.joined.shared.with(|core, now| core.delete(entity, now));
    }
}
