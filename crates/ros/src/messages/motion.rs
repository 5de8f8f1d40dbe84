//! Messages of a vehicle's motion: odometry, velocities, an IMU.

use super::field::{Field, message, record};
use crate::cdr::Reader;
use det_post_types::{Header, Result};

record! {
    /// `nav_msgs/Odometry` as in the message, unchecked.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Odometry<'a> {
        /// Stamp and the frame of the pose.
        pub header: Header<'a>,
        /// The frame that moves, of the velocities.
        pub child_frame_id: &'a str,
        /// Origin of the child: x, y, z in metres.
        pub position: [f64; 3],
        /// Its rotation as a quaternion x, y, z, w.
        pub orientation: [f64; 4],
        /// Of position and rotation about the axes, row by row.
        pub pose_covariance: [f64; 36],
        /// Metres a second.
        pub linear: [f64; 3],
        /// Radians a second.
        pub angular: [f64; 3],
        /// Of both, row by row.
        pub twist_covariance: [f64; 36],
    }
}

message!(Odometry<'a>: "nav_msgs/msg/Odometry");

record! {
    /// `geometry_msgs/TwistStamped` as in the message, unchecked.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct TwistStamped<'a> {
        /// Stamp and the frame that moves.
        pub header: Header<'a>,
        /// Metres a second.
        pub linear: [f64; 3],
        /// Radians a second.
        pub angular: [f64; 3],
    }
}

message!(TwistStamped<'a>: "geometry_msgs/msg/TwistStamped");

record! {
    /// `geometry_msgs/TwistWithCovarianceStamped` as in the message, unchecked.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct TwistWithCovarianceStamped<'a> {
        /// Stamp and the frame that moves.
        pub header: Header<'a>,
        /// Metres a second.
        pub linear: [f64; 3],
        /// Radians a second.
        pub angular: [f64; 3],
        /// Of both, row by row.
        pub covariance: [f64; 36],
    }
}

message!(TwistWithCovarianceStamped<'a>: "geometry_msgs/msg/TwistWithCovarianceStamped");

record! {
    /// `sensor_msgs/Imu` as in the message, unchecked.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Imu<'a> {
        /// Stamp and the frame of the sensor.
        pub header: Header<'a>,
        /// A quaternion x, y, z, w.
        pub orientation: [f64; 4],
        /// Row by row; the first is -1 where there is no orientation.
        pub orientation_covariance: [f64; 9],
        /// Radians a second.
        pub angular_velocity: [f64; 3],
        /// Row by row.
        pub angular_velocity_covariance: [f64; 9],
        /// Metres a second squared.
        pub linear_acceleration: [f64; 3],
        /// Row by row.
        pub linear_acceleration_covariance: [f64; 9],
    }
}

message!(Imu<'a>: "sensor_msgs/msg/Imu");

/// The messages that say how a vehicle moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MotionType {
    /// `nav_msgs/Odometry`, of which the pose is used.
    Odometry,
    /// `geometry_msgs/TwistStamped`.
    Twist,
    /// `geometry_msgs/TwistWithCovarianceStamped`.
    TwistWithCovariance,
    /// `sensor_msgs/Imu`, of which the angular velocity is used: no translation.
    Imu,
}

impl MotionType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Odometry, Self::Twist, Self::TwistWithCovariance, Self::Imu];

    /// The ROS name of the messages.
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::Odometry => Odometry::TYPE,
            Self::Twist => TwistStamped::TYPE,
            Self::TwistWithCovariance => TwistWithCovarianceStamped::TYPE,
            Self::Imu => Imu::TYPE,
        }
    }

    /// Reads a message of the type, after its header of CDR.
    ///
    /// # Errors
    /// `Message` when the bytes are not such a message.
    pub fn read<'a>(self, mut message: Reader<'a>) -> Result<VehicleMotion<'a>> {
        Ok(match self {
            Self::Odometry => {
                let Odometry { header, child_frame_id, position, orientation, .. } =
                    Field::read(&mut message)?;
                VehicleMotion {
                    header,
                    moving_frame: child_frame_id,
                    motion: MotionValues::Pose { position, orientation },
                }
            }
            Self::Twist => {
                let TwistStamped { header, linear, angular } = Field::read(&mut message)?;
                VehicleMotion::of_velocity(header, linear, angular)
            }
            Self::TwistWithCovariance => {
                let TwistWithCovarianceStamped { header, linear, angular, .. } =
                    Field::read(&mut message)?;
                VehicleMotion::of_velocity(header, linear, angular)
            }
            Self::Imu => {
                let Imu { header, angular_velocity, .. } = Field::read(&mut message)?;
                VehicleMotion::of_velocity(header, [0.0; 3], angular_velocity)
            }
        })
    }
}

/// What a message says of a vehicle's motion, unchecked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VehicleMotion<'a> {
    /// Stamp and frame of the message.
    pub header: Header<'a>,
    /// The frame that moves.
    pub moving_frame: &'a str,
    /// How.
    pub motion: MotionValues,
}

/// A pose or a velocity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MotionValues {
    /// The pose of the moving frame in a fixed one.
    Pose {
        /// x, y, z in metres.
        position: [f64; 3],
        /// A quaternion x, y, z, w.
        orientation: [f64; 4],
    },
    /// The velocity of the moving frame along and about its axes.
    Velocity {
        /// Metres a second.
        linear: [f64; 3],
        /// Radians a second.
        angular: [f64; 3],
    },
}

impl<'a> VehicleMotion<'a> {
    fn of_velocity(header: Header<'a>, linear: [f64; 3], angular: [f64; 3]) -> Self {
        let motion = MotionValues::Velocity { linear, angular };
        Self { header, moving_frame: header.frame_id, motion }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Stamp;

    #[test]
    fn every_type_gives_its_motion() {
        let header = Header { stamp: Stamp::from_ros(3, 7), frame_id: "odom" };
        let [linear, angular] = [[1.0, -2.0, 3.0], [0.25, 0.5, -0.75]];
        let (position, orientation) = ([4.0, 5.0, 6.0], [0.5, -0.5, 0.5, 0.5]);
        let mut bytes = Vec::new();
        for kind in MotionType::ALL {
            let (moving_frame, motion) = match kind {
                MotionType::Odometry => ("base_link", MotionValues::Pose { position, orientation }),
                MotionType::Imu => ("odom", MotionValues::Velocity { linear: [0.0; 3], angular }),
                _ => ("odom", MotionValues::Velocity { linear, angular }),
            };
            match kind {
                MotionType::Odometry => Odometry {
                    header,
                    child_frame_id: "base_link",
                    position,
                    orientation,
                    pose_covariance: [0.1; 36],
                    linear,
                    angular,
                    twist_covariance: [0.2; 36],
                }
                .encode(&mut bytes),
                MotionType::Twist => TwistStamped { header, linear, angular }.encode(&mut bytes),
                MotionType::TwistWithCovariance => {
                    TwistWithCovarianceStamped { header, linear, angular, covariance: [0.1; 36] }
                        .encode(&mut bytes)
                }
                MotionType::Imu => Imu {
                    header,
                    orientation,
                    orientation_covariance: [-1.0; 9],
                    angular_velocity: angular,
                    angular_velocity_covariance: [0.0; 9],
                    linear_acceleration: [9.0; 3],
                    linear_acceleration_covariance: [0.0; 9],
                }
                .encode(&mut bytes),
            }
            .unwrap();
            let read = |bytes| kind.read(Reader::new(kind.type_name(), bytes)?);
            assert_eq!(read(&bytes).unwrap(), VehicleMotion { header, moving_frame, motion });
            for len in 0..bytes.len() {
                assert!(read(&bytes[..len]).is_err(), "{kind:?} cut after {len} bytes");
            }
        }
    }
}
