//! CUDA-BEVFusion as NVIDIA publishes it, small: five files of the published structure with seeded weights.
//! Images, features, depths and the map of the points have the sizes of [`fused_onnx`](super::fused_onnx).

use std::io;
use std::path::Path;

use super::fused_onnx::{CHANNELS, DEPTHS, FEATURES, IMAGE, MAP};
use super::onnx::{Attr, Graph};
use super::random::Random;
use super::sparse_onnx::{Conv, ENCODER, File};
use det_post_types::ElementType::F32;

/// Rows and columns of the map of the cameras in front of `camera.vtransform`: along x and y.
pub const CAMERA_MAP: [usize; 2] = [8, 6];
/// Proposals.
pub const NUM_PROPOSALS: usize = 5;
/// Classes.
pub const NUM_CLASSES: usize = 3;
/// Channels of the map between fuser and head.
const MIDDLE: i64 = 6;
/// Channels of a query.
const WIDTH: i64 = 8;
const POINT_CHANNELS: i64 = 8;

/// The names of the files.
pub const NAMES: [&str; 5] = [
    "camera.backbone.onnx",
    "camera.vtransform.onnx",
    "lidar.backbone.xyz.onnx",
    "fuser.onnx",
    "head.bbox.onnx",
];

/// Writes the files of so many cameras to a folder.
///
/// # Errors
/// Errors of writing them.
pub fn save(folder: &Path, num_cameras: usize) -> io::Result<()> {
    let files = [
        backbone(num_cameras as i64, "Relu").to_bytes(),
        transform().to_bytes(),
        encoder("xyz").to_bytes(),
        fuser(POINT_CHANNELS).to_bytes(),
        head("score").to_bytes(),
    ];
    NAMES.iter().zip(files).try_for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes))
}

/// The encoder, on a grid of the axes x y z: `lidar.backbone.xyz.onnx`. The rows of its map are along x, or
/// along y in another order than the published one.
pub fn encoder(order: &str) -> File {
    let reversed = |mut values: [i64; 3]| {
        values.reverse();
        values
    };
    let conv = |of: &Conv| Conv {
        geometry: of.geometry.map(reversed),
        grids: of.grids.map(reversed),
        ..*of
    };
    let [first, second, down, out] = ENCODER.each_ref().map(conv);
    let mut file = File { half: true, ..File::default() };
    file.inputs.push(("0".into(), det_post_types::ElementType::F16, vec![50, 3]));
    file.scn_conv(&first, "0", "1");
    file.scn_conv(&second, "1", "2");
    file.op("Add", &["2", "1"], "3", vec![]);
    file.op("Relu", &["3"], "4", vec![]);
    file.scn_conv(&down, "4", "5");
    file.scn_conv(&out, "5", "6");
    file.scatter_dense("6", "7", "xyz", [4, 4, 3, 2]);
    let (dims, map) = match order {
        "xyz" => (vec![0, 1, 4, 2, 3], vec![1, 8, 4, 3]),
        _ => (vec![0, 1, 4, 3, 2], vec![1, 8, 3, 4]),
    };
    file.op("Transpose", &["7"], "8", vec![("dims", Attr::Ints(dims))]);
    file.op("Reshape", &["8"], "9", vec![("dims", Attr::Ints(map.clone()))]);
    file.outputs.push(("9".into(), map));
    file
}

/// A network with seeded weights.
struct Net {
    graph: Graph,
    random: Random,
}

impl Net {
    fn new(name: &str, seed: u64) -> Self {
        Self { graph: Graph::new(name, ""), random: Random::new(seed) }
    }

    fn add(&mut self, change: impl FnOnce(Graph) -> Graph) {
        self.graph = change(std::mem::take(&mut self.graph));
    }

    fn weights(&mut self, name: &str, dims: &[i64], most: f32) {
        let num = dims.iter().product::<i64>();
        let values: Vec<f32> = (0..num).map(|_| self.random.range(-most, most)).collect();
        self.add(|graph| graph.constant(name, dims, &values));
    }

    fn integers(&mut self, name: &str, values: &[i64]) {
        self.add(|graph| graph.integers(name, values));
    }

    fn op(&mut self, op: &str, inputs: &[&str], output: &str, attributes: &[(&str, Attr)]) {
        self.add(|graph| graph.node(op, inputs, &[output], attributes));
    }

    /// A convolution with bias, of one or two dimensions by its kernel.
    fn conv(&mut self, (input, output): (&str, &str), [out, from]: [i64; 2], form: Form<'_>) {
        let Form { kernel, stride, pad } = form;
        let (weight, bias) = (format!("{output}.weight"), format!("{output}.bias"));
        let fan = (from * kernel.iter().product::<i64>()) as f32;
        self.weights(&weight, &[&[out, from], kernel].concat(), 1.7 / fan.sqrt());
        self.weights(&bias, &[out], 0.2);
        let attributes = [
            ("kernel_shape", Attr::Ints(kernel.to_vec())),
            ("strides", Attr::Ints(vec![stride; kernel.len()])),
            ("pads", Attr::Ints(vec![pad; 2 * kernel.len()])),
        ];
        self.op("Conv", &[input, &weight, &bias], output, &attributes);
    }

    fn reshape(&mut self, input: &str, output: &str, shape: &[i64]) {
        let name = format!("{output}.shape");
        self.integers(&name, shape);
        self.op("Reshape", &[input, &name], output, &[]);
    }

    fn transpose(&mut self, input: &str, output: &str, order: &[i64]) {
        self.op("Transpose", &[input], output, &[("perm", Attr::Ints(order.to_vec()))]);
    }

    /// NVIDIA's layer normalization, of a weight and a bias.
    fn norm(&mut self, input: &str, output: &str) {
        let (weight, bias) = (format!("{output}.weight"), format!("{output}.bias"));
        self.weights(&weight, &[WIDTH], 1.0);
        self.weights(&bias, &[WIDTH], 0.3);
        let attributes = [("axis", Attr::Int(-1)), ("epsilon", Attr::Float(1e-5))];
        let inputs = [input, &*weight, &*bias];
        self.add(|graph| {
            graph.node_of("nv", "CustomLayerNormalization", &inputs, &[output], &attributes)
        });
    }
}

/// The form of a convolution.
#[derive(Clone, Copy)]
struct Form<'a> {
    kernel: &'a [i64],
    stride: i64,
    pad: i64,
}

const POINT: Form<'static> = Form { kernel: &[1, 1], stride: 1, pad: 0 };
const AREA: Form<'static> = Form { kernel: &[3, 3], stride: 1, pad: 1 };
const HALF: Form<'static> = Form { kernel: &[3, 3], stride: 2, pad: 1 };
const ROW: Form<'static> = Form { kernel: &[1], stride: 1, pad: 0 };

/// `camera.backbone.onnx`; `activation` is the operator behind the convolution of the images.
pub fn backbone(num_cameras: i64, activation: &str) -> Graph {
    let [width, height] = IMAGE.map(i64::from);
    let [channels, rows, columns] = FEATURES.map(|size| size as i64);
    let [depths, features] = [DEPTHS as i64, CHANNELS as i64];
    let mut net = Net::new("camera.backbone", 3);
    net.add(|graph| {
        graph.input("img", F32, &[1, num_cameras, 3, height, width]).input(
            "depth",
            F32,
            &[1, num_cameras, 1, height, width],
        )
    });
    net.reshape("img", "images", &[num_cameras, 3, height, width]);
    net.reshape("depth", "depths", &[num_cameras, 1, height, width]);
    let patch = Form { kernel: &[8, 8], stride: 8, pad: 0 };
    net.conv(("images", "maps"), [channels, 3], patch);
    net.op(activation, &["maps"], "neck", &[]);
    net.conv(("depths", "dtransform.0"), [2, 1], POINT);
    net.op("Relu", &["dtransform.0"], "dtransform.1", &[]);
    let patch = Form { kernel: &[5, 5], stride: 8, pad: 2 };
    net.conv(("dtransform.1", "dtransform.2"), [3, 2], patch);
    net.op("Relu", &["dtransform.2"], "dtransform.3", &[]);
    let along_channels = || [("axis", Attr::Int(1))];
    net.op("Concat", &["dtransform.3", "neck"], "joined", &along_channels());
    net.conv(("joined", "depthnet"), [depths + features, 3 + channels], POINT);
    for (name, value) in [("begin", 0), ("middle", depths), ("end", depths + features), ("one", 1)]
    {
        net.integers(name, &[value]);
    }
    net.op("Slice", &["depthnet", "begin", "middle", "one"], "logits", &[]);
    net.op("Softmax", &["logits"], "camera_depth_weights", &along_channels());
    net.op("Slice", &["depthnet", "middle", "end", "one"], "context", &[]);
    net.transpose("context", "camera_feature", &[0, 2, 3, 1]);
    net.add(|graph| {
        graph.output("camera_feature", F32, &[num_cameras, rows, columns, features]).output(
            "camera_depth_weights",
            F32,
            &[num_cameras, depths, rows, columns],
        )
    });
    net.graph
}

/// `camera.vtransform.onnx`.
pub fn transform() -> Graph {
    let channels = CHANNELS as i64;
    let [rows, columns] = CAMERA_MAP.map(|size| size as i64);
    let [rows_out, columns_out] = MAP.map(|size| size as i64);
    let mut net = Net::new("camera.vtransform", 5);
    net.add(|graph| graph.input("feat_in", F32, &[1, channels, rows, columns]));
    net.conv(("feat_in", "first"), [channels; 2], AREA);
    net.op("Relu", &["first"], "first.relu", &[]);
    net.conv(("first.relu", "second"), [channels; 2], HALF);
    net.op("Relu", &["second"], "feat_out", &[]);
    net.add(|graph| graph.output("feat_out", F32, &[1, channels, rows_out, columns_out]));
    net.graph
}

/// `fuser.onnx`, of a map of the points of so many channels.
pub fn fuser(point_channels: i64) -> Graph {
    let channels = CHANNELS as i64;
    let [rows, columns] = MAP.map(|size| size as i64);
    let mut net = Net::new("fuser", 7);
    net.add(|graph| {
        graph.input("camera", F32, &[1, channels, rows, columns]).input(
            "lidar",
            F32,
            &[1, point_channels, rows, columns],
        )
    });
    net.op("Concat", &["camera", "lidar"], "maps", &[("axis", Attr::Int(1))]);
    net.conv(("maps", "fused"), [MIDDLE, channels + point_channels], AREA);
    net.op("Relu", &["fused"], "middle", &[]);
    net.add(|graph| graph.output("middle", F32, &[1, MIDDLE, rows, columns]));
    net.graph
}

/// `head.bbox.onnx`, whose scores have a name.
pub fn head(score: &str) -> Graph {
    let [rows, columns] = MAP.map(|size| size as i64);
    let (cells, num, classes) = (rows * columns, NUM_PROPOSALS as i64, NUM_CLASSES as i64);
    let mut net = Net::new("head.bbox", 11);
    net.add(|graph| graph.input("middle", F32, &[1, MIDDLE, rows, columns]));
    net.conv(("middle", "shared"), [WIDTH, MIDDLE], AREA);
    net.reshape("shared", "keys", &[1, WIDTH, cells]);
    net.conv(("shared", "heat.logits"), [classes, WIDTH], AREA);
    net.op("Sigmoid", &["heat.logits"], "heat.map", &[]);
    net.reshape("heat.map", "heat", &[1, classes, cells]);
    add_queries(&mut net, cells);
    add_decoder(&mut net);
    for (name, channels) in [("center", 2), ("height", 1), ("dim", 3), ("rot", 2), ("vel", 2)] {
        net.conv(("decoded", name), [channels, WIDTH], ROW);
    }
    net.op("Add", &["center", "positions"], "reg", &[]);
    net.conv(("decoded", "class.logits"), [classes, WIDTH], ROW);
    net.op("Sigmoid", &["class.logits"], "class.shares", &[]);
    net.op("Gather", &["heat", "cells"], "heat.of.queries", &[("axis", Attr::Int(2))]);
    net.op("Mul", &["class.shares", "heat.of.queries"], "class.scores", &[]);
    net.op("Mul", &["class.scores", "one_hot"], score, &[]);
    for (name, channels) in
        [(score, classes), ("rot", 2), ("dim", 3), ("reg", 2), ("height", 1), ("vel", 2)]
    {
        net.add(|graph| graph.output(name, F32, &[1, channels, num]));
    }
    net.graph
}

/// The best cells of any class: `cells`, `query`, `one_hot` of their classes, and their `positions`.
fn add_queries(net: &mut Net, cells: i64) {
    let (num, classes) = (NUM_PROPOSALS as i64, NUM_CLASSES as i64);
    net.reshape("heat", "heat.row", &[1, classes * cells]);
    net.integers("num", &[num]);
    net.integers("num.cells", &[cells]);
    let last = [("axis", Attr::Int(-1))];
    net.add(|graph| graph.node("TopK", &["heat.row", "num"], &["top", "top.places"], &last));
    net.reshape("top.places", "places", &[num]);
    net.op("Div", &["places", "num.cells"], "classes", &[]);
    net.op("Mod", &["places", "num.cells"], "cells", &[]);
    net.op("Gather", &["keys", "cells"], "features", &[("axis", Attr::Int(2))]);
    let identity: Vec<f32> =
        (0..classes * classes).map(|at| f32::from(u8::from(at % (classes + 1) == 0))).collect();
    net.add(|graph| graph.constant("identity", &[classes, classes], &identity));
    net.op("Gather", &["identity", "classes"], "one_hot.rows", &[]);
    net.reshape("one_hot.rows", "one_hot.batch", &[1, num, classes]);
    net.transpose("one_hot.batch", "one_hot", &[0, 2, 1]);
    net.conv(("one_hot", "class.encoding"), [WIDTH, classes], ROW);
    net.op("Add", &["features", "class.encoding"], "query", &[]);
    let columns = MAP[1] as i64;
    let centers: Vec<f32> = (0..cells)
        .flat_map(|cell| [cell / columns, cell % columns].map(|at| at as f32 + 0.5))
        .collect();
    net.add(|graph| graph.constant("centers", &[cells, 2], &centers));
    net.op("Gather", &["centers", "cells"], "positions.rows", &[]);
    net.reshape("positions.rows", "positions.batch", &[1, num, 2]);
    net.transpose("positions.batch", "positions", &[0, 2, 1]);
}

/// A layer of a decoder: attention to all cells and a network of each query, both behind a sum and a
/// normalization.
fn add_decoder(net: &mut Net) {
    net.transpose("query", "rows", &[0, 2, 1]);
    net.transpose("keys", "values", &[0, 2, 1]);
    net.op("MatMul", &["rows", "keys"], "similar", &[]);
    net.op("Softmax", &["similar"], "attention", &[("axis", Attr::Int(-1))]);
    net.op("MatMul", &["attention", "values"], "attended", &[]);
    net.op("Add", &["rows", "attended"], "with.attended", &[]);
    net.norm("with.attended", "norm.1");
    net.weights("linear.1", &[WIDTH, WIDTH], 0.6);
    net.weights("linear.2", &[WIDTH, WIDTH], 0.6);
    net.op("MatMul", &["norm.1", "linear.1"], "hidden", &[]);
    net.op("Relu", &["hidden"], "hidden.relu", &[]);
    net.op("MatMul", &["hidden.relu", "linear.2"], "hidden.out", &[]);
    net.op("Add", &["norm.1", "hidden.out"], "with.hidden", &[]);
    net.norm("with.hidden", "norm.2");
    net.transpose("norm.2", "decoded", &[0, 2, 1]);
}
