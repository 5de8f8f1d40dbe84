//! A simulated drive with six cameras, and a small StreamPETR for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_ros::messages::{CameraInfo, definition};
use det_post_sim::{Drive, ImageFormat, Options};
use det_post_types::Size;

use super::replay::{Run, replay};
use super::streampetr::{FILES, Form, Sizes, Weights, save};

/// Lengths of the network.
pub const SIZES: Sizes = Sizes {
    cameras: 6,
    grid: [6, 12],
    stride: 8,
    channels: 16,
    heads: 2,
    ffn: 32,
    depths: 32,
    layers: 2,
    queries: 20,
    memory: 16,
    propagated: 8,
    classes: 5,
};
/// Images of each camera.
pub const NUM_FRAMES: usize = 6;

/// A folder with a drive, the networks and a parameter file.
pub struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    /// A drive, StreamPETR and its parameters.
    pub fn new() -> Self {
        Self::with_lidars(0)
    }

    /// As [`Fixture::new`], with this number of LiDAR sensors in the drive.
    pub fn with_lidars(num_lidars: usize) -> Self {
        let fixture = Self::record(num_lidars);
        save(fixture.folder.path(), &SIZES, &Weights::random(&SIZES, 11), Form::AllLayers);
        let [model, position, head] = FILES.map(|name| fixture.path(name).display().to_string());
        fixture.write_parameters(&format!(
            "      head: streampetr_autoware
      model_path: {model}
      position_embedding_path: {position}
      head_path: {head}"
        ));
        fixture
    }

    /// Only a drive.
    pub fn with_drive() -> Self {
        Self::record(0)
    }

    /// A drive with this number of LiDAR sensors.
    pub fn drive_with_lidars(num: usize) -> Self {
        Self::record(num)
    }

    fn record(num_lidars: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            num_lidars,
            num_cameras: 6,
            image_size: Size::new(192, 108),
            num_threads: 2,
            ..Options::default()
        };
        let drive = Drive::new(3, &options).unwrap();
        let seconds = 0.1 * NUM_FRAMES as f64;
        let out = folder.path().join("drive");
        let stop = AtomicBool::new(false);
        det_post_sim::record(&drive, seconds, ImageFormat::Raw, &out, &stop, &mut |_, _| {})
            .unwrap();
        Self { folder }
    }

    /// Writes the parameters of a channel of all cameras, with these of its networks.
    pub fn write_parameters(&self, networks: &str) {
        let topics: Vec<String> = (0..6).map(|n| format!("/camera_{n}/image")).collect();
        let text = format!(
            "/**:
  ros__parameters:
    device: cpu
    rig:
      inputs: [{}]
{networks}
      engine: {{kind: rten, threads: 1}}
      score_thresholds: 0.01
      yaw_norm_thresholds: 0.0
",
            topics.join(", ")
        );
        std::fs::write(self.path("rig.param.yaml"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn drive(&self) -> PathBuf {
        self.path("drive")
    }

    /// Replays a recording into a folder of its own.
    pub fn replay(&self, bag: &Path, name: &str, parameters: &[&str]) -> Run {
        let parameters: Vec<String> = parameters.iter().map(|&text| text.to_owned()).collect();
        let config = self.path("rig.param.yaml");
        replay(bag, config.to_str().unwrap(), &parameters, &self.path(name))
    }

    /// Writes the messages of the drive that `change` leaves, as it changes them.
    pub fn rewrite(
        &self,
        name: &str,
        mut change: impl FnMut(&str, usize, &[u8]) -> Option<Vec<u8>>,
    ) -> PathBuf {
        let out = self.path(name);
        let mut reader = BagReader::open(&self.drive()).unwrap();
        let mut writer = BagWriter::create(&out, BagCompression::None).unwrap();
        let topics = reader.topics().to_vec();
        let numbers: Vec<usize> = topics
            .iter()
            .map(|topic| {
                let text = definition(&topic.type_name).unwrap_or_default();
                let qos = OfferedQos::default();
                writer.add_topic(&topic.name, &topic.type_name, &text, qos).unwrap()
            })
            .collect();
        let mut num_of_topic = BTreeMap::new();
        while let Some(message) = reader.next_message().unwrap() {
            let count = num_of_topic.entry(message.topic).or_insert(0_usize);
            if let Some(data) = change(&topics[message.topic].name, *count, message.data) {
                writer.write(numbers[message.topic], message.log_time, &data).unwrap();
            }
            *count += 1;
        }
        writer.finish().unwrap();
        out
    }
}

/// The calibration of the drive's cameras as a file of `camera_calibration`.
pub fn calibration_file(fixture: &Fixture) -> PathBuf {
    let mut reader = BagReader::open(&fixture.drive()).unwrap();
    let path = fixture.path("camera.yaml");
    reader.select(&["/camera_0/camera_info"]);
    let message = reader.next_message().unwrap().unwrap();
    let info = CameraInfo::decode(message.data).unwrap();
    let matrix =
        |rows, cols, data: &[f64]| format!("{{rows: {rows}, cols: {cols}, data: {data:?}}}");
    let text = format!(
        "image_width: {}\nimage_height: {}\ncamera_name: camera\ncamera_matrix: {}\n\
         distortion_model: plumb_bob\ndistortion_coefficients: {}\nprojection_matrix: {}\n",
        info.width,
        info.height,
        matrix(3, 3, &info.k),
        matrix(1, 5, &[0.0; 5]),
        matrix(3, 4, &info.p),
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// The nominal rig of nuScenes: topic, frame, x and y of the camera, its yaw in degrees, focal
/// length.
const NUSCENES: [(&str, &str, [f64; 2], f64, f64); 6] = [
    ("front", "CAM_FRONT", [1.7, 0.0], 0.0, 1266.0),
    ("front_right", "CAM_FRONT_RIGHT", [1.5, -0.5], -55.0, 1260.0),
    ("front_left", "CAM_FRONT_LEFT", [1.5, 0.5], 55.0, 1272.0),
    ("back", "CAM_BACK", [0.0, 0.0], 180.0, 809.0),
    ("back_left", "CAM_BACK_LEFT", [1.0, 0.5], 110.0, 1256.0),
    ("back_right", "CAM_BACK_RIGHT", [1.0, -0.5], -110.0, 1259.0),
];

/// The topics of the compressed images of nuScenes, in the order of the channel.
pub fn nuscenes_topics() -> [String; 6] {
    NUSCENES.map(|(name, ..)| format!("/camera/{name}/image_raw/compressed"))
}

/// The parameters of a channel of these cameras, with files of calibrations and transforms,
/// which their recording lacks.
pub fn nuscenes_parameters(fixture: &Fixture) -> Vec<String> {
    let mut transforms =
        "map:\n  base_link: {x: 0, y: 0, z: 0, roll: 0, pitch: 0, yaw: 0}\nbase_link:\n".to_owned();
    let mut files = Vec::new();
    for (name, frame, [x, y], degrees, focal) in NUSCENES {
        let yaw = (degrees - 90.0).to_radians();
        transforms += &format!(
            "  {frame}: {{x: {x}, y: {y}, z: 1.5, roll: -1.5708, pitch: 0, yaw: {yaw}}}\n"
        );
        let file = fixture.path(&format!("{name}.yaml"));
        let text = format!(
            "image_width: 1600\nimage_height: 900\ndistortion_model: plumb_bob\n\
             distortion_coefficients: {{rows: 1, cols: 5, data: [0, 0, 0, 0, 0]}}\n\
             camera_matrix: {{rows: 3, cols: 3, data: [{focal}, 0, 800, 0, {focal}, 450, 0, 0, 1]}}\n"
        );
        std::fs::write(&file, text).unwrap();
        files.push(file.display().to_string());
    }
    let rig = fixture.path("nuscenes.yaml");
    std::fs::write(&rig, transforms).unwrap();
    vec![
        format!("rig.inputs:=[{}]", nuscenes_topics().join(", ")),
        format!("rig.calibration_paths:=[{}]", files.join(", ")),
        format!("rig.transforms_path:={}", rig.display()),
        "rig.sync.max_skew_s:=0.05".to_owned(),
        // A keyframe every half second.
        "rig.memory.max_gap_s:=0.6".to_owned(),
    ]
}
