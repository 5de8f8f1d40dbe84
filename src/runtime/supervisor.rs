//! Keeps a channel going when its device fails.
//!
//! A [`Supervisor`] owns a pipeline and knows how to build it. The frame that
//! meets a failure of the device is dropped with its reason; the next one finds
//! everything of the pipeline gone and built anew.
//!
//! A fault of a kernel ends the GPU for the whole process, and no build of this
//! process can help. A channel with a process of its own ([`Isolated`]) starts a
//! new one; any other goes on with the CPU if it may, or drops its frames.
//!
//! [`Isolated`]: super::isolated::Isolated

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::types::{DeviceChoice, FailurePolicy, Fallback};

/// How long after a build that failed the next is tried.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Builds a pipeline on a device and says on which: never `Auto`.
type Build<P> = Box<dyn FnMut(DeviceChoice) -> Result<(P, DeviceChoice)> + Send>;

/// A pipeline that is built again when its device fails.
pub struct Supervisor<P> {
    /// `None` from a failure until the next build succeeds.
    pipeline: Option<P>,
    build: Build<P>,
    record: Record,
}

/// What happened so far, and what follows from it.
struct Record {
    channel: String,
    policy: FailurePolicy,
    /// What to build on; never `Auto`, so that a failing GPU is not taken for
    /// none.
    device: DeviceChoice,
    /// Failures that still count, oldest first; never more than the limit.
    failures: VecDeque<Instant>,
    num_failures: u64,
    last_failure: Option<String>,
    /// The pipeline met a failure and is of no use any more.
    must_rebuild: bool,
    next_build: Option<Instant>,
    /// No build of this process can use the device any more.
    is_lost: bool,
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
    /// A fault has ended the device for this process; frames are dropped.
    Lost,
    /// The device failed; the CPU serves the frames.
    OnFallback,
}

impl Health {
    /// Its name in diagnostics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Rebuilding => "rebuilding",
            Self::Resting => "resting",
            Self::Lost => "lost",
            Self::OnFallback => "on_fallback",
        }
    }
}

impl<P> Supervisor<P> {
    /// Builds the pipeline. `build` is kept: after a failure it is called again,
    /// on the thread that serves frames.
    ///
    /// # Errors
    /// Those of building: at start nothing is tried again.
    pub fn new(
        channel: &str,
        device: DeviceChoice,
        policy: FailurePolicy,
        build: impl FnMut(DeviceChoice) -> Result<(P, DeviceChoice)> + Send + 'static,
    ) -> Result<Self> {
        let mut build: Build<P> = Box::new(build);
        let (pipeline, device) = build(device)?;
        let record = Record {
            channel: channel.to_owned(),
            policy,
            device,
            failures: VecDeque::with_capacity(policy.max_failures),
            num_failures: 0,
            last_failure: None,
            must_rebuild: false,
            next_build: None,
            is_lost: false,
            is_on_fallback: false,
        };
        Ok(Self { pipeline: Some(pipeline), build, record })
    }

    /// Serves a frame. After a failure of the device the pipeline is built
    /// again first.
    ///
    /// # Errors
    /// Those of `work`; `Device` or `DeviceLost` while there is no pipeline. The
    /// frame is dropped either way.
    pub fn serve<'a, T>(&'a mut self, work: impl FnOnce(&'a mut P) -> Result<T>) -> Result<T> {
        if self.record.must_rebuild {
            self.record.must_rebuild = false;
            self.pipeline = None;
        }
        if self.pipeline.is_none() {
            self.rebuild()?;
        }
        let Some(pipeline) = &mut self.pipeline else {
            return Err(self.record.error(ErrorKind::Device, "has no pipeline"));
        };
        let served = work(pipeline);
        if let Err(error) = &served {
            self.record.note(error);
        }
        served
    }

    /// How to build from now on.
    pub fn build_with(
        &mut self,
        build: impl FnMut(DeviceChoice) -> Result<(P, DeviceChoice)> + Send + 'static,
    ) {
        self.build = Box::new(build);
    }

    /// The pipeline, if there is one at the moment.
    pub fn pipeline(&self) -> Option<&P> {
        self.pipeline.as_ref()
    }

    /// How the channel is doing.
    pub fn health(&self) -> Health {
        let record = &self.record;
        if record.is_on_fallback {
            Health::OnFallback
        } else if record.is_lost {
            Health::Lost
        } else if self.pipeline.is_some() && !record.must_rebuild {
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

    /// The last of these failures, in words.
    pub fn last_failure(&self) -> Option<&str> {
        self.record.last_failure.as_deref()
    }

    fn rebuild(&mut self) -> Result<()> {
        let Self { build, record, .. } = self;
        record.prepare()?;
        let start = Instant::now();
        match build(record.device) {
            Ok((pipeline, device)) => {
                let millis = start.elapsed().as_millis();
                tracing::warn!(
                    "channel {}: built again on {device} in {millis} ms",
                    record.channel
                );
                self.pipeline = Some(pipeline);
                Ok(())
            }
            Err(error) => {
                record.next_build = Some(Instant::now() + RETRY_AFTER);
                record.add_failure(&error);
                Err(error)
            }
        }
    }
}

impl Record {
    /// What an error of a frame means for the pipeline.
    fn note(&mut self, error: &Error) {
        if matches!(error.kind(), ErrorKind::Device | ErrorKind::DeviceLost) {
            self.must_rebuild = true;
            self.add_failure(error);
        }
    }

    fn add_failure(&mut self, error: &Error) {
        let Self { channel, device, policy, .. } = self;
        self.num_failures += 1;
        self.last_failure = Some(error.to_string());
        self.is_lost |= error.kind() == ErrorKind::DeviceLost;
        if self.failures.len() >= policy.max_failures {
            self.failures.pop_front();
        }
        self.failures.push_back(Instant::now());
        if self.is_lost {
            tracing::error!("channel {channel}: {device} is lost to this process: {error}");
        } else if self.failures.len() >= policy.max_failures {
            let (num, seconds) = (self.failures.len(), policy.window.as_secs_f32());
            tracing::error!(
                "channel {channel}: {device} failed {num} times in {seconds} s: {error}"
            );
        } else {
            tracing::warn!("channel {channel}: {device} failed: {error}");
        }
    }

    /// Whether a build may be tried now, and on which device.
    fn prepare(&mut self) -> Result<()> {
        let now = Instant::now();
        if self.next_build.is_some_and(|next| now < next) {
            let message = format!("waits: {} could not be used", self.device);
            return Err(self.error(ErrorKind::Device, &message));
        }
        while self.failures.front().is_some_and(|&at| now - at > self.policy.window) {
            self.failures.pop_front();
        }
        if !self.is_lost && self.failures.len() < self.policy.max_failures {
            return Ok(());
        }
        if self.policy.fallback == Fallback::None {
            return Err(self.refusal());
        }
        tracing::error!(
            "channel {}: goes on with the CPU instead of {}",
            self.channel,
            self.device
        );
        self.device = DeviceChoice::Cpu;
        self.is_on_fallback = true;
        self.is_lost = false;
        self.failures.clear();
        Ok(())
    }

    /// Why frames are dropped for now.
    fn refusal(&self) -> Error {
        let device = self.device;
        if self.is_lost {
            let message = format!(
                "stands: {device} is lost to this process; see the parameters isolate and fallback"
            );
            return self.error(ErrorKind::DeviceLost, &message);
        }
        let (num, seconds) = (self.failures.len(), self.policy.window.as_secs_f32());
        let message = format!("rests: {device} failed {num} times in {seconds} s");
        self.error(ErrorKind::Device, &message)
    }

    fn error(&self, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, "supervisor", format!("channel {} {message}", self.channel))
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
        let build = move |device| {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            if broken.contains(&number) { Err(fault()) } else { Ok((Pipeline(number), device)) }
        };
        (Supervisor::new("front", DeviceChoice::Cuda(7), policy, build).unwrap(), num_builds)
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
    fn a_lost_device_is_not_tried_again() {
        let lost = || Error::new(ErrorKind::DeviceLost, "test", "a fault");
        let (mut channel, num_builds) = channel(policy(9, 1, Fallback::None), &[]);
        assert!(channel.serve(|_| Err::<(), _>(lost())).is_err());
        assert_eq!(channel.health(), Health::Lost);
        std::thread::sleep(Duration::from_millis(5));
        let refused = serve(&mut channel).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DeviceLost);
        assert!(refused.message().contains("cuda:7 is lost to this process"), "{refused}");
        assert!(channel.pipeline().is_none());
        assert_eq!(num_builds.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_lost_device_leads_to_the_fallback_at_once() {
        let lost = Error::new(ErrorKind::DeviceLost, "test", "a fault");
        let (mut channel, _) = channel(policy(9, 60_000, Fallback::Cpu), &[]);
        assert!(channel.serve(|_| Err::<(), _>(lost)).is_err());
        assert_eq!((serve(&mut channel).unwrap(), channel.health()), (1, Health::OnFallback));
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
        assert!(resting.message().contains("cuda:7 failed 2 times in 0.4 s"), "{resting}");
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
        let build = |_| Err::<(Pipeline, _), _>(fault());
        assert!(Supervisor::new("a", DeviceChoice::Cpu, FailurePolicy::default(), build).is_err());
    }
}
