//! A channel's frames in a process of their own.
//!
//! A fault of a GPU ends it for a whole process, and a library on it may end
//! the process itself. Neither reaches a channel whose frames are served by
//! another process: it says that its device failed, and the [`Supervisor`]
//! starts a new one.
//!
//! The process is this program again, as `det_post isolated`. Payloads go through
//! memory that both map, one copy each; requests and answers, a few hundred
//! bytes and the detections, through a socket, which is also how each learns
//! that the other is gone. One request is under way at a time. The detections
//! are those of the same pipeline in this process, bit for bit.
//!
//! [`Supervisor`]: super::Supervisor

mod memory;
mod message;
mod serve;
mod words;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use memory::Written;
use message::{Message, malformed};
pub use serve::serve;
pub use words::Words;

use crate::config::ChannelConfig;
use crate::detectors::{LidarFrame, Processed};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{CompressedFormat, DeviceChoice, FrameReport, ImagePayload, Stage, Transfer};

const STAGE: &str = "isolated";

/// How long a new process may take to load its networks. TensorRT builds for
/// minutes.
const START_TIMEOUT: Duration = Duration::from_secs(900);

/// How long a frame may take: a kernel may never end.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a process may take to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Shared memory is taken by powers of two from this on.
const MIN_MEMORY_BYTES: usize = 1 << 16;

/// What is asked.
mod request {
    pub(super) const START: u8 = 0;
    pub(super) const MEMORY: u8 = 1;
    pub(super) const PIXELS: u8 = 2;
    pub(super) const FILE: u8 = 3;
    pub(super) const CLOUD: u8 = 4;
    pub(super) const RECONFIGURE: u8 = 5;
    pub(super) const FORGET_SWEEPS: u8 = 6;
    pub(super) const FAIL: u8 = 7;
}

/// What is answered.
mod answer {
    pub(super) const DONE: u8 = 0;
    pub(super) const STARTED: u8 = 1;
    pub(super) const SERVED: u8 = 2;
    pub(super) const FAILED: u8 = 3;
}

/// A channel in another process. Its detections are of type `D`.
pub struct Isolated<D> {
    process: Child,
    /// The other end of its standard input.
    socket: UnixStream,
    memory: Option<Written>,
    message: Message,
    device: DeviceChoice,
    device_name: String,
    engine_name: String,
    densifies: bool,
    detections: Vec<D>,
    report: FrameReport,
}

impl<D: Words> Isolated<D> {
    /// Starts `program`, a det_post, and has it load the channel's networks for
    /// a device.
    ///
    /// # Errors
    /// `Device` when the process cannot be started or ends, and its own errors.
    pub fn start(program: &Path, config: &ChannelConfig, device: DeviceChoice) -> Result<Self> {
        let failed = |what: &str, cause: io::Error| {
            let message = format!("cannot {what} {} for {}", program.display(), config.name);
            Error::new(ErrorKind::Device, STAGE, message).with_source(cause)
        };
        let (socket, theirs) = UnixStream::pair().map_err(|e| failed("make a socket to", e))?;
        let process = Command::new(program)
            .arg("isolated")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // Not interrupted with us: frames under way are finished first.
            .process_group(0)
            .spawn()
            .map_err(|e| failed("start", e))?;
        let mut isolated = Self {
            process,
            socket,
            memory: None,
            message: Message::default(),
            device,
            device_name: String::new(),
            engine_name: String::new(),
            densifies: false,
            detections: Vec::new(),
            report: FrameReport::new(),
        };
        let message = isolated.message.start(request::START);
        message.put_text(&config.name).put_text(&device.to_string()).put_text(&config.to_yaml());
        isolated.ask(START_TIMEOUT, answer::STARTED)?;
        let message = &isolated.message;
        isolated.device = message.text()?.parse()?;
        isolated.device_name = message.text()?.to_owned();
        isolated.engine_name = message.text()?.to_owned();
        isolated.densifies = message.u32()? != 0;
        Ok(isolated)
    }

    /// Detects objects in a picture.
    ///
    /// # Errors
    /// Those of the pipeline; `Device` when the process, or its GPU, is lost.
    pub fn process_picture(&mut self, payload: &ImagePayload<'_>) -> Result<Processed<'_, D>> {
        let start = Instant::now();
        match payload {
            ImagePayload::Raw(image) => {
                self.share(image.data())?;
                let message = self.message.start(request::PIXELS);
                message.put_u32(image.size().width).put_u32(image.size().height);
                message.put_u64(image.step() as u64).put_text(image.encoding().to_ros());
                message.put_u32(u32::from(image.is_big_endian()));
                message.put_u64(image.data().len() as u64);
            }
            ImagePayload::Compressed(file) => {
                self.share(file.data)?;
                let message = self.message.start(request::FILE);
                message.put_u32(u32::from(file.format == CompressedFormat::Png));
                message.put_u64(file.data.len() as u64);
            }
        }
        self.finish(start)
    }

    /// Detects objects in a sweep.
    ///
    /// # Errors
    /// Those of the pipeline; `Device` when the process, or its GPU, is lost.
    pub fn process_cloud(&mut self, frame: &LidarFrame<'_>) -> Result<Processed<'_, D>> {
        let start = Instant::now();
        let cloud = frame.cloud;
        self.share(cloud.data())?;
        let message = self.message.start(request::CLOUD);
        for n in [cloud.width(), cloud.height(), cloud.point_step(), cloud.row_step()] {
            message.put_u32(u32::try_from(n).map_err(|_| malformed())?);
        }
        message.put_u32(u32::from(cloud.is_big_endian()));
        message.put_u32(cloud.fields().as_slice().len() as u32);
        for field in cloud.fields().as_slice() {
            message.put_text(field.name).put_u32(field.offset);
            message.put_u32(field.datatype.into()).put_u32(field.count);
        }
        message.put_u64(frame.stamp.nanos() as u64).put_transform(frame.world_from_sensor);
        message.put_u64(cloud.data().len() as u64);
        self.finish(start)
    }

    /// Sends a frame and takes its detections.
    fn finish(&mut self, start: Instant) -> Result<Processed<'_, D>> {
        self.ask(FRAME_TIMEOUT, answer::SERVED)?;
        let Self { message, detections, report, .. } = self;
        words::take_report(message, report)?;
        let num_shared = message.usize()?;
        detections.clear();
        for _ in 0..message.usize()? {
            detections.push(D::take(message)?);
        }
        report.add_bytes(Stage::Upload, Transfer::HostCopy, num_shared);
        report.add_duration(Stage::Total, start.elapsed());
        Ok(Processed { detections, report })
    }
}

impl<D> Isolated<D> {
    /// The device it runs on, by its number.
    pub fn device(&self) -> DeviceChoice {
        self.device
    }

    /// The device it runs on, for reports.
    pub fn device_name(&self) -> &str {
        &self.device_name
    }

    /// Name and version of the engine that runs its network.
    pub fn engine_name(&self) -> &str {
        &self.engine_name
    }

    /// Whether past sweeps join, so that frames want a transform.
    pub fn densifies(&self) -> bool {
        self.densifies
    }

    /// The process, by its number.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Takes over what may change between frames.
    ///
    /// # Errors
    /// Those of the pipeline; `Device` when the process is lost.
    pub fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        self.message.start(request::RECONFIGURE).put_text(&config.to_yaml());
        self.ask(FRAME_TIMEOUT, answer::DONE)
    }

    /// Forgets past sweeps.
    ///
    /// # Errors
    /// `Device` when the process is lost.
    pub fn forget_sweeps(&mut self) -> Result<()> {
        self.message.start(request::FORGET_SWEEPS);
        self.ask(FRAME_TIMEOUT, answer::DONE)
    }

    /// Makes its device fail.
    ///
    /// # Errors
    /// `Device` when the process is lost.
    pub fn fail(&mut self) -> Result<()> {
        self.message.start(request::FAIL);
        self.ask(FRAME_TIMEOUT, answer::DONE)
    }

    /// Copies a payload to where the other process reads it.
    fn share(&mut self, data: &[u8]) -> Result<()> {
        let needed = data.len().max(MIN_MEMORY_BYTES);
        let memory = match self.memory.take() {
            Some(memory) if memory.len() >= needed => memory,
            _ => {
                let capacity = needed.checked_next_power_of_two().unwrap_or(needed);
                let memory = Written::new(capacity)?;
                let path = memory.path().to_str().ok_or_else(malformed)?;
                self.message.start(request::MEMORY).put_text(path);
                self.ask(FRAME_TIMEOUT, answer::DONE)?;
                memory
            }
        };
        self.memory.insert(memory).bytes()[..data.len()].copy_from_slice(data);
        self.report = FrameReport::new();
        Ok(())
    }

    /// Sends the request that stands in the message, waits, and leaves the
    /// answer there, read up to its tag.
    fn ask(&mut self, timeout: Duration, expected: u8) -> Result<()> {
        let Self { socket, message, .. } = self;
        let answered = socket
            .set_read_timeout(Some(timeout))
            .and_then(|()| message.send(socket))
            .and_then(|()| message.receive(socket));
        match answered {
            Ok(true) => {}
            Ok(false) => return Err(self.ended(None)),
            Err(cause) => return Err(self.ended(Some(cause))),
        }
        match self.message.tag()? {
            tag if tag == expected => Ok(()),
            answer::FAILED => {
                let error = words::take_error(&self.message)?;
                if error.kind() != ErrorKind::DeviceLost {
                    return Err(error);
                }
                // Lost to that process only.
                Err(Error::new(ErrorKind::Device, STAGE, error.message()))
            }
            _ => Err(malformed()),
        }
    }

    /// What became of a process that does not answer.
    fn ended(&mut self, cause: Option<io::Error>) -> Error {
        let status = self.end();
        let message = match status {
            Some(status) => format!("the channel's process has ended ({status})"),
            None => "the channel's process did not answer and was ended".to_owned(),
        };
        let error = Error::new(ErrorKind::Device, STAGE, message);
        match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }

    /// Waits for the process to end by itself, else ends it; how it ended by
    /// itself.
    fn end(&mut self) -> Option<std::process::ExitStatus> {
        // It reads the end of its requests. Gone already: then it knows.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let start = Instant::now();
        while start.elapsed() < END_TIMEOUT {
            match self.process.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        // Errors mean that it is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
        None
    }
}

impl<D> Drop for Isolated<D> {
    fn drop(&mut self) {
        self.end();
    }
}

/// This program, to be started again.
pub fn this_program() -> PathBuf {
    let link = Path::new("/proc/self/exe");
    if link.exists() {
        return link.to_owned();
    }
    std::env::current_exe().unwrap_or_else(|_| "det_post".into())
}
