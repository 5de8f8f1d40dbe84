//! The motion of a vehicle from its velocity or its odometry, in place of transforms.

use std::collections::VecDeque;
use std::time::Duration;

use nalgebra::{Isometry3, Translation3, UnitQuaternion, Vector3};

use super::checks::{check_name, error, isometry, strip};
use super::motion::{self, Motion, Sample, insert_sample};
use crate::messages::{MotionValues, VehicleMotion};
use det_post_types::{Result, Stamp};

/// Velocities further apart are not joined: the poses begin anew.
pub const MAX_VELOCITY_GAP: Duration = Duration::from_secs(1);

/// The poses of a moving frame.
#[derive(Clone, Debug)]
pub(super) struct Vehicle {
    /// The topic, which stands for the fixed frame.
    topic: String,
    moving_frame: String,
    motion: Motion,
    velocity: Option<Velocity>,
}

/// The newest velocity.
#[derive(Clone, Copy, Debug)]
struct Velocity {
    stamp: Stamp,
    linear: Vector3<f64>,
    angular: Vector3<f64>,
}

impl Vehicle {
    pub(super) fn new(topic: &str) -> Self {
        Self {
            topic: topic.to_owned(),
            moving_frame: String::new(),
            motion: Motion::Stamped(VecDeque::new()),
            velocity: None,
        }
    }

    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    pub(super) fn moving_frame(&self) -> &str {
        &self.moving_frame
    }

    /// The pose of the moving frame at `stamp`, or why it is unknown.
    pub(super) fn at(&self, stamp: Stamp) -> std::result::Result<Isometry3<f64>, String> {
        self.motion.at(stamp).ok_or_else(|| {
            format!("the motion on {:?} is known {}", self.topic, self.motion.interval())
        })
    }

    /// Adds a message and returns the number of poses that were dropped because of
    /// `max_samples`.
    ///
    /// A velocity moves the pose before it on by the mean of both velocities, for the time between
    /// them: the translation along the axes in the middle of the turn.
    pub(super) fn insert(
        &mut self,
        message: &VehicleMotion<'_>,
        (window, max_samples): (Duration, usize),
    ) -> Result<u64> {
        let VehicleMotion { header, moving_frame, motion } = message;
        let moving_frame = strip(moving_frame);
        check_name(moving_frame)?;
        let Self { topic, moving_frame: known, .. } = &*self;
        if !known.is_empty() && known != moving_frame {
            let message =
                format!("the motion on {topic:?} is of {known:?}, not of {moving_frame:?}");
            return Err(error(message));
        }
        let pose = match *motion {
            MotionValues::Pose { position, orientation } => isometry(position, orientation)?,
            MotionValues::Velocity { linear, angular } => {
                if !linear.iter().chain(&angular).all(|value| value.is_finite()) {
                    return Err(error(format!(
                        "velocities {linear:?} and {angular:?} must be finite"
                    )));
                }
                let [linear, angular] = [linear, angular].map(Vector3::from);
                let Some(pose) = self.moved_by(Velocity { stamp: header.stamp, linear, angular })
                else {
                    return Ok(0);
                };
                pose
            }
        };
        moving_frame.clone_into(&mut self.moving_frame);
        let Motion::Stamped(samples) = &mut self.motion else { return Ok(0) };
        let sample = Sample { stamp: header.stamp, parent_from_child: pose, forgotten: None };
        Ok(insert_sample(samples, sample, window, max_samples))
    }

    /// The pose at a velocity's stamp; `None` for one that is not newer than the last within the gap.
    fn moved_by(&mut self, now: Velocity) -> Option<Isometry3<f64>> {
        let Motion::Stamped(samples) = &mut self.motion else { return None };
        let before = self.velocity.zip(samples.back().copied());
        let gap = MAX_VELOCITY_GAP.as_nanos() as i128;
        let since = |earlier: Stamp| i128::from(now.stamp.nanos()) - i128::from(earlier.nanos());
        let pose = match before {
            Some((velocity, _)) if (-gap..=0).contains(&since(velocity.stamp)) => return None,
            Some((velocity, pose)) if (0..=gap).contains(&since(velocity.stamp)) => {
                let seconds = since(velocity.stamp) as f64 * 1e-9;
                let linear = (velocity.linear + now.linear) * (0.5 * seconds);
                let angular = (velocity.angular + now.angular) * (0.5 * seconds);
                let middle = UnitQuaternion::from_scaled_axis(0.5 * angular);
                let step = Isometry3::from_parts(
                    Translation3::from(middle * linear),
                    UnitQuaternion::from_scaled_axis(angular),
                );
                let mut moved = pose.parent_from_child * step;
                moved.rotation.renormalize();
                moved
            }
            _ => {
                samples.clear();
                Isometry3::identity()
            }
        };
        self.velocity = Some(now);
        Some(pose)
    }

    /// Removes the poses later than `stamp`.
    pub(super) fn forget_after(&mut self, stamp: Stamp) {
        if let Motion::Stamped(samples) = &mut self.motion {
            motion::forget_after(samples, stamp);
        }
        self.velocity.take_if(|velocity| velocity.stamp > stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::super::TfBuffer;
    use super::*;
    use det_post_types::Header;
    use nalgebra::Point3;

    fn at(time_s: f64) -> Stamp {
        Stamp::from_nanos(5_000_000_000 + (time_s * 1e9).round() as i64)
    }

    fn velocity(time_s: f64, linear: [f64; 3], angular: [f64; 3]) -> VehicleMotion<'static> {
        let header = Header { stamp: at(time_s), frame_id: "base_link" };
        let motion = MotionValues::Velocity { linear, angular };
        VehicleMotion { header, moving_frame: "base_link", motion }
    }

    fn pose(time_s: f64, x: f64) -> VehicleMotion<'static> {
        let header = Header { stamp: at(time_s), frame_id: "odom" };
        let orientation = [0.0, 0.0, 0.0, 1.0];
        let motion = MotionValues::Pose { position: [x, 0.0, 0.0], orientation };
        VehicleMotion { header, moving_frame: "base_link", motion }
    }

    /// A circle at 30 m/s and 1 rad/s, velocities 50 times a second, the sensor on a mount.
    #[test]
    fn velocities_add_up_to_the_circle_that_they_describe() {
        let mut buffer = TfBuffer::default();
        let mount = Isometry3::translation(1.5, 0.25, 2.0);
        buffer.insert("base_link", "lidar", Stamp::default(), mount, true).unwrap();
        buffer.insert("map", "base_link", at(0.0), Isometry3::identity(), false).unwrap();
        for step in 0..=100 {
            let message = velocity(f64::from(step) * 0.02, [30.0, 0.0, 0.0], [0.0, 0.0, 1.0]);
            buffer.insert_motion("/twist", &message).unwrap();
        }
        let on_circle = |time: f64| {
            let turn = UnitQuaternion::from_axis_angle(&Vector3::z_axis(), time);
            let at = Translation3::new(30.0 * time.sin(), 30.0 * (1.0 - time.cos()), 0.0);
            Isometry3::from_parts(at, turn) * mount
        };
        let lookup = |time: f64| buffer.lookup("/twist", "lidar", at(time)).unwrap();
        for (from, to) in [(0.0, 2.0), (0.5, 0.6), (1.94, 2.0)] {
            let found = lookup(from).inv_mul(&lookup(to));
            let expected = on_circle(from).inv_mul(&on_circle(to));
            let far = Point3::new(60.0, -20.0, 1.0);
            assert!((found * far - expected * far).norm() < 2e-3, "{from} to {to}");
        }
        // Between two velocities on the straight line.
        assert!(
            (lookup(0.51).translation.vector - on_circle(0.51).translation.vector).norm() < 3e-3
        );
        assert!(buffer.lookup("/twist", "lidar", at(2.01)).is_err());
    }

    #[test]
    fn odometry_is_interpolated_and_velocities_begin_anew_after_a_gap() {
        let mut buffer = TfBuffer::default();
        for (time, x) in [(0.0, 0.0), (0.1, 3.0)] {
            buffer.insert_motion("/odom", &pose(time, x)).unwrap();
        }
        let found = buffer.lookup("/odom", "base_link", at(0.05)).unwrap();
        assert!((found.translation.x - 1.5).abs() < 1e-12);

        let forward = |time| velocity(time, [10.0, 0.0, 0.0], [0.0; 3]);
        for time in [0.0, 0.5, 0.5, 0.4, 2.0, 2.5] {
            buffer.insert_motion("/twist", &forward(time)).unwrap();
        }
        let error = buffer.lookup("/twist", "base_link", at(1.0)).unwrap_err().to_string();
        assert!(error.contains("the motion on \"/twist\" is known from 7.0"), "{error}");
        let found = buffer.lookup("/twist", "base_link", at(2.5)).unwrap();
        assert!((found.translation.x - 5.0).abs() < 1e-9);
        // The clock starts over.
        buffer.forget_after(at(2.2));
        assert!(buffer.lookup("/twist", "base_link", at(2.5)).is_err());
        buffer.insert_motion("/twist", &forward(-9.0)).unwrap();
        buffer.insert_motion("/twist", &forward(-8.9)).unwrap();
        assert!(buffer.lookup("/twist", "base_link", at(-8.95)).is_ok());
    }

    #[test]
    fn what_is_no_motion_is_refused() {
        let mut buffer = TfBuffer::default();
        let refused = |buffer: &mut TfBuffer, message: &VehicleMotion<'_>, part: &str| {
            let error = buffer.insert_motion("/m", message).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(&mut buffer, &velocity(0.0, [f64::NAN, 0.0, 0.0], [0.0; 3]), "must be finite");
        let nameless = VehicleMotion { moving_frame: "", ..velocity(0.0, [0.0; 3], [0.0; 3]) };
        refused(&mut buffer, &nameless, "empty name");
        let orientation = [0.0; 4];
        let motion = MotionValues::Pose { position: [0.0; 3], orientation };
        refused(&mut buffer, &VehicleMotion { motion, ..pose(0.0, 0.0) }, "squared norm 0");
        buffer.insert_motion("/m", &pose(0.0, 0.0)).unwrap();
        let other = VehicleMotion { moving_frame: "imu", ..pose(0.1, 0.0) };
        refused(&mut buffer, &other, "is of \"base_link\", not of \"imu\"");
        let error = buffer.lookup("/other", "base_link", at(0.0)).unwrap_err().to_string();
        assert!(error.contains("not known"), "{error}");
        let error = buffer.lookup("/m", "lidar", at(0.0)).unwrap_err().to_string();
        assert!(error.contains("\"lidar\""), "{error}");
    }
}
