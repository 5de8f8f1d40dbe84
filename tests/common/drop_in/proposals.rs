//! Autoware's nodes of TransFusion and BEVFusion with the small networks of the shared data, and the
//! objects of its `chain_expected.json`.

use std::f64::consts::PI;
use std::path::{Path, PathBuf};

use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{PointCloud2, TfMessage, TransformStamped, definition};
use det_post_types::{Header, Stamp};
use nalgebra::{Isometry3, Matrix4, Rotation3, Translation3, UnitQuaternion};
use serde_json::Value;

pub use crate::common::counting_voxels::TOPIC;
use crate::common::counting_voxels::message;
use crate::common::npz::Npz;
use crate::common::replay::{Run, det_post};

/// The files of a node: its parameters, in the order of its launch file.
pub struct Node {
    pub package: &'static str,
    pub folder: &'static str,
    files: &'static [&'static str],
    /// Parameters of the case.
    set: &'static [&'static str],
    pub topic: &'static str,
}

/// A network for clouds of the cases.
pub const LIMITS: &str = "voxels_num:=[1, 20000, 60000]";

pub const NODES: [Node; 2] = [
    Node {
        package: "autoware_lidar_transfusion",
        folder: "transfusion",
        files: &["t3_transfusion", "t2_transfusion_ml_package", "detection_class_remapper"],
        set: &["score_threshold:=0.2", "num_proposals:=200"],
        topic: "/lidar_transfusion/output/objects",
    },
    Node {
        package: "autoware_bevfusion",
        folder: "bevfusion",
        files: &["b1_bevfusion_lidar", "b1_ml_package_bevfusion_lidar", "detection_class_remapper"],
        set: &[],
        topic: "/bevfusion/output/objects",
    },
];

/// Writes the clouds of a case, oldest first, with the poses of the sensor.
pub fn write_clouds(bag: &Path, npz: &Npz) -> usize {
    let mut writer = BagWriter::create(bag, BagCompression::None).unwrap();
    let mut topic = |name: &str, type_name: &str| {
        let text = definition(type_name).unwrap();
        writer.add_topic(name, type_name, &text, OfferedQos::default()).unwrap()
    };
    let (moving, clouds) = (topic("/tf", TfMessage::TYPE), topic(TOPIC, PointCloud2::TYPE));
    let stamps = npz.f64("stamps");
    let poses = npz.f64("world_to_sensor").as_chunks::<16>().0;
    for (sweep, (stamp_s, pose)) in stamps.iter().zip(poses).enumerate().rev() {
        let stamp = Stamp::from_nanos((stamp_s * 1e9).round() as i64);
        let matrix = Matrix4::from_row_slice(pose);
        let rotation = Rotation3::from_matrix_unchecked(matrix.fixed_view::<3, 3>(0, 0).into());
        let offset = Translation3::new(matrix[(0, 3)], matrix[(1, 3)], matrix[(2, 3)]);
        let turn = UnitQuaternion::from_rotation_matrix(&rotation);
        let world_from_sensor = Isometry3::from_parts(offset, turn).inverse();
        let turn = world_from_sensor.rotation.coords;
        let offset = world_from_sensor.translation.vector;
        let transform = TransformStamped {
            header: Header { stamp, frame_id: "map" },
            child_frame_id: "lidar",
            translation: [offset.x, offset.y, offset.z],
            rotation: [turn.x, turn.y, turn.z, turn.w],
        };
        let mut bytes = Vec::new();
        TfMessage::encode(&[transform], &mut bytes).unwrap();
        writer.write(moving, stamp, &bytes).unwrap();
        let values = npz.f32(&format!("cloud_{sweep}"));
        let cloud = message(stamp, &["x", "y", "z", "intensity"], values);
        writer.write(clouds, stamp, &cloud).unwrap();
    }
    writer.finish().unwrap();
    stamps.len()
}

impl Node {
    /// Its parameter files.
    pub fn paths(&self, data: &Path) -> Vec<PathBuf> {
        let params = data.join(self.folder).join("params");
        self.files.iter().map(|file| params.join(format!("{file}.param.yaml"))).collect()
    }

    /// Parameters of the network `tiny.onnx`, of the case, and further ones.
    pub fn parameters(&self, data: &Path, more: &[&str]) -> Vec<String> {
        let network = data.join(self.folder).join("tiny.onnx");
        let own = [
            format!("onnx_path:={}", network.display()),
            format!("input:={TOPIC}"),
            "engine.kind:=rten".to_owned(),
            "engine.threads:=2".to_owned(),
        ];
        let given = self.set.iter().chain(more).map(|text| (*text).to_owned());
        own.into_iter().chain(given).collect()
    }

    /// Replays a recording with the network `tiny.onnx`.
    pub fn replay(&self, data: &Path, bag: &Path, out: PathBuf, more: &[&str]) -> Run {
        let mut line =
            ["replay", bag.to_str().unwrap(), "--like", self.package].map(str::to_owned).to_vec();
        for file in self.paths(data) {
            line.extend(["--config".to_owned(), file.display().to_string()]);
        }
        for parameter in self.parameters(data, more) {
            line.extend(["-p".to_owned(), parameter]);
        }
        line.extend(["--arg".to_owned(), format!("model_path:={}", data.display())]);
        line.extend(["--out".to_owned(), out.display().to_string()]);
        let run = det_post(&line.iter().map(String::as_str).collect::<Vec<_>>());
        Run { out, ..run }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// An object of `autoware_perception_msgs/DetectedObjects`.
#[derive(Debug)]
struct Object {
    score: f32,
    label: u8,
    position: [f64; 3],
    yaw: f64,
    dimensions: [f64; 3],
}

/// A message, read from the front.
struct Cdr<'a> {
    body: &'a [u8],
    at: usize,
}

impl Cdr<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        self.at = self.at.next_multiple_of(N) + N;
        self.body[self.at - N..self.at].try_into().unwrap()
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.next())
    }

    fn f64s<const N: usize>(&mut self) -> [f64; N] {
        std::array::from_fn(|_| f64::from_le_bytes(self.next()))
    }

    fn object(&mut self) -> Object {
        let score = f32::from_le_bytes(self.next());
        assert_eq!(self.u32(), 1, "one classification");
        let [label] = self.next();
        let _probability: [u8; 4] = self.next();
        let [x, y, z, qx, qy, qz, qw] = self.f64s();
        assert_eq!([qx, qy], [0.0; 2]);
        let _covariance: [f64; 36] = self.f64s();
        let _flags = [self.next::<1>(), self.next::<1>()];
        let _twist: [f64; 42] = self.f64s();
        let _flags = [self.next::<1>(), self.next::<1>(), self.next::<1>()];
        let num_corners = self.u32();
        self.at += 12 * num_corners as usize;
        let dimensions = self.f64s();
        Object { score, label, position: [x, y, z], yaw: 2.0 * qz.atan2(qw), dimensions }
    }

    /// The objects of a message behind its header.
    fn objects(mut self) -> Vec<Object> {
        let _stamp: [u32; 2] = std::array::from_fn(|_| self.u32());
        self.at += self.u32() as usize;
        let num = self.u32();
        let objects = (0..num).map(|_| self.object()).collect();
        assert!(self.body.len() - self.at < 4, "{} of {}", self.at, self.body.len());
        objects
    }
}

/// The last message that a replay wrote to a topic.
pub fn last_message(run: &Run, topic: &str) -> Vec<u8> {
    let mut last = None;
    for file in std::fs::read_dir(run.out.join("detections")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|end| end == "mcap") {
            let bytes = std::fs::read(path).unwrap();
            for message in mcap::MessageStream::new(&bytes).unwrap() {
                let message = message.unwrap();
                if message.channel.topic == topic {
                    let schema = message.channel.schema.as_ref().unwrap();
                    assert_eq!(schema.name, "autoware_perception_msgs/msg/DetectedObjects");
                    last = Some(message.data.into_owned());
                }
            }
        }
    }
    last.unwrap_or_else(|| panic!("nothing on {topic}"))
}

/// Compares the objects of a message with the objects of a case.
pub fn assert_objects(cdr: &[u8], expected: &[Value], name: &str) {
    let found = Cdr { body: &cdr[4..], at: 0 }.objects();
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, object) in found.iter().zip(expected) {
        assert_eq!(found.score, number(&object["score"]) as f32, "{name}");
        assert_eq!(u64::from(found.label), object["label"], "{name}");
        let pairs = ["x", "y", "z"]
            .into_iter()
            .zip(found.position)
            .chain(["length", "width", "height"].into_iter().zip(found.dimensions));
        for (key, value) in pairs {
            let expected = number(&object[key]);
            assert!((value - expected).abs() <= 1e-3, "{name}: {key} {value}, expected {expected}");
        }
        let turn = (found.yaw - number(&object["yaw"])).rem_euclid(2.0 * PI);
        assert!(turn.min(2.0 * PI - turn) <= 1e-5, "{name}: yaw {}", found.yaw);
    }
}

/// The cases of a node, of which the first has one cloud.
pub fn cases(data: &Path, node: &Node) -> Vec<Value> {
    let path = data.join(node.folder).join("chain_expected.json");
    let mut expected: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    serde_json::from_value(expected["cases"].take()).unwrap()
}

/// The clouds of a case.
pub fn clouds(data: &Path, node: &Node, case: &Value) -> Npz {
    Npz::open(&data.join(node.folder).join(case["clouds"].as_str().unwrap()))
}

/// The first cloud of a case as a message.
pub fn cloud(npz: &Npz) -> Vec<u8> {
    let stamp = Stamp::from_nanos((npz.f64("stamps")[0] * 1e9).round() as i64);
    message(stamp, &["x", "y", "z", "intensity"], npz.f32("cloud_0"))
}
