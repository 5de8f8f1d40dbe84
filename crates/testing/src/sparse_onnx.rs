//! Small networks of sparse convolutions in both dialects of ONNX, as data that
//! a test can change before it is written.

use half::f16;

use super::onnx::{Attr, Graph};
use det_post_ops::sparse::rulebook::Geometry;
use det_post_types::ElementType;

/// A file under construction.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Inputs of the graph.
    pub inputs: Vec<(String, ElementType, Vec<i64>)>,
    /// Outputs of the graph: floats.
    pub outputs: Vec<(String, Vec<i64>)>,
    /// Outputs of 64-bit integers, after the others.
    pub integer_outputs: Vec<(String, Vec<i64>)>,
    /// Constants of floats.
    pub constants: Vec<(String, Vec<i64>, Vec<f32>)>,
    /// Constants of integers.
    pub integers: Vec<(String, Vec<i64>)>,
    /// Whether constants of floats are f16.
    pub half: bool,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Entries of the metadata.
    pub metadata: Vec<(String, String)>,
}

/// A node under construction. In the file its name is `<op>_<index>`.
#[derive(Clone, Debug)]
pub struct Node {
    /// Operator set.
    pub domain: &'static str,
    /// Operator.
    pub op: &'static str,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Attributes.
    pub attributes: Vec<(&'static str, Attr)>,
}

impl Node {
    /// An attribute, which has to be there.
    pub fn set(&mut self, name: &str, value: Attr) {
        self.attributes.iter_mut().find(|(known, _)| *known == name).unwrap().1 = value;
    }
}

impl File {
    /// The bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut graph = Graph::new("scn", "");
        for (name, element, dims) in &self.inputs {
            graph = graph.input(name, *element, dims);
        }
        for (name, dims) in &self.outputs {
            graph = graph.output(name, ElementType::F32, dims);
        }
        for (name, dims) in &self.integer_outputs {
            graph = graph.output(name, ElementType::I64, dims);
        }
        for (name, dims, values) in &self.constants {
            graph = if self.half {
                let values: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
                graph.constant_f16(name, dims, &values)
            } else {
                graph.constant(name, dims, values)
            };
        }
        for (name, values) in &self.integers {
            graph = graph.integers(name, values);
        }
        for node in &self.nodes {
            let inputs: Vec<&str> = node.inputs.iter().map(String::as_str).collect();
            let outputs: Vec<&str> = node.outputs.iter().map(String::as_str).collect();
            graph = graph.node_of(node.domain, node.op, &inputs, &outputs, &node.attributes);
        }
        for (key, value) in &self.metadata {
            graph = graph.metadata(key, value);
        }
        graph.to_bytes()
    }

    /// A node of ONNX's own operator set with one output.
    pub fn op(
        &mut self,
        op: &'static str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<(&'static str, Attr)>,
    ) {
        self.nodes.push(Node {
            domain: "",
            op,
            inputs: inputs.iter().map(|&name| name.into()).collect(),
            outputs: vec![output.into()],
            attributes,
        });
    }

    fn parameters(&mut self, name: &str, dims: &[i64]) {
        let mut product = |name: String, dims: &[i64]| {
            let num = dims.iter().product::<i64>();
            // Multiples of 1/64: exact in f16.
            let values = (0..num).map(|at| ((at * 37 + 11) % 61 - 30) as f32 / 64.0).collect();
            self.constants.push((name, dims.to_vec(), values));
        };
        product(format!("{name}.weight"), dims);
        product(format!("{name}.bias"), &dims[..1]);
    }
}

/// A convolution of the test networks.
#[derive(Clone, Copy, Debug)]
pub struct Conv {
    /// Channels in and out.
    pub channels: [i64; 2],
    /// Kernel, stride, padding.
    pub geometry: [[i64; 3]; 3],
    /// Grids in and out.
    pub grids: [[i64; 3]; 2],
    /// Whether it is submanifold, transposed, inverse.
    pub flags: [i64; 3],
    /// The rulebook's key.
    pub key: &'static str,
    /// Whether a ReLU ends it.
    pub relu: bool,
}

const SUBM: [[i64; 3]; 3] = [[3; 3], [1; 3], [1; 3]];
const DOWN: [[i64; 3]; 3] = [[3; 3], [2; 3], [1; 3]];
const GRIDS: [[i64; 3]; 3] = [[9, 6, 8], [5, 3, 4], [2, 3, 4]];

/// An encoder of a residual block, a strided convolution, and one along z: all
/// that the shipped encoders are made of.
pub const ENCODER: [Conv; 4] = [
    conv([3, 4], SUBM, [0, 0], [1, 0, 0], "subm1", true),
    conv([4, 4], SUBM, [0, 0], [1, 0, 0], "subm1", false),
    conv([4, 8], DOWN, [0, 1], [0, 0, 0], "down1", true),
    conv([8, 4], [[3, 1, 1], [2, 1, 1], [0; 3]], [1, 2], [0, 0, 0], "out", true),
];

/// A convolution between two of the test grids.
pub const fn conv(
    channels: [i64; 2],
    geometry: [[i64; 3]; 3],
    [from, to]: [usize; 2],
    flags: [i64; 3],
    key: &'static str,
    relu: bool,
) -> Conv {
    Conv { channels, geometry, grids: [GRIDS[from], GRIDS[to]], flags, key, relu }
}

/// The encoder in NVIDIA's dialect. Nodes: convolution, convolution, Add, Relu,
/// convolution, convolution, ScatterDense, Reshape.
pub fn scn() -> File {
    let mut file = File { half: true, ..File::default() };
    file.inputs.push(("0".into(), ElementType::F16, vec![50, 3]));
    file.scn_conv(&ENCODER[0], "0", "1");
    file.scn_conv(&ENCODER[1], "1", "2");
    file.op("Add", &["2", "1"], "3", vec![]);
    file.op("Relu", &["3"], "4", vec![]);
    file.scn_conv(&ENCODER[2], "4", "5");
    file.scn_conv(&ENCODER[3], "5", "6");
    file.scatter_dense("6", "7", "zyx", [4, 2, 3, 4]);
    file.op("Reshape", &["7"], "8", vec![("dims", Attr::Ints(vec![1, 8, 3, 4]))]);
    file.outputs.push(("8".into(), vec![1, 8, 3, 4]));
    file
}

/// A convolution in NVIDIA's dialect with given parameters.
pub struct ScnConvolution<'a> {
    /// Kernel, stride, padding, dilation.
    pub geometry: Geometry,
    /// Whether it keeps its sites.
    pub is_submanifold: bool,
    /// Grids in and out.
    pub grids: [[u32; 3]; 2],
    /// Channels in and out.
    pub channels: [usize; 2],
    /// `[Cout, taps, Cin]`
    pub weights: &'a [f32],
    /// `[Cout]`
    pub bias: &'a [f32],
    /// Whether a ReLU ends it.
    pub relu: bool,
}

impl File {
    /// Adds a convolution in NVIDIA's dialect.
    pub fn scn_convolution(&mut self, of: &ScnConvolution<'_>, input: &str, output: &str) {
        let name = format!("spconv{}", self.constants.len() / 2);
        let ints = |values: [u32; 3]| Attr::Ints(values.map(i64::from).to_vec());
        let [num_in, num_out] = of.channels.map(|channels| channels as i64);
        let Geometry { kernel, stride, padding, dilation } = of.geometry;
        let [k0, k1, k2] = kernel.map(i64::from);
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let dims = vec![num_out, k0, k1, k2, num_in];
        self.constants.push((weight.clone(), dims, of.weights.to_vec()));
        self.constants.push((bias.clone(), vec![num_out], of.bias.to_vec()));
        let attributes = vec![
            ("ndim", Attr::Int(3)),
            ("input_spatial_shape", ints(of.grids[0])),
            ("output_spatial_shape", ints(of.grids[1])),
            ("in_channels", Attr::Int(num_in)),
            ("out_channels", Attr::Int(num_out)),
            ("kernel_size", ints(kernel)),
            ("stride", ints(stride)),
            ("padding", ints(padding)),
            ("dilation", ints(dilation)),
            ("output_padding", ints([0; 3])),
            ("transposed", Attr::Int(0)),
            ("inverse", Attr::Int(0)),
            ("subm", Attr::Int(i64::from(of.is_submanifold))),
            ("groups", Attr::Int(1)),
            ("activation", Attr::Text(if of.relu { "ReLU" } else { "None" })),
            ("input_shape", Attr::Ints(vec![50, num_in])),
            ("output_shape", Attr::Ints(vec![40, num_out])),
        ];
        self.op("SparseConvolution", &[input, &weight, &bias], output, attributes);
    }

    /// The map at the end, `[1, channels * depth, rows, columns]`, of axes z y x.
    pub fn scn_map(&mut self, input: &str, channels: usize, grid: [u32; 3]) {
        let [depth, rows, columns] = grid.map(i64::from);
        let channels = channels as i64;
        self.scatter_dense(input, "dense", "zyx", [channels, depth, rows, columns]);
        let dims = vec![1, channels * depth, rows, columns];
        self.op("Reshape", &["dense"], "map", vec![("dims", Attr::Ints(dims.clone()))]);
        self.outputs.push(("map".into(), dims));
    }

    /// A convolution in NVIDIA's dialect, with its parameters.
    pub fn scn_conv(&mut self, conv: &Conv, input: &str, output: &str) {
        let [kernel, stride, padding] = conv.geometry;
        let [from, to] = conv.grids;
        let [subm, transposed, inverse] = conv.flags;
        let name = format!("spconv{}", self.constants.len() / 2);
        let [num_in, num_out] = conv.channels;
        self.parameters(&name, &[num_out, kernel[0], kernel[1], kernel[2], num_in]);
        let ints = |values: [i64; 3]| Attr::Ints(values.to_vec());
        let attributes = vec![
            ("ndim", Attr::Int(3)),
            ("input_spatial_shape", ints(from)),
            ("output_spatial_shape", ints(to)),
            ("in_channels", Attr::Int(num_in)),
            ("out_channels", Attr::Int(num_out)),
            ("kernel_size", ints(kernel)),
            ("stride", ints(stride)),
            ("padding", ints(padding)),
            ("dilation", ints([1; 3])),
            ("output_padding", ints([0; 3])),
            ("transposed", Attr::Int(transposed)),
            ("inverse", Attr::Int(inverse)),
            ("subm", Attr::Int(subm)),
            ("groups", Attr::Int(1)),
            ("rulebook", Attr::Text(conv.key)),
            ("activation", Attr::Text(if conv.relu { "ReLU" } else { "None" })),
            ("output_bound", Attr::Int(200_000)),
            ("input_shape", Attr::Ints(vec![50, num_in])),
            ("output_shape", Attr::Ints(vec![40, num_out])),
        ];
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        self.op("SparseConvolution", &[input, &weight, &bias], output, attributes);
    }

    /// `ScatterDense` of channels and a grid.
    pub fn scatter_dense(
        &mut self,
        input: &str,
        output: &str,
        format: &'static str,
        dims: [i64; 4],
    ) {
        let attributes = vec![
            ("input_spatial_shape", Attr::Ints(dims[1..].to_vec())),
            ("format", Attr::Text(format)),
            ("output_shape", Attr::Ints([&[1], &dims[..]].concat())),
        ];
        self.op("ScatterDense", &[input], output, attributes);
    }

    /// A rulebook in Autoware's dialect: outputs `<name>.0` … `<name>.4`.
    pub fn autoware_pairs(&mut self, conv: &Conv, indices: &str, name: &str) {
        let [kernel, stride, padding] = conv.geometry;
        let ints = |values: [i64; 3]| Attr::Ints(values.to_vec());
        self.nodes.push(Node {
            domain: "autoware",
            op: "GetIndicePairsImplicitGemm",
            inputs: vec![indices.into()],
            outputs: (0..5).map(|output| format!("{name}.{output}")).collect(),
            attributes: vec![
                ("batch_size", Attr::Int(1)),
                ("algo", Attr::Int(1)),
                ("is_train", Attr::Int(0)),
                ("subm", Attr::Int(conv.flags[0])),
                ("transpose", Attr::Int(conv.flags[1])),
                ("ksize", ints(kernel)),
                ("stride", ints(stride)),
                ("padding", ints(padding)),
                ("dilation", ints([1; 3])),
                ("out_padding", ints([0; 3])),
                ("spatial_shape", ints(conv.grids[0])),
                ("do_sort", Attr::Int(0)),
            ],
        });
    }

    /// A convolution in Autoware's dialect, with its parameters.
    pub fn autoware_conv(&mut self, conv: &Conv, features: &str, pairs: &str, output: &str) {
        let name = format!("spconv{}", self.constants.len() / 2);
        let [kernel, ..] = conv.geometry;
        let [num_in, num_out] = conv.channels;
        self.parameters(&name, &[num_out, kernel[0], kernel[1], kernel[2], num_in]);
        let wiring = (1..4).map(|output| format!("{pairs}.{output}"));
        let inputs = [features.into(), format!("{name}.weight")].into_iter().chain(wiring);
        self.nodes.push(Node {
            domain: "autoware",
            op: "ImplicitGemm",
            inputs: inputs.chain([format!("{name}.bias")]).collect(),
            outputs: vec![output.into()],
            attributes: vec![
                ("is_subm", Attr::Int(conv.flags[0])),
                ("is_train", Attr::Int(0)),
                ("act_alpha", Attr::Float(0.0)),
                ("act_beta", Attr::Float(0.0)),
                ("act_type", Attr::Int(i64::from(conv.relu))),
                ("output_scale", Attr::Float(1.0)),
                ("output_add_scale", Attr::Float(0.0)),
            ],
        });
    }
}

/// The encoder in Autoware's dialect. Nodes: ReduceSum, Cast, Unsqueeze, Div,
/// Pad; rulebook, convolution, convolution, Add, Relu; rulebook, convolution;
/// rulebook, convolution; ConstantOfShape, ScatterND, Transpose, Reshape.
pub fn autoware() -> File {
    let mut file = File::default();
    file.inputs.push(("voxels".into(), ElementType::F32, vec![-1, 10, 3]));
    file.inputs.push(("coors".into(), ElementType::I32, vec![-1, 3]));
    file.inputs.push(("num_points".into(), ElementType::I32, vec![-1]));
    file.integers.push(("axis".into(), vec![1]));
    file.integers.push(("pads".into(), vec![0, 1, 0, 0]));
    file.integers.push(("grid".into(), vec![1, 2, 3, 4, 4]));
    file.integers.push(("bev".into(), vec![1, 8, 3, 4]));
    file.op("ReduceSum", &["voxels", "axis"], "sums", vec![("keepdims", Attr::Int(0))]);
    file.op("Cast", &["num_points"], "count", vec![("to", Attr::Int(1))]);
    file.op("Unsqueeze", &["count", "axis"], "counts", vec![]);
    file.op("Div", &["sums", "counts"], "means", vec![]);
    file.op("Pad", &["coors", "pads"], "indices", vec![]);
    file.autoware_pairs(&ENCODER[0], "indices", "p0");
    file.autoware_conv(&ENCODER[0], "means", "p0", "1");
    file.autoware_conv(&ENCODER[1], "1", "p0", "2");
    file.op("Add", &["2", "1"], "3", vec![]);
    file.op("Relu", &["3"], "4", vec![]);
    file.autoware_pairs(&ENCODER[2], "indices", "p2");
    file.autoware_conv(&ENCODER[2], "4", "p2", "5");
    file.autoware_pairs(&ENCODER[3], "p2.0", "p3");
    file.autoware_conv(&ENCODER[3], "5", "p3", "6");
    file.op("ConstantOfShape", &["grid"], "zeros", vec![]);
    file.op("ScatterND", &["zeros", "p3.0", "6"], "dense", vec![]);
    file.op("Transpose", &["dense"], "czyx", vec![("perm", Attr::Ints(vec![0, 4, 1, 2, 3]))]);
    file.op("Reshape", &["czyx", "bev"], "map", vec![]);
    file.outputs.push(("map".into(), vec![1, 8, 3, 4]));
    file
}
