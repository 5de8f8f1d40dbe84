//! The other end: the process of a channel's detector.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::child;
use super::frame::{DecodedFrame, take_frame};
use super::memory::PayloadView;
use super::message::{Message, STAGE, malformed, put_error, request, response, take_channel};
use super::wire;
use crate::config::ChannelConfig;
use crate::detectors::{Detector, FrameInput, FrameSet, MAX_INPUTS};
use crate::runtime::message_buffer::InputView;
use det_post_types::{DeviceChoice, Error, ErrorKind, FrameReport, Result, Stage};

/// Serves requests from standard input, a socket, until its end or until the GPU is lost.
/// `make` builds the detector, in this process.
///
/// # Errors
/// `Io` when standard input is not such a socket, or it fails. Errors of requests are responses, and the
/// end of the process that sends them is no error.
pub fn serve(
    make: impl Fn(&ChannelConfig, DeviceChoice) -> Result<Box<dyn Detector>>,
) -> Result<()> {
    let no_socket = |cause: io::Error| {
        let message = "standard input is not the socket of a channel";
        Error::new(ErrorKind::Io, STAGE, message).with_source(cause)
    };
    let failed = |cause: io::Error| {
        let message = "the socket of the channel failed";
        Error::new(ErrorKind::Io, STAGE, message).with_source(cause)
    };
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(no_socket)?;
    let mut socket = UnixStream::from(socket);
    socket.local_addr().map_err(no_socket)?;
    child::end_with_parent();
    let mut serving =
        Serving { name: String::new(), detector: None, stages: vec![], memory: None, make };
    let (mut received, mut sent) = (Message::default(), Message::default());
    while unless_ended(received.receive(&mut socket)).map_err(failed)? {
        let error = serving.respond(&received, &mut sent, &socket).err();
        if let Some(error) = &error {
            put_error(sent.start(response::FAILED), error);
        }
        if !unless_ended(sent.send(&mut socket).map(|()| true)).map_err(failed)? {
            break;
        }
        if error.is_some_and(|error| error.kind() == ErrorKind::DeviceLost) {
            break;
        }
    }
    Ok(())
}

/// `false` where the other process was killed: its end of the socket is gone in the middle of an
/// exchange.
fn unless_ended(exchanged: io::Result<bool>) -> io::Result<bool> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    match exchanged {
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Ok(false),
        other => other,
    }
}

/// The channel, and its detector after the request to start.
struct Serving<M> {
    name: String,
    detector: Option<Box<dyn Detector>>,
    /// The stages of the detector.
    stages: Vec<Stage>,
    memory: Option<PayloadView>,
    make: M,
}

impl<M: Fn(&ChannelConfig, DeviceChoice) -> Result<Box<dyn Detector>>> Serving<M> {
    fn respond(
        &mut self,
        received: &Message,
        sent: &mut Message,
        socket: &UnixStream,
    ) -> Result<()> {
        let Self { detector, stages, memory, .. } = self;
        match (received.tag()?, detector) {
            (request::START, _) => return self.start(received, sent),
            (request::MEMORY, _) => *memory = Some(PayloadView::receive(socket)?),
            (request::FRAME, Some(detector)) => {
                let memory = memory.as_ref().ok_or_else(malformed)?;
                return detect(detector.as_mut(), stages, received, memory, sent);
            }
            (request::PREPARE, Some(detector)) => {
                let memory = memory.as_ref().ok_or_else(malformed)?;
                prepare(detector.as_mut(), received, memory)?;
            }
            (request::RECONFIGURE, Some(detector)) => {
                detector.reconfigure(&take_channel(received, &self.name)?)?;
            }
            (request::RESET, Some(detector)) => detector.reset()?,
            (request::WARM_UP, Some(detector)) => detector.warm_up()?,
            _ => return Err(malformed()),
        }
        sent.start(response::DONE);
        Ok(())
    }

    fn start(&mut self, received: &Message, sent: &mut Message) -> Result<()> {
        self.name = received.text()?.to_owned();
        let device: DeviceChoice = received.text()?.parse()?;
        let config = take_channel(received, &self.name)?;
        let detector = self.detector.insert((self.make)(&config, device)?);
        self.stages.clone_from(&detector.info().stages);
        wire::put_info(sent.start(response::STARTED), detector.info());
        Ok(())
    }
}

fn detect(
    detector: &mut dyn Detector,
    stages: &[Stage],
    received: &Message,
    memory: &PayloadView,
    sent: &mut Message,
) -> Result<()> {
    let taken = take_frame(received, memory.bytes())?;
    let DecodedFrame { stamp, views, mut poses, mut motions, calibrations, .. } = taken;
    let DecodedFrame { target_pose, num_inputs, .. } = taken;
    let inputs: [_; MAX_INPUTS] = std::array::from_fn(|index| {
        let input = views[index].as_ref().map(InputView::input);
        let (pose, calibration) = (poses[index].take(), calibrations[index].as_ref());
        let motion = motions[index].take();
        input.map(|input| FrameInput { pose, calibration, motion, ..input })
    });
    let target_pose = target_pose.as_ref();
    let frame = FrameSet { stamp, inputs: &inputs[..num_inputs], target_pose };
    let mut report = FrameReport::new();
    let detections = detector.detect(&frame, &mut report)?;
    let message = sent.start(response::DETECTED);
    wire::put_report(message, stages, &report);
    wire::put_detections(message, detections);
    Ok(())
}

fn prepare(detector: &mut dyn Detector, received: &Message, memory: &PayloadView) -> Result<()> {
    let index = received.u32()? as usize;
    let DecodedFrame { views, calibrations, .. } = take_frame(received, memory.bytes())?;
    let view = views[0].as_ref().ok_or_else(malformed)?;
    detector.prepare(index, &view.input_with(calibrations[0].as_ref()))
}
