//! The newest frame of a channel's inputs, which waits for the channel.
//!
//! A middleware copies every message into a buffer, or puts it together there. The lock of the
//! slot is held only to swap pointers and to compare stamps, so that a middleware never waits
//! for a channel. A frame that is replaced by a newer one is counted. Buffers grow to the
//! largest message, whose size is bounded, and are reused. A GPU uploads directly from the
//! buffer.
//!
//! With one input every message is a frame and there are four buffers: one is filled, one waits,
//! one is read, and one more where two frames are in flight. With several, deadlines close frames on the thread of the
//! channel, and each input keeps `sync.depth` more messages.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::frame_builder::{FrameBuilder, Sequence, SharedMessage, sole};
#[cfg(doc)]
use super::message_buffer::MessageBuffer;
use crate::config::{InputConfig, SyncConfig};
use det_post_ops::device::PayloadMemory;
use det_post_ops::image::decompress::video::DevicePicture;
use det_post_ros::middleware::{InputKind, Received};
use det_post_types::{Error, Header, Result, Stamp};

/// The result of offering a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It waits for the channel or for other messages of its frame.
    Waiting,
    /// It is discarded: the slot is closed.
    Closed,
}

/// The reason why a message was lost after it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its frame was waiting and was replaced by a newer one.
    Overtaken,
    /// No frame contains it.
    Unused,
    /// It was waiting when the slot was closed.
    Abandoned,
}

/// Receives losses: the input, the kind and the number of messages. May be called under
/// the lock of the slot.
pub type LossCounter = Arc<dyn Fn(usize, Loss, u64) + Send + Sync>;

/// The writing end of a slot, for one input.
#[derive(Debug)]
pub struct SlotWriter {
    shared: Arc<Shared>,
    input: usize,
    buffer: SharedMessage,
}

/// The reading end of a slot.
#[derive(Debug)]
pub struct SlotReader {
    shared: Arc<Shared>,
    taken: Vec<Option<SharedMessage>>,
    announced: Option<SharedMessage>,
}

/// Closes a slot from another thread.
#[derive(Clone, Debug)]
pub struct SlotCloser(Arc<Shared>);

/// What the reader of a slot takes.
#[derive(Debug)]
pub enum SlotEvent<'a> {
    /// A frame.
    Frame {
        /// The messages, in the order of the inputs.
        messages: &'a [Option<SharedMessage>],
        /// Its position in the sequence of frames.
        sequence: Sequence,
    },
    /// A message that a later frame may contain, once, if [`SlotOptions::announces`].
    Arrived {
        /// Its input.
        input: usize,
        /// The message.
        message: &'a SharedMessage,
    },
    /// Frames that were refused, for one reason.
    Refused {
        /// The error of the first.
        error: Error,
        /// Their number.
        num: u64,
    },
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    opened: Instant,
    /// Seconds of the deadlines' clock per second.
    rate: f64,
    announces: bool,
    count_loss: LossCounter,
}

#[derive(Debug)]
struct State {
    builder: FrameBuilder,
    /// The newest frame, if `is_waiting`.
    ready: Vec<Option<SharedMessage>>,
    /// Memory for the messages of a frame that is closed.
    closed: Vec<Option<SharedMessage>>,
    refused: Vec<(Error, u64)>,
    is_waiting: bool,
    is_closed: bool,
}

/// The inputs and the clock of a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotOptions<'a> {
    /// The inputs of the channel.
    pub inputs: &'a [InputConfig],
    /// How their messages become frames.
    pub sync: &'a SyncConfig,
    /// Seconds of the deadlines' clock per second: 1 if live, another rate for a replay that
    /// is slower or faster than its recording.
    pub rate: f64,
    /// Whether the reader takes messages before their frames are complete.
    pub announces: bool,
}

/// A slot whose buffers are in memory that `memory` allocates: a writer for each input, a
/// reader, and a handle to close it.
pub fn slot(
    options: SlotOptions<'_>,
    memory: impl FnMut() -> PayloadMemory,
    count_loss: LossCounter,
) -> (Vec<SlotWriter>, SlotReader, SlotCloser) {
    let SlotOptions { inputs, sync, rate, announces } = options;
    let (builder, buffers) = FrameBuilder::new(inputs, sync, memory);
    let [ready, closed, taken] = [(); 3].map(|()| Vec::with_capacity(builder.num_inputs()));
    let refused = Vec::new();
    let state = State { builder, ready, closed, refused, is_waiting: false, is_closed: false };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        changed: Condvar::new(),
        opened: Instant::now(),
        rate,
        announces,
        count_loss,
    });
    let writer = |(input, buffer)| SlotWriter { shared: Arc::clone(&shared), input, buffer };
    let writers = buffers.into_iter().enumerate().map(writer).collect();
    let reader = SlotReader { shared: Arc::clone(&shared), taken, announced: None };
    (writers, reader, SlotCloser(shared))
}

impl SlotWriter {
    /// Copies a message into the slot. A frame that it closes replaces the frame that waits.
    ///
    /// # Errors
    /// Returns the errors of [`MessageBuffer::fill`]; `StampNotNewer` with several inputs. The
    /// waiting frame is kept.
    pub fn offer(&mut self, message: &Received<'_>, max_payload_bytes: usize) -> Result<Offered> {
        sole(&mut self.buffer)?.fill(message, max_payload_bytes)?;
        self.submit()
    }

    /// As [`SlotWriter::offer`] for memory that holds a whole CDR message, which the slot takes
    /// over, and that arrived at `arrived`. Memory that is free takes its place.
    ///
    /// # Errors
    /// Returns the errors of [`MessageBuffer::swap_in`]; `StampNotNewer` with several inputs.
    pub fn swap_in(
        &mut self,
        kind: InputKind,
        memory: &mut PayloadMemory,
        max_payload_bytes: usize,
        arrived: Instant,
    ) -> Result<Offered> {
        let buffer = sole(&mut self.buffer)?;
        buffer.swap_in(kind, memory, max_payload_bytes)?;
        buffer.set_arrived(arrived);
        self.submit()
    }

    /// As [`SlotWriter::offer`] for a picture on the channel's GPU, which the slot takes over, of a message that arrived at
    /// `arrived`. Memory that is free takes its place.
    ///
    /// # Errors
    /// `Layout` for no picture; `StampNotNewer` with several inputs.
    pub fn swap_picture(
        &mut self,
        header: &Header<'_>,
        picture: &mut DevicePicture,
        arrived: Instant,
    ) -> Result<Offered> {
        let buffer = sole(&mut self.buffer)?;
        buffer.swap_picture(header, picture)?;
        buffer.set_arrived(arrived);
        self.submit()
    }

    /// Counts a message of the input that is lost before it is offered.
    pub fn count_loss(&self, loss: Loss) {
        (self.shared.count_loss)(self.input, loss, 1);
    }

    /// Adds the message in the buffer.
    fn submit(&mut self) -> Result<Offered> {
        let mut state = self.shared.lock();
        if state.is_closed {
            return Ok(Offered::Closed);
        }
        let now = self.shared.now();
        state.close_frames(now, &self.shared);
        let arrived = state.builder.arrive(now, self.input, &self.buffer);
        state.close_frames(now, &self.shared);
        let arrived = arrived.and_then(|()| state.builder.exchange(self.input, &mut self.buffer));
        drop(state);
        self.shared.changed.notify_one();
        arrived.map(|()| Offered::Waiting)
    }
}

impl SlotReader {
    /// Waits for a frame; `None` once the slot is closed, which discards the messages that wait.
    /// A frame goes before messages that arrived.
    pub fn take(&mut self) -> Option<SlotEvent<'_>> {
        self.take_or(true)
    }

    /// As [`SlotReader::take`] without waiting: `None` also when nothing waits.
    pub fn try_take(&mut self) -> Option<SlotEvent<'_>> {
        self.take_or(false)
    }

    fn take_or(&mut self, waits: bool) -> Option<SlotEvent<'_>> {
        let Self { shared, taken, announced } = self;
        taken.clear();
        *announced = None;
        let mut state = shared.lock();
        loop {
            if !state.is_closed && state.builder.next_deadline().is_some() {
                state.close_frames(shared.now(), shared);
            }
            if let Some((error, num)) = state.refused.pop() {
                return Some(SlotEvent::Refused { error, num });
            }
            if state.is_closed {
                return None;
            }
            if state.is_waiting {
                state.is_waiting = false;
                std::mem::swap(&mut state.ready, taken);
                let sequence = state.builder.take_sequence();
                return Some(SlotEvent::Frame { messages: taken, sequence });
            }
            if shared.announces
                && let Some((input, message)) = state.builder.announce()
            {
                return Some(SlotEvent::Arrived { input, message: announced.insert(message) });
            }
            if !waits {
                return None;
            }
            state = shared.wait(state);
        }
    }
}

impl SlotCloser {
    /// Whether a frame or a refusal waits.
    pub fn is_waiting(&self) -> bool {
        let mut state = self.0.lock();
        state.close_frames(self.0.now(), &self.0);
        state.is_waiting || !state.refused.is_empty() || state.builder.next_deadline().is_some()
    }

    /// Closes the slot. The messages that wait are lost.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        if std::mem::take(&mut state.is_waiting) {
            self.0.count(&state.ready, Loss::Abandoned);
        }
        for input in 0..state.builder.num_inputs() {
            let num_abandoned = state.builder.remove_all(input);
            if num_abandoned > 0 {
                (self.0.count_loss)(input, Loss::Abandoned, num_abandoned);
            }
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

impl State {
    /// Closes the frames that are due and keeps the newest.
    fn close_frames(&mut self, now: Stamp, shared: &Shared) {
        while let Some((_, usable)) = self.builder.close(now, &mut self.closed) {
            match usable {
                Ok(()) => {
                    if std::mem::replace(&mut self.is_waiting, true) {
                        shared.count(&self.ready, Loss::Overtaken);
                    }
                    std::mem::swap(&mut self.ready, &mut self.closed);
                }
                Err(error) => self.refuse(error),
            }
            self.closed.clear();
        }
        for input in 0..self.builder.num_inputs() {
            let num_unused = self.builder.take_unused(input);
            if num_unused > 0 {
                (shared.count_loss)(input, Loss::Unused, num_unused);
            }
        }
    }

    fn refuse(&mut self, error: Error) {
        match self.refused.iter_mut().find(|(first, _)| first.kind() == error.kind()) {
            Some((_, num)) => *num += 1,
            None => self.refused.push((error, 1)),
        }
    }
}

impl Shared {
    /// Time since the slot was opened.
    fn now(&self) -> Stamp {
        Stamp::from_nanos((self.opened.elapsed().as_nanos() as f64 * self.rate) as i64)
    }

    /// Waits for a message, at most until the next deadline.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(deadline) = state.builder.next_deadline() else {
            return self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let seconds = deadline.seconds_since(self.now()).max(0.0) / self.rate;
        let left = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        // Rounding could end the wait just before the deadline.
        let left = left.saturating_add(Duration::from_micros(1));
        self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }

    fn count(&self, messages: &[Option<SharedMessage>], loss: Loss) {
        for (input, _) in messages.iter().enumerate().filter(|(_, message)| message.is_some()) {
            (self.count_loss)(input, loss, 1);
        }
    }

    /// The state is consistent even if a thread panicked while it held the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::config::SyncPolicy;
    use det_post_types::{CompressedFormat, CompressedView, Header, ImagePayload, Stamp};

    /// Losses of the first input.
    #[derive(Default)]
    struct Lost {
        overtaken: AtomicU64,
        unused: AtomicU64,
        abandoned: AtomicU64,
    }

    impl Lost {
        fn num(&self) -> [u64; 3] {
            [&self.overtaken, &self.unused, &self.abandoned]
                .map(|counter| counter.load(Ordering::Relaxed))
        }
    }

    fn inputs(num: usize) -> Vec<InputConfig> {
        let input = |number| InputConfig {
            topic: format!("/camera{number}"),
            is_compressed: false,
            packed_cloud: None,
            video: None,
            camera_info: None,
            calibration_path: None,
        };
        (0..num).map(input).collect()
    }

    fn slot_of(
        num_inputs: usize,
        sync: &SyncConfig,
    ) -> (Vec<SlotWriter>, SlotReader, SlotCloser, Arc<Lost>) {
        slot_with(num_inputs, sync, false)
    }

    fn slot_with(
        num_inputs: usize,
        sync: &SyncConfig,
        announces: bool,
    ) -> (Vec<SlotWriter>, SlotReader, SlotCloser, Arc<Lost>) {
        let lost = Arc::new(Lost::default());
        let counters = Arc::clone(&lost);
        let count: LossCounter = Arc::new(move |input, loss, num| {
            let counter = match loss {
                Loss::Overtaken => &counters.overtaken,
                Loss::Unused => &counters.unused,
                Loss::Abandoned => &counters.abandoned,
            };
            counter.fetch_add(if input == 0 { num } else { 0 }, Ordering::Relaxed);
        });
        let inputs = inputs(num_inputs);
        let options = SlotOptions { inputs: &inputs, sync, rate: 1.0, announces };
        let (writers, reader, closer) = slot(options, PayloadMemory::default, count);
        (writers, reader, closer, lost)
    }

    /// A slot of one input.
    fn one() -> (SlotWriter, SlotReader, SlotCloser, Arc<Lost>) {
        let (mut writers, reader, closer, lost) = slot_of(1, &SyncConfig::default());
        (writers.remove(0), reader, closer, lost)
    }

    /// Stamps of the next frame in seconds.
    fn next(reader: &mut SlotReader) -> Vec<Option<i32>> {
        match reader.take() {
            Some(SlotEvent::Frame { messages, .. }) => messages
                .iter()
                .map(|message| message.as_ref().map(|message| message.stamp().to_ros().0))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    fn image(seconds: i32, data: &[u8]) -> Received<'_> {
        let header = Header { stamp: Stamp::from_ros(seconds, 0), frame_id: "camera" };
        let file = CompressedView::new(CompressedFormat::Jpeg, data);
        Received::Image { header, payload: ImagePayload::Compressed(file) }
    }

    #[test]
    fn the_newest_waits_and_the_older_is_counted() {
        let (mut writer, mut reader, closer, lost) = one();
        assert!(!closer.is_waiting());
        assert_eq!(writer.offer(&image(1, &[1]), 9).unwrap(), Offered::Waiting);
        assert!(closer.is_waiting());
        assert_eq!(writer.offer(&image(2, &[2]), 9).unwrap(), Offered::Waiting);
        assert_eq!((next(&mut reader), lost.num()), (vec![Some(2)], [1, 0, 0]));
        // Whatever its stamp is.
        assert_eq!(writer.offer(&image(1, &[3]), 9).unwrap(), Offered::Waiting);
        assert!(writer.offer(&image(4, &[4; 10]), 9).is_err());
        assert_eq!(next(&mut reader), [Some(1)]);
        assert_eq!(writer.offer(&image(5, &[5]), 9).unwrap(), Offered::Waiting);
        closer.close();
        assert_eq!(lost.num(), [1, 0, 1]);
        assert!(reader.take().is_none());
        assert_eq!(writer.offer(&image(6, &[6]), 9).unwrap(), Offered::Closed);
    }

    #[test]
    fn buffers_are_used_again() {
        let (mut writer, mut reader, _closer, _) = one();
        let data = vec![1; 1000];
        let mut buffers = std::collections::BTreeSet::new();
        let mut num_taken = 0;
        for second in 0..30 {
            writer.offer(&image(second, &data), 1000).unwrap();
            if second % 3 == 0
                && let Some(SlotEvent::Frame { messages: [Some(message)], .. }) = reader.take()
            {
                buffers.insert(message.data().as_ptr());
                num_taken += 1;
            }
        }
        assert_eq!(num_taken, 10);
        assert!(buffers.len() <= 3, "{buffers:?}");
    }

    #[test]
    fn a_reader_sees_whole_messages_in_order_under_load() {
        let (mut writer, mut reader, closer, lost) = one();
        let thread = std::thread::spawn(move || {
            let mut last = -1;
            let mut num_taken = 0;
            while let Some(SlotEvent::Frame { messages, .. }) = reader.take() {
                let [Some(message)] = messages else { panic!("{messages:?}") };
                let second = message.stamp().to_ros().0;
                assert!(second > last && message.data().iter().all(|byte| *byte == second as u8));
                last = second;
                num_taken += 1;
            }
            num_taken
        });
        for second in 0..20_000 {
            let data = vec![second as u8; 64 + second as usize % 64];
            writer.offer(&image(second, &data), 200).unwrap();
        }
        closer.close();
        let [overtaken, _, abandoned] = lost.num();
        assert_eq!(thread.join().unwrap() + overtaken + abandoned, 20_000);
    }

    fn deadline(deadline: Duration) -> SyncConfig {
        let max_skew = Duration::from_millis(500);
        SyncConfig { max_skew, deadline, depth: 2, ..SyncConfig::default() }
    }

    #[test]
    fn messages_of_several_inputs_meet() {
        let (mut writers, mut reader, closer, lost) = slot_of(2, &deadline(Duration::MAX));
        let mut offer = |input: usize, second| {
            let writer: &mut SlotWriter = &mut writers[input];
            writer.offer(&image(second, &[second as u8]), 9).map(drop)
        };
        for second in 1..20 {
            offer(0, second).unwrap();
            offer(1, second).unwrap();
            let refused = offer(1, second).unwrap_err();
            assert_eq!(refused.kind(), crate::ErrorKind::StampNotNewer);
            assert_eq!(next(&mut reader), [Some(second), Some(second)]);
        }
        // Two frames, of which the channel takes the newer.
        for second in [20, 21] {
            offer(0, second).unwrap();
            offer(1, second).unwrap();
        }
        assert_eq!((next(&mut reader), lost.num()), (vec![Some(21), Some(21)], [1, 0, 0]));
        closer.close();
        assert!(reader.take().is_none());
    }

    #[test]
    fn messages_that_wait_at_the_end_are_counted() {
        let (mut writers, mut reader, closer, lost) = slot_of(2, &deadline(Duration::MAX));
        // A frame that waits, and two messages without the other input.
        for (input, second) in [(0, 1), (1, 1), (0, 2), (0, 3)] {
            writers[input].offer(&image(second, &[1]), 9).unwrap();
        }
        closer.close();
        assert!(reader.take().is_none());
        assert_eq!(lost.num(), [0, 0, 3]);

        // A frame that was refused is still reported.
        let (mut writers, mut reader, closer, lost) = slot_of(2, &deadline(Duration::ZERO));
        writers[0].offer(&image(1, &[1]), 9).unwrap();
        assert!(closer.is_waiting());
        closer.close();
        assert!(matches!(reader.take(), Some(SlotEvent::Refused { num: 1, .. })));
        assert!(reader.take().is_none());
        assert_eq!(lost.num(), [0, 0, 0]);
    }

    #[test]
    fn messages_are_announced_until_their_frame_is_complete() {
        let (mut writers, mut reader, closer, lost) = slot_with(2, &deadline(Duration::MAX), true);
        let mut offer = |input: usize, second| {
            let writer: &mut SlotWriter = &mut writers[input];
            writer.offer(&image(second, &[second as u8]), 9).map(drop).unwrap();
        };
        let arrived = |reader: &mut SlotReader| match reader.take() {
            Some(SlotEvent::Arrived { input, message }) => (input, message.stamp().to_ros().0),
            other => panic!("{other:?}"),
        };
        // More often than there are buffers.
        for second in (0..100).step_by(10) {
            offer(1, second);
            assert_eq!(arrived(&mut reader), (1, second));
            offer(0, second);
            // The frame is complete, and goes before its second message.
            assert_eq!(next(&mut reader), [Some(second), Some(second)]);
            offer(1, second + 1);
            assert_eq!(arrived(&mut reader), (1, second + 1));
            // The last two are kept; what the reader has is not written over.
            for more in 2..6 {
                offer(1, second + more);
            }
            assert_eq!(arrived(&mut reader), (1, second + 4));
            assert_eq!(arrived(&mut reader), (1, second + 5));
        }
        assert_eq!(lost.num(), [0, 0, 0]);
        closer.close();
        assert!(reader.take().is_none());
    }

    #[test]
    fn a_frame_that_lacks_an_input_is_refused_at_its_deadline() {
        let wait = Duration::from_millis(30);
        let (mut writers, mut reader, _closer, _) = slot_of(2, &deadline(wait));
        let start = Instant::now();
        writers[0].offer(&image(1, &[1]), 9).unwrap();
        match reader.take() {
            Some(SlotEvent::Refused { error, num: 1 }) => {
                assert_eq!(error.kind(), crate::ErrorKind::IncompleteViews);
                assert!(error.message().contains("missing: /camera1"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert!(start.elapsed() >= wait);
        // With one that is enough, the frame goes on without the other.
        let sync = SyncConfig { min_inputs: Some(1), ..deadline(wait) };
        let (mut writers, mut reader, _closer, _) = slot_of(2, &sync);
        writers[0].offer(&image(1, &[1]), 9).unwrap();
        assert_eq!(next(&mut reader), [Some(1), None]);
    }

    #[test]
    fn a_deadline_beyond_all_time_is_waited_for() {
        let inputs = inputs(2);
        let sync = deadline(Duration::from_secs(10));
        let options = SlotOptions { inputs: &inputs, sync: &sync, rate: 1e-20, announces: false };
        let (mut writers, mut reader, closer) =
            slot(options, PayloadMemory::default, Arc::new(|_, _, _| {}));
        writers[0].offer(&image(1, &[1]), 9).unwrap();
        let waiting = std::thread::spawn(move || reader.take().is_none());
        std::thread::sleep(Duration::from_millis(50));
        closer.close();
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn stamps_that_are_too_far_apart_break_the_sequence() {
        let sync = SyncConfig { policy: SyncPolicy::Latest, ..deadline(Duration::MAX) };
        let (mut writers, mut reader, _closer, _) = slot_of(2, &sync);
        let mut offer = |input: usize, second| {
            let writer: &mut SlotWriter = &mut writers[input];
            writer.offer(&image(second, &[0]), 9).map(drop).unwrap();
        };
        let sequence = |reader: &mut SlotReader| match reader.take() {
            Some(SlotEvent::Frame { sequence, .. }) => sequence,
            other => panic!("{other:?}"),
        };
        offer(1, 1);
        offer(0, 1);
        assert_eq!(sequence(&mut reader), Sequence::Follows);
        offer(0, 5);
        match reader.take() {
            Some(SlotEvent::Refused { error, num: 1 }) => {
                assert_eq!(error.kind(), crate::ErrorKind::ViewsTooFarApart);
            }
            other => panic!("{other:?}"),
        }
        offer(1, 6);
        offer(0, 6);
        assert_eq!(sequence(&mut reader), Sequence::Broken);
        offer(1, 7);
        offer(0, 7);
        assert_eq!(sequence(&mut reader), Sequence::Follows);
    }

    #[test]
    fn what_no_frame_contains_is_counted_and_its_buffer_used_again() {
        let sync = SyncConfig { reference: 1, ..deadline(Duration::MAX) };
        let (mut writers, _reader, _closer, lost) = slot_of(2, &sync);
        for second in 0..50 {
            writers[0].offer(&image(second, &[0]), 9).unwrap();
        }
        assert_eq!(lost.num(), [0, 48, 0]);
    }
}
