//! Recovery of a channel from failures of its device.
//!
//! A [`Supervisor`] owns a detector and the function that builds it. A frame during which
//! the device fails is dropped with its reason; for the next frame the detector is built
//! again.
//!
//! A fault of a kernel makes the GPU unusable for the whole process. An [`isolated`]
//! channel starts another process; any other continues on the CPU if its fallback is the
//! CPU, or drops its frames.
//!
//! [`isolated`]: super::isolated

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::detectors::Detector;
use det_post_types::{DeviceChoice, Error, ErrorKind, FailurePolicy, Fallback, Result, named};

/// The time between a failed attempt to build a detector and the next.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Builds a detector on a device.
type Make = Box<dyn FnMut(DeviceChoice) -> Result<Box<dyn Detector>> + Send>;

/// A detector that is built again after a failure of its device.
pub struct Supervisor {
    /// `None` after a failure, until the detector is built again.
    detector: Option<Box<dyn Detector>>,
    make: Make,
    failures: Failures,
}

/// The failures of a channel's device, and the state that follows from them.
pub struct Failures {
    channel: String,
    policy: FailurePolicy,
    /// The device of the next detector; never `Auto`, so that a failing GPU is not replaced
    /// by the CPU.
    device: DeviceChoice,
    /// Failures within the window, oldest first, at most as many as the limit.
    recent: VecDeque<Instant>,
    num_failures: u64,
    last_failure: Option<String>,
    /// The device failed and the detector must be built again.
    must_remake: bool,
    next_attempt: Option<Instant>,
    /// No detector of this process can use the device.
    is_lost: bool,
    is_on_fallback: bool,
}

named! {
    /// The state of a channel and its device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Health {
        /// The configured device processes frames.
        Good => "good",
        /// The device failed; the detector is built again for the next frame.
        Rebuilding => "rebuilding",
        /// The device failed too often; frames are dropped until fewer failures are in the
        /// window.
        BackingOff => "backing_off",
        /// A fault has ended the device for this process; frames are dropped.
        Lost => "lost",
        /// The device failed; the CPU processes the frames.
        OnFallback => "on_fallback",
    }
    /// Its name in diagnostics.
    pub fn name;
}

impl Supervisor {
    /// Builds the detector. After a failure `make` is called again, on the thread that
    /// processes frames.
    ///
    /// # Errors
    /// Returns the errors of `make`, which is not retried here.
    pub fn new(
        channel: &str,
        device: DeviceChoice,
        policy: FailurePolicy,
        make: impl FnMut(DeviceChoice) -> Result<Box<dyn Detector>> + Send + 'static,
    ) -> Result<Self> {
        let mut make: Make = Box::new(make);
        let detector = make(device)?;
        let failures = Failures {
            channel: channel.to_owned(),
            policy,
            device: detector.info().device,
            recent: VecDeque::with_capacity(policy.max_failures),
            num_failures: 0,
            last_failure: None,
            must_remake: false,
            next_attempt: None,
            is_lost: false,
            is_on_fallback: false,
        };
        Ok(Self { detector: Some(detector), make, failures })
    }

    /// The detector, which is built again after a failure of the device. Its results must
    /// be passed to [`Failures::note`].
    ///
    /// # Errors
    /// Returns the errors of building it; `Device` or `DeviceLost` while it cannot be built.
    pub fn ready(&mut self) -> Result<(&mut dyn Detector, &mut Failures)> {
        let Self { detector, make, failures } = self;
        if failures.must_remake {
            failures.must_remake = false;
            *detector = None;
        }
        let ready = match detector.take() {
            Some(ready) => ready,
            None => failures.remake(make)?,
        };
        Ok((detector.insert(ready).as_mut(), failures))
    }

    /// The detector that was built last, also when the device has failed since; `None` if
    /// there is none.
    pub fn in_use(&mut self) -> Option<(&mut dyn Detector, &mut Failures)> {
        let Self { detector, failures, .. } = self;
        Some((detector.as_mut()?.as_mut(), failures))
    }

    /// The detector as [`Supervisor::ready`] returns it; `None` if it has to be built first.
    pub fn ready_now(&mut self) -> Option<(&mut dyn Detector, &mut Failures)> {
        let Self { detector, failures, .. } = self;
        let detector = detector.as_mut().filter(|_| !failures.must_remake)?;
        Some((detector.as_mut(), failures))
    }

    /// Replaces the function that builds detectors.
    pub fn make_with(
        &mut self,
        make: impl FnMut(DeviceChoice) -> Result<Box<dyn Detector>> + Send + 'static,
    ) {
        self.make = Box::new(make);
    }

    /// The detector; `None` after a failure of the device.
    pub fn detector(&self) -> Option<&dyn Detector> {
        self.detector.as_deref()
    }

    /// The state of the channel.
    pub fn health(&self) -> Health {
        let failures = &self.failures;
        if self.detector.is_some() && !failures.must_remake {
            if failures.is_on_fallback { Health::OnFallback } else { Health::Good }
        } else if failures.is_lost {
            Health::Lost
        } else if failures.recent.len() >= failures.policy.max_failures {
            Health::BackingOff
        } else {
            Health::Rebuilding
        }
    }

    /// The number of failures of the device, including those of building detectors.
    pub fn num_failures(&self) -> u64 {
        self.failures.num_failures
    }

    /// The message of the last failure.
    pub fn last_failure(&self) -> Option<&str> {
        self.failures.last_failure.as_deref()
    }
}

impl Failures {
    /// Counts a failure of the device and returns the result. Of a detector that is to be built again only
    /// the first failure counts: frames in flight fail with it, for the same cause.
    ///
    /// # Errors
    /// Returns the error of `result`.
    pub fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind().is_of_device()
        {
            let is_first = !std::mem::replace(&mut self.must_remake, true);
            let is_lost_now = error.kind() == ErrorKind::DeviceLost && !self.is_lost;
            if is_first || is_lost_now {
                self.add(error);
            }
        }
        result
    }

    fn remake(&mut self, make: &mut Make) -> Result<Box<dyn Detector>> {
        self.prepare()?;
        let start = Instant::now();
        match make(self.device) {
            Ok(detector) => {
                let (device, millis) = (detector.info().device, start.elapsed().as_millis());
                tracing::warn!("channel {}: built again on {device} in {millis} ms", self.channel);
                Ok(detector)
            }
            Err(error) => {
                self.next_attempt = Some(Instant::now() + RETRY_AFTER);
                self.add(&error);
                Err(error)
            }
        }
    }

    fn add(&mut self, error: &Error) {
        let Self { channel, device, policy, .. } = self;
        self.num_failures += 1;
        self.last_failure = Some(error.to_string());
        self.is_lost |= error.kind() == ErrorKind::DeviceLost;
        if self.recent.len() >= policy.max_failures {
            self.recent.pop_front();
        }
        self.recent.push_back(Instant::now());
        if self.is_lost {
            tracing::error!(
                "channel {channel}: {device} is unusable in this process after a CUDA fault: \
                 {error}"
            );
        } else if self.recent.len() >= policy.max_failures {
            let (num, seconds) = (self.recent.len(), policy.window.as_secs_f32());
            tracing::error!(
                "channel {channel}: {device} failed {num} times in {seconds} s: {error}"
            );
        } else {
            tracing::warn!("channel {channel}: {device} failed: {error}");
        }
    }

    /// Selects the device for the next detector; an error if none may be built now.
    fn prepare(&mut self) -> Result<()> {
        let now = Instant::now();
        if self.next_attempt.is_some_and(|next| now < next) {
            let message = format!("waits for another attempt: {} could not be used", self.device);
            return Err(self.error(ErrorKind::Device, &message));
        }
        while self.recent.front().is_some_and(|&at| now - at > self.policy.window) {
            self.recent.pop_front();
        }
        if !self.is_lost && self.recent.len() < self.policy.max_failures {
            return Ok(());
        }
        if self.is_on_fallback || self.policy.fallback == Fallback::None {
            return Err(self.refusal());
        }
        tracing::error!(
            "channel {}: continues on the CPU instead of {}",
            self.channel,
            self.device
        );
        self.device = DeviceChoice::Cpu;
        self.is_on_fallback = true;
        self.is_lost = false;
        self.recent.clear();
        Ok(())
    }

    /// The reason why frames are dropped.
    fn refusal(&self) -> Error {
        let device = self.device;
        if self.is_lost {
            let message = format!(
                "is stopped: {device} is unusable in this process after a CUDA fault; set isolate \
                 or fallback"
            );
            return self.error(ErrorKind::DeviceLost, &message);
        }
        let (num, seconds) = (self.recent.len(), self.policy.window.as_secs_f32());
        let message = format!("is backing off after {num} failures of {device} in {seconds} s");
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
    use crate::config::ChannelConfig;
    use crate::detectors::in_flight::SingleFrame;
    use crate::detectors::{DetectorInfo, FrameSet};
    use det_post_ops::device::Device;
    use det_post_types::{Count, Detections, FrameReport, Stamp};

    /// A detector that reports its number among those of its channel.
    struct Numbered(usize, DetectorInfo, SingleFrame);

    impl Numbered {
        fn new(number: usize, device: DeviceChoice) -> Self {
            let info = DetectorInfo::new([], &Device::Cpu, "none", &[]);
            Self(number, DetectorInfo { device, ..info }, SingleFrame::none())
        }
    }

    impl Detector for Numbered {
        fn info(&self) -> &DetectorInfo {
            &self.1
        }

        fn num_in_flight(&self) -> usize {
            self.2.len()
        }

        fn submit(&mut self, _: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
            report.add_count(Count::PointsNotFinite, self.0);
            self.2.mark_submitted(());
            Ok(())
        }

        fn collect<'a>(&'a mut self, _: &mut FrameReport) -> Result<Detections<'a>> {
            self.2.end().map(|()| Detections::Boxes2d(&[]))
        }

        fn reconfigure(&mut self, _: &ChannelConfig) -> Result<()> {
            Ok(())
        }

        fn warm_up(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// A channel and the number of its attempts to build a detector; those numbered in
    /// `broken` fail.
    fn channel(policy: FailurePolicy, broken: &'static [usize]) -> (Supervisor, Arc<AtomicUsize>) {
        let num_builds = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&num_builds);
        let make = move |device| {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            if broken.contains(&number) {
                return Err(fault());
            }
            Ok(Box::new(Numbered::new(number, device)) as Box<dyn Detector>)
        };
        (Supervisor::new("front", DeviceChoice::Cuda(7), policy, make).unwrap(), num_builds)
    }

    fn policy(max_failures: usize, window_ms: u64, fallback: Fallback) -> FailurePolicy {
        let window = Duration::from_millis(window_ms);
        FailurePolicy { max_failures, window, fallback }
    }

    fn fault() -> Error {
        Error::new(ErrorKind::Device, "test", "a fault")
    }

    /// Advances the time of the supervisor, by moving its past back.
    fn advance(channel: &mut Supervisor, time: Duration) {
        let failures = &mut channel.failures;
        failures.recent.iter_mut().for_each(|at| *at -= time);
        failures.next_attempt = failures.next_attempt.map(|at| at - time);
    }

    /// Processes a frame; returns the number of the detector.
    fn serve(channel: &mut Supervisor) -> Result<usize> {
        let mut report = FrameReport::new();
        let (detector, failures) = channel.ready()?;
        let frame = FrameSet { stamp: Stamp::default(), inputs: &[], target_pose: None };
        failures.note(detector.detect(&frame, &mut report))?;
        Ok(report.count(Count::PointsNotFinite) as usize)
    }

    /// Processes a frame that fails with an error.
    fn fail_with(channel: &mut Supervisor, error: Error) {
        let (_, failures) = channel.ready().unwrap();
        assert!(failures.note(Err::<(), _>(error)).is_err());
    }

    fn fail(channel: &mut Supervisor) {
        fail_with(channel, fault());
    }

    #[test]
    fn only_failures_of_the_device_lead_to_a_build() {
        let (mut channel, num_builds) = channel(policy(3, 60_000, Fallback::None), &[]);
        let unreadable = Error::new(ErrorKind::Codec, "test", "no image");
        fail_with(&mut channel, unreadable);
        assert_eq!((serve(&mut channel).unwrap(), channel.health()), (0, Health::Good));
        fail(&mut channel);
        assert_eq!((num_builds.load(Ordering::Relaxed), channel.health()), (1, Health::Rebuilding));
        assert_eq!((serve(&mut channel).unwrap(), channel.health()), (1, Health::Good));
        assert_eq!((num_builds.load(Ordering::Relaxed), channel.num_failures()), (2, 1));
    }

    #[test]
    fn frames_in_flight_fail_with_the_first() {
        let (mut channel, num_builds) = channel(policy(3, 60_000, Fallback::None), &[]);
        let (_, failures) = channel.ready().unwrap();
        for _ in 0..8 {
            assert!(failures.note(Err::<(), _>(fault())).is_err());
        }
        assert_eq!((channel.num_failures(), channel.health()), (1, Health::Rebuilding));
        assert_eq!((serve(&mut channel).unwrap(), channel.health()), (1, Health::Good));
        // That the device is lost is noted also after another failure.
        let (_, failures) = channel.ready().unwrap();
        for kind in [ErrorKind::Device, ErrorKind::DeviceLost, ErrorKind::DeviceLost] {
            let error = Error::new(kind, "test", "a fault");
            assert!(failures.note(Err::<(), _>(error)).is_err());
        }
        assert_eq!((channel.num_failures(), channel.health()), (3, Health::Lost));
        assert_eq!(num_builds.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_lost_device_is_not_tried_again() {
        let lost = Error::new(ErrorKind::DeviceLost, "test", "a fault");
        let (mut channel, num_builds) = channel(policy(9, 1, Fallback::None), &[]);
        fail_with(&mut channel, lost);
        assert_eq!(channel.health(), Health::Lost);
        advance(&mut channel, Duration::from_secs(1));
        let refused = serve(&mut channel).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DeviceLost);
        assert!(refused.message().contains("cuda:7 is unusable in this process"), "{refused}");
        assert!(channel.detector().is_none());
        assert_eq!(num_builds.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_lost_device_leads_to_the_fallback_at_once() {
        let lost = Error::new(ErrorKind::DeviceLost, "test", "a fault");
        let (mut channel, _) = channel(policy(9, 60_000, Fallback::Cpu), &[]);
        fail_with(&mut channel, lost);
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
        advance(&mut channel, RETRY_AFTER);
        assert_eq!(serve(&mut channel).unwrap(), 2);
    }

    #[test]
    fn too_many_failures_are_followed_by_a_rest() {
        let (mut channel, num_builds) = channel(policy(2, 60_000, Fallback::None), &[]);
        fail(&mut channel);
        fail(&mut channel);
        assert_eq!(channel.health(), Health::BackingOff);
        let refused = serve(&mut channel).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Device);
        assert!(
            refused.message().contains("backing off after 2 failures of cuda:7 in 60 s"),
            "{refused}"
        );
        assert_eq!(num_builds.load(Ordering::Relaxed), 2);
        advance(&mut channel, Duration::from_secs(50));
        assert_eq!((serve(&mut channel).is_err(), channel.health()), (true, Health::BackingOff));
        advance(&mut channel, Duration::from_secs(11));
        assert_eq!((serve(&mut channel).unwrap(), channel.health()), (2, Health::Good));
    }

    #[test]
    fn failures_that_lie_apart_are_not_too_many() {
        let (mut channel, _) = channel(policy(2, 60_000, Fallback::Cpu), &[]);
        for round in 0..4 {
            fail(&mut channel);
            advance(&mut channel, Duration::from_secs(61));
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
    fn a_fallback_that_cannot_be_built_rests_like_the_device() {
        let (mut channel, num_builds) = channel(policy(1, 60_000, Fallback::Cpu), &[1]);
        fail(&mut channel);
        assert!(serve(&mut channel).is_err());
        assert_eq!(channel.health(), Health::BackingOff);
        advance(&mut channel, RETRY_AFTER);
        assert!(serve(&mut channel).is_err());
        assert_eq!(num_builds.load(Ordering::Relaxed), 2);
        advance(&mut channel, Duration::from_secs(60));
        assert_eq!((serve(&mut channel).unwrap(), channel.health()), (2, Health::OnFallback));
    }

    #[test]
    fn a_channel_that_cannot_be_built_at_first_is_refused() {
        let make = |_| Err(fault());
        assert!(Supervisor::new("a", DeviceChoice::Cpu, FailurePolicy::default(), make).is_err());
    }
}
