//! Networks of fixed weights in the shapes that a configuration asks for: they find boxes in
//! any input, and other ones in another.

use std::f32::consts::TAU;

use det_post::config::{LidarConfig, LidarOutputs};
use det_post_types::ElementType::F32;

use crate::common::onnx::{Attr, Graph};

/// Width and height of the input of camera networks.
pub const INPUT: i64 = 64;
/// Channels between the encoder and the head.
const FEATURES: usize = 32;

/// Numbers in -1 to 1 that follow from a seed.
fn numbers(seed: u32, num: usize) -> Vec<f32> {
    let number = |index: u32| {
        let mixed = (index ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
        let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
        (mixed >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..num as u32).map(number).collect()
}

/// x, y, z of points on a disc of 70 m.
pub fn cloud(seed: u32, num: usize) -> Vec<f32> {
    let point = |values: &[f32]| {
        let (radius, angle) = (70.0 * values[0].abs(), TAU * values[1]);
        [radius * angle.cos(), radius * angle.sin(), values[2]]
    };
    numbers(seed, 3 * num).chunks_exact(3).flat_map(point).collect()
}

/// The largest of each feature over the points of a pillar, then zeros.
pub fn pillar_encoder(lidar: &LidarConfig) -> Graph {
    let num = lidar.facts.num_features();
    let mut weights = vec![0.0; num * FEATURES];
    (0..num).for_each(|feature| weights[feature * FEATURES + feature] = 1.0);
    let reduce = [("axes", Attr::Ints(vec![1])), ("keepdims", Attr::Int(0))];
    let slots = lidar.facts.max_points_per_voxel as i64;
    Graph::new("pillar_encoder", "Fixed weights, not trained.")
        .input("input_features", F32, &[-1, slots, num as i64])
        .constant("weights", &[num as i64, FEATURES as i64], &weights)
        .node("ReduceMax", &["input_features"], &["largest"], &reduce)
        .op("MatMul", &["largest", "weights"], "pillar_features")
        .output("pillar_features", F32, &[-1, FEATURES as i64])
}

/// Outputs of CenterPoint, each one convolution. Empty pillars score below every threshold.
pub fn center_head(lidar: &LidarConfig) -> Graph {
    let LidarOutputs::Center(center) = &lidar.facts.outputs else { panic!("{:?}", lidar.facts) };
    let [columns, rows, _] = lidar.facts.grid.grid_size().map(|cells| cells as i64);
    let stride = center.downsample_factor as i64;
    let classes = lidar.facts.class_names.len();
    let parts: [(&str, f32, &[f32]); 6] = [
        ("heatmap", 0.1, &[-5.0; 16][..classes]),
        ("reg", 0.005, &[0.5, 0.5]),
        ("height", 0.01, &[0.0]),
        ("dim", 0.005, &[0.64, 1.5, 0.47]),
        ("rot", 0.02, &[0.4, 0.6]),
        ("vel", 0.05, &[1.0, 0.0]),
    ];
    let dims = [1, FEATURES as i64, rows, columns];
    let graph = Graph::new("center_head", "Fixed weights, not trained.");
    let mut graph = graph.input("spatial_features", F32, &dims);
    let conv = [("kernel_shape", Attr::Ints(vec![1; 2])), ("strides", Attr::Ints(vec![stride; 2]))];
    for (seed, (name, scale, bias)) in (1..).zip(parts) {
        let (weight_name, bias_name) = (format!("{name}_weights"), format!("{name}_bias"));
        let channels = bias.len();
        let weights: Vec<f32> =
            numbers(seed, channels * FEATURES).iter().map(|value| scale * value).collect();
        let inputs = ["spatial_features", &weight_name, &bias_name];
        graph = graph
            .constant(&weight_name, &[channels as i64, FEATURES as i64, 1, 1], &weights)
            .constant(&bias_name, &[channels as i64], bias)
            .node("Conv", &inputs, &[name], &conv)
            .output(name, F32, &[1, channels as i64, rows / stride, columns / stride]);
    }
    graph
}

/// An input of images and, for each cell of three strides, four numbers of a box and
/// probabilities; `[1, 4 + num, cells]` in `all`.
fn cells(name: &str, num_probabilities: usize, box_scale: f32) -> Graph {
    let graph = Graph::new(name, "Fixed weights, not trained.");
    let mut graph = graph.input("images", F32, &[1, 3, INPUT, INPUT]);
    let mut parts = Vec::new();
    for (seed, stride) in (7..).zip([8, 16, 32_i64]) {
        let conv = [
            ("kernel_shape", Attr::Ints(vec![stride; 2])),
            ("strides", Attr::Ints(vec![stride; 2])),
        ];
        let pixels = 3 * (stride * stride) as usize;
        for (part, channels, scale) in
            [("box", 4, box_scale), ("probability", num_probabilities, 12.0)]
        {
            let names =
                ["weights", "conv", "sure", "flat"].map(|of| format!("{of}_{part}{stride}"));
            let [weight_name, of_conv, of_sigmoid, flat] = names.each_ref().map(String::as_str);
            let scale = scale / (pixels as f32 * 50.0).sqrt() / 10.0;
            let weights: Vec<f32> =
                numbers(seed, channels * pixels).iter().map(|value| scale * value).collect();
            graph = graph
                .constant(weight_name, &[channels as i64, 3, stride, stride], &weights)
                .node("Conv", &["images", weight_name], &[of_conv], &conv);
            let is_box = part == "box";
            if !is_box {
                graph = graph.op("Sigmoid", &[of_conv], of_sigmoid);
            }
            let shape = format!("shape_{part}{stride}");
            graph = graph
                .integers(&shape, &[1, channels as i64, (INPUT / stride) * (INPUT / stride)])
                .op("Reshape", &[if is_box { of_conv } else { of_sigmoid }, &shape], flat);
        }
        let (flat_box, flat_sure) =
            (format!("flat_box{stride}"), format!("flat_probability{stride}"));
        let joined = format!("joined{stride}");
        let along = [("axis", Attr::Int(1))];
        graph = graph.node("Concat", &[&flat_box, &flat_sure], &[&joined], &along);
        parts.push(joined);
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    graph.node("Concat", &parts, &["all"], &[("axis", Attr::Int(2))])
}

/// The number of cells of three strides.
const NUM_CELLS: i64 =
    (INPUT / 8) * (INPUT / 8) + (INPUT / 16) * (INPUT / 16) + (INPUT / 32) * (INPUT / 32);

/// A network of YOLOX: `[1, cells, 5 + classes]`.
pub fn yolox(num_classes: usize) -> Graph {
    let turned = [("perm", Attr::Ints(vec![0, 2, 1]))];
    cells("yolox", 1 + num_classes, 1.0).node("Transpose", &["all"], &["output"], &turned).output(
        "output",
        F32,
        &[1, NUM_CELLS, 5 + num_classes as i64],
    )
}

/// A network of YOLOv8: `[1, 4 + classes, cells]`. Its boxes lie in the middle of the image.
pub fn yolov8(num_classes: usize) -> Graph {
    let channels = 4 + num_classes;
    let mut bias = vec![0.0; channels];
    bias[..4].copy_from_slice(&[32.0, 32.0, 24.0, 16.0]);
    cells("yolov8", num_classes, 2000.0)
        .constant("bias", &[1, channels as i64, 1], &bias)
        .op("Add", &["all", "bias"], "output0")
        .output("output0", F32, &[1, channels as i64, NUM_CELLS])
}
