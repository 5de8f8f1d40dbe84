//! A replay at a recorded pace behaves as the live node does: a thread for
//! each channel, and before it a slot where the newest message waits. What a
//! channel is too slow for is overtaken, counted and shown.
//!
//! Detections are recorded when they are found, on the recording's clock.

use std::sync::OnceLock;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use super::channel::{Around, ReplayChannel};
use super::interrupt::Interrupt;
use super::replay::Reading;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::account::Account;
use crate::runtime::slot::{Offered, SlotCloser, SlotReader, SlotWriter, slot};
use crate::transport::bag::{BagMessage, check_log_time};
use crate::transport::door::{InputKind, deliver};
use crate::types::Stamp;

/// The longest sleep between two looks at the interrupt.
const NAP: Duration = Duration::from_millis(50);

/// The side of a channel that reads the recording.
struct Input {
    topic: usize,
    kind: InputKind,
    writer: SlotWriter,
    closer: SlotCloser,
    num_overtaken: u64,
    /// Messages that are none.
    refused: Account,
}

impl Input {
    /// Lets a message wait in the slot.
    fn offer(&mut self, message: &BagMessage<'_>) {
        let Self { writer, num_overtaken, refused, .. } = self;
        deliver(self.kind, message.data, &mut |received| match received
            .and_then(|received| writer.offer(&received, usize::MAX))
        {
            Ok(Offered::Waiting) => {}
            Ok(Offered::Overtook | Offered::Closed) => *num_overtaken += 1,
            Err(error) => drop_frame(refused, &error),
        });
    }

    /// Lets the channel take what waits, then ends the slot.
    fn finish(&mut self, is_served: impl Fn() -> bool) {
        while self.closer.is_waiting() && is_served() {
            std::thread::sleep(NAP / 10);
        }
        self.num_overtaken += u64::from(self.closer.close());
    }
}

/// Counts a frame that is not served; the first of a reason is a warning.
fn drop_frame(refused: &mut Account, error: &Error) {
    if refused.add_dropped(error) == 1 {
        tracing::warn!("frame dropped: {error}");
    }
}

/// Serves the newest messages at `factor` times the recorded pace.
///
/// # Errors
/// Those of warming up, `Io` when an output cannot be written.
pub(super) fn serve(
    reading: &mut Reading<'_>,
    channels: &mut [ReplayChannel],
    around: &Around,
    factor: f64,
) -> Result<()> {
    channels.iter_mut().try_for_each(ReplayChannel::warm_up)?;
    let pace = Pace::new(factor);
    let mut inputs = Vec::new();
    let served = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for channel in channels.iter_mut() {
            let (writer, reader, closer) = slot(|| channel.payload_memory());
            let (topic, kind) = (channel.topic(), channel.kind());
            let refused = Account::new();
            let pace = &pace;
            let work = move || serve_newest(channel, reader, around, pace);
            inputs.push(Input { topic, kind, writer, closer, num_overtaken: 0, refused });
            threads.push(scope.spawn(work));
        }
        let read = feed(reading, &mut inputs, &threads, around, &pace);
        for (input, thread) in inputs.iter_mut().zip(&threads) {
            input.finish(|| !reading.interrupt.is_set() && !thread.is_finished());
        }
        let worked: Vec<Result<()>> = threads.into_iter().map(join).collect();
        worked.into_iter().collect::<Result<()>>().and(read)
    });
    for (channel, input) in channels.iter_mut().zip(&inputs) {
        channel.account_mut().merge(&input.refused);
        channel.account_mut().add_overtaken(input.num_overtaken);
    }
    served
}

/// Hands the recording to the slots at its pace, until a channel ends early.
fn feed(
    reading: &mut Reading<'_>,
    inputs: &mut [Input],
    threads: &[ScopedJoinHandle<'_, Result<()>>],
    around: &Around,
    pace: &Pace,
) -> Result<()> {
    let interrupt = reading.interrupt;
    reading.each(&mut |message| {
        if let Err(error) = check_log_time(message.log_time) {
            let of_topic = inputs.iter_mut().filter(|input| input.topic == message.topic);
            of_topic.for_each(|input| drop_frame(&mut input.refused, &error));
            return Ok(());
        }
        pace.wait_for(message.log_time, interrupt);
        around.advance_to(message.log_time);
        if threads.iter().any(ScopedJoinHandle::is_finished) {
            return Err(Error::new(ErrorKind::Io, "replay", "a channel ended early"));
        }
        inputs
            .iter_mut()
            .filter(|input| input.topic == message.topic)
            .for_each(|input| input.offer(message));
        Ok(())
    })
}

/// The thread of a channel: serves the newest message until the slot ends.
fn serve_newest(
    channel: &mut ReplayChannel,
    mut slot: SlotReader,
    around: &Around,
    pace: &Pace,
) -> Result<()> {
    while let Some(frame) = slot.take() {
        match frame.view() {
            Ok(view) => channel.serve([Some(view.input())], &|| pace.now(), around)?,
            Err(error) => channel.drop_frame(&error),
        }
    }
    Ok(())
}

fn join(thread: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Holds messages back so that they come at the recorded pace.
struct Pace {
    factor: f64,
    start: OnceLock<(Instant, Stamp)>,
}

impl Pace {
    fn new(factor: f64) -> Self {
        Self { factor, start: OnceLock::new() }
    }

    fn wait_for(&self, log_time: Stamp, interrupt: &Interrupt) {
        let (start, first) = *self.start.get_or_init(|| (Instant::now(), log_time));
        let due_s = log_time.seconds_since(first) / self.factor;
        while !interrupt.is_set() {
            let ahead_s = due_s - start.elapsed().as_secs_f64();
            if ahead_s <= 0.0 {
                return;
            }
            std::thread::sleep(Duration::from_secs_f64(ahead_s.min(NAP.as_secs_f64())));
        }
    }

    /// The time on the recording's clock.
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
        let interrupt = Interrupt::default();
        let start = Instant::now();
        for nanos in [5, 40_000_005, 20_000_000] {
            pace.wait_for(Stamp::from_nanos(nanos), &interrupt);
        }
        assert!(start.elapsed() >= Duration::from_millis(20), "{:?}", start.elapsed());
        assert!(pace.now() >= Stamp::from_nanos(40_000_005), "{}", pace.now());
    }
}
