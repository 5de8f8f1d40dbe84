//! A sparse encoder and a network set by hand: one box a column of voxels, whose center is the
//! mean of the column's voxels.
//!
//! The encoder adds a channel of ones to the means of voxels (x, y, z, intensity), then sums
//! 2x2x2 cells three times: the map holds the sums of 8x8x8 voxels and their number. The
//! network divides:
//!
//! | output | holds |
//! |---|---|
//! | heat map | `(voxels - 4) / 4`, very low where there is none |
//! | offset, height | mean of the voxels |
//! | size | width: number of voxels; length: 1; height: 1 + mean intensity |
//! | rotation | 0, 1 |

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use det_post_ops::sparse::rulebook::Geometry;
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{PointCloud2, definition};
use det_post_types::ElementType::F32;
use det_post_types::{Header, PointField, PointFields, Stamp};
use serde_json::Value;

use super::onnx::{Attr, Graph};
use super::sparse_onnx::{File, ScnConvolution};

/// Crop box: no two numbers alike, so that swapped axes show.
pub const MIN: [f32; 3] = [-6.0, -4.0, -1.0];
pub const SIZE: [f32; 3] = [0.25, 0.5, 0.125];
/// Cells along x, y, z. The encoder's grid has one more along z.
pub const CELLS: [u32; 3] = [48, 24, 8];
/// Points of a voxel that count.
pub const NUM_POINTS: usize = 3;
pub const TOPIC: &str = "/sensing/lidar/points";
/// The fields of [`Point`].
pub const FIELDS: [&str; 4] = ["x", "y", "z", "intensity"];
/// Voxels of a column of the map along x and y.
const COLUMN: u32 = 8;

/// x, y, z, intensity.
pub type Point = [f32; 4];

/// The encoder's file.
pub fn encoder() -> File {
    const F: usize = 5;
    let mut file = File::default();
    file.inputs.push(("0".into(), F32, vec![50, 4]));
    file.metadata.push(("point_channels".into(), "x y z intensity".into()));
    let mut grid = [CELLS[2] + 1, CELLS[1], CELLS[0]];
    let one = Geometry { padding: [0; 3], ..Geometry::submanifold([1; 3]) };
    let identity = |num_in: usize| {
        (0..F * num_in).map(move |at| f32::from(u8::from(at / num_in == at % num_in)))
    };
    file.scn_convolution(
        &ScnConvolution {
            geometry: one,
            is_submanifold: true,
            grids: [grid; 2],
            channels: [4, F],
            weights: &identity(4).collect::<Vec<_>>(),
            bias: &[0.0, 0.0, 0.0, 0.0, 1.0],
            relu: false,
        },
        "0",
        "level0",
    );
    let halve = Geometry { kernel: [2; 3], stride: [2; 3], padding: [0; 3], dilation: [1; 3] };
    // [Cout, taps, Cin]
    let sums: Vec<f32> =
        (0..F * 8 * F).map(|at| f32::from(u8::from(at / (8 * F) == at % F))).collect();
    for level in 1..=3 {
        let next = halve.strided_shape(grid).unwrap();
        let convolution = ScnConvolution {
            geometry: halve,
            is_submanifold: false,
            grids: [grid, next],
            channels: [F; 2],
            weights: &sums,
            bias: &[0.0; F],
            relu: false,
        };
        let [input, output] = [level - 1, level].map(|level| format!("level{level}"));
        file.scn_convolution(&convolution, &input, &output);
        grid = next;
    }
    file.scn_map("level3", F, grid);
    file
}

/// The network behind the map.
pub fn head() -> Graph {
    let [columns, rows] = [CELLS[0] / COLUMN, CELLS[1] / COLUMN].map(i64::from);
    let axis = [("axis", Attr::Int(1))];
    let parts = ["x", "y", "z", "intensity", "num"];
    // The lower border of each column and row in meters.
    let border = |axis: usize, at: i64| MIN[axis] + SIZE[axis] * (COLUMN as f32) * at as f32;
    let of_cells = |axis: usize| -> Vec<f32> {
        let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| [column, row]));
        cells.map(|cell| border(axis, cell[axis])).collect()
    };
    let dims = [1, 1, rows, columns];
    let mut graph = Graph::new("counting_head", "Set by hand, not trained. One box a column.")
        .input("spatial_features", F32, &[1, 5, rows, columns])
        .integers("ones", &[1; 5])
        .constant("one", &[], &[1.0])
        .constant("zero", &[], &[0.0])
        .constant("four", &[], &[4.0])
        .constant("steep", &[], &[1e4])
        .constant("border_x", &dims, &of_cells(0))
        .constant("border_y", &dims, &of_cells(1))
        .constant("cell_x", &[], &[SIZE[0] * COLUMN as f32])
        .constant("cell_y", &[], &[SIZE[1] * COLUMN as f32])
        .node("Split", &["spatial_features", "ones"], &parts, &axis)
        .op("Max", &["num", "one"], "divisor");
    for part in ["x", "y", "z", "intensity"] {
        graph = graph.op("Div", &[part, "divisor"], &format!("mean_{part}"));
    }
    for axis in ["x", "y"] {
        let [mean, border, inside, cell, reg] =
            ["mean", "border", "inside", "cell", "reg"].map(|part| format!("{part}_{axis}"));
        graph = graph.op("Sub", &[&mean, &border], &inside).op("Div", &[&inside, &cell], &reg);
    }
    graph
        .op("Sub", &["num", "four"], "over")
        .op("Div", &["over", "four"], "logit")
        .op("Sub", &["num", "one"], "missing")
        .op("Min", &["missing", "zero"], "none")
        .op("Mul", &["none", "steep"], "away")
        .op("Add", &["logit", "away"], "heatmap")
        .node("Concat", &["reg_x", "reg_y"], &["reg"], &axis)
        .op("Add", &["mean_z", "zero"], "height")
        .op("Add", &["mean_intensity", "one"], "bright")
        .op("Mul", &["num", "zero"], "sine")
        .op("Add", &["sine", "one"], "cosine")
        .node("Concat", &["num", "cosine", "bright"], &["dim"], &axis)
        .node("Concat", &["sine", "cosine"], &["rot"], &axis)
        .output("reg", F32, &[1, 2, rows, columns])
        .output("height", F32, &[1, 1, rows, columns])
        .output("dim", F32, &[1, 3, rows, columns])
        .output("rot", F32, &[1, 2, rows, columns])
        .output("heatmap", F32, &[1, 1, rows, columns])
}

/// Length, width, height of the anchors of [`anchor_head`], and the height of their centers.
pub const ANCHOR: ([f32; 3], f32) = ([2.0, 1.0, 1.5], -0.5);

/// A network with an anchor head: the anchor of yaw 0 of each column has the scores of
/// [`head`], that of yaw 1.57 none, and all boxes are their anchors.
pub fn anchor_head() -> Graph {
    let [columns, rows] = [CELLS[0] / COLUMN, CELLS[1] / COLUMN].map(i64::from);
    let axis = [("axis", Attr::Int(1))];
    Graph::new("counting_anchors", "Set by hand, not trained. One box a column.")
        .input("spatial_features", F32, &[1, 5, rows, columns])
        .integers("lengths", &[4, 1])
        .constant("one", &[], &[1.0])
        .constant("zero", &[], &[0.0])
        .constant("four", &[], &[4.0])
        .constant("steep", &[], &[1e4])
        .node("Split", &["spatial_features", "lengths"], &["sums", "num"], &axis)
        .op("Sub", &["num", "four"], "over")
        .op("Div", &["over", "four"], "logit")
        .op("Sub", &["num", "one"], "missing")
        .op("Min", &["missing", "zero"], "none")
        .op("Mul", &["none", "steep"], "away")
        .op("Add", &["logit", "away"], "score")
        .op("Mul", &["num", "zero"], "nothing")
        .op("Sub", &["nothing", "steep"], "never")
        .node("Concat", &["score", "never"], &["cls_score"], &axis)
        .node("Concat", &["nothing"; 14], &["bbox_pred"], &axis)
        .node("Concat", &["nothing"; 4], &["dir_cls_pred"], &axis)
        .output("cls_score", F32, &[1, 2, rows, columns])
        .output("bbox_pred", F32, &[1, 14, rows, columns])
        .output("dir_cls_pred", F32, &[1, 4, rows, columns])
}

/// The meaning of the outputs of [`head`].
const CENTER_FACTS: &str = "kind: center
tasks: [[column]]
output_names: [[reg, height, dim, rot, heatmap]]
downsample_factor: 8
size_order: width_length_height
size_log: false
yaw: counter_clockwise
has_velocity: false
";

/// Writes the encoder, the network, their head file and a parameter file with one channel
/// `lidar` to a folder; returns the path of the parameter file.
pub fn write(folder: &Path) -> PathBuf {
    write_with(folder, &head(), CENTER_FACTS)
}

/// As [`write`], with the network [`anchor_head`].
pub fn write_anchors(folder: &Path) -> PathBuf {
    let (size, center_z) = ANCHOR;
    let facts = format!(
        "kind: anchor
anchor_sizes_m: [{size:?}]
anchor_center_z_m: {center_z}
rotations_rad: [0.0, 1.57]
direction_offset_rad: 0.0
channels_last: false
"
    );
    write_with(folder, &anchor_head(), &facts)
}

fn write_with(folder: &Path, head: &Graph, outputs: &str) -> PathBuf {
    std::fs::write(folder.join("encoder.onnx"), encoder().to_bytes()).unwrap();
    head.save(&folder.join("head.onnx")).unwrap();
    let max = [0, 1, 2].map(|axis: usize| MIN[axis] + SIZE[axis] * CELLS[axis] as f32);
    let range: Vec<f32> = MIN.into_iter().chain(max).collect();
    let facts = format!(
        "sensor: lidar
encoder: voxels
class_names: [column]
point_range_m: {range:?}
voxel_size_m: {SIZE:?}
max_points_per_voxel: {NUM_POINTS}
voxel_capacity: 2000
point_channels: [intensity]
model_input: spatial_features
{outputs}"
    );
    std::fs::write(folder.join("counting.yaml"), facts).unwrap();
    let path = folder.join("lidar.param.yaml");
    let text = folder.display();
    let parameters = format!(
        "/**:
  ros__parameters:
    lidar:
      input: {TOPIC}
      output: /perception/lidar/detections
      head: {text}/counting.yaml
      encoder_path: {text}/encoder.onnx
      model_path: {text}/head.onnx
      engine: {{kind: rten}}
      score_thresholds: [0.2]
      nms: {{kind: none}}
      point_capacity: 20000
      densification: {{num_past_sweeps: 0}}
"
    );
    std::fs::write(&path, parameters).unwrap();
    path
}

/// Writes a recording of clouds, a tenth of a second apart, whose points have `fields`, all
/// floats.
pub fn write_bag(folder: &Path, fields: &[&str], clouds: &[Vec<f32>]) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let text = definition(PointCloud2::TYPE).unwrap();
    let topic = bag.add_topic(TOPIC, PointCloud2::TYPE, &text, OfferedQos::default()).unwrap();
    for (frame, values) in (0..).zip(clouds) {
        let stamp = Stamp::from_ros(1000, 100_000_000 * frame);
        bag.write(topic, stamp, &message(stamp, fields, values)).unwrap();
    }
    bag.finish().unwrap();
}

/// A message of points that have `fields`, all floats.
pub fn message(stamp: Stamp, fields: &[&str], values: &[f32]) -> Vec<u8> {
    let mut declared = PointFields::new();
    for (name, offset) in fields.iter().zip((0..).step_by(4)) {
        declared.push(PointField { name, offset, datatype: 7, count: 1 }).unwrap();
    }
    let step = 4 * fields.len() as u32;
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let cloud = PointCloud2 {
        header: Header { stamp, frame_id: "lidar" },
        height: 1,
        width: data.len() as u32 / step,
        fields: declared,
        is_bigendian: false,
        point_step: step,
        row_step: data.len() as u32,
        data: &data,
        is_dense: false,
    };
    let mut bytes = Vec::new();
    cloud.encode(&mut bytes).unwrap();
    bytes
}

/// What a frame should give.
#[derive(Debug, Default)]
pub struct Expected {
    pub num_not_finite: usize,
    pub num_out_of_range: usize,
    pub num_over_voxel: usize,
    /// Voxels over the capacity, and their points.
    pub num_over_capacity: [usize; 2],
    /// Sites of each level, and those over its capacity.
    pub levels: [[usize; 2]; 4],
    /// By column and row of the map: the sums of x, y, z, intensity, and the voxels.
    columns: BTreeMap<[u32; 2], [f64; 5]>,
}

impl Expected {
    /// The voxels and sites of points, with a capacity for each level.
    pub fn new(points: &[Point], capacities: [usize; 4]) -> Self {
        let mut expected = Self::default();
        let mut row_of: HashMap<[u32; 3], Option<usize>> = HashMap::new();
        let mut voxels: Vec<([u32; 3], Vec<Point>)> = Vec::new();
        for &point in points {
            if !point.iter().all(|value| value.is_finite()) {
                expected.num_not_finite += 1;
                continue;
            }
            let cell =
                [0, 1, 2].map(|axis: usize| ((point[axis] - MIN[axis]) / SIZE[axis]).floor());
            if !(0..3).all(|axis| (0.0..CELLS[axis] as f32).contains(&cell[axis])) {
                expected.num_out_of_range += 1;
                continue;
            }
            let [x, y, z] = cell.map(|cell| cell as u32);
            let row = *row_of.entry([z, y, x]).or_insert_with(|| {
                if voxels.len() == capacities[0] {
                    expected.num_over_capacity[0] += 1;
                    return None;
                }
                voxels.push(([z, y, x], Vec::new()));
                Some(voxels.len() - 1)
            });
            match row.map(|row| &mut voxels[row].1) {
                None => expected.num_over_capacity[1] += 1,
                Some(kept) if kept.len() == NUM_POINTS => expected.num_over_voxel += 1,
                Some(kept) => kept.push(point),
            }
        }
        // By cell of the level, in ascending order: the sums of the voxels below it.
        let mut sites: BTreeMap<[u32; 3], [f64; 5]> = BTreeMap::new();
        for (cell, kept) in &voxels {
            let mean = |channel: usize| {
                kept.iter().map(|point| f64::from(point[channel])).sum::<f64>() / kept.len() as f64
            };
            sites.insert(*cell, [mean(0), mean(1), mean(2), mean(3), 1.0]);
        }
        expected.levels[0] = [sites.len(), 0];
        for (level, &capacity) in capacities.iter().enumerate().skip(1) {
            let mut coarser: BTreeMap<[u32; 3], [f64; 5]> = BTreeMap::new();
            for (cell, sums) in &sites {
                let total = coarser.entry(cell.map(|at| at / 2)).or_default();
                total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
            }
            let over = coarser.len().saturating_sub(capacity);
            sites = coarser.into_iter().take(capacity).collect();
            expected.levels[level] = [sites.len(), over];
        }
        expected.columns = sites.into_iter().map(|([_, y, x], sums)| ([x, y], sums)).collect();
        expected
    }

    /// By column and row of the map, the number of voxels.
    pub fn voxels_of_columns(&self) -> BTreeMap<[u32; 2], f64> {
        self.columns.iter().map(|(cell, sums)| (*cell, sums[4])).collect()
    }

    /// Number of boxes.
    pub fn num_columns(&self) -> usize {
        self.columns.len()
    }

    /// Fails unless the detections of a line are these columns.
    #[track_caller]
    pub fn compare(&self, line: &Value) {
        let detections = line["detections_3d"].as_array().unwrap();
        assert_eq!(detections.len(), self.columns.len());
        let mut found = BTreeSet::new();
        for detection in detections {
            let number = |value: &Value| value.as_f64().unwrap();
            let center = [0, 1, 2].map(|axis| number(&detection["center"][axis]));
            let cell = [0, 1].map(|axis: usize| {
                let size = f64::from(SIZE[axis]) * f64::from(COLUMN);
                ((center[axis] - f64::from(MIN[axis])) / size).floor() as u32
            });
            let [x, y, z, intensity, num] = self.columns[&cell];
            let close = |what: &str, found: f64, expected: f64| {
                let error = (found - expected).abs() / expected.abs().max(1.0);
                assert!(error < 1e-5, "{what} of {cell:?}: {found}, {expected}");
            };
            close("x", center[0], x / num);
            close("y", center[1], y / num);
            close("z", center[2], z / num);
            close("voxels", number(&detection["size"][1]), num);
            close("intensity", number(&detection["size"][2]), 1.0 + intensity / num);
            close("score", number(&detection["score"]), 1.0 / (1.0 + (1.0 - num / 4.0).exp()));
            assert!(found.insert(cell), "two boxes of {cell:?}");
        }
    }
}

/// Points all over the crop box and beyond it, in clusters, a twentieth not finite.
pub fn cloud(seed: u32, num: usize) -> Vec<Point> {
    let noise = |at: usize, channel: u32| {
        let mut x =
            (at as u32).wrapping_mul(0x9e37_79b9) ^ seed.wrapping_mul(0x85eb_ca6b) ^ channel;
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        (x ^ (x >> 16)) as f32 / 4_294_967_296.0
    };
    let point = |at: usize| {
        let cluster = at / 6;
        let of = |axis: usize| {
            let middle = noise(cluster, axis as u32) * 1.1 - 0.05;
            let place = middle * CELLS[axis] as f32 + 2.0 * noise(at, 7 + axis as u32);
            MIN[axis] + SIZE[axis] * place
        };
        let intensity = if noise(at, 20) < 0.05 { f32::NAN } else { noise(at, 21) };
        let x = if noise(at, 22) < 0.02 { f32::INFINITY } else { of(0) };
        [x, of(1), of(2), intensity]
    };
    (0..num).map(point).collect()
}
