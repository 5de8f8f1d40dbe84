//! The lidar ops against reference results on real scans and networks.
//!
//! Counts and cells are equal. Floats of pillar features agree to 1e-5 m,
//! those of the pillar network to 1e-4 (another engine sums in another order).
//! Decoded boxes agree to the decimals of the reference, 5 for boxes and 7 for
//! scores.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

use crate::common::{point_cloud, shared_data};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

use det_post_ops::cloud::pillar_features::pillar_features;
use det_post_ops::cloud::unpack::{UnpackCounts, UnpackParams, unpack};
use det_post_ops::cloud::voxelize::{VoxelizeCounts, VoxelizeParams, Voxels, Workspace, voxelize};
use det_post_ops::decode::center::{CenterTask, decode_center};
use det_post_types::{
    Candidate, Candidates, CenterDecode, Grid, Object3d, PointChannel, PointRange, Points,
    ScoreThresholds, SizeOrder, Tensor, TensorValues, TensorView, YawConvention,
};
use det_post_types::{ErrorKind, Result};
use half::f16;
use rten_tensor::prelude::*;
use serde_json::Value;
use shared_data::shared_data;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn count(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn points_of(values: &[f32], num_channels: usize) -> Points {
    let mut points = Points::with_capacity(num_channels, values.len() / num_channels);
    assert!(values.chunks_exact(num_channels).all(|point| points.push(point)));
    points
}

/// The ten-sweep nuScenes scan: x y z intensity time_lag.
fn nuscenes(data: &Path) -> Points {
    let bytes = fs::read(data.join("scans/lidar-ai-solution/ff9eff4389a740848f9a56ad749a4ae8.bin"))
        .unwrap();
    let values: Vec<f32> =
        bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect();
    points_of(&values, 5)
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn group(points: &Points, params: &VoxelizeParams) -> (Voxels, VoxelizeCounts) {
    let mut workspace = Workspace::new(&params.grid, points.len());
    let mut voxels = Voxels::new(params);
    let counts = voxelize(points, params, &mut workspace, &mut voxels).unwrap();
    (voxels, counts)
}

fn grid(min: [f32; 3], max: [f32; 3], voxel_size_m: [f32; 3]) -> Grid {
    Grid::new(PointRange { min, max }, voxel_size_m).unwrap()
}

/// Number of points of each cell, by another way, and how many exceed `limit`.
fn cells_of(points: &Points, grid: &Grid) -> HashMap<[u32; 3], u32> {
    let mut cells = HashMap::new();
    for point in points.iter() {
        if let Some(cell) = grid.voxel_of([point[0], point[1], point[2]]) {
            *cells.entry(cell).or_default() += 1;
        }
    }
    cells
}

#[test]
fn nuscenes_voxels_are_the_published_number() {
    let Some(data) = shared_data() else { return };
    let reference = &json(&data.join("reference/pillars.json"))["nuscenes_ff9eff"];
    let points = nuscenes(&data);
    assert_eq!(points.len(), count(&reference["points"]));

    let grid = grid([-54.0, -54.0, -5.0], [54.0, 54.0, 3.0], [0.075, 0.075, 0.2]);
    assert_eq!(grid.grid_size(), [1440, 1440, 40]);
    let most = count(&reference["most_points_in_a_voxel"]);
    let params = VoxelizeParams { grid, max_points_per_voxel: most, voxel_capacity: 160_000 };
    let (voxels, counts) = group(&points, &params);
    let expected = VoxelizeCounts {
        num_in_range: count(&reference["in_range"]),
        num_out_of_range: points.len() - count(&reference["in_range"]),
        num_voxels: 105_086,
        ..VoxelizeCounts::default()
    };
    assert_eq!(counts, expected);
    let nums = voxels.num_points_per_voxel();
    assert_eq!(nums.iter().copied().max(), Some(most as u32));
    let over_10 = nums.iter().filter(|&&num| num > 10).count();
    assert_eq!(over_10, count(&reference["voxels_over_10_points"]));
}

#[test]
fn nuscenes_pillars() {
    let Some(data) = shared_data() else { return };
    let reference = &json(&data.join("reference/pillars.json"))["nuscenes_ff9eff_pillars_0p2"];
    let points = nuscenes(&data);
    let grid = grid([-51.2, -51.2, -5.0], [51.2, 51.2, 3.0], [0.2, 0.2, 8.0]);
    assert_eq!(grid.grid_size(), [512, 512, 1]);
    let params = VoxelizeParams { grid, max_points_per_voxel: 20, voxel_capacity: 60_000 };
    let (voxels, counts) = group(&points, &params);
    assert_eq!(counts.num_in_range, count(&reference["in_range"]));
    assert_eq!(counts.num_voxels, count(&reference["pillars"]));

    let cells = cells_of(&points, &grid);
    let over_20 = cells.values().filter(|&&num| num > 20).count();
    assert_eq!(over_20, count(&reference["pillars_over_20_points"]));
    assert_eq!(cells.len(), voxels.len());
    for (cell, &num) in voxels.coordinates().iter().zip(voxels.num_points_per_voxel()) {
        assert_eq!(num, cells[cell].min(20));
    }
    let lost: u32 = cells.values().map(|num| num.saturating_sub(20)).sum();
    assert_eq!(counts.num_points_over_voxel, lost as usize);
}

#[test]
fn waymo_pillars_through_a_trained_pillar_network() {
    let Some(data) = shared_data() else { return };
    let reference = &json(&data.join("reference/pillars.json"))["waymo_frame_100_pfe"];
    let points = points_of(&floats(&data.join("scans/waymo/seq_0_frame_100.bin")), 5);
    let grid = grid([-74.88, -74.88, -2.0], [74.88, 74.88, 4.0], [0.32, 0.32, 6.0]);
    let params = VoxelizeParams { grid, max_points_per_voxel: 20, voxel_capacity: 32_000 };
    let (voxels, counts) = group(&points, &params);
    assert_eq!(counts.num_in_range, count(&reference["in_range"]));
    assert_eq!(voxels.len(), count(&reference["pillars"]));

    let shape = [32_000, 20, 10];
    let mut features = Tensor::F32 { shape: shape.to_vec(), values: vec![7.0; 32_000 * 200] };
    pillar_features(&points, &voxels, &grid, false, &mut features).unwrap();
    let Tensor::F32 { values: features, .. } = features else { unreachable!() };
    let model = rten::Model::load_file(data.join(reference["model"].as_str().unwrap())).unwrap();
    let input = rten_tensor::NdTensor::from_data(shape, features.clone());
    let output: rten_tensor::NdTensor<f32, 2> =
        model.run_one(input.view().into(), None).unwrap().try_into().unwrap();
    let output = &output.data().unwrap()[..voxels.len() * 64];

    for row in reference["rows"].as_array().unwrap() {
        let pillar = count(&row["pillar"]);
        let cell = [count(&row["x"]) as u32, count(&row["y"]) as u32, 0];
        assert_eq!(voxels.coordinates()[pillar], cell);
        assert_eq!(voxels.num_points_per_voxel()[pillar] as usize, count(&row["n"]));
        let close = |found: &[f32], expected: &Value, tolerance| {
            let expected = expected.as_array().unwrap();
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(&found, expected)| {
                    (f64::from(found) - number(expected)).abs() < tolerance
                })
        };
        assert!(close(&features[pillar * 200..pillar * 200 + 10], &row["features0"], 1e-5));
        assert!(close(&output[pillar * 64..(pillar + 1) * 64], &row["out"], 1e-4), "{pillar}");
    }
    let sum = |values: &[f32]| values.iter().map(|&value| f64::from(value)).sum::<f64>();
    assert!((sum(&features) - number(&reference["feature_sum"])).abs() < 1.0);
    assert!((sum(output) - number(&reference["output_sum"])).abs() < 1.0);
    // Values next to zero may fall on either side of a ReLU.
    let nonzero = output.iter().filter(|&&value| value != 0.0).count();
    assert!(nonzero.abs_diff(count(&reference["output_nonzero"])) <= 20, "{nonzero}");
}

/// Shape and values of each map of a task, by the head's name.
type Maps<'a> = HashMap<&'a str, ([usize; 4], Vec<f32>)>;

#[test]
fn centerpoint_head_gives_the_reference_boxes() {
    let Some(data) = shared_data() else { return };
    let reference = json(&data.join("reference/centerpoint_head_128.json"));
    let mapping = json(&data.join("centerpoint_head/mapping.json"));
    let tasks = mapping["tasks"].as_array().unwrap();
    let maps: Vec<Maps<'_>> = tasks
        .iter()
        .map(|task| {
            let tensors = task["tensors"].as_array().unwrap().iter();
            let map = tensors.map(|tensor| {
                let shape = tensor["shape"].as_array().unwrap();
                let shape = std::array::from_fn(|i| count(&shape[i]));
                let file = data.join("centerpoint_head").join(tensor["file"].as_str().unwrap());
                (tensor["head"].as_str().unwrap(), (shape, floats(&file)))
            });
            map.collect()
        })
        .collect();
    let views: Vec<CenterTask<TensorView<'_>>> = maps
        .iter()
        .map(|map| {
            let view = |head: &str| {
                let (shape, values) = &map[head];
                TensorView::new(shape, TensorValues::F32(values)).unwrap()
            };
            CenterTask {
                heatmap: view("hm"),
                offset: view("reg"),
                height: view("height"),
                size: view("dim"),
                rotation: view("rot"),
                velocity: Some(view("vel")),
            }
        })
        .collect();
    let params = CenterDecode {
        origin_m: [-51.2, -51.2],
        cell_size_m: [0.8, 0.8],
        tasks: vec![vec![0], vec![1, 2], vec![3, 4], vec![5]],
        heatmap_logits: true,
        size_order: SizeOrder::WidthLengthHeight,
        size_log: true,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(0.1, 6),
        yaw_norm_thresholds: Vec::new(),
        center_range: Some(PointRange { min: [-61.2, -61.2, -10.0], max: [61.2, 61.2, 10.0] }),
        has_velocity: true,
        has_variance: false,
    };
    let mut candidates = Candidates::with_capacity(1000);
    decode_center(&views, &params, &mut candidates).unwrap();
    candidates.finish(usize::MAX);

    let expected = reference["decoded"].as_array().unwrap();
    assert_eq!((candidates.as_slice().len(), expected.len()), (264, 264));
    for expected in expected {
        let [task, row, col] = ["task", "row", "col"].map(|key| count(&expected[key]));
        let source = (task * 128 * 128 + row * 128 + col) as u32;
        let found = candidates.as_slice().iter().find(|found| found.source == source);
        assert_same_box(found.unwrap_or_else(|| panic!("{expected} is missing")), expected);
    }
}

fn assert_same_box(found: &Candidate<Object3d>, expected: &Value) {
    assert_eq!(found.class as usize, count(&expected["label"]));
    assert!((f64::from(found.score) - number(&expected["score"])).abs() < 2e-7);
    let bbox = found.bbox.bbox;
    let [x, y, z] = bbox.center;
    let [vx, vy] = found.bbox.velocity_mps.unwrap();
    let (w, l, h) = (bbox.width_m, bbox.length_m, bbox.height_m);
    let found = [x, y, z, w, l, h, vx, vy, bbox.yaw_rad];
    for (i, found) in found.into_iter().enumerate() {
        let difference = (f64::from(found) - number(&expected["box"][i])).abs();
        assert!(difference < 1.2e-5, "{i}: {found} {expected}");
    }
}

/// What unpack says of a payload: the counts and the points.
fn unpacked(payload: &[u8], channels: &[PointChannel]) -> Result<(UnpackCounts, Points)> {
    let cloud = point_cloud::read(payload)?;
    let params = UnpackParams { channels: channels.to_vec(), intensity_scale: 1.0, range: None };
    let mut points = Points::with_capacity(3 + channels.len(), 100_000);
    let counts = unpack(&cloud, &params, &mut points)?;
    Ok((counts, points))
}

/// The payloads of a bag's first topic of points, in order.
fn payloads(data: &Path, bag: &str) -> Vec<Vec<u8>> {
    let name = bag.rsplit('/').next().unwrap();
    let bytes = fs::read(data.join("bags").join(bag).join(format!("{name}_0.mcap"))).unwrap();
    let messages = mcap::MessageStream::new(&bytes).unwrap().map(|message| message.unwrap());
    let clouds = messages.filter(|message| {
        let schema = message.channel.schema.as_ref().unwrap();
        schema.name == "sensor_msgs/msg/PointCloud2"
    });
    clouds.map(|message| message.data.to_vec()).collect()
}

#[test]
fn damaged_clouds_are_refused_and_the_good_ones_around_them_read() {
    let Some(data) = shared_data() else { return };
    let intensity = [PointChannel::Intensity];
    // (bag, points and not finite ones of the second message, or kind and words of its error)
    type Outcome = std::result::Result<(usize, usize), (ErrorKind, &'static str)>;
    let cases: [(&str, Outcome); 6] = [
        ("nan_inf_points", Ok((1100, 400))),
        ("zero_points", Ok((0, 0))),
        ("big_endian_cloud_valid", Ok((1500, 0))),
        ("cloud_data_short", Err((ErrorKind::Layout, "data has 12007 bytes"))),
        ("no_xyz_fields", Err((ErrorKind::PointField, "no field x, only [range, azimuth"))),
        ("field_beyond_point_step", Err((ErrorKind::PointField, "4 bytes at offset 14"))),
    ];
    for (bag, outcome) in cases {
        let messages = payloads(&data, &format!("broken/{bag}"));
        let (counts, first) = unpacked(&messages[0], &intensity).unwrap();
        assert_eq!((counts.num_points, counts.num_not_finite), (1500, 0), "{bag}");
        let (_, last) = unpacked(messages.last().unwrap(), &intensity).unwrap();
        assert_eq!((last.len(), messages.len() >= 2), (1500, true), "{bag}");
        match (unpacked(&messages[1], &intensity), outcome) {
            (Ok((counts, points)), Ok(expected)) => {
                assert_eq!((counts.num_points, counts.num_not_finite), expected, "{bag}");
                if bag == "big_endian_cloud_valid" {
                    assert_eq!(points.values(), first.values());
                }
            }
            (Err(error), Err((kind, words))) => {
                assert_eq!(error.kind(), kind, "{bag}");
                assert!(error.message().contains(words), "{bag}: {error}");
            }
            (found, _) => panic!("{bag}: {found:?}"),
        }
    }
}

#[test]
fn real_sensors_with_unaligned_fields() {
    let Some(data) = shared_data() else { return };
    let dds = fs::read(data.join("scans/cloudini/dds_message.bin")).unwrap();
    let channels = [PointChannel::Ring, PointChannel::Named("timestamp".into())];
    let (counts, points) = unpacked(&dds, &channels).unwrap();
    assert_eq!(counts.num_points + counts.num_not_finite, 64_000);
    assert!(points.iter().all(|point| point[3].fract() == 0.0 && (0.0..256.0).contains(&point[3])));
    let times: Vec<f32> = points.iter().map(|point| point[4]).collect();
    assert!(times.iter().all(|time| (times[0] - time).abs() < 1.0), "one scan");

    // The bag was written from this scan.
    let bin = "scans/nuscenes/n015-2018-07-24-11-22-45+0800__LIDAR_TOP__1532402927647951.pcd.bin";
    let scan = floats(&data.join(bin));
    let channels = [PointChannel::Intensity, PointChannel::Ring];
    for payload in payloads(&data, "nuscenes_surround_mcap") {
        let (counts, points) = unpacked(&payload, &channels).unwrap();
        assert_eq!(counts, UnpackCounts { num_points: scan.len() / 5, ..UnpackCounts::default() });
        assert_eq!(points.values(), scan);
    }
}
