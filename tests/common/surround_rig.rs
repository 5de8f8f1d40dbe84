//! A simulated drive with six cameras, and a small StreamPETR for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use det_post::sim::{self, Drive, Options, PictureFormat};
use det_post::transport::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post::transport::messages::{CameraInfo, definition};
use det_post::types::Size;

use super::replay::{Run, replay};
use super::streampetr::{FILES, Form, Sizes, Weights, save};

const SIZES: Sizes = Sizes {
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
/// Pictures of each camera.
pub const NUM_FRAMES: usize = 6;

/// A folder with a drive, the networks and a parameter file.
pub struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            num_lidars: 0,
            num_cameras: 6,
            picture_size: Size::new(192, 108),
            num_threads: 2,
            ..Options::default()
        };
        let drive = Drive::new(3, &options).unwrap();
        let seconds = 0.1 * NUM_FRAMES as f64;
        let out = folder.path().join("drive");
        let stop = AtomicBool::new(false);
        sim::record(&drive, seconds, PictureFormat::Raw, &out, &stop, &mut |_, _| {}).unwrap();
        save(folder.path(), &SIZES, &Weights::random(&SIZES, 11), Form::AllLayers);
        let fixture = Self { folder };
        let file = |name: &str| fixture.path(name).display().to_string();
        let [model, position, head] = FILES.map(file);
        let topics: Vec<String> = (0..6).map(|n| format!("/camera_{n}/image")).collect();
        let text = format!(
            "/**:
  ros__parameters:
    device: cpu
    rig:
      inputs: [{}]
      head: streampetr_autoware
      model_path: {model}
      position_embedding_path: {position}
      head_path: {head}
      engine: {{kind: rten, threads: 1}}
      score_thresholds: 0.01
      yaw_norm_thresholds: 0.0
",
            topics.join(", ")
        );
        std::fs::write(fixture.path("rig.param.yaml"), text).unwrap();
        fixture
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
