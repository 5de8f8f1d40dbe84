//! Merges past sweeps with the current one, in the frame of the current one.
//!
//! Order: the points of the current sweep, then past sweeps from the newest to the
//! oldest, each in its own order. Points beyond the capacity of the output, the oldest
//! ones, are dropped and counted.
//!
//! Transforms are values: a sweep is pushed with the pose of its sensor in a world
//! frame. A sweep whose pose is unknown is not pushed, and no other pose is assumed.
//! The transform from a past sensor pose to the current one is computed in f64 and
//! rounded to a 3x4 matrix of f32; a point becomes `((r0 * x + r1 * y) + r2 * z) + t`
//! in f32, without fused operations. CPU and CUDA are equal. Points that become
//! infinite are dropped and counted.
//!
//! The age of a sweep, `stamp - sweep stamp` in seconds, may be written to a channel
//! (the time lag of CenterPoint); it is 0 for the current sweep. Sweeps with a
//! negative age (the clock jumped back) and those older than a limit are not merged.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

use nalgebra::{Isometry3, Matrix3x4};

use det_post_types::{Error, ErrorKind, Points, Result, Stamp};

/// The newest sweeps, each with the pose of its sensor: a ring buffer, in which a new
/// sweep replaces the oldest. All memory is allocated at construction.
#[derive(Clone, Debug)]
pub struct Sweeps {
    /// The newest is at `newest`, older ones precede it.
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
    /// of `num_channels` channels. With zero past sweeps it stays empty.
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

    /// Copies a sweep into the buffer, replacing the oldest if it is full. Returns the
    /// number of points beyond `point_capacity`, the last ones, which are dropped.
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

    /// Removes all sweeps; keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Number of sweeps.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no sweeps.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The maximum number of sweeps.
    pub fn capacity(&self) -> usize {
        self.ring.len()
    }

    /// The sweeps, the newest first.
    fn newest_first(&self) -> impl Iterator<Item = &Sweep> {
        let num = self.ring.len();
        (0..self.len).map(move |back| &self.ring[(self.newest + num - back) % num])
    }
}

/// Sweeps that were merged, sweeps and points that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DensifyCounts {
    /// Past sweeps merged, at least in part.
    pub num_sweeps: usize,
    /// Past sweeps dropped: of a negative age, too old, or with a transform that is not
    /// finite.
    pub num_sweeps_dropped: usize,
    /// Points of the current and of merged sweeps beyond the capacity of the output.
    pub num_points_over_capacity: usize,
    /// Past points whose position in the current frame is not finite.
    pub num_points_not_finite: usize,
}

/// Replaces the contents of `out` by the current points and the past sweeps in
/// the current frame.
///
/// `stamp` and `world_from_sensor` are those of the current points. A sweep is merged
/// if its age is from 0 to `max_age_s` seconds. `time_lag_channel` is the channel, 3 or
/// higher, that the age is written to.
///
/// # Errors
/// `Argument` when the numbers of channels differ, `time_lag_channel` is not a channel
/// after x, y, z, or `world_from_sensor` is not finite.
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
            "points of {num_channels} channels and past ones of {other:?} do not fit {}",
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
        Some(channel) if !(3..num_channels).contains(&channel) => argument(format!(
            "the time lag has channel {channel}; 3 to {} are allowed",
            num_channels.saturating_sub(1)
        )),
        _ => Ok(()),
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "densify", message))
}

/// Time and pose of the current sweep.
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

    /// The transform from a past sweep's frame to the current one and the sweep's age in
    /// seconds; `None` for a sweep that is not merged.
    fn transform_and_age(
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
