//! The thread of a participant, and what it shares with the handles.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::sockets::{Opened, Sockets};
use super::{MAX_DOMAIN, interfaces, sockets};
use crate::discovery::VENDOR;
use crate::error::Error;
use crate::participant::{Config, Core, Datagram};
use crate::settings::ParticipantSettings;
use crate::types::{EntityId, GuidPrefix};

/// Datagrams that are taken from a socket before another socket's turn.
const BATCH: usize = 64;

/// Bytes after which a batch ends: what follows would push its first bytes out of a processor's
/// cache before they are copied on.
const BATCH_BYTES: usize = 512 << 10;

/// No datagram is longer.
const MAX_DATAGRAM: usize = 1 << 16;

/// The longest sleep of the thread.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// What the thread and the handles share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// A sample, an event or a confirmation may be there.
    changed: Condvar,
    sockets: Sockets,
    wake: OwnedFd,
}

/// What the lock protects.
pub(crate) struct State {
    pub core: Core,
    pub wakers: BTreeMap<EntityId, Waker>,
    is_closed: bool,
}

impl Shared {
    /// Opens the sockets and starts the thread.
    ///
    /// # Errors
    /// See [`crate::Participant::join`].
    pub fn start(settings: ParticipantSettings) -> Result<(Arc<Self>, JoinHandle<()>), Error> {
        let ParticipantSettings { domain, interfaces: wanted, .. } = &settings;
        if *domain > MAX_DOMAIN {
            let message = format!("domain is {domain}; allowed is 0 to {MAX_DOMAIN}");
            return Err(Error::Settings(message));
        }
        let failed = |action: &str| {
            let action = action.to_owned();
            move |source: rustix::io::Errno| Error::Io { action, source: source.into() }
        };
        let all = interfaces::all()
            .map_err(|source| Error::Io { action: "list the interfaces".to_owned(), source })?;
        let used = interfaces::chosen(&all, wanted)?;
        let Opened { sockets, meta, default, announce_to } =
            sockets::open(*domain, wanted, &used, settings.receive_buffer_bytes)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(failed("open an event"))?;
        let config = Config {
            prefix: new_prefix(),
            domain: *domain,
            name: settings.name,
            user_data: settings.user_data,
            limits: settings.limits,
            meta,
            default,
            announce_to,
            own: all.iter().map(|i| (i.address, i.prefix_len)).collect(),
        };
        let core = Core::new(config, Instant::now());
        let state = State { core, wakers: BTreeMap::new(), is_closed: false };
        let state = Mutex::new(state);
        let shared = Arc::new(Self { state, changed: Condvar::new(), sockets, wake });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("rtps".to_owned())
            .spawn(move || of_thread.run())
            .map_err(|source| Error::Io { action: "start a thread".to_owned(), source })?;
        Ok((shared, thread))
    }

    /// The state. A panic of an assembler leaves it whole but for the sample.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` on the participant, sends what follows, and wakes the thread.
    pub fn with<T>(&self, work: impl FnOnce(&mut Core, Instant) -> T) -> T {
        let mut state = self.lock();
        let result = work(&mut state.core, Instant::now());
        self.finish(state);
        self.wake();
        result
    }

    /// Waits until `is_done` finds what it looks for, at most `timeout`.
    pub fn wait<T>(
        &self,
        timeout: Duration,
        mut is_done: impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        loop {
            if let Some(found) = is_done(&mut state.core) {
                return Some(found);
            }
            let now = Instant::now();
            let rest = deadline.map_or(MAX_SLEEP, |at| at.saturating_duration_since(now));
            if rest.is_zero() || state.is_closed {
                return None;
            }
            let waited = self.changed.wait_timeout(state, rest.min(MAX_SLEEP));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends what waits, without the lock, and wakes those for whom something arrived.
    fn finish(&self, mut state: MutexGuard<'_, State>) {
        let datagrams: Vec<Datagram> = std::iter::from_fn(|| state.core.take_datagram()).collect();
        let ready = state.core.take_ready();
        let wakers: Vec<Waker> =
            ready.iter().filter_map(|reader| state.wakers.get(reader).cloned()).collect();
        let is_awaited = !ready.is_empty() || state.core.take_changed() || state.is_closed;
        drop(state);
        // Not for a part of a sample: most datagrams are one.
        if is_awaited {
            self.changed.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
        let unsent: u64 = datagrams.iter().map(|datagram| self.sockets.send(datagram)).sum();
        if unsent > 0 {
            self.lock().core.count_unsent(unsent);
        }
    }

    /// Ends the sleep of the thread.
    fn wake(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Leaves the domain; the thread ends.
    pub fn close(&self) {
        let mut state = self.lock();
        state.core.leave();
        state.is_closed = true;
        self.finish(state);
        self.wake();
    }

    fn run(&self) {
        let mut buffers = Buffers::new();
        let mut deadline = Instant::now();
        loop {
            let mut readable: Vec<Option<usize>> =
                self.sleep(deadline).into_iter().map(Some).collect();
            if readable.is_empty() {
                readable.push(None);
            }
            for index in readable {
                let count = index.map_or(0, |index| buffers.fill(&self.sockets, index));
                let mut state = self.lock();
                if state.is_closed {
                    return;
                }
                let now = Instant::now();
                for (bytes, from) in buffers.filled(count) {
                    state.core.handle(bytes, from, now);
                }
                deadline = state.core.tick(now);
                self.finish(state);
            }
        }
    }

    /// Sleeps until something is to be received or `deadline`; returns the readable sockets.
    fn sleep(&self, deadline: Instant) -> Vec<usize> {
        let receivers = &self.sockets.receivers;
        let fds = receivers.iter().map(AsFd::as_fd).chain([self.wake.as_fd()]);
        let mut fds: Vec<PollFd<'_>> =
            fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let sleep = deadline.saturating_duration_since(Instant::now()).min(MAX_SLEEP);
        let timeout =
            Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: sleep.subsec_nanos().into() };
        // An interrupted sleep is one that is over.
        let _ = poll(&mut fds, Some(&timeout));
        let is_set: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut counter = [0; 8];
        if is_set.last() == Some(&true) {
            let _ = rustix::io::read(&self.wake, &mut counter);
        }
        (0..receivers.len()).filter(|index| is_set[*index]).collect()
    }
}

/// A batch of datagrams, one after the other.
struct Buffers {
    bytes: Vec<u8>,
    /// Of each its start, its end and its sender.
    filled: [(usize, usize, SocketAddrV4); BATCH],
}

impl Buffers {
    fn new() -> Self {
        let none = (0, 0, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        Self { bytes: vec![0; BATCH_BYTES + MAX_DATAGRAM], filled: [none; BATCH] }
    }

    /// Receives a batch; returns how many datagrams.
    fn fill(&mut self, sockets: &Sockets, index: usize) -> usize {
        let Some(socket) = sockets.receivers.get(index) else { return 0 };
        let (mut count, mut start) = (0, 0);
        while count < BATCH
            && start <= BATCH_BYTES
            && let Ok((len, from)) = socket.recv_from(&mut self.bytes[start..start + MAX_DATAGRAM])
        {
            if let SocketAddr::V4(from) = from {
                self.filled[count] = (start, start + len, from);
                (count, start) = (count + 1, start + len);
            }
        }
        count
    }

    fn filled(&self, count: usize) -> impl Iterator<Item = (&[u8], SocketAddrV4)> {
        let filled = self.filled.iter().take(count);
        filled.map(|(start, end, from)| (self.bytes.get(*start..*end).unwrap_or_default(), *from))
    }
}

/// A prefix that no other participant has: 80 random bits.
fn new_prefix() -> GuidPrefix {
    let random = || RandomState::new().build_hasher().finish().to_be_bytes();
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let salt = time.subsec_nanos() ^ std::process::id();
    let bytes = [&random()[..], &random()[..]].concat();
    let mut prefix = [0; 12];
    prefix[..2].copy_from_slice(&VENDOR);
    prefix[2..].copy_from_slice(&bytes[..10]);
    for (byte, salt) in prefix[8..].iter_mut().zip(salt.to_be_bytes()) {
        *byte ^= salt;
    }
    GuidPrefix(prefix)
}

#[cfg(test)]
mod tests {
    use super::super::sockets::{self, Opened};
    use super::*;
    use crate::settings::Interfaces;
    use std::net::UdpSocket;

    /// Datagrams that came faster than they are processed wait for the next batch.
    #[test]
    fn a_batch_is_bounded_and_loses_nothing() {
        let all = interfaces::all().unwrap();
        let wanted = Interfaces::Localhost;
        let used = interfaces::chosen(&all, &wanted).unwrap();
        // A domain that no other test uses: theirs are below 99.
        let Opened { sockets, default, .. } = sockets::open(229, &wanted, &used, 8 << 20).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut buffers = Buffers::new();
        let index = sockets.receivers.len() - 1;
        for (len, at_most) in [(100, BATCH), (50_000, 1 + BATCH_BYTES / 50_000)] {
            let count = if len > 1000 { 20 } else { 150_u8 };
            for number in 0..count {
                sender.send_to(&vec![number; len], default[0]).unwrap();
            }
            let (mut came, mut largest) = (Vec::new(), 0);
            loop {
                let num = buffers.fill(&sockets, index);
                if num == 0 {
                    break;
                }
                largest = largest.max(num);
                came.extend(buffers.filled(num).map(|(bytes, from)| {
                    assert_eq!(from.port(), sender.local_addr().unwrap().port());
                    assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == bytes[0]));
                    bytes[0]
                }));
            }
            // A system whose buffers are small drops the last ones.
            let num = came.len().min(count.into());
            assert_eq!(came, (0..count).take(num).collect::<Vec<u8>>());
            assert!(num == usize::from(count) || len > 1000, "{num} of {count} came");
            assert_eq!(largest, at_most.min(num), "{len} bytes");
        }
    }
}
