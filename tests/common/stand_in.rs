//! Networks that fit the demo's heads and were set by hand: they answer, and
//! know nothing.

use std::path::Path;

use det_post_types::ElementType::F32;

use super::onnx::{Attr, Graph};

const NUM_CLASSES: usize = 5;
const NUM_FEATURES: usize = 10;

/// Writes camera.onnx, lidar_encoder.onnx and lidar_head.onnx.
pub fn write(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    camera(0.9).save(&folder.join("camera.onnx")).unwrap();
    encoder().save(&folder.join("lidar_encoder.onnx")).unwrap();
    head().save(&folder.join("lidar_head.onnx")).unwrap();
}

/// Three boxes, the same for every image: a bus of the given score, a car of
/// 0.8, nothing.
pub fn camera(score: f32) -> Graph {
    let rows = [
        [320.0, 100.0, 5.0],
        [180.0, 200.0, 5.0],
        [90.0, 60.0, 5.0],
        [70.0, 30.0, 5.0],
        [0.0, 0.8, 0.0],
        [0.0, 0.0, 0.0],
        [score, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
    ];
    Graph::new("stand_in_camera", "Set by hand, not trained. Always answers the same.")
        .input("images", F32, &[1, 3, 384, 640])
        .constant("answer", &[1, 4 + NUM_CLASSES as i64, 3], rows.as_flattened())
        .constant("nothing", &[], &[0.0])
        .integers("flat", &[1, 1, 1])
        .node("GlobalAveragePool", &["images"], &["mean"], &[])
        .node(
            "ReduceMean",
            &["mean"],
            &["one"],
            &[("axes", Attr::Ints(vec![1])), ("keepdims", Attr::Int(1))],
        )
        .op("Mul", &["one", "nothing"], "zero")
        .op("Reshape", &["zero", "flat"], "zeros")
        .op("Add", &["zeros", "answer"], "output0")
        .output("output0", F32, &[1, 4 + NUM_CLASSES as i64, 3])
}

/// The largest of each feature over the points of a pillar.
fn encoder() -> Graph {
    let reduce = [("axes", Attr::Ints(vec![1])), ("keepdims", Attr::Int(0))];
    Graph::new("stand_in_encoder", "Set by hand, not trained. Takes maxima.")
        .input("input_features", F32, &[-1, 16, NUM_FEATURES as i64])
        .node("ReduceMax", &["input_features"], &["pillar_features"], &reduce)
        .output("pillar_features", F32, &[-1, NUM_FEATURES as i64])
}

/// A car wherever something stands above the sensor.
fn head() -> Graph {
    let pool = [("kernel_shape", Attr::Ints(vec![4; 2])), ("strides", Attr::Ints(vec![4; 2]))];
    let mut graph = Graph::new("stand_in_head", "Set by hand, not trained. Answers height.")
        .input("spatial_features", F32, &[1, NUM_FEATURES as i64, 512, 512])
        .node("MaxPool", &["spatial_features"], &["cells"], &pool);
    let mut heat_weights = vec![0.0; NUM_CLASSES * NUM_FEATURES];
    heat_weights[2] = 2.0;
    let answers: [(&str, &[f32], Vec<f32>); 6] = [
        ("reg", &[0.5; 2], vec![0.0; 2 * NUM_FEATURES]),
        ("height", &[-1.0], vec![0.0; NUM_FEATURES]),
        ("dim", &[1.4, 0.6, 0.4], vec![0.0; 3 * NUM_FEATURES]),
        ("rot", &[0.0, 1.0], vec![0.0; 2 * NUM_FEATURES]),
        ("vel", &[0.0; 2], vec![0.0; 2 * NUM_FEATURES]),
        ("heatmap", &[-3.0, -9.0, -9.0, -9.0, -9.0], heat_weights),
    ];
    for (name, bias, weights) in answers {
        let num = bias.len() as i64;
        let [of_weights, of_bias] = ["weights", "bias"].map(|part| format!("{name}_{part}"));
        let kernel = [("kernel_shape", Attr::Ints(vec![1; 2]))];
        graph = graph
            .constant(&of_weights, &[num, NUM_FEATURES as i64, 1, 1], &weights)
            .constant(&of_bias, &[num], bias)
            .node("Conv", &["cells", &of_weights, &of_bias], &[name], &kernel)
            .output(name, F32, &[1, num, 128, 128]);
    }
    graph
}
