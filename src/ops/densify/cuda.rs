//! The CUDA side of [`densify`](super::densify): the same points in the same
//! order, bit for bit, and the same counts.
//!
//! Past sweeps stay on the device, in a ring with one place more than there may
//! be: the current sweep is unpacked into it, so that keeping it costs no copy.
//! Transforms and ages go with the launch, as values.

use nalgebra::{Isometry3, Matrix3x4};

use super::kernels::{Densify, DensifyArgs, MAX_SWEEPS, SweepArgs, THREADS_PER_BLOCK};
use super::{Now, argument, check_time_lag};
use crate::device::cuda::{
    DeviceBuffer, DeviceCounters, DevicePoints, Grid, Kernel, Stream, blocks,
};
use crate::error::Result;
use crate::types::Stamp;

/// Threads that a large GPU runs side by side.
const MAX_THREADS: u32 = 132 * 2048;

/// The current sweep and the last few before it, each with the pose of its
/// sensor. All memory is taken at construction.
#[derive(Debug)]
pub struct DeviceSweeps {
    ring: Vec<Sweep>,
    /// The current sweep; the newest past one lies before it.
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
    /// `Argument` when there are more sweeps than [`MAX_SWEEPS`]; `Device` when
    /// there is not enough memory.
    pub fn new(
        stream: &Stream,
        num_past_sweeps: usize,
        num_channels: usize,
        point_capacity: usize,
    ) -> Result<Self> {
        if num_past_sweeps >= MAX_SWEEPS {
            return argument(format!("{num_past_sweeps} past sweeps; at most {}", MAX_SWEEPS - 1));
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

    /// Where the current sweep is to be written.
    pub fn current_mut(&mut self) -> &mut DevicePoints {
        &mut self.ring[self.current].points
    }

    /// Keeps the current sweep as the newest past one, in place of the oldest
    /// where there is no room for one more.
    pub fn push(&mut self, stamp: Stamp, world_from_sensor: &Isometry3<f64>) {
        let sweep = &mut self.ring[self.current];
        sweep.stamp = stamp;
        sweep.world_from_sensor = *world_from_sensor;
        self.current = (self.current + 1) % self.ring.len();
        self.len = (self.len + 1).min(self.ring.len() - 1);
    }

    /// Forgets all past sweeps; keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Number of past sweeps held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no past sweep is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The past sweeps, the last pushed first.
    fn newest_first(&self) -> impl Iterator<Item = &Sweep> {
        let num = self.ring.len();
        (1..=self.len).map(move |back| &self.ring[(self.current + num - back) % num])
    }
}

impl Sweep {
    /// Its points, where they are.
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

/// When and where the current sweep was taken, and which past ones may join.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// Acquisition time.
    pub stamp: Stamp,
    /// Pose of the sensor. Without it no past sweep joins.
    pub world_from_sensor: Option<&'a Isometry3<f64>>,
    /// Past sweeps are used at an age from 0 to this many seconds.
    pub max_age_s: f64,
}

/// What became of the past sweeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepCounts {
    /// Used, in part at least.
    pub num_sweeps: usize,
    /// Left out, as on the CPU, or all of them for want of a pose.
    pub num_sweeps_dropped: usize,
}

/// Kernel and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    kernel: Kernel<Densify>,
    time_lag_channel: Option<usize>,
    turns: DeviceBuffer<u64>,
    numbers: DeviceBuffer<u64>,
}

impl Workspace {
    /// Takes the kernel and memory to join `sweeps`. `time_lag_channel` is the
    /// channel, 3 or more, that gets the age.
    ///
    /// # Errors
    /// `Argument` when the channel is not one behind x, y, z; `Device` when this
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
            turns: DeviceBuffer::zeros(stream, 1)?,
            numbers: DeviceBuffer::zeros(stream, num_tiles.saturating_mul(sweeps.ring.len()))?,
        })
    }

    /// Queues the joining of the current sweep and the past ones into `out`.
    /// Points that are dropped go to `counters`, sweeps are returned.
    ///
    /// # Errors
    /// `Argument` when `out` has other channels, the sweeps are not those the
    /// workspace was made for, or the current pose is not finite; `Device` when
    /// a buffer is another stream's or the launch fails.
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
            return argument(format!("points of {expected} channels into {num_channels}"));
        }
        let stream = &self.stream;
        let current = sweeps.ring[sweeps.current].args(stream)?;
        let mut joined = [current; MAX_SWEEPS];
        let mut counts = SweepCounts { num_sweeps: 0, num_sweeps_dropped: sweeps.len };
        if let Some(world_from_sensor) = joining.world_from_sensor {
            let now = Now::new(joining.stamp, world_from_sensor, joining.max_age_s)?;
            for sweep in sweeps.newest_first() {
                let Some((matrix, age_s)) = now.place(sweep.stamp, &sweep.world_from_sensor) else {
                    continue;
                };
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
            turns: self.turns.output(stream)?,
            numbers: self.numbers.output(stream)?,
            num_channels: num_channels as u32,
            time_lag_channel: self.time_lag_channel.unwrap_or(num_channels) as u32,
            sweep_capacity: u32::try_from(sweeps.point_capacity).unwrap_or(u32::MAX),
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            num_sweeps: 1 + counts.num_sweeps as u32,
            reserved: 0,
            sweeps: joined,
        };
        // At least one block, which writes that there are no points; no more than
        // run side by side.
        let num_tiles = blocks(sweeps.point_capacity, THREADS_PER_BLOCK).max(1);
        let num_tiles = num_tiles.saturating_mul(args.num_sweeps);
        let num_blocks = [num_tiles.min(MAX_THREADS / THREADS_PER_BLOCK), 1];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        self.kernel.enqueue(stream, grid, args)?;
        Ok(counts)
    }
}

fn rows(matrix: &Matrix3x4<f32>) -> [[f32; 4]; 3] {
    std::array::from_fn(|row| std::array::from_fn(|column| matrix[(row, column)]))
}
