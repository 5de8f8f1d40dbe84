//! LiDAR channels with a sparse encoder, from a recording to detections and a report.

use crate::common;

use std::fs;
use std::path::Path;

use common::counting_voxels::{self, Expected, FIELDS, Point};
use common::encoders::{self, Family};
use common::npz::Npz;
use common::onnx::{Attr, Graph};
use common::replay::{Run, det_post, replay};
use common::shared_data::shared_data;
use common::sparse_onnx;
use det_post_types::ElementType::F32;
use half::f16;
use serde_json::{Value, json};

/// Capacities that no cloud here reaches.
const AMPLE: [usize; 4] = [2000, 3500, 2500, 1400];

/// Replays clouds through the networks that count voxels.
fn replayed(folder: &Path, clouds: &[Vec<Point>], parameters: &[String], out: &str) -> Run {
    let config = counting_voxels::write(folder);
    let bag = folder.join("drive");
    if !bag.exists() {
        let clouds: Vec<Vec<f32>> = clouds.iter().map(|points| points.concat()).collect();
        counting_voxels::write_bag(&bag, &FIELDS, &clouds);
    }
    let run = replay(&bag, config.to_str().unwrap(), parameters, &folder.join(out));
    run.expect_code(0);
    run
}

/// Compares detections, losses and sites with what clouds should give.
fn compare(run: &Run, clouds: &[Vec<Point>], capacities: [usize; 4]) {
    let expected: Vec<Expected> =
        clouds.iter().map(|points| Expected::new(points, capacities)).collect();
    let lines = run.lines();
    assert_eq!(lines.len(), clouds.len());
    for (line, expected) in lines.iter().zip(&expected) {
        expected.compare(line);
    }
    let report = run.report();
    let channel = &report["channels"]["lidar"];
    let sum = |of: &dyn Fn(&Expected) -> usize| expected.iter().map(of).sum::<usize>();
    for (counter, num) in [
        ("points_not_finite", sum(&|e| e.num_not_finite)),
        ("points_out_of_range", sum(&|e| e.num_out_of_range)),
        ("points_over_voxel", sum(&|e| e.num_over_voxel)),
        ("voxels_over_capacity", sum(&|e| e.num_over_capacity[0])),
        ("points_over_voxel_capacity", sum(&|e| e.num_over_capacity[1])),
        ("sites_over_capacity", sum(&|e| e.levels.iter().map(|[_, over]| over).sum())),
        ("sites_without_output", 0),
    ] {
        let found = channel["truncated"].get(counter).map_or(0, |found| found.as_u64().unwrap());
        assert_eq!(found, num as u64, "{counter}");
    }
    let level = |level: usize| {
        json!({
            "level": level,
            "sites_mean": sum(&|e| e.levels[level][0]) / expected.len(),
            "sites_max": expected.iter().map(|e| e.levels[level][0]).max(),
            "over_capacity": sum(&|e| e.levels[level][1]),
            "inputs_without_output": 0,
        })
    };
    assert_eq!(channel["levels"], Value::from_iter((0..4).map(level)));
}

#[test]
fn columns_of_voxels_are_found_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    // A full cloud, one without points, one without points inside, a single point.
    let far = vec![[100.0, 0.0, 0.0, 0.5]; 9];
    let one = vec![[0.1, 0.2, -0.3, 0.25]];
    let clouds =
        [counting_voxels::cloud(1, 3000), vec![], far, one, counting_voxels::cloud(2, 700)];
    let first = replayed(folder.path(), &clouds, &[], "first");
    compare(&first, &clouds, AMPLE);
    let found = Expected::new(&clouds[0], AMPLE);
    assert!(found.num_columns() > 15 && found.num_not_finite > 100, "{found:?}");
    assert!(found.num_over_voxel > 10 && found.num_out_of_range > 50, "{found:?}");

    let again = replayed(folder.path(), &clouds, &[], "again");
    assert!(again.bytes("detections.jsonl") == first.bytes("detections.jsonl"));
    let isolated = replayed(folder.path(), &clouds, &["lidar.isolate:=true".into()], "isolated");
    assert!(isolated.bytes("detections.jsonl") == first.bytes("detections.jsonl"));
    compare(&isolated, &clouds, AMPLE);
}

#[test]
fn anchors_are_decoded_on_the_map_of_voxels() {
    let folder = tempfile::tempdir().unwrap();
    let config = counting_voxels::write_anchors(folder.path());
    let cloud = counting_voxels::cloud(5, 2000);
    counting_voxels::write_bag(&folder.path().join("drive"), &FIELDS, &[cloud.concat()]);
    let out = folder.path().join("out");
    let run = replay(&folder.path().join("drive"), config.to_str().unwrap(), &[], &out);
    run.expect_code(0);
    let columns = Expected::new(&cloud, AMPLE).voxels_of_columns();
    let ([length, width, height], center_z) = counting_voxels::ANCHOR;
    let lines = run.lines();
    let detections = lines[0]["detections_3d"].as_array().unwrap();
    assert!(detections.len() == columns.len() && columns.len() > 15, "{}", detections.len());
    for found in detections {
        let number = |value: &Value| value.as_f64().unwrap();
        // Anchors stand from border to border of the crop box.
        let cell = [0, 1].map(|axis: usize| {
            let num = counting_voxels::CELLS[axis];
            let length = f64::from(counting_voxels::SIZE[axis]) * f64::from(num);
            let place = number(&found["center"][axis]) - f64::from(counting_voxels::MIN[axis]);
            let cell = place / length * f64::from(num / 8 - 1);
            assert!((cell - cell.round()).abs() < 1e-4, "{found}");
            cell.round() as u32
        });
        let score = 1.0 / (1.0 + (1.0 - columns[&cell] / 4.0).exp());
        assert!((number(&found["score"]) - score).abs() < 1e-5, "{cell:?}: {found}, {score}");
        let size = [length, width, height].map(f64::from);
        for (found, expected) in found["size"].as_array().unwrap().iter().zip(size) {
            assert!((number(found) - expected).abs() < 1e-5, "{found}");
        }
        assert!((number(&found["center"][2]) - f64::from(center_z)).abs() < 1e-5, "{found}");
    }
}

#[test]
fn full_levels_lose_their_last_sites_and_count_them() {
    let folder = tempfile::tempdir().unwrap();
    let clouds = [counting_voxels::cloud(3, 3000), counting_voxels::cloud(4, 40)];
    let parameters = [
        "lidar.voxel_capacity:=300".to_owned(),
        "lidar.encoder.level_capacities:=[150, 60, 10]".to_owned(),
    ];
    let capacities = [300, 150, 60, 10];
    let run = replayed(folder.path(), &clouds, &parameters, "out");
    compare(&run, &clouds, capacities);
    let full = Expected::new(&clouds[0], capacities);
    assert_eq!(full.levels.map(|[sites, _]| sites), capacities);
    assert!(full.levels[1..].iter().all(|[_, over]| *over > 0), "{full:?}");
}

#[test]
fn encoders_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = counting_voxels::write(folder.path());
    let [config, head] = [&config, &folder.path().join("counting.yaml")]
        .map(|path| path.to_str().unwrap().to_owned());
    let facts = fs::read_to_string(&head).unwrap();
    let check = |parameter: &str| det_post(&["check", &config, "-p", parameter]);
    let fine = check("lidar.encoder.precision:=f16");
    fine.expect_code(0);
    assert!(fine.stdout.contains("\n# 3      1 3 6"), "{}", fine.stdout);
    let again = folder.path().join("again.yaml");
    fs::write(&again, &fine.stdout).unwrap();
    let loaded = det_post(&["check", again.to_str().unwrap()]);
    assert_eq!(loaded.stdout, fine.stdout);

    let short = check("lidar.encoder.level_capacities:=[9, 9]");
    assert_ne!(short.code, 0);
    assert!(
        short.stderr.contains("2 values, the encoder has 3 levels after the"),
        "{}",
        short.stderr
    );
    for (fact, other, message) in [
        ("[intensity]", "[intensity, ring]", "a voxel has 4 channels, the head has 5"),
        ("[intensity]", "[ring]", "are x y z intensity, the head's are x y z ring"),
        ("voxel_size_m: [0.25, 0.5", "voxel_size_m: [0.25, 0.25", "has [9, 24, 48] cells along z"),
    ] {
        fs::write(&head, facts.replace(fact, other)).unwrap();
        let refused = check("lidar.max_detections:=3");
        assert_ne!(refused.code, 0, "{other}");
        assert!(refused.stderr.contains(message), "{other}: {}", refused.stderr);
    }
}

#[test]
fn both_dialects_are_read_and_other_axes_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = counting_voxels::write(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let check = |file: &sparse_onnx::File, cells: [u32; 3]| {
        fs::write(path("encoder.onnx"), file.to_bytes()).unwrap();
        let [x, y, z] = cells;
        let head = include_str!("../../config/heads/second_kitti.yaml")
            .replace("[0.0, -40.0, -3.0, 70.4, 40.0, 1.0]", &format!("[0, 0, 0, {x}, {y}, {z}]"))
            .replace("[0.05, 0.05, 0.1]", "[1, 1, 1]")
            .replace("point_channels: [intensity]", "");
        fs::write(path("counting.yaml"), head).unwrap();
        det_post(&["check", config.to_str().unwrap(), "-p", "lidar.score_thresholds:=0.3"])
    };
    // One cell more along z than the head has, and as many.
    for cells in [[8, 6, 8], [8, 6, 9]] {
        for file in [sparse_onnx::scn(), sparse_onnx::autoware()] {
            let run = check(&file, cells);
            run.expect_code(0);
            assert!(run.stdout.contains("# map [1, 8, 3, 4]"), "{}", run.stdout);
        }
    }
    let mut other = sparse_onnx::scn();
    let dense = other.nodes.iter_mut().find(|node| node.op == "ScatterDense").unwrap();
    dense.set("format", Attr::Text("xyz"));
    let run = check(&other, [9, 6, 8]);
    assert_ne!(run.code, 0);
    let message = "its map has depth along x, rows along y and columns along z";
    assert!(run.stderr.contains(message), "{}", run.stderr);
}

/// A CenterPoint network of six tasks on a map, one convolution for each output.
fn six_tasks(map: [i64; 4]) -> Graph {
    let [_, channels, rows, columns] = map;
    let mut graph =
        Graph::new("six_tasks", "Weights from seeds, not trained.").input("input", F32, &map);
    let geometry = [
        ("kernel_shape", Attr::Ints(vec![1; 2])),
        ("strides", Attr::Ints(vec![1; 2])),
        ("pads", Attr::Ints(vec![0; 4])),
    ];
    for (task, num_classes) in [1, 2, 2, 1, 2, 2].into_iter().enumerate() {
        let outputs =
            [("reg", 2), ("height", 1), ("dim", 3), ("rot", 2), ("vel", 2), ("hm", num_classes)];
        for (name, num) in outputs {
            let name = format!("{name}_{task}");
            let [weight, bias] = ["weight", "bias"].map(|part| format!("{name}.{part}"));
            let weights = encoders::parameters(5, &name, (num * channels) as usize, -0.02, 0.02);
            // Few cells are above the threshold.
            let biases = vec![if name.starts_with("hm") { -3.0 } else { 0.1 }; num as usize];
            graph = graph
                .constant(&weight, &[num, channels, 1, 1], &weights)
                .constant(&bias, &[num], &biases)
                .node("Conv", &["input", &weight, &bias], &[&name], &geometry)
                .output(&name, F32, &[1, num, rows, columns]);
        }
    }
    graph
}

#[test]
fn the_scan_has_the_published_voxels_and_sites() {
    let Some(data) = shared_data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let means = Npz::open(&data.join("sparse/plain8x_scan.npz"));
    let layers = Family::Plain.layers(23, &means);
    fs::write(file("encoder.onnx"), encoders::scn(&layers, [41, 1440, 1440]).to_bytes()).unwrap();
    six_tasks([1, 256, 180, 180]).save(&file("head.onnx")).unwrap();
    let scan = data.join("scans/lidar-ai-solution/ff9eff4389a740848f9a56ad749a4ae8.bin");
    let scan = fs::read(scan).unwrap();
    let values = scan.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32());
    let fields = ["x", "y", "z", "intensity", "lag"];
    counting_voxels::write_bag(&file("drive"), &fields, &[values.collect()]);

    // The sweeps are joined already, so that their age is a field.
    let head = include_str!("../../config/heads/centerpoint_voxel_nuscenes_0075.yaml");
    fs::write(file("head.yaml"), head.replace("time_lag", "lag")).unwrap();
    let path = |name: &str| file(name).display().to_string();
    let config = format!(
        "/**: {{ros__parameters: {{device: cpu, lidar: {{input: {}, head: {}, encoder_path: {}, \
         model_path: {}, engine: {{kind: rten}}, densification: {{num_past_sweeps: 0}}}}}}}}",
        counting_voxels::TOPIC,
        path("head.yaml"),
        path("encoder.onnx"),
        path("head.onnx"),
    );
    fs::write(file("node.yaml"), config).unwrap();
    let run = replay(&file("drive"), &path("node.yaml"), &[], &file("out"));
    run.expect_code(0);
    let report = run.report();
    let channel = &report["channels"]["lidar"];
    assert_eq!(channel["frames_out"], 1, "{channel}");
    let sites: Vec<_> = channel["levels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|level| {
            assert_eq!(
                (&level["over_capacity"], &level["inputs_without_output"]),
                (&0.into(), &0.into())
            );
            assert_eq!(level["sites_mean"], level["sites_max"]);
            level["sites_max"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(sites, [105_086, 111_372, 54_512, 21_222, 17_711]);
    assert!(channel["detections"].as_u64().unwrap() > 0, "{channel}");
    let stages: Vec<_> =
        channel["stages_ms"].as_array().unwrap().iter().map(|of| of["stage"].clone()).collect();
    println!("{}", channel["stages_ms"]);
    assert!(stages.contains(&"encode".into()), "{stages:?}");
}
