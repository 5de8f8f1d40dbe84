//! A pillar encoder and a CenterPoint head that were set by hand so that a
//! plain grouping of the raw points foretells every detection: each pillar
//! becomes one box that says what its features held.
//!
//! | output | holds |
//! |---|---|
//! | heat map | `(points - 16) / 4`, in the channel `tall` when a point is above 1.5 m, else in `low` |
//! | offset | mean of the points, from their offsets to the pillar's centre |
//! | height | mean z, from their offsets to the pillar's centre |
//! | size | width: number of points; length: 1 + largest time lag; height: 1 + mean intensity |
//! | rotation | mean distance to the mean z; 1 + mean time lag |
//! | velocity | mean x and y, from the offsets to the mean |
#![allow(dead_code, reason = "each suite uses its part")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use det_post_ros::bag::BagReader;
use det_post_ros::messages::PointCloud2;
use det_post_types::ElementType::F32;
use serde_json::Value;

use super::onnx::{Attr, Graph};

/// Crop box: no two numbers alike, so that swapped axes show.
pub const MIN: [f32; 3] = [-20.0, -28.8, -3.0];
pub const SIZE: [f32; 3] = [0.5, 0.64, 8.0];
pub const CELLS: [usize; 2] = [160, 100];
pub const NUM_SLOTS: usize = 32;
pub const NUM_ROWS: usize = 6000;
pub const CLASSES: [&str; 2] = ["low", "tall"];
const NUM_FEATURES: usize = 11;
const NUM_CHANNELS: usize = 32;
const USED_CHANNELS: [&str; 10] = [
    "count",
    "top",
    "max_lag",
    "mean_lag",
    "intensity",
    "spread",
    "to_x",
    "to_y",
    "to_z",
    "mean_x",
];
/// Every pillar passes, an empty cell (0.018) does not.
const SCORE_THRESHOLD: f32 = 0.02;

/// An encoder of any number of rows, or of [`NUM_ROWS`].
fn encoder(is_dynamic: bool) -> Graph {
    let rows = if is_dynamic { -1 } else { NUM_ROWS as i64 };
    let reduce = [("axes", Attr::Ints(vec![1])), ("keepdims", Attr::Int(0))];
    let parts = ["x", "y", "z", "i", "lag", "mx", "my", "mz", "cx", "cy", "cz"];
    let mut graph = Graph::new("counting_encoder", "Set by hand, not trained. Counts points.")
        .input("input_features", F32, &[rows, NUM_SLOTS as i64, NUM_FEATURES as i64])
        .integers("ones", &[1; NUM_FEATURES])
        .integers("slots", &[1])
        .constant("zero", &[], &[0.0])
        .constant("one", &[], &[1.0])
        .constant("ten", &[], &[10.0])
        .constant("million", &[], &[1e6])
        .node("Split", &["input_features", "ones"], &parts, &[("axis", Attr::Int(2))])
        .op("Abs", &["x"], "abs_x")
        .op("Abs", &["y"], "abs_y")
        .op("Add", &["abs_x", "abs_y"], "abs_xy")
        .op("Mul", &["abs_xy", "million"], "far")
        .op("Clip", &["far", "zero", "one"], "seen")
        .op("ReduceSum", &["seen", "slots"], "count_kept");
    // ReduceSum keeps the dimension: [V, 1, 1].
    graph = graph
        .op("Max", &["count_kept", "one"], "divisor_3d")
        .integers("column", &[-1, 1])
        .op("Reshape", &["divisor_3d", "column"], "divisor")
        .op("Reshape", &["count_kept", "column"], "count")
        .op("Add", &["z", "ten"], "z_ten")
        .op("Mul", &["z_ten", "seen"], "z_seen")
        .node("ReduceMax", &["z_seen"], &["top"], &reduce)
        .node("ReduceMax", &["lag"], &["max_lag"], &reduce)
        .op("Abs", &["mz"], "abs_mz")
        .op("Sub", &["x", "mx"], "x_mean")
        .op("Sub", &["y", "my"], "y_mean");
    for (values, mean) in [
        ("lag", "mean_lag"),
        ("i", "intensity"),
        ("abs_mz", "spread"),
        ("cx", "to_x"),
        ("cy", "to_y"),
        ("cz", "to_z"),
        ("x_mean", "mean_x"),
        ("y_mean", "mean_y"),
    ] {
        let [sum, flat] = ["sum", "flat"].map(|part| format!("{mean}_{part}"));
        graph = graph
            .op("ReduceSum", &[values, "slots"], &sum)
            .op("Reshape", &[&sum, "column"], &flat)
            .op("Div", &[&flat, "divisor"], mean);
    }
    let num_unused = NUM_CHANNELS - USED_CHANNELS.len() - 1;
    let mut channels = USED_CHANNELS.to_vec();
    channels.extend(["mean_y", "unused"]);
    graph
        .constant("nothing", &[1, num_unused as i64], &vec![0.0; num_unused])
        .op("MatMul", &["divisor", "nothing"], "unused")
        .node("Concat", &channels, &["pillar_features"], &[("axis", Attr::Int(1))])
        .output("pillar_features", F32, &[rows, NUM_CHANNELS as i64])
}

fn head() -> Graph {
    let [nx, ny] = CELLS.map(|n| n as i64);
    let axis = [("axis", Attr::Int(1))];
    let mut channels = USED_CHANNELS.to_vec();
    channels.extend(["mean_y", "unused"]);
    let mut lengths = vec![1; channels.len() - 1];
    lengths.push((NUM_CHANNELS - channels.len() + 1) as i64);
    let mut graph = Graph::new("counting_head", "Set by hand, not trained. One box a pillar.")
        .input("spatial_features", F32, &[1, NUM_CHANNELS as i64, ny, nx])
        .integers("lengths", &lengths)
        .constant("zero", &[], &[0.0])
        .constant("half", &[], &[0.5])
        .constant("one", &[], &[1.0])
        .constant("sixteen", &[], &[16.0])
        .constant("quarter", &[], &[0.25])
        .constant("tall_from", &[], &[11.5])
        .constant("steep", &[], &[1e8])
        .constant("away", &[], &[40.0])
        .constant("per_x", &[], &[1.0 / SIZE[0]])
        .constant("per_y", &[], &[1.0 / SIZE[1]])
        .constant("middle_z", &[], &[MIN[2] + SIZE[2] / 2.0])
        .node("Split", &["spatial_features", "lengths"], &channels, &axis)
        .op("Sub", &["count", "sixteen"], "over")
        .op("Mul", &["over", "quarter"], "logit")
        .op("Sub", &["top", "tall_from"], "above")
        .op("Mul", &["above", "steep"], "above_much")
        .op("Clip", &["above_much", "zero", "one"], "is_tall")
        .op("Sub", &["one", "is_tall"], "is_low")
        .op("Mul", &["is_tall", "away"], "low_away")
        .op("Mul", &["is_low", "away"], "tall_away")
        .op("Sub", &["logit", "low_away"], "low")
        .op("Sub", &["logit", "tall_away"], "tall")
        .node("Concat", &["low", "tall"], &["heatmap"], &axis)
        .op("Mul", &["to_x", "per_x"], "cells_x")
        .op("Mul", &["to_y", "per_y"], "cells_y")
        .op("Add", &["cells_x", "half"], "reg_x")
        .op("Add", &["cells_y", "half"], "reg_y")
        .node("Concat", &["reg_x", "reg_y"], &["reg"], &axis)
        .op("Add", &["to_z", "middle_z"], "height")
        .op("Add", &["max_lag", "one"], "length")
        .op("Add", &["intensity", "one"], "bright")
        .node("Concat", &["count", "length", "bright"], &["dim"], &axis)
        .op("Add", &["mean_lag", "one"], "cosine")
        .node("Concat", &["spread", "cosine"], &["rot"], &axis)
        .node("Concat", &["mean_x", "mean_y"], &["vel"], &axis);
    for (name, num) in
        [("heatmap", 2), ("reg", 2), ("height", 1), ("dim", 3), ("rot", 2), ("vel", 2)]
    {
        graph = graph.output(name, F32, &[1, num, ny, nx]);
    }
    graph
}

/// Writes both networks, their head file and a parameter file with one channel
/// `lidar` to a folder; returns the path of the parameter file. The encoder
/// takes any number of pillars or, not dynamic, always [`NUM_ROWS`].
pub fn write(folder: &Path, voxel_capacity: usize, is_dynamic: bool) -> PathBuf {
    encoder(is_dynamic).save(&folder.join("encoder.onnx")).unwrap();
    head().save(&folder.join("head.onnx")).unwrap();
    let max: [f32; 3] = std::array::from_fn(|axis| match axis {
        2 => MIN[2] + SIZE[2],
        _ => MIN[axis] + SIZE[axis] * CELLS[axis] as f32,
    });
    let range: Vec<f32> = MIN.iter().chain(&max).copied().collect();
    let facts = format!(
        "sensor: lidar
kind: center
class_names: [low, tall]
point_range_m: {range:?}
voxel_size_m: {SIZE:?}
max_points_per_voxel: {NUM_SLOTS}
voxel_capacity: {voxel_capacity}
point_channels: [intensity, time_lag]
center_offset_z: true
encoder_input: input_features
encoder_output: pillar_features
model_input: spatial_features
tasks: [[low, tall]]
output_names: [[reg, height, dim, rot, vel, heatmap]]
downsample_factor: 1
size_order: width_length_height
size_log: false
yaw: clockwise_from_minus_y
has_velocity: true
"
    );
    std::fs::write(folder.join("counting.yaml"), facts).unwrap();
    let folder_text = folder.display();
    let parameters = format!(
        "/**:
  ros__parameters:
    lidar:
      input: /sensing/lidar/points
      output: /perception/lidar/detections
      head: {folder_text}/counting.yaml
      encoder_path: {folder_text}/encoder.onnx
      model_path: {folder_text}/head.onnx
      engine: {{kind: rten}}
      score_thresholds: [{SCORE_THRESHOLD}]
      nms: {{kind: none}}
      pre_nms_top_k: 8192
      max_detections: 8192
      densification: {{num_past_sweeps: 0}}
"
    );
    let path = folder.join("lidar.param.yaml");
    std::fs::write(&path, parameters).unwrap();
    path
}

/// A cloud as it stands in a recording: x, y, z and intensity.
pub struct Cloud {
    pub stamp_ns: i64,
    pub frame_id: String,
    pub points: Vec<[f32; 4]>,
}

/// All usable clouds of a topic: x, y, z and intensity are floats inside the
/// data.
pub fn clouds(bag: &Path, topic: &str) -> Vec<Cloud> {
    let mut reader = BagReader::open(bag).unwrap();
    reader.select(&[topic]);
    let mut clouds = Vec::new();
    while let Ok(Some(message)) = reader.next_message() {
        clouds.extend(PointCloud2::decode(message.data).ok().and_then(|cloud| read(&cloud)));
    }
    clouds
}

fn read(cloud: &PointCloud2<'_>) -> Option<Cloud> {
    let num_points = (cloud.width * cloud.height) as usize;
    let step = cloud.point_step as usize;
    let mut offsets = [0; 4];
    for (offset, name) in offsets.iter_mut().zip(["x", "y", "z", "intensity"]) {
        *offset = cloud.fields.find(&[name])?.offset as usize;
    }
    if cloud.data.len() < num_points * step || offsets.iter().any(|offset| offset + 4 > step) {
        return None;
    }
    let at = |start: usize| {
        let bytes = cloud.data[start..start + 4].try_into().unwrap();
        if cloud.is_bigendian { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) }
    };
    let point = |i: usize| offsets.map(|offset| at(i * step + offset));
    Some(Cloud {
        stamp_ns: cloud.header.stamp.nanos(),
        frame_id: cloud.header.frame_id.into(),
        points: (0..num_points).map(point).collect(),
    })
}

/// What a frame should give.
#[derive(Debug, Default)]
pub struct Expected {
    pub num_not_finite: usize,
    pub num_out_of_range: usize,
    pub num_over_voxel: usize,
    pub num_over_voxel_capacity: usize,
    pub num_voxels_over_capacity: usize,
    pub num_kept: usize,
    /// Cell, row-major, and its points: x, y, z, intensity, time lag.
    pillars: Vec<(usize, Vec<[f32; 5]>)>,
}

impl Expected {
    /// Groups points in the order of their arrival.
    pub fn new(points: impl IntoIterator<Item = [f32; 5]>, voxel_capacity: usize) -> Self {
        let mut expected = Self::default();
        let mut row_of: HashMap<usize, Option<usize>> = HashMap::new();
        for point in points {
            if !point.iter().all(|value| value.is_finite()) {
                expected.num_not_finite += 1;
                continue;
            }
            let cell: [f32; 3] =
                std::array::from_fn(|axis| ((point[axis] - MIN[axis]) / SIZE[axis]).floor());
            let is_inside = |axis: usize, num: usize| (0.0..num as f32).contains(&cell[axis]);
            if !(is_inside(0, CELLS[0]) && is_inside(1, CELLS[1]) && is_inside(2, 1)) {
                expected.num_out_of_range += 1;
                continue;
            }
            let place = cell[1] as usize * CELLS[0] + cell[0] as usize;
            let pillars = &mut expected.pillars;
            let row = *row_of.entry(place).or_insert_with(|| {
                if pillars.len() == voxel_capacity {
                    expected.num_voxels_over_capacity += 1;
                    return None;
                }
                pillars.push((place, Vec::new()));
                Some(pillars.len() - 1)
            });
            match row.map(|row| &mut pillars[row].1) {
                None => expected.num_over_voxel_capacity += 1,
                Some(kept) if kept.len() == NUM_SLOTS => expected.num_over_voxel += 1,
                Some(kept) => {
                    kept.push(point);
                    expected.num_kept += 1;
                }
            }
        }
        // The total order: score, class, source.
        expected.pillars.sort_by_key(|(place, points)| {
            (std::cmp::Reverse(points.len()), class_of(points), *place)
        });
        expected
    }

    /// Only one cloud.
    pub fn of(cloud: &Cloud, voxel_capacity: usize) -> Self {
        Self::new(cloud.points.iter().map(|&[x, y, z, i]| [x, y, z, i, 0.0]), voxel_capacity)
    }

    pub fn num_pillars(&self) -> usize {
        self.pillars.len()
    }

    /// The same with the best pillars only.
    pub fn best(&self, num: usize) -> Self {
        Self { pillars: self.pillars[..num].to_vec(), ..Self::default() }
    }

    /// Fails unless the detections are these pillars, in this order.
    #[track_caller]
    pub fn compare(&self, line: &Value) {
        let detections = line["detections_3d"].as_array().unwrap();
        assert_eq!(detections.len(), self.pillars.len());
        for (found, (place, points)) in detections.iter().zip(&self.pillars) {
            compare(found, *place, points);
        }
    }
}

fn class_of(points: &[[f32; 5]]) -> usize {
    usize::from(points.iter().any(|point| point[2] + 10.0 > 11.5))
}

#[track_caller]
fn compare(found: &Value, place: usize, points: &[[f32; 5]]) {
    let num = points.len() as f64;
    let mean_of = |of: &dyn Fn(&[f32; 5]) -> f64| points.iter().map(of).sum::<f64>() / num;
    let mean = [0, 1, 2, 3, 4].map(|channel: usize| mean_of(&|p| f64::from(p[channel])));
    let spread = mean_of(&|p| (f64::from(p[2]) - mean[2]).abs());
    let max_lag = points.iter().map(|p| f64::from(p[4])).fold(0.0, f64::max);
    let yaw = -spread.atan2(1.0 + mean[4]) - std::f64::consts::FRAC_PI_2;
    let yaw = if yaw <= -std::f64::consts::PI { yaw + std::f64::consts::TAU } else { yaw };

    let number = |value: &Value| value.as_f64().unwrap();
    let close = |what: &str, value: &Value, expected: f64, tolerance: f64| {
        let found = number(value);
        let limit = tolerance * expected.abs().max(1.0);
        assert!((found - expected).abs() <= limit, "{what} of cell {place}: {found}, {expected}");
    };
    let class = class_of(points);
    assert_eq!(found["class_id"], class, "cell {place}");
    assert_eq!(found["class_name"], CLASSES[class]);
    close("score", &found["score"], 1.0 / (1.0 + (-(num - 16.0) / 4.0).exp()), 1e-6);
    for axis in 0..3 {
        close("centre", &found["center"][axis], mean[axis], 1e-5);
    }
    close("velocity x", &found["velocity"][0], mean[0], 1e-5);
    close("velocity y", &found["velocity"][1], mean[1], 1e-5);
    assert_eq!(number(&found["size"][1]), num, "points of cell {place}");
    close("time lag", &found["size"][0], 1.0 + max_lag, 1e-6);
    close("intensity", &found["size"][2], 1.0 + mean[3], 1e-5);
    close("yaw", &found["yaw"], yaw, 1e-5);
}
