//! From a middleware to a slot, for clouds that are no `PointCloud2` on the wire.
//!
//! A thread unpacks the newest message that arrived to memory of the slot. Messages that a newer one replaces
//! before that are overtaken, as frames are that wait in the slot, and cost no time. The thread ends
//! when the receiver is dropped.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::arrivals::{Arrivals, Note};
use super::lock;
use super::slot::{Loss, Offered, SlotWriter};
use det_post_ops::device::PayloadMemory;
use det_post_ros::middleware::{InputKind, Received, Receiver};
use det_post_ros::packed_cloud::{PackedCloud, Unpacker};
use det_post_types::{Error, ErrorKind, Result};

/// Starts the thread of an input of packed clouds, and returns what a middleware's `subscribe` takes.
///
/// # Errors
/// `Io` when there is no thread.
pub fn receiver(kind: PackedCloud, arrivals: Arrivals) -> Result<Receiver> {
    let Arrivals { writer, mut memory, max_payload_bytes, note, .. } = arrivals;
    let note = Arc::new(Mutex::new(note));
    let shared = Arc::new(Shared::default());
    let worker = Worker {
        kind,
        writer,
        memory: memory.pop().unwrap_or_default(),
        max_payload_bytes,
        note: Arc::clone(&note),
        unpacker: Unpacker::default(),
    };
    let of_thread = Arc::clone(&shared);
    std::thread::Builder::new()
        .name("unpack cloud".to_owned())
        .spawn(move || worker.run(&of_thread))
        .map_err(|error| Error::new(ErrorKind::Io, "channel", "no thread").with_source(error))?;
    let feed = Feed(shared);
    Ok(Box::new(move |received| {
        let put = received.and_then(|received| feed.put(&received, max_payload_bytes));
        if let Err(error) = put {
            lock(&note)(Err(error));
        }
    }))
}

/// What waits for the thread.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    newest: Option<Message>,
    /// Memory for the next message.
    spare: Vec<u8>,
    num_overtaken: u64,
    is_closed: bool,
}

/// A CDR message.
struct Message {
    cdr: Vec<u8>,
    arrived: Instant,
}

/// The end of the receiver.
struct Feed(Arc<Shared>);

impl Feed {
    /// Copies a message for the thread.
    fn put(&self, received: &Received<'_>, max_payload_bytes: usize) -> Result<()> {
        let Received::Packed { cdr, .. } = received else {
            let message = "the message is no packed cloud";
            return Err(Error::new(ErrorKind::Argument, "slot", message));
        };
        let len = cdr.len();
        if len > max_payload_bytes {
            let message =
                format!("message holds {len} bytes, at most {max_payload_bytes} are allowed");
            return Err(Error::new(ErrorKind::TooLarge, "slot", message));
        }
        let mut copy = std::mem::take(&mut lock(&self.0.state).spare);
        copy.clear();
        copy.extend_from_slice(cdr);
        let message = Message { cdr: copy, arrived: Instant::now() };
        let mut state = lock(&self.0.state);
        if let Some(overtaken) = state.newest.replace(message) {
            state.num_overtaken += 1;
            state.spare = overtaken.cdr;
        }
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        lock(&self.0.state).is_closed = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    /// Waits for a message; with it the number of those that it overtook. `None` in the end.
    fn take(&self) -> Option<(Message, u64)> {
        let mut state = lock(&self.state);
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(message) = state.newest.take() {
                return Some((message, std::mem::take(&mut state.num_overtaken)));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The thread.
struct Worker {
    kind: PackedCloud,
    writer: SlotWriter,
    memory: PayloadMemory,
    max_payload_bytes: usize,
    note: Arc<Mutex<Note>>,
    unpacker: Unpacker,
}

impl Worker {
    fn run(mut self, shared: &Shared) {
        while let Some((message, num_overtaken)) = shared.take() {
            for _ in 0..num_overtaken {
                lock(&self.note)(Ok(Offered::Waiting));
                self.writer.count_loss(Loss::Overtaken);
            }
            let offered = self.offer(&message);
            lock(&self.note)(offered);
            lock(&shared.state).spare = message.cdr;
        }
    }

    fn offer(&mut self, message: &Message) -> Result<Offered> {
        let Self { kind, writer, memory, max_payload_bytes, unpacker, .. } = self;
        let place = &mut *memory;
        unpacker.unpack(*kind, &message.cdr, *max_payload_bytes, move |len| {
            place.reserve(len);
            place.set_len(len);
            place.bytes_mut()
        })?;
        writer.swap_in(InputKind::PointCloud2, memory, *max_payload_bytes, message.arrived)
    }
}
