//! Messages to frames: the buffers of a channel's inputs, and the synchronizer
//! that chooses among them.

use std::sync::Arc;

use super::message_buffer::MessageBuffer;
use super::synchronizer::{Arrival, Closed, Outcome, Synchronizer};
use crate::config::{InputConfig, SyncConfig};
use crate::device::PayloadMemory;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::middleware::Received;
use crate::types::Stamp;

/// A buffer that several frames may read.
pub type SharedMessage = Arc<MessageBuffer>;

/// Buffers of an input beyond those that the synchronizer keeps: one is filled,
/// one waits in a frame, one is read, and one displaces the oldest.
const NUM_SPARE: usize = 4;

/// How a frame stands to the ones before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sequence {
    /// It follows them.
    #[default]
    Follows,
    /// A frame between was refused as too far apart: what a detector remembers
    /// does not belong to it.
    Broken,
    /// The stamps start over with it.
    StartsOver,
}

/// The buffers of a channel's inputs and the frames made of them.
#[derive(Debug)]
pub struct Assembler {
    sync: Synchronizer<SharedMessage>,
    /// Of each input every buffer but the one that is being filled. A buffer
    /// that nothing else holds is free.
    pools: Vec<Vec<SharedMessage>>,
    topics: Vec<String>,
    sequence: Sequence,
}

impl Assembler {
    /// For these inputs, with buffers in memory that `memory`
    /// allocates; also returns of each input the buffer to fill first.
    pub fn new(
        inputs: &[InputConfig],
        sync: &SyncConfig,
        mut memory: impl FnMut() -> PayloadMemory,
    ) -> (Self, Vec<SharedMessage>) {
        let num_inputs = inputs.len();
        // With one input nothing is kept: one is filled, one waits, one is read.
        let num_pooled = if num_inputs == 1 { 2 } else { sync.depth.max(1) + NUM_SPARE - 1 };
        let mut pool =
            |num| -> Vec<_> { (0..num).map(|_| Arc::new(MessageBuffer::new(memory()))).collect() };
        let assembler = Self {
            sync: Synchronizer::new(sync, num_inputs),
            pools: (0..num_inputs).map(|_| pool(num_pooled)).collect(),
            topics: inputs.iter().map(|input| input.topic.clone()).collect(),
            sequence: Sequence::Follows,
        };
        (assembler, pool(num_inputs))
    }

    /// Takes the message in `buffer`, which arrived at `now`. Frames are closed
    /// before and after by [`Assembler::close`]; then the buffer is handed over
    /// by [`Assembler::exchange`].
    ///
    /// # Errors
    /// `StampNotNewer`: the message is refused, and the buffer may be filled
    /// again.
    pub fn arrive(&mut self, now: Stamp, input: usize, buffer: &SharedMessage) -> Result<()> {
        let arrival = self.sync.arrive(now, input, buffer.stamp(), Arc::clone(buffer))?;
        if arrival == Arrival::StartsOver {
            self.sequence = Sequence::StartsOver;
        }
        Ok(())
    }

    /// Replaces a buffer whose message was taken by one that nothing holds.
    ///
    /// # Errors
    /// `Argument` when every buffer of the input is held, which more frames than
    /// the two of a slot would take.
    pub fn exchange(&mut self, input: usize, buffer: &mut SharedMessage) -> Result<()> {
        let pool = &mut self.pools[input];
        let Some(free) = pool.iter_mut().find(|buffer| Arc::strong_count(buffer) == 1) else {
            let message = format!("no buffer of {} is free", self.topics[input]);
            return Err(Error::new(ErrorKind::Argument, "slot", message));
        };
        std::mem::swap(free, buffer);
        Ok(())
    }

    /// Closes the oldest open frame, if it is to close by `now`: its messages
    /// replace the contents of `chosen`, `None` where an input has none.
    ///
    /// Returns when it closed, and whether it is usable: the error is why not.
    pub fn close(
        &mut self,
        now: Stamp,
        chosen: &mut Vec<Option<SharedMessage>>,
    ) -> Option<(Stamp, Result<()>)> {
        let Closed { at, outcome, .. } = self.sync.close(now, chosen)?;
        let usable = match outcome {
            Outcome::Usable => Ok(()),
            Outcome::Incomplete => Err(self.incomplete(chosen)),
            Outcome::TooFarApart => {
                self.sequence = self.sequence.max(Sequence::Broken);
                Err(too_far_apart(chosen))
            }
        };
        Some((at, usable))
    }

    /// When the oldest open frame closes at the latest.
    pub fn next_deadline(&self) -> Option<Stamp> {
        self.sync.next_deadline()
    }

    /// How the next frame stands to the ones before; asked once.
    pub fn take_sequence(&mut self) -> Sequence {
        std::mem::take(&mut self.sequence)
    }

    /// Messages of an input that will never be in a frame, since the last call.
    pub fn take_unused(&mut self, input: usize) -> u64 {
        self.sync.take_unused(input)
    }

    /// Number of inputs.
    pub fn num_inputs(&self) -> usize {
        self.pools.len()
    }

    fn incomplete(&self, chosen: &[Option<SharedMessage>]) -> Error {
        let missing = chosen.iter().zip(&self.topics).filter(|(chosen, _)| chosen.is_none());
        let missing: Vec<&str> = missing.map(|(_, topic)| topic.as_str()).collect();
        let (num, all) = (chosen.len() - missing.len(), chosen.len());
        let message = format!("{num} of {all} inputs; missing: {}", missing.join(", "));
        Error::new(ErrorKind::IncompleteViews, "synchronizer", message)
    }
}

fn too_far_apart(chosen: &[Option<SharedMessage>]) -> Error {
    let stamps = || chosen.iter().flatten().map(|message| message.stamp());
    let (oldest, newest) = (stamps().min().unwrap_or_default(), stamps().max().unwrap_or_default());
    let seconds = newest.seconds_since(oldest);
    let message = format!("stamps of one frame are {seconds:.3} s apart");
    Error::new(ErrorKind::ViewsTooFarApart, "synchronizer", message)
}

/// Copies a message into a buffer that nothing else holds.
///
/// # Errors
/// Those of [`MessageBuffer::fill`]; `Argument` for a buffer that is held.
pub fn fill(
    buffer: &mut SharedMessage,
    message: &Received<'_>,
    max_payload_bytes: usize,
) -> Result<()> {
    match Arc::get_mut(buffer) {
        Some(buffer) => buffer.fill(message, max_payload_bytes),
        None => Err(Error::new(ErrorKind::Argument, "slot", "the buffer to fill is being read")),
    }
}
