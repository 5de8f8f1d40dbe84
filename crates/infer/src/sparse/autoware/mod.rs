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

mod cameras;
mod coordinates;
mod layers;
mod map;
mod part;
mod reader;
mod rest;
mod rulebook;
mod standard;

use std::collections::HashMap;

use super::builder::NetworkBuilder;
use super::constants::{Constants, WeightSizes};
use super::node::{self, Attributes};
use super::operation::SparseNetwork;
use super::{CameraNetwork, refuse};
use crate::onnx::{Graph, Model, Node};
use cameras::Cameras;
use det_post_ops::sparse::rulebook::Mode;
use det_post_types::{Result, Size};
use reader::{Reader, Rulebook, Value};

const DOMAIN: &str = "autoware";

/// What a file holds.
pub(super) struct Parts {
    pub(super) network: SparseNetwork,
    /// What comes after the map.
    pub(super) rest: Option<Vec<u8>>,
    /// The sizes of the network of the cameras.
    pub(super) cameras: Option<CameraNetwork>,
}

/// Reads the encoder of a file, and what comes after it.
///
/// # Errors
/// `Model` as [`super::parse`].
pub(super) fn read(model: &Model<'_>) -> Result<Parts> {
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
    reader.rulebook_inputs(model)?;
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
    let cameras = Cameras::find(model)?;
    let rest = rest::after(model, map.name, network.map_shape(), cameras.as_ref())?;
    Ok(Parts { network, rest, cameras: cameras.map(|cameras| cameras.sizes()) })
}

/// The network of the cameras of a file; see [`super::camera_network`].
pub(super) fn camera_network(
    model: &Model<'_>,
    num_cameras: usize,
    image_size: Size,
) -> Result<Vec<u8>> {
    match Cameras::find(model)? {
        Some(cameras) => cameras.network(model, num_cameras, image_size),
        None => refuse("no QuickCumsumCuda: the network takes no cameras".into()),
    }
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
        let Rulebook { levels: [from, _], mode, geometry, output_padding, .. } = rulebook;
        if self.builder.level_index_of(input) != from {
            return refuse(format!("{node}: features and rulebook are of different levels"));
        }
        let num_outputs = self.num_filters(node, filters)?;
        let num_inputs = self.builder.channels_of(input);
        let sizes = WeightSizes { num_outputs, kernel: geometry.kernel, num_inputs };
        let bias = bias.first().copied().filter(|bias| !bias.is_empty());
        let weights = self.constants.weights(node, filters, bias, sizes).or_else(|error| {
            refuse(format!("{}; the kernel belongs to {}", error.message(), rulebook.name))
        })?;
        let has_relu = check_convolution(node, &rulebook)?;
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

    fn num_filters(&self, node: &Node<'_>, filters: &str) -> Result<usize> {
        let dims = self.graph.initializer(filters).map(|filters| &filters.dims[..]);
        match dims {
            Some(&[num_outputs, ..]) if num_outputs > 0 => Ok(num_outputs as usize),
            _ => refuse(format!("{node}: input {filters} is not a constant of weights")),
        }
    }
}

/// Checks the attributes of a convolution, and whether a ReLU ends it.
fn check_convolution(node: &Node<'_>, rulebook: &Rulebook) -> Result<bool> {
    let mut attributes = Attributes::of(node);
    if attributes.flag("is_subm")? != (rulebook.mode == Mode::Submanifold) {
        let Rulebook { name, mode, .. } = rulebook;
        return attributes.refuse("is_subm", &format!("contradicts {name}: subm is of {mode:?}"));
    }
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
                return attributes
                    .refuse("act_type", &format!("must be 0 (none) or 1 (ReLU), found {other}"));
            }
        };
    }
    attributes.finish()?;
    Ok(has_relu)
}
