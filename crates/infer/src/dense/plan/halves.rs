//! Which values have 16-bit floats.

use super::super::graph::{Element, Graph, Operation};
use super::Precision;

/// By value, whether it has 16-bit floats: what a convolution or product reads, and what leads there.
pub(super) fn of(graph: &Graph, precision: Precision) -> Vec<bool> {
    let mut is_half = vec![false; graph.values.len()];
    if precision == Precision::F32 {
        return is_half;
    }
    for node in graph.nodes.iter().rev() {
        let leads = node.outputs.iter().any(|&id| is_half[id]);
        let reads_halves = match node.operation {
            Operation::Convolution(_) | Operation::Transposed(_) | Operation::Product(_) => true,
            // Exponentials, logarithms and their sums keep 32 bits.
            Operation::Softmax { .. }
            | Operation::Expectation { .. }
            | Operation::LayerNorm { .. } => false,
            _ => leads,
        };
        if reads_halves {
            for &id in &node.inputs {
                let value = &graph.values[id];
                is_half[id] |= value.element == Element::Float && value.constant.is_none();
            }
        }
    }
    graph.inputs.iter().for_each(|&id| is_half[id] = false);
    // Views have the elements of what they are views of.
    for node in &graph.nodes {
        if let Operation::View(_) = node.operation {
            is_half[node.outputs[0]] = is_half[node.inputs[0]];
        }
    }
    is_half
}
