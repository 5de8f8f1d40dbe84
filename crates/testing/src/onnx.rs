//! Writes small ONNX networks: enough of the format for tests, examples and
//! benches, by the field numbers of onnx.proto. IR version 8, operator set 17.

#![allow(dead_code, reason = "each user takes what it needs")]

use std::io;
use std::path::Path;

use det_post_types::ElementType;
use half::f16;
use prost::Message;

/// An attribute of a node.
#[derive(Clone, Debug)]
pub enum Attr {
    /// An integer.
    Int(i64),
    /// Integers.
    Ints(Vec<i64>),
    /// A float.
    Float(f32),
    /// Floats.
    Floats(Vec<f32>),
    /// A string.
    Text(&'static str),
}

/// A network under construction. Tensors are known by their names; nodes stand
/// in the order in which they are added.
#[derive(Clone, Debug, Default)]
pub struct Graph(GraphProto, Vec<(String, String)>);

impl Graph {
    /// An empty network. `doc` says what it is.
    pub fn new(name: &str, doc: &str) -> Self {
        let graph =
            GraphProto { name: name.into(), doc_string: doc.into(), ..GraphProto::default() };
        Self(graph, Vec::new())
    }

    /// An input; a dimension of -1 is open.
    pub fn input(mut self, name: &str, element: ElementType, dims: &[i64]) -> Self {
        self.0.input.push(value_info(name, element, dims));
        self
    }

    /// An input of bytes; a dimension of -1 is open.
    pub fn input_bytes(mut self, name: &str, dims: &[i64]) -> Self {
        const U8: i32 = 2;
        let mut info = value_info(name, ElementType::I8, dims);
        if let Some(tensor) = info.kind.as_mut().and_then(|kind| kind.tensor_type.as_mut()) {
            tensor.elem_type = U8;
        }
        self.0.input.push(info);
        self
    }

    /// An output; a dimension of -1 is open.
    pub fn output(mut self, name: &str, element: ElementType, dims: &[i64]) -> Self {
        self.0.output.push(value_info(name, element, dims));
        self
    }

    /// A constant of 32-bit floats.
    pub fn constant(self, name: &str, dims: &[i64], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.raw(name, ElementType::F32, dims, bytes)
    }

    /// A constant of 16-bit floats.
    pub fn constant_f16(self, name: &str, dims: &[i64], values: &[f16]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.raw(name, ElementType::F16, dims, bytes)
    }

    /// A constant of 8-bit integers.
    pub fn constant_i8(self, name: &str, dims: &[i64], values: &[i8]) -> Self {
        let bytes = values.iter().map(|value| value.cast_unsigned()).collect();
        self.raw(name, ElementType::I8, dims, bytes)
    }

    /// A constant list of integers: a shape, axes, starts …
    pub fn integers(self, name: &str, values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.raw(name, ElementType::I64, &[values.len() as i64], bytes)
    }

    fn raw(mut self, name: &str, element: ElementType, dims: &[i64], raw_data: Vec<u8>) -> Self {
        let data_type = data_type(element);
        let tensor = TensorProto { dims: dims.to_vec(), data_type, name: name.into(), raw_data };
        self.0.initializer.push(tensor);
        self
    }

    /// A node without attributes and with one output.
    pub fn op(self, op: &str, inputs: &[&str], output: &str) -> Self {
        self.node(op, inputs, &[output], &[])
    }

    /// An entry of the metadata.
    pub fn metadata(mut self, key: &str, value: &str) -> Self {
        self.1.push((key.into(), value.into()));
        self
    }

    /// A node of ONNX's own operator set.
    pub fn node(
        self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, Attr)],
    ) -> Self {
        self.node_of("", op, inputs, outputs, attributes)
    }

    /// A node of the operator set `domain`.
    pub fn node_of(
        mut self,
        domain: &str,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, Attr)],
    ) -> Self {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        self.0.node.push(NodeProto {
            input: strings(inputs),
            output: strings(outputs),
            name: format!("{op}_{}", self.0.node.len()),
            op_type: op.into(),
            domain: domain.into(),
            attribute: attributes.iter().map(|(name, attr)| attribute(name, attr)).collect(),
        });
        self
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let model = ModelProto {
            ir_version: 8,
            producer_name: "det_post".into(),
            doc_string: self.0.doc_string.clone(),
            graph: Some(self.0.clone()),
            opset_import: vec![OperatorSet { domain: String::new(), version: 17 }],
            metadata_props: self
                .1
                .iter()
                .map(|(key, value)| StringEntry { key: key.clone(), value: value.clone() })
                .collect(),
        };
        model.encode_to_vec()
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.to_bytes())
    }
}

fn data_type(element: ElementType) -> i32 {
    match element {
        ElementType::F32 => 1,
        ElementType::I8 => 3,
        ElementType::I32 => 6,
        ElementType::I64 => 7,
        ElementType::F16 => 10,
        ElementType::F64 => 11,
    }
}

fn value_info(name: &str, element: ElementType, dims: &[i64]) -> ValueInfo {
    let dim = |&n: &i64| Dimension {
        value: (n >= 0).then_some(n),
        symbol: (n < 0).then(|| format!("{name}_open")),
    };
    let shape = Some(TensorShape { dim: dims.iter().map(dim).collect() });
    let tensor = TensorType { elem_type: data_type(element), shape };
    ValueInfo { name: name.into(), kind: Some(TypeProto { tensor_type: Some(tensor) }) }
}

fn attribute(name: &str, attr: &Attr) -> AttributeProto {
    let mut proto = AttributeProto { name: name.into(), ..AttributeProto::default() };
    match attr {
        Attr::Float(value) => (proto.f, proto.kind) = (Some(*value), 1),
        Attr::Int(value) => (proto.i, proto.kind) = (Some(*value), 2),
        Attr::Text(value) => (proto.s, proto.kind) = (Some(value.as_bytes().to_vec()), 3),
        Attr::Floats(values) => (proto.floats, proto.kind) = (values.clone(), 6),
        Attr::Ints(values) => (proto.ints, proto.kind) = (values.clone(), 7),
    }
    proto
}

#[derive(Clone, PartialEq, Message)]
struct ModelProto {
    #[prost(int64, tag = "1")]
    ir_version: i64,
    #[prost(string, tag = "2")]
    producer_name: String,
    #[prost(string, tag = "6")]
    doc_string: String,
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "14")]
    metadata_props: Vec<StringEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct StringEntry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct OperatorSet {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    node: Vec<NodeProto>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<TensorProto>,
    #[prost(string, tag = "10")]
    doc_string: String,
    #[prost(message, repeated, tag = "11")]
    input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    op_type: String,
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<AttributeProto>,
    #[prost(string, tag = "7")]
    domain: String,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(float, optional, tag = "2")]
    f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    s: Option<Vec<u8>>,
    #[prost(float, repeated, packed = "false", tag = "7")]
    floats: Vec<f32>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    kind: i32,
}

#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ValueInfo {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    kind: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeProto {
    #[prost(message, optional, tag = "1")]
    tensor_type: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorType {
    #[prost(int32, tag = "1")]
    elem_type: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<TensorShape>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorShape {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
struct Dimension {
    #[prost(int64, optional, tag = "1")]
    value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    symbol: Option<String>,
}
