//! The sample: its networks find what its drive shows, and its recording and
//! parameters say the same as its networks and its drive.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common::{camera_net, drive, lidar_nets, onnx, parameters, recording};
use std::collections::BTreeMap;

use det_post_infer::{Engine, RtenEngine};
use det_post_ros::bag::BagReader;
use det_post_ros::messages::{Image, PointCloud2};
use det_post_types::{TensorSpec, TensorValues, TensorView};
use onnx::Graph;

fn load(graph: &Graph) -> RtenEngine {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    graph.save(&path).unwrap();
    RtenEngine::load(&path, Some(1)).unwrap()
}

fn run(engine: &mut RtenEngine, shape: &[usize], values: &[f32]) {
    engine.run(&[TensorView::new(shape, TensorValues::F32(values)).unwrap()]).unwrap();
}

fn floats(engine: &RtenEngine, index: usize) -> &[f32] {
    match engine.output(index).unwrap().values() {
        TensorValues::F32(values) => values,
        other => panic!("output {index} holds {}", other.element()),
    }
}

/// The image at half size in the middle of a grey square, planar RGB 0..1.
fn letterbox(image: &[u8]) -> Vec<f32> {
    let size = camera_net::INPUT;
    let top = (size - drive::HEIGHT / 2) / 2;
    let mut tensor = vec![114.0 / 255.0; 3 * size * size];
    for channel in 0..3 {
        for y in 0..drive::HEIGHT / 2 {
            for x in 0..size {
                let at = |dx, dy| {
                    f32::from(image[((2 * y + dy) * drive::WIDTH + 2 * x + dx) * 3 + channel])
                };
                let mean = (at(0, 0) + at(1, 0) + at(0, 1) + at(1, 1)) / 4.0;
                tensor[(channel * size + top + y) * size + x] = mean / 255.0;
            }
        }
    }
    tensor
}

fn overlap([ax1, ay1, ax2, ay2]: [f32; 4], [bx1, by1, bx2, by2]: [f32; 4]) -> f32 {
    let width = (ax2.min(bx2) - ax1.max(bx1)).max(0.0);
    let height = (ay2.min(by2) - ay1.max(by1)).max(0.0);
    let both = width * height;
    both / ((ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - both)
}

#[test]
fn hand_set_camera_net_finds_every_patch_and_nothing_else() {
    let mut engine = load(&camera_net::graph());
    let (size, rows) = (camera_net::INPUT, camera_net::NUM_ROWS);
    for frame in 0..drive::NUM_FRAMES {
        run(&mut engine, &[1, 3, size, size], &letterbox(&drive::image(frame)));
        let output = floats(&engine, 0);
        let at = |channel: usize, row: usize| output[channel * rows + row];
        let patches = drive::patches(frame);
        let mut found = [false; 5];
        for (row, class) in (0..rows).flat_map(|row| (0..3).map(move |class| (row, class))) {
            let score = at(4 + class, row);
            assert!((0.0..=1.0).contains(&score));
            if score < 0.4 {
                continue;
            }
            let [cx, cy, w, h] = [0, 1, 2, 3].map(|channel| at(channel, row));
            let top = ((size - drive::HEIGHT / 2) / 2) as f32;
            let corners = [cx - w / 2.0, cy - h / 2.0 - top, cx + w / 2.0, cy + h / 2.0 - top];
            let corners = corners.map(|value| 2.0 * value);
            let best = patches
                .iter()
                .position(|patch| patch.class == class && overlap(patch.corners, corners) > 0.8);
            let best = best.unwrap_or_else(|| panic!("frame {frame}: {class} at {corners:?}"));
            found[best] = true;
        }
        assert_eq!(found, [true; 5], "frame {frame}");
    }
}

/// Encoder input and cells of a scan, in the order of the first points.
fn pillars(points: &[[f32; 5]]) -> (Vec<f32>, Vec<usize>) {
    use lidar_nets::{CELL, CELLS, NUM_FEATURES, NUM_PILLARS, NUM_POINTS, RANGE};
    let mut rows = BTreeMap::new();
    let mut cells = Vec::new();
    let mut members: Vec<Vec<[f32; 5]>> = Vec::new();
    let is_inside = |point: &&[f32; 5]| point[0].abs() < RANGE && point[1].abs() < RANGE;
    for point in points.iter().filter(is_inside) {
        let [x, y] = [0, 1].map(|axis: usize| ((point[axis] + RANGE) / CELL).floor() as usize);
        let row = *rows.entry(y * CELLS + x).or_insert_with(|| {
            cells.push(y * CELLS + x);
            members.push(Vec::new());
            cells.len() - 1
        });
        if members[row].len() < NUM_POINTS {
            members[row].push(*point);
        }
    }
    assert!(cells.len() <= NUM_PILLARS);
    let mut features = vec![0.0; NUM_PILLARS * NUM_POINTS * NUM_FEATURES];
    for (row, members) in members.iter().enumerate() {
        let mean = |axis: usize| {
            members.iter().map(|point| point[axis]).sum::<f32>() / members.len() as f32
        };
        let mean = [0, 1, 2].map(mean);
        let center = [cells[row] % CELLS, cells[row] / CELLS];
        let center = center.map(|index| (index as f32 + 0.5) * CELL - RANGE);
        for (slot, &[x, y, z, _, time_lag]) in members.iter().enumerate() {
            let start = (row * NUM_POINTS + slot) * NUM_FEATURES;
            features[start..start + NUM_FEATURES].copy_from_slice(&[
                x,
                y,
                z,
                time_lag,
                x - mean[0],
                y - mean[1],
                z - mean[2],
                x - center[0],
                y - center[1],
            ]);
        }
    }
    (features, cells)
}

/// What the head says at a cell, decoded: class, score, centre, size, yaw.
fn decode(head: &RtenEngine, cell: usize) -> (usize, f32, [f32; 3], [f32; 3], f32) {
    use lidar_nets::{CELL, CELLS, RANGE};
    let at = |output, channel: usize| floats(head, output)[channel * CELLS * CELLS + cell];
    let logits = [0, 1, 2].map(|class| at(0, class));
    let class = (0..3).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
    let score = 1.0 / (1.0 + (-logits[class]).exp());
    let x = ((cell % CELLS) as f32 + at(1, 0)) * CELL - RANGE;
    let y = ((cell / CELLS) as f32 + at(1, 1)) * CELL - RANGE;
    let [width, length, height] = [0, 1, 2].map(|channel| at(3, channel).exp());
    let yaw = -at(4, 0).atan2(at(4, 1)) - std::f32::consts::FRAC_PI_2;
    assert_eq!([at(5, 0), at(5, 1)], [0.0; 2]);
    (class, score, [x, y, at(2, 0)], [length, width, height], yaw)
}

#[test]
fn hand_set_pillar_nets_find_every_block_and_nothing_else() {
    use lidar_nets::{CELLS, NUM_CHANNELS, NUM_FEATURES, NUM_PILLARS, NUM_POINTS};
    let mut encoder = load(&lidar_nets::encoder());
    let mut head = load(&lidar_nets::head());
    for frame in 0..drive::NUM_FRAMES {
        let mut points: Vec<[f32; 5]> =
            drive::cloud(frame).iter().map(|&[x, y, z, i]| [x, y, z, i, 0.0]).collect();
        // Points of a past sweep stand where nothing is now.
        points.extend((0..20).map(|i| [20.0 + 0.1 * i as f32, 20.0, 1.5, 9.0, 0.1]));
        let (features, cells) = pillars(&points);
        run(&mut encoder, &[NUM_PILLARS, NUM_POINTS, NUM_FEATURES], &features);
        let mut map = vec![0.0; NUM_CHANNELS * CELLS * CELLS];
        for (row, &cell) in cells.iter().enumerate() {
            for channel in 0..NUM_CHANNELS {
                map[channel * CELLS * CELLS + cell] =
                    floats(&encoder, 0)[row * NUM_CHANNELS + channel];
            }
        }
        run(&mut head, &[1, NUM_CHANNELS, CELLS, CELLS], &map);
        let blocks = drive::blocks(frame);
        let mut found = [false; 5];
        for cell in 0..CELLS * CELLS {
            let (class, score, center, size, yaw) = decode(&head, cell);
            if score < 0.4 {
                continue;
            }
            let best = blocks.iter().position(|block| {
                let near = |a: [f32; 3], b: [f32; 3], limit| {
                    a.iter().zip(b).all(|(a, b)| (a - b).abs() < limit)
                };
                let turn = (yaw - block.yaw).rem_euclid(std::f32::consts::PI);
                let turn = turn.min(std::f32::consts::PI - turn);
                block.class == class
                    && near(center, block.center, 0.25)
                    && near(size, block.size, 0.5)
                    && (class == 1 || turn < 0.2)
            });
            let found_here = format!("frame {frame}: {class} {score} {center:?} {size:?} {yaw}");
            found[best.unwrap_or_else(|| panic!("{found_here}"))] = true;
        }
        assert_eq!(found, [true; 5], "frame {frame}");
    }
}

#[test]
fn recording_holds_the_drive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    recording::write(&path).unwrap();
    let mut bag = BagReader::open(&path).unwrap();
    let names: Vec<String> = bag.topics().iter().map(|topic| topic.name.clone()).collect();
    let mut counts = [0; 2];
    while let Some(message) = bag.next_message().unwrap() {
        let count = &mut counts[message.topic];
        let stamp = drive::START_NS + *count as i64 * drive::PERIOD_NS;
        let header = if names[message.topic] == recording::IMAGE_TOPIC {
            let image = Image::decode(message.data).unwrap();
            assert!(image.view().unwrap().data() == drive::image(*count));
            image.header
        } else {
            assert_eq!(names[message.topic], recording::CLOUD_TOPIC);
            let cloud = PointCloud2::decode(message.data).unwrap();
            let points = drive::cloud(*count);
            assert_eq!(cloud.view().unwrap().num_points(), points.len());
            let last: Vec<u8> =
                points.last().unwrap().iter().flat_map(|value| value.to_le_bytes()).collect();
            assert!(cloud.data.ends_with(&last));
            cloud.header
        };
        assert_eq!((header.stamp.nanos(), message.log_time.nanos()), (stamp, stamp));
        *count += 1;
    }
    assert_eq!(counts, [drive::NUM_FRAMES; 2]);
}

#[test]
fn head_files_name_the_tensors_of_the_networks() {
    let names = |specs: &[TensorSpec]| -> Vec<String> {
        specs.iter().map(|spec| spec.name.clone()).collect()
    };
    let camera: serde_yaml::Value = serde_yaml::from_str(&parameters::camera_head()).unwrap();
    assert_eq!(camera["class_names"].as_sequence().unwrap().len(), 3);
    let engine = load(&camera_net::graph());
    assert_eq!(engine.outputs()[0].to_string(), "output0 f32 [?, 7, 4800]");

    let lidar: serde_yaml::Value = serde_yaml::from_str(&parameters::lidar_head()).unwrap();
    let (encoder, head) = (load(&lidar_nets::encoder()), load(&lidar_nets::head()));
    assert_eq!(names(encoder.inputs()), [lidar["encoder_input"].as_str().unwrap()]);
    assert_eq!(names(encoder.outputs()), [lidar["encoder_output"].as_str().unwrap()]);
    assert_eq!(names(head.inputs()), [lidar["model_input"].as_str().unwrap()]);
    let outputs = names(head.outputs());
    assert_eq!(outputs, ["heatmap", "reg", "height", "dim", "rot", "vel"]);
    for name in lidar["output_names"][0].as_sequence().unwrap() {
        assert!(outputs.contains(&name.as_str().unwrap().to_owned()), "{name:?}");
    }
    let deployment: serde_yaml::Value =
        serde_yaml::from_str(&parameters::deployment("folder".as_ref())).unwrap();
    let channels = &deployment["/**"]["ros__parameters"];
    assert_eq!(channels["camera"]["head"], "folder/heads/blobs_yolov8.yaml");
    assert_eq!(channels["lidar"]["input"], recording::CLOUD_TOPIC);
}
