//! From the clouds of a frame to the merged points.

use nalgebra::Isometry3;

use crate::config::{CloudsConfig, LidarConfig};
use crate::detectors::frame_stream::{FrameInProgress, capacity_for};
use crate::detectors::lidar::placing;
use crate::detectors::{FrameSet, Payload, lidar};
use det_post_ops::cloud::densify::cuda::{DeviceSweeps, Joining, Workspace as Densify};
use det_post_ops::cloud::unpack::UnpackParams;
use det_post_ops::cloud::unpack::cuda::{CloudCounts, Part, Workspace as Unpack};
use det_post_ops::cloud::{DeviceCloud, DevicePoints, num_bytes};
use det_post_ops::device::cuda::Stream;
use det_post_ops::shared::DeviceCounters;
use det_post_types::{
    CloudView, Count, DeviceBytes, Error, ErrorKind, FrameReport, PointFields, Result, Stage,
    Stamp, Transfer,
};

/// The smallest memory for clouds; larger ones are powers of two.
const MIN_CLOUD_BYTES: usize = 1 << 20;
const MIN_CLOUD_POINTS: usize = 1 << 16;

/// The cloud of a frame, in the memory of the host or of the GPU.
#[derive(Clone, Copy)]
pub(super) enum AnyCloud<'a> {
    Host(&'a CloudView<'a>),
    Device(&'a CloudView<'a, DeviceBytes<'a>>),
}

impl<'a> AnyCloud<'a> {
    /// The cloud of the input of a frame.
    pub(super) fn of(frame: &FrameSet<'a>, input: usize) -> Result<Self> {
        match frame.input(input)?.payload {
            Payload::CloudOnDevice(cloud) => Ok(Self::Device(cloud)),
            _ => frame.cloud(input).map(Self::Host),
        }
    }

    fn fields(&self) -> &PointFields<'a> {
        match self {
            Self::Host(cloud) => cloud.fields(),
            Self::Device(cloud) => cloud.fields(),
        }
    }
}

/// The clouds of a frame, and the operation that unpacks them.
pub(super) struct Clouds {
    uploads: Stream,
    /// By input.
    clouds: Vec<DeviceCloud>,
    /// By input, where there are several.
    counts: Option<CloudCounts>,
    /// The inputs of the frame, each with its points if none has a time.
    present: Vec<(usize, usize)>,
    unpack: Unpack,
    params: UnpackParams,
    config: CloudsConfig,
}

impl Clouds {
    /// Unpacks on `stream` what is uploaded in the queue `uploads`.
    pub(super) fn new(config: &LidarConfig, stream: &Stream, uploads: &Stream) -> Result<Self> {
        let num_inputs = config.clouds.num_inputs;
        let counts = (num_inputs > 1).then(|| CloudCounts::new(stream, num_inputs));
        let cloud = |_| DeviceCloud::with_capacity(uploads, MIN_CLOUD_BYTES);
        Ok(Self {
            uploads: uploads.clone(),
            clouds: (0..num_inputs).map(cloud).collect::<Result<_>>()?,
            counts: counts.transpose()?,
            present: Vec::with_capacity(num_inputs),
            unpack: Unpack::new(stream, MIN_CLOUD_POINTS)?,
            params: lidar::unpack_params(config),
            config: config.clouds.clone(),
        })
    }

    /// Where the clouds come from and go.
    pub(super) fn config(&self) -> &CloudsConfig {
        &self.config
    }

    /// Uploads the clouds, in place or through one copy into page-locked memory, or copies them on
    /// the GPU. Allocates for a cloud that is larger than all before.
    pub(super) fn upload<'env>(
        &mut self,
        frame: &FrameSet<'env>,
        running: &mut FrameInProgress<'_, 'env>,
    ) -> Result<()> {
        self.present.clear();
        let mut num_points = 0;
        for index in placing::present(frame)? {
            let num = placing::num_without_time(frame, index, &self.config);
            self.present.push((index, num));
            let (num_bytes, num) = match AnyCloud::of(frame, index)? {
                AnyCloud::Host(cloud) => (num_bytes(cloud), cloud.num_points()),
                AnyCloud::Device(cloud) => (num_bytes(cloud), cloud.num_points()),
            };
            self.reserve(index, num_bytes)?;
            num_points += num;
        }
        if num_points > self.unpack.max_points() {
            self.unpack.reserve(capacity_for(num_points))?;
        }
        let Self { clouds, present, .. } = self;
        running.upload_by(|scope, report| {
            for &(index, _) in &*present {
                let on_device = clouds.get_mut(index).ok_or_else(|| no_input(index))?;
                match AnyCloud::of(frame, index)? {
                    AnyCloud::Host(cloud) => {
                        let moved = on_device.enqueue_payload(cloud, scope)?;
                        report.add_bytes(Stage::Upload, Transfer::HostCopy, moved.num_copied);
                        report.add_bytes(Stage::Upload, Transfer::Upload, moved.num_uploaded);
                    }
                    AnyCloud::Device(cloud) => on_device.enqueue_copy(cloud, scope)?,
                }
            }
            Ok(())
        })
    }

    fn reserve(&mut self, index: usize, num_bytes: usize) -> Result<()> {
        let cloud = self.clouds.get_mut(index).ok_or_else(|| no_input(index))?;
        if num_bytes > cloud.capacity() {
            *cloud = DeviceCloud::with_capacity(&self.uploads, capacity_for(num_bytes))?;
        }
        Ok(())
    }

    /// Queues the unpacking of the uploaded clouds.
    pub(super) fn enqueue_unpack(
        &mut self,
        frame: &FrameSet<'_>,
        points: &mut DevicePoints,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let Self { clouds, counts, present, unpack, params, config, .. } = self;
        let mut batch = unpack.batch(params, points, counters, counts.as_mut())?;
        for &(index, _) in &*present {
            let cloud = AnyCloud::of(frame, index)?;
            let placement = &placing::placement(frame, index, config)?;
            let on_device = clouds.get(index).ok_or_else(|| no_input(index))?;
            let part = Part { cloud: on_device, fields: cloud.fields(), placement, index };
            batch.add(&part).map_err(|error| placing::of_input(frame, index, error))?;
        }
        batch.enqueue()
    }

    /// Adds the points of each of several clouds to the report, and those of clouds without
    /// times; the caller has waited for the frame.
    pub(super) fn add_to(&self, report: &mut FrameReport) {
        for &(index, num_without_time) in &self.present {
            report.add_count(Count::PointsWithoutTime, num_without_time);
            if let Some(counts) = &self.counts {
                let mut counts = counts.read(index);
                counts.num_without_time += num_without_time;
                report.set_cloud(index, counts);
            }
        }
    }
}

fn no_input(index: usize) -> Error {
    Error::new(ErrorKind::Argument, "lidar", format!("there is no input {index}"))
}

/// The merged points of a frame.
pub(super) struct MergedPoints {
    /// The points of the current sweep and of past ones.
    pub(super) merged: DevicePoints,
    past: Option<Past>,
}

/// Past sweeps, and the operation that merges them.
struct Past {
    sweeps: DeviceSweeps,
    densify: Densify,
    max_age_s: f64,
}

impl MergedPoints {
    pub(super) fn new(config: &LidarConfig, stream: &Stream) -> Result<Self> {
        let num_channels = config.facts.num_point_channels();
        let num_past = config.densification.num_past_sweeps;
        let mut past = None;
        if num_past > 0 {
            let sweeps = DeviceSweeps::new(stream, num_past, num_channels, config.point_capacity)?;
            let time_lag_channel = lidar::time_lag_channel(&config.facts);
            past = Some(Past {
                densify: Densify::new(stream, &sweeps, time_lag_channel)?,
                sweeps,
                max_age_s: f64::from(config.densification.max_sweep_age_s),
            });
        }
        let merged = DevicePoints::with_capacity(stream, num_channels, config.point_capacity)?;
        Ok(Self { merged, past })
    }

    /// Applies the parameters that may change between frames.
    pub(super) fn reconfigure(&mut self, config: &LidarConfig) {
        if let Some(past) = &mut self.past {
            past.max_age_s = f64::from(config.densification.max_sweep_age_s);
        }
    }

    /// Discards past sweeps.
    pub(super) fn clear_past(&mut self) {
        if let Some(past) = &mut self.past {
            past.sweeps.clear();
        }
    }

    /// The memory into which the current sweep is unpacked.
    pub(super) fn current_mut(&mut self) -> &mut DevicePoints {
        match &mut self.past {
            Some(past) => past.sweeps.current_mut(),
            None => &mut self.merged,
        }
    }

    /// Queues the merging of past sweeps, none without a pose, and keeps the current one for
    /// the next frames.
    pub(super) fn merge(
        &mut self,
        stamp: Stamp,
        world_from_sensor: Option<&Isometry3<f64>>,
        running: &mut FrameInProgress<'_, '_>,
    ) -> Result<()> {
        let Some(Past { sweeps, densify, max_age_s }) = &mut self.past else { return Ok(()) };
        let joining = Joining { stamp, world_from_sensor, max_age_s: *max_age_s };
        let counts = densify.enqueue(sweeps, &joining, &mut self.merged, running.counters)?;
        running.report.add_count(Count::SweepsDropped, counts.num_sweeps_dropped);
        if let Some(world_from_sensor) = world_from_sensor {
            sweeps.push(stamp, world_from_sensor);
        }
        Ok(())
    }
}
