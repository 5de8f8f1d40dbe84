//! A channel of a cloud and images, as Autoware exports BEVFusion: two files, of which the second falls into
//! an encoder, a network of the cameras and the network behind the maps.

use std::path::Path;

use det_post::config::{ChannelConfig, Config};
use det_post::detectors::{self, Detector};
use det_post::{FrameInput, FrameSet};
use det_post_infer::sparse::{self, CpuEncoder, Plan};
use det_post_infer::{Engine, RtenEngine};
use det_post_ops::sparse::conv::Precision;
use det_post_testing::clouds::Cloud;
use det_post_testing::fused_onnx::{
    CHANNELS, DEPTHS, FEATURES, IMAGE, MAP, camera_lidar, save_backbone,
};
use det_post_types::{
    CameraCalibration, Detection3d, Detections, DeviceChoice, ElementType, Encoding, EngineOptions,
    FrameReport, Header, ImagePayload, ImageView, NetworkPart, Size, Stamp, Tensor, TensorValues,
    TensorView,
};
use nalgebra::{Isometry3, Matrix3, Rotation3, Translation3, UnitQuaternion, Vector3};

const FACTS: &str = "\
sensor: lidar
encoder: none
kind: bevfusion
class_names: [CAR, TRUCK, BUS]
point_range_m: [-2.0, -1.5, -1.0, 2.0, 1.5, 3.0]
voxel_size_m: [0.5, 0.5, 0.5]
max_points_per_voxel: 10
voxel_capacity: 400
point_channels: []
input_names: [voxels, num_points, coors]
coordinates: zyx
output_names: [bbox_pred, score, label_pred]
downsample_factor: 2
cameras: 2
input_size: [64, 32]
depths_m: [0.25, 0.375]
camera_range_m: [-2.0, -1.5, -10.0, 2.0, 1.5, 10.0]
";
const MIN: [f32; 3] = [-2.0, -1.5, -1.0];
/// Of the received images; the network's are half as large, cut at the top.
const RECEIVED: Size = Size { width: 128, height: 72 };
const FOCAL: f64 = 60.0;
/// The values of the images of each camera, which are of one colour.
const COLORS: [[u8; 3]; 2] = [[200, 40, 90], [15, 160, 230]];

fn channel(folder: &Path, more: &[&str]) -> ChannelConfig {
    let [head, model, backbone] =
        ["head.yaml", "detector.onnx", "backbone.onnx"].map(|name| folder.join(name));
    std::fs::write(&head, FACTS).unwrap();
    std::fs::write(&model, camera_lidar().to_bytes()).unwrap();
    save_backbone(&backbone).unwrap();
    let given = [
        "l.input:=/points".to_owned(),
        "l.camera_inputs:=[/a/image, /b/image]".to_owned(),
        format!("l.head:={}", head.display()),
        format!("l.model_path:={}", model.display()),
        format!("l.image_backbone_path:={}", backbone.display()),
        "l.encoder.precision:=f32".to_owned(),
        "l.nms.kind:=none".to_owned(),
        "l.score_thresholds:=[0.4]".to_owned(),
        "l.densification.num_past_sweeps:=0".to_owned(),
    ];
    let is_chosen = more.iter().any(|text| text.starts_with("engine.kind"));
    let engine = (!is_chosen).then(|| "l.engine.kind:=rten".to_owned());
    let more = more.iter().map(|text| format!("l.{text}"));
    let given: Vec<String> = given.into_iter().chain(engine).chain(more).collect();
    Config::load(&[], &given).unwrap().channels.remove(0)
}

/// Points in a part of the cells.
fn points(num: usize) -> Vec<[f32; 3]> {
    let place = |at: usize, axis: usize| {
        let cell = (at / 3 * [7, 5, 11][axis]) % [8, 6, 8][axis];
        let within = ((at * 13 + axis * 5) % 10) as f32 / 20.0;
        MIN[axis] + 0.5 * cell as f32 + within
    };
    (0..num).map(|at| [0, 1, 2].map(|axis| place(at, axis))).collect()
}

/// Two cameras that look ahead and back, the second one with another mount where it was `moved`.
struct Rig {
    calibration: CameraCalibration,
    mounts: [Isometry3<f64>; 2],
    images: [Vec<u8>; 2],
}

impl Rig {
    fn new(moved: f64) -> Self {
        let mount = |yaw: f64, x: f64| {
            let around = Rotation3::from_euler_angles(0.0, 0.0, yaw);
            let (half, down) = (std::f64::consts::FRAC_PI_2, 0.1);
            let optical = Rotation3::from_euler_angles(-half - down, 0.0, -half);
            let turn = UnitQuaternion::from_rotation_matrix(&(around * optical));
            Isometry3::from_parts(Translation3::new(x, 0.07, 0.6), turn)
        };
        let [w, h] = [RECEIVED.width, RECEIVED.height].map(f64::from);
        let num_pixels = (RECEIVED.width * RECEIVED.height) as usize;
        Self {
            calibration: CameraCalibration {
                size: RECEIVED,
                intrinsics: [FOCAL, 0.0, w / 2.0, 0.0, FOCAL, h / 2.0, 0.0, 0.0, 1.0],
                rectification: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
                binning: [1, 1],
                ..CameraCalibration::default()
            },
            mounts: [mount(0.03, -0.2), mount(std::f64::consts::PI + moved, 0.31 + moved)],
            images: COLORS.map(|color| color.repeat(num_pixels)),
        }
    }

    fn detect(
        &self,
        detector: &mut dyn Detector,
        points: &[[f32; 3]],
        present: [bool; 2],
    ) -> Vec<Detection3d> {
        let stamp = Stamp::from_nanos(1_000_000_000);
        let cloud = Cloud::plain(points.as_flattened(), &[]);
        let cloud = cloud.view();
        let header = Header { stamp, frame_id: "lidar" };
        let lidar = FrameInput::cloud(header, &cloud).with_pose(Isometry3::identity());
        let camera = |index: usize| {
            let header = Header { stamp, frame_id: ["a", "b"][index] };
            let step = RECEIVED.width as usize * 3;
            let pixels = &self.images[index];
            let image = ImageView::new(RECEIVED, step, Encoding::Rgb8, false, pixels).unwrap();
            let input = FrameInput::image(header, ImagePayload::Raw(image));
            let input = input.with_pose(self.mounts[index]);
            present[index].then_some(FrameInput { calibration: Some(&self.calibration), ..input })
        };
        let inputs = [Some(lidar), camera(0), camera(1)];
        let frame = FrameSet { stamp, inputs: &inputs, target_pose: None };
        match detector.detect(&frame, &mut FrameReport::new()).unwrap() {
            Detections::Boxes3d(found) => found.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// From pixels of the network's image to rays in the frame of the points: half the size, four
    /// rows cut at the top.
    fn ray(&self, camera: usize, u: f64, v: f64) -> Vector3<f64> {
        let k = Matrix3::new(
            FOCAL / 2.0,
            0.0,
            f64::from(RECEIVED.width) / 4.0,
            0.0,
            FOCAL / 2.0,
            f64::from(RECEIVED.height) / 4.0 - 4.0,
            0.0,
            0.0,
            1.0,
        );
        self.mounts[camera].rotation * (k.try_inverse().unwrap() * Vector3::new(u, v, 1.0))
    }

    /// Images of depths, `[2, 1, 32, 64]`.
    fn depth_images(&self, points: &[[f32; 3]], present: [bool; 2]) -> Vec<f32> {
        let [width, height] = IMAGE.map(|size| size as usize);
        let mut images = vec![0.0; 2 * height * width];
        for camera in (0..2).filter(|&camera| present[camera]) {
            for point in points {
                let at = self.mounts[camera].inverse_transform_vector(
                    &(Vector3::from(point.map(f64::from)) - self.mounts[camera].translation.vector),
                );
                let u = FOCAL / 2.0 * at.x / at.z + f64::from(RECEIVED.width) / 4.0;
                let v = FOCAL / 2.0 * at.y / at.z + f64::from(RECEIVED.height) / 4.0 - 4.0;
                if at.z <= 0.0 || u < 0.0 || v < 0.0 || u >= width as f64 || v >= height as f64 {
                    continue;
                }
                let pixel = &mut images[(camera * height + v as usize) * width + u as usize];
                let depth = at.z as f32;
                *pixel = if *pixel == 0.0 { depth } else { pixel.min(depth) };
            }
        }
        images
    }

    /// The map of the cameras, from depths `[2, D, h, w]` and features `[2, h, w, C]`.
    fn pooled(&self, depths: &[f32], features: &[f32], present: [bool; 2]) -> (Vec<f32>, usize) {
        let ([_, rows, columns], [nx, ny]) = (FEATURES, MAP);
        let mut map = vec![0.0; CHANNELS * nx * ny];
        let mut num_inside = 0;
        for camera in (0..2).filter(|&camera| present[camera]) {
            for (k, i, j) in (0..DEPTHS)
                .flat_map(|k| (0..rows).flat_map(move |i| (0..columns).map(move |j| (k, i, j))))
            {
                let u = 63.0 * j as f64 / (columns - 1) as f64;
                let v = 31.0 * i as f64 / (rows - 1) as f64;
                let depth = 0.25 + 0.375 * k as f64;
                let point = self.mounts[camera].translation.vector + depth * self.ray(camera, u, v);
                let [x, y] = [(point.x + 2.0).trunc(), point.y + 1.5].map(f64::trunc);
                if x < 0.0 || y < 0.0 || x >= nx as f64 || y >= ny as f64 {
                    continue;
                }
                num_inside += 1;
                let share = depths[((camera * DEPTHS + k) * rows + i) * columns + j];
                for channel in 0..CHANNELS {
                    let value = features[((camera * rows + i) * columns + j) * CHANNELS + channel];
                    map[(channel * nx + x as usize) * ny + y as usize] += share * value;
                }
            }
        }
        (map, num_inside)
    }

    /// Scores and centres of the proposals, from the parts of the networks by themselves.
    fn expected(
        &self,
        config: &ChannelConfig,
        points: &[[f32; 3]],
        present: [bool; 2],
    ) -> Vec<(f32, [f32; 3])> {
        let det_post::config::ChannelKind::Lidar(config) = &config.kind else { panic!() };
        let part = |part| EngineOptions { part, threads: Some(1), ..EngineOptions::default() };
        let load = |path: &Path, of| RtenEngine::with_options(path, &part(of)).unwrap();
        let backbone = &config.cameras.as_ref().unwrap().image_backbone_path;
        let mut backbone = load(backbone, NetworkPart::FloatInputs);
        let image_size = Size::new(IMAGE[0], IMAGE[1]);
        let mut network =
            load(&config.model_path, NetworkPart::Cameras { num_cameras: 2, image_size });
        let mut images = Vec::new();
        for (color, present) in COLORS.into_iter().zip(present) {
            // A camera that was never there has an image of zeros.
            for value in color.map(|value| if present { f32::from(value) } else { 0.0 }) {
                images.extend(vec![value; 64 * 32]);
            }
        }
        backbone.run(&[view(&[2, 3, 32, 64], &images)]).unwrap();
        let depth_images = self.depth_images(points, present);
        assert!(depth_images.iter().filter(|&&depth| depth > 0.0).count() > 5);
        let features = backbone.output(0).unwrap();
        network.run(&[features, view(&[2, 1, 32, 64], &depth_images)]).unwrap();
        let [depths, features] = [0, 1].map(|at| floats(network.output(at).unwrap()));
        let (pooled, num_inside) = self.pooled(&depths, &features, present);
        assert!(num_inside > 50, "{num_inside} points of frustums are in the map");

        let map = encoded(&config.model_path, points);
        let mut rest =
            RtenEngine::with_options(&config.model_path, &part(NetworkPart::Whole)).unwrap();
        let names: Vec<_> = rest.inputs().iter().map(|input| input.name.clone()).collect();
        assert_eq!(names, ["map", sparse::MAP_OF_CAMERAS]);
        rest.run(&[map.view(), view(&[1, CHANNELS, MAP[0], MAP[1]], &pooled)]).unwrap();
        let [boxes, scores] = [0, 1].map(|at| floats(rest.output(at).unwrap()));
        let center = |at: usize| [boxes[at] + MIN[0], boxes[12 + at] + MIN[1], boxes[24 + at]];
        let mut all: Vec<_> = (0..12).map(|at| (scores[at], center(at))).collect();
        all.retain(|(score, _)| *score >= 0.4);
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all
    }
}

fn view<'a>(shape: &'a [usize], values: &'a [f32]) -> TensorView<'a> {
    TensorView::new(shape, TensorValues::F32(values)).unwrap()
}

fn floats(view: TensorView<'_>) -> Vec<f32> {
    let TensorValues::F32(values) = view.values() else { panic!("{view:?}") };
    values.to_vec()
}

/// The map of points, by the encoder of a file.
fn encoded(model: &Path, points: &[[f32; 3]]) -> Tensor {
    let file = sparse::load(model).unwrap();
    let mut voxels: Vec<([i32; 4], Vec<[f32; 3]>)> = Vec::new();
    for point in points {
        let [x, y, z] = [0, 1, 2].map(|axis| ((point[axis] - MIN[axis]) / 0.5).floor() as i32);
        let site = [0, x, y, z];
        match voxels.iter_mut().find(|(known, _)| *known == site) {
            Some((_, of)) => of.push(*point),
            None => voxels.push((site, vec![*point])),
        }
    }
    let mean = |points: &Vec<[f32; 3]>| {
        let kept = &points[..points.len().min(10)];
        [0, 1, 2].map(|axis| kept.iter().map(|p| p[axis]).sum::<f32>() / kept.len() as f32)
    };
    let means: Vec<[f32; 3]> = voxels.iter().map(|(_, points)| mean(points)).collect();
    let sites: Vec<[i32; 4]> = voxels.iter().map(|(site, _)| *site).collect();
    let capacities = file.network.default_capacities(400);
    let plan = Plan::new(file.network, &capacities).unwrap();
    let mut map = Tensor::zeros(ElementType::F32, &plan.network().map_shape()).unwrap();
    let mut encoder = CpuEncoder::new(plan, Precision::F32, 1).unwrap();
    encoder.run(&sites, means.as_flattened(), &mut map).unwrap();
    map
}

#[test]
fn cloud_and_images_give_the_detections_of_the_parts() {
    let folder = tempfile::tempdir().unwrap();
    let config = channel(folder.path(), &[]);
    let points = points(90);
    let mut all = Vec::new();
    for present in [[true, true], [true, false], [false, true]] {
        let mut detector = detectors::open(&config, DeviceChoice::Cpu).unwrap();
        assert_eq!(detector.inputs().len(), 3);
        detector.warm_up().unwrap();
        // The mount of a camera changes, and its frustum with it.
        for moved in [0.0, 0.4, 0.0] {
            let rig = Rig::new(moved);
            let found = rig.detect(&mut *detector, &points, present);
            let expected = rig.expected(&config, &points, present);
            assert!(expected.len() > 3, "{expected:?}");
            assert_eq!(found.len(), expected.len(), "{present:?} {moved}");
            for (found, (score, center)) in found.iter().zip(&expected) {
                let differs = (found.score - score).abs();
                assert!(differs < 1e-4, "{present:?} {moved}: {differs}");
                for (found, expected) in found.object.bbox.center.iter().zip(center) {
                    assert!((found - expected).abs() < 1e-3, "{present:?} {moved}");
                }
            }
            all.push(format!("{found:?}"));
        }
        assert!(rig_without_points(&mut *detector).is_empty());
    }
    // The images have an effect, and so has the mount of a camera that is there.
    let is_same = |a: usize, b: usize| all[a] == all[b];
    assert!(is_same(0, 2) && is_same(3, 4) && is_same(6, 8), "frames are independent");
    assert!(!is_same(0, 1) && !is_same(0, 3) && !is_same(0, 6) && !is_same(6, 7));
}

fn rig_without_points(detector: &mut dyn Detector) -> Vec<Detection3d> {
    Rig::new(0.0).detect(detector, &[], [true, true])
}

#[test]
fn heads_and_networks_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = channel(folder.path(), &[]);
    let open = |config: &ChannelConfig| detectors::open(config, DeviceChoice::Cpu).err().unwrap();
    let set = |config: &ChannelConfig, name: &str, bytes: Vec<u8>| {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        open(config)
    };
    let error = set(&config, "detector.onnx", det_post_testing::fused_onnx::lidar(true).to_bytes());
    assert!(error.message().contains("takes no cameras"), "{error}");
    // A file of another detector in place of the backbone.
    let whole = camera_lidar().to_bytes();
    std::fs::write(folder.path().join("detector.onnx"), &whole).unwrap();
    let mut file = camera_lidar();
    let product = file.nodes.iter_mut().find(|node| node.op == "Mul").unwrap();
    product.op = "Add";
    let error = set(&config, "detector.onnx", file.to_bytes());
    assert!(error.message().contains("not understood between QuickCumsumCuda"), "{error}");
    let facts = FACTS.lines().filter(|line| {
        !["cameras:", "input_size:", "depths_m:", "camera_range_m:"]
            .iter()
            .any(|key| line.starts_with(key))
    });
    let facts = facts.collect::<Vec<_>>().join("\n");
    std::fs::write(folder.path().join("detector.onnx"), whole).unwrap();
    std::fs::write(folder.path().join("lidar.yaml"), facts).unwrap();
    let given = [
        "l.input:=/points".to_owned(),
        format!("l.head:={}", folder.path().join("lidar.yaml").display()),
        format!("l.model_path:={}", folder.path().join("detector.onnx").display()),
        "l.engine.kind:=rten".to_owned(),
    ];
    let without = Config::load(&[], &given).unwrap().channels.remove(0);
    assert!(open(&without).message().contains("its head needs `cameras`"));
}

#[cfg(feature = "cuda")]
#[test]
fn both_devices_give_the_same_bytes() {
    if det_post_testing::gpu().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = channel(folder.path(), &[]);
    let [mut on_cpu, mut on_gpu] = [DeviceChoice::Cpu, DeviceChoice::Cuda(0)]
        .map(|device| detectors::open(&config, device).unwrap());
    for (num, present, moved) in [
        (90, [true, true], 0.0),
        (3, [true, false], 0.0),
        (200, [true, true], 0.3),
        (0, [true, true], 0.3),
        (90, [false, true], 0.0),
        (90, [false, false], 0.0),
    ] {
        let (rig, points) = (Rig::new(moved), points(num));
        let expected = rig.detect(&mut *on_cpu, &points, present);
        let found = rig.detect(&mut *on_gpu, &points, present);
        assert_eq!(found, expected, "{num} {present:?} {moved}");
    }
}

/// All three networks, with their integer labels, in dense layers of our own.
#[cfg(feature = "cuda")]
#[test]
fn all_networks_run_in_dense_layers_on_a_gpu() {
    if det_post_testing::gpu().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = channel(folder.path(), &[]);
    let mut on_cpu = detectors::open(&config, DeviceChoice::Cpu).unwrap();
    let config = channel(folder.path(), &["engine.kind:=cuda", "engine.tf32:=false"]);
    let mut on_gpu = detectors::open(&config, DeviceChoice::Cuda(0)).unwrap();
    for (present, moved) in [([true, true], 0.0), ([true, false], 0.0), ([true, true], 0.3)] {
        let (rig, points) = (Rig::new(moved), points(90));
        let expected = rig.detect(&mut *on_cpu, &points, present);
        let found = rig.detect(&mut *on_gpu, &points, present);
        assert!(expected.len() > 3 && found.len() == expected.len(), "{present:?} {moved}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.class, expected.class, "{present:?} {moved}");
            assert!((found.score - expected.score).abs() < 1e-4, "{present:?} {moved}");
            let centers = found.object.bbox.center.iter().zip(&expected.object.bbox.center);
            assert!(centers.into_iter().all(|(a, b)| (a - b).abs() < 1e-3), "{present:?} {moved}");
        }
    }
}
