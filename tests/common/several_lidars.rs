//! A simulated drive with four LiDARs and their clouds as one, and networks that count points.
#![allow(dead_code, reason = "each suite uses its part")]

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_ros::messages::{Odometry, TwistWithCovarianceStamped, definition};
use det_post_sim::{Drive, ImageFormat, Options, record};
use det_post_types::{Header, Stamp};

use super::counting_pillars;
use super::replay::{Run, replay};

pub const NUM_LIDARS: usize = 4;
/// Scans of each LiDAR.
pub const NUM_FRAMES: usize = 6;
pub const MERGED: &str = "/lidar/points";
pub const OUTPUT: &str = "/perception/lidar/detections";
/// Voxels for all pillars of a frame.
const VOXEL_CAPACITY: usize = counting_pillars::NUM_ROWS;

/// The topics of [`Fixture::with_motion`].
pub const ODOMETRY: &str = "/odom";
pub const TWIST: &str = "/vehicle/twist";

/// A message that is added to a recording.
pub struct Added {
    topic: &'static str,
    type_name: &'static str,
    at: Stamp,
    data: Vec<u8>,
}

/// A folder with the drive, the networks and a parameter file for each form of the clouds.
pub struct Fixture {
    folder: tempfile::TempDir,
    simulated: Drive,
}

/// What becomes of a message of a recording that is written again.
pub enum Becomes {
    Same,
    Nothing,
    /// It is logged this many nanoseconds later.
    Late(i64),
}

/// The topic of a LiDAR.
pub fn topic(lidar: usize) -> String {
    format!("/lidar_{lidar}/points")
}

impl Fixture {
    pub fn new(has_moving_scans: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            num_lidars: NUM_LIDARS,
            num_cameras: 0,
            num_points: 6400,
            has_merged_cloud: true,
            has_moving_scans,
            ..Options::default()
        };
        let drive = Drive::new(9005, &options).unwrap();
        let (seconds, stop) = (0.1 * NUM_FRAMES as f64, AtomicBool::new(false));
        let out = folder.path().join("drive");
        record(&drive, seconds, ImageFormat::Raw, &out, &stop, &mut |_, _| {}).unwrap();
        let file = counting_pillars::write(folder.path(), VOXEL_CAPACITY, false);
        let text = std::fs::read_to_string(&file).unwrap();
        let topics: Vec<_> = (0..NUM_LIDARS).map(topic).collect();
        let given = "input: /sensing/lidar/points";
        assert!(text.contains(given), "{text}");
        let several = text.replace(given, &format!("inputs: [{}]", topics.join(", ")));
        std::fs::write(folder.path().join("several.yaml"), several).unwrap();
        let one = text.replace(given, &format!("input: {MERGED}"));
        std::fs::write(folder.path().join("one.yaml"), one).unwrap();
        Self { folder, simulated: drive }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn drive(&self) -> PathBuf {
        self.path("drive")
    }

    /// Replays a recording of the drive, `several` clouds or the `one`.
    pub fn replay(&self, bag: &Path, form: &str, out: &str, overrides: &[&str]) -> Run {
        let file = self.path(&format!("{form}.yaml"));
        let overrides: Vec<_> = overrides.iter().map(|of| format!("lidar.{of}")).collect();
        replay(bag, file.to_str().unwrap(), &overrides, &self.path(out))
    }

    /// The drive without the poses of the vehicle on `/tf`: as odometry, and as velocities.
    pub fn with_motion(&self, name: &str) -> PathBuf {
        let mut added = Vec::new();
        let mut reader = BagReader::open(&self.drive()).unwrap();
        reader.select(&["/tf"]);
        while let Some(message) = reader.next_message().unwrap() {
            let at = message.log_time;
            let (mut odometry, mut twist) = (Vec::new(), Vec::new());
            let [before, pose, after] = [-1_000_000, 0, 1_000_000]
                .map(|ns| self.simulated.ego(Stamp::from_nanos(at.nanos() + ns)));
            let (sine, cosine) = pose.yaw_rad.sin_cos();
            let [x, y, z] = [0, 1, 2].map(|i| (after.position_m[i] - before.position_m[i]) / 0.002);
            let linear = [cosine * x + sine * y, cosine * y - sine * x, z];
            let angular = [0.0, 0.0, (after.yaw_rad - before.yaw_rad) / 0.002];
            let header = |frame_id| Header { stamp: at, frame_id };
            // As the simulator writes it to /tf.
            let (sine, cosine) = (0.5 * pose.yaw_rad).sin_cos();
            Odometry {
                header: header("map"),
                child_frame_id: "base_link",
                position: pose.position_m,
                orientation: [0.0, 0.0, sine, cosine],
                pose_covariance: [0.0; 36],
                linear,
                angular,
                twist_covariance: [0.0; 36],
            }
            .encode(&mut odometry)
            .unwrap();
            let header = header("base_link");
            TwistWithCovarianceStamped { header, linear, angular, covariance: [0.0; 36] }
                .encode(&mut twist)
                .unwrap();
            for (topic, type_name, data) in [
                (ODOMETRY, Odometry::TYPE, odometry),
                (TWIST, TwistWithCovarianceStamped::TYPE, twist),
            ] {
                added.push(Added { topic, type_name, at, data });
            }
        }
        let without_poses = |topic: &str, _| match topic {
            "/tf" => Becomes::Nothing,
            _ => Becomes::Same,
        };
        self.rewrite_with(name, added, without_poses)
    }

    /// Writes the drive with some messages changed; `change` is given their topic and number.
    pub fn rewrite(&self, name: &str, change: impl Fn(&str, usize) -> Becomes) -> PathBuf {
        self.rewrite_with(name, Vec::new(), change)
    }

    fn rewrite_with(
        &self,
        name: &str,
        added: Vec<Added>,
        change: impl Fn(&str, usize) -> Becomes,
    ) -> PathBuf {
        let out = self.path(name);
        let mut reader = BagReader::open(&self.drive()).unwrap();
        let mut writer = BagWriter::create(&out, BagCompression::None).unwrap();
        let topics = reader.topics().to_vec();
        let qos = OfferedQos::default();
        let numbers: Vec<_> = topics
            .iter()
            .map(|topic| {
                let text = definition(&topic.type_name).unwrap_or_default();
                writer.add_topic(&topic.name, &topic.type_name, &text, qos).unwrap()
            })
            .collect();
        let mut counts = vec![0; topics.len()];
        let mut messages = Vec::new();
        while let Some(message) = reader.next_message().unwrap() {
            let number = counts[message.topic];
            counts[message.topic] += 1;
            let late_ns = match change(&topics[message.topic].name, number) {
                Becomes::Same => 0,
                Becomes::Nothing => continue,
                Becomes::Late(late_ns) => late_ns,
            };
            let at = Stamp::from_nanos(message.log_time.nanos() + late_ns);
            messages.push((at, numbers[message.topic], message.data.to_vec()));
        }
        let mut of_added = std::collections::BTreeMap::new();
        for Added { topic, type_name, at, data } in added {
            let number = *of_added.entry(topic).or_insert_with(|| {
                let text = definition(type_name).unwrap();
                writer.add_topic(topic, type_name, &text, qos).unwrap()
            });
            messages.push((at, number, data));
        }
        messages.sort_by_key(|(at, ..)| *at);
        for (at, topic, data) in messages {
            writer.write(topic, at, &data).unwrap();
        }
        writer.finish().unwrap();
        out
    }
}
