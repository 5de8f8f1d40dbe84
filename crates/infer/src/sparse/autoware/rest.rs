//! What comes after the encoder, as a model of its own.

use std::collections::HashSet;

use super::super::refuse;
use crate::onnx::{Model, Source, write};
use det_post_types::Result;

/// The nodes between the map and the outputs of the graph, with the constants
/// that they read, as the bytes of an ONNX model whose only input is the map.
/// `None` where the map is the only output.
///
/// # Errors
/// `Model` when an output depends on another input, or a node holds a graph.
pub(super) fn after(
    model: &Model<'_>,
    map: &str,
    map_shape: [usize; 4],
) -> Result<Option<Vec<u8>>> {
    let graph = &model.graph;
    if graph.outputs.iter().all(|output| output.name == map) {
        return Ok(None);
    }
    let mut nodes = HashSet::new();
    let mut initializers = HashSet::new();
    let mut open: Vec<&str> = graph.outputs.iter().map(|output| output.name).collect();
    while let Some(name) = open.pop() {
        if name == map || name.is_empty() {
            continue;
        }
        match graph.source(name) {
            Some(Source::Initializer(at)) => {
                initializers.insert(at);
            }
            Some(Source::Node(at)) => {
                let node = &graph.nodes[at];
                if node.has_graphs() {
                    return refuse(format!("{node}: a graph inside a node is not supported"));
                }
                if nodes.insert(at) {
                    open.extend(&node.inputs);
                }
            }
            Some(Source::Input(_)) => {
                return refuse(format!(
                    "the outputs depend on the input {name}, not only on the map {map}"
                ));
            }
            None => return refuse(format!("tensor {name} is not in the file")),
        }
    }
    let in_order = |set: HashSet<usize>| {
        let mut order: Vec<usize> = set.into_iter().collect();
        order.sort_unstable();
        order
    };
    let nodes = in_order(nodes).into_iter().map(|at| graph.nodes[at].bytes);
    let initializers = in_order(initializers).into_iter().map(|at| graph.initializers[at].bytes);
    let outputs = graph.outputs.iter().map(|output| output.bytes);
    let graph = write::graph(nodes, initializers, (map, map_shape), outputs);
    Ok(Some(write::model(model.ir_version, &model.operator_sets, &graph)))
}
