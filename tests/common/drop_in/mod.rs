//! The nodes that ours replaces: parameter files of every generation with networks that fit
//! them, and recordings.

pub mod cameras;
pub mod networks;
pub mod proposals;
pub mod two_stages;
pub mod whole_node;

use std::path::{Path, PathBuf};

use det_post::config::{ChannelKind, Config, Package, Source};
use det_post_ros::NodeName;
use serde_json::Value;

use super::counting_voxels::{self, write_bag};
use super::recording;
use super::replay::{Run, det_post};
use super::shared_data::shared_data;

/// A case of `expected.json` with its files in a folder of its own.
pub struct Case {
    pub name: String,
    pub package: Package,
    pub source: Source,
    pub expected: Value,
    pub folder: tempfile::TempDir,
}

impl Case {
    /// All cases; `None`, said so, without the shared data.
    pub fn all() -> Option<Vec<Self>> {
        Self::of("dropin", "expected.json")
    }

    /// Those of networks with proposals.
    pub fn of_proposals() -> Option<Vec<Self>> {
        let mut cases = Self::of("transfusion", "cases.json")?;
        cases.extend(Self::of("bevfusion", "cases.json")?);
        Some(cases)
    }

    fn of(folder: &str, file: &str) -> Option<Vec<Self>> {
        let data = shared_data()?.join(folder);
        let text = std::fs::read_to_string(data.join(file)).unwrap();
        let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
        Some(cases.iter().map(|case| Self::new(&data, case)).collect())
    }

    /// Absolute paths of a case are put below its folder, where YOLOX finds its labels.
    fn new(data: &Path, case: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let has_labels = data.join("yolox").is_dir();
        for place in ["data/tensorrt_yolox", "m"].into_iter().filter(|_| has_labels) {
            let place = folder.path().join(place);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("label.txt"), "CAR\nPEDESTRIAN\n").unwrap();
            std::fs::copy(
                data.join("yolox/roi_label_remap.csv"),
                place.join("roi_label_remap.csv"),
            )
            .unwrap();
        }
        let root = folder.path().to_str().unwrap();
        let text = serde_json::to_string(case).unwrap();
        let text = text.replace("\"/data", &format!("\"{root}/data"));
        let expected: Value =
            serde_json::from_str(&text.replace("\"/m/", &format!("\"{root}/m/"))).unwrap();
        let assignments = |key: &str| -> Vec<String> {
            let text = |value: &Value| match value {
                Value::String(text) if text.is_empty() => "''".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let map = expected[key].as_object().unwrap();
            map.iter().map(|(name, value)| format!("{name}:={}", text(value))).collect()
        };
        let files = expected["files"].as_array().unwrap();
        let package: Package = expected["like"].as_str().unwrap().parse().unwrap();
        Self {
            name: expected["case"].as_str().unwrap().to_owned(),
            package,
            source: Source {
                files: files.iter().map(|file| data.join(file.as_str().unwrap())).collect(),
                overrides: assignments("set"),
                arguments: assignments("args"),
                like: Some(package),
                ..Source::default()
            },
            expected,
            folder,
        }
    }

    /// The name of its node.
    pub fn node(&self) -> NodeName {
        let (namespace, name) = self.package.node();
        NodeName::new(namespace, name).unwrap()
    }

    /// Its configuration, with further parameters.
    pub fn load(&self, more: &[&str]) -> Config {
        let mut source = self.source.clone();
        source.overrides.extend(more.iter().map(|text| (*text).to_owned()));
        Config::read(&self.node(), &source).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// The case as a node to replay: writes its networks and a recording.
    pub fn node_to_replay(&self) -> ReplacedNode<'_> {
        let folder = self.folder.path();
        let bag = folder.join("drive");
        let (channel, input, output) = match &self.load(&[]).channels[0].kind {
            ChannelKind::Lidar(lidar) => {
                for path in [&lidar.encoder_path, &lidar.model_path] {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                }
                networks::pillar_encoder(lidar).save(&lidar.encoder_path).unwrap();
                networks::center_head(lidar).save(&lidar.model_path).unwrap();
                let clouds = [1, 2].map(|seed| networks::cloud(seed, 4000));
                write_bag(&bag, &["x", "y", "z"], &clouds);
                ("lidar", counting_voxels::TOPIC, "/lidar_centerpoint/output/objects")
            }
            ChannelKind::Camera(camera) => {
                networks::yolox(camera.facts.class_names.len()).save(&camera.model_path).unwrap();
                recording::write(&bag).unwrap();
                ("camera", recording::IMAGE_TOPIC, "/tensorrt_yolox/out/objects")
            }
            other => panic!("{other:?}"),
        };
        let Source { files, overrides, arguments, .. } = &self.source;
        ReplacedNode {
            package: self.package.name(),
            folder,
            bag,
            files: files.iter().map(|file| file.display().to_string()).collect(),
            overrides: overrides.clone(),
            arguments: arguments.clone(),
            channel,
            input,
            output,
        }
    }
}

/// A node of another package with its files, and a recording of its input.
pub struct ReplacedNode<'a> {
    pub package: &'static str,
    /// Where files are written.
    pub folder: &'a Path,
    pub bag: PathBuf,
    pub files: Vec<String>,
    /// What its launch file gives as parameters.
    pub overrides: Vec<String>,
    /// What its launch file gives as arguments.
    pub arguments: Vec<String>,
    /// Our channel.
    pub channel: &'static str,
    /// The recorded topic.
    pub input: &'static str,
    /// The topic of the detections.
    pub output: &'static str,
}

impl ReplacedNode<'_> {
    fn given(&self) -> Vec<String> {
        let parameters = self.overrides.iter().flat_map(|text| ["-p".to_owned(), text.clone()]);
        let arguments = self.arguments.iter().flat_map(|text| ["--arg".to_owned(), text.clone()]);
        parameters.chain(arguments).collect()
    }

    fn replay(&self, out: &str, arguments: &[String]) -> Run {
        let out = self.folder.join(out);
        let begin = ["replay".into(), self.bag.display().to_string()];
        let end = ["--out".into(), out.display().to_string()];
        let line = [&begin[..], arguments, &end].concat();
        let run = det_post(&line.iter().map(String::as_str).collect::<Vec<_>>());
        run.expect_code(0);
        Run { out, ..run }
    }

    /// Replays the recording with `--like` into a folder, with further parameters.
    pub fn like(&self, out: &str, more: &[&str]) -> Run {
        let mut line = vec!["--like".to_owned(), self.package.to_owned()];
        line.extend(self.files.iter().flat_map(|file| ["--config".to_owned(), file.clone()]));
        line.extend(self.given());
        line.extend(["-p".to_owned(), format!("input:={}", self.input)]);
        line.extend(more.iter().flat_map(|text| ["-p".to_owned(), (*text).to_owned()]));
        self.replay(out, &line)
    }

    /// Replays the recording with the parameters that `det_post migrate` makes of its own.
    pub fn migrated(&self, out: &str, more: &[&str]) -> Run {
        let files = self.files.clone();
        let line = [vec!["migrate".to_owned()], files, self.given()].concat();
        let migrated = det_post(&line.iter().map(String::as_str).collect::<Vec<_>>());
        migrated.expect_code(0);
        let file = self.folder.join(format!("{out}.param.yaml"));
        std::fs::write(&file, &migrated.stdout).unwrap();
        let Self { channel, input, output, .. } = self;
        let topics = [format!("{channel}.input:={input}"), format!("{channel}.output:={output}")];
        let more = more.iter().map(|text| format!("{channel}.{text}"));
        let parameters = topics.into_iter().chain(more).flat_map(|text| ["-p".to_owned(), text]);
        let config = ["--config".to_owned(), file.display().to_string()];
        self.replay(out, &config.into_iter().chain(parameters).collect::<Vec<_>>())
    }
}

/// How many detections a replay gave.
pub fn num_detections(run: &Run) -> usize {
    let found = |line: &Value| {
        ["detections_2d", "detections_3d"].map(|key| line[key].as_array().map_or(0, Vec::len))
    };
    run.lines().iter().flat_map(found).sum()
}
