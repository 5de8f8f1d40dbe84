//! A small StreamPETR as the three ONNX files of Autoware's node, written from named
//! weights: those of a state dict, or random ones.
//!
//! The graphs follow `StreamPETRHead` of the published code: position embedding and cone,
//! spatial alignment, gated embedding, temporal alignment with motion-aware layer norms,
//! decoder layers with a shared branch, and the queue of past queries. Tensors have a batch
//! of one outside and none inside.

use std::collections::BTreeMap;
use std::path::Path;

use det_post_types::ElementType;

use super::onnx::{Attr, Graph};
use super::safetensors::read;

/// Lengths of the network.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub cameras: usize,
    /// Rows and columns of the feature maps.
    pub grid: [usize; 2],
    pub stride: usize,
    pub channels: usize,
    pub heads: usize,
    pub ffn: usize,
    pub depths: usize,
    pub layers: usize,
    pub queries: usize,
    pub memory: usize,
    pub propagated: usize,
    pub classes: usize,
}

impl Sizes {
    /// Height and width of the images.
    pub fn image(&self) -> [usize; 2] {
        self.grid.map(|n| n * self.stride)
    }

    /// Tokens of all cameras.
    pub fn tokens(&self) -> usize {
        self.cameras * self.grid[0] * self.grid[1]
    }
}

/// The lengths of the reference data.
pub const REFERENCE: Sizes = Sizes {
    cameras: 6,
    grid: [5, 9],
    stride: 16,
    channels: 64,
    heads: 8,
    ffn: 128,
    depths: 64,
    layers: 2,
    queries: 40,
    memory: 64,
    propagated: 16,
    classes: 5,
};

/// The weights of the reference data in a folder.
pub fn reference_weights(folder: &Path) -> Weights {
    let [tensors, inputs] =
        ["weights", "inputs"].map(|name| read(&folder.join(format!("{name}.safetensors"))));
    let six = |name: &str| inputs[name].1.clone().try_into().unwrap();
    Weights {
        tensors,
        depths: inputs["depths"].1.clone(),
        position_range: six("position_range"),
        point_range: six("point_range"),
    }
}

/// The form of the head's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All layers, channels first, as Autoware exports it.
    AllLayers,
    /// The last layer, queries first, as DL4AGX exports it.
    LastLayer,
    /// As `AllLayers`, with times as f64 in and out.
    WithTimes,
}

/// Named tensors and the constants of the rig.
#[derive(Clone, Debug)]
pub struct Weights {
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    pub depths: Vec<f32>,
    /// Least x, y, z, then greatest.
    pub position_range: [f32; 6],
    pub point_range: [f32; 6],
}

impl Weights {
    /// Random weights under the names of the state dict.
    pub fn random(sizes: &Sizes, seed: u64) -> Self {
        let c = sizes.channels;
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        let mut tensors = BTreeMap::new();
        let mut linear = |name: &str, to: usize, from: usize| {
            let scale = 2.0 / (from as f32).sqrt();
            let weight = (0..to * from).map(|_| scale * next()).collect();
            tensors.insert(format!("{name}.weight"), (vec![to, from], weight));
            let bias = (0..to).map(|_| 0.2 * next()).collect();
            tensors.insert(format!("{name}.bias"), (vec![to], bias));
        };
        let branch = "transformer.decoder.layers";
        for (name, to, from) in [
            ("position_encoder.0", 4 * c, 3 * sizes.depths),
            ("position_encoder.2", c, 4 * c),
            ("memory_embed.0", c, c),
            ("memory_embed.2", c, c),
            ("featurized_pe.conv_reduce", c, c),
            ("featurized_pe.conv_expand", c, c),
            ("query_embedding.0", c, 3 * c / 2),
            ("query_embedding.2", c, c),
            ("time_embedding.0", c, c),
            ("cls_branches.0.0", c, c),
            ("cls_branches.0.3", c, c),
            ("cls_branches.0.6", sizes.classes, c),
            ("reg_branches.0.0", c, c),
            ("reg_branches.0.2", c, c),
            ("reg_branches.0.4", 10, c),
        ] {
            linear(name, to, from);
        }
        for (name, from) in
            [("spatial_alignment", 8), ("ego_pose_pe", 180), ("ego_pose_memory", 180)]
        {
            linear(&format!("{name}.reduce.0"), c, from);
            linear(&format!("{name}.gamma"), c, c);
            linear(&format!("{name}.beta"), c, c);
        }
        for layer in 0..sizes.layers {
            for attention in 0..2 {
                let name = format!("{branch}.{layer}.attentions.{attention}.attn");
                linear(&format!("{name}.in_proj"), 3 * c, c);
                linear(&format!("{name}.out_proj"), c, c);
            }
            linear(&format!("{branch}.{layer}.ffns.0.layers.0.0"), sizes.ffn, c);
            linear(&format!("{branch}.{layer}.ffns.0.layers.1"), c, sizes.ffn);
        }
        // The projections of attention are one tensor with underscores in its name.
        for part in ["weight", "bias"] {
            for layer in 0..sizes.layers {
                for attention in 0..2 {
                    let name = format!("{branch}.{layer}.attentions.{attention}.attn.in_proj");
                    let tensor = tensors.remove(&format!("{name}.{part}")).unwrap();
                    tensors.insert(format!("{name}_{part}"), tensor);
                }
            }
        }
        let mut norms = vec![
            "time_embedding.1".to_owned(),
            "cls_branches.0.1".to_owned(),
            "cls_branches.0.4".to_owned(),
            "transformer.decoder.post_norm".to_owned(),
        ];
        for layer in 0..sizes.layers {
            norms.extend((0..3).map(|norm| format!("{branch}.{layer}.norms.{norm}")));
        }
        for name in norms {
            tensors.insert(format!("{name}.weight"), (vec![c], vec![1.0; c]));
            tensors.insert(format!("{name}.bias"), (vec![c], vec![0.0; c]));
        }
        let points = (0..sizes.queries * 3).map(|_| 0.5 + 0.9 * next()).collect();
        tensors.insert("reference_points.weight".into(), (vec![sizes.queries, 3], points));
        Self {
            tensors,
            depths: (0..sizes.depths).map(|i| 1.0 + 0.9 * i as f32).collect(),
            position_range: [-61.2, -61.2, -10.0, 61.2, 61.2, 10.0],
            point_range: [-51.2, -51.2, -5.0, 51.2, 51.2, 3.0],
        }
    }
}

/// A graph under construction, with a counter for names.
struct Net<'a> {
    graph: Graph,
    num: usize,
    weights: &'a Weights,
}

impl<'a> Net<'a> {
    fn new(name: &str, weights: &'a Weights) -> Self {
        Self { graph: Graph::new(name, "a small StreamPETR"), num: 0, weights }
    }

    fn name(&mut self) -> String {
        self.num += 1;
        format!("t{}", self.num)
    }

    fn with(&mut self, change: impl FnOnce(Graph) -> Graph) {
        self.graph = change(std::mem::take(&mut self.graph));
    }

    fn node(&mut self, op: &str, inputs: &[&str], attributes: &[(&str, Attr)]) -> String {
        let output = self.name();
        self.with(|graph| graph.node(op, inputs, &[&output], attributes));
        output
    }

    fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.node(op, inputs, &[])
    }

    fn constant(&mut self, dims: &[usize], values: &[f32]) -> String {
        let name = self.name();
        let dims: Vec<i64> = dims.iter().map(|&n| n as i64).collect();
        self.with(|graph| graph.constant(&name, &dims, values));
        name
    }

    fn scalar(&mut self, value: f32) -> String {
        self.constant(&[1], &[value])
    }

    fn integers(&mut self, values: &[i64]) -> String {
        let name = self.name();
        self.with(|graph| graph.integers(&name, values));
        name
    }

    fn reshape(&mut self, x: &str, dims: &[i64]) -> String {
        let dims = self.integers(dims);
        self.op("Reshape", &[x, &dims])
    }

    fn transpose(&mut self, x: &str, perm: &[i64]) -> String {
        self.node("Transpose", &[x], &[("perm", Attr::Ints(perm.to_vec()))])
    }

    fn concat(&mut self, parts: &[&str], axis: i64) -> String {
        self.node("Concat", parts, &[("axis", Attr::Int(axis))])
    }

    fn slice(&mut self, x: &str, axis: i64, range: std::ops::Range<i64>) -> String {
        let [start, end, axes] = [range.start, range.end, axis].map(|n| self.integers(&[n]));
        self.op("Slice", &[x, &start, &end, &axes])
    }

    /// Every `step`-th element of the last axis.
    fn strided(&mut self, x: &str, start: i64) -> String {
        let [start, end, axes, steps] =
            [start, i64::from(i32::MAX), -1, 2].map(|n| self.integers(&[n]));
        self.op("Slice", &[x, &start, &end, &axes, &steps])
    }

    fn weight(&mut self, name: &str) -> (Vec<usize>, Vec<f32>) {
        self.weights.tensors.get(name).unwrap_or_else(|| panic!("no weight {name}")).clone()
    }

    /// Rows of a weight, transposed.
    fn matrix(&mut self, name: &str, rows: std::ops::Range<usize>) -> String {
        let (dims, values) = self.weight(name);
        let (num, from) = (rows.len(), dims[1]);
        let at = |i: usize| values[(rows.start + i % num) * from + i / num];
        let transposed: Vec<f32> = (0..num * from).map(at).collect();
        self.constant(&[from, num], &transposed)
    }

    fn affine(
        &mut self,
        x: &str,
        weight: &str,
        bias: &str,
        rows: std::ops::Range<usize>,
    ) -> String {
        let matrix = self.matrix(weight, rows.clone());
        let bias = self.weight(bias).1[rows.clone()].to_vec();
        let bias = self.constant(&[rows.len()], &bias);
        let product = self.op("MatMul", &[x, &matrix]);
        self.op("Add", &[&product, &bias])
    }

    fn linear(&mut self, x: &str, name: &str) -> String {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let rows = 0..self.weight(&weight).0[0];
        self.affine(x, &weight, &bias, rows)
    }

    fn linear_relu(&mut self, x: &str, name: &str) -> String {
        let x = self.linear(x, name);
        self.op("Relu", &[&x])
    }

    /// Layer norm over the last axis of `channels`, with weights if it has a name.
    fn norm(&mut self, x: &str, channels: usize, name: Option<&str>) -> String {
        let [weight, bias] = match name {
            Some(name) => ["weight", "bias"].map(|part| self.weight(&format!("{name}.{part}")).1),
            None => [vec![1.0; channels], vec![0.0; channels]],
        };
        let [weight, bias] = [weight, bias].map(|values| self.constant(&[channels], &values));
        let attributes = [("axis", Attr::Int(-1)), ("epsilon", Attr::Float(1e-5))];
        self.node("LayerNormalization", &[x, &weight, &bias], &attributes)
    }

    /// Motion-aware layer norm.
    fn mln(&mut self, x: &str, condition: &str, channels: usize, name: &str) -> String {
        let condition = self.linear_relu(condition, &format!("{name}.reduce.0"));
        let gamma = self.linear(&condition, &format!("{name}.gamma"));
        let beta = self.linear(&condition, &format!("{name}.beta"));
        let x = self.norm(x, channels, None);
        let x = self.op("Mul", &[&gamma, &x]);
        self.op("Add", &[&x, &beta])
    }

    fn inverse_sigmoid(&mut self, x: &str) -> String {
        let [zero, one, eps] = [0.0, 1.0, 1e-5].map(|value| self.scalar(value));
        let x = self.op("Max", &[x, &zero]);
        let x = self.op("Min", &[&x, &one]);
        let above = self.op("Max", &[&x, &eps]);
        let below = self.op("Sub", &[&one, &x]);
        let below = self.op("Max", &[&below, &eps]);
        let ratio = self.op("Div", &[&above, &below]);
        self.op("Log", &[&ratio])
    }

    /// Sines and cosines of a column [rows, 1]: `num` values a row.
    fn encode(&mut self, x: &str, num: usize) -> String {
        let factor = |i: usize| {
            let exponent = 2.0 * (i / 2) as f64 / num as f64;
            (2.0 * std::f64::consts::PI / 10_000_f64.powf(exponent)) as f32
        };
        let factors: Vec<f32> = (0..num).map(factor).collect();
        let factors = self.constant(&[1, num], &factors);
        let angles = self.op("Mul", &[x, &factors]);
        let (even, odd) = (self.strided(&angles, 0), self.strided(&angles, 1));
        let (even, odd) = (self.op("Sin", &[&even]), self.op("Cos", &[&odd]));
        let axis = self.integers(&[2]);
        let (even, odd) =
            (self.op("Unsqueeze", &[&even, &axis]), self.op("Unsqueeze", &[&odd, &axis]));
        let pairs = self.concat(&[&even, &odd], 2);
        self.reshape(&pairs, &[-1, num as i64])
    }

    /// The query embedding of points [rows, 3] in 0 to 1.
    fn embed_points(&mut self, points: &str, channels: usize) -> String {
        let columns = [1, 0, 2].map(|axis| {
            let column = self.slice(points, 1, axis..axis + 1);
            self.encode(&column, channels / 2)
        });
        let x = self.concat(&[&columns[0], &columns[1], &columns[2]], 1);
        let x = self.linear_relu(&x, "query_embedding.0");
        self.linear(&x, "query_embedding.2")
    }

    fn embed_time(&mut self, ages: &str, channels: usize) -> String {
        let x = self.encode(ages, channels);
        let x = self.linear(&x, "time_embedding.0");
        self.norm(&x, channels, Some("time_embedding.1"))
    }

    /// Sines and cosines of powers of two times x.
    fn encode_motion(&mut self, x: &str) -> String {
        let mut parts = Vec::new();
        for power in 0..6 {
            let factor = self.scalar((1 << power) as f32);
            let angle = self.op("Mul", &[x, &factor]);
            parts.push(self.op("Sin", &[&angle]));
            parts.push(self.op("Cos", &[&angle]));
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        self.concat(&parts, 1)
    }

    /// Multi-head attention of rows [Q, C] over [K, C].
    fn attention(&mut self, q: &str, k: &str, v: &str, name: &str, sizes: &Sizes) -> String {
        let (c, h) = (sizes.channels, sizes.heads);
        let (weight, bias) = (format!("{name}.in_proj_weight"), format!("{name}.in_proj_bias"));
        let mut part = |x: &str, index: usize, perm: &[i64]| {
            let x = self.affine(x, &weight, &bias, index * c..(index + 1) * c);
            let x = self.reshape(&x, &[-1, h as i64, (c / h) as i64]);
            self.transpose(&x, perm)
        };
        let q = part(q, 0, &[1, 0, 2]);
        let k = part(k, 1, &[1, 2, 0]);
        let v = part(v, 2, &[1, 0, 2]);
        let scale = self.scalar(1.0 / ((c / h) as f32).sqrt());
        let scores = self.op("MatMul", &[&q, &k]);
        let scores = self.op("Mul", &[&scores, &scale]);
        let shares = self.node("Softmax", &[&scores], &[("axis", Attr::Int(-1))]);
        let x = self.op("MatMul", &[&shares, &v]);
        let x = self.transpose(&x, &[1, 0, 2]);
        let x = self.reshape(&x, &[-1, c as i64]);
        self.linear(&x, &format!("{name}.out_proj"))
    }

    fn add_norm(&mut self, x: &str, y: &str, channels: usize, name: &str) -> String {
        let x = self.op("Add", &[x, y]);
        self.norm(&x, channels, Some(name))
    }

    /// A tensor under a public name and shape.
    fn output(&mut self, x: &str, name: &str, element: ElementType, dims: &[usize]) {
        let dims: Vec<i64> = dims.iter().map(|&n| n as i64).collect();
        let shape = self.integers(&dims);
        self.with(|graph| graph.op("Reshape", &[x, &shape], name).output(name, element, &dims));
    }

    fn input(&mut self, name: &str, element: ElementType, dims: &[usize]) {
        let dims: Vec<i64> = dims.iter().map(|&n| n as i64).collect();
        self.with(|graph| graph.input(name, element, &dims));
    }
}

/// A backbone: one convolution, of which the columns are the tokens.
pub fn backbone(sizes: &Sizes, seed: u64) -> Graph {
    let Sizes { cameras, channels, grid: [rows, columns], .. } = *sizes;
    let dims: Vec<i64> = [1, cameras, channels, rows, columns].map(|n| n as i64).to_vec();
    backbone_maps(sizes, seed)
        .output("img_feats", ElementType::F32, &dims)
        .integers("features", &dims)
        .op("Reshape", &["maps", "features"], "img_feats")
}

/// The same up to its maps, [cameras, channels, rows, columns], without an output.
pub fn backbone_maps(sizes: &Sizes, seed: u64) -> Graph {
    let Sizes { cameras, channels, stride, .. } = *sizes;
    let [height, width] = sizes.image();
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let scale = 1.0 / (stride as f32);
    let kernel: Vec<f32> = (0..channels * 3 * stride * stride).map(|_| scale * next()).collect();
    let dims = |dims: &[usize]| dims.iter().map(|&n| n as i64).collect::<Vec<i64>>();
    Graph::new("backbone", "a convolution")
        .input("img", ElementType::F32, &dims(&[1, cameras, 3, height, width]))
        .constant("kernel", &dims(&[channels, 3, stride, stride]), &kernel)
        .integers("batch", &dims(&[cameras, 3, height, width]))
        .op("Reshape", &["img", "batch"], "images")
        .node(
            "Conv",
            &["images", "kernel"],
            &["maps"],
            &[
                ("strides", Attr::Ints(vec![stride as i64; 2])),
                ("kernel_shape", Attr::Ints(vec![stride as i64; 2])),
                ("dilations", Attr::Ints(vec![1; 2])),
                ("pads", Attr::Ints(vec![0; 4])),
                ("group", Attr::Int(1)),
            ],
        )
}

/// Position embedding and cone.
pub fn position_embedding(sizes: &Sizes, weights: &Weights) -> Graph {
    let Sizes { cameras, channels, depths, .. } = *sizes;
    let [rows, columns] = sizes.grid;
    let cells = rows * columns;
    let mut net = Net::new("position", weights);
    net.input("img_metas_pad", ElementType::I32, &[3]);
    net.input("intrinsics", ElementType::F32, &[1, cameras, 4, 4]);
    net.input("img2lidar", ElementType::F32, &[1, cameras, 4, 4]);
    let pad = net.node("Cast", &["img_metas_pad"], &[("to", Attr::Int(1))]);
    let deep: Vec<f32> = weights.depths.iter().map(|depth| depth.max(1e-5)).collect();
    let deep = net.constant(&[1, depths], &deep);
    // Centres of the cells as fractions of the image.
    let mut pixels = |axis: i64, num: usize, at: &dyn Fn(usize) -> usize| {
        let fractions: Vec<f32> =
            (0..cells).map(|cell| (at(cell) as f32 + 0.5) / num as f32).collect();
        let fractions = net.constant(&[cells, 1], &fractions);
        let length = net.slice(&pad, 0, axis..axis + 1);
        let pixels = net.op("Mul", &[&fractions, &length]);
        let products = net.op("Mul", &[&pixels, &deep]);
        net.reshape(&products, &[(cells * depths) as i64, 1])
    };
    let u = pixels(1, columns, &|cell| cell % columns);
    let v = pixels(0, rows, &|cell| cell / columns);
    let rest: Vec<f32> =
        (0..cells).flat_map(|_| weights.depths.iter().flat_map(|&depth| [depth, 1.0])).collect();
    let rest = net.constant(&[cells * depths, 2], &rest);
    let points = net.concat(&[&u, &v, &rest], 1);
    let matrices = net.reshape("img2lidar", &[cameras as i64, 4, 4]);
    let matrices = net.transpose(&matrices, &[0, 2, 1]);
    let points = net.op("MatMul", &[&points, &matrices]);
    let points = net.slice(&points, 2, 0..3);
    let [low, high] = [0, 3].map(|i| weights.position_range[i..i + 3].to_vec());
    let extent: Vec<f32> = low.iter().zip(&high).map(|(low, high)| high - low).collect();
    let [low, extent] = [low, extent].map(|values| net.constant(&[3], &values));
    let points = net.op("Sub", &[&points, &low]);
    let points = net.op("Div", &[&points, &extent]);
    let points = net.reshape(&points, &[sizes.tokens() as i64, 3 * depths as i64]);
    let x = net.inverse_sigmoid(&points);
    let x = net.linear_relu(&x, "position_encoder.0");
    let x = net.linear(&x, "position_encoder.2");
    net.output(&x, "pos_embed", ElementType::F32, &[1, sizes.tokens(), channels]);
    // The focal lengths are tiled as published: token t has those of camera t mod N.
    let flat = net.reshape("intrinsics", &[cameras as i64, 16]);
    let [fx, fy] = [0, 5].map(|at| net.slice(&flat, 1, at..at + 1));
    let focal = net.concat(&[&fx, &fy], 1);
    let focal = net.op("Abs", &[&focal]);
    let thousand = net.scalar(1000.0);
    let focal = net.op("Div", &[&focal, &thousand]);
    let repeats = net.integers(&[cells as i64, 1]);
    let focal = net.op("Tile", &[&focal, &repeats]);
    let end = 3 * depths as i64;
    let far = net.slice(&points, 1, end - 3..end);
    let near = net.slice(&points, 1, end - 90..end - 87);
    let cone = net.concat(&[&focal, &far, &near], 1);
    net.output(&cone, "cone", ElementType::F32, &[1, sizes.tokens(), 8]);
    net.graph
}

/// Rows of the memory as the head sees them, moved to the current frame.
struct Past {
    embedding: String,
    points: String,
    ages: String,
    poses: String,
    velocity: String,
}

/// Head and memory.
pub fn head(sizes: &Sizes, weights: &Weights, form: Form) -> Graph {
    let Sizes { channels: c, queries, memory: m, propagated, layers, classes, .. } = *sizes;
    let mut net = Net::new("head", weights);
    let past = inputs(&mut net, sizes, form);
    let ones = net.constant(&[m, 1], &vec![1.0; m]);
    let tokens = net.transpose("x", &[0, 1, 3, 4, 2]);
    let tokens = net.reshape(&tokens, &[sizes.tokens() as i64, c as i64]);
    let [embedding, cone] = [("pos_embed", c), ("cone", 8)]
        .map(|(name, channels)| net.reshape(name, &[-1, channels as i64]));
    let keys = net.linear_relu(&tokens, "memory_embed.0");
    let keys = net.linear(&keys, "memory_embed.2");
    let keys = net.mln(&keys, &cone, c, "spatial_alignment");
    let gate = net.linear_relu(&keys, "featurized_pe.conv_reduce");
    let gate = net.linear(&gate, "featurized_pe.conv_expand");
    let gate = net.op("Sigmoid", &[&gate]);
    let embedding = net.op("Mul", &[&embedding, &gate]);
    let keys_at = net.op("Add", &[&keys, &embedding]);
    // Queries of this frame.
    let points = net.weight("reference_points.weight").1;
    let points = net.constant(&[queries, 3], &points);
    let position = net.embed_points(&points, c);
    let mut still = [0.0_f32; 15];
    [3, 8, 13].into_iter().for_each(|i| still[i] = 1.0);
    let still = net.constant(&[queries, 15], &still.repeat(queries));
    let still = net.encode_motion(&still);
    let content = net.constant(&[queries, c], &vec![0.0; queries * c]);
    let content = net.mln(&content, &still, c, "ego_pose_memory");
    let position = net.mln(&position, &still, c, "ego_pose_pe");
    let now = net.constant(&[queries, 1], &vec![0.0; queries]);
    let now = net.embed_time(&now, c);
    let position = net.op("Add", &[&position, &now]);
    // Queries of the past.
    let [low, high] = [0, 3].map(|i| weights.point_range[i..i + 3].to_vec());
    let extent: Vec<f32> = low.iter().zip(&high).map(|(low, high)| high - low).collect();
    let [low, extent] = [low, extent].map(|values| net.constant(&[3], &values));
    let past_points = net.op("Sub", &[&past.points, &low]);
    let past_points = net.op("Div", &[&past_points, &extent]);
    let past_position = net.embed_points(&past_points, c);
    let poses = net.slice(&past.poses, 1, 0..3);
    let poses = net.reshape(&poses, &[m as i64, 12]);
    let motion = net.concat(&[&past.velocity, &past.ages, &poses], 1);
    let motion = net.encode_motion(&motion);
    let past_position = net.mln(&past_position, &motion, c, "ego_pose_pe");
    let past_content = net.mln(&past.embedding, &motion, c, "ego_pose_memory");
    let then = net.embed_time(&past.ages, c);
    let past_position = net.op("Add", &[&past_position, &then]);
    // The first of the past are queries, too.
    let mut split = |now: &str, past: &str| {
        let first = net.slice(past, 0, 0..propagated as i64);
        let rest = net.slice(past, 0, propagated as i64..m as i64);
        (net.concat(&[now, &first], 0), rest)
    };
    let (mut x, past_content) = split(&content, &past_content);
    let (position, past_position) = split(&position, &past_position);
    let (points, _) = split(&points, &past_points);
    let origin = net.inverse_sigmoid(&points);
    let (mut all_logits, mut all_boxes, mut last) = (Vec::new(), Vec::new(), String::new());
    for layer in 0..layers {
        let name = format!("transformer.decoder.layers.{layer}");
        let at = net.op("Add", &[&x, &position]);
        let values = net.concat(&[&x, &past_content], 0);
        let values_at = net.concat(&[&position, &past_position], 0);
        let values_at = net.op("Add", &[&values, &values_at]);
        let y =
            net.attention(&at, &values_at, &values, &format!("{name}.attentions.0.attn"), sizes);
        x = net.add_norm(&x, &y, c, &format!("{name}.norms.0"));
        let at = net.op("Add", &[&x, &position]);
        let y = net.attention(&at, &keys_at, &keys, &format!("{name}.attentions.1.attn"), sizes);
        x = net.add_norm(&x, &y, c, &format!("{name}.norms.1"));
        let y = net.linear_relu(&x, &format!("{name}.ffns.0.layers.0.0"));
        let y = net.linear(&y, &format!("{name}.ffns.0.layers.1"));
        x = net.add_norm(&x, &y, c, &format!("{name}.norms.2"));
        last = net.norm(&x, c, Some("transformer.decoder.post_norm"));
        all_logits.push(branch_of_classes(&mut net, &last, c));
        all_boxes.push(branch_of_boxes(&mut net, &last, &origin, [&low, &extent]));
    }
    let (logits, boxes) = (all_logits[layers - 1].clone(), all_boxes[layers - 1].clone());
    if form == Form::LastLayer {
        let num = queries + propagated;
        net.output(&logits, "all_cls_scores", ElementType::F32, &[1, 1, num, classes]);
        net.output(&boxes, "all_bbox_preds", ElementType::F32, &[1, 1, num, 10]);
    } else {
        let num = layers * (queries + propagated);
        for (of_layers, name, channels) in
            [(&all_logits, "all_cls_scores", classes), (&all_boxes, "all_bbox_preds", 10)]
        {
            let of_layers: Vec<&str> = of_layers.iter().map(String::as_str).collect();
            let all = net.concat(&of_layers, 0);
            let all = net.transpose(&all, &[1, 0]);
            net.output(&all, name, ElementType::F32, &[1, channels, num]);
        }
    }
    remember(&mut net, sizes, form, (&past, &ones), [&logits, &boxes, &last]);
    net.graph
}

fn inputs(net: &mut Net<'_>, sizes: &Sizes, form: Form) -> Past {
    let Sizes { cameras, channels: c, memory: m, .. } = *sizes;
    let [rows, columns] = sizes.grid;
    for (name, dims) in [
        ("x", vec![1, cameras, c, rows, columns]),
        ("pos_embed", vec![1, sizes.tokens(), c]),
        ("cone", vec![1, sizes.tokens(), 8]),
        ("data_ego_pose", vec![1, 4, 4]),
        ("data_ego_pose_inv", vec![1, 4, 4]),
        ("pre_memory_embedding", vec![1, m, c]),
        ("pre_memory_reference_point", vec![1, m, 3]),
        ("pre_memory_timestamp", vec![1, m, 1]),
        ("pre_memory_egopose", vec![1, m, 4, 4]),
        ("pre_memory_velo", vec![1, m, 2]),
    ] {
        net.input(name, ElementType::F32, &dims);
    }
    let mut ages = net.reshape("pre_memory_timestamp", &[m as i64, 1]);
    if form == Form::WithTimes {
        net.input("data_timestamp", ElementType::F64, &[1]);
        let time = net.node("Cast", &["data_timestamp"], &[("to", Attr::Int(1))]);
        ages = net.op("Add", &[&ages, &time]);
    }
    let inverse = net.reshape("data_ego_pose_inv", &[4, 4]);
    let poses = net.reshape("pre_memory_egopose", &[m as i64, 4, 4]);
    let poses = net.op("MatMul", &[&inverse, &poses]);
    let points = net.reshape("pre_memory_reference_point", &[m as i64, 3]);
    Past {
        embedding: net.reshape("pre_memory_embedding", &[m as i64, c as i64]),
        points: moved(net, &points, m, &inverse),
        ages,
        poses,
        velocity: net.reshape("pre_memory_velo", &[m as i64, 2]),
    }
}

/// Points [num, 3] moved by a matrix [4, 4].
fn moved(net: &mut Net<'_>, points: &str, num: usize, matrix: &str) -> String {
    let ones = net.constant(&[num, 1], &vec![1.0; num]);
    let points = net.concat(&[points, &ones], 1);
    let matrix = net.transpose(matrix, &[1, 0]);
    let points = net.op("MatMul", &[&points, &matrix]);
    net.slice(&points, 1, 0..3)
}

fn branch_of_classes(net: &mut Net<'_>, x: &str, channels: usize) -> String {
    let mut x = x.to_owned();
    for (linear, norm) in [("0", "1"), ("3", "4")] {
        x = net.linear(&x, &format!("cls_branches.0.{linear}"));
        x = net.norm(&x, channels, Some(&format!("cls_branches.0.{norm}")));
        x = net.op("Relu", &[&x]);
    }
    net.linear(&x, "cls_branches.0.6")
}

fn branch_of_boxes(net: &mut Net<'_>, x: &str, origin: &str, range: [&str; 2]) -> String {
    let x = net.linear_relu(x, "reg_branches.0.0");
    let x = net.linear_relu(&x, "reg_branches.0.2");
    let x = net.linear(&x, "reg_branches.0.4");
    let center = net.slice(&x, 1, 0..3);
    let center = net.op("Add", &[&center, origin]);
    let center = net.op("Sigmoid", &[&center]);
    let center = net.op("Mul", &[&center, range[1]]);
    let center = net.op("Add", &[&center, range[0]]);
    let rest = net.slice(&x, 1, 3..10);
    net.concat(&[&center, &rest], 1)
}

/// The memory of the next frame: the queries with the best scores, then the past.
fn remember(
    net: &mut Net<'_>,
    sizes: &Sizes,
    form: Form,
    (past, ones): (&Past, &str),
    [logits, boxes, content]: [&str; 3],
) {
    let Sizes { channels: c, memory: m, propagated: p, .. } = *sizes;
    let scores = net.op("Sigmoid", &[logits]);
    let scores = net.node(
        "ReduceMax",
        &[&scores],
        &[("axes", Attr::Ints(vec![1])), ("keepdims", Attr::Int(0))],
    );
    let k = net.integers(&[p as i64]);
    let (best, rows) = (net.name(), net.name());
    net.with(|graph| {
        graph.node("TopK", &[&scores, &k], &[&best, &rows], &[("axis", Attr::Int(0))])
    });
    let mut newest = |x: &str| net.node("Gather", &[x, &rows], &[("axis", Attr::Int(0))]);
    let [embedding, boxes] = [content, boxes].map(&mut newest);
    let points = net.slice(&boxes, 1, 0..3);
    let velocity = net.slice(&boxes, 1, 8..10);
    let unit: Vec<f32> =
        (0..p).flat_map(|_| (0..16).map(|i| f32::from(u8::from(i % 5 == 0)))).collect();
    let unit = net.constant(&[p, 4, 4], &unit);
    let pose = net.reshape("data_ego_pose", &[4, 4]);
    let points = net.concat(&[&points, &past.points], 0);
    let points = moved(net, &points, m + p, &pose);
    let poses = net.concat(&[&unit, &past.poses], 0);
    let poses = net.op("MatMul", &[&pose, &poses]);
    let embedding = net.concat(&[&embedding, &past.embedding], 0);
    let velocity = net.concat(&[&velocity, &past.velocity], 0);
    for (x, name, dims) in [
        (&embedding, "post_memory_embedding", vec![c]),
        (&points, "post_memory_reference_point", vec![3]),
        (&poses, "post_memory_egopose", vec![4, 4]),
        (&velocity, "post_memory_velo", vec![2]),
    ] {
        net.output(x, name, ElementType::F32, &[vec![1, m + p], dims].concat());
    }
    if form == Form::WithTimes {
        let zeros = net.op("Sub", &[ones, ones]);
        let new = net.slice(&zeros, 0, 0..p as i64);
        let times = net.concat(&[&new, &past.ages], 0);
        let times = net.node("Cast", &[&times], &[("to", Attr::Int(11))]);
        let dims = [1, m + p, 1];
        net.output(&times, "post_memory_timestamp", ElementType::F64, &dims);
    }
}

/// Names of the files, as Autoware has them: backbone, position embedding, head.
pub const FILES: [&str; 3] = [
    "simplify_extract_img_feat.onnx",
    "simplify_position_embedding.onnx",
    "simplify_pts_head_memory.onnx",
];

/// Writes the three files into a folder.
pub fn save(folder: &Path, sizes: &Sizes, weights: &Weights, form: Form) {
    let graphs =
        [backbone(sizes, 5), position_embedding(sizes, weights), head(sizes, weights, form)];
    for (graph, file) in graphs.iter().zip(FILES) {
        graph.save(&folder.join(file)).unwrap();
    }
}
