//! A LiDAR channel whose network is sparse up to its outputs (VoxelNeXt): on the CPU from its parts by themselves,
//! from a recording to messages, and on a GPU as on the CPU.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use det_post::config::{ChannelConfig, Config};
use det_post::detectors::{self, Detector};
use det_post_infer::sparse::{CpuEncoder, Plan, parse};
use det_post_ops::decode::sites::{SiteTask, decode_sites};
use det_post_ops::sparse::conv::Precision;
use det_post_testing::clouds::Cloud;
use det_post_testing::random::Random;
use det_post_testing::sparse_onnx::{File, scn};
use det_post_testing::voxelnext::{SMALL, VoxelNext, voxels};
use det_post_types::{
    Box3d, Candidate, Candidates, DeviceChoice, ErrorKind, Object3d, ScoreThresholds, SiteDecode,
    SizeOrder, Stamp, YawConvention,
};

use crate::common::counting_voxels::{FIELDS, TOPIC, write_bag};
use crate::common::detect::{Detected, in_cloud};
use crate::common::drop_in::proposals::last_message;
use crate::common::replay::replay;

/// The grid of the small network, whose own has one more cell along z.
const FACTS: &str = "\
sensor: lidar
encoder: sites
kind: voxelnext
class_names: [CAR, TRUCK, PEDESTRIAN]
point_range_m: [-3.2, -4.8, -1.0, 3.2, 4.8, 3.0]
voxel_size_m: [0.1, 0.1, 0.1]
max_points_per_voxel: 5
voxel_capacity: 3000
point_channels: [intensity]
tasks: [[CAR], [TRUCK, PEDESTRIAN]]
downsample_factor: 8
size_order: length_width_height
yaw: counter_clockwise
has_velocity: true
iou_weights: [0.68, 0.71, 0.65]
";
const MIN: [f32; 3] = [-3.2, -4.8, -1.0];

type Point = [f32; 4];

/// A channel with this network in a folder, and these parameters.
fn given(folder: &Path, network: &File, more: &[&str]) -> Vec<String> {
    let (head, model) = (folder.join("head.yaml"), folder.join("voxelnext.onnx"));
    fs::write(&head, FACTS).unwrap();
    fs::write(&model, network.to_bytes()).unwrap();
    let given = [
        format!("lidar.input:={TOPIC}"),
        format!("lidar.head:={}", head.display()),
        format!("lidar.model_path:={}", model.display()),
        "lidar.encoder.precision:=f32".to_owned(),
        "lidar.nms.kind:=none".to_owned(),
        "lidar.score_thresholds:=[0.4]".to_owned(),
        "lidar.densification.num_past_sweeps:=0".to_owned(),
    ];
    let more = more.iter().map(|text| format!("lidar.{text}"));
    given.into_iter().chain(more).collect()
}

fn channel(folder: &Path, network: &File, more: &[&str]) -> ChannelConfig {
    Config::load(&[], &given(folder, network, more)).unwrap().channels.remove(0)
}

/// Points in clusters of cells, not at their borders, some cells with more than five.
fn points(seed: u64, num: usize) -> Vec<Point> {
    let mut random = Random::new(seed);
    let (cells, _) = voxels(&mut random, [40, 96, 64], num.div_ceil(3), 0);
    let point = |at: usize, random: &mut Random| {
        let [_, z, y, x] = cells[at * at % cells.len()];
        let place = |axis: usize, cell: i32, within: f32| MIN[axis] + 0.1 * (cell as f32 + within);
        let within = [0; 3].map(|_| random.range(0.2, 0.8));
        [
            place(0, x, within[0]),
            place(1, y, within[1]),
            place(2, z, within[2]),
            random.range(0.0, 1.0),
        ]
    };
    (0..num).map(|at| point(at, &mut random)).collect()
}

fn detect(
    detector: &mut dyn Detector,
    points: &[Point],
    at: i64,
) -> Detected<det_post_types::Detection3d> {
    let cloud = Cloud::plain(points.as_flattened(), &["intensity"]);
    in_cloud(detector, &cloud.view(), Stamp::from_nanos(at), None).unwrap()
}

/// The means of voxels with up to five points, by cell (0, z, y, x).
fn means(points: &[Point]) -> (Vec<[i32; 4]>, Vec<f32>) {
    let mut cells: Vec<([i32; 4], Vec<Point>)> = Vec::new();
    let mut place_of = HashMap::new();
    for point in points {
        let cell = [2, 1, 0].map(|axis| ((point[axis] - MIN[axis]) / 0.1).floor() as i32);
        let cell = [0, cell[0], cell[1], cell[2]];
        let at = *place_of.entry(cell).or_insert_with(|| {
            cells.push((cell, Vec::new()));
            cells.len() - 1
        });
        cells[at].1.push(*point);
    }
    let mean = |points: &Vec<Point>| {
        let kept = &points[..points.len().min(5)];
        [0, 1, 2, 3].map(|c| kept.iter().map(|p| p[c]).sum::<f32>() / kept.len() as f32)
    };
    let features = cells.iter().flat_map(|(_, points)| mean(points)).collect();
    (cells.iter().map(|(cell, _)| *cell).collect(), features)
}

/// The candidates of the network, from its file and the decoder by themselves.
fn expected(file: &File, points: &[Point]) -> Vec<Candidate<Object3d>> {
    let network = parse(&file.to_bytes()).unwrap().network;
    let names: Vec<String> = network.site_outputs.iter().map(|of| of.name.clone()).collect();
    let capacities = network.default_capacities(3000);
    let plan = Plan::new(network, &capacities).unwrap();
    let mut encoder = CpuEncoder::new(plan, Precision::F32, 1).unwrap();
    let (cells, features) = means(points);
    encoder.run_on_sites(&cells, &features).unwrap();
    let output = |name: &str, task: usize| {
        let name = format!("{name}_{task}");
        encoder.site_output(names.iter().position(|of| *of == name).unwrap()).unwrap()
    };
    let tasks = [0, 1].map(|task| SiteTask {
        heatmap: output("hm", task),
        offset: output("center", task),
        height: output("center_z", task),
        size: output("dim", task),
        rotation: output("rot", task),
        velocity: Some(output("vel", task)),
        iou: Some(output("iou", task)),
    });
    let params = SiteDecode {
        origin_m: [MIN[0], MIN[1]],
        cell_size_m: [0.1 * 8.0; 2],
        tasks: vec![vec![0], vec![1, 2]],
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(0.4, 3),
        yaw_norm_thresholds: Vec::new(),
        iou_weights: vec![0.68, 0.71, 0.65],
        center_range: None,
        has_velocity: true,
    };
    let mut candidates = Candidates::with_capacity(1000);
    decode_sites(&tasks, encoder.last_sites(), &params, &mut candidates).unwrap();
    candidates.finish(1000);
    candidates.as_slice().to_vec()
}

fn numbers(of: &Object3d) -> [f32; 9] {
    let Box3d { center: [x, y, z], length_m, width_m, height_m, yaw_rad } = of.bbox;
    let [vx, vy] = of.velocity_mps.unwrap();
    [x, y, z, length_m, width_m, height_m, yaw_rad, vx, vy]
}

#[test]
fn sites_become_detections() {
    let (folder, file) = (tempfile::tempdir().unwrap(), SMALL.file());
    let config = channel(folder.path(), &file, &[]);
    let mut detector = detectors::open(&config, DeviceChoice::Cpu).unwrap();
    for num in [900, 60, 4] {
        let points = points(num as u64, num);
        let found = detect(&mut *detector, &points, num as i64);
        let expected = expected(&file, &points);
        assert!(!expected.is_empty(), "{num}");
        assert_eq!(found.detections.len(), expected.len(), "{num}");
        for (found, expected) in found.detections.iter().zip(&expected) {
            assert_eq!(found.class, expected.class, "{num}");
            assert!((found.score - expected.score).abs() < 1e-5, "{num}");
            for (found, expected) in numbers(&found.object).iter().zip(numbers(&expected.bbox)) {
                let bound = 1e-4 * expected.abs().max(1.0);
                assert!((found - expected).abs() < bound, "{num}: {found} {expected}");
            }
        }
        assert_eq!(found.report.levels().len(), 8, "sites of every level");
        assert!(found.report.levels().iter().all(|level| level.num_sites > 0));
    }
    assert!(detect(&mut *detector, &[], 1000).detections.is_empty(), "no voxels");
}

/// A recording to messages of Autoware, twice the same bytes.
#[test]
fn a_recording_becomes_detected_objects() {
    let folder = tempfile::tempdir().unwrap();
    let clouds = [points(1, 800), vec![], points(2, 200)];
    let flat: Vec<Vec<f32>> = clouds.iter().map(|points| points.concat()).collect();
    let bag = folder.path().join("drive");
    write_bag(&bag, &FIELDS, &flat);
    let parameters = given(
        folder.path(),
        &SMALL.file(),
        &["output:=/objects", "output_type:=detected_objects", "engine.threads:=1"],
    );
    let config = folder.path().join("empty.yaml");
    fs::write(&config, "/**:\n  ros__parameters: {}\n").unwrap();
    let run =
        |out: &str| replay(&bag, config.to_str().unwrap(), &parameters, &folder.path().join(out));
    let first = run("first");
    first.expect_code(0);
    let lines = first.lines();
    let num = |line: usize| lines[line]["detections_3d"].as_array().unwrap().len();
    let expected = clouds.each_ref().map(|points| match points.len() {
        0 => 0,
        _ => expected(&SMALL.file(), points).len(),
    });
    assert_eq!([0, 1, 2].map(num), expected);
    assert!(expected[2] > 10, "{expected:?}");
    // A header, a count, and the objects, of 300 bytes and more each.
    let message = last_message(&first, "/objects");
    assert!(message.len() > 300 * expected[2], "{} bytes", message.len());
    let levels = first.report()["channels"]["lidar"]["levels"].as_array().unwrap().len();
    assert_eq!(levels, 8);
    let again = run("again");
    again.expect_code(0);
    assert_eq!(again.bytes("detections.jsonl"), first.bytes("detections.jsonl"));
}

#[test]
fn networks_and_heads_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |network: &File, more: &[&str], expected: &str| {
        let config = channel(folder.path(), network, more);
        let error = detectors::open(&config, DeviceChoice::Cpu).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Model, "{error}");
        assert!(error.message().contains(expected), "{error}");
    };
    let of = |change: fn(&mut VoxelNext<'static>)| {
        let mut network = SMALL;
        change(&mut network);
        network.file()
    };
    refused(&of(|of| of.has_iou = false), &[], "overlap \"iou_0\"");
    refused(&of(|of| of.tasks = &[1, 1]), &[], "hm_1");
    refused(&of(|of| of.tasks = &[1]), &[], "hm_1");
    refused(&of(|of| of.num_features = 5), &[], "a voxel has 5 channels, the head has 4");
    refused(&of(|of| of.grid = [41, 96, 72]), &[], "its grid has [41, 96, 72] cells");
    // An encoder with a map.
    let mut map = scn();
    map.half = false;
    map.inputs[0].2 = vec![-1, 3];
    let config = channel(folder.path(), &map, &[]);
    assert!(detectors::open(&config, DeviceChoice::Cpu).is_err());
    let cases = [
        ("kind: voxelnext", "kind: center", "voxelnext` with `encoder: sites"),
        ("iou_weights: [0.68, 0.71, 0.65]", "iou_weights: [0.68, 0.71]", "iou_weights"),
        ("[[CAR], [TRUCK, PEDESTRIAN]]", "[[CAR], [TRUCK]]", "tasks"),
    ];
    for (from, to, expected) in cases {
        let parameters = given(folder.path(), &SMALL.file(), &[]);
        fs::write(folder.path().join("head.yaml"), FACTS.replace(from, to)).unwrap();
        let error = Config::load(&[], &parameters).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
    }
    let mut parameters = given(folder.path(), &SMALL.file(), &[]);
    parameters.push("lidar.encoder.level_capacities:=[1]".into());
    let config = Config::load(&[], &parameters).unwrap().channels.remove(0);
    let error = detectors::open(&config, DeviceChoice::Cpu).err().unwrap();
    assert!(error.message().contains("encoder.level_capacities has 1 value"), "{error}");
}

#[cfg(feature = "cuda")]
#[test]
fn both_devices_give_the_same_detections() {
    use det_post_testing::check_near;
    if det_post_testing::gpu().is_none() {
        return;
    }
    for more in [&[][..], &["encoder.level_capacities:=[900, 400, 60, 20, 6, 30, 40]"]] {
        let (folder, file) = (tempfile::tempdir().unwrap(), SMALL.file());
        let config = channel(folder.path(), &file, more);
        let [mut on_cpu, mut on_gpu] = [DeviceChoice::Cpu, DeviceChoice::Cuda(0)]
            .map(|device| detectors::open(&config, device).unwrap());
        for num in [900, 3, 400, 0, 2000] {
            let points = points(num as u64, num);
            let expected = detect(&mut *on_cpu, &points, num as i64);
            let found = detect(&mut *on_gpu, &points, num as i64);
            assert_eq!(found.report.levels(), expected.report.levels(), "{more:?} {num}");
            assert_eq!(found.detections.len(), expected.detections.len(), "{more:?} {num}");
            for (a, b) in found.detections.iter().zip(&expected.detections) {
                assert_eq!(a.class, b.class, "{more:?} {num}");
                check_near((a.score, &a.object), (b.score, &b.object), &format!("{more:?} {num}"));
            }
        }
    }
}
