//! Autoware's dialect: nodes of the domain `autoware`, which its TensorRT
//! plugins run.
//!
//! `GetIndicePairsImplicitGemm` (or `GetIndicePairs`) makes a rulebook from
//! coordinates, `ImplicitGemm` (or `IndiceConv`) convolves with it. The tensors
//! between them are wiring: the geometry of a convolution is that of the node
//! that made its rulebook. Standard nodes stand in front (the mean of a voxel's
//! points, the batch column, the order of the axes), between (sums, ReLU, bias,
//! batch normalization, which is folded) and behind (the map).
//!
//! A file may hold the whole detector. The encoder then ends at the map, and
//! the rest becomes a model of its own ([`rest`]).
//!
//! Nodes are interpreted in the order of the file. A node that no rule knows
//! has unknown outputs, which is an error where the encoder needs them.

mod rest;
mod standard;

use std::collections::HashMap;

use super::builder::NetworkBuilder;
use super::constants::{Constants, WeightSizes};
use super::node::{self, Attributes};
use super::onnx::{Graph, Model, Node, Source};
use super::operation::{GridAxes, SparseNetwork};
use super::refuse;
use crate::error::Result;
use crate::ops::rulebook::{Geometry, Mode};
use standard::Column;

const DOMAIN: &str = "autoware";

/// Reads the encoder of a file, and what comes after it.
///
/// # Errors
/// `Model` as [`super::parse`].
pub(super) fn read(model: &Model<'_>) -> Result<(SparseNetwork, Option<Vec<u8>>)> {
    let graph = &model.graph;
    let mut reader = Reader {
        graph,
        builder: builder(graph)?,
        constants: Constants::of(graph),
        values: HashMap::new(),
        rulebooks: Vec::new(),
        axes: None,
        map: None,
    };
    for input in &graph.inputs {
        if let Some(value) = standard::input(input) {
            reader.values.insert(input.name, value);
        }
    }
    for node in &graph.nodes {
        match (node.domain, node.operator) {
            (DOMAIN, "GetIndicePairsImplicitGemm" | "GetIndicePairs") => reader.rulebook(node)?,
            (DOMAIN, "ImplicitGemm" | "IndiceConv") => reader.convolution(node)?,
            ("" | "ai.onnx", _) => reader.standard(node)?,
            _ => reader.unknown(node)?,
        }
    }
    let Reader { builder, axes, map, .. } = reader;
    let (Some(map), Some(axes)) = (map, axes) else {
        return refuse("no ScatterND writes features of sites to a dense map".into());
    };
    let network = builder.finish(map.tensor, axes, map.axes)?;
    let rest = rest::after(model, map.name, network.map_shape())?;
    Ok((network, rest))
}

/// What a tensor of the file is.
#[derive(Clone, Debug)]
enum Value {
    /// Points of voxels [voxels, points, channels].
    Points { channels: usize },
    /// Points of each voxel [voxels].
    Counts,
    /// Sums over the points of each voxel [voxels, channels].
    PointSums { channels: usize },
    /// Features of the voxels.
    Features { channels: usize },
    /// Coordinates [sites, columns].
    Indices { of: Sites, columns: Vec<Column> },
    /// A column of coordinates [sites].
    Column { of: Sites, column: Column },
    /// Zeros of a shape that is known only where it is constant.
    Zeros { dims: Option<Vec<i64>> },
    /// An output of a node that makes a rulebook: which rulebook and output.
    Rulebook { rulebook: usize, output: usize },
    /// Features of sites.
    Sparse(usize),
    /// A dense tensor; `order` are the dimensions of [batch, channels, grid]
    /// that stand at each place.
    Dense { tensor: usize, order: [usize; 5] },
}

/// Whose coordinates a tensor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sites {
    /// The graph's input: the axes are z y x, whatever the grid's.
    Input,
    /// A level: the axes are the grid's.
    Level(usize),
}

/// A rulebook of the file.
#[derive(Clone, Copy, Debug)]
struct Rulebook {
    levels: [usize; 2],
    mode: Mode,
    geometry: Geometry,
    output_padding: [u32; 3],
}

/// The map of the file.
#[derive(Clone, Copy, Debug)]
struct Map<'a> {
    name: &'a str,
    tensor: usize,
    axes: [usize; 3],
}

struct Reader<'g, 'a> {
    graph: &'g Graph<'a>,
    builder: NetworkBuilder,
    constants: Constants<'g, 'a>,
    values: HashMap<&'a str, Value>,
    rulebooks: Vec<Rulebook>,
    axes: Option<GridAxes>,
    map: Option<Map<'a>>,
}

/// A network with the grid of the first rulebook and the channels that the
/// first convolution reads.
fn builder(graph: &Graph<'_>) -> Result<NetworkBuilder> {
    let find =
        |operators: [&str; 2]| graph.nodes.iter().find(|node| operators.contains(&node.operator));
    let pairs = find(["GetIndicePairsImplicitGemm", "GetIndicePairs"]);
    let (Some(pairs), Some(first)) = (pairs, find(["ImplicitGemm", "IndiceConv"])) else {
        return refuse("no node makes a rulebook (GetIndicePairsImplicitGemm)".into());
    };
    let ([_, filters], _) = node::inputs::<2>(first, usize::MAX)?;
    let channels = graph.initializer(filters).and_then(|filters| filters.dims.last());
    let Some(channels) = channels.and_then(|&channels| usize::try_from(channels).ok()) else {
        return refuse(format!("{first}: input {filters} is not a constant of weights"));
    };
    NetworkBuilder::new(Attributes::of(pairs).per_axis("spatial_shape")?, channels)
}

impl<'a> Reader<'_, 'a> {
    /// `GetIndicePairsImplicitGemm`, `GetIndicePairs`.
    fn rulebook(&mut self, node: &Node<'a>) -> Result<()> {
        let ([indices], _) = node::inputs(node, 0)?;
        let from = match self.values.get(indices) {
            Some(Value::Indices { of, columns }) => {
                let (of, columns) = (*of, columns.clone());
                self.level_of_indices(node, of, &columns)?
            }
            _ => return self.not_understood(node, indices, "coordinates"),
        };
        let mut attributes = Attributes::of(node);
        attributes.expect_int("batch_size", 1)?;
        let algorithm = attributes.int("algo")?;
        if !(0..=2).contains(&algorithm) {
            return attributes.refuse("algo", &format!("is {algorithm}; 0 to 2 are possible"));
        }
        if node.operator == "GetIndicePairsImplicitGemm" {
            attributes.expect_int("is_train", 0)?;
            attributes.optional_flag("do_sort")?;
        }
        attributes.expect_per_axis("spatial_shape", self.builder.level(from).shape)?;
        let geometry = Geometry {
            kernel: attributes.per_axis("ksize")?,
            stride: attributes.per_axis("stride")?,
            padding: attributes.per_axis("padding")?,
            dilation: attributes.per_axis("dilation")?,
        };
        let flags = [attributes.flag("subm")?, attributes.flag("transpose")?];
        if flags != [false, true] {
            attributes.expect_per_axis("out_padding", [0; 3])?;
        }
        let output_padding = attributes.per_axis("out_padding")?;
        let name = node.name();
        let (mode, to) = match flags {
            [true, false] => {
                attributes.expect_per_axis("stride", [1; 3])?;
                (Mode::Submanifold, from)
            }
            [false, false] => (Mode::Strided, self.builder.strided_level(name, from, geometry)?),
            [false, true] => {
                let to = self.builder.transposed_level(name, from, geometry, output_padding)?;
                (Mode::Transposed, to)
            }
            [true, true] => return attributes.refuse("subm", "and transpose are 1"),
        };
        attributes.finish()?;
        let rulebook = self.rulebooks.len();
        self.rulebooks.push(Rulebook { levels: [from, to], mode, geometry, output_padding });
        for (output, &tensor) in node.outputs.iter().enumerate() {
            let value = match output {
                0 => Value::Indices { of: Sites::Level(to), columns: Column::IN_ORDER.to_vec() },
                _ => Value::Rulebook { rulebook, output },
            };
            self.values.insert(tensor, value);
        }
        Ok(())
    }

    /// The level of coordinates, whose columns have to be the batch and the
    /// axes of the grid. The first coordinates of the input say what these are.
    fn level_of_indices(
        &mut self,
        node: &Node<'_>,
        of: Sites,
        columns: &[Column],
    ) -> Result<usize> {
        match of {
            Sites::Level(level) if columns == Column::IN_ORDER => Ok(level),
            Sites::Input => match Column::grid_axes(columns) {
                Some(axes) if self.axes.is_none_or(|known| known == axes) => {
                    self.axes = Some(axes);
                    Ok(0)
                }
                _ => refuse(format!("{node}: coordinates {columns:?} of z y x")),
            },
            Sites::Level(_) => refuse(format!("{node}: coordinates {columns:?} of the grid")),
        }
    }

    /// `ImplicitGemm`, `IndiceConv`.
    fn convolution(&mut self, node: &Node<'a>) -> Result<()> {
        let is_implicit = node.operator == "ImplicitGemm";
        let ([features, filters, pairs, second, third], bias) =
            node::inputs(node, usize::from(is_implicit))?;
        let outputs = [pairs, second, third];
        let rulebook = self.rulebook_of(node, outputs)?;
        let input = match self.values.get(features) {
            Some(Value::Sparse(tensor)) => *tensor,
            Some(Value::Features { channels }) if *channels == self.builder.channels_of(0) => 0,
            Some(Value::Features { channels }) => {
                let expected = self.builder.channels_of(0);
                return refuse(format!(
                    "{node}: features of {channels} channels; {expected} are expected"
                ));
            }
            _ => return self.not_understood(node, features, "features"),
        };
        let Rulebook { levels: [from, _], mode, geometry, output_padding } = rulebook;
        if self.builder.level_index_of(input) != from {
            return refuse(format!("{node}: features and rulebook are of different levels"));
        }
        let num_outputs = self.num_filters(node, filters)?;
        let num_inputs = self.builder.channels_of(input);
        let sizes = WeightSizes { num_outputs, kernel: geometry.kernel, num_inputs };
        let bias = bias.first().copied().filter(|bias| !bias.is_empty());
        let weights = self.constants.weights(node, filters, bias, sizes)?;
        let has_relu = check_convolution(node, mode)?;
        let (builder, name) = (&mut self.builder, node.name());
        let mut output = match mode {
            Mode::Submanifold => {
                builder.submanifold(name, input, geometry.kernel, geometry.dilation, weights)?
            }
            Mode::Strided => builder.strided(name, input, geometry, weights)?,
            _ => builder.transposed(name, input, geometry, output_padding, weights)?,
        };
        if has_relu {
            output = builder.relu(name, output)?;
        }
        self.values.insert(node::output(node)?, Value::Sparse(output));
        Ok(())
    }

    /// The rulebook whose outputs 1, 2 and 3 a convolution reads.
    fn rulebook_of(&self, node: &Node<'_>, names: [&str; 3]) -> Result<Rulebook> {
        let mut found = None;
        for (name, expected) in names.into_iter().zip(1..) {
            match self.values.get(name) {
                Some(&Value::Rulebook { rulebook, output })
                    if output == expected && found.is_none_or(|found| found == rulebook) =>
                {
                    found = Some(rulebook);
                }
                Some(_) => {
                    return refuse(format!(
                        "{node}: input {name} is not output {expected} of its rulebook"
                    ));
                }
                None => return self.not_understood(node, name, "a rulebook"),
            }
        }
        match found {
            Some(rulebook) => Ok(self.rulebooks[rulebook]),
            None => refuse(format!("{node}: no rulebook")),
        }
    }

    fn num_filters(&self, node: &Node<'_>, filters: &str) -> Result<usize> {
        let dims = self.graph.initializer(filters).map(|filters| &filters.dims[..]);
        match dims {
            Some(&[num_outputs, ..]) if num_outputs > 0 => Ok(num_outputs as usize),
            _ => refuse(format!("{node}: input {filters} is not a constant of weights")),
        }
    }

    /// An error about an input that has to be `expected`.
    fn not_understood<T>(&self, node: &Node<'_>, name: &str, expected: &str) -> Result<T> {
        let found = match self.graph.source(name) {
            Some(Source::Node(at)) => format!("is an output of {}", self.graph.nodes[at]),
            Some(Source::Input(_)) => "is an input of the graph".into(),
            Some(Source::Initializer(_)) => "is a constant".into(),
            None => "is not in the file".into(),
        };
        refuse(format!("{node}: input {name} {found}; it is not understood as {expected}"))
    }

    /// A node that no rule knows: its outputs are unknown.
    ///
    /// # Errors
    /// When it reads features of sites, which would be lost.
    fn unknown(&self, node: &Node<'_>) -> Result<()> {
        let reads_features = |name: &&&str| {
            matches!(self.values.get(**name), Some(Value::Sparse(_) | Value::Dense { .. }))
        };
        match node.inputs.iter().find(reads_features) {
            Some(name) if !["Shape", "Size"].contains(&node.operator) => refuse(format!(
                "{node}: it reads {name}, which holds features of sites, in a way that is not \
                 understood"
            )),
            _ => Ok(()),
        }
    }
}

/// Checks the attributes of a convolution, and whether a ReLU ends it.
fn check_convolution(node: &Node<'_>, mode: Mode) -> Result<bool> {
    let mut attributes = Attributes::of(node);
    attributes.expect_int("is_subm", i64::from(mode == Mode::Submanifold))?;
    let mut has_relu = false;
    if node.operator == "ImplicitGemm" {
        attributes.expect_int("is_train", 0)?;
        attributes.expect_float("act_alpha", &[0.0])?;
        attributes.expect_float("act_beta", &[0.0])?;
        attributes.expect_float("output_scale", &[1.0])?;
        // Of an input that is not there.
        attributes.expect_float("output_add_scale", &[0.0, 1.0])?;
        has_relu = match attributes.optional_int("act_type")? {
            None | Some(0) => false,
            Some(1) => true,
            Some(other) => {
                return attributes.refuse(
                    "act_type",
                    &format!("is {other}; 0 (none) and 1 (ReLU) are possible"),
                );
            }
        };
    }
    attributes.finish()?;
    Ok(has_relu)
}
