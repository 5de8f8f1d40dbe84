//! A channel of a cloud and images, as Autoware exports BEVFusion: two files, of which the second falls into
//! an encoder, a network of the cameras and the network behind the maps.

use std::path::Path;

use det_post::config::{ChannelConfig, Config};
use det_post::detectors::{self, Detector};
use det_post_infer::sparse;
use det_post_infer::{Engine, RtenEngine};
use det_post_testing::fused_onnx::{CHANNELS, IMAGE, MAP, camera_lidar, save_backbone};
use det_post_types::{Detection3d, DeviceChoice, EngineOptions, NetworkPart, Size};

use crate::rig::{MIN, Placing, RECEIVED, Rig, encoded, floats, points, view};

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

/// Images of half the size, cut at the top.
const PLACING: Placing = Placing { scale: 0.5, cut: [0.0, 4.0], map: MAP };

/// The rig with images of one colour, the second camera where it was `moved`.
fn rig(moved: f64) -> Rig {
    let num_pixels = (RECEIVED.width * RECEIVED.height) as usize;
    Rig::new(moved, COLORS.map(|color| color.repeat(num_pixels)), PLACING)
}

/// Scores and centres of the proposals, from the parts of the networks by themselves.
fn expected(
    rig: &Rig,
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
    let mut network = load(&config.model_path, NetworkPart::Cameras { num_cameras: 2, image_size });
    let mut images = Vec::new();
    for (color, present) in COLORS.into_iter().zip(present) {
        // A camera that was never there has an image of zeros.
        for value in color.map(|value| if present { f32::from(value) } else { 0.0 }) {
            images.extend(vec![value; 64 * 32]);
        }
    }
    backbone.run(&[view(&[2, 3, 32, 64], &images)]).unwrap();
    let depth_images = rig.depth_images(points, present);
    assert!(depth_images.iter().filter(|&&depth| depth > 0.0).count() > 5);
    let features = backbone.output(0).unwrap();
    network.run(&[features, view(&[2, 1, 32, 64], &depth_images)]).unwrap();
    let [depths, features] = [0, 1].map(|at| floats(network.output(at).unwrap()));
    let (pooled, num_inside) = rig.pooled(&depths, &features, present);
    assert!(num_inside > 50, "{num_inside} points of frustums are in the map");

    let map = encoded(&config.model_path, points);
    let mut rest = RtenEngine::with_options(&config.model_path, &part(NetworkPart::Whole)).unwrap();
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
            let rig = rig(moved);
            let found = rig.detect(&mut *detector, &points, present);
            let expected = expected(&rig, &config, &points, present);
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
    rig(0.0).detect(detector, &[], [true, true])
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
        let (rig, points) = (rig(moved), points(num));
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
        let (rig, points) = (rig(moved), points(90));
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
