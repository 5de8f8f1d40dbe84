//! Networks of 32-bit floats converted to 16-bit floats (f16) when they are loaded.
//!
//! What extracts features is converted: convolutions, and the operators between them. Inputs,
//! outputs and the arithmetic that turns features into boxes keep 32-bit floats, since f16
//! resolves 0.5 pixels at a coordinate of 640:
//!
//! | operators | type |
//! | --- | --- |
//! | `Conv`, `ConvTranspose` | f16 |
//! | activations, sums, products, pooling, resizing … whose results reach a converted convolution | f16 |
//! | `Concat`, `Reshape`, `Slice`, `Split`, `Transpose` … of f16 tensors | f16: they change no value |
//! | a `Conv` that follows a `Softmax`: an expectation, as in distribution focal loss | f32 |
//! | `Softmax`, `MatMul`, `Exp`, `Pow`, reductions, normalizations, everything else | f32 |
//!
//! A `Cast` stands where a tensor is needed in the other type; those of weights are computed
//! once, when an engine loads the network. Engines sum products of f16 in f32. A node with a
//! weight that f16 cannot hold keeps f32; activations beyond 65504 become infinite, which
//! cannot be known before the network runs: `det_post eval` shows what the conversion costs.

mod plan;

use std::collections::HashSet;

use super::onnx::{Graph, Model, write};
use det_post_types::{Error, ErrorKind, Result};
use plan::Plan;

const STAGE: &str = "fp16";
/// Appended to the name of a tensor for its values in f16.
const SUFFIX: &str = ":f16";

/// A converted network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The network, in the format of ONNX.
    pub bytes: Vec<u8>,
    /// The nodes that compute in f16.
    pub num_converted: usize,
    /// All nodes of the network before the conversion.
    pub num_nodes: usize,
    /// The conversions of tensors other than constants: one kernel each on a GPU.
    pub num_casts: usize,
}

/// Converts a network in the format of ONNX; `None` for one without convolutions of 32-bit
/// floats.
///
/// # Errors
/// `Model` when the bytes are not of the format, weights are in another file, or the network
/// has control flow (`If`, `Loop`, `Scan`).
pub fn convert(bytes: &[u8]) -> Result<Option<Converted>> {
    let model = Model::parse(bytes)?;
    let graph = &model.graph;
    if let Some(node) = graph.nodes.iter().find(|node| node.has_graphs()) {
        return refuse(format!("{node}: networks with control flow are not converted"));
    }
    if let Some(weights) = graph.initializers.iter().find(|weights| weights.is_in_other_file()) {
        return refuse(format!(
            "{}: networks with weights in other files are not converted",
            weights.name
        ));
    }
    let plan = Plan::of(graph);
    if plan.num_converted() == 0 {
        return Ok(None);
    }
    let casts = Casts::of(graph, &plan);
    let constants = graph.initializers.iter().map(|constant| constant.name);
    let inputs = graph.inputs.iter().map(|input| input.name);
    let first: Vec<_> = constants.chain(inputs).filter_map(|name| casts.after(name)).collect();
    let rewritten = |index: usize| {
        let node = &graph.nodes[index];
        let reads =
            |at: usize, name: &str| plan.reads_half(index, node, at, name).then(|| half_name(name));
        let writes =
            |name: &str| (plan.is_converted(index) && plan.is_float(name)).then(|| half_name(name));
        let mut nodes = vec![write::renamed_node(node.bytes, reads, writes)?];
        nodes.extend(node.outputs.iter().filter_map(|name| casts.after(name)));
        Ok(nodes)
    };
    let bytes = write::with_nodes(bytes, &first, rewritten)?;
    Ok(Some(Converted {
        bytes,
        num_converted: plan.num_converted(),
        num_nodes: graph.nodes.len(),
        num_casts: casts.num_of_variables(graph),
    }))
}

fn half_name(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

/// The tensors that are needed in the type in which they are not computed.
struct Casts<'a> {
    to_half: HashSet<&'a str>,
    to_float: HashSet<&'a str>,
}

impl<'a> Casts<'a> {
    fn of(graph: &Graph<'a>, plan: &Plan<'a>) -> Self {
        let (mut read_half, mut read_float) = (HashSet::new(), HashSet::new());
        read_float.extend(graph.outputs.iter().map(|output| output.name));
        for (index, node) in graph.nodes.iter().enumerate() {
            for (at, &name) in node.inputs.iter().enumerate() {
                let is_half = plan.reads_half(index, node, at, name);
                if is_half {
                    read_half.insert(name)
                } else {
                    read_float.insert(name)
                };
            }
        }
        Self {
            to_half: read_half.into_iter().filter(|name| !plan.is_computed_in_half(name)).collect(),
            to_float: read_float
                .into_iter()
                .filter(|name| plan.is_computed_in_half(name))
                .collect(),
        }
    }

    /// The node that converts a tensor, if one is needed.
    fn after(&self, name: &str) -> Option<Vec<u8>> {
        if self.to_half.contains(name) {
            return Some(write::cast_node(name, &half_name(name), write::F16));
        }
        self.to_float.contains(name).then(|| write::cast_node(&half_name(name), name, write::F32))
    }

    fn num_of_variables(&self, graph: &Graph<'_>) -> usize {
        let is_variable = |name: &&&str| !plan::is_constant(graph, name);
        self.to_float.len() + self.to_half.iter().filter(is_variable).count()
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, message))
}
