//! What is known of the tensors of a graph and of the graphs around it.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::onnx::{AttributeValue, DataType, Graph, Node, Source, Tensor};

/// The type of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    /// The type of an input.
    Input(usize),
    /// The type of a number in the schema.
    Type(i64),
    /// The type whose number an attribute holds, else that of the number.
    Attribute(&'static str, i64),
    /// The type of a tensor in the attribute `value`, else float.
    Value,
    /// The type that the graphs in the node give.
    Graphs,
    /// A sequence of tensors.
    Sequence,
}

/// A graph, inside another one or not.
pub(super) struct Scope<'s, 'a> {
    pub(super) graph: &'s Graph<'a>,
    around: Option<&'s Scope<'s, 'a>>,
    /// Types of tensors, by their numbers in the schema.
    types: RefCell<HashMap<&'a str, i64>>,
}

impl<'s, 'a> Scope<'s, 'a> {
    pub(super) fn new(graph: &'s Graph<'a>, around: Option<&'s Scope<'s, 'a>>) -> Self {
        let inputs = graph.inputs.iter().filter_map(|input| Some((input.name, input.data_type?)));
        let constants = graph.initializers.iter().map(|tensor| (tensor.name, tensor.data_type));
        let types = inputs.chain(constants).map(|(name, of)| (name, of.number())).collect();
        Self { graph, around, types: RefCell::new(types) }
    }

    /// Notes types of the inputs of a body, where the file does not give them: those of what the
    /// node of a loop reads.
    pub(super) fn take_inputs(&self, node: &Node<'a>, around: &Scope<'_, 'a>) {
        if node.operator != "Loop" {
            return;
        }
        for (input, given) in self.graph.inputs.iter().skip(2).zip(node.inputs.iter().skip(2)) {
            if let Some(of) = around.type_of(given) {
                self.types.borrow_mut().entry(input.name).or_insert(of);
            }
        }
    }

    /// Types of the outputs, in order.
    pub(super) fn output_types(&self) -> Vec<Option<i64>> {
        self.graph.outputs.iter().map(|output| self.type_of(output.name)).collect()
    }

    /// The type of a tensor; `None` where it is not known, and for sequences.
    pub(super) fn type_of(&self, name: &str) -> Option<i64> {
        let found = self.types.borrow().get(name).copied();
        found.or_else(|| match self.graph.source(name) {
            None => self.around?.type_of(name),
            Some(_) => None,
        })
    }

    /// Notes the types of a node's outputs.
    pub(super) fn note(&self, node: &Node<'a>, gives: &[Gives], inner: &[Option<i64>]) {
        for (at, &output) in node.outputs.iter().enumerate() {
            let of = match gives.get(at).or(gives.last()) {
                // The first output of a body says whether the loop goes on.
                Some(Gives::Graphs) => {
                    let skipped = usize::from(node.operator == "Loop");
                    inner.get(at + skipped).copied().flatten()
                }
                Some(gives) => self.given(node, *gives),
                None => None,
            };
            if let Some(of) = of {
                self.types.borrow_mut().insert(output, of);
            }
        }
    }

    fn given(&self, node: &Node<'a>, gives: Gives) -> Option<i64> {
        match gives {
            Gives::Type(number) => Some(number),
            Gives::Input(at) => self.type_of(node.inputs.get(at)?),
            Gives::Attribute(name, otherwise) => match node.attribute(name) {
                Some(AttributeValue::Int(number)) => Some(*number),
                _ if otherwise == 0 => self.type_of(node.inputs.first()?),
                _ => Some(otherwise),
            },
            Gives::Value => {
                let mut value = node.attributes.iter().map(|attribute| match &attribute.value {
                    AttributeValue::Tensor(tensor) => tensor.data_type.number(),
                    AttributeValue::Int(_) | AttributeValue::Ints(_) => DataType::I64.number(),
                    _ => DataType::F32.number(),
                });
                Some(value.next_back().unwrap_or(DataType::F32.number()))
            }
            Gives::Graphs | Gives::Sequence => None,
        }
    }

    /// The constant of a name: an initializer, or the value of a node `Constant`.
    pub(super) fn constant(&self, name: &str) -> Option<Constant<'_, 'a>> {
        match self.graph.source(name) {
            None => self.around?.constant(name),
            Some(Source::Input(_)) => None,
            Some(Source::Initializer(at)) => Some(Constant::Tensor(&self.graph.initializers[at])),
            Some(Source::Node(at)) => {
                let node = &self.graph.nodes[at];
                let value = &node.attributes.first()?.value;
                match value {
                    _ if node.operator != "Constant" => None,
                    AttributeValue::Tensor(tensor) => Some(Constant::Tensor(tensor)),
                    AttributeValue::Floats(values) => {
                        Some(Constant::Floats(values.clone(), vec![values.len() as i64]))
                    }
                    AttributeValue::Int(value) => Some(Constant::Integers(vec![*value], vec![])),
                    AttributeValue::Ints(values) => {
                        Some(Constant::Integers(values.clone(), vec![values.len() as i64]))
                    }
                    _ => None,
                }
            }
        }
    }

    /// The graph that defines a tensor is the outermost one, of which shapes are known.
    pub(super) fn is_outermost(&self, name: &str) -> bool {
        match (self.graph.source(name), self.around) {
            (Some(_), around) => around.is_none(),
            (None, Some(around)) => around.is_outermost(name),
            (None, None) => false,
        }
    }

    /// Whether the node that writes a tensor says that it has two dimensions or more.
    pub(super) fn is_matrix(&self, name: &str, depth: usize) -> bool {
        const MAX_STEPS: usize = 16;
        let at = match self.graph.source(name) {
            Some(Source::Node(at)) if depth < MAX_STEPS => at,
            Some(Source::Input(at)) => {
                return self.graph.inputs[at].shape.as_ref().is_some_and(|shape| shape.len() > 1);
            }
            Some(Source::Initializer(at)) => return self.graph.initializers[at].dims.len() > 1,
            Some(Source::Node(_)) => return false,
            None => return self.around.is_some_and(|around| around.is_matrix(name, depth)),
        };
        let node = &self.graph.nodes[at];
        let is_matrix =
            |at: usize| node.inputs.get(at).is_some_and(|input| self.is_matrix(input, depth + 1));
        match node.operator {
            "Transpose" => match node.attribute("perm") {
                Some(AttributeValue::Ints(order)) => order.len() > 1,
                _ => is_matrix(0),
            },
            "Flatten" => true,
            "Add" | "Sub" | "Mul" | "Div" => is_matrix(0) || is_matrix(1),
            "Cast" | "Clip" | "Concat" | "Expand" | "Identity" | "LayerNormalization" | "Relu"
            | "Sigmoid" | "Slice" | "Softmax" | "Split" | "Unsqueeze" => is_matrix(0),
            "Reshape" => {
                let Some(&sizes) = node.inputs.get(1) else { return false };
                let sizes_of = self.constant(sizes);
                let is_joined = match self.graph.source(sizes) {
                    Some(Source::Node(at)) => {
                        let node = &self.graph.nodes[at];
                        node.operator == "Concat" && node.inputs.len() > 1
                    }
                    _ => false,
                };
                is_joined || sizes_of.is_some_and(|of| matches!(of.dims(), [num] if *num > 1))
            }
            _ => false,
        }
    }

    /// The shape that the file gives an input.
    pub(super) fn input_shape(&self, name: &str) -> Option<Vec<Option<i64>>> {
        match self.graph.source(name) {
            None => self.around?.input_shape(name),
            Some(Source::Input(at)) => self.graph.inputs[at].shape.clone(),
            Some(_) => None,
        }
    }
}

/// A constant of the file.
pub(super) enum Constant<'s, 'a> {
    Tensor(&'s Tensor<'a>),
    /// Values and dimensions.
    Integers(Vec<i64>, Vec<i64>),
    /// Values and dimensions.
    Floats(Vec<f32>, Vec<i64>),
}

impl Constant<'_, '_> {
    pub(super) fn dims(&self) -> &[i64] {
        match self {
            Self::Tensor(tensor) => &tensor.dims,
            Self::Integers(_, dims) | Self::Floats(_, dims) => dims,
        }
    }

    /// The values of integers; `None` for other types and for values in another file.
    pub(super) fn integers(&self) -> Option<Vec<i64>> {
        match self {
            Self::Integers(values, _) => Some(values.clone()),
            Self::Floats(..) => None,
            Self::Tensor(tensor) => {
                let mut values = Vec::new();
                tensor.each_integer(|value| values.push(value)).ok()?;
                (values.len() as i64 == tensor.dims.iter().product::<i64>()).then_some(values)
            }
        }
    }

    /// The values of f32; `None` for other types and for values in another file.
    pub(super) fn floats(&self) -> Option<Vec<f32>> {
        let tensor = match self {
            Self::Floats(values, _) => return Some(values.clone()),
            Self::Tensor(tensor) => tensor,
            Self::Integers(..) => return None,
        };
        let mut values = Vec::new();
        tensor.each_float(|value| values.push(value)).ok()?;
        (values.len() as i64 == tensor.dims.iter().product::<i64>()).then_some(values)
    }
}
