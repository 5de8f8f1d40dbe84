//! Parts of a file as models.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::refuse;
use crate::onnx::write::{self, Pieces};
use crate::onnx::{Model, Source};
use det_post_types::Result;

/// The bytes of a model of these pieces, of the operator sets of another one.
pub(super) fn to_bytes(model: &Model<'_>, pieces: &Pieces<'_>) -> Vec<u8> {
    write::model(model.ir_version, &model.operator_sets, &pieces.graph())
}

/// The nodes from tensors that are known to others, and the constants that they read.
///
/// # Errors
/// `Model` when a tensor depends on an input of the graph that is not known, or a node holds a graph.
pub(super) fn between<'a>(
    model: &Model<'a>,
    known: &[&str],
    outputs: &[&'a str],
) -> Result<Pieces<'a>> {
    let graph = &model.graph;
    let mut nodes = HashSet::new();
    let mut initializers = HashSet::new();
    let mut open: Vec<&str> = outputs.to_vec();
    while let Some(name) = open.pop() {
        if known.contains(&name) || name.is_empty() {
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
                    "one of {} depends on the input {name}, not only on {}",
                    outputs.join(", "),
                    known.join(", ")
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
    let nodes = in_order(nodes).into_iter().map(|at| Cow::Borrowed(graph.nodes[at].bytes));
    let initializers =
        in_order(initializers).into_iter().map(|at| Cow::Borrowed(graph.initializers[at].bytes));
    Ok(Pieces { nodes: nodes.collect(), initializers: initializers.collect(), ..Pieces::default() })
}
