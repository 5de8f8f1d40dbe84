//! A replay at the recorded pace behaves as the live node: each channel has a thread and a
//! slot that keeps the newest frame. Frames for which a channel is too slow are overtaken and
//! counted.
//!
//! Detections are recorded at the time at which they are found, on the recording's clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use super::channel::ReplayChannel;
use super::context::{Reading, ReplayContext};
use super::input::{CalibrationTopic, InputTopic, ReplayInput};
use super::unpacked::{Readable, Unpacked};
use crate::config::ChannelConfig;
use crate::runtime::account::Account;
use crate::runtime::input::InputTotals;
use crate::runtime::slot::{
    Loss, LossCounter, Offered, SlotCloser, SlotEvent, SlotOptions, SlotReader, SlotWriter, slot,
};
use det_post_ros::bag::{BagMessage, check_log_time};
use det_post_ros::middleware::deliver;
use det_post_types::{Error, ErrorKind, Result, Stamp};

/// The longest sleep between two checks of the stop flag.
const NAP: Duration = Duration::from_millis(50);

/// The input side of a channel: writes messages of the recording to its slot.
struct Feeder {
    inputs: Vec<Input>,
    closer: SlotCloser,
    /// Lost messages, by input.
    losses: Arc<Losses>,
    calibrations: Vec<CalibrationTopic>,
    /// Messages that cannot be decoded, of a channel with one input.
    refused: Account,
    unpacked: Unpacked,
    /// The most bytes of the data of a packed cloud or a picture of video.
    max_unpacked_bytes: usize,
}

struct Input {
    topic: InputTopic,
    writer: SlotWriter,
    totals: InputTotals,
}

/// What became of received messages, by input.
struct Losses(Mutex<Vec<InputTotals>>);

impl Feeder {
    /// Puts a message in the slot, if it is of one of the inputs.
    fn offer(&mut self, message: &BagMessage<'_>) {
        self.calibrations.iter().for_each(|topic| topic.take(message));
        let is_single = self.inputs.len() == 1;
        let mut of_topic = self.inputs.iter_mut().enumerate();
        let of_topic = of_topic.find(|(_, input)| input.topic.has(message));
        let Some((index, Input { topic, writer, totals })) = of_topic else { return };
        if let Err(error) = topic.check_type(message) {
            return refuse(is_single.then_some(&mut self.refused), totals, &error);
        }
        let unpacked = self.unpacked.of(index, topic.kind, message.data, self.max_unpacked_bytes);
        let mut note = |offered| match offered {
            Ok(Offered::Waiting) => totals.num_received += 1,
            Ok(Offered::Closed) => totals.num_abandoned += 1,
            Err(error) => refuse(is_single.then_some(&mut self.refused), totals, &error),
        };
        match unpacked {
            Ok(Readable::Message(kind, data)) => deliver(kind, data, &mut |received| {
                note(received.and_then(|received| writer.offer(&received, usize::MAX)));
            }),
            Ok(Readable::Picture(header, picture)) => {
                note(writer.swap_picture(&header, picture, Instant::now()));
            }
            Err(error) => note(Err(error)),
        }
    }

    /// Takes a message before the slice: video is decoded, calibrations are stored.
    fn read_in(&mut self, message: &BagMessage<'_>) {
        self.calibrations.iter().for_each(|topic| topic.take(message));
        let max_bytes = self.max_unpacked_bytes;
        for (index, Input { topic, .. }) in self.inputs.iter().enumerate() {
            if topic.number == Some(message.topic) {
                self.unpacked.skip(index, topic.kind, message.data, max_bytes);
            }
        }
    }

    /// Counts a message that is refused, if it is of one of the inputs.
    fn refuse(&mut self, message: &BagMessage<'_>, error: &Error) {
        let is_single = self.inputs.len() == 1;
        let of_topic = self.inputs.iter_mut().find(|input| input.topic.has(message));
        if let Some(Input { totals, .. }) = of_topic {
            refuse(is_single.then_some(&mut self.refused), totals, error);
        }
    }

    /// Waits until the channel has taken the waiting frame, then closes the slot.
    fn finish(&mut self, is_served: impl Fn() -> bool) {
        while self.closer.is_waiting() && is_served() {
            std::thread::sleep(NAP / 10);
        }
        self.closer.close();
    }

    /// Adds the counters of the messages to the channel.
    fn add_to(self, channel: &mut ReplayChannel) {
        let lost = self.losses.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut num_overtaken, mut num_abandoned) = (0, 0);
        let reference = channel.config().sync.reference;
        for (index, (input, lost)) in self.inputs.into_iter().zip(lost.iter()).enumerate() {
            let mut totals = input.totals;
            if index == reference {
                num_overtaken = lost.num_overtaken;
                num_abandoned = lost.num_abandoned + totals.num_abandoned;
            }
            totals.add_loss(Loss::Overtaken, lost.num_overtaken);
            totals.add_loss(Loss::Unused, lost.num_unused);
            totals.add_loss(Loss::Abandoned, lost.num_abandoned);
            channel.inputs_mut()[index].totals = totals;
        }
        channel.account_mut().merge(&self.refused);
        channel.account_mut().add_overtaken(num_overtaken);
        channel.account_mut().add_abandoned(num_abandoned);
    }
}

/// Counts a message that is refused, as a dropped frame where the channel has one input; the
/// first of a reason is a warning.
fn refuse(frames: Option<&mut Account>, totals: &mut InputTotals, error: &Error) {
    let times = match frames {
        Some(frames) => frames.add_dropped(error, 1),
        None => totals.add_refused(error),
    };
    if times == 1 {
        tracing::warn!("message refused: {error}");
    }
}

/// Processes the newest messages at `factor` times the recorded pace.
///
/// # Errors
/// Returns the errors of warming up and of [`Replay::run`](super::Replay::run)'s closure.
pub(super) fn process(
    reading: &mut Reading<'_>,
    channels: &mut [ReplayChannel],
    factor: f64,
) -> Result<()> {
    channels.iter_mut().try_for_each(ReplayChannel::warm_up)?;
    let context = reading.context;
    let pace = Pace::new(factor);
    let mut feeders = Vec::new();
    let processed = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for channel in channels.iter_mut() {
            let (feeder, reader) = open(channel, factor);
            feeders.push(feeder);
            let pace = &pace;
            threads.push(scope.spawn(move || process_newest(channel, reader, context, pace)));
        }
        let read = feed(reading, &mut feeders, &threads, &pace);
        for (feeder, thread) in feeders.iter_mut().zip(&threads) {
            feeder.finish(|| !reading.is_stopped() && !thread.is_finished());
        }
        let worked: Vec<Result<()>> = threads.into_iter().map(join).collect();
        worked.into_iter().collect::<Result<()>>().and(read)
    });
    for (channel, feeder) in channels.iter_mut().zip(feeders) {
        feeder.add_to(channel);
    }
    processed
}

/// Opens the slot of a channel: its writing and its reading side.
fn open(channel: &mut ReplayChannel, factor: f64) -> (Feeder, SlotReader) {
    let ChannelConfig { inputs, sync, .. } = channel.config();
    let losses = Arc::new(Losses(Mutex::new(vec![InputTotals::default(); inputs.len()])));
    let counted = Arc::clone(&losses);
    let count: LossCounter = Arc::new(move |input, loss, num| {
        let mut totals = counted.0.lock().unwrap_or_else(PoisonError::into_inner);
        totals[input].add_loss(loss, num);
    });
    let options = SlotOptions { inputs, sync, rate: factor, announces: channel.prepares() };
    let (writers, reader, closer) = slot(options, || channel.payload_memory(), count);
    let input = |(input, writer): (&mut ReplayInput, SlotWriter)| Input {
        topic: input.topic.clone(),
        writer,
        totals: InputTotals::default(),
    };
    let calibrations =
        channel.inputs_mut().iter().filter_map(|input| input.calibration.clone()).collect();
    let inputs = channel.inputs_mut().iter_mut().zip(writers).map(input).collect();
    let max_unpacked_bytes = channel.config().live.max_payload_bytes;
    let (refused, unpacked) = (Account::new(), channel.unpacked());
    let feeder =
        Feeder { inputs, closer, losses, calibrations, refused, unpacked, max_unpacked_bytes };
    (feeder, reader)
}

/// Writes the recording to the slots at its pace, until the thread of a channel ends early.
fn feed(
    reading: &mut Reading<'_>,
    feeders: &mut [Feeder],
    threads: &[ScopedJoinHandle<'_, Result<()>>],
    pace: &Pace,
) -> Result<()> {
    let (stop, context) = (reading.stop, reading.context);
    reading.each(&mut |message| {
        if let Err(error) = check_log_time(message.log_time) {
            feeders.iter_mut().for_each(|feeder| feeder.refuse(message, &error));
            return Ok(());
        }
        if context.is_read_in(message.log_time) {
            feeders.iter_mut().for_each(|feeder| feeder.read_in(message));
            return Ok(());
        }
        pace.wait_for(message.log_time, stop);
        context.advance_to(message.log_time);
        if threads.iter().any(ScopedJoinHandle::is_finished) {
            return Err(Error::new(ErrorKind::Io, "replay", "a channel ended early"));
        }
        feeders.iter_mut().for_each(|feeder| feeder.offer(message));
        Ok(())
    })
}

/// The thread of a channel: processes the newest frame until the slot is closed.
fn process_newest(
    channel: &mut ReplayChannel,
    mut slot: SlotReader,
    context: &ReplayContext<'_>,
    pace: &Pace,
) -> Result<()> {
    while let Some(taken) = slot.take() {
        match taken {
            SlotEvent::Frame { messages, sequence } => {
                channel.set_sequence(sequence);
                channel.process_messages(messages, &|| pace.now(), context)?;
            }
            SlotEvent::Arrived { input, message } => channel.prepare(input, message),
            SlotEvent::Refused { error, num } => {
                (0..num).try_for_each(|_| channel.drop_frame(&error, pace.now(), context))?;
            }
        }
    }
    Ok(())
}

fn join(thread: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Delays messages to the recorded pace.
struct Pace {
    factor: f64,
    start: OnceLock<(Instant, Stamp)>,
}

impl Pace {
    fn new(factor: f64) -> Self {
        Self { factor, start: OnceLock::new() }
    }

    fn wait_for(&self, log_time: Stamp, stop: &AtomicBool) {
        let (start, first) = *self.start.get_or_init(|| (Instant::now(), log_time));
        let due_s = log_time.seconds_since(first) / self.factor;
        while !stop.load(Ordering::Relaxed) {
            let ahead_s = due_s - start.elapsed().as_secs_f64();
            if ahead_s <= 0.0 {
                return;
            }
            std::thread::sleep(Duration::from_secs_f64(ahead_s.min(NAP.as_secs_f64())));
        }
    }

    /// The current time on the recording's clock.
    fn now(&self) -> Stamp {
        let Some((start, first)) = self.start.get() else { return Stamp::default() };
        let nanos = (start.elapsed().as_secs_f64() * self.factor * 1e9) as i64;
        Stamp::from_nanos(first.nanos().saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_recording() {
        let pace = Pace::new(2.0);
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        for nanos in [5, 40_000_005, 20_000_000] {
            pace.wait_for(Stamp::from_nanos(nanos), &stop);
        }
        assert!(start.elapsed() >= Duration::from_millis(20), "{:?}", start.elapsed());
        assert!(pace.now() >= Stamp::from_nanos(40_000_005), "{}", pace.now());
    }
}
