//! Which values have 16-bit floats, and which products.

use super::super::function::Function;
use super::super::graph::{Element, Graph, Id, Node, Operation, Reduction};
use super::super::program::Instructions;
use super::ALIGNMENT;
use half::f16;

/// The elements of values and of products.
pub(super) struct Elements {
    /// By value: it has 16-bit floats, unless it is written where others are.
    pub(super) is_half: Vec<bool>,
    /// By value: it has 32-bit floats wherever it is written.
    pub(super) is_wide: Vec<bool>,
    /// By node: its products are of 32-bit floats.
    pub(super) is_exact: Vec<bool>,
}

impl Elements {
    /// Of all values and nodes of a graph. With halves, what a convolution or product reads, and what leads
    /// there, has 16-bit floats, but for
    ///
    /// - layers that are kept, or whose weights are beyond 16-bit floats: they read and write 32-bit floats, and so do
    ///   the convolutions and products that read what they wrote, also after layers that only move or choose values;
    /// - what a normalization or a softmax reads, and the squares that a normalization in parts sums;
    /// - inputs of the network, which have the elements of the file; with `may_lay_inputs_out`, maps that only
    ///   convolutions read have theirs.
    pub(super) fn of(graph: &Graph, with_halves: bool, may_lay_inputs_out: bool) -> Self {
        let mut elements = Self {
            is_half: vec![false; graph.values.len()],
            is_wide: vec![false; graph.values.len()],
            is_exact: vec![!with_halves; graph.nodes.len()],
        };
        if with_halves {
            elements.keep(graph);
            elements.protect(graph);
            elements.spread(graph);
            elements.halve(graph, may_lay_inputs_out);
        }
        elements
    }

    /// Kept layers, and what computes with their results.
    fn keep(&mut self, graph: &Graph) {
        // By value: a kept layer wrote it, or something in it.
        let mut is_carried = vec![false; graph.values.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            let is_kept = node.layer.is_kept() || exceeds(graph, node);
            let (computed, moved) = operands(node);
            self.is_exact[at] = is_kept || computed.iter().any(|&id| is_carried[id]);
            if is_kept {
                node.inputs.iter().for_each(|&id| self.is_wide[id] = true);
            }
            if is_kept || moved.iter().any(|&id| is_carried[id]) {
                for &id in &node.outputs {
                    (self.is_wide[id], is_carried[id]) = (true, true);
                }
            }
        }
    }

    /// What normalizations and softmaxes read: sums of squares and exponentials of rounded values are what 16-bit floats
    /// lose most of, and where a residual stream is read so, it is not rounded in every layer.
    fn protect(&mut self, graph: &Graph) {
        let mut squares = vec![false; graph.values.len()];
        for node in &graph.nodes {
            match &node.operation {
                Operation::LayerNorm { .. }
                | Operation::Softmax { .. }
                | Operation::Expectation { .. } => self.is_wide[node.inputs[0]] = true,
                Operation::Program(instructions) if has_squares(instructions) => {
                    node.outputs.iter().for_each(|&id| squares[id] = true);
                }
                Operation::Reduce { kind: Reduction::Sum | Reduction::Mean, .. }
                    if squares[node.inputs[0]] =>
                {
                    self.is_wide[node.inputs[0]] = true;
                    self.is_wide[node.outputs[0]] = true;
                }
                _ => {}
            }
        }
    }

    /// Values that are no floats have none, and views have the elements of what they are views of.
    fn spread(&mut self, graph: &Graph) {
        for node in graph.nodes.iter().rev().filter(|node| is_view(node)) {
            self.is_wide[node.inputs[0]] |= self.is_wide[node.outputs[0]];
        }
        for node in graph.nodes.iter().filter(|node| is_view(node)) {
            self.is_wide[node.outputs[0]] = self.is_wide[node.inputs[0]];
        }
        for (id, value) in graph.values.iter().enumerate() {
            self.is_wide[id] &= value.element == Element::Float && value.constant.is_none();
        }
    }

    fn halve(&mut self, graph: &Graph, may_lay_inputs_out: bool) {
        for (at, node) in graph.nodes.iter().enumerate().rev() {
            let leads = node.outputs.iter().any(|&id| self.is_half[id]);
            let reads_halves = match node.operation {
                Operation::Convolution(_) | Operation::Transposed(_) | Operation::Product(_) => {
                    !self.is_exact[at]
                }
                // Exponentials, logarithms and their sums keep 32 bits.
                Operation::Softmax { .. }
                | Operation::Expectation { .. }
                | Operation::LayerNorm { .. } => false,
                _ => leads,
            };
            for &id in node.inputs.iter().filter(|_| reads_halves) {
                let value = &graph.values[id];
                let may_be = value.element == Element::Float && value.constant.is_none();
                self.is_half[id] |= may_be && !self.is_wide[id];
            }
        }
        for &id in &graph.inputs {
            self.is_half[id] &= may_lay_inputs_out && self.is_read_by_convolutions(graph, id);
        }
        for node in graph.nodes.iter().filter(|node| is_view(node)) {
            self.is_half[node.outputs[0]] = self.is_half[node.inputs[0]];
        }
    }

    /// Whether a value is a map with channels in eights that convolutions of 16-bit floats read, and nothing else.
    fn is_read_by_convolutions(&self, graph: &Graph, id: Id) -> bool {
        let shape = graph.shape(id);
        let is_map = shape.len() == 4 && shape[1].is_multiple_of(ALIGNMENT);
        let mut readers =
            graph.nodes.iter().enumerate().filter(|(_, node)| node.inputs.contains(&id));
        let is_convolution = |(at, node): (usize, &Node)| {
            let (Operation::Convolution(_) | Operation::Transposed(_)) = node.operation else {
                return false;
            };
            !self.is_exact[at] && node.inputs[0] == id && !node.inputs[1..].contains(&id)
        };
        is_map && !graph.outputs.contains(&id) && readers.all(is_convolution)
    }
}

fn is_view(node: &Node) -> bool {
    matches!(node.operation, Operation::View(_))
}

/// Inputs of products, and inputs whose values, or means of them, a node passes on.
fn operands(node: &Node) -> (&[Id], &[Id]) {
    let inputs = &node.inputs[..];
    match &node.operation {
        Operation::Convolution(_) | Operation::Transposed(_) => (&inputs[..1], &[]),
        Operation::Product(_) => (&inputs[..2], &[]),
        Operation::View(_)
        | Operation::Concat { .. }
        | Operation::Pool(_)
        | Operation::Resize(_)
        | Operation::TopK { .. }
        | Operation::Reduce { kind: Reduction::Max | Reduction::Min | Reduction::Mean, .. } => {
            (&[], inputs)
        }
        Operation::Gather { .. } | Operation::GridSample { .. } => (&[], &inputs[..1]),
        Operation::LinearMax { .. }
        | Operation::Elementwise(_)
        | Operation::Program(_)
        | Operation::Affine(_)
        | Operation::Reduce { .. }
        | Operation::Softmax { .. }
        | Operation::Expectation { .. }
        | Operation::ArgMax { .. }
        | Operation::LayerNorm { .. } => (&[], &[]),
    }
}

/// Whether the weights of products are finite, and not as 16-bit floats.
fn exceeds(graph: &Graph, node: &Node) -> bool {
    let (Operation::Convolution(_) | Operation::Transposed(_) | Operation::Product(_)) =
        node.operation
    else {
        return false;
    };
    let weights = graph.values[node.inputs[1]].floats();
    let is_beyond = |value: &f32| value.is_finite() && f16::from_f32(*value).is_infinite();
    weights.is_some_and(|weights| weights.iter().any(is_beyond))
}

/// Whether a program computes a power, or the product of a value and itself.
fn has_squares(instructions: &Instructions) -> bool {
    instructions.list.iter().any(|instruction| match instruction.function {
        Function::Pow => true,
        Function::Mul => instruction.operands.windows(2).all(|pair| pair[0] == pair[1]),
        _ => false,
    })
}
