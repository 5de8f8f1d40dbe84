//! One channel of a replay: messages of its input in, detections out.

use super::outputs::{Detections, OutputChannel, Outputs};
use super::pictures::Caption;
use super::report::{ChannelReport, Report};
use super::transforms::TransformFeed;
use crate::config::{ChannelConfig, ChannelKind};
use crate::device::{Device, Devices};
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::{CameraPipeline, LidarFrame, LidarPipeline};
use crate::transport::bag::BagMessage;
use crate::transport::messages::{
    CompressedImage, Detection2DArray, Detection3DArray, Image, PointCloud2,
};
use crate::types::{DeviceChoice, Header, ImagePayload, PointRange};

/// A channel whose networks are loaded.
pub(super) struct Channel {
    config: ChannelConfig,
    topic: usize,
    output: usize,
    device: Device,
    sensor: Sensor,
    report: ChannelReport,
}

enum Sensor {
    Camera { pipeline: Box<CameraPipeline>, compressed: bool },
    Lidar { pipeline: Box<LidarPipeline>, world_frame: String, range: PointRange },
}

impl Channel {
    /// Loads the networks of a channel whose input is topic number `topic` of
    /// the recording, of type `type_name`.
    ///
    /// # Errors
    /// `Config` when the channel cannot take that type, `Device` when its device
    /// is not usable, `Model` when a network cannot be loaded or does not fit.
    pub(super) fn open(
        config: &ChannelConfig,
        devices: &mut Devices,
        topic: usize,
        type_name: &str,
    ) -> Result<Self> {
        let device = match &config.kind {
            ChannelKind::Camera(_) => devices.open(config.device)?,
            ChannelKind::Lidar(_) => lidar_device(config)?,
        };
        let sensor = match &config.kind {
            ChannelKind::Camera(camera) => {
                let compressed = match type_name {
                    Image::TYPE => false,
                    CompressedImage::TYPE => true,
                    _ => return Err(wrong_type(config, type_name, "a camera", "pictures")),
                };
                Sensor::Camera {
                    pipeline: Box::new(CameraPipeline::new(camera, &device)?),
                    compressed,
                }
            }
            ChannelKind::Lidar(lidar) => {
                if type_name != PointCloud2::TYPE {
                    return Err(wrong_type(config, type_name, "a lidar", "point clouds"));
                }
                Sensor::Lidar {
                    pipeline: Box::new(LidarPipeline::new(lidar)?),
                    world_frame: lidar.densification.world_frame.clone(),
                    range: lidar.facts.grid.range(),
                }
            }
        };
        let report = ChannelReport::new();
        Ok(Self { config: config.clone(), topic, output: 0, device, sensor, report })
    }

    /// Announces the channel's outputs.
    ///
    /// # Errors
    /// `Io` when they cannot be written.
    pub(super) fn announce(&mut self, outputs: &mut Outputs) -> Result<()> {
        let (type_name, class_names, score_threshold) = match &self.config.kind {
            ChannelKind::Camera(camera) => {
                (Detection2DArray::TYPE, &camera.facts.class_names, camera.score_threshold)
            }
            ChannelKind::Lidar(lidar) => {
                let lowest = lidar.score_thresholds.per_class.iter().flatten().copied();
                let lowest = lowest.reduce(f32::min).unwrap_or(0.0);
                (Detection3DArray::TYPE, &lidar.facts.class_names, lowest)
            }
        };
        self.output = outputs.add_channel(OutputChannel {
            name: self.config.name.clone(),
            topic: self.config.output.clone(),
            type_name,
            class_names: class_names.clone(),
            score_threshold,
        })?;
        Ok(())
    }

    /// Topic of the messages it takes.
    pub(super) fn input(&self) -> &str {
        &self.config.input
    }

    /// Whether it takes the messages of topic number `topic`.
    pub(super) fn takes(&self, topic: usize) -> bool {
        self.topic == topic
    }

    /// Whether its frames want to know where the sensor stood.
    pub(super) fn wants_transforms(&self) -> bool {
        matches!(&self.sensor, Sensor::Lidar { pipeline, .. } if pipeline.densifies())
    }

    /// Detects objects in a message and writes them. A message that cannot be
    /// served is dropped, counted and named in the log.
    ///
    /// # Errors
    /// `Io` when an output cannot be written; nothing else ends the replay.
    pub(super) fn process(
        &mut self,
        message: &BagMessage<'_>,
        transforms: Option<&TransformFeed>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        match self.sensor {
            Sensor::Camera { .. } => self.process_picture(message, outputs),
            Sensor::Lidar { .. } => self.process_cloud(message, transforms, outputs),
        }
    }

    fn process_picture(&mut self, message: &BagMessage<'_>, outputs: &mut Outputs) -> Result<()> {
        let Sensor::Camera { pipeline, compressed } = &mut self.sensor else { return Ok(()) };
        let served = decode_picture(message.data, *compressed)
            .and_then(|(header, payload)| Ok((header, payload, pipeline.process(&payload)?)));
        let (header, payload, processed) = match served {
            Ok(served) => served,
            Err(error) => {
                self.drop_frame(&error);
                return Ok(());
            }
        };
        let frame = self.report.frames_in();
        self.report.add_served(processed.report, processed.detections.len());
        let detections = processed.detections;
        outputs.write(self.output, &header, message.log_time, Detections::Camera(detections))?;
        if let Some(pictures) = outputs.pictures(frame) {
            let caption = caption(&self.config, frame, &header);
            pictures.draw_camera(&caption, &payload, detections)?;
        }
        Ok(())
    }

    fn process_cloud(
        &mut self,
        message: &BagMessage<'_>,
        transforms: Option<&TransformFeed>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let Sensor::Lidar { pipeline, world_frame, range } = &mut self.sensor else {
            return Ok(());
        };
        let decoded =
            PointCloud2::decode(message.data).and_then(|cloud| Ok((cloud.header, cloud.view()?)));
        let (header, cloud) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                self.drop_frame(&error);
                return Ok(());
            }
        };
        let lookup = transforms
            .filter(|_| pipeline.densifies())
            .map(|transforms| transforms.lookup(world_frame, header.frame_id, header.stamp));
        let (world_from_sensor, missing) = match lookup {
            Some(Ok(transform)) => (Some(transform), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let frame = LidarFrame {
            cloud: &cloud,
            stamp: header.stamp,
            world_from_sensor: world_from_sensor.as_ref(),
        };
        let processed = match pipeline.process(&frame) {
            Ok(processed) => processed,
            Err(error) => {
                self.drop_frame(&error);
                return Ok(());
            }
        };
        if let Some(error) = missing
            && self.report.add_degraded(&error) == 1
        {
            tracing::warn!("channel {}: sweep served alone: {error}", self.config.name);
        }
        let frame = self.report.frames_in();
        self.report.add_served(processed.report, processed.detections.len());
        let detections = processed.detections;
        outputs.write(self.output, &header, message.log_time, Detections::Lidar(detections))?;
        if let Some(pictures) = outputs.pictures(frame) {
            let caption = caption(&self.config, frame, &header);
            pictures.draw_lidar(&caption, &cloud, range, detections)?;
        }
        Ok(())
    }

    /// Counts a frame that is not served; the first of a reason is a warning.
    fn drop_frame(&mut self, error: &Error) {
        let name = &self.config.name;
        match self.report.add_dropped(error) {
            1 => tracing::warn!("channel {name}: frame dropped: {error}"),
            count => tracing::debug!("channel {name}: frame dropped ({count}): {error}"),
        }
    }

    /// Adds the channel's account to the report of the replay.
    pub(super) fn add_to(&self, report: &mut Report) {
        let engine = match &self.sensor {
            Sensor::Camera { pipeline, .. } => pipeline.engine_name(),
            Sensor::Lidar { pipeline, .. } => pipeline.engine_name(),
        };
        let ChannelConfig { name, input, output, .. } = &self.config;
        let device = self.device.to_string();
        report.add_channel(name, [input, output, &device, engine], &self.report);
    }
}

/// Lidar channels have no CUDA side yet: one that asks for a GPU is refused.
fn lidar_device(ChannelConfig { name, device, .. }: &ChannelConfig) -> Result<Device> {
    match device {
        DeviceChoice::Cpu => {}
        DeviceChoice::Auto => {
            tracing::info!("channel {name}: device auto: cpu, a lidar has no CUDA side yet");
        }
        DeviceChoice::Cuda(_) => {
            let message =
                format!("{name}.device: found {device}; a lidar has no CUDA side yet: cpu or auto");
            return Err(Error::new(ErrorKind::Device, "replay", message));
        }
    }
    Ok(Device::Cpu)
}

fn decode_picture(data: &[u8], compressed: bool) -> Result<(Header<'_>, ImagePayload<'_>)> {
    if compressed {
        let file = CompressedImage::decode(data)?;
        Ok((file.header, ImagePayload::Compressed(file.view()?)))
    } else {
        let image = Image::decode(data)?;
        Ok((image.header, ImagePayload::Raw(image.view()?)))
    }
}

fn caption<'a>(config: &'a ChannelConfig, frame: u64, header: &Header<'_>) -> Caption<'a> {
    let class_names = match &config.kind {
        ChannelKind::Camera(camera) => &camera.facts.class_names,
        ChannelKind::Lidar(lidar) => &lidar.facts.class_names,
    };
    Caption { channel: &config.name, frame, stamp: header.stamp, class_names }
}

fn wrong_type(config: &ChannelConfig, type_name: &str, sensor: &str, takes: &str) -> Error {
    let ChannelConfig { name, input, .. } = config;
    Error::new(
        ErrorKind::Config,
        "replay",
        format!("{name}.input: {input} carries {type_name}; {sensor} channel takes {takes}"),
    )
}
