//! The other end: the process that serves a channel's frames.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::memory::Read;
use super::message::{Message, malformed};
use super::{STAGE, Words, answer, request, words};
use crate::config::{ChannelConfig, ChannelKind, Config};
use crate::detectors::{LidarFrame, Processed};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::server::{CameraServer, LidarServer};
use crate::types::{
    CloudView, CompressedFormat, CompressedView, DeviceChoice, Encoding, ImagePayload, ImageView,
    PointField, PointFields, Size, Stamp,
};

/// Serves requests from standard input, a socket, until its end, or until the
/// GPU is lost.
///
/// # Errors
/// `Io` when standard input is no such socket; what is wrong with a request is
/// its answer.
pub fn serve() -> Result<()> {
    let failed = |cause: io::Error| {
        let message = "standard input is not the socket of a channel";
        Error::new(ErrorKind::Io, STAGE, message).with_source(cause)
    };
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let mut socket = UnixStream::from(socket);
    let mut serving = Serving::default();
    let (mut asked, mut answered) = (Message::default(), Message::default());
    while asked.receive(&mut socket).map_err(failed)? {
        let error = serving.answer(&asked, &mut answered).err();
        if let Some(error) = &error {
            words::put_error(answered.start(answer::FAILED), error);
        }
        answered.send(&mut socket).map_err(failed)?;
        if error.is_some_and(|error| error.kind() == ErrorKind::DeviceLost) {
            break;
        }
    }
    Ok(())
}

/// The channel that is served, once it is known.
#[derive(Default)]
struct Serving {
    name: String,
    sensor: Option<Sensor>,
    memory: Option<Read>,
}

enum Sensor {
    Camera(CameraServer),
    Lidar(LidarServer),
}

impl Serving {
    fn answer(&mut self, asked: &Message, answered: &mut Message) -> Result<()> {
        let Self { sensor, memory, .. } = self;
        match (asked.tag()?, sensor) {
            (request::START, _) => return self.start(asked, answered),
            (request::MEMORY, _) => *memory = Some(Read::open(Path::new(asked.text()?))?),
            (request::PIXELS, Some(Sensor::Camera(camera))) => {
                let size = Size::new(asked.u32()?, asked.u32()?);
                let (step, encoding) = (asked.usize()?, Encoding::from_ros(asked.text()?)?);
                let (is_big_endian, data) = (asked.u32()? != 0, payload(asked, memory)?);
                let image = ImageView::new(size, step, encoding, is_big_endian, data)?;
                put_served(answered, &camera.process(&ImagePayload::Raw(image))?, data.len());
                return Ok(());
            }
            (request::FILE, Some(Sensor::Camera(camera))) => {
                let is_png = asked.u32()? != 0;
                let format = if is_png { CompressedFormat::Png } else { CompressedFormat::Jpeg };
                let data = payload(asked, memory)?;
                let file = ImagePayload::Compressed(CompressedView { format, data });
                put_served(answered, &camera.process(&file)?, data.len());
                return Ok(());
            }
            (request::CLOUD, Some(Sensor::Lidar(lidar))) => {
                return serve_cloud(lidar, asked, memory, answered);
            }
            (request::RECONFIGURE, Some(sensor)) => {
                let config = channel(&self.name, asked.text()?)?;
                match sensor {
                    Sensor::Camera(camera) => camera.reconfigure(&config)?,
                    Sensor::Lidar(lidar) => lidar.reconfigure(&config)?,
                }
            }
            (request::FORGET_SWEEPS, Some(Sensor::Lidar(lidar))) => lidar.forget_sweeps()?,
            (request::FAIL, Some(Sensor::Camera(camera))) => camera.fail()?,
            (request::FAIL, Some(Sensor::Lidar(lidar))) => lidar.fail()?,
            _ => return Err(malformed()),
        }
        answered.start(answer::DONE);
        Ok(())
    }

    fn start(&mut self, asked: &Message, answered: &mut Message) -> Result<()> {
        self.name = asked.text()?.to_owned();
        let device: DeviceChoice = asked.text()?.parse()?;
        let mut config = channel(&self.name, asked.text()?)?;
        config.is_isolated = false;
        let message = answered.start(answer::STARTED);
        let sensor = match &config.kind {
            ChannelKind::Camera(_) => {
                let camera = CameraServer::open(&config, device)?;
                message.put_text(&camera.device().to_string()).put_text(camera.device_name());
                message.put_text(camera.engine_name()).put_u32(0);
                Sensor::Camera(camera)
            }
            ChannelKind::Lidar(_) => {
                let lidar = LidarServer::open(&config, device)?;
                message.put_text(&lidar.device().to_string()).put_text(lidar.device_name());
                message.put_text(lidar.engine_name()).put_u32(u32::from(lidar.densifies()));
                Sensor::Lidar(lidar)
            }
        };
        self.sensor = Some(sensor);
        Ok(())
    }
}

fn serve_cloud(
    lidar: &mut LidarServer,
    asked: &Message,
    memory: &Option<Read>,
    answered: &mut Message,
) -> Result<()> {
    let [width, height, point_step, row_step] =
        [asked.u32()?, asked.u32()?, asked.u32()?, asked.u32()?];
    let is_big_endian = asked.u32()? != 0;
    let mut fields = PointFields::new();
    for _ in 0..asked.u32()? {
        let (name, offset) = (asked.text()?, asked.u32()?);
        let datatype = u8::try_from(asked.u32()?).map_err(|_| malformed())?;
        fields.push(PointField { name, offset, datatype, count: asked.u32()? })?;
    }
    let stamp = Stamp::from_nanos(asked.u64()? as i64);
    let world_from_sensor = asked.transform()?;
    let data = payload(asked, memory)?;
    let (size, steps) = ([width, height], [point_step, row_step]);
    let cloud = CloudView::new(size, steps, is_big_endian, fields, data)?;
    let world_from_sensor = world_from_sensor.as_ref();
    let served = lidar.process(&LidarFrame { cloud: &cloud, stamp, world_from_sensor })?;
    put_served(answered, &served, data.len());
    Ok(())
}

/// The payload of a frame, whose length comes next in the message.
fn payload<'a>(asked: &Message, memory: &'a Option<Read>) -> Result<&'a [u8]> {
    memory.as_ref().ok_or_else(malformed)?.bytes(asked.usize()?)
}

fn put_served<D: Words>(answered: &mut Message, served: &Processed<'_, D>, num_shared: usize) {
    let message = answered.start(answer::SERVED);
    words::put_report(message, served.report);
    message.put_u64(num_shared as u64).put_u64(served.detections.len() as u64);
    served.detections.iter().for_each(|detection| detection.put(message));
}

/// The channel of a configuration.
fn channel(name: &str, yaml: &str) -> Result<ChannelConfig> {
    let config = Config::parse(yaml)?;
    let found = config.channels.into_iter().find(|channel| channel.name == name);
    found.ok_or_else(malformed)
}
