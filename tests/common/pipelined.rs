//! A detector whose frames are in flight together and which fails where a test asks for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use det_post::config::ChannelConfig;
use det_post::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds, Payload, PayloadKind};
use det_post::{Error, ErrorKind, Result};
use det_post_ops::device::Device;
use det_post_types::{Box2d, Detection2d, Detections, FrameReport, ImagePayload, Stage};

/// A call of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Submit,
    Collect,
}

/// Says how the frame of a number (the seconds of its stamp) fails at a step.
pub type Faults = Arc<dyn Fn(u32, Step) -> Option<ErrorKind> + Send + Sync>;

/// One box per frame, which tells the frame and its bytes.
pub struct Pipelined {
    info: DetectorInfo,
    faults: Faults,
    /// The most frames in flight that it can have, that are allowed, and that there were.
    can_have: usize,
    allowed: usize,
    most: Arc<AtomicUsize>,
    /// How long the upload of a frame takes, and its network.
    duration: Duration,
    in_flight: VecDeque<(u32, f32)>,
    found: Vec<Detection2d>,
}

impl Pipelined {
    /// Two clouds overlap, which ask for a pose, or four images. `most` becomes the largest number of frames in
    /// flight.
    pub fn new(kind: PayloadKind, faults: &Faults, most: &Arc<AtomicUsize>) -> Self {
        let pose_in = (kind == PayloadKind::Cloud).then(|| "map".to_owned());
        let needs = InputNeeds { pose_in, ..InputNeeds::of(kind) };
        Self {
            info: DetectorInfo::new([needs], &Device::Cpu, "stub", &[Stage::Infer]),
            faults: Arc::clone(faults),
            can_have: if kind == PayloadKind::Cloud { 2 } else { 4 },
            allowed: 1,
            most: Arc::clone(most),
            duration: Duration::ZERO,
            in_flight: VecDeque::new(),
            found: vec![],
        }
    }

    /// A cloud and an image of the same time, one frame after another.
    pub fn of_cloud_and_image(faults: &Faults, most: &Arc<AtomicUsize>) -> Self {
        let detector = Self::new(PayloadKind::Cloud, faults, most).one_at_a_time();
        let image = InputNeeds::of(PayloadKind::Image);
        let needs = [detector.info.inputs[0].clone(), image];
        let info = DetectorInfo::new(needs, &Device::Cpu, "stub", &[Stage::Infer]);
        Self { info, ..detector }
    }

    /// One frame after another.
    pub fn one_at_a_time(self) -> Self {
        Self { can_have: 1, ..self }
    }

    pub fn taking(self, duration: Duration) -> Self {
        Self { duration, ..self }
    }

    fn check(&self, number: u32, step: Step) -> Result<()> {
        match (self.faults)(number, step) {
            Some(kind) => Err(Error::new(kind, "stub", "on purpose")),
            None => Ok(()),
        }
    }

    /// The number of a frame, and the sum of the bytes of its inputs.
    pub fn digest(frame: &FrameSet<'_>) -> Result<(u32, f32)> {
        let mut sum = 0;
        for input in frame.inputs.iter().flatten() {
            let data = match input.payload {
                Payload::Image(ImagePayload::Raw(image)) => image.data(),
                Payload::Cloud(cloud) => cloud.data(),
                _ => panic!("another payload"),
            };
            sum += data.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        }
        Ok(((frame.stamp.nanos() / 1_000_000_000) as u32, sum as f32))
    }

    fn boxes(&mut self, (number, sum): (u32, f32)) -> Detections<'_> {
        self.found.clear();
        let bbox = Box2d { x1: number as f32, y1: sum, x2: 0.0, y2: 0.0 };
        self.found.push(Detection2d { class: 0, score: 0.5, bbox });
        Detections::Boxes2d(&self.found)
    }
}

impl Detector for Pipelined {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn allow_in_flight(&mut self, num: usize) -> usize {
        self.allowed = num.min(self.can_have);
        self.allowed
    }

    fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        assert!(self.in_flight.len() < self.allowed);
        let digest = Self::digest(frame)?;
        self.check(digest.0, Step::Submit)?;
        report.time(Stage::Infer, || self.in_flight.push_back(digest));
        // A frame that arrives meanwhile begins before this one ends.
        std::thread::sleep(self.duration);
        self.most.fetch_max(self.in_flight.len(), Ordering::Relaxed);
        Ok(())
    }

    fn collect<'a>(&'a mut self, _: &mut FrameReport) -> Result<Detections<'a>> {
        let digest = self.in_flight.pop_front().unwrap();
        std::thread::sleep(self.duration);
        self.check(digest.0, Step::Collect)?;
        Ok(self.boxes(digest))
    }

    fn reconfigure(&mut self, _: &ChannelConfig) -> Result<()> {
        assert!(self.in_flight.is_empty(), "parameters change between frames");
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        Ok(())
    }
}
