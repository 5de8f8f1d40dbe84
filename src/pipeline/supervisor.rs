//! Keeps a channel going when its device fails.
//!
//! A fault of any kernel ends a GPU's context for all who hold it, and every
//! frame after it would fail. A [`Supervisor`] owns a pipeline and knows how to
//! build it: the frame that meets the fault is dropped with its reason, the
//! next one finds everything of the pipeline gone and built anew. With several
//! channels on one GPU, the context is reset when the last of them has let go,
//! so a channel may lose a few frames more while it waits for the others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{DeviceChoice, FailurePolicy, Fallback};

/// How long after a build that failed the next is tried.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Builds a pipeline on a device that is open.
type Build<P> = Box<dyn FnMut(&Device) -> Result<P> + Send>;

/// A pipeline that is built again when its device fails.
pub struct Supervisor<P> {
    /// `None` from a failure until the next build succeeds.
    running: Option<Running<P>>,
    build: Build<P>,
    record: Record,
}

/// A pipeline and the device it holds.
struct Running<P> {
    // Dropped before the device.
    pipeline: P,
    device: Device,
}

/// What happened so far, and what follows from it.
struct Record {
    channel: String,
    policy: FailurePolicy,
    /// What to open; never `Auto`, so that a failing GPU is not taken for none.
    device: DeviceChoice,
    /// Failures that still count, oldest first; never more than the limit.
    failures: VecDeque<Instant>,
    num_failures: u64,
    num_frames: u64,
    /// The pipeline met a failure and is of no use any more.
    must_rebuild: bool,
    next_build: Option<Instant>,
    is_on_fallback: bool,
}

/// How a channel is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Frames are served by the device that was asked for.
    Good,
    /// The device failed; the pipeline is to be built again.
    Rebuilding,
    /// The device failed too often; frames are dropped for a while.
    Resting,
    /// The device failed too often; the CPU serves the frames.
    OnFallback,
}

impl<P> Supervisor<P> {
    /// Opens the device and builds the pipeline. `build` is kept: after a failure
    /// it is called again, on the thread that serves frames.
    ///
    /// # Errors
    /// Those of opening and building: at start nothing is tried again.
    pub fn new(
        channel: &str,
        device: DeviceChoice,
        policy: FailurePolicy,
        build: impl FnMut(&Device) -> Result<P> + Send + 'static,
    ) -> Result<Self> {
        let mut build: Build<P> = Box::new(build);
        let device = Device::open(device)?;
        let record = Record {
            channel: channel.to_owned(),
            policy,
            device: device.choice(),
            failures: VecDeque::with_capacity(policy.max_failures.saturating_add(1)),
            num_failures: 0,
            num_frames: 0,
            must_rebuild: false,
            next_build: None,
            is_on_fallback: false,
        };
        let running = Some(Running { pipeline: build(&device)?, device });
        Ok(Self { running, build, record })
    }

    /// Serves a frame. After a failure of the device the pipeline is built
    /// again first.
    ///
    /// # Errors
    /// Those of `work`; `Device` while there is no pipeline. The frame is
    /// dropped either way.
    pub fn serve<'a, T>(&'a mut self, work: impl FnOnce(&'a mut P) -> Result<T>) -> Result<T> {
        let frame = self.record.num_frames;
        self.record.num_frames += 1;
        self.let_go();
        if self.running.is_none() {
            self.running = Some(self.rebuild()?);
        }
        let Some(Running { pipeline, device }) = &mut self.running else {
            return Err(self.record.error("has no pipeline"));
        };
        if self.record.policy.fault_at_frame == Some(frame) {
            device.fail();
        }
        let served = work(pipeline);
        if let Err(error) = &served
            && error.kind() == ErrorKind::Device
        {
            self.record.must_rebuild = true;
            self.record.add_failure(error);
        }
        served
    }

    /// Lets go of a device that has failed, so that others on it can go on. To
    /// be called now and then by a channel without frames; frames do it, too.
    pub fn idle(&mut self) {
        let device = self.running.as_ref().map(|running| &running.device);
        if device.is_some_and(|device| Device::is_held_after_fault(device.choice())) {
            self.record.must_rebuild = true;
        }
        self.let_go();
    }

    /// The pipeline, if there is one at the moment.
    pub fn pipeline(&self) -> Option<&P> {
        self.running.as_ref().map(|running| &running.pipeline)
    }

    /// How the channel is doing.
    pub fn health(&self) -> Health {
        let record = &self.record;
        if record.is_on_fallback {
            Health::OnFallback
        } else if self.running.is_some() && !record.must_rebuild {
            Health::Good
        } else if record.failures.len() >= record.policy.max_failures {
            Health::Resting
        } else {
            Health::Rebuilding
        }
    }

    /// Failures of the device so far, those of builds included.
    pub fn num_failures(&self) -> u64 {
        self.record.num_failures
    }

    fn let_go(&mut self) {
        if self.record.must_rebuild {
            self.record.must_rebuild = false;
            self.running = None;
        }
    }

    fn rebuild(&mut self) -> Result<Running<P>> {
        let Self { build, record, .. } = self;
        record.prepare()?;
        let start = Instant::now();
        let built = Device::open(record.device).and_then(|device| {
            let pipeline = build(&device)?;
            Ok(Running { pipeline, device })
        });
        match &built {
            Ok(running) => tracing::warn!(
                "channel {}: built again on {} in {} ms",
                record.channel,
                running.device,
                start.elapsed().as_millis()
            ),
            Err(error) => {
                record.next_build = Some(Instant::now() + RETRY_AFTER);
                record.add_failure(error);
            }
        }
        built
    }
}

impl Record {
    /// Whether a build may be tried now, and on which device.
    fn prepare(&mut self) -> Result<()> {
        if Device::is_held_after_fault(self.device) {
            let device = self.device;
            return Err(self.error(&format!("waits: {device} failed and other channels hold it")));
        }
        let now = Instant::now();
        if self.next_build.is_some_and(|next| now < next) {
            return Err(self.error(&format!("waits: {} could not be used", self.device)));
        }
        while self.failures.front().is_some_and(|&at| now - at > self.policy.window) {
            self.failures.pop_front();
        }
        if self.failures.len() < self.policy.max_failures {
            return Ok(());
        }
        let (device, num) = (self.device, self.failures.len());
        let seconds = self.policy.window.as_secs_f32();
        if self.policy.fallback == Fallback::None {
            return Err(self.error(&format!("rests: {device} failed {num} times in {seconds} s")));
        }
        tracing::error!(
            "channel {}: {device} failed {num} times in {seconds} s: goes on with the CPU",
            self.channel
        );
        self.device = DeviceChoice::Cpu;
        self.is_on_fallback = true;
        self.failures.clear();
        Ok(())
    }

    fn add_failure(&mut self, error: &Error) {
        self.num_failures += 1;
        if self.failures.len() >= self.policy.max_failures {
            self.failures.pop_front();
        }
        self.failures.push_back(Instant::now());
        if self.failures.len() == self.policy.max_failures {
            let (num, seconds) = (self.failures.len(), self.policy.window.as_secs_f32());
            tracing::error!(
                "channel {}: {} failed {num} times in {seconds} s: {error}",
                self.channel,
                self.device
            );
        } else {
            tracing::warn!("channel {}: {} failed: {error}", self.channel, self.device);
        }
    }

    fn error(&self, message: &str) -> Error {
        Error::new(ErrorKind::Device, "supervisor", format!("channel {} {message}", self.channel))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A pipeline that knows which build it is of.
    struct Pipeline(usize);

    /// A channel and the number of its builds; builds numbered in `broken`
    /// fail.
    fn channel(
        policy: FailurePolicy,
        broken: &'static [usize],
    ) -> (Supervisor<Pipeline>, Arc<AtomicUsize>) {
        let num_builds = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&num_builds);
        let build = move |_: &Device| {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            if broken.contains(&number) { Err(fault()) } else { Ok(Pipeline(number)) }
        };
        (Supervisor::new("front", DeviceChoice::Cpu, policy, build).unwrap(), num_builds)
    }

    fn policy(max_failures: usize, window_ms: u64, fallback: Fallback) -> FailurePolicy {
        let window = Duration::from_millis(window_ms);
        FailurePolicy { max_failures, window, fallback, fault_at_frame: None }
    }

    fn fault() -> Error {
        Error::new(ErrorKind::Device, "test", "a fault")
    }

    fn serve(channel: &mut Supervisor<Pipeline>) -> Result<usize> {
        channel.serve(|pipeline| Ok(pipeline.0))
    }

    fn fail(channel: &mut Supervisor<Pipeline>) {
        assert!(channel.serve(|_| Err::<(), _>(fault())).is_err());
    }

    #[test]
    fn only_failures_of_the_device_lead_to_a_build() {
        let (mut channel, num_builds) = channel(policy(3, 60_000, Fallback::None), &[]);
        let unreadable = Error::new(ErrorKind::Codec, "test", "no picture");
        assert!(channel.serve(|_| Err::<(), _>(unreadable)).is_err());
        assert_eq!((serve(&mut channel).unwrap(), channel.health()), (0, Health::Good));
        fail(&mut channel);
        assert_eq!((num_builds.load(Ordering::Relaxed), channel.health()), (1, Health::Rebuilding));
        assert_eq!((serve(&mut channel).unwrap(), channel.health()), (1, Health::Good));
        assert_eq!((num_builds.load(Ordering::Relaxed), channel.num_failures()), (2, 1));
    }

    #[test]
    fn an_answer_may_borrow_from_the_pipeline() {
        let (mut channel, _) = channel(FailurePolicy::default(), &[]);
        let number: &usize = channel.serve(|pipeline| Ok(&pipeline.0)).unwrap();
        assert_eq!(*number, 0);
    }

    #[test]
    fn an_idle_channel_lets_go_of_a_pipeline_that_met_a_failure() {
        let (mut channel, _) = channel(FailurePolicy::default(), &[]);
        channel.idle();
        assert!(channel.pipeline().is_some());
        fail(&mut channel);
        channel.idle();
        assert!(channel.pipeline().is_none());
    }

    #[test]
    fn a_build_that_fails_is_tried_again_later() {
        let (mut channel, num_builds) = channel(policy(9, 60_000, Fallback::None), &[1]);
        fail(&mut channel);
        assert!(serve(&mut channel).is_err());
        let waiting = serve(&mut channel).unwrap_err();
        assert!(waiting.message().contains("front waits"), "{waiting}");
        assert_eq!((num_builds.load(Ordering::Relaxed), channel.num_failures()), (2, 2));
        std::thread::sleep(RETRY_AFTER);
        assert_eq!(serve(&mut channel).unwrap(), 2);
    }

    #[test]
    fn too_many_failures_are_followed_by_a_rest() {
        let (mut channel, num_builds) = channel(policy(2, 400, Fallback::None), &[]);
        fail(&mut channel);
        fail(&mut channel);
        assert_eq!(channel.health(), Health::Resting);
        let resting = serve(&mut channel).unwrap_err();
        assert_eq!(resting.kind(), ErrorKind::Device);
        assert!(resting.message().contains("failed 2 times in 0.4 s"), "{resting}");
        assert_eq!(num_builds.load(Ordering::Relaxed), 2);
        std::thread::sleep(Duration::from_millis(450));
        assert_eq!((serve(&mut channel).unwrap(), channel.health()), (2, Health::Good));
    }

    #[test]
    fn failures_that_lie_apart_are_not_too_many() {
        let (mut channel, _) = channel(policy(2, 50, Fallback::Cpu), &[]);
        for round in 0..4 {
            fail(&mut channel);
            std::thread::sleep(Duration::from_millis(60));
            assert_eq!((serve(&mut channel).unwrap(), channel.health()), (round + 1, Health::Good));
        }
    }

    #[test]
    fn too_many_failures_lead_to_the_fallback_for_good() {
        let (mut channel, _) = channel(policy(1, 60_000, Fallback::Cpu), &[]);
        fail(&mut channel);
        for _ in 0..2 {
            assert_eq!((serve(&mut channel).unwrap(), channel.health()), (1, Health::OnFallback));
        }
    }

    #[test]
    fn a_channel_that_cannot_be_built_at_first_is_refused() {
        let build = |_: &Device| Err::<Pipeline, _>(fault());
        assert!(Supervisor::new("a", DeviceChoice::Cpu, FailurePolicy::default(), build).is_err());
    }
}
