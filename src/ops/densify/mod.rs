//! Densify: past sweeps join the current one, in the current one's frame.
//!
//! Order: the points of the current sweep, then past sweeps, the last pushed
//! first, each in its own order. When the output is full the rest is dropped,
//! so the oldest points go first; what is lost is counted.
//!
//! Transforms are values: whoever pushes a sweep says where the sensor stood
//! in a world frame. A sweep whose place is not known is not pushed; nothing
//! stands in for it. The transform from a past sensor pose to the current one
//! is made in f64 and rounded to a 3x4 matrix of f32; a point becomes
//! `((r0 * x + r1 * y) + r2 * z) + t` in f32, with nothing fused. CPU and CUDA
//! are equal. Points that become infinite are dropped and counted.
//!
//! The age of a sweep, `stamp - sweep stamp` in seconds, may be written to a
//! channel (the time lag of CenterPoint); it is 0 for the current sweep. Sweeps
//! from the future (the clock jumped back) and those older than a limit are
//! left out.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(in crate::ops) mod kernels;

use nalgebra::{Isometry3, Matrix3x4};

use crate::error::{Error, ErrorKind, Result};
use crate::types::{Points, Stamp};

/// The last few sweeps, each with the pose of its sensor. Bounded: a new one
/// replaces the oldest. All memory is taken at construction.
#[derive(Clone, Debug)]
pub struct Sweeps {
    /// A ring: the newest is at `newest`, older ones before it.
    ring: Vec<Sweep>,
    newest: usize,
    len: usize,
}

#[derive(Clone, Debug)]
struct Sweep {
    points: Points,
    stamp: Stamp,
    world_from_sensor: Isometry3<f64>,
}

impl Sweeps {
    /// No sweeps, with memory for `num_past_sweeps` of `point_capacity` points
    /// of `num_channels` channels. With zero past sweeps nothing is ever held.
    ///
    /// # Panics
    /// When there are fewer than three channels.
    pub fn new(num_past_sweeps: usize, num_channels: usize, point_capacity: usize) -> Self {
        let empty = || Sweep {
            points: Points::with_capacity(num_channels, point_capacity),
            stamp: Stamp::default(),
            world_from_sensor: Isometry3::identity(),
        };
        Self { ring: (0..num_past_sweeps).map(|_| empty()).collect(), newest: 0, len: 0 }
    }

    /// Takes a copy of a sweep, in place of the oldest where there is no room
    /// for one more. Returns how many of its points, the last ones, were over
    /// `point_capacity`.
    ///
    /// # Panics
    /// When the points have another number of channels.
    pub fn push(
        &mut self,
        points: &Points,
        stamp: Stamp,
        world_from_sensor: &Isometry3<f64>,
    ) -> usize {
        if self.ring.is_empty() {
            return 0;
        }
        self.newest = (self.newest + 1) % self.ring.len();
        self.len = (self.len + 1).min(self.ring.len());
        let sweep = &mut self.ring[self.newest];
        sweep.stamp = stamp;
        sweep.world_from_sensor = *world_from_sensor;
        sweep.points.clear();
        sweep.points.extend_from(points)
    }

    /// Forgets all sweeps; keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Number of sweeps held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no sweep is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most sweeps that can be held.
    pub fn capacity(&self) -> usize {
        self.ring.len()
    }

    /// The sweeps, the last pushed first.
    fn newest_first(&self) -> impl Iterator<Item = &Sweep> {
        let num = self.ring.len();
        (0..self.len).map(move |back| &self.ring[(self.newest + num - back) % num])
    }
}

/// What became of the past sweeps and the points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DensifyCounts {
    /// Past sweeps that were used, in part at least.
    pub num_sweeps: usize,
    /// Past sweeps left out: from the future, too old, or placed by a
    /// transform that is not finite.
    pub num_sweeps_dropped: usize,
    /// Points of the current and of used sweeps that found the output full.
    pub num_points_over_capacity: usize,
    /// Past points whose place in the current frame is not finite.
    pub num_points_not_finite: usize,
}

/// Replaces the contents of `out` by the current points and the past sweeps in
/// the current frame.
///
/// `stamp` and `world_from_sensor` belong to the current points. A sweep is
/// used when its age is from 0 to `max_age_s` seconds. `time_lag_channel` is
/// the channel, 3 or more, that gets the age.
///
/// # Errors
/// `Argument` when the numbers of channels differ, `time_lag_channel` is not a
/// channel behind x, y, z, or `world_from_sensor` is not finite.
pub fn densify(
    current: &Points,
    stamp: Stamp,
    world_from_sensor: &Isometry3<f64>,
    sweeps: &Sweeps,
    time_lag_channel: Option<usize>,
    max_age_s: f64,
    out: &mut Points,
) -> Result<DensifyCounts> {
    let num_channels = current.num_channels();
    let other = sweeps.ring.iter().map(|sweep| sweep.points.num_channels()).next();
    if out.num_channels() != num_channels || other.is_some_and(|other| other != num_channels) {
        return argument(format!(
            "points of {num_channels} channels, past ones of {other:?}, into {}",
            out.num_channels()
        ));
    }
    check_time_lag(time_lag_channel, num_channels)?;
    let now = Now::new(stamp, world_from_sensor, max_age_s)?;
    out.clear();
    Ok(cpu::densify(current, &now, time_lag_channel, sweeps, out))
}

fn check_time_lag(time_lag_channel: Option<usize>, num_channels: usize) -> Result<()> {
    match time_lag_channel {
        Some(channel) if !(3..num_channels).contains(&channel) => {
            argument(format!("time lag in channel {channel} of 3 to {num_channels}"))
        }
        _ => Ok(()),
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "densify", message))
}

/// When and where the current sweep was taken.
struct Now {
    stamp: Stamp,
    sensor_from_world: Isometry3<f64>,
    max_age_s: f64,
}

impl Now {
    fn new(stamp: Stamp, world_from_sensor: &Isometry3<f64>, max_age_s: f64) -> Result<Self> {
        if !world_from_sensor.to_homogeneous().iter().all(|value| value.is_finite()) {
            return argument(format!("pose of the current sweep is {world_from_sensor}"));
        }
        Ok(Self { stamp, sensor_from_world: world_from_sensor.inverse(), max_age_s })
    }

    /// The way from a past sweep's frame to the current one, and its age in
    /// seconds; `None` when it cannot be used.
    fn place(
        &self,
        stamp: Stamp,
        world_from_sensor: &Isometry3<f64>,
    ) -> Option<(Matrix3x4<f32>, f32)> {
        let age_s = self.stamp.seconds_since(stamp);
        let current_from_past = self.sensor_from_world * world_from_sensor;
        let matrix = current_from_past.to_homogeneous().fixed_rows::<3>(0).map(|v| v as f32);
        let is_usable =
            (0.0..=self.max_age_s).contains(&age_s) && matrix.iter().all(|v| v.is_finite());
        is_usable.then_some((matrix, age_s as f32))
    }
}

#[cfg(test)]
mod tests;
