//! The motion of a sensor, or of the frame that it is mounted to, around the stamp of a message.

use nalgebra::Isometry3;

use det_post_ops::cloud::unpack::placement::NUM_KNOTS;
use det_post_types::{PointTimes, TimeField};

/// What a detector needs to know of the motion of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MotionNeeds {
    /// The fixed frame of reference.
    pub fixed_frame: String,
    /// The frame that moves, to which the sensor is mounted; `None`: the sensor's.
    pub moving_frame: Option<String>,
    /// How the times of the points of a cloud are found, if their motion is needed; `None` for the
    /// stamp only.
    pub point_times: Option<PointTimes>,
}

/// The motion of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Motion {
    /// The transform from the moving frame to the fixed one at the stamp of the message.
    pub pose: Isometry3<f64>,
    /// The same while the points of the cloud were measured; `None` if it is not needed, or the
    /// cloud has no usable times.
    pub sweep: Option<SweepPoses>,
}

/// The transform from the moving frame to the fixed one at times at equal distances.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoses {
    /// The times of the points.
    pub times: TimeField,
    /// The first time, in seconds from the stamp.
    pub first_s: f32,
    /// From one time to the next, in seconds; 0 if all are one.
    pub step_s: f32,
    /// The transforms.
    pub poses: [Isometry3<f64>; NUM_KNOTS],
}
