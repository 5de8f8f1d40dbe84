//! NVIDIA's dialect: nodes of the exporters of CUDA-CenterPoint and
//! CUDA-BEVFusion (Lidar_AI_Solution), without a domain of their own.
//!
//! Every attribute is checked against the geometry. Sizes of the traced
//! example (`input_shape`, `output_shape` of a convolution) and bounds that its
//! runtime allocates by (`output_bound`) are read but not used: capacities come
//! from the configuration. The padding of a submanifold convolution has no
//! meaning, as in spconv.
//!
//! Beyond what the exporters write, constants may be f32, the bias may be
//! absent, and nodes may have the domain `det_post`. `MergeSites` merges levels on a plane, and
//! a graph may end on sites: all its outputs are features [sites, channels] then.

use std::collections::HashMap;

use super::builder::{NetworkBuilder, Weights};
use super::constants::{Constants, WeightSizes};
use super::node::{self, Attributes, check_example, check_hint, check_precision, expect_dims};
use super::operation::{GridAxes, SiteOutput, SparseNetwork};
use super::refuse;
use crate::onnx::{DataType, Model, Node, ValueInfo};
use det_post_ops::sparse::merge::MAX_SOURCES;
use det_post_ops::sparse::rulebook::{Geometry, Scaled};
use det_post_types::Result;

const DOMAINS: [&str; 3] = ["", "ai.onnx", "det_post"];

/// Reads the network of a file.
///
/// # Errors
/// `Model` as [`super::parse`].
pub(super) fn read(model: &Model<'_>) -> Result<SparseNetwork> {
    let graph = &model.graph;
    let [input] = &graph.inputs[..] else {
        return refuse(format!("{} inputs; one is expected", graph.inputs.len()));
    };
    let mut reader = Reader {
        builder: NetworkBuilder::new(input_grid(model)?, input_channels(input)?)?,
        constants: Constants::of(graph),
        values: HashMap::from([(input.name, Value::Sparse(0))]),
        strided: HashMap::new(),
    };
    for node in &graph.nodes {
        let value = reader.node(node)?;
        reader.values.insert(node::output(node)?, value);
    }
    let Reader { builder, values, .. } = reader;
    let is_on_sites = |output: &ValueInfo<'_>| match values.get(output.name) {
        Some(&Value::Sparse(tensor)) => Some(SiteOutput { name: output.name.to_owned(), tensor }),
        _ => None,
    };
    if let Some(outputs) = graph.outputs.iter().map(is_on_sites).collect::<Option<Vec<_>>>() {
        for (output, SiteOutput { tensor, .. }) in graph.outputs.iter().zip(&outputs) {
            check_rows(output, builder.channels_of(*tensor))?;
        }
        return builder.finish_on_sites(outputs);
    }
    let [output] = &graph.outputs[..] else {
        let num = graph.outputs.len();
        return refuse(format!(
            "{num} outputs, not all of them on sites; a map has to be the only one"
        ));
    };
    let Some(&Value::Map { tensor, axes, map_axes }) = values.get(output.name) else {
        return refuse(format!("output {} is not written by a Reshape", output.name));
    };
    let network = builder.finish(tensor, axes, map_axes)?;
    check_output(output, network.map_shape())?;
    Ok(network)
}

/// What a tensor of the file is.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// Features of sites, by their index in the list.
    Sparse(usize),
    /// A dense tensor; `order` are the dimensions of [batch, channels, grid]
    /// that stand at each place.
    Dense { tensor: usize, axes: GridAxes, order: [usize; 5] },
    /// The map.
    Map { tensor: usize, axes: GridAxes, map_axes: [usize; 3] },
}

struct Reader<'g, 'a> {
    builder: NetworkBuilder,
    constants: Constants<'g, 'a>,
    values: HashMap<&'a str, Value>,
    /// Strided convolutions by their key: both levels and the geometry.
    strided: HashMap<&'a str, (usize, usize, Geometry)>,
}

impl<'a> Reader<'_, 'a> {
    fn node(&mut self, node: &Node<'a>) -> Result<Value> {
        if !DOMAINS.contains(&node.domain) {
            return refuse(format!("{node}: unknown domain {}", node.domain));
        }
        match node.operator {
            "SparseConvolution" => self.convolution(node),
            "Add" | "QuantAdd" => self.add(node),
            "Relu" => self.relu(node),
            "MergeSites" => self.merge_sites(node),
            "ScatterDense" => self.scatter_dense(node),
            "Transpose" => self.transpose(node),
            "Reshape" => self.reshape(node),
            _ => refuse(format!("{node}: unknown operator")),
        }
    }

    fn convolution(&mut self, node: &Node<'a>) -> Result<Value> {
        let ([input, weight], bias) = node::inputs(node, 1)?;
        let input = self.sparse(node, input)?;
        let level = *self.builder.level_of(input);
        let num_inputs = self.builder.channels_of(input);
        let mut attributes = Attributes::of(node);
        attributes.expect_int("ndim", 3)?;
        attributes.expect_int("groups", 1)?;
        attributes.expect_per_axis("input_spatial_shape", level.shape)?;
        attributes.expect_int("in_channels", num_inputs as i64)?;
        let num_outputs = match usize::try_from(attributes.int("out_channels")?) {
            Ok(num @ 1..) => num,
            _ => return attributes.refuse("out_channels", "is not positive"),
        };
        let geometry = Geometry {
            kernel: attributes.per_axis("kernel_size")?,
            stride: attributes.per_axis("stride")?,
            padding: attributes.per_axis("padding")?,
            dilation: attributes.per_axis("dilation")?,
        };
        let sizes = WeightSizes { num_outputs, kernel: geometry.kernel, num_inputs };
        let bias = bias.first().copied().filter(|bias| !bias.is_empty());
        let weights = self.constants.weights(node, weight, bias, sizes)?;
        let output = self.convolve(node, &mut attributes, input, geometry, weights)?;
        let shape = self.builder.level_of(output).shape;
        attributes.expect_per_axis("output_spatial_shape", shape)?;
        check_example(&mut attributes, "input_shape", num_inputs)?;
        check_example(&mut attributes, "output_shape", num_outputs)?;
        check_hint(&mut attributes, "output_bound")?;
        check_hint(&mut attributes, "fixed_launch_points")?;
        check_precision(&mut attributes, &["input_dynamic_range", "weight_dynamic_ranges"])?;
        let output = match attributes.text("activation")? {
            "None" => output,
            "ReLU" => self.builder.relu(node.name(), output)?,
            other => {
                return attributes
                    .refuse("activation", &format!("must be ReLU or None, found {other}"));
            }
        };
        attributes.finish()?;
        Ok(Value::Sparse(output))
    }

    /// Adds a convolution of the kind that the attributes `subm`, `transposed` and
    /// `inverse` tell.
    fn convolve(
        &mut self,
        node: &Node<'a>,
        attributes: &mut Attributes<'_, 'a>,
        input: usize,
        geometry: Geometry,
        weights: Weights,
    ) -> Result<usize> {
        let flags =
            [attributes.flag("subm")?, attributes.flag("transposed")?, attributes.flag("inverse")?];
        let key = attributes.optional_text("rulebook")?.unwrap_or_default();
        if flags != [false, true, false] {
            attributes.expect_per_axis("output_padding", [0; 3])?;
        }
        let builder = &mut self.builder;
        let name = node.name();
        match flags {
            [true, false, false] => {
                attributes.expect_per_axis("stride", [1; 3])?;
                builder.submanifold(name, input, geometry.kernel, geometry.dilation, weights)
            }
            [false, false, false] => {
                let output = builder.strided(name, input, geometry, weights)?;
                let levels = [input, output].map(|tensor| builder.level_index_of(tensor));
                self.remember(node, key, (levels[0], levels[1], geometry))?;
                Ok(output)
            }
            [false, true, false] => {
                let output_padding = attributes.per_axis("output_padding")?;
                builder.transposed(name, input, geometry, output_padding, weights)
            }
            [false, false, true] => {
                self.check_inverse(attributes, key, input, geometry)?;
                self.builder.inverse(name, input, weights)
            }
            _ => refuse(format!(
                "{node}: more than one of the attributes subm, transposed and inverse is 1"
            )),
        }
    }

    /// Keeps the geometry of a strided convolution for inverse ones with its key.
    fn remember(
        &mut self,
        node: &Node<'a>,
        key: &'a str,
        rulebook: (usize, usize, Geometry),
    ) -> Result<()> {
        if key.is_empty() {
            return Ok(());
        }
        match self.strided.insert(key, rulebook) {
            Some(earlier) if earlier != rulebook => refuse(format!(
                "{node}: attribute rulebook {key} belongs to another convolution, of {}",
                earlier.2
            )),
            _ => Ok(()),
        }
    }

    /// An inverse convolution takes its geometry from the convolution with its
    /// key; its own attributes are spconv's defaults or the same.
    fn check_inverse(
        &self,
        attributes: &mut Attributes<'_, 'a>,
        key: &str,
        input: usize,
        geometry: Geometry,
    ) -> Result<()> {
        let Some(&(_, level, inverted)) = self.strided.get(key) else {
            return attributes
                .refuse("inverse", &format!("is 1 and rulebook {key}, which no convolution has"));
        };
        if level != self.builder.level_index_of(input) {
            return attributes
                .refuse("inverse", &format!("is 1 and rulebook {key}, which leads elsewhere"));
        }
        attributes.expect_per_axis("kernel_size", inverted.kernel)?;
        let defaults = Geometry { stride: [1; 3], padding: [0; 3], dilation: [1; 3], ..inverted };
        if geometry != defaults && geometry != inverted {
            return attributes
                .refuse("stride", &format!("and others: {geometry}; it inverts {inverted}"));
        }
        Ok(())
    }

    fn add(&mut self, node: &Node<'a>) -> Result<Value> {
        let ([a, b], _) = node::inputs(node, 0)?;
        let inputs = [self.sparse(node, a)?, self.sparse(node, b)?];
        let mut attributes = Attributes::of(node);
        check_precision(&mut attributes, &["input0_dynamic_range", "input1_dynamic_range"])?;
        attributes.finish()?;
        Ok(Value::Sparse(self.builder.add(node.name(), inputs)?))
    }

    fn relu(&mut self, node: &Node<'a>) -> Result<Value> {
        let ([input], _) = node::inputs(node, 0)?;
        let input = self.sparse(node, input)?;
        Attributes::of(node).finish()?;
        Ok(Value::Sparse(self.builder.relu(node.name(), input)?))
    }

    fn merge_sites(&mut self, node: &Node<'a>) -> Result<Value> {
        let ([first], others) = node::inputs(node, MAX_SOURCES - 1)?;
        let mut attributes = Attributes::of(node);
        let scales = attributes.ints("scales")?;
        let shape = attributes.per_axis("output_spatial_shape")?;
        if scales.len() != others.len() + 1 {
            let expected = format!("is {scales:?}; one for each of {} inputs", others.len() + 1);
            return attributes.refuse("scales", &expected);
        }
        let mut inputs = Vec::new();
        for (&input, &scale) in [first].iter().chain(others).zip(scales) {
            let level = self.sparse(node, input)?;
            match u32::try_from(scale) {
                Ok(scale) => inputs.push(Scaled { level, scale }),
                Err(_) => return attributes.refuse("scales", &format!("has a scale of {scale}")),
            }
        }
        attributes.finish()?;
        Ok(Value::Sparse(self.builder.merge(node.name(), &inputs, shape)?))
    }

    fn scatter_dense(&mut self, node: &Node<'a>) -> Result<Value> {
        let ([input], _) = node::inputs(node, 0)?;
        let tensor = self.sparse(node, input)?;
        let shape = self.builder.level_of(tensor).shape;
        let mut attributes = Attributes::of(node);
        attributes.expect_per_axis("input_spatial_shape", shape)?;
        let axes = match attributes.text("format")? {
            "zyx" => GridAxes::Zyx,
            "xyz" => GridAxes::Xyz,
            other => {
                return attributes.refuse("format", &format!("must be zyx or xyz, found {other}"));
            }
        };
        let [s0, s1, s2] = shape.map(i64::from);
        let expected = [1, self.builder.channels_of(tensor) as i64, s0, s1, s2];
        expect_dims(&mut attributes, "output_shape", &expected)?;
        match attributes.optional_text("output_layout")? {
            None | Some("NCHW") => {}
            Some(other) => {
                return attributes.refuse("output_layout", &format!("must be NCHW, found {other}"));
            }
        }
        check_precision(&mut attributes, &["input_dynamic_range"])?;
        attributes.finish()?;
        Ok(Value::Dense { tensor, axes, order: [0, 1, 2, 3, 4] })
    }

    fn transpose(&mut self, node: &Node<'a>) -> Result<Value> {
        let (tensor, axes, order) = self.dense(node)?;
        let mut attributes = Attributes::of(node);
        let dims = attributes.ints("dims")?;
        let mut transposed = [0; 5];
        let is_permutation = dims.len() == 5 && (0..5).all(|dim| dims.contains(&dim));
        if !is_permutation {
            return attributes.refuse("dims", &format!("is {dims:?}, no permutation of 5"));
        }
        for (to, &from) in transposed.iter_mut().zip(dims) {
            *to = order[from as usize];
        }
        attributes.finish()?;
        Ok(Value::Dense { tensor, axes, order: transposed })
    }

    fn reshape(&mut self, node: &Node<'a>) -> Result<Value> {
        let (tensor, axes, order) = self.dense(node)?;
        let [0, 1, depth, rows, columns] = order else {
            return refuse(format!(
                "{node}: its input has the dimensions {order:?} of [batch, channels, grid]; \
                 batch and channels have to come first"
            ));
        };
        let map_axes = [depth, rows, columns].map(|dim| dim - 2);
        let shape = self.builder.level_of(tensor).shape;
        let [depth, rows, columns] = map_axes.map(|axis| i64::from(shape[axis]));
        let mut attributes = Attributes::of(node);
        let channels = self.builder.channels_of(tensor) as i64 * depth;
        expect_dims(&mut attributes, "dims", &[1, channels, rows, columns])?;
        attributes.finish()?;
        Ok(Value::Map { tensor, axes, map_axes })
    }

    fn sparse(&self, node: &Node<'_>, name: &str) -> Result<usize> {
        match self.values.get(name) {
            Some(&Value::Sparse(tensor)) => Ok(tensor),
            Some(_) => refuse(format!("{node}: input {name} is dense")),
            None => refuse(format!("{node}: input {name} is not written before")),
        }
    }

    fn dense(&self, node: &Node<'_>) -> Result<(usize, GridAxes, [usize; 5])> {
        let ([input], _) = node::inputs(node, 0)?;
        match self.values.get(input) {
            Some(&Value::Dense { tensor, axes, order }) => Ok((tensor, axes, order)),
            Some(_) => refuse(format!("{node}: input {input} is not an output of ScatterDense")),
            None => refuse(format!("{node}: input {input} is not written before")),
        }
    }
}

/// The grid: that of the first convolution of the file.
fn input_grid(model: &Model<'_>) -> Result<[u32; 3]> {
    let first = model.graph.nodes.iter().find(|node| node.operator == "SparseConvolution");
    match first {
        Some(node) => Attributes::of(node).per_axis("input_spatial_shape"),
        None => refuse("no SparseConvolution".into()),
    }
}

/// Channels of the graph's input [voxels, channels].
fn input_channels(input: &ValueInfo<'_>) -> Result<usize> {
    let is_float = matches!(input.data_type, Some(DataType::F16 | DataType::F32));
    match input.shape.as_deref() {
        Some(&[_, Some(channels)]) if is_float => usize::try_from(channels)
            .or_else(|_| refuse(format!("input {}: {channels} channels", input.name))),
        shape => refuse(format!(
            "input {} is {:?} {shape:?}; f16 or f32 [voxels, channels] is expected",
            input.name, input.data_type
        )),
    }
}

/// Checks the form of an output on sites, where the file gives it: floats [sites, channels].
fn check_rows(output: &ValueInfo<'_>, channels: usize) -> Result<()> {
    match output.shape.as_deref() {
        None => Ok(()),
        Some(&[_, found]) if found.is_none_or(|found| found == channels as i64) => Ok(()),
        Some(shape) => {
            refuse(format!("output {} is {shape:?}; [sites, {channels}] is expected", output.name))
        }
    }
}

fn check_output(output: &ValueInfo<'_>, expected: [usize; 4]) -> Result<()> {
    let Some(shape) = &output.shape else { return Ok(()) };
    let fits = shape.len() == expected.len()
        && shape
            .iter()
            .zip(expected)
            .all(|(dim, expected)| dim.is_none_or(|dim| dim == expected as i64));
    if fits {
        return Ok(());
    }
    refuse(format!("output {} is {shape:?}; {expected:?} is expected", output.name))
}
