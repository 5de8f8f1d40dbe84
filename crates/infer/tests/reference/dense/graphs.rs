//! Generated graphs, one a construct.

use det_post_testing::onnx::{Attr, Graph};
use det_post_types::ElementType::F32;

use super::{agrees, library, noise};

/// A graph with weights that are noise.
struct Net {
    graph: Graph,
    num: u32,
}

impl Net {
    fn new(shape: &[i64]) -> Self {
        Self { graph: Graph::new("generated", "").input("x", F32, shape), num: 0 }
    }

    /// A constant in [-scale / 2, scale / 2) plus `middle`.
    fn weight(&mut self, shape: &[i64], scale: f32, middle: f32) -> String {
        self.num += 1;
        let name = format!("w{}", self.num);
        let values = noise(shape.iter().product::<i64>() as usize, scale, self.num);
        let values: Vec<f32> = values.iter().map(|value| value - scale / 2.0 + middle).collect();
        self.graph = std::mem::take(&mut self.graph).constant(&name, shape, &values);
        name
    }

    fn floats(&mut self, shape: &[i64], values: &[f32]) -> String {
        self.num += 1;
        let name = format!("c{}", self.num);
        self.graph = std::mem::take(&mut self.graph).constant(&name, shape, values);
        name
    }

    fn integers(&mut self, values: &[i64]) -> String {
        self.num += 1;
        let name = format!("i{}", self.num);
        self.graph = std::mem::take(&mut self.graph).integers(&name, values);
        name
    }

    fn many(
        &mut self,
        op: &str,
        inputs: &[&str],
        num: usize,
        attributes: &[(&str, Attr)],
    ) -> Vec<String> {
        self.num += 1;
        let outputs: Vec<String> = (0..num).map(|at| format!("v{}_{at}", self.num)).collect();
        let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
        self.graph = std::mem::take(&mut self.graph).node(op, inputs, &names, attributes);
        outputs
    }

    fn node(&mut self, op: &str, inputs: &[&str], attributes: &[(&str, Attr)]) -> String {
        self.many(op, inputs, 1, attributes).remove(0)
    }

    fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.node(op, inputs, &[])
    }

    /// A convolution with a bias; `[out, in / groups, kernel, stride, pad, dilation, groups]`.
    fn conv(&mut self, x: &str, [m, c, k, s, p, d, g]: [i64; 7]) -> String {
        let scale = 4.0 / ((c * k * k) as f32).sqrt();
        let (w, b) = (self.weight(&[m, c, k, k], scale, 0.0), self.weight(&[m], 1.0, 0.0));
        let attributes = [
            ("strides", Attr::Ints(vec![s, s])),
            ("pads", Attr::Ints(vec![p; 4])),
            ("dilations", Attr::Ints(vec![d, d])),
            ("group", Attr::Int(g)),
        ];
        self.node("Conv", &[x, &w, &b], &attributes)
    }

    fn batch_norm(&mut self, x: &str, num: i64) -> String {
        let (gamma, beta) = (self.weight(&[num], 1.0, 1.0), self.weight(&[num], 1.0, 0.0));
        let (mean, variance) = (self.weight(&[num], 1.0, 0.0), self.weight(&[num], 0.5, 0.6));
        self.op("BatchNormalization", &[x, &gamma, &beta, &mean, &variance])
    }

    fn silu(&mut self, x: &str) -> String {
        let gate = self.op("Sigmoid", &[x]);
        self.op("Mul", &[x, &gate])
    }

    fn reshape(&mut self, x: &str, shape: &[i64]) -> String {
        let shape = self.integers(shape);
        self.op("Reshape", &[x, &shape])
    }

    fn permuted(&mut self, x: &str, order: &[i64]) -> String {
        self.node("Transpose", &[x], &[("perm", Attr::Ints(order.to_vec()))])
    }

    fn concat(&mut self, parts: &[&str], axis: i64) -> String {
        self.node("Concat", parts, &[("axis", Attr::Int(axis))])
    }

    fn enlarged(&mut self, x: &str) -> String {
        let scales = self.floats(&[4], &[1.0, 1.0, 2.0, 2.0]);
        let attributes = [
            ("mode", Attr::Text("nearest")),
            ("coordinate_transformation_mode", Attr::Text("asymmetric")),
            ("nearest_mode", Attr::Text("floor")),
        ];
        self.node("Resize", &[x, "", &scales], &attributes)
    }

    fn pool(&mut self, op: &str, x: &str, [k, s, p]: [i64; 3]) -> String {
        let attributes = [
            ("kernel_shape", Attr::Ints(vec![k, k])),
            ("strides", Attr::Ints(vec![s, s])),
            ("pads", Attr::Ints(vec![p; 4])),
        ];
        self.node(op, &[x], &attributes)
    }

    /// The graph gives the same in ONNX Runtime, in so many steps.
    fn agrees(self, outputs: &[(&str, usize)], num_steps: usize) {
        let Some(library) = library() else { return };
        let mut graph = self.graph;
        for (output, rank) in outputs {
            graph = graph.output(output, F32, &vec![-1; *rank]);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("generated.onnx");
        graph.save(&path).unwrap();
        assert_eq!(agrees(&path, &library, 1.0), num_steps);
    }
}

#[test]
fn batch_norm_and_relu_are_in_the_convolution() {
    let mut net = Net::new(&[2, 3, 17, 20]);
    let y = net.conv("x", [8, 3, 3, 2, 1, 1, 1]);
    let y = net.batch_norm(&y, 8);
    let y = net.op("Relu", &[&y]);
    net.agrees(&[(&y, 4)], 1);
}

#[test]
fn a_bottleneck_takes_two_steps() {
    let mut net = Net::new(&[1, 3, 12, 12]);
    let x = net.conv("x", [16, 3, 3, 1, 1, 1, 1]);
    let x = net.silu(&x);
    let y = net.conv(&x, [16, 16, 1, 1, 0, 1, 1]);
    let y = net.silu(&y);
    let y = net.conv(&y, [16, 16, 3, 1, 1, 1, 1]);
    let y = net.silu(&y);
    let y = net.op("Add", &[&x, &y]);
    net.agrees(&[(&y, 4)], 3);
}

#[test]
fn a_residual_block_adds_before_the_activation() {
    let mut net = Net::new(&[1, 4, 9, 9]);
    let x = net.conv("x", [8, 4, 1, 1, 0, 1, 1]);
    let y = net.conv(&x, [8, 8, 3, 1, 1, 1, 1]);
    let y = net.batch_norm(&y, 8);
    let y = net.op("Add", &[&y, &x]);
    let y = net.op("Relu", &[&y]);
    net.agrees(&[(&y, 4)], 2);
}

#[test]
fn depthwise_and_hard_swish() {
    let mut net = Net::new(&[1, 3, 14, 14]);
    let y = net.conv("x", [16, 3, 3, 2, 1, 1, 1]);
    let y = net.op("HardSwish", &[&y]);
    let y = net.conv(&y, [16, 1, 5, 1, 2, 1, 16]);
    let (three, six) = (net.floats(&[], &[3.0]), net.floats(&[], &[6.0]));
    let zero = net.floats(&[], &[0.0]);
    let gate = net.op("Add", &[&y, &three]);
    let gate = net.op("Clip", &[&gate, &zero, &six]);
    let y = net.op("Mul", &[&y, &gate]);
    let y = net.op("Div", &[&y, &six]);
    let y = net.conv(&y, [8, 16, 1, 1, 0, 1, 1]);
    net.agrees(&[(&y, 4)], 3);
}

#[test]
fn grouped_and_dilated() {
    let mut net = Net::new(&[1, 8, 16, 15]);
    let y = net.conv("x", [12, 2, 3, 1, 2, 2, 4]);
    let y = net.node("LeakyRelu", &[&y], &[("alpha", Attr::Float(0.1))]);
    // Planes of more than four channels are brought side by side first.
    net.agrees(&[(&y, 4)], 2);
}

#[test]
fn a_neck_of_transposed_convolutions_is_written_in_place() {
    let mut net = Net::new(&[1, 4, 8, 8]);
    let x = net.conv("x", [16, 4, 3, 1, 1, 1, 1]);
    let down = net.conv(&x, [24, 16, 3, 2, 1, 1, 1]);
    let mut parts = Vec::new();
    for (from, channels, stride) in [(&x, 16, 1), (&down, 24, 2)] {
        let (w, b) =
            (net.weight(&[channels, 8, stride, stride], 1.0, 0.0), net.weight(&[8], 1.0, 0.0));
        let y =
            net.node("ConvTranspose", &[from, &w, &b], &[("strides", Attr::Ints(vec![stride; 2]))]);
        let y = net.batch_norm(&y, 8);
        parts.push(net.op("Relu", &[&y]));
    }
    let y = net.concat(&[&parts[0], &parts[1]], 1);
    let y = net.conv(&y, [8, 16, 3, 1, 1, 1, 1]);
    net.agrees(&[(&y, 4)], 5);
}

#[test]
fn a_transposed_convolution_with_pads() {
    let mut net = Net::new(&[1, 4, 7, 6]);
    let x = net.conv("x", [8, 4, 1, 1, 0, 1, 1]);
    let (w, b) = (net.weight(&[8, 2, 3, 3], 1.0, 0.0), net.weight(&[4], 1.0, 0.0));
    let attributes = [
        ("strides", Attr::Ints(vec![2, 2])),
        ("pads", Attr::Ints(vec![1; 4])),
        ("output_padding", Attr::Ints(vec![1, 1])),
        ("group", Attr::Int(2)),
    ];
    let y = net.node("ConvTranspose", &[&x, &w, &b], &attributes);
    net.agrees(&[(&y, 4)], 2);
}

#[test]
fn split_and_concatenation_cost_nothing() {
    let mut net = Net::new(&[1, 4, 10, 10]);
    let y = net.conv("x", [32, 4, 1, 1, 0, 1, 1]);
    let y = net.silu(&y);
    let parts = net.many("Split", &[&y], 2, &[("axis", Attr::Int(1))]);
    let a = net.conv(&parts[1], [16, 16, 3, 1, 1, 1, 1]);
    let a = net.silu(&a);
    let b = net.conv(&a, [16, 16, 3, 1, 1, 1, 1]);
    let b = net.silu(&b);
    let b = net.op("Add", &[&parts[1], &b]);
    let y = net.concat(&[&parts[0], &parts[1], &b], 1);
    let y = net.conv(&y, [8, 48, 1, 1, 0, 1, 1]);
    net.agrees(&[(&y, 4)], 4);
}

#[test]
fn branches_of_one_input_are_one_convolution() {
    let mut net = Net::new(&[1, 4, 10, 10]);
    let x = net.conv("x", [16, 4, 3, 1, 1, 1, 1]);
    let a = net.conv(&x, [8, 16, 1, 1, 0, 1, 1]);
    let a = net.silu(&a);
    let b = net.conv(&x, [16, 16, 1, 1, 0, 1, 1]);
    let b = net.silu(&b);
    let m = net.conv(&a, [8, 8, 3, 1, 1, 1, 1]);
    let m = net.silu(&m);
    let m = net.op("Add", &[&a, &m]);
    let y = net.concat(&[&m, &b], 1);
    let y = net.conv(&y, [8, 24, 1, 1, 0, 1, 1]);
    net.agrees(&[(&y, 4)], 4);
}

#[test]
fn a_pyramid_of_poolings() {
    let mut net = Net::new(&[1, 4, 9, 11]);
    let a = net.conv("x", [8, 4, 1, 1, 0, 1, 1]);
    let b = net.pool("MaxPool", &a, [5, 1, 2]);
    let c = net.pool("MaxPool", &b, [5, 1, 2]);
    let d = net.pool("AveragePool", &c, [3, 1, 1]);
    // Of seven taps and more: along columns, then along rows.
    let e = net.pool("AveragePool", &d, [7, 1, 3]);
    let y = net.concat(&[&a, &b, &c, &d, &e], 1);
    let y = net.conv(&y, [8, 40, 1, 1, 0, 1, 1]);
    net.agrees(&[(&y, 4)], 7);
}

#[test]
fn enlargements_are_read_or_copied() {
    let mut net = Net::new(&[1, 4, 8, 8]);
    let fine = net.conv("x", [8, 4, 3, 1, 1, 1, 1]);
    let coarse = net.conv(&fine, [8, 8, 3, 2, 1, 1, 1]);
    // Read by a convolution.
    let up = net.enlarged(&coarse);
    let a = net.conv(&up, [8, 8, 3, 1, 1, 1, 1]);
    // Written by a 1x1 convolution and added.
    let lateral = net.conv(&coarse, [8, 8, 1, 1, 0, 1, 1]);
    let lateral = net.op("Relu", &[&lateral]);
    let up = net.enlarged(&lateral);
    let b = net.op("Add", &[&fine, &up]);
    // A part of a concatenation.
    let c = net.concat(&[&a, &b], 1);
    let c = net.conv(&c, [4, 16, 1, 1, 0, 1, 1]);
    net.agrees(&[(&c, 4)], 5);
}

#[test]
fn focus_is_a_convolution_of_the_picture() {
    let mut net = Net::new(&[1, 3, 16, 20]);
    let mut parts = Vec::new();
    for (dy, dx) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let mut part = "x".to_owned();
        for (axis, start) in [(2, dy), (3, dx)] {
            let lists = [[start], [i64::MAX], [axis], [2]].map(|list| net.integers(&list));
            let [start, end, axis, step] = &lists;
            part = net.op("Slice", &[&part, start, end, axis, step]);
        }
        parts.push(part);
    }
    let names: Vec<&str> = parts.iter().map(String::as_str).collect();
    let y = net.concat(&names, 1);
    let y = net.conv(&y, [16, 12, 3, 1, 1, 1, 1]);
    let y = net.silu(&y);
    net.agrees(&[(&y, 4)], 1);
}

#[test]
fn pads_are_in_convolution_and_pooling() {
    let mut net = Net::new(&[1, 3, 10, 12]);
    let pads = net.integers(&[0, 0, 1, 2, 0, 0, 2, 1]);
    let y = net.op("Pad", &["x", &pads]);
    let y = net.conv(&y, [8, 3, 3, 1, 0, 1, 1]);
    let lowest = net.floats(&[], &[f32::NEG_INFINITY]);
    let y = net.op("Pad", &[&y, &pads, &lowest]);
    let y = net.pool("MaxPool", &y, [3, 2, 0]);
    net.agrees(&[(&y, 4)], 2);
}

#[test]
fn distribution_focal_loss() {
    let mut net = Net::new(&[1, 4, 6, 7]);
    let y = net.conv("x", [32, 4, 1, 1, 0, 1, 1]);
    let y = net.reshape(&y, &[1, 4, 8, 42]);
    let y = net.permuted(&y, &[0, 3, 1, 2]);
    let y = net.node("Softmax", &[&y], &[("axis", Attr::Int(3))]);
    let y = net.permuted(&y, &[0, 3, 2, 1]);
    let w = net.floats(&[1, 8, 1, 1], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let y = net.op("Conv", &[&y, &w]);
    let y = net.reshape(&y, &[1, 4, 42]);
    net.agrees(&[(&y, 3)], 2);
}

#[test]
fn an_anchor_head_takes_two_steps() {
    let mut net = Net::new(&[1, 4, 5, 6]);
    let y = net.conv("x", [21, 4, 1, 1, 0, 1, 1]);
    let y = net.reshape(&y, &[1, 3, 7, 5, 6]);
    let y = net.permuted(&y, &[0, 1, 3, 4, 2]);
    let y = net.op("Sigmoid", &[&y]);
    let lengths = net.integers(&[2, 2, 3]);
    let parts = net.many("Split", &[&y, &lengths], 3, &[("axis", Attr::Int(4))]);
    let (two, grid) = (net.floats(&[], &[2.0]), net.weight(&[1, 3, 5, 6, 2], 8.0, 0.0));
    let center = net.op("Mul", &[&parts[0], &two]);
    let center = net.op("Add", &[&center, &grid]);
    let size = net.op("Mul", &[&parts[1], &two]);
    let size = net.op("Pow", &[&size, &two]);
    let size = net.op("Mul", &[&size, &grid]);
    let y = net.concat(&[&center, &size, &parts[2]], 4);
    let y = net.reshape(&y, &[1, 90, 7]);
    net.agrees(&[(&y, 3)], 2);
}

#[test]
fn a_classifier() {
    let mut net = Net::new(&[2, 4, 6, 6]);
    let y = net.conv("x", [16, 4, 3, 1, 1, 1, 1]);
    let y = net.op("GlobalAveragePool", &[&y]);
    let y = net.op("Flatten", &[&y]);
    let (w, b) = (net.weight(&[10, 16], 1.0, 0.0), net.weight(&[10], 1.0, 0.0));
    let y = net.node("Gemm", &[&y, &w, &b], &[("transB", Attr::Int(1))]);
    let y = net.op("Relu", &[&y]);
    let y = net.node("Softmax", &[&y], &[("axis", Attr::Int(1))]);
    net.agrees(&[(&y, 2)], 4);
}

#[test]
fn a_layer_of_a_transformer() {
    let mut net = Net::new(&[2, 9, 16]);
    let (gamma, beta) = (net.weight(&[16], 1.0, 1.0), net.weight(&[16], 1.0, 0.0));
    let y = net.node("LayerNormalization", &["x", &gamma, &beta], &[("axis", Attr::Int(-1))]);
    let heads = ["q", "k", "v"].map(|_| {
        let (w, b) = (net.weight(&[16, 16], 1.0, 0.0), net.weight(&[16], 1.0, 0.0));
        let y = net.op("MatMul", &[&y, &w]);
        let y = net.op("Add", &[&b, &y]);
        let y = net.reshape(&y, &[2, 9, 2, 8]);
        net.permuted(&y, &[0, 2, 1, 3])
    });
    let [q, k, v] = &heads;
    let k = net.permuted(k, &[0, 1, 3, 2]);
    let scores = net.op("MatMul", &[q, &k]);
    let root = net.floats(&[], &[0.353_553_4]);
    let scores = net.op("Mul", &[&scores, &root]);
    let shares = net.node("Softmax", &[&scores], &[("axis", Attr::Int(3))]);
    let y = net.op("MatMul", &[&shares, v]);
    let y = net.permuted(&y, &[0, 2, 1, 3]);
    let y = net.reshape(&y, &[2, 9, 16]);
    let y = net.op("Add", &["x", &y]);
    // An MLP with the error function spelled out.
    let w = net.weight(&[16, 32], 1.0, 0.0);
    let y = net.op("MatMul", &[&y, &w]);
    let (root, one, half) = (
        net.floats(&[], &[std::f32::consts::SQRT_2]),
        net.floats(&[], &[1.0]),
        net.floats(&[], &[0.5]),
    );
    let inner = net.op("Div", &[&y, &root]);
    let inner = net.op("Erf", &[&inner]);
    let inner = net.op("Add", &[&inner, &one]);
    let y = net.op("Mul", &[&y, &inner]);
    let y = net.op("Mul", &[&y, &half]);
    net.agrees(&[(&y, 3)], 12);
}

#[test]
fn pixels_are_shuffled_by_a_copy() {
    let mut net = Net::new(&[1, 4, 5, 5]);
    let y = net.conv("x", [16, 4, 3, 1, 1, 1, 1]);
    let y = net.node(
        "DepthToSpace",
        &[&y],
        &[("blocksize", Attr::Int(2)), ("mode", Attr::Text("CRD"))],
    );
    let y = net.conv(&y, [4, 4, 3, 1, 1, 1, 1]);
    net.agrees(&[(&y, 4)], 4);
}

#[test]
fn linear_enlargements() {
    let mut net = Net::new(&[1, 4, 5, 6]);
    let y = net.conv("x", [8, 4, 3, 1, 1, 1, 1]);
    let sizes = net.integers(&[1, 8, 13, 11]);
    let attributes = [
        ("mode", Attr::Text("linear")),
        ("coordinate_transformation_mode", Attr::Text("half_pixel")),
    ];
    let y = net.node("Resize", &[&y, "", "", &sizes], &attributes);
    let y = net.conv(&y, [4, 8, 1, 1, 0, 1, 1]);
    net.agrees(&[(&y, 4)], 3);
}

#[test]
fn peaks_of_a_heat_map() {
    let mut net = Net::new(&[1, 4, 12, 12]);
    let heat = net.conv("x", [5, 4, 1, 1, 0, 1, 1]);
    let largest = net.pool("MaxPool", &heat, [3, 1, 1]);
    let is_peak = net.op("Equal", &[&heat, &largest]);
    let low = net.floats(&[1, 5, 1, 1], &[-9.0; 5]);
    let y = net.op("Where", &[&is_peak, &heat, &low]);
    net.agrees(&[(&y, 4)], 3);
}

#[test]
fn a_pillar_encoder() {
    let mut net = Net::new(&[30, 8, 10]);
    let w = net.weight(&[10, 16], 1.0, 0.0);
    let y = net.op("MatMul", &["x", &w]);
    let y = net.permuted(&y, &[0, 2, 1]);
    let y = net.batch_norm(&y, 16);
    let y = net.permuted(&y, &[0, 2, 1]);
    let y = net.op("Relu", &[&y]);
    let reduce = [("axes", Attr::Ints(vec![1])), ("keepdims", Attr::Int(1))];
    let largest = net.node("ReduceMax", &[&y], &reduce);
    let shape = net.integers(&[1, 8, 1]);
    let wide = net.op("Expand", &[&largest, &shape]);
    let y = net.concat(&[&y, &wide], 2);
    let w = net.weight(&[32, 16], 1.0, 0.0);
    let y = net.op("MatMul", &[&y, &w]);
    let y = net.node("ReduceMax", &[&y], &reduce);
    let axes = net.integers(&[1]);
    let y = net.op("Squeeze", &[&y, &axes]);
    net.agrees(&[(&y, 2)], 6);
}

#[test]
fn squeeze_and_excitation() {
    let mut net = Net::new(&[1, 4, 8, 8]);
    let x = net.conv("x", [16, 4, 3, 1, 1, 1, 1]);
    let y = net.op("GlobalAveragePool", &[&x]);
    let y = net.conv(&y, [8, 16, 1, 1, 0, 1, 1]);
    let y = net.op("Relu", &[&y]);
    let y = net.conv(&y, [16, 8, 1, 1, 0, 1, 1]);
    let y = net.op("HardSigmoid", &[&y]);
    let y = net.op("Mul", &[&x, &y]);
    net.agrees(&[(&y, 4)], 5);
}

#[test]
fn normalization_by_groups() {
    let mut net = Net::new(&[2, 8, 5, 5]);
    let (gamma, beta) = (net.weight(&[8], 1.0, 1.0), net.weight(&[8], 1.0, 0.0));
    let y = net.op("InstanceNormalization", &["x", &gamma, &beta]);
    net.agrees(&[(&y, 4)], 5);
}

#[test]
fn arithmetic_of_shapes_is_computed_once() {
    let mut net = Net::new(&[1, 4, 6, 6]);
    let x = net.conv("x", [8, 4, 3, 1, 1, 1, 1]);
    let shape = net.op("Shape", &[&x]);
    let (first, second) = (net.integers(&[0]), net.integers(&[1]));
    let n = net.op("Gather", &[&shape, &first]);
    let c = net.op("Gather", &[&shape, &second]);
    let rest = net.integers(&[-1]);
    let shape = net.concat(&[&n, &c, &rest], 0);
    let y = net.op("Reshape", &[&x, &shape]);
    let y = net.permuted(&y, &[0, 2, 1]);
    net.agrees(&[(&y, 3)], 1);
}
