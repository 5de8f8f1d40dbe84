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
type Build<P> = Box<dyn FnMut(&Device) -> Result<P>>;

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
    /// Opens the device and builds the pipeline. `build` is kept: it is called
    /// again after a failure, always on the thread that serves frames.
    ///
    /// # Errors
    /// Those of opening and building: at start nothing is tried again.
    pub fn new(
        channel: &str,
        device: DeviceChoice,
        policy: FailurePolicy,
        build: impl FnMut(&Device) -> Result<P> + 'static,
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
        if record.is_fallback() {
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
        if self.failures.len() < self.policy.max_failures || self.device == DeviceChoice::Cpu {
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

    fn is_fallback(&self) -> bool {
        self.device == DeviceChoice::Cpu && self.num_failures > 0
    }

    fn error(&self, message: &str) -> Error {
        Error::new(ErrorKind::Device, "supervisor", format!("channel {} {message}", self.channel))
    }
}
