//! Every message of a recording, in its order, with several frames in flight.
//!
//! A channel whose detector can have several frames in flight begins a frame while the one
//! before is in progress. Frames of all channels are passed on in the order of their messages, so
//! that the results are those of one frame after another.

use std::collections::VecDeque;

use super::channel::{Closed, ReplayChannel};
use super::context::ReplayContext;
use det_post_ops::device::MappedUploads;
use det_post_ros::bag::{BagMessage, check_log_time};
use det_post_types::{Result, Stamp};

/// Where the messages are mapped from which payloads are uploaded in place.
#[derive(Clone, Copy)]
pub(super) struct Uploads<'a> {
    pub(super) files: &'a MappedUploads,
    /// The number of the reader.
    pub(super) reader: usize,
    /// Whether there are other readers.
    pub(super) is_shared: bool,
}

/// The channels of one thread of a replay that processes every message.
pub(super) struct InOrder<'a, 'c> {
    channels: Vec<&'a mut ReplayChannel>,
    uploads: Option<Uploads<'a>>,
    context: &'a ReplayContext<'c>,
    /// The number of the message that is processed, from 1 on.
    message: u64,
    /// The most frames of a channel in flight.
    max_in_flight: usize,
    /// The frames in flight, earliest first.
    in_flight: VecDeque<InFlight>,
    /// The number of these, from the earliest on, whose work is queued. The others may wait for
    /// each other, to have their images decoded at once.
    num_queued: usize,
    /// Of each channel the frames of the slice that it still begins.
    num_left: Vec<u64>,
}

/// A frame that has begun and not ended.
struct InFlight {
    /// Index of the channel.
    index: usize,
    /// The number of its message.
    message: u64,
    log_time: Stamp,
}

impl<'a, 'c> InOrder<'a, 'c> {
    pub(super) fn new(
        channels: Vec<&'a mut ReplayChannel>,
        uploads: Option<Uploads<'a>>,
        context: &'a ReplayContext<'c>,
        max_in_flight: usize,
    ) -> Self {
        let in_flight = VecDeque::with_capacity(channels.len() * max_in_flight);
        let (message, num_queued) = (0, 0);
        let num_left = vec![context.max_frames(); channels.len()];
        Self { channels, uploads, context, message, max_in_flight, in_flight, num_queued, num_left }
    }

    /// Processes a message, and passes on the frames that it ends.
    ///
    /// # Errors
    /// As of [`ReplayChannel::end`].
    pub(super) fn process(&mut self, message: &BagMessage<'_>) -> Result<()> {
        self.set_message(self.message + 1);
        if let Some(Uploads { files, reader, .. }) = self.uploads.filter(|all| all.is_shared) {
            // Its own payloads may be rare: those of other threads are behind it, too.
            files.advance(reader, message.data);
        }
        self.context.advance_to(message.log_time);
        if self.context.is_read_in(message.log_time) {
            self.channels.iter_mut().for_each(|channel| channel.read_in(message));
            return Ok(());
        }
        for index in 0..self.channels.len() {
            let channel = &mut self.channels[index];
            if self.num_left[index] == 0 || !channel.concerns(message) {
                continue;
            }
            if let Some(Uploads { files, reader, is_shared: false }) = self.uploads
                && channel.uploads_in_place().is_some()
            {
                files.advance(reader, message.data);
            }
            self.process_on(index, message)?;
        }
        if !self.num_left.is_empty() && self.num_left.iter().all(|left| *left == 0) {
            self.context.note_all_frames();
        }
        Ok(())
    }

    /// Counts a frame that begins, unless it is before the slice.
    fn count(&mut self, index: usize, log_time: Stamp) {
        self.num_left[index] -= u64::from(self.context.owns(log_time));
    }

    /// Processes a message on a channel. Frames of other channels that are in flight end before one
    /// of a channel with one frame in flight is passed on, not for messages without which a frame is not
    /// complete.
    fn process_on(&mut self, index: usize, message: &BagMessage<'_>) -> Result<()> {
        let log_time = message.log_time;
        let is_in_time = check_log_time(log_time).is_ok();
        if is_in_time {
            self.process_due(index, log_time)?;
        }
        if self.channels[index].is_frame(message) {
            self.count(index, log_time);
            let is_kept = self.make_room(index)? > 1;
            let begun = self.channels[index].submit(message, is_kept, self.context);
            self.note_begun(index, log_time, begun)?;
            if !is_kept {
                self.end_all(message.data)?;
            }
        } else {
            self.channels[index].take(message, self.context);
        }
        if is_in_time { self.process_due(index, log_time) } else { Ok(()) }
    }

    /// Processes the frames of several inputs of a channel that are due by `log_time`.
    fn process_due(&mut self, index: usize, log_time: Stamp) -> Result<()> {
        while self.num_left[index] > 0
            && let Some(Closed { at, usable }) = self.channels[index].close(log_time)
        {
            self.count(index, at);
            self.end_all(&[])?;
            let begun = self.channels[index].submit_closed(usable, self.context);
            self.note_begun(index, at, begun)?;
            self.end_all(&[])?;
        }
        self.channels[index].count_unused(log_time, self.context);
        Ok(())
    }

    /// Passes on all frames at the end of the recording, also those of several inputs that still
    /// wait; at the end of a slice, those of them that are due in it.
    ///
    /// # Errors
    /// As [`InOrder::process`].
    pub(super) fn finish(mut self) -> Result<()> {
        self.end_all(&[])?;
        self.set_message(u64::MAX);
        let last = self.context.owned().to.map_or(i64::MAX, |to| to.nanos().saturating_sub(1));
        for index in 0..self.channels.len() {
            self.process_due(index, Stamp::from_nanos(last))?;
            if self.context.owned().to.is_none() && self.num_left[index] > 0 {
                self.channels[index].count_abandoned();
            }
        }
        Ok(())
    }

    /// Ends the earliest frames until a channel may begin another: not earlier, so that the GPU
    /// has work of every channel. Queues the work of the frame that it began last. Returns how many
    /// frames it can have in flight, which is 1 when its detector has to be built again.
    fn make_room(&mut self, index: usize) -> Result<usize> {
        let max_in_flight = loop {
            let channel = &mut self.channels[index];
            let max_in_flight = channel.max_in_flight(self.max_in_flight);
            if channel.num_in_flight() < max_in_flight {
                break max_in_flight;
            }
            self.end_earliest(&[])?;
        };
        if self.in_flight.range(self.num_queued..).any(|other| other.index == index) {
            self.flush();
        }
        Ok(max_in_flight)
    }

    /// Adds a frame that was submitted to those in flight, or passes on why it is dropped.
    fn note_begun(&mut self, index: usize, log_time: Stamp, begun: Result<()>) -> Result<()> {
        if let Err(error) = begun {
            self.end_all(&[])?;
            return self.channels[index].drop_frame(&error, log_time, self.context);
        }
        self.in_flight.push_back(InFlight { index, message: self.message, log_time });
        // Once half of the frames wait, they are decoded while the networks run on the others.
        if self.in_flight.len() >= 2 * self.num_queued {
            self.flush();
        }
        Ok(())
    }

    /// Ends the earliest frame. `lent` is the data of the message that is processed, which the
    /// frame of a channel with one frame in flight has not kept.
    fn end_earliest(&mut self, lent: &[u8]) -> Result<()> {
        if self.num_queued == 0 {
            self.flush();
        }
        let Some(InFlight { index, message, log_time }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        self.num_queued -= 1;
        self.context.set_message(message);
        self.channels[index].end(log_time, &|| log_time, lent, self.context)?;
        self.set_message(self.message);
        Ok(())
    }

    /// Notes the message that is processed, and where the next frame is passed on.
    fn set_message(&mut self, number: u64) {
        self.message = number;
        self.context.set_message(number);
        let next = match self.in_flight.front() {
            Some(InFlight { index, message, .. }) => (*message, self.channels[*index].index()),
            None => (number, 0),
        };
        self.context.turn.advance(next);
    }

    /// Queues the work of all frames in flight.
    fn flush(&mut self) {
        for InFlight { index, .. } in self.in_flight.range(self.num_queued..) {
            self.channels[*index].flush();
        }
        self.num_queued = self.in_flight.len();
    }

    fn end_all(&mut self, lent: &[u8]) -> Result<()> {
        while !self.in_flight.is_empty() {
            self.end_earliest(lent)?;
        }
        Ok(())
    }
}
