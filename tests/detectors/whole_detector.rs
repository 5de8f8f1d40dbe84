//! A LiDAR channel whose network's file holds the whole detector, as Autoware exports BEVFusion: a sparse encoder
//! and the network behind its map.

use std::collections::HashMap;
use std::path::Path;

use det_post::config::{ChannelConfig, Config};
use det_post::detectors::{self, Detector};
use det_post_infer::sparse::{self, CpuEncoder, GridAxes, Plan};
use det_post_infer::{Engine, RtenEngine};
use det_post_ops::sparse::conv::Precision;
use det_post_testing::clouds::Cloud;
use det_post_testing::fused_onnx::{NUM_PROPOSALS as NUM_CELLS, lidar};
use det_post_testing::sparse_onnx::File;
use det_post_types::{
    Box3d, Detection3d, DeviceChoice, ElementType, Object3d, Stamp, Tensor, TensorValues,
    TensorView,
};

use crate::common::detect::in_cloud;

/// The grid of the test encoder, [8, 6, 8] cells along x y z; its own has one more along z.
const FACTS: &str = "\
sensor: lidar
encoder: none
kind: bevfusion
class_names: [CAR, TRUCK, BUS]
point_range_m: [-2.0, -1.5, -1.0, 2.0, 1.5, 3.0]
voxel_size_m: [0.5, 0.5, 0.5]
max_points_per_voxel: 10
voxel_capacity: 400
min_voxels: 1
point_channels: []
input_names: [voxels, num_points, coors]
coordinates: zyx
output_names: [bbox_pred, score, label_pred]
downsample_factor: 2
";
const MIN: [f32; 3] = [-2.0, -1.5, -1.0];

const AXES: [GridAxes; 2] = [GridAxes::Zyx, GridAxes::Xyz];

/// A channel with this network in a folder, and these parameters.
fn channel(folder: &Path, network: &File, more: &[&str]) -> ChannelConfig {
    let (head, model) = (folder.join("head.yaml"), folder.join("detector.onnx"));
    std::fs::write(&head, FACTS).unwrap();
    std::fs::write(&model, network.to_bytes()).unwrap();
    let given = [
        "l.input:=/points".to_owned(),
        format!("l.head:={}", head.display()),
        format!("l.model_path:={}", model.display()),
        "l.engine.kind:=rten".to_owned(),
        "l.encoder.precision:=f32".to_owned(),
        "l.nms.kind:=none".to_owned(),
        "l.score_thresholds:=[0.4]".to_owned(),
        "l.densification.num_past_sweeps:=0".to_owned(),
    ];
    let more = more.iter().map(|text| format!("l.{text}"));
    let given: Vec<String> = given.into_iter().chain(more).collect();
    Config::load(&[], &given).unwrap().channels.remove(0)
}

/// Points in a part of the cells, some cells with more than a network takes.
fn points(num: usize) -> Vec<[f32; 3]> {
    let place = |at: usize, axis: usize| {
        let cell = (at / 3 * [7, 5, 11][axis]) % [8, 6, 8][axis];
        let within = ((at * 13 + axis * 5) % 10) as f32 / 20.0;
        MIN[axis] + 0.5 * cell as f32 + within
    };
    (0..num).map(|at| [0, 1, 2].map(|axis| place(at, axis))).collect()
}

fn detect(detector: &mut dyn Detector, points: &[[f32; 3]], at: i64) -> Vec<Detection3d> {
    let cloud = Cloud::plain(points.as_flattened(), &[]);
    in_cloud(detector, &cloud.view(), Stamp::from_nanos(at), None).unwrap().detections
}

/// The proposals of the network, from the parts of its file by themselves.
fn expected(file: &File, points: &[[f32; 3]]) -> Vec<(f32, u32, Object3d)> {
    let parsed = sparse::parse(&file.to_bytes()).unwrap();
    let places = parsed.network.axes.of_zyx();
    let mut voxels: Vec<([i32; 3], Vec<[f32; 3]>)> = Vec::new();
    let mut place_of = HashMap::new();
    for point in points {
        let zyx = [2, 1, 0].map(|axis| ((point[axis] - MIN[axis]) / 0.5).floor() as i32);
        let at = *place_of.entry(zyx).or_insert_with(|| {
            voxels.push((zyx, Vec::new()));
            voxels.len() - 1
        });
        voxels[at].1.push(*point);
    }
    let mean = |points: &[[f32; 3]]| {
        let kept = &points[..points.len().min(10)];
        [0, 1, 2].map(|axis| kept.iter().map(|p| p[axis]).sum::<f32>() / kept.len() as f32)
    };
    let means: Vec<[f32; 3]> = voxels.iter().map(|(_, points)| mean(points)).collect();
    let sites: Vec<[i32; 4]> = voxels
        .iter()
        .map(|(zyx, _)| {
            let [a, b, c] = places.map(|place| zyx[place]);
            [0, a, b, c]
        })
        .collect();
    let capacities = parsed.network.default_capacities(400);
    let plan = Plan::new(parsed.network, &capacities).unwrap();
    let mut map = Tensor::zeros(ElementType::F32, &plan.network().map_shape()).unwrap();
    let mut encoder = CpuEncoder::new(plan, Precision::F32, 1).unwrap();
    encoder.run(&sites, means.as_flattened(), &mut map).unwrap();

    let rest = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(rest.path(), parsed.rest.unwrap()).unwrap();
    let mut engine = RtenEngine::load(rest.path(), Some(1)).unwrap();
    engine.run(&[map.view()]).unwrap();
    proposals([0, 1, 2].map(|output| engine.output(output).unwrap()))
}

fn proposals([boxes, scores, labels]: [TensorView<'_>; 3]) -> Vec<(f32, u32, Object3d)> {
    let (TensorValues::F32(boxes), TensorValues::F32(scores), TensorValues::I32(labels)) =
        (boxes.values(), scores.values(), labels.values())
    else {
        panic!("{labels:?}")
    };
    let object = |at: usize| {
        let channel = |channel: usize| boxes[channel * NUM_CELLS + at];
        let bbox = Box3d {
            center: [channel(0) + MIN[0], channel(1) + MIN[1], channel(2)],
            length_m: channel(3).exp(),
            width_m: channel(4).exp(),
            height_m: channel(5).exp(),
            yaw_rad: channel(6).atan2(channel(7)),
        };
        Object3d { bbox, velocity_mps: Some([channel(8), channel(9)]), variance: None }
    };
    let mut all: Vec<_> =
        (0..NUM_CELLS).map(|at| (scores[at], labels[at] as u32, object(at))).collect();
    all.retain(|(score, ..)| *score >= 0.4);
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all
}

fn numbers(of: &Object3d) -> [f32; 9] {
    let Box3d { center: [x, y, z], length_m, width_m, height_m, yaw_rad } = of.bbox;
    let [vx, vy] = of.velocity_mps.unwrap();
    [x, y, z, length_m, width_m, height_m, yaw_rad, vx, vy]
}

#[test]
fn encoder_and_network_of_one_file_give_the_detections_of_its_parts() {
    for axes in AXES {
        let (folder, file) = (tempfile::tempdir().unwrap(), lidar(axes == GridAxes::Xyz));
        let config = channel(folder.path(), &file, &[]);
        let mut detector = detectors::open(&config, DeviceChoice::Cpu).unwrap();
        for num in [400, 90, 3] {
            let points = points(num);
            let found = detect(&mut *detector, &points, num as i64);
            let expected = expected(&file, &points);
            assert!(expected.len() > 3, "{axes}: {expected:?}");
            assert_eq!(found.len(), expected.len(), "{axes} {num}: {found:?}, {expected:?}");
            for (found, (score, class, object)) in found.iter().zip(&expected) {
                assert_eq!(found.class, *class, "{axes} {num}");
                assert!((found.score - score).abs() < 1e-5, "{axes} {num}");
                for (found, expected) in numbers(&found.object).iter().zip(numbers(object)) {
                    assert!((found - expected).abs() < 1e-4, "{axes} {num}: {found} {expected}");
                }
            }
        }
        assert!(detect(&mut *detector, &[], 1000).is_empty(), "{axes}: no voxels");
    }
}

/// An encoder without a network behind its map, and options of the encoder.
#[test]
fn what_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = lidar(false);
    let config = channel(folder.path(), &file, &["encoder.level_capacities:=[1]"]);
    let error = detectors::open(&config, DeviceChoice::Cpu).err().unwrap();
    assert!(error.message().contains("encoder.level_capacities has 1 value"), "{error}");
    file.outputs = vec![("map".into(), vec![1, 8, 3, 4])];
    file.integer_outputs.clear();
    let config = channel(folder.path(), &file, &[]);
    let error = detectors::open(&config, DeviceChoice::Cpu).err().unwrap();
    let expected = "ends at the map map: it is an encoder without the network behind it";
    assert!(error.message().contains(expected), "{error}");
}

#[cfg(feature = "cuda")]
#[test]
fn both_devices_give_the_same_bytes() {
    if det_post_testing::gpu().is_none() {
        return;
    }
    for axes in AXES {
        let (folder, file) = (tempfile::tempdir().unwrap(), lidar(axes == GridAxes::Xyz));
        let config = channel(folder.path(), &file, &[]);
        let [mut on_cpu, mut on_gpu] = [DeviceChoice::Cpu, DeviceChoice::Cuda(0)]
            .map(|device| detectors::open(&config, device).unwrap());
        for num in [400, 3, 90, 0, 200] {
            let points = points(num);
            let expected = detect(&mut *on_cpu, &points, num as i64);
            assert_eq!(detect(&mut *on_gpu, &points, num as i64), expected, "{axes} {num}");
        }
    }
}
