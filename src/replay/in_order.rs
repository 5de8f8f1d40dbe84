//! Every message of a recording, in its order, with frames that overlap.
//!
//! A channel whose detector can have several frames in flight begins a frame while the one
//! before is in progress; channels of one batch begin a frame each before the first of these
//! ends. Frames of all channels are passed on in the order of their messages, so that the
//! results are those of one frame after another.

use std::collections::VecDeque;

use super::channel::ReplayChannel;
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
    /// each other, to have their pictures decoded at once.
    num_queued: usize,
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
        Self { channels, uploads, context, message, max_in_flight, in_flight, num_queued }
    }

    /// Processes a message, and passes on the frames that it ends.
    ///
    /// # Errors
    /// As of [`ReplayChannel::process`].
    pub(super) fn process(&mut self, message: &BagMessage<'_>) -> Result<()> {
        self.set_message(self.message + 1);
        if let Some(Uploads { files, reader, .. }) = self.uploads.filter(|all| all.is_shared) {
            // Its own payloads may be rare: those of other threads are behind it, too.
            files.advance(reader, message.data);
        }
        self.context.advance_to(message.log_time);
        for index in 0..self.channels.len() {
            let channel = &mut self.channels[index];
            if !channel.concerns(message) {
                continue;
            }
            if let Some(Uploads { files, reader, is_shared: false }) = self.uploads
                && channel.uploads_in_place().is_some()
            {
                files.advance(reader, message.data);
            }
            self.make_room(index)?;
            // A frame that has just ended may have lost the device.
            if self.channels[index].overlaps(self.max_in_flight) {
                self.begin(index, message)?;
            } else {
                self.process_alone(index, message)?;
            }
        }
        Ok(())
    }

    /// Processes a message on a channel whose frames do not overlap. Frames in flight end before
    /// one of its own is passed on, not for messages without which a frame is not complete.
    fn process_alone(&mut self, index: usize, message: &BagMessage<'_>) -> Result<()> {
        let log_time = message.log_time;
        let is_in_time = check_log_time(log_time).is_ok();
        if is_in_time {
            self.process_due(index, log_time)?;
        }
        if self.channels[index].is_frame(message) {
            self.end_all()?;
        }
        self.channels[index].process(message, self.context)?;
        if is_in_time { self.process_due(index, log_time) } else { Ok(()) }
    }

    /// Processes the frames of several inputs of a channel that are due by `log_time`.
    fn process_due(&mut self, index: usize, log_time: Stamp) -> Result<()> {
        while let Some(closed) = self.channels[index].close(log_time) {
            self.end_all()?;
            self.channels[index].process_closed(closed, self.context)?;
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
        self.end_all()?;
        self.set_message(u64::MAX);
        let last = self.context.owned().to.map_or(i64::MAX, |to| to.nanos().saturating_sub(1));
        for index in 0..self.channels.len() {
            self.process_due(index, Stamp::from_nanos(last))?;
            if self.context.owned().to.is_none() {
                self.channels[index].count_abandoned();
            }
        }
        Ok(())
    }

    /// Ends the earliest frames until a channel may begin another: not earlier, so that the GPU
    /// has work of every channel. The network of a batch runs when the first of its frames ends,
    /// which is before its channel begins another.
    fn make_room(&mut self, index: usize) -> Result<()> {
        let max_in_flight = self.channels[index].max_in_flight(self.max_in_flight);
        while self.channels[index].num_in_flight() >= max_in_flight {
            self.end_earliest()?;
        }
        Ok(())
    }

    /// Begins the frame of a message on a channel that has room for it.
    fn begin(&mut self, index: usize, message: &BagMessage<'_>) -> Result<()> {
        if self.in_flight.range(self.num_queued..).any(|other| other.index == index) {
            self.flush();
        }
        match self.channels[index].begin(message, self.context) {
            Ok(true) => {
                let (message, log_time) = (self.message, message.log_time);
                self.in_flight.push_back(InFlight { index, message, log_time });
            }
            Ok(false) => {}
            Err(error) => {
                self.end_all()?;
                let channel = &mut self.channels[index];
                return channel.drop_frame(&error, message.log_time, self.context);
            }
        }
        // Once half of the frames wait, they are decoded while the networks run on the others.
        let is_batched = self.channels[index].is_batched();
        if !is_batched && self.in_flight.len() >= 2 * self.num_queued {
            self.flush();
        }
        Ok(())
    }

    fn end_earliest(&mut self) -> Result<()> {
        if self.num_queued == 0 {
            self.flush();
        }
        let Some(InFlight { index, message, log_time }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        self.num_queued -= 1;
        self.context.set_message(message);
        self.channels[index].end(log_time, self.context)?;
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

    fn end_all(&mut self) -> Result<()> {
        while !self.in_flight.is_empty() {
            self.end_earliest()?;
        }
        Ok(())
    }
}
