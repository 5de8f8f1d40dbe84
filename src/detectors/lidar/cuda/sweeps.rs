//! From the cloud of a frame to the merged points.

use nalgebra::Isometry3;

use crate::config::LidarConfig;
use crate::detectors::frame_stream::{FrameInProgress, capacity_for};
use crate::detectors::{FrameSet, Payload, lidar};
use det_post_ops::cloud::densify::cuda::{DeviceSweeps, Joining, Workspace as Densify};
use det_post_ops::cloud::unpack::{UnpackParams, cuda::Workspace as Unpack};
use det_post_ops::cloud::{DeviceCloud, DevicePoints, num_bytes};
use det_post_ops::device::cuda::Stream;
use det_post_ops::shared::DeviceCounters;
use det_post_types::{CloudView, Count, DeviceBytes, PointFields, Result, Stamp};

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

/// The cloud of a frame, and the operation that unpacks it.
pub(super) struct Clouds {
    uploads: Stream,
    cloud: DeviceCloud,
    unpack: Unpack,
    params: UnpackParams,
}

impl Clouds {
    /// Unpacks on `stream` what is uploaded in the queue `uploads`.
    pub(super) fn new(config: &LidarConfig, stream: &Stream, uploads: &Stream) -> Result<Self> {
        Ok(Self {
            uploads: uploads.clone(),
            cloud: DeviceCloud::with_capacity(uploads, MIN_CLOUD_BYTES)?,
            unpack: Unpack::new(stream, MIN_CLOUD_POINTS)?,
            params: lidar::unpack_params(config),
        })
    }

    /// Uploads the cloud, in place or through one copy into page-locked memory, or copies it on
    /// the GPU. Allocates for a cloud that is larger than all before.
    pub(super) fn upload<'env>(
        &mut self,
        cloud: AnyCloud<'env>,
        frame: &mut FrameInProgress<'_, 'env>,
    ) -> Result<()> {
        match cloud {
            AnyCloud::Host(cloud) => {
                self.reserve(num_bytes(cloud), cloud.num_points())?;
                frame.upload(|scope| self.cloud.enqueue_payload(cloud, scope))
            }
            AnyCloud::Device(cloud) => {
                self.reserve(num_bytes(cloud), cloud.num_points())?;
                frame.upload_by(|scope, _| self.cloud.enqueue_copy(cloud, scope))
            }
        }
    }

    fn reserve(&mut self, num_bytes: usize, num_points: usize) -> Result<()> {
        if num_bytes > self.cloud.capacity() {
            self.cloud = DeviceCloud::with_capacity(&self.uploads, capacity_for(num_bytes))?;
        }
        if num_points > self.unpack.max_points() {
            self.unpack.reserve(capacity_for(num_points))?;
        }
        Ok(())
    }

    /// Queues the unpacking of the cloud.
    pub(super) fn enqueue_unpack(
        &mut self,
        cloud: AnyCloud<'_>,
        points: &mut DevicePoints,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        self.unpack.enqueue(&self.cloud, cloud.fields(), &self.params, points, counters)
    }
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
