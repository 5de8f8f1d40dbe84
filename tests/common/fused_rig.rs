//! A LiDAR and six cameras of a simulated drive, and a small BEVFusion of two files for them: in a channel
//! of our own, and with the parameter files of `autoware_bevfusion`.

use std::path::{Path, PathBuf};

use det_post_testing::five_onnx;
use det_post_testing::fused_onnx::{camera_lidar, camera_lidar_of, save_backbone};

use super::replay::{Run, det_post};
use super::surround_rig::Fixture;

pub const NUM_CAMERAS: usize = 6;
pub const CLOUDS: &str = "/lidar_0/points";
/// The objects of the node of `autoware_bevfusion`.
pub const OBJECTS: &str = "/bevfusion/output/objects";

const FACTS: &str = "\
sensor: lidar
encoder: none
kind: bevfusion
class_names: [CAR, TRUCK, BUS]
point_range_m: [-40, -30, -3, 40, 30, 5]
voxel_size_m: [10, 10, 1]
max_points_per_voxel: 10
voxel_capacity: 400
point_channels: []
input_names: [voxels, num_points, coors]
coordinates: zyx
output_names: [bbox_pred, score, label_pred]
downsample_factor: 2
cameras: 6
input_size: [64, 32]
depths_m: [2, 6]
camera_range_m: [-40, -30, -10, 40, 30, 10]
";

/// Of CUDA-BEVFusion's five files.
const FACTS_OF_FILES: &str = "\
sensor: lidar
encoder: voxels
kind: bevfusion
class_names: [CAR, TRUCK, BUS]
point_range_m: [-40, -30, -3, 40, 30, 5]
voxel_size_m: [10, 10, 1]
max_points_per_voxel: 10
voxel_capacity: 400
point_channels: []
downsample_factor: 2
cameras: 6
input_size: [64, 32]
image_scale: 0.4
depths_m: [2, 6]
camera_range_m: [-40, -30, -10, 40, 30, 10]
";

const NODE: &str = "\
/**:
  ros__parameters:
    max_camera_lidar_delay: 0.12
    plugins_path: ''
    trt_precision: fp16
    cloud_capacity: 200000
    onnx_path: $(var model_path)/autoware.onnx
    engine_path: $(var model_path)/autoware.engine
    image_backbone_onnx_path: $(var model_path)/backbone.onnx
    image_backbone_engine_path: $(var model_path)/backbone.engine
    image_backbone_trt_precision: fp16
    densification_num_past_frames: 0
    densification_world_frame_id: map
    run_image_undistortion: true
    circle_nms_dist_threshold: 0.5
    iou_nms_search_distance_2d: 10.0
    iou_nms_threshold: 0.1
    yaw_norm_thresholds: [0.0, 0.0, 0.0]
    detection_score_thresholds:
      distance_bin_upper_limits: [30.0, 90.0]
      min_confidence_scores: {CAR: [0.3, 0.2], TRUCK: [0.3, 0.2], BUS: [0.3, 0.2]}
";

const ML_PACKAGE: &str = "\
/**:
  ros__parameters:
    class_names: [CAR, TRUCK, BUS]
    voxels_num: [1, 200, 400]
    point_cloud_range: [-40.0, -30.0, -3.0, 40.0, 30.0, 5.0]
    voxel_size: [10.0, 10.0, 1.0]
    num_proposals: 12
    out_size_factor: 2
    max_points_per_voxel: 10
    use_intensity: false
    d_bound: [2.0, 38.0, 6.0]
    x_bound: [-40.0, 40.0, 20.0]
    y_bound: [-30.0, 30.0, 20.0]
    z_bound: [-10.0, 10.0, 20.0]
    num_cameras: 6
    raw_image_height: 108
    raw_image_width: 192
    img_aug_scale_x: 0.33333334
    img_aug_scale_y: 0.33333334
    roi_height: 32
    roi_width: 64
    features_height: 4
    features_width: 8
    num_depth_features: 6
    image_feature_channel: 4
";

/// The topics of the cameras that end in a name.
pub fn topics(end: &str) -> Vec<String> {
    (0..NUM_CAMERAS).map(|camera| format!("/camera_{camera}/{end}")).collect()
}

/// A drive, the networks, and the parameters of a channel `rig`.
pub fn fixture() -> Fixture {
    let fixture = Fixture::drive_with_lidars(1);
    let [model, backbone] = ["detector.onnx", "backbone.onnx"].map(|name| fixture.path(name));
    std::fs::write(&model, camera_lidar().to_bytes()).unwrap();
    save_backbone(&backbone).unwrap();
    let files = [("model_path", "detector.onnx"), ("image_backbone_path", "backbone.onnx")];
    write_parameters(&fixture, FACTS, &files, 0.3);
    fixture
}

/// The same with the five files of CUDA-BEVFusion.
pub fn fixture_of_files() -> Fixture {
    let fixture = Fixture::drive_with_lidars(1);
    five_onnx::save(&fixture.path(""), NUM_CAMERAS).unwrap();
    let keys = [
        "image_backbone_path",
        "camera_transform_path",
        "encoder_path",
        "fuser_path",
        "model_path",
    ];
    let files: Vec<_> = keys.into_iter().zip(five_onnx::NAMES).collect();
    write_parameters(&fixture, FACTS_OF_FILES, &files, 0.02);
    fixture
}

fn write_parameters(fixture: &Fixture, facts: &str, files: &[(&str, &str)], threshold: f32) {
    let head = fixture.path("head.yaml");
    std::fs::write(&head, facts).unwrap();
    let file =
        |(key, name): &(&str, &str)| format!("      {key}: {}\n", fixture.path(name).display());
    let text = format!(
        "/**:
  ros__parameters:
    device: cpu
    rig:
      input: {CLOUDS}
      camera_inputs: [{}]
      head: {}
{}      engine: {{kind: rten, threads: 1}}
      encoder.precision: f32
      output_type: detected_objects
      sync.max_skew_s: 0.12
      densification.num_past_sweeps: 1
      score_thresholds: {threshold}
      nms.kind: none
",
        topics("image").join(", "),
        head.display(),
        files.iter().map(file).collect::<String>()
    );
    std::fs::write(fixture.path("rig.param.yaml"), text).unwrap();
}

/// The files of a node of `autoware_bevfusion` with cameras.
pub struct Autoware {
    pub fixture: Fixture,
    pub files: Vec<PathBuf>,
    /// Arguments of its launch file.
    pub arguments: Vec<String>,
    /// Parameters of ours: engines of the CPU.
    pub parameters: Vec<String>,
}

impl Autoware {
    /// A drive, the networks and the parameter files.
    pub fn new() -> Self {
        let fixture = Fixture::drive_with_lidars(1);
        std::fs::write(fixture.path("autoware.onnx"), camera_lidar_of(4).to_bytes()).unwrap();
        save_backbone(&fixture.path("backbone.onnx")).unwrap();
        let files = [("node", NODE), ("ml_package", ML_PACKAGE)].map(|(name, text)| {
            let path = fixture.path(&format!("{name}.param.yaml"));
            std::fs::write(&path, text).unwrap();
            path
        });
        let folder = fixture.path("");
        Self {
            arguments: vec![format!("model_path:={}", folder.display())],
            parameters: [
                "device:=cpu",
                "engine.kind:=rten",
                "engine.threads:=1",
                "encoder.precision:=f32",
            ]
            .map(str::to_owned)
            .to_vec(),
            files: files.to_vec(),
            fixture,
        }
    }

    /// Parameters for the topics of the drive.
    pub fn topics(&self) -> [String; 3] {
        [
            format!("input:={CLOUDS}"),
            format!("camera_inputs:=[{}]", topics("image").join(", ")),
            format!("camera_infos:=[{}]", topics("camera_info").join(", ")),
        ]
    }

    /// Replays a recording by `--like`, with further parameters.
    pub fn like(&self, bag: &Path, name: &str, more: &[&str]) -> Run {
        let more = more.iter().map(|text| (*text).to_owned());
        let given = self.topics().into_iter().chain(self.parameters.iter().cloned()).chain(more);
        let files =
            self.files.iter().flat_map(|file| ["--config".into(), file.display().to_string()]);
        let like = ["--like", "autoware_bevfusion"].map(str::to_owned).into_iter();
        let arguments = self.arguments.iter().flat_map(|text| ["--arg".into(), text.clone()]);
        let given = given.flat_map(|text| ["-p".into(), text]);
        self.run(bag, name, like.chain(files).chain(arguments).chain(given).collect())
    }

    /// Replays the drive with what `det_post migrate` makes of the files.
    pub fn migrated(&self, name: &str) -> Run {
        let files = self.files.iter().map(|file| file.display().to_string());
        let arguments = self.arguments.iter().flat_map(|text| ["--arg".into(), text.clone()]);
        let line: Vec<String> =
            ["migrate".to_owned()].into_iter().chain(files).chain(arguments).collect();
        let migrated = det_post(&line.iter().map(String::as_str).collect::<Vec<_>>());
        migrated.expect_code(0);
        let file = self.fixture.path(&format!("{name}.param.yaml"));
        std::fs::write(&file, &migrated.stdout).unwrap();
        // The node has another name.
        let output = format!("output:={OBJECTS}");
        let given =
            self.topics().into_iter().chain([output]).chain(self.parameters.iter().cloned());
        let given = given.flat_map(|text| match text.starts_with("device") {
            true => ["-p".to_owned(), text],
            false => ["-p".to_owned(), format!("lidar.{text}")],
        });
        let bag = self.fixture.drive();
        self.run(
            &bag,
            name,
            ["--config".to_owned(), file.display().to_string()].into_iter().chain(given).collect(),
        )
    }

    fn run(&self, bag: &Path, name: &str, arguments: Vec<String>) -> Run {
        let out = self.fixture.path(name);
        let begin = ["replay", "--out"].map(str::to_owned);
        let paths = [out.display().to_string(), bag.display().to_string()];
        let line = [begin.to_vec(), paths.to_vec(), arguments];
        let line = line.concat();
        let run = det_post(&line.iter().map(String::as_str).collect::<Vec<_>>());
        Run { out, ..run }
    }
}
