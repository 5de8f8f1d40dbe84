//! The container of ONNX files: a reader that borrows from the file.
//!
//! Only what networks of sparse convolutions, the rewriting of a network and the check of its operators need is
//! read: the graph with its nodes, attributes, initializers and the graphs inside nodes, the shapes of its inputs and outputs,
//! operator sets and metadata. Names and values are slices of the file.
//! [`MAX_DEPTH`] bounds the nesting of graphs and [`MAX_ITEMS`] what is
//! allocated, so a hostile file costs little more memory than its own size.

mod metadata;
mod parse;
pub(super) mod replace;
mod tensor;
mod wire;
pub(super) mod write;

use std::collections::HashMap;

pub(super) use metadata::{Entries, entries as metadata_entries};
pub(super) use tensor::{DataType, Tensor};

use det_post_types::{Error, ErrorKind, Result};

/// The stage of errors.
const STAGE: &str = "onnx";

/// The most nodes, attributes, names, list elements but floats and initializers of a file,
/// all together.
pub(super) const MAX_ITEMS: usize = 1 << 18;
/// The most attributes of a node. A decoder as one node has its weights in them, 174 with 4 blocks.
const MAX_ATTRIBUTES: usize = 512;
/// The most graphs inside each other: branches and bodies of control flow.
const MAX_DEPTH: usize = 16;

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct Model<'a> {
    /// The version of the format.
    pub(super) ir_version: i64,
    /// The operator sets, as they stand in the file.
    pub(super) operator_sets: Vec<&'a [u8]>,
    /// Keys and values that the exporter added.
    pub(super) metadata: Vec<(&'a str, &'a str)>,
    /// The network.
    pub(super) graph: Graph<'a>,
    /// Domain and name of the functions that the file defines.
    pub(super) functions: Vec<(&'a str, &'a str)>,
}

/// A network: nodes between inputs and outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Graph<'a> {
    /// In the order of the file, which is one in which they can be computed.
    pub(super) nodes: Vec<Node<'a>>,
    /// Constants.
    pub(super) initializers: Vec<Tensor<'a>>,
    /// Inputs, without those that an initializer gives a value.
    pub(super) inputs: Vec<ValueInfo<'a>>,
    /// Outputs.
    pub(super) outputs: Vec<ValueInfo<'a>>,
    /// Where tensors come from, by name.
    source_of: HashMap<&'a str, Source>,
}

/// Where a tensor comes from, with the index in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An input of the graph.
    Input(usize),
    /// A constant.
    Initializer(usize),
    /// An output of a node.
    Node(usize),
}

/// A node: one operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node<'a> {
    /// Its name; empty where the file gives none.
    pub(super) name: &'a str,
    /// The operator.
    pub(super) operator: &'a str,
    /// The operator set; empty is ONNX's own.
    pub(super) domain: &'a str,
    /// Names of the tensors that it reads; empty where one is left out.
    pub(super) inputs: Vec<&'a str>,
    /// Names of the tensors that it writes.
    pub(super) outputs: Vec<&'a str>,
    /// Attributes, each name once.
    pub(super) attributes: Vec<Attribute<'a>>,
    /// The node as it stands in the file.
    pub(super) bytes: &'a [u8],
}

/// An attribute of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attribute<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its value.
    pub(super) value: AttributeValue<'a>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AttributeValue<'a> {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// Text.
    Text(&'a str),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A graph, or several.
    Graphs(Vec<Graph<'a>>),
    /// A list of texts …: of no use here.
    Other,
}

/// The name and type of an input or output.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ValueInfo<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its element type, where it is a tensor.
    pub(super) data_type: Option<DataType>,
    /// Its dimensions; `None` for one that is open. The list is absent where
    /// the file does not give it.
    pub(super) shape: Option<Vec<Option<i64>>>,
    /// The entry as it stands in the file.
    pub(super) bytes: &'a [u8],
}

impl<'a> Model<'a> {
    /// Reads a file without functions.
    ///
    /// # Errors
    /// `Model` when the file is not of the format, defines functions, holds more than
    /// [`MAX_ITEMS`] or nests graphs deeper than [`MAX_DEPTH`]; the message names the message of the
    /// schema and the byte.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let model = parse::model(bytes)?;
        match model.functions.first() {
            None => Ok(model),
            Some((_, name)) => Err(error(format!("a function, {name}: functions are not read"))),
        }
    }

    /// Reads a file that may define functions, of which only the names are kept.
    ///
    /// # Errors
    /// As [`Self::parse`], but for functions.
    pub(super) fn parse_with_functions(bytes: &'a [u8]) -> Result<Self> {
        parse::model(bytes)
    }

    /// The version of an operator set; `None` where the file does not name it. The empty domain is ONNX's own.
    pub(super) fn operator_set(&self, domain: &str) -> Option<i64> {
        let sets = self.operator_sets.iter().filter_map(|bytes| parse::operator_set(bytes).ok());
        let is_same = |found: &str| found == domain || (domain.is_empty() && found == "ai.onnx");
        sets.filter(|set| is_same(set.0)).map(|set| set.1).next()
    }

    /// The value of a metadata entry.
    pub(super) fn metadata(&self, key: &str) -> Option<&'a str> {
        self.metadata.iter().find(|entry| entry.0 == key).map(|entry| entry.1)
    }
}

impl<'a> Graph<'a> {
    /// Where a tensor comes from; `None` where nothing writes it.
    pub(super) fn source(&self, name: &str) -> Option<Source> {
        self.source_of.get(name).copied()
    }

    /// The constant of a name.
    pub(super) fn initializer(&self, name: &str) -> Option<&Tensor<'a>> {
        match self.source(name)? {
            Source::Initializer(at) => Some(&self.initializers[at]),
            _ => None,
        }
    }

    /// Fills the index by name, and leaves inputs out that an initializer gives
    /// a value.
    fn index(&mut self) -> Result<()> {
        let twice = |name: &str| Err(error(format!("tensor {name} is defined twice")));
        for (at, tensor) in self.initializers.iter().enumerate() {
            if self.source_of.insert(tensor.name, Source::Initializer(at)).is_some() {
                return twice(tensor.name);
            }
        }
        self.inputs.retain(|input| !self.source_of.contains_key(input.name));
        for (at, input) in self.inputs.iter().enumerate() {
            if self.source_of.insert(input.name, Source::Input(at)).is_some() {
                return twice(input.name);
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            for &output in node.outputs.iter().filter(|output| !output.is_empty()) {
                if self.source_of.insert(output, Source::Node(at)).is_some() {
                    return Err(error(format!("{node}: tensor {output} is defined twice")));
                }
            }
        }
        Ok(())
    }
}

impl<'a> Node<'a> {
    /// The value of an attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<&AttributeValue<'a>> {
        let attribute = self.attributes.iter().find(|attribute| attribute.name == name);
        attribute.map(|attribute| &attribute.value)
    }

    /// Whether an attribute is a graph: control flow.
    pub(super) fn has_graphs(&self) -> bool {
        self.graphs().next().is_some()
    }

    /// The graphs in the node's attributes: branches, bodies.
    pub(super) fn graphs(&self) -> impl Iterator<Item = &Graph<'a>> {
        self.attributes.iter().flat_map(|attribute| match &attribute.value {
            AttributeValue::Graphs(graphs) => &graphs[..],
            _ => &[],
        })
    }

    /// The name by which errors and reports know the node: its own, else that
    /// of its first output.
    pub(super) fn name(&self) -> &'a str {
        if self.name.is_empty() { self.outputs.first().copied().unwrap_or("?") } else { self.name }
    }
}

impl std::fmt::Display for Node<'_> {
    /// `SparseConvolution conv3`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.operator, self.name())
    }
}

fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Model, STAGE, message)
}
