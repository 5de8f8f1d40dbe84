//! Which nodes of a network compute in 16-bit floats.

use std::collections::HashSet;

use half::f16;

use crate::onnx::{AttributeValue, DataType, Graph, Node, Source, Tensor};

/// Convolutions: what a GPU computes faster in f16.
const CONVOLUTIONS: [&str; 2] = ["Conv", "ConvTranspose"];

/// Operators that are as exact in f16 as their inputs, up to one rounding, and run there
/// when their results reach a convolution.
const BETWEEN: [&str; 20] = [
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Clip",
    "Elu",
    "GlobalAveragePool",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "MaxPool",
    "Mish",
    "Mul",
    "PRelu",
    "Pad",
    "Relu",
    "Resize",
    "Sigmoid",
    "Sub",
    "Tanh",
    "Upsample",
];

/// Operators that only move values.
const MOVES: [&str; 10] = [
    "Concat",
    "DepthToSpace",
    "Flatten",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// Operators that read no values.
const SHAPES: [&str; 2] = ["Shape", "Size"];

/// Other operators whose output has the type of their first input.
const SAME_TYPE: [&str; 24] = [
    "Abs",
    "Ceil",
    "Div",
    "Erf",
    "Exp",
    "Expand",
    "Floor",
    "Gather",
    "Gelu",
    "Gemm",
    "GlobalMaxPool",
    "InstanceNormalization",
    "LayerNormalization",
    "Log",
    "MatMul",
    "Max",
    "Min",
    "Neg",
    "Pow",
    "ReduceMax",
    "ReduceMean",
    "ReduceSum",
    "Softmax",
    "Sqrt",
];

/// A choice of nodes, and the types of tensors.
pub(super) struct Plan<'a> {
    is_converted: Vec<bool>,
    /// Tensors of 32-bit floats.
    floats: HashSet<&'a str>,
    /// Values that converted nodes compute.
    halves: HashSet<&'a str>,
}

impl<'a> Plan<'a> {
    pub(super) fn of(graph: &Graph<'a>) -> Self {
        let mut plan = Self {
            is_converted: vec![false; graph.nodes.len()],
            floats: floats(graph),
            halves: HashSet::new(),
        };
        plan.choose_convolutions_and_between(graph);
        plan.choose_moves(graph);
        plan
    }

    pub(super) fn is_converted(&self, node: usize) -> bool {
        self.is_converted[node]
    }

    pub(super) fn num_converted(&self) -> usize {
        self.is_converted.iter().filter(|is_converted| **is_converted).count()
    }

    /// Whether a tensor holds 32-bit floats in the file.
    pub(super) fn is_float(&self, name: &str) -> bool {
        self.floats.contains(name)
    }

    pub(super) fn is_computed_in_half(&self, name: &str) -> bool {
        self.halves.contains(name)
    }

    /// Whether a node reads its input at a position in f16. The region and the scales of
    /// `Resize` are always f32; a shape is that of either type.
    pub(super) fn reads_half(&self, index: usize, node: &Node<'_>, at: usize, name: &str) -> bool {
        if is_in(&SHAPES, node) {
            return self.is_computed_in_half(name);
        }
        let is_value = at == 0 || !matches!(node.operator, "Resize" | "Upsample");
        self.is_converted(index) && is_value && self.is_float(name)
    }

    fn convert(&mut self, index: usize, node: &Node<'a>) {
        self.is_converted[index] = true;
        self.halves.extend(&node.outputs);
    }

    /// Convolutions, and from the last node to the first what leads to one.
    fn choose_convolutions_and_between(&mut self, graph: &Graph<'a>) {
        let mut leads_to_convolution = HashSet::new();
        for (index, node) in graph.nodes.iter().enumerate().rev() {
            let leads = node.outputs.iter().any(|name| leads_to_convolution.contains(name));
            let is_convolution = is_in(&CONVOLUTIONS, node) && !follows_softmax(graph, node);
            let is_between = leads && (is_in(&BETWEEN, node) || is_in(&MOVES, node));
            let converts = (is_convolution || is_between) && self.is_convertible(graph, node);
            if converts {
                self.convert(index, node);
            }
            if converts || leads {
                leads_to_convolution.extend(node.inputs.iter().copied());
            }
        }
    }

    /// Moves of converted tensors, so that these are converted back as late as possible.
    fn choose_moves(&mut self, graph: &Graph<'a>) {
        for (index, node) in graph.nodes.iter().enumerate() {
            let all_in_half = |node: &Node<'a>| {
                let mut inputs = node.inputs.iter().filter(|name| self.floats.contains(**name));
                inputs.all(|name| self.halves.contains(name))
            };
            let is_move = !self.is_converted[index] && is_in(&MOVES, node);
            if is_move && self.is_convertible(graph, node) && all_in_half(node) {
                self.convert(index, node);
            }
        }
    }

    /// Whether a node reads and writes floats that f16 can hold.
    fn is_convertible(&self, graph: &Graph<'a>, node: &Node<'a>) -> bool {
        let has_floats = |names: &[&str]| {
            names.iter().take(1).all(|name| self.floats.contains(name)) && !names.is_empty()
        };
        has_floats(&node.inputs)
            && has_floats(&node.outputs)
            && node.outputs.iter().all(|name| name.is_empty() || self.floats.contains(name))
            && node.inputs.iter().all(|name| constant(graph, name).is_none_or(fits))
    }
}

/// Whether the value of a tensor is known before the network runs: a constant, or one that is
/// stored in another type.
pub(super) fn is_constant(graph: &Graph<'_>, name: &str) -> bool {
    let is_stored = |name: &str| match graph.source(name) {
        Some(Source::Initializer(_)) => true,
        Some(Source::Node(at)) => graph.nodes[at].operator == "Constant",
        _ => false,
    };
    let of_cast = match graph.source(name) {
        Some(Source::Node(at)) if graph.nodes[at].operator == "Cast" => {
            graph.nodes[at].inputs.first().copied()
        }
        _ => None,
    };
    is_stored(of_cast.unwrap_or(name))
}

fn is_in(operators: &[&str], node: &Node<'_>) -> bool {
    node.domain.is_empty() && operators.contains(&node.operator)
}

/// Whether a node reads probabilities, if moved.
fn follows_softmax(graph: &Graph<'_>, node: &Node<'_>) -> bool {
    let mut node = node;
    // Every step goes to an earlier node.
    for _ in 0..graph.nodes.len() {
        let Some(Source::Node(at)) = node.inputs.first().and_then(|name| graph.source(name)) else {
            return false;
        };
        node = &graph.nodes[at];
        if !is_in(&MOVES, node) {
            return node.operator == "Softmax";
        }
    }
    false
}

/// The tensors of 32-bit floats, as far as the types of operators are known here.
fn floats<'a>(graph: &Graph<'a>) -> HashSet<&'a str> {
    let is_f32 = |data_type: DataType| data_type == DataType::F32;
    let mut floats = HashSet::new();
    let inputs = graph.inputs.iter().filter(|input| input.data_type.is_some_and(is_f32));
    floats.extend(inputs.map(|input| input.name));
    let constants = graph.initializers.iter().filter(|constant| is_f32(constant.data_type));
    floats.extend(constants.map(|constant| constant.name));
    for node in &graph.nodes {
        let is_float = match node.operator {
            "Constant" => is_float_constant(node),
            "Cast" => node.attribute("to") == Some(&AttributeValue::Int(1)),
            _ if is_in(&CONVOLUTIONS, node) || is_in(&["Add", "Concat", "Mul", "Sub"], node) => {
                node.inputs.iter().any(|name| floats.contains(name))
            }
            _ if is_in(&BETWEEN, node) || is_in(&MOVES, node) || is_in(&SAME_TYPE, node) => {
                node.inputs.first().is_some_and(|name| floats.contains(name))
            }
            _ => false,
        };
        // All outputs of `Split`; others have one of the input's type.
        let num = if node.operator == "Split" { node.outputs.len() } else { 1 };
        if is_float {
            floats.extend(node.outputs.iter().take(num));
        }
    }
    floats
}

fn is_float_constant(node: &Node<'_>) -> bool {
    node.attributes.iter().any(|attribute| match &attribute.value {
        AttributeValue::Float(_) | AttributeValue::Floats(_) => true,
        AttributeValue::Tensor(tensor) => tensor.data_type == DataType::F32,
        _ => false,
    })
}

/// The tensor of a constant.
fn constant<'g, 'a>(graph: &'g Graph<'a>, name: &str) -> Option<&'g Tensor<'a>> {
    match graph.source(name)? {
        Source::Initializer(at) => Some(&graph.initializers[at]),
        Source::Node(at) => match graph.nodes[at].attribute("value") {
            Some(AttributeValue::Tensor(tensor)) if graph.nodes[at].operator == "Constant" => {
                Some(tensor)
            }
            _ => None,
        },
        Source::Input(_) => None,
    }
}

/// Whether f16 can hold all values of a constant. Values in another file are not looked at.
fn fits(tensor: &Tensor<'_>) -> bool {
    let largest = f16::MAX.to_f32();
    match tensor.data_type {
        DataType::F32 if tensor.is_in_raw_data() => {
            tensor.floats().is_ok_and(|values| values.iter().all(|value| value.abs() <= largest))
        }
        _ => true,
    }
}
