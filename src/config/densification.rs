//! Past sweeps and the motion of the vehicle, of LiDAR channels.

use std::time::Duration;

use super::declaration::Change::{Fixed, Live};
use super::reader::Reader;
use super::value::{above, integer, one_of, text, topic};
use det_post_ros::messages::MotionType;

/// The past frames on which the detections of a frame depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// None.
    None,
    /// Frames whose stamps are at most this long before.
    Recent(Duration),
    /// All of them: every frame reads and writes the memory of the network.
    All,
}

/// The merging of past sweeps with the current one.
#[derive(Clone, Debug, PartialEq)]
pub struct DensificationConfig {
    /// Past sweeps merged into the current one.
    pub num_past_sweeps: usize,
    /// Fixed frame of past sweeps and motion; the topic of `motion` where it is given.
    pub world_frame: String,
    /// The messages that say how the vehicle moves, in place of transforms to `world_frame`.
    pub motion: Option<MotionTopic>,
    /// Older sweeps are not merged.
    pub max_sweep_age_s: f32,
}

/// A topic of the vehicle's motion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MotionTopic {
    /// Its name.
    pub topic: String,
    /// The type of its messages.
    pub message: MotionType,
}

const MOTION_TYPES: &[(&str, MotionType)] = &[
    ("odometry", MotionType::Odometry),
    ("twist", MotionType::Twist),
    ("twist_with_covariance", MotionType::TwistWithCovariance),
    ("imu", MotionType::Imu),
];

impl DensificationConfig {
    pub(super) fn read(p: &mut Reader<'_>) -> Self {
        let num_past_sweeps = p.value(
            "densification.num_past_sweeps",
            Fixed,
            integer(0..=64),
            1,
            "Past sweeps merged into the current one.",
        );
        let world_frame = p.value(
            "densification.world_frame",
            Fixed,
            text(),
            "map",
            "Fixed frame of past sweeps and motion.",
        );
        let motion = motion(p);
        let is_of_imu = motion.as_ref().is_some_and(|of| of.message == MotionType::Imu);
        if is_of_imu && num_past_sweeps > 0 {
            let keys = ["densification.motion_type", "densification.num_past_sweeps"];
            let allowed =
                "another type, or densification.num_past_sweeps 0: an IMU has no translation";
            p.conflict(&keys, "imu", allowed);
        }
        Self {
            num_past_sweeps,
            world_frame: motion.as_ref().map_or(world_frame, |of| of.topic.clone()),
            motion,
            max_sweep_age_s: p.value(
                "densification.max_sweep_age_s",
                Live,
                above(0.0, 60.0).in_unit("s"),
                1.0,
                "Older sweeps are not merged.",
            ),
        }
    }

    /// Renames the topic of the motion.
    pub(super) fn rename_motion(&mut self, rename: impl Fn(&str) -> String) {
        if let Some(motion) = &mut self.motion {
            motion.topic = rename(&motion.topic);
            self.world_frame.clone_from(&motion.topic);
        }
    }
}

fn motion(p: &mut Reader<'_>) -> Option<MotionTopic> {
    let topic = p.optional(
        "densification.motion_topic",
        Fixed,
        topic(),
        "transforms to `densification.world_frame`",
        "Topic of the vehicle's motion, in place of those transforms.",
    );
    let message = p.value(
        "densification.motion_type",
        Fixed,
        one_of(MOTION_TYPES),
        "twist_with_covariance",
        "Its messages: nav_msgs/Odometry, geometry_msgs/TwistStamped or TwistWithCovarianceStamped, or sensor_msgs/Imu, \
         which turns points only.",
    );
    topic.map(|topic| MotionTopic { topic, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ChannelKind, Config, motions_of};
    use det_post_ros::Remaps;

    fn load(more: &[&str]) -> crate::Result<Config> {
        let given = ["l.head:=centerpoint_autoware", "l.encoder_path:=e", "l.model_path:=m"];
        let given = given.iter().chain(&["l.input:=/points"]).chain(more);
        Config::load(&[], &given.map(|one| (*one).to_owned()).collect::<Vec<_>>())
    }

    fn densification(config: &Config) -> &DensificationConfig {
        let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!("no LiDAR") };
        &lidar.densification
    }

    #[test]
    fn a_topic_of_motion_is_the_fixed_frame() {
        let config = load(&[]).unwrap();
        assert_eq!(densification(&config).world_frame, "map");
        assert!(motions_of(&config.channels).is_empty());

        let config = load(&["l.densification.motion_topic:=twist"]).unwrap();
        let message = MotionType::TwistWithCovariance;
        let motion = MotionTopic { topic: "/twist".into(), message };
        assert_eq!(densification(&config).world_frame, "/twist");
        assert_eq!(motions_of(&config.channels), [&motion]);
        let mut remaps = Remaps::default();
        remaps.push("/twist", "/vehicle/twist");
        let config = config.with_topics(&remaps);
        assert_eq!(densification(&config).world_frame, "/vehicle/twist");
        assert_eq!(motions_of(&config.channels)[0].topic, "/vehicle/twist");
    }

    #[test]
    fn an_imu_joins_no_past_sweeps() {
        let imu = ["l.densification.motion_topic:=/imu", "l.densification.motion_type:=imu"];
        let error = load(&imu).unwrap_err().to_string();
        assert!(error.contains("or densification.num_past_sweeps 0"), "{error}");
        let single = [&imu[..], &["l.densification.num_past_sweeps:=0"]].concat();
        assert_eq!(densification(&load(&single).unwrap()).num_past_sweeps, 0);
        let error = load(&["l.densification.motion_type:=velocity"]).unwrap_err().to_string();
        assert!(error.contains("odometry, twist, twist_with_covariance, imu"), "{error}");
    }
}
