//! The other end: the process that holds a channel's detector.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::frame::{TakenFrame, take_frame};
use super::memory::PayloadView;
use super::message::{Message, STAGE, answer, malformed, request};
use super::wire;
use crate::config::{ChannelConfig, Config};
use crate::detectors::{Detector, FrameInput, FrameSet, MAX_INPUTS};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::message_buffer::InputView;
use crate::types::{DeviceChoice, FrameReport, Stage};

/// Answers requests from standard input, a socket, until its end, or until the
/// GPU is lost. `make` makes the detector, in this process.
///
/// # Errors
/// `Io` when standard input is no such socket; what is wrong with a request is
/// its answer.
pub fn serve(
    make: impl Fn(&ChannelConfig, DeviceChoice) -> Result<Box<dyn Detector>>,
) -> Result<()> {
    let failed = |cause: io::Error| {
        let message = "standard input is not the socket of a channel";
        Error::new(ErrorKind::Io, STAGE, message).with_source(cause)
    };
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let mut socket = UnixStream::from(socket);
    let mut serving =
        Serving { name: String::new(), detector: None, stages: vec![], memory: None, make };
    let (mut asked, mut answered) = (Message::default(), Message::default());
    while asked.receive(&mut socket).map_err(failed)? {
        let error = serving.answer(&asked, &mut answered, &socket).err();
        if let Some(error) = &error {
            wire::put_error(answered.start(answer::FAILED), error);
        }
        answered.send(&mut socket).map_err(failed)?;
        if error.is_some_and(|error| error.kind() == ErrorKind::DeviceLost) {
            break;
        }
    }
    Ok(())
}

/// The channel and its detector, once it is started.
struct Serving<M> {
    name: String,
    detector: Option<Box<dyn Detector>>,
    /// Those of the detector.
    stages: Vec<Stage>,
    memory: Option<PayloadView>,
    make: M,
}

impl<M: Fn(&ChannelConfig, DeviceChoice) -> Result<Box<dyn Detector>>> Serving<M> {
    fn answer(
        &mut self,
        asked: &Message,
        answered: &mut Message,
        socket: &UnixStream,
    ) -> Result<()> {
        let Self { detector, stages, memory, .. } = self;
        match (asked.tag()?, detector) {
            (request::START, _) => return self.start(asked, answered),
            (request::MEMORY, _) => *memory = Some(PayloadView::receive(socket)?),
            (request::FRAME, Some(detector)) => {
                let memory = memory.as_ref().ok_or_else(malformed)?;
                return detect((detector.as_mut(), stages), asked, memory, answered);
            }
            (request::RECONFIGURE, Some(detector)) => {
                detector.reconfigure(&channel(&self.name, asked.text()?)?)?;
            }
            (request::RESET, Some(detector)) => detector.reset()?,
            (request::WARM_UP, Some(detector)) => detector.warm_up()?,
            _ => return Err(malformed()),
        }
        answered.start(answer::DONE);
        Ok(())
    }

    fn start(&mut self, asked: &Message, answered: &mut Message) -> Result<()> {
        self.name = asked.text()?.to_owned();
        let device: DeviceChoice = asked.text()?.parse()?;
        let config = channel(&self.name, asked.text()?)?;
        let detector = self.detector.insert((self.make)(&config, device)?);
        self.stages.clone_from(&detector.info().stages);
        wire::put_detector(answered.start(answer::STARTED), detector.info(), detector.inputs());
        Ok(())
    }
}

fn detect(
    (detector, stages): (&mut dyn Detector, &[Stage]),
    asked: &Message,
    memory: &PayloadView,
    answered: &mut Message,
) -> Result<()> {
    let TakenFrame { stamp, views, mut poses, calibrations, num_inputs } =
        take_frame(asked, memory.bytes())?;
    let inputs: [_; MAX_INPUTS] = std::array::from_fn(|index| {
        let input = views[index].as_ref().map(InputView::input);
        let (pose, calibration) = (poses[index].take(), calibrations[index].as_ref());
        input.map(|input| FrameInput { pose, calibration, ..input })
    });
    let frame = FrameSet { stamp, inputs: &inputs[..num_inputs] };
    let mut report = FrameReport::new();
    let detections = detector.detect(&frame, &mut report)?;
    let message = answered.start(answer::DETECTED);
    wire::put_report(message, stages, &report);
    wire::put_detections(message, detections);
    Ok(())
}

/// The channel of a configuration.
fn channel(name: &str, yaml: &str) -> Result<ChannelConfig> {
    let config = Config::parse(yaml)?;
    let found = config.channels.into_iter().find(|channel| channel.name == name);
    found.ok_or_else(malformed)
}
