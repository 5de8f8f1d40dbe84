//! A detector in a separate process.
//!
//! A fault of a GPU makes it unusable for a whole process, and a library may abort the
//! process. Neither affects a channel whose detector runs in another process: the
//! [`Proxy`] reports a failure of its device, and the [`Supervisor`] starts another one.
//!
//! The process is this program, started as `det_post isolated`. Payloads are copied once, into
//! sealed memory that both processes map, and for a GPU once more, into page-locked memory of
//! that process. Requests and responses, a few hundred bytes and the detections, are sent
//! through a socket, whose end signals the end of the other process; the system kills it with
//! this one, also while it hangs. What it logs is logged by this process. One request is in
//! flight at a time. The detections are those of the same detector in this process, bit for
//! bit.
//!
//! [`Supervisor`]: super::supervisor::Supervisor

mod child;
mod frame;
mod memory;
mod message;
mod motion;
mod serve;
mod wire;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use memory::PayloadBuffer;
use message::{Message, STAGE, malformed, put_channel, request, response, take_error};
pub use serve::serve;
use wire::DetectionBuffers;

use crate::config::ChannelConfig;
use crate::detectors::image2d::MAX_DECODE_TIME;
use crate::detectors::in_flight::SingleFrame;
use crate::detectors::{Detector, DetectorInfo, FrameInput, FrameSet};
use det_post_ops::device::{Device, copy};
use det_post_types::{
    Detections, DeviceChoice, Error, ErrorKind, FrameReport, Result, Stage, Transfer,
};

/// The time limit for loading the networks. TensorRT builds for minutes.
const START_TIMEOUT: Duration = Duration::from_secs(900);

/// The time limit for a frame, whose kernels may hang.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

// An image that is slow to decode is refused for that reason, not as a process that
// hangs.
const _: () = assert!(2 * MAX_DECODE_TIME.as_secs() < FRAME_TIMEOUT.as_secs());

/// The time limit for a process to exit.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The minimum size of the shared memory.
const MIN_MEMORY_BYTES: usize = 1 << 16;

/// A detector in another process.
pub struct Proxy {
    process: Child,
    /// The other end of its standard input.
    socket: UnixStream,
    memory: Option<PayloadBuffer>,
    message: Message,
    info: DetectorInfo,
    /// The stages of the other process, which follow the copy to it.
    stages: Vec<Stage>,
    found: DetectionBuffers,
    in_flight: SingleFrame,
}

impl Proxy {
    /// Starts `program`, a det_post, which builds the channel's detector on a device.
    ///
    /// # Errors
    /// `Config` when a file of the channel is missing, `Device` when the process cannot be started or
    /// exits, and its own errors.
    pub fn start(program: &Path, config: &ChannelConfig, device: DeviceChoice) -> Result<Self> {
        // Here it is known where the file was looked for.
        config.check_files()?;
        let failed = |what: &str, cause: io::Error| {
            let message = format!("cannot {what} {} for {}", program.display(), config.name);
            Error::new(ErrorKind::Device, STAGE, message).with_source(cause)
        };
        let (socket, theirs) = UnixStream::pair().map_err(|e| failed("make a socket to", e))?;
        let process =
            child::start(program, &config.name, theirs.into()).map_err(|e| failed("start", e))?;
        let mut proxy = Self {
            process,
            socket,
            memory: None,
            message: Message::default(),
            info: DetectorInfo::new([], &Device::Cpu, "", &[]),
            stages: Vec::new(),
            found: DetectionBuffers::default(),
            in_flight: SingleFrame::none(),
        };
        let message = proxy.message.start(request::START);
        put_channel(message.put_text(&config.name).put_text(&device.to_string()), config);
        proxy.ask(START_TIMEOUT, response::STARTED)?;
        proxy.info = wire::take_info(&proxy.message)?;
        let info = &mut proxy.info;
        info.process_id = Some(proxy.process.id());
        proxy.stages.clone_from(&info.stages);
        if !proxy.stages.contains(&Stage::Upload) {
            info.stages.insert(0, Stage::Upload);
        }
        Ok(proxy)
    }

    /// Copies the payloads of a frame to the shared memory; returns the number of bytes.
    fn share(&mut self, frame: &FrameSet<'_>) -> Result<usize> {
        let ends = frame::payloads(frame).map(|(start, data)| start.saturating_add(data.len()));
        let len = ends.max().unwrap_or(0);
        if self.memory.as_ref().is_none_or(|memory| memory.len() < len) {
            // A quarter more, so that payloads that grow slowly need new memory rarely.
            let needed = len.saturating_add(len / 4).max(MIN_MEMORY_BYTES);
            let memory = PayloadBuffer::reserve(needed)?;
            self.message.start(request::MEMORY);
            self.exchange(FRAME_TIMEOUT, response::DONE, Some(&memory))?;
            self.memory = Some(memory);
        }
        let mut num_shared = 0;
        if let Some(memory) = &mut self.memory {
            for (start, data) in frame::payloads(frame) {
                copy(data, &mut memory.bytes()[start..start + data.len()]);
                num_shared += data.len();
            }
        }
        Ok(num_shared)
    }

    /// Sends the request in the message, waits, and replaces it by the response, which is
    /// read up to its tag.
    fn ask(&mut self, timeout: Duration, expected: u8) -> Result<()> {
        self.exchange(timeout, expected, None)
    }

    /// As [`Self::ask`], with shared memory that is sent after the request.
    fn exchange(
        &mut self,
        timeout: Duration,
        expected: u8,
        memory: Option<&PayloadBuffer>,
    ) -> Result<()> {
        let Self { socket, message, .. } = self;
        let received = socket
            .set_read_timeout(Some(timeout))
            // A process that is stopped does not read either.
            .and_then(|()| socket.set_write_timeout(Some(timeout)))
            .and_then(|()| message.send(socket))
            .and_then(|()| memory.map_or(Ok(()), |memory| memory.send(socket)))
            .and_then(|()| message.receive(socket));
        match received {
            Ok(true) => {}
            Ok(false) => return Err(self.ended(None)),
            Err(cause) => return Err(self.ended(Some(cause))),
        }
        match self.message.tag()? {
            tag if tag == expected => Ok(()),
            response::FAILED => {
                let error = take_error(&self.message)?;
                if error.kind() != ErrorKind::DeviceLost {
                    return Err(error);
                }
                // Unusable for that process only.
                Err(Error::new(ErrorKind::Device, STAGE, error.message()))
            }
            _ => Err(malformed()),
        }
    }

    /// The error of a process that does not respond.
    fn ended(&mut self, cause: Option<io::Error>) -> Error {
        let status = self.end();
        let message = match status {
            Some(status) => format!("the channel's process has ended ({status})"),
            None => "the channel's process did not respond and was killed".to_owned(),
        };
        let error = Error::new(ErrorKind::Device, STAGE, message);
        match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }

    /// Waits for the process to exit and returns its status; kills it after the time limit.
    fn end(&mut self) -> Option<std::process::ExitStatus> {
        // The process reads the end of its requests. Fails if it has exited already.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let start = Instant::now();
        while start.elapsed() < END_TIMEOUT {
            match self.process.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        // Both fail only if it has exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
        None
    }
}

impl Detector for Proxy {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn prepare(&mut self, input: usize, message: &FrameInput<'_>) -> Result<()> {
        // A frame of only this message, in the place where the next frame will be.
        let FrameInput { header, payload, calibration, .. } = *message;
        let inputs = [Some(FrameInput { calibration, ..FrameInput::new(header, payload) })];
        let frame = FrameSet::single(&inputs);
        self.share(&frame)?;
        let index = u32::try_from(input).map_err(|_| malformed())?;
        frame::put_frame(self.message.start(request::PREPARE).put_u32(index), &frame)?;
        self.ask(FRAME_TIMEOUT, response::DONE)
    }

    fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Waits for the response: another request may follow before the frame is collected.
    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.in_flight.check_free()?;
        let num_shared = self.share(frame)?;
        frame::put_frame(self.message.start(request::FRAME), frame)?;
        self.ask(FRAME_TIMEOUT, response::DETECTED)?;
        let Self { message, found, stages, in_flight, .. } = self;
        wire::take_report(message, stages, report)?;
        report.add_bytes(Stage::Upload, Transfer::HostCopy, num_shared);
        wire::take_detections(message, found)?;
        in_flight.mark_submitted(());
        Ok(())
    }

    fn collect<'a>(&'a mut self, _: &mut FrameReport) -> Result<Detections<'a>> {
        self.in_flight.end()?;
        Ok(self.found.last())
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        put_channel(self.message.start(request::RECONFIGURE), config);
        self.ask(FRAME_TIMEOUT, response::DONE)
    }

    fn reset(&mut self) -> Result<()> {
        self.message.start(request::RESET);
        self.ask(FRAME_TIMEOUT, response::DONE)
    }

    fn warm_up(&mut self) -> Result<()> {
        self.message.start(request::WARM_UP);
        self.ask(START_TIMEOUT, response::DONE)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

/// The path of this program.
pub fn this_program() -> PathBuf {
    let link = Path::new("/proc/self/exe");
    if link.exists() {
        return link.to_owned();
    }
    std::env::current_exe().unwrap_or_else(|_| "det_post".into())
}
