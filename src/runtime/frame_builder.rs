//! From messages to frames: the buffers of a channel's inputs, and the synchronizer.

use std::sync::Arc;

use super::message_buffer::MessageBuffer;
use super::synchronizer::{Arrival, Closed, Outcome, Synchronizer};
use crate::config::{InputConfig, SyncConfig};
use det_post_ops::device::PayloadMemory;
use det_post_types::{Error, ErrorKind, Result, Stamp};

/// A message that several frames may contain.
pub type SharedMessage = Arc<MessageBuffer>;

/// Buffers of an input in addition to those that the synchronizer keeps: one is filled, one
/// waits in a frame, one is read, and one displaces the oldest.
const NUM_SPARE: usize = 4;

/// The position of a frame in the sequence of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sequence {
    /// It follows the previous frame.
    #[default]
    Follows,
    /// A frame in between was refused because its stamps are too far apart: past frames are
    /// not those before this one.
    Broken,
    /// The stamps start over with it.
    StartsOver,
}

/// The buffers of a channel's inputs and the frames made of them.
#[derive(Debug)]
pub struct FrameBuilder {
    sync: Synchronizer<SharedMessage>,
    /// By input, every buffer except the one that is being filled. A buffer with no other
    /// reference is free.
    pools: Vec<Vec<SharedMessage>>,
    topics: Vec<String>,
    sequence: Sequence,
}

impl FrameBuilder {
    /// A builder for these inputs, with buffers in memory that `memory` allocates. Also returns
    /// the first buffer to fill of each input.
    pub fn new(
        inputs: &[InputConfig],
        sync: &SyncConfig,
        mut memory: impl FnMut() -> PayloadMemory,
    ) -> (Self, Vec<SharedMessage>) {
        let num_inputs = inputs.len();
        // With one input four: one is filled, one waits, one is read, and one more where two frames
        // are in flight; without these it stays empty.
        let num_pooled = if num_inputs == 1 { 3 } else { sync.depth.max(1) + NUM_SPARE - 1 };
        let mut pool =
            |num| -> Vec<_> { (0..num).map(|_| Arc::new(MessageBuffer::new(memory()))).collect() };
        let builder = Self {
            sync: Synchronizer::new(sync, num_inputs),
            pools: (0..num_inputs).map(|_| pool(num_pooled)).collect(),
            topics: inputs.iter().map(|input| input.topic.clone()).collect(),
            sequence: Sequence::Follows,
        };
        (builder, pool(num_inputs))
    }

    /// Adds the message in `buffer`, which arrived at `now`. The caller closes frames before
    /// and after by [`FrameBuilder::close`], then calls [`FrameBuilder::exchange`].
    ///
    /// # Errors
    /// `StampNotNewer`: the message is refused, and the buffer may be filled again.
    pub fn arrive(&mut self, now: Stamp, input: usize, buffer: &SharedMessage) -> Result<()> {
        let arrival = self.sync.arrive(now, input, buffer.stamp(), Arc::clone(buffer))?;
        if arrival == Arrival::StartsOver {
            self.sequence = Sequence::StartsOver;
        }
        Ok(())
    }

    /// Replaces a buffer whose message was added by a free one.
    ///
    /// # Errors
    /// `Argument` when no buffer of the input is free, which cannot happen with the two
    /// frames of a slot.
    pub fn exchange(&mut self, input: usize, buffer: &mut SharedMessage) -> Result<()> {
        let pool = &mut self.pools[input];
        let Some(free) = pool.iter_mut().find(|buffer| Arc::strong_count(buffer) == 1) else {
            let message = format!("no buffer of {} is free", self.topics[input]);
            return Err(Error::new(ErrorKind::Argument, "slot", message));
        };
        std::mem::swap(free, buffer);
        Ok(())
    }

    /// Closes the oldest open frame if it is due at `now`: its messages replace the contents
    /// of `chosen`, `None` for an input without one.
    ///
    /// Returns the time at which it closed and, for a frame that is refused, the error.
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

    /// The oldest message, with its input, that a later frame may contain and that was not
    /// returned before.
    pub fn announce(&mut self) -> Option<(usize, SharedMessage)> {
        self.sync.announce()
    }

    /// The deadline of the oldest open frame.
    pub fn next_deadline(&self) -> Option<Stamp> {
        self.sync.next_deadline()
    }

    /// The position of the next frame in the sequence, which is reset.
    pub fn take_sequence(&mut self) -> Sequence {
        std::mem::take(&mut self.sequence)
    }

    /// The number of messages of an input that no frame will contain, since the last call.
    pub fn take_unused(&mut self, input: usize) -> u64 {
        self.sync.take_unused(input)
    }

    /// Removes the messages of an input. Returns how many of them no frame contained.
    pub fn remove_all(&mut self, input: usize) -> u64 {
        self.sync.remove_all(input)
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

/// The buffer behind its only reference.
///
/// # Errors
/// `Argument` for a buffer with other references.
pub fn sole(buffer: &mut SharedMessage) -> Result<&mut MessageBuffer> {
    Arc::get_mut(buffer)
        .ok_or_else(|| Error::new(ErrorKind::Argument, "slot", "the buffer to fill is being read"))
}
