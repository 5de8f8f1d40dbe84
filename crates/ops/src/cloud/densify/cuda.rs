//! The CUDA implementation of [`densify`](super::densify): the same points in the
//! same order, bit for bit, and the same counts.
//!
//! Past sweeps are kept on the device, in a ring buffer with one more element: the
//! current sweep is unpacked into it, so that keeping it needs no copy.
//! Transforms and ages are parameters of the launch.

use nalgebra::{Isometry3, Matrix3x4};

use super::kernels::{Densify, DensifyArgs, MAX_SWEEPS, SweepArgs, THREADS_PER_BLOCK};
use super::{Now, argument, check_time_lag};
use crate::cloud::DevicePoints;
use crate::device::cuda::{DeviceBuffer, Grid, Kernel, Stream, blocks};
use crate::shared::DeviceCounters;
use det_post_types::{Result, Stamp};

/// The current sweep and the most recent past ones, each with its sensor's pose.
/// All memory is allocated at construction.
#[derive(Debug)]
pub struct DeviceSweeps {
    ring: Vec<Sweep>,
    /// The current sweep; the newest past one precedes it.
    current: usize,
    len: usize,
    num_channels: usize,
    point_capacity: usize,
}

#[derive(Debug)]
struct Sweep {
    points: DevicePoints,
    stamp: Stamp,
    world_from_sensor: Isometry3<f64>,
}

impl DeviceSweeps {
    /// No past sweeps, with memory for `num_past_sweeps` and the current one, of
    /// `point_capacity` points of `num_channels` channels.
    ///
    /// # Errors
    /// `Argument` when there are more sweeps than `MAX_SWEEPS`; `Device` when
    /// there is not enough memory.
    pub fn new(
        stream: &Stream,
        num_past_sweeps: usize,
        num_channels: usize,
        point_capacity: usize,
    ) -> Result<Self> {
        if num_past_sweeps >= MAX_SWEEPS {
            return argument(format!(
                "{num_past_sweeps} past sweeps exceed the limit of {}",
                MAX_SWEEPS - 1
            ));
        }
        let empty = || {
            Ok(Sweep {
                points: DevicePoints::with_capacity(stream, num_channels, point_capacity)?,
                stamp: Stamp::default(),
                world_from_sensor: Isometry3::identity(),
            })
        };
        let ring = (0..=num_past_sweeps).map(|_| empty()).collect::<Result<_>>()?;
        Ok(Self { ring, current: 0, len: 0, num_channels, point_capacity })
    }

    /// The memory of the current sweep, to be written.
    pub fn current_mut(&mut self) -> &mut DevicePoints {
        &mut self.ring[self.current].points
    }

    /// Keeps the current sweep as the newest past one and discards the oldest one if
    /// the ring is full.
    pub fn push(&mut self, stamp: Stamp, world_from_sensor: &Isometry3<f64>) {
        let sweep = &mut self.ring[self.current];
        sweep.stamp = stamp;
        sweep.world_from_sensor = *world_from_sensor;
        self.current = (self.current + 1) % self.ring.len();
        self.len = (self.len + 1).min(self.ring.len() - 1);
    }

    /// Discards all past sweeps; keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Number of past sweeps.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no past sweeps.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The past sweeps, the newest first.
    fn newest_first(&self) -> impl Iterator<Item = &Sweep> {
        let num = self.ring.len();
        (1..=self.len).map(move |back| &self.ring[(self.current + num - back) % num])
    }
}

impl Sweep {
    /// Its points without a transform.
    fn args(&self, stream: &Stream) -> Result<SweepArgs<'_>> {
        Ok(SweepArgs {
            values: self.points.values.input(stream)?,
            num: self.points.num.input(stream)?,
            rows: [[0.0; 4]; 3],
            age_s: 0.0,
            is_current: 1,
        })
    }
}

/// Time and pose of the current sweep, and the maximum age of merged ones.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// Acquisition time.
    pub stamp: Stamp,
    /// Pose of the sensor. Without it no past sweep is merged.
    pub world_from_sensor: Option<&'a Isometry3<f64>>,
    /// The maximum age of a merged sweep in seconds.
    pub max_age_s: f64,
}

/// The number of past sweeps that were merged and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepCounts {
    /// Merged, at least in part.
    pub num_sweeps: usize,
    /// Dropped, as on the CPU; all of them without a pose.
    pub num_sweeps_dropped: usize,
}

/// Kernel and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    kernel: Kernel<Densify>,
    time_lag_channel: Option<usize>,
    ticket: DeviceBuffer<u64>,
    aggregates: DeviceBuffer<u64>,
}

impl Workspace {
    /// Loads the kernel and allocates memory to merge `sweeps`. `time_lag_channel` is
    /// the channel, 3 or more, that is set to the age.
    ///
    /// # Errors
    /// `Argument` when the channel is not one after x, y, z; `Device` when this
    /// build has no such kernel or there is not enough memory.
    pub fn new(
        stream: &Stream,
        sweeps: &DeviceSweeps,
        time_lag_channel: Option<usize>,
    ) -> Result<Self> {
        check_time_lag(time_lag_channel, sweeps.num_channels)?;
        let num_tiles = blocks(sweeps.point_capacity, THREADS_PER_BLOCK).max(1) as usize;
        Ok(Self {
            stream: stream.clone(),
            kernel: stream.device().kernel()?,
            time_lag_channel,
            ticket: DeviceBuffer::zeros(stream, 1)?,
            aggregates: DeviceBuffer::zeros(stream, num_tiles.saturating_mul(sweeps.ring.len()))?,
        })
    }

    /// Queues the merging of the current sweep and the past ones into `out`. Dropped
    /// points are added to `counters`; the number of dropped sweeps is returned.
    ///
    /// # Errors
    /// `Argument` when `out` has other channels, the sweeps are not those the
    /// workspace was made for, or the current pose is not finite; `Device` when
    /// a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        sweeps: &DeviceSweeps,
        joining: &Joining<'_>,
        out: &mut DevicePoints,
        counters: &mut DeviceCounters,
    ) -> Result<SweepCounts> {
        let (num_channels, capacity) = (out.num_channels(), out.capacity());
        if num_channels != sweeps.num_channels {
            let expected = sweeps.num_channels;
            return argument(format!(
                "sweeps have {expected} channels, the result has {num_channels}"
            ));
        }
        let stream = &self.stream;
        let current = sweeps.ring[sweeps.current].args(stream)?;
        let mut joined = [current; MAX_SWEEPS];
        let mut counts = SweepCounts { num_sweeps: 0, num_sweeps_dropped: sweeps.len };
        if let Some(world_from_sensor) = joining.world_from_sensor {
            let now = Now::new(joining.stamp, world_from_sensor, joining.max_age_s)?;
            for sweep in sweeps.newest_first() {
                let past = now.transform_and_age(sweep.stamp, &sweep.world_from_sensor);
                let Some((matrix, age_s)) = past else { continue };
                counts.num_sweeps += 1;
                counts.num_sweeps_dropped -= 1;
                joined[counts.num_sweeps] =
                    SweepArgs { rows: rows(&matrix), age_s, is_current: 0, ..sweep.args(stream)? };
            }
        }
        let args = DensifyArgs {
            points: out.values.output(stream)?,
            num: out.num.output(stream)?,
            counters: counters.output(stream)?,
            ticket: self.ticket.output(stream)?,
            aggregates: self.aggregates.output(stream)?,
            num_channels: num_channels as u32,
            time_lag_channel: self.time_lag_channel.unwrap_or(num_channels) as u32,
            sweep_capacity: u32::try_from(sweeps.point_capacity).unwrap_or(u32::MAX),
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            num_sweeps: 1 + counts.num_sweeps as u32,
            reserved: 0,
            sweeps: joined,
        };
        // At least one block, which writes the number of points; at most as many as
        // are resident.
        let num_tiles = blocks(sweeps.point_capacity, THREADS_PER_BLOCK).max(1);
        let num_tiles = num_tiles.saturating_mul(args.num_sweeps);
        let num_blocks = [num_tiles.min(stream.device().resident_blocks(THREADS_PER_BLOCK)), 1];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        self.kernel.enqueue(stream, grid, args)?;
        Ok(counts)
    }
}

fn rows(matrix: &Matrix3x4<f32>) -> [[f32; 4]; 3] {
    std::array::from_fn(|row| std::array::from_fn(|column| matrix[(row, column)]))
}
