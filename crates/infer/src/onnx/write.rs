//! Writing a model from pieces of another one.

use std::borrow::Cow;

use super::wire::Message;
use super::{DataType, ValueInfo};
use det_post_types::Result;

const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// The pieces of a graph, each as it stands in a file.
#[derive(Default)]
pub(in super::super) struct Pieces<'a> {
    /// In an order in which they can be computed.
    pub(in super::super) nodes: Vec<Cow<'a, [u8]>>,
    pub(in super::super) initializers: Vec<Cow<'a, [u8]>>,
    pub(in super::super) inputs: Vec<Cow<'a, [u8]>>,
    pub(in super::super) outputs: Vec<Cow<'a, [u8]>>,
}

impl Pieces<'_> {
    /// A graph of the pieces.
    pub(in super::super) fn graph(&self) -> Vec<u8> {
        let mut graph = Vec::new();
        put_bytes(&mut graph, 2, b"part");
        self.put(&mut graph);
        graph
    }

    /// Appends the pieces to a graph.
    fn put(&self, graph: &mut Vec<u8>) {
        let Self { nodes, initializers, inputs, outputs } = self;
        nodes.iter().for_each(|node| put_bytes(graph, 1, node));
        initializers.iter().for_each(|tensor| put_bytes(graph, 5, tensor));
        inputs.iter().for_each(|input| put_bytes(graph, 11, input));
        outputs.iter().for_each(|output| put_bytes(graph, 12, output));
    }
}

/// A model with other inputs, where `replaced` gives one.
///
/// # Errors
/// `Model` when `bytes` are not of the format.
pub(in super::super) fn with_inputs(
    bytes: &[u8],
    replaced: impl Fn(&ValueInfo<'_>) -> Option<Vec<u8>>,
) -> Result<Vec<u8>> {
    replace_graph(bytes, |mut message| {
        let mut graph = Vec::with_capacity(message.bytes().len());
        loop {
            let rest = message.bytes();
            let Some(field) = message.next_field()? else { return Ok(graph) };
            let other = match field.number {
                11 => replaced(&super::parse::value_info(field.message("ValueInfoProto")?)?),
                _ => None,
            };
            match other {
                Some(info) => put_bytes(&mut graph, 11, &info),
                None => graph.extend_from_slice(&rest[..rest.len() - message.bytes().len()]),
            }
        }
    })
}

/// A node of ONNX's own operator set with one output and attributes of integers.
pub(in super::super) fn node(
    operator: &str,
    inputs: &[&str],
    output: &str,
    attributes: &[(&str, &[i64])],
) -> Vec<u8> {
    const INTEGERS: u64 = 7;
    let mut node = Vec::new();
    inputs.iter().for_each(|input| put_bytes(&mut node, 1, input.as_bytes()));
    put_bytes(&mut node, 2, output.as_bytes());
    put_bytes(&mut node, 4, operator.as_bytes());
    for (name, values) in attributes {
        let mut attribute = Vec::new();
        put_bytes(&mut attribute, 1, name.as_bytes());
        values.iter().for_each(|value| put_int(&mut attribute, 8, value.cast_unsigned()));
        put_int(&mut attribute, 20, INTEGERS);
        put_bytes(&mut node, 5, &attribute);
    }
    node
}

/// A constant of 64-bit integers, one dimension.
pub(in super::super) fn integers(name: &str, values: &[i64]) -> Vec<u8> {
    let mut tensor = Vec::new();
    put_int(&mut tensor, 1, values.len() as u64);
    put_int(&mut tensor, 2, DataType::I64.number().cast_unsigned());
    put_bytes(&mut tensor, 8, name.as_bytes());
    let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    put_bytes(&mut tensor, 9, &values);
    tensor
}

/// A constant of 32-bit floats.
pub(in super::super) fn floats(name: &str, dims: &[i64], values: &[f32]) -> Vec<u8> {
    let mut tensor = Vec::new();
    dims.iter().for_each(|dim| put_int(&mut tensor, 1, dim.cast_unsigned()));
    put_int(&mut tensor, 2, DataType::F32.number().cast_unsigned());
    put_bytes(&mut tensor, 8, name.as_bytes());
    let values: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    put_bytes(&mut tensor, 9, &values);
    tensor
}

/// A model with further pieces, whose outputs, where there are any, take the place of the outputs of the
/// file. Types of tensors inside are left out.
///
/// # Errors
/// `Model` when `bytes` are not of the format.
pub(in super::super) fn with_pieces(bytes: &[u8], added: &Pieces<'_>) -> Result<Vec<u8>> {
    replace_graph(bytes, |mut message| {
        let mut graph = Vec::with_capacity(message.bytes().len() + 1024);
        loop {
            let rest = message.bytes();
            let Some(field) = message.next_field()? else { break };
            match field.number {
                12 if !added.outputs.is_empty() => {}
                13 => {}
                _ => graph.extend_from_slice(&rest[..rest.len() - message.bytes().len()]),
            }
        }
        added.put(&mut graph);
        Ok(graph)
    })
}

/// A model without one of its nodes, whose outputs are these tensors of f32.
///
/// # Errors
/// `Model` when `bytes` are not of the format.
pub(in super::super) fn without_node(
    bytes: &[u8],
    node: &[u8],
    outputs: &[&str],
) -> Result<Vec<u8>> {
    replace_graph(bytes, |graph| graph_without_node(graph, node, outputs))
}

/// A model with another graph.
pub(super) fn replace_graph<'a>(
    bytes: &'a [u8],
    replaced: impl Fn(Message<'a>) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let mut model = Vec::with_capacity(bytes.len());
    let mut message = Message::new("ModelProto", bytes, 0);
    loop {
        let rest = message.bytes();
        let Some(field) = message.next_field()? else { return Ok(model) };
        if field.number == 7 {
            put_bytes(&mut model, 7, &replaced(field.message("GraphProto")?)?);
        } else {
            model.extend_from_slice(&rest[..rest.len() - message.bytes().len()]);
        }
    }
}

/// The number of f32 among the element types of the schema.
pub(in super::super) const F32: u64 = 1;
/// The number of f16.
pub(in super::super) const F16: u64 = 10;

/// A model with other nodes: `first`, then for each node of the file, by its index, those
/// that `rewritten` gives. Types of tensors inside are left out, since they may change.
///
/// # Errors
/// `Model` when `bytes` are not of the format, and those of `rewritten`.
pub(in super::super) fn with_nodes(
    bytes: &[u8],
    first: &[Vec<u8>],
    rewritten: impl Fn(usize) -> Result<Vec<Vec<u8>>>,
) -> Result<Vec<u8>> {
    replace_graph(bytes, |mut message| {
        let mut graph = Vec::with_capacity(message.bytes().len());
        first.iter().for_each(|node| put_bytes(&mut graph, 1, node));
        let mut num_nodes = 0;
        loop {
            let rest = message.bytes();
            let Some(field) = message.next_field()? else { return Ok(graph) };
            match field.number {
                1 => {
                    rewritten(num_nodes)?.iter().for_each(|node| put_bytes(&mut graph, 1, node));
                    num_nodes += 1;
                }
                13 => {}
                _ => graph.extend_from_slice(&rest[..rest.len() - message.bytes().len()]),
            }
        }
    })
}

/// A model in which an input is a constant of its type, of raw values.
///
/// # Errors
/// `Model` when `bytes` are not of the format.
pub(in super::super) fn with_constant(
    bytes: &[u8],
    input: &ValueInfo<'_>,
    dims: &[i64],
    values: &[u8],
) -> Result<Vec<u8>> {
    replace_graph(bytes, |mut message| {
        let mut graph = Vec::with_capacity(message.bytes().len() + 64);
        loop {
            let rest = message.bytes();
            let Some(field) = message.next_field()? else { break };
            if field.number == 11 && field.bytes()? == input.bytes {
                continue;
            }
            graph.extend_from_slice(&rest[..rest.len() - message.bytes().len()]);
        }
        let mut tensor = Vec::new();
        dims.iter().for_each(|dim| put_int(&mut tensor, 1, dim.cast_unsigned()));
        let data_type = input.data_type.map_or(0, |of| of.number());
        put_int(&mut tensor, 2, data_type.cast_unsigned());
        put_bytes(&mut tensor, 8, input.name.as_bytes());
        put_bytes(&mut tensor, 9, values);
        put_bytes(&mut graph, 5, &tensor);
        Ok(graph)
    })
}

/// A node that reads and writes tensors of other names, where the functions give one: `reads`
/// of the position and the name of an input, `writes` of the name of an output.
///
/// # Errors
/// `Model` when `node` is not of the format.
pub(in super::super) fn renamed_node(
    node: &[u8],
    reads: impl Fn(usize, &str) -> Option<String>,
    writes: impl Fn(&str) -> Option<String>,
) -> Result<Vec<u8>> {
    let mut renamed = Vec::with_capacity(node.len() + 64);
    let mut message = Message::new("NodeProto", node, 0);
    let mut num_inputs = 0;
    loop {
        let rest = message.bytes();
        let Some(field) = message.next_field()? else { return Ok(renamed) };
        let name = match field.number {
            1 => {
                num_inputs += 1;
                reads(num_inputs - 1, field.text()?)
            }
            2 => writes(field.text()?),
            _ => None,
        };
        match name {
            Some(name) => put_bytes(&mut renamed, field.number, name.as_bytes()),
            None => renamed.extend_from_slice(&rest[..rest.len() - message.bytes().len()]),
        }
    }
}

/// A node that converts a tensor to the element type of a number.
pub(in super::super) fn cast_node(from: &str, to: &str, data_type: u64) -> Vec<u8> {
    const INTEGER: u64 = 2;
    let mut attribute = Vec::new();
    put_bytes(&mut attribute, 1, b"to");
    put_int(&mut attribute, 3, data_type);
    put_int(&mut attribute, 20, INTEGER);
    let mut node = Vec::new();
    put_bytes(&mut node, 1, from.as_bytes());
    put_bytes(&mut node, 2, to.as_bytes());
    put_bytes(&mut node, 4, b"Cast");
    put_bytes(&mut node, 5, &attribute);
    node
}

/// A ValueInfoProto without a type.
pub(super) fn named(name: &str) -> Vec<u8> {
    let mut info = Vec::new();
    put_bytes(&mut info, 1, name.as_bytes());
    info
}

fn graph_without_node(mut message: Message<'_>, node: &[u8], outputs: &[&str]) -> Result<Vec<u8>> {
    let mut graph = Vec::with_capacity(message.bytes().len());
    // The types of tensors inside, where the exporter gives them.
    let mut types: Vec<Option<&[u8]>> = vec![None; outputs.len()];
    loop {
        let rest = message.bytes();
        let Some(field) = message.next_field()? else { break };
        match field.number {
            1 if field.bytes()? == node => continue,
            12 => continue,
            13 => {
                let name = name_of(field.message("ValueInfoProto")?)?;
                if let Some(at) = outputs.iter().position(|output| *output == name) {
                    types[at] = Some(field.bytes()?);
                }
            }
            _ => {}
        }
        graph.extend_from_slice(&rest[..rest.len() - message.bytes().len()]);
    }
    for (name, info) in outputs.iter().zip(types) {
        match info {
            Some(info) => put_bytes(&mut graph, 12, info),
            None => put_bytes(&mut graph, 12, &value_info(name, None)),
        }
    }
    Ok(graph)
}

pub(super) fn name_of(mut message: Message<'_>) -> Result<&str> {
    while let Some(field) = message.next_field()? {
        if field.number == 1 {
            return field.text();
        }
    }
    Ok("")
}

/// A model of a graph.
pub(in super::super) fn model(ir_version: i64, operator_sets: &[&[u8]], graph: &[u8]) -> Vec<u8> {
    let mut model = Vec::with_capacity(graph.len() + 256);
    put_int(&mut model, 1, ir_version.cast_unsigned());
    put_bytes(&mut model, 2, b"det_post");
    put_bytes(&mut model, 7, graph);
    operator_sets.iter().for_each(|set| put_bytes(&mut model, 8, set));
    model
}

/// A ValueInfoProto of a tensor of f32; a dimension that is `None` is open.
pub(in super::super) fn value_info(name: &str, shape: Option<&[Option<i64>]>) -> Vec<u8> {
    open_info(name, DataType::F32.number(), shape)
}

/// A ValueInfoProto of a tensor.
pub(in super::super) fn tensor_info(name: &str, data_type: i64, shape: Option<&[i64]>) -> Vec<u8> {
    let shape = shape.map(|dims| dims.iter().copied().map(Some).collect::<Vec<_>>());
    open_info(name, data_type, shape.as_deref())
}

fn open_info(name: &str, data_type: i64, shape: Option<&[Option<i64>]>) -> Vec<u8> {
    let mut tensor = Vec::new();
    put_int(&mut tensor, 1, data_type.cast_unsigned());
    if let Some(shape) = shape {
        let mut dims = Vec::new();
        for dim in shape {
            let mut dimension = Vec::new();
            dim.iter().for_each(|dim| put_int(&mut dimension, 1, dim.cast_unsigned()));
            put_bytes(&mut dims, 1, &dimension);
        }
        put_bytes(&mut tensor, 2, &dims);
    }
    let mut of_type = Vec::new();
    put_bytes(&mut of_type, 1, &tensor);
    let mut info = named(name);
    put_bytes(&mut info, 2, &of_type);
    info
}

pub(super) fn put_int(to: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(to, field << 3 | VARINT);
    put_varint(to, value);
}

pub(in super::super) fn put_bytes(to: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(to, field << 3 | BYTES);
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

pub(super) fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// The file of a network without nodes, of these inputs (name, number of the element type, dimensions) and the output `boxes`.
#[cfg(test)]
pub(in super::super) fn file_of(inputs: &[(&str, i64, &[i64])]) -> tempfile::NamedTempFile {
    let mut graph = Vec::new();
    for (name, data_type, dims) in inputs {
        put_bytes(&mut graph, 11, &tensor_info(name, *data_type, Some(dims)));
    }
    put_bytes(&mut graph, 12, &tensor_info("boxes", 1, Some(&[1, 300, 4])));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), model(8, &[], &graph)).unwrap();
    file
}
