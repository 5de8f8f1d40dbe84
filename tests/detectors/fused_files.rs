//! A channel of a cloud and images of CUDA-BEVFusion's five files, against its networks by themselves and
//! what is between them, written out.

use std::path::Path;

use det_post::config::{ChannelConfig, Config};
use det_post::detectors;
use det_post_infer::dense::{DenseEngine, Network, Precision};
use det_post_infer::{Engine, RtenEngine};
use det_post_testing::five_onnx::{self, CAMERA_MAP, NAMES, NUM_CLASSES, NUM_PROPOSALS};
use det_post_testing::fused_onnx::{CHANNELS, DEPTHS, FEATURES, IMAGE, MAP};
use det_post_testing::random::Random;
use det_post_types::{
    Detection3d, DeviceChoice, Dim, EngineOptions, NetworkPart, TensorSpec, TensorValues,
    TensorView,
};

use crate::rig::{MIN, Placing, RECEIVED, Rig, encoded, floats, points, view};

const FACTS: &str = "\
sensor: lidar
encoder: voxels
kind: bevfusion
class_names: [CAR, TRUCK, BUS]
point_range_m: [-2.0, -1.5, -1.0, 2.0, 1.5, 3.0]
voxel_size_m: [0.5, 0.5, 0.5]
max_points_per_voxel: 10
voxel_capacity: 400
point_channels: []
downsample_factor: 2
cameras: 2
input_size: [64, 32]
image_scale: 0.6
depths_m: [0.25, 0.375]
camera_range_m: [-2.0, -1.5, -10.0, 2.0, 1.5, 10.0]
";
/// 128x72 by 0.6 is 76x43, of which 64x32 stay: 6 columns are cut on each side, 11 rows at the top.
const PLACING: Placing = Placing { scale: 0.6, cut: [6.0, 11.0], map: CAMERA_MAP };
const RESIZED: [f64; 2] = [76.0, 43.0];
const THRESHOLD: f32 = 0.02;

/// The colour of a pixel: ramps, which a bilinear filter keeps.
fn color(camera: usize, x: f64, y: f64) -> [f64; 3] {
    match camera {
        0 => [x + 20.0, 3.0 * y, 77.0],
        _ => [210.0 - x, y + 9.0, 2.0 * y + 40.0],
    }
}

fn rig(moved: f64) -> Rig {
    let image = |camera: usize| {
        let pixels = (0..RECEIVED.height).flat_map(|y| (0..RECEIVED.width).map(move |x| (x, y)));
        let colors = pixels.map(|(x, y)| color(camera, f64::from(x), f64::from(y)));
        colors.flatten().map(|value| value as u8).collect()
    };
    Rig::new(moved, [image(0), image(1)], PLACING)
}

fn channel(folder: &Path, more: &[&str]) -> ChannelConfig {
    let head = folder.join("head.yaml");
    if !head.exists() {
        std::fs::write(&head, FACTS).unwrap();
        five_onnx::save(folder, 2).unwrap();
    }
    let file = |key: &str, name: &str| format!("l.{key}:={}", folder.join(name).display());
    let [backbone, transform, encoder, fuser, model] = NAMES;
    let given = [
        "l.input:=/points".to_owned(),
        "l.camera_inputs:=[/a/image, /b/image]".to_owned(),
        file("head", "head.yaml"),
        file("image_backbone_path", backbone),
        file("camera_transform_path", transform),
        file("encoder_path", encoder),
        file("fuser_path", fuser),
        file("model_path", model),
        "l.encoder.precision:=f32".to_owned(),
        "l.nms.kind:=none".to_owned(),
        format!("l.score_thresholds:=[{THRESHOLD}]"),
        "l.densification.num_past_sweeps:=0".to_owned(),
    ];
    let is_chosen = more.iter().any(|text| text.starts_with("engine.kind"));
    let engine = (!is_chosen).then(|| "l.engine.kind:=rten".to_owned());
    let more = more.iter().map(|text| format!("l.{text}"));
    let given: Vec<String> = given.into_iter().chain(engine).chain(more).collect();
    Config::load(&[], &given).unwrap().channels.remove(0)
}

/// The images as the network has them, `[2, 3, 32, 64]`; zeros for a camera that was never there.
fn images(present: [bool; 2]) -> Vec<f32> {
    let (mean, deviation) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
    let [width, height] = IMAGE;
    let received = [RECEIVED.width, RECEIVED.height].map(f64::from);
    let mut images = Vec::new();
    for (camera, present) in present.into_iter().enumerate() {
        for plane in 0..3 {
            for (v, u) in (0..height).flat_map(|v| (0..width).map(move |u| (v, u))) {
                let pixel = [u, v].map(f64::from);
                let [x, y] = [0, 1].map(|axis| {
                    let at = pixel[axis] + PLACING.cut[axis] + 0.5;
                    at * received[axis] / RESIZED[axis] - 0.5
                });
                // At the last row the filter ends with the image.
                let value = color(camera, x, y.min(received[1] - 1.0))[plane] / 255.0;
                let normal = (value - mean[plane]) / deviation[plane];
                images.push(if present { normal as f32 } else { 0.0 });
            }
        }
    }
    images
}

/// A proposal of the head, from its six outputs.
#[derive(Debug)]
struct Proposal {
    score: f32,
    class: u32,
    center: [f32; 3],
    /// Length, width, height.
    extents: [f32; 3],
    yaw: f32,
    velocity: [f32; 2],
}

/// What the `decode_kernel` of `TransBBox` makes of the outputs, in our form of boxes: centres in place of bottoms, yaws
/// counter-clockwise from +x.
fn decoded(outputs: impl Fn(&str) -> Vec<f32>) -> Vec<Proposal> {
    let [score, reg, height, dim, rot, vel] =
        ["score", "reg", "height", "dim", "rot", "vel"].map(outputs);
    let mut all = Vec::new();
    for at in 0..NUM_PROPOSALS {
        let of = |tensor: &[f32], channel: usize| tensor[channel * NUM_PROPOSALS + at];
        let mut class = 0;
        for other in 1..NUM_CLASSES {
            if of(&score, other) > of(&score, class) {
                class = other;
            }
        }
        let angle = of(&rot, 0).atan2(of(&rot, 1));
        all.push(Proposal {
            score: of(&score, class),
            class: class as u32,
            center: [of(&reg, 0) + MIN[0], of(&reg, 1) + MIN[1], of(&height, 0)],
            extents: [1, 0, 2].map(|channel| of(&dim, channel).exp()),
            yaw: -angle - std::f32::consts::FRAC_PI_2,
            velocity: [of(&vel, 0), of(&vel, 1)],
        });
    }
    all.retain(|proposal| proposal.score >= THRESHOLD);
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    all
}

fn expected(rig: &Rig, folder: &Path, points: &[[f32; 3]], present: [bool; 2]) -> Vec<Proposal> {
    let [backbone, transform, encoder, fuser, head] = NAMES.map(|name| folder.join(name));
    let run = |path: &Path, inputs: &[(&str, TensorView<'_>)]| {
        let mut engine = RtenEngine::load(path, Some(1)).unwrap();
        let names: Vec<_> = engine.inputs().iter().map(|input| input.name.clone()).collect();
        let view = |name: &String| inputs.iter().find(|(of, _)| of == name).unwrap().1;
        engine.run(&names.iter().map(view).collect::<Vec<_>>()).unwrap();
        engine
    };
    let output = |engine: &RtenEngine, name: &str| {
        let at = engine.outputs().iter().position(|output| output.name == name).unwrap();
        floats(engine.output(at).unwrap())
    };
    let [_, rows, columns] = FEATURES;
    assert_eq!((DEPTHS, rows, columns), (6, 4, 8));
    let depth_images = rig.depth_images(points, present);
    assert!(depth_images.iter().filter(|&&depth| depth > 0.0).count() > 5);
    let images = images(present);
    let given = [
        ("img", view(&[1, 2, 3, 32, 64], &images)),
        ("depth", view(&[1, 2, 1, 32, 64], &depth_images)),
    ];
    let cameras = run(&backbone, &given);
    let [depths, features] =
        ["camera_depth_weights", "camera_feature"].map(|name| output(&cameras, name));
    let (pooled, num_inside) = rig.pooled(&depths, &features, present);
    assert!(num_inside > 50, "{num_inside} points of frustums are in the map");
    let map = view(&[1, CHANNELS, CAMERA_MAP[0], CAMERA_MAP[1]], &pooled);
    let of_cameras = output(&run(&transform, &[("feat_in", map)]), "feat_out");
    let of_points = encoded(&encoder, points);
    let of_cameras = view(&[1, CHANNELS, MAP[0], MAP[1]], &of_cameras);
    let fused = run(&fuser, &[("camera", of_cameras), ("lidar", of_points.view())]);
    let head = run(&head, &[("middle", fused.output(0).unwrap())]);
    decoded(|name| output(&head, name))
}

fn assert_are(found: &[Detection3d], expected: &[Proposal], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: {found:?} {expected:?}");
    for (found, expected) in found.iter().zip(expected) {
        let bbox = found.object.bbox;
        let turned = (bbox.yaw_rad - expected.yaw).rem_euclid(std::f32::consts::TAU);
        assert!(
            turned.min(std::f32::consts::TAU - turned) < 2e-3,
            "{what}: {found:?} {expected:?}"
        );
        assert_eq!(found.class, expected.class, "{what}");
        let extents = [bbox.length_m, bbox.width_m, bbox.height_m];
        let velocity = found.object.velocity_mps.unwrap();
        let pairs = bbox.center.iter().zip(&expected.center);
        let pairs = pairs.chain(extents.iter().zip(&expected.extents));
        let pairs = pairs.chain(velocity.iter().zip(&expected.velocity));
        for (a, b) in pairs.chain([(&found.score, &expected.score)]) {
            assert!((a - b).abs() < 1e-3, "{what}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn five_files_give_the_detections_of_their_parts() {
    let folder = tempfile::tempdir().unwrap();
    let config = channel(folder.path(), &[]);
    let points = points(90);
    let mut all = Vec::new();
    for present in [[true, true], [true, false], [false, true]] {
        let mut detector = detectors::open(&config, DeviceChoice::Cpu).unwrap();
        assert_eq!(detector.inputs().len(), 3);
        detector.warm_up().unwrap();
        for moved in [0.0, 0.4, 0.0] {
            let rig = rig(moved);
            let found = rig.detect(&mut *detector, &points, present);
            let expected = expected(&rig, folder.path(), &points, present);
            assert!(expected.len() > 2, "{expected:?}");
            assert_are(&found, &expected, &format!("{present:?} {moved}"));
            all.push(format!("{found:?}"));
        }
        assert!(rig(0.0).detect(&mut *detector, &[], [true, true]).is_empty());
    }
    let is_same = |a: usize, b: usize| all[a] == all[b];
    assert!(is_same(0, 2) && is_same(3, 5) && is_same(6, 8), "frames are independent");
    assert!(!is_same(0, 1) && !is_same(0, 3) && !is_same(0, 6) && !is_same(6, 7));
}

/// Our dense layers, which run on a GPU, cover the four networks, with the numbers of another engine.
#[test]
fn dense_layers_compute_all_four_networks() {
    let folder = tempfile::tempdir().unwrap();
    five_onnx::save(folder.path(), 2).unwrap();
    let shape_of = |input: &TensorSpec| {
        let fixed = |dim: &Dim| match dim {
            Dim::Fixed(length) => *length,
            Dim::Dynamic => panic!("{input}"),
        };
        Ok(input.shape.iter().flatten().map(fixed).collect())
    };
    let mut random = Random::new(17);
    let [backbone, transform, _, fuser, head] = NAMES;
    for (name, part) in [
        (backbone, NetworkPart::Whole),
        (transform, NetworkPart::Whole),
        (fuser, NetworkPart::Whole),
        (head, NetworkPart::Proposals),
    ] {
        let path = folder.path().join(name);
        let network = Network::of_file(&path, part, Precision::F32, &shape_of).unwrap();
        let shapes = network.input_shapes.clone();
        let mut dense = DenseEngine::new(network).unwrap();
        let options = EngineOptions { part, threads: Some(1), ..EngineOptions::default() };
        let mut rten = RtenEngine::with_options(&path, &options).unwrap();
        let mut values = |shape: &Vec<usize>| -> Vec<f32> {
            (0..shape.iter().product()).map(|_| random.range(-1.0, 1.0)).collect()
        };
        let inputs: Vec<Vec<f32>> = shapes.iter().map(&mut values).collect();
        let inputs: Vec<_> =
            shapes.iter().zip(&inputs).map(|(shape, values)| view(shape, values)).collect();
        dense.run(&inputs).unwrap();
        rten.run(&inputs).unwrap();
        for (at, output) in rten.outputs().iter().enumerate() {
            let [found, expected] = [dense.output(at), rten.output(at)].map(|of| of.unwrap());
            assert_eq!(found.shape(), expected.shape(), "{output}");
            for (found, expected) in numbers(found).iter().zip(numbers(expected)) {
                assert!((found - expected).abs() < 1e-4, "{output}: {found} {expected}");
            }
        }
    }
}

/// Floats, and integers as floats.
fn numbers(view: TensorView<'_>) -> Vec<f32> {
    match view.values() {
        TensorValues::I32(values) => values.iter().map(|&value| value as f32).collect(),
        TensorValues::I64(values) => values.iter().map(|&value| value as f32).collect(),
        _ => floats(view),
    }
}

/// Each file in a form that does not fit is refused with its path and key, and what to do.
#[test]
fn files_that_do_not_fit_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let config = channel(folder.path(), &[]);
    let head = |from: &str, to: &str| FACTS.replace(from, to).into_bytes();
    let rows_along_y = five_onnx::encoder("xzy").to_bytes();
    let open_shape = five_onnx::transform().to_bytes();
    let [backbone, transform, encoder, fuser, model] = NAMES;
    for (name, bytes, key, part) in [
        (
            backbone,
            five_onnx::backbone(2, "QuantizeLinear").to_bytes(),
            "image_backbone_path",
            "use the file of the fp16 export",
        ),
        (backbone, five_onnx::backbone(3, "Relu").to_bytes(), "image_backbone_path", "input img"),
        (backbone, open_shape, "image_backbone_path", "the model has no input for tensor \"img\""),
        (transform, five_onnx::fuser(8).to_bytes(), "camera_transform_path", "\"feat_in\""),
        (encoder, rows_along_y, "encoder_path", "as `lidar.backbone.xyz.onnx`"),
        (fuser, five_onnx::fuser(7).to_bytes(), "fuser_path", "input lidar"),
        (fuser, b"no network".to_vec(), "fuser_path", "no ONNX file"),
        (model, five_onnx::head("heatmap").to_bytes(), "model_path", "there is no output score"),
        (model, five_onnx::transform().to_bytes(), "model_path", "\"middle\""),
    ] {
        let path = folder.path().join(name);
        let before = std::fs::read(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let error = detectors::open(&config, DeviceChoice::Cpu).err().unwrap().to_string();
        assert!(error.contains(part) && error.contains(name), "{name}: {error}");
        assert!(error.contains(&format!("l.{key}")), "{name}: {error}");
        std::fs::write(&path, before).unwrap();
    }
    detectors::open(&config, DeviceChoice::Cpu).unwrap();
    // Images that do not fill the input after their resize.
    std::fs::write(folder.path().join("head.yaml"), head("0.6", "0.4")).unwrap();
    let small = channel(folder.path(), &[]);
    let mut detector = detectors::open(&small, DeviceChoice::Cpu).unwrap();
    let error = rig(0.0).refused(&mut *detector, &points(90));
    assert!(error.contains("128x72 is 51x28 after the resize"), "{error}");
    assert!(error.contains("raise `image_scale`"), "{error}");
}

#[cfg(feature = "cuda")]
#[test]
fn five_files_on_both_devices_give_the_same() {
    if det_post_testing::gpu().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = channel(folder.path(), &[]);
    let mut on_cpu = detectors::open(&config, DeviceChoice::Cpu).unwrap();
    let mut on_gpu = detectors::open(&config, DeviceChoice::Cuda(0)).unwrap();
    // All four networks in dense layers of our own.
    let dense = channel(folder.path(), &["engine.kind:=cuda", "engine.tf32:=false"]);
    let mut in_layers = detectors::open(&dense, DeviceChoice::Cuda(0)).unwrap();
    for (num, present, moved) in [
        (90, [true, true], 0.0),
        (3, [true, false], 0.0),
        (200, [true, true], 0.3),
        (0, [true, true], 0.3),
        (90, [false, true], 0.0),
    ] {
        let (rig, points) = (rig(moved), points(num));
        let expected = rig.detect(&mut *on_cpu, &points, present);
        assert_eq!(rig.detect(&mut *on_gpu, &points, present), expected, "{num} {present:?}");
        let found = rig.detect(&mut *in_layers, &points, present);
        assert_eq!(found.len(), expected.len(), "{num} {present:?}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.class, expected.class, "{num} {present:?}");
            assert!((found.score - expected.score).abs() < 1e-3, "{num} {present:?}");
            let centers = found.object.bbox.center.iter().zip(&expected.object.bbox.center);
            assert!(centers.into_iter().all(|(a, b)| (a - b).abs() < 1e-2), "{num} {present:?}");
        }
    }
}
