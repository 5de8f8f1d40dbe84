//! What the channels of a replay share: its recording, its transforms and its closure.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::frame::{ReplayDetections, ReplayFrame};
use super::slice::Bounds;
use super::transforms::TransformFeed;
use super::turns::{Turn, Turns};
use crate::detectors::FrameSet;
use crate::runtime::account::Account;
use crate::runtime::channel::ChannelFrame;
use det_post_ros::bag::{BagMessage, BagReader, LogSpan, is_same_damage};
use det_post_types::{Error, Result, Stamp};

/// The closure that receives the frames.
pub(super) type OnFrame<'a> = dyn FnMut(&ReplayFrame<'_>) -> Result<()> + Send + 'a;

/// Where the frames of all threads of a replay go.
pub(super) struct Output<'a> {
    on_frame: Mutex<&'a mut OnFrame<'a>>,
    turns: Turns,
    /// The log times of the frames that are passed on.
    owned: LogSpan,
    /// The log time of the first message that may make a frame.
    frames_from: Option<Stamp>,
    /// The most frames of a channel.
    max_frames: u64,
}

impl<'a> Output<'a> {
    /// The output of threads that pass on the frames of a slice, up to a number per channel.
    pub(super) fn new(
        on_frame: &'a mut OnFrame<'a>,
        bounds: Bounds,
        num_threads: usize,
        max_frames: u64,
    ) -> Self {
        let turns = Turns::new(num_threads);
        let Bounds { owned, frames_from, .. } = bounds;
        Self { on_frame: Mutex::new(on_frame), turns, owned, frames_from, max_frames }
    }
}

/// What the channels of one reader share. Locks are held to look up a transform and to pass
/// a frame on, not while a frame is processed.
pub(super) struct ReplayContext<'a> {
    output: &'a Output<'a>,
    /// When the frames of this reader are passed on, at full rate.
    pub(super) turn: Turn<'a>,
    /// The number of the message at which frames are passed on next, at full rate.
    message: AtomicU64,
    pub(super) transforms: Option<Mutex<TransformFeed>>,
    num_messages_read: AtomicU64,
    /// Whether its channels have begun all frames that they are to.
    has_all_frames: AtomicBool,
}

impl<'a> ReplayContext<'a> {
    /// The context of a reader, by its number from 0 on.
    pub(super) fn new(
        output: &'a Output<'a>,
        reader: usize,
        transforms: Option<TransformFeed>,
    ) -> Self {
        Self {
            output,
            turn: output.turns.of(reader),
            message: AtomicU64::new(0),
            transforms: transforms.map(Mutex::new),
            num_messages_read: AtomicU64::new(0),
            has_all_frames: AtomicBool::new(false),
        }
    }

    /// Notes the message at which the next frames are passed on.
    pub(super) fn set_message(&self, number: u64) {
        self.message.store(number, Ordering::Relaxed);
    }

    /// The log times of the frames that are passed on.
    pub(super) fn owned(&self) -> LogSpan {
        self.output.owned
    }

    /// The most frames of a channel that are passed on.
    pub(super) fn max_frames(&self) -> u64 {
        self.output.max_frames
    }

    /// Notes that its channels begin no further frame: nothing more is read.
    pub(super) fn note_all_frames(&self) {
        self.has_all_frames.store(true, Ordering::Relaxed);
    }

    /// Whether the end of the recording is left out.
    pub(super) fn has_all_frames(&self) -> bool {
        self.has_all_frames.load(Ordering::Relaxed)
    }

    /// Reads the transforms up to `log_time`.
    pub(super) fn advance_to(&self, log_time: Stamp) {
        if let Some(feed) = &self.transforms {
            lock(feed).advance_to(log_time);
        }
    }

    /// Forgets the poses after `stamp`, once the stamps of a channel have started over.
    pub(super) fn forget_after(&self, stamp: Stamp) {
        if let Some(feed) = &self.transforms {
            lock(feed).forget_after(stamp);
        }
    }

    /// Whether what happens at `log_time` belongs to the slice. Before it, frames are processed
    /// and neither passed on nor counted.
    pub(super) fn owns(&self, log_time: Stamp) -> bool {
        self.owned().from.is_none_or(|from| log_time >= from)
    }

    /// Whether a message of `log_time` is read so that video after it can be decoded, and makes no frame.
    pub(super) fn is_read_in(&self, log_time: Stamp) -> bool {
        self.output.frames_from.is_some_and(|from| log_time < from)
    }

    pub(super) fn num_messages_read(&self) -> u64 {
        self.num_messages_read.load(Ordering::Relaxed)
    }

    /// Counts a processed frame of a channel in its account and passes it on; `log_time` gives
    /// the time of its detections on the clock of the recording.
    ///
    /// # Errors
    /// Returns the errors of the closure.
    pub(super) fn pass_on(
        &self,
        channel: usize,
        account: &mut Account,
        frame: &ChannelFrame<'_>,
        inputs: FrameSet<'_>,
        log_time: &dyn Fn() -> Stamp,
    ) -> Result<()> {
        let number = account.frames_in();
        account.add_served(frame.report, frame.detections.len());
        account.add_stamp(frame.order);
        let degraded = frame.degraded.as_ref();
        let is_first = degraded.is_some_and(|error| account.add_degraded(error) == 1);
        if let Some(error) = degraded.filter(|_| is_first) {
            tracing::warn!(
                "channel {}: frame processed without past sweeps and motion: {error}",
                frame.config.name
            );
        }
        self.call(channel, || ReplayFrame {
            channel,
            config: frame.config,
            number,
            num_messages_read: self.num_messages_read(),
            result: Ok(ReplayDetections {
                header: frame.header,
                detections: frame.detections,
                report: frame.report,
                degraded,
                inputs,
                // Read under the lock: from frame to frame it does not go back.
                log_time: log_time(),
            }),
        })
    }

    /// Calls the closure with a frame of a channel, in its turn. After an error of the closure
    /// it is not called again.
    ///
    /// # Errors
    /// Returns the errors of the closure.
    pub(super) fn call<'f>(
        &self,
        channel: usize,
        frame: impl FnOnce() -> ReplayFrame<'f>,
    ) -> Result<()> {
        if !self.turn.wait((self.message.load(Ordering::Relaxed), channel)) {
            return Ok(());
        }
        let mut on_frame = lock(&self.output.on_frame);
        let passed_on = on_frame(&frame());
        if passed_on.is_err() {
            self.turn.stop();
        }
        passed_on
    }
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A recording that is being read.
pub(super) struct Reading<'a> {
    pub(super) reader: BagReader,
    pub(super) context: &'a ReplayContext<'a>,
    pub(super) stop: &'a AtomicBool,
    /// What is wrong with the recording.
    pub(super) damage: Vec<Error>,
    /// Whether damage is named in the log: that which several readers meet is by one.
    is_first: bool,
}

impl<'a> Reading<'a> {
    /// The first reader of a recording, or another one.
    pub(super) fn new(
        reader: BagReader,
        context: &'a ReplayContext<'a>,
        stop: &'a AtomicBool,
        is_first: bool,
    ) -> Self {
        Self { reader, context, stop, damage: Vec::new(), is_first }
    }

    /// Whether the replay is to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.context.turn.is_stopped()
    }

    /// Notes the damage that the reader of its transforms met.
    pub(super) fn note_transforms(&mut self) {
        let feed = self.context.transforms.as_ref();
        self.note_others(feed.map(|feed| lock(feed).take_damage()).unwrap_or_default());
    }

    /// Passes message by message to `work`, until the end, the last wanted frame or a request to stop. Damage is
    /// noted and read past.
    ///
    /// # Errors
    /// The first of `work`.
    pub(super) fn each(
        &mut self,
        work: &mut dyn FnMut(&BagMessage<'_>) -> Result<()>,
    ) -> Result<()> {
        while !self.is_stopped() && !self.context.has_all_frames() {
            match self.reader.next_message() {
                Ok(Some(message)) => {
                    let is_owned = self.context.owns(message.log_time);
                    self.context.num_messages_read.fetch_add(is_owned.into(), Ordering::Relaxed);
                    work(&message)?;
                }
                Ok(None) => break,
                Err(error) => self.note(error),
            }
        }
        Ok(())
    }

    /// Notes the damage that other readers of the recording met, unless it is known.
    pub(super) fn note_others(&mut self, damage: impl IntoIterator<Item = Error>) {
        for error in damage {
            if !self.damage.iter().any(|known| is_same_damage(known, &error)) {
                self.note(error);
            }
        }
    }

    fn note(&mut self, error: Error) {
        if self.is_first {
            tracing::error!("{error}");
        }
        self.damage.push(error);
    }
}
