//! A channel: messages of a sensor in, detections out. Replay and live run the
//! same.

use nalgebra::Isometry3;

use super::stamps::{StampOrder, StampWatch};
use crate::config::{ChannelConfig, ChannelKind};
use crate::detectors::LidarFrame;
use crate::device::PayloadMemory;
use crate::error::{Error, ErrorKind, Result};
use crate::node::pictures::{self, Canvas};
use crate::runtime::{CameraServer, Health, LidarServer, Supervisor};
use crate::transport::door::{InputKind, Received};
use crate::transport::messages::{Detection2DArray, Detection3DArray};
use crate::types::{
    CloudView, Detection2d, Detection3d, DeviceChoice, Encoding, FrameReport, Header, ImagePayload,
    ImageView, PointChannel, PointField, PointFields, Size, Stamp,
};

/// A channel whose networks are loaded.
pub struct Channel {
    config: ChannelConfig,
    sensor: Sensor,
    stamps: StampWatch,
    num_frames: u64,
}

enum Sensor {
    Camera(Box<Supervisor<CameraServer>>),
    Lidar(Box<Supervisor<LidarServer>>),
}

/// Where a frame of coordinates stood in another at a time: `(target, source,
/// stamp)` to `target_from_source`.
pub type TransformLookup<'a> = dyn Fn(&str, &str, Stamp) -> Result<Isometry3<f64>> + 'a;

/// The detections of one frame, best first.
#[derive(Clone, Copy, Debug)]
pub enum Detections<'a> {
    /// Of a camera channel.
    Camera(&'a [Detection2d]),
    /// Of a lidar channel.
    Lidar(&'a [Detection3d]),
}

impl Detections<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Camera(detections) => detections.len(),
            Self::Lidar(detections) => detections.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes them as a message of [`Channel::output_type`].
    ///
    /// # Errors
    /// `Argument` when a class has no name, `Message` when the message would
    /// have 4 GiB or more.
    pub fn encode(
        &self,
        header: &Header<'_>,
        class_names: &[String],
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Self::Camera(boxes) => Detection2DArray::encode(header, boxes, class_names, bytes),
            Self::Lidar(objects) => Detection3DArray::encode(header, objects, class_names, bytes),
        }
    }
}

/// A frame that was served. Valid until the next.
#[derive(Debug)]
pub struct Served<'a> {
    /// The configuration it was served with.
    pub config: &'a ChannelConfig,
    /// The input's time and frame, which are the detections'.
    pub header: Header<'a>,
    /// The detections.
    pub detections: Detections<'a>,
    /// Durations and losses.
    pub report: &'a FrameReport,
    /// How the stamp stood to the one before.
    pub order: StampOrder,
    /// Why past sweeps could not join, when they should have.
    pub alone: Option<Error>,
}

impl Served<'_> {
    /// Draws the detections on the message they were found in.
    ///
    /// # Errors
    /// Those of decoding the message.
    pub fn draw(&self, message: &Received<'_>) -> Result<Canvas> {
        match (message, self.detections, &self.config.kind) {
            (Received::Picture { payload, .. }, Detections::Camera(found), kind) => {
                pictures::draw_camera(payload, found, kind.class_names())
            }
            (
                Received::Cloud { view, .. },
                Detections::Lidar(found),
                kind @ ChannelKind::Lidar(lidar),
            ) => pictures::draw_lidar(view, &lidar.facts.grid.range(), found, kind.class_names()),
            _ => Err(Error::new(
                ErrorKind::Argument,
                "pictures",
                format!("{}: detections of another sensor", self.config.name),
            )),
        }
    }
}

impl Channel {
    /// Opens the device and loads the networks.
    ///
    /// # Errors
    /// `Device` when the device is not usable, `Model` when a network cannot be
    /// loaded or does not fit.
    pub fn open(config: &ChannelConfig) -> Result<Self> {
        let ChannelConfig { name, device, failures, .. } = config;
        let sensor = match &config.kind {
            ChannelKind::Camera(_) => {
                let build = build_camera(config.clone());
                Sensor::Camera(Box::new(Supervisor::new(name, *device, *failures, build)?))
            }
            ChannelKind::Lidar(_) => {
                let build = build_lidar(config.clone());
                Sensor::Lidar(Box::new(Supervisor::new(name, *device, *failures, build)?))
            }
        };
        let stamps = StampWatch::default();
        Ok(Self { config: config.clone(), sensor, stamps, num_frames: 0 })
    }

    /// The messages that a channel takes, of those that have a type.
    ///
    /// # Errors
    /// `Config` when the channel cannot take that type.
    pub fn input_kind(config: &ChannelConfig, type_name: &str) -> Result<InputKind> {
        let (sensor, takes, kinds) = match config.kind {
            ChannelKind::Camera(_) => {
                ("a camera", "pictures", &[InputKind::Image, InputKind::CompressedImage][..])
            }
            ChannelKind::Lidar(_) => ("a lidar", "point clouds", &[InputKind::PointCloud2][..]),
        };
        let kind = kinds.iter().find(|kind| kind.type_name() == type_name).copied();
        kind.ok_or_else(|| {
            let ChannelConfig { name, input, .. } = config;
            Error::new(
                ErrorKind::Config,
                "channel",
                format!(
                    "{name}.input: {input} carries {type_name}; {sensor} channel takes {takes}"
                ),
            )
        })
    }

    /// Its configuration.
    pub fn config(&self) -> &ChannelConfig {
        &self.config
    }

    /// How it is doing, and how often its device has failed so far.
    pub fn health(&self) -> (Health, u64) {
        match &self.sensor {
            Sensor::Camera(camera) => (camera.health(), camera.num_failures()),
            Sensor::Lidar(lidar) => (lidar.health(), lidar.num_failures()),
        }
    }

    /// The last failure of its device, in words.
    pub fn last_failure(&self) -> Option<&str> {
        match &self.sensor {
            Sensor::Camera(camera) => camera.last_failure(),
            Sensor::Lidar(lidar) => lidar.last_failure(),
        }
    }

    /// Memory for messages to be served from.
    pub fn payload_memory(&self) -> PayloadMemory {
        let memory = match &self.sensor {
            Sensor::Camera(camera) => camera.pipeline().map(CameraServer::payload_memory),
            Sensor::Lidar(lidar) => lidar.pipeline().map(LidarServer::payload_memory),
        };
        memory.unwrap_or_default()
    }

    /// The process that serves its frames, where it is not this one.
    pub fn process_id(&self) -> Option<u32> {
        match &self.sensor {
            Sensor::Camera(camera) => camera.pipeline().and_then(CameraServer::process_id),
            Sensor::Lidar(lidar) => lidar.pipeline().and_then(LidarServer::process_id),
        }
    }

    /// Where its frames run, for reports.
    pub fn device_name(&self) -> &str {
        let name = match &self.sensor {
            Sensor::Camera(camera) => camera.pipeline().map(CameraServer::device_name),
            Sensor::Lidar(lidar) => lidar.pipeline().map(LidarServer::device_name),
        };
        name.unwrap_or("none")
    }

    /// The ROS type of its detections.
    pub fn output_type(&self) -> &'static str {
        match self.sensor {
            Sensor::Camera(_) => Detection2DArray::TYPE,
            Sensor::Lidar(_) => Detection3DArray::TYPE,
        }
    }

    /// What runs its network.
    pub fn engine_name(&self) -> &str {
        let name = match &self.sensor {
            Sensor::Camera(camera) => camera.pipeline().map(CameraServer::engine_name),
            Sensor::Lidar(lidar) => lidar.pipeline().map(LidarServer::engine_name),
        };
        name.unwrap_or("none")
    }

    /// Whether its frames want to know where the sensor stood.
    pub fn wants_transforms(&self) -> bool {
        matches!(&self.config.kind, ChannelKind::Lidar(l) if l.densification.num_past_sweeps > 0)
    }

    /// Whether its detections lie in space, where markers can show them.
    pub fn wants_markers(&self) -> bool {
        matches!(self.sensor, Sensor::Lidar(_))
    }

    /// Detects objects in a message.
    ///
    /// `transforms` is asked only where [`Channel::wants_transforms`]. Without
    /// an answer a sweep is served alone. When the stamps start over, past
    /// sweeps are forgotten.
    ///
    /// # Errors
    /// Those of the pipeline, and `Argument` for a message that is not of this
    /// sensor. The frame is dropped, the channel stays usable.
    pub fn process<'a>(
        &'a mut self,
        message: &Received<'a>,
        transforms: Option<&TransformLookup<'_>>,
    ) -> Result<Served<'a>> {
        let wants_transforms = self.wants_transforms();
        let Self { config, sensor, stamps, num_frames } = self;
        let must_fail = config.failures.fault_at_frame == Some(*num_frames);
        *num_frames += 1;
        match (sensor, *message, &config.kind) {
            (Sensor::Camera(camera), Received::Picture { header, payload }, _) => {
                let order = stamps.note(header.stamp);
                let processed = camera.serve(|camera| {
                    if must_fail {
                        camera.fail()?;
                    }
                    camera.process(&payload)
                })?;
                let detections = Detections::Camera(processed.detections);
                let report = processed.report;
                Ok(Served { config, header, detections, report, order, alone: None })
            }
            (
                Sensor::Lidar(server),
                Received::Cloud { header, view },
                ChannelKind::Lidar(lidar),
            ) => {
                let order = stamps.note(header.stamp);
                let world_frame = lidar.densification.world_frame.as_str();
                let lookup = transforms
                    .filter(|_| wants_transforms)
                    .map(|lookup| lookup(world_frame, header.frame_id, header.stamp));
                let (world_from_sensor, alone) = match lookup {
                    Some(Ok(transform)) => (Some(transform), None),
                    Some(Err(error)) => (None, Some(error)),
                    None => (None, None),
                };
                let world_from_sensor = world_from_sensor.as_ref();
                let frame = LidarFrame { cloud: view, stamp: header.stamp, world_from_sensor };
                let processed = server.serve(|lidar| {
                    if order == StampOrder::Restart {
                        lidar.forget_sweeps()?;
                    }
                    if must_fail {
                        lidar.fail()?;
                    }
                    lidar.process(&frame)
                })?;
                let detections = Detections::Lidar(processed.detections);
                let report = processed.report;
                Ok(Served { config, header, detections, report, order, alone })
            }
            _ => Err(Error::new(
                ErrorKind::Argument,
                "channel",
                format!("{} was given a message of another sensor", config.name),
            )),
        }
    }

    /// Takes over what may change between frames.
    ///
    /// # Errors
    /// `Config`, and nothing changes, when `config` differs in more than that.
    pub fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        match &mut self.sensor {
            Sensor::Camera(camera) => {
                camera.serve(|camera| camera.reconfigure(config))?;
                camera.build_with(build_camera(config.clone()));
            }
            Sensor::Lidar(lidar) => {
                lidar.serve(|lidar| lidar.reconfigure(config))?;
                lidar.build_with(build_lidar(config.clone()));
            }
        }
        self.config = config.clone();
        Ok(())
    }

    /// Runs the networks once on an empty frame, so that the first real one
    /// finds them warm. Leaves no trace.
    ///
    /// # Errors
    /// Those of the pipeline.
    pub fn warm_up(&mut self) -> Result<()> {
        match (&mut self.sensor, &self.config.kind) {
            (Sensor::Camera(camera), _) => {
                let pixels = [0; 3 * 64 * 64];
                let size = Size::new(64, 64);
                let image = ImageView::new(size, 3 * 64, Encoding::Rgb8, false, &pixels)?;
                camera.serve(|camera| camera.process(&ImagePayload::Raw(image)).map(drop))?;
            }
            (Sensor::Lidar(server), ChannelKind::Lidar(lidar)) => {
                let range = lidar.facts.grid.range();
                let point = [0, 1, 2].map(|axis| 0.5 * (range.min[axis] + range.max[axis]));
                let (names, data) = one_point(point, &lidar.facts.point_channels);
                let mut fields = PointFields::new();
                for (name, offset) in names.iter().zip((0..).step_by(4)) {
                    fields.push(PointField { name, offset, datatype: 7, count: 1 })?;
                }
                let step = data.len() as u32;
                let cloud = CloudView::new([1, 1], [step, step], false, fields, &data)?;
                let stamp = Stamp::default();
                let frame = LidarFrame { cloud: &cloud, stamp, world_from_sensor: None };
                server.serve(|lidar| lidar.process(&frame).map(drop))?;
                server.serve(LidarServer::forget_sweeps)?;
            }
            (Sensor::Lidar(_), ChannelKind::Camera(_)) => {}
        }
        Ok(())
    }
}

/// How a camera's pipeline is built, again after a failure.
fn build_camera(
    config: ChannelConfig,
) -> impl FnMut(DeviceChoice) -> Result<(CameraServer, DeviceChoice)> + Send {
    move |device| {
        let server = CameraServer::open(&config, device)?;
        let device = server.device();
        Ok((server, device))
    }
}

/// As [`build_camera`], of a lidar.
fn build_lidar(
    config: ChannelConfig,
) -> impl FnMut(DeviceChoice) -> Result<(LidarServer, DeviceChoice)> + Send {
    move |device| {
        let server = LidarServer::open(&config, device)?;
        let device = server.device();
        Ok((server, device))
    }
}

/// Names and bytes of a cloud of one point: x, y, z and what a head wants
/// beyond, all floats, the rest zero.
fn one_point(point: [f32; 3], channels: &[PointChannel]) -> (Vec<&str>, Vec<u8>) {
    let mut names = vec!["x", "y", "z"];
    names.extend(channels.iter().filter_map(|channel| match channel {
        PointChannel::Intensity => Some("intensity"),
        PointChannel::Ring => Some("ring"),
        PointChannel::TimeLag => None,
        PointChannel::Named(name) => Some(name.as_str()),
    }));
    let mut data: Vec<u8> = point.iter().flat_map(|value| value.to_le_bytes()).collect();
    data.resize(4 * names.len(), 0);
    (names, data)
}
