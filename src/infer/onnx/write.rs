//! Writing a model from pieces of another one.

use super::Tensor;
use super::wire::Message;
use crate::error::Result;

const VARINT: u64 = 0;
const BYTES: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// A graph `rest` of nodes, constants and outputs as they stand in a file, with
/// one input of f32.
pub(in super::super) fn graph<'a>(
    nodes: impl Iterator<Item = &'a [u8]>,
    initializers: impl Iterator<Item = &'a [u8]>,
    (input, shape): (&str, [usize; 4]),
    outputs: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut graph = Vec::new();
    nodes.for_each(|node| put_bytes(&mut graph, 1, node));
    put_bytes(&mut graph, 2, b"rest");
    initializers.for_each(|tensor| put_bytes(&mut graph, 5, tensor));
    put_bytes(&mut graph, 11, &value_info(input, Some(shape)));
    outputs.for_each(|output| put_bytes(&mut graph, 12, output));
    graph
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
fn replace_graph<'a>(
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

/// The value of an attribute that is written.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Value<'a> {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// Integers.
    Ints(&'a [i64]),
}

/// A node of ONNX's own operators.
pub(in super::super) fn node(
    name: &str,
    operator: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[(&str, Value<'_>)],
) -> Vec<u8> {
    let mut node = Vec::new();
    inputs.iter().for_each(|input| put_bytes(&mut node, 1, input.as_bytes()));
    outputs.iter().for_each(|output| put_bytes(&mut node, 2, output.as_bytes()));
    put_bytes(&mut node, 3, name.as_bytes());
    put_bytes(&mut node, 4, operator.as_bytes());
    for (name, value) in attributes {
        put_bytes(&mut node, 5, &attribute(name, value));
    }
    node
}

fn attribute(name: &str, value: &Value<'_>) -> Vec<u8> {
    let mut attribute = Vec::new();
    put_bytes(&mut attribute, 1, name.as_bytes());
    let kind = match value {
        Value::Float(value) => {
            put_varint(&mut attribute, 2 << 3 | FOUR_BYTES);
            attribute.extend_from_slice(&value.to_le_bytes());
            1
        }
        Value::Int(value) => {
            put_int(&mut attribute, 3, value.cast_unsigned());
            2
        }
        Value::Ints(values) => {
            values.iter().for_each(|value| put_int(&mut attribute, 8, value.cast_unsigned()));
            7
        }
    };
    put_int(&mut attribute, 20, kind);
    attribute
}

/// A node with other attributes: those of the names in `dropped` are left out, `added` follow.
///
/// # Errors
/// `Model` when `node` is not of the format.
pub(in super::super) fn with_attributes(
    node: &[u8],
    dropped: &[&str],
    added: &[(&str, Value<'_>)],
) -> Result<Vec<u8>> {
    let mut changed = Vec::with_capacity(node.len() + 64);
    let mut message = Message::new("NodeProto", node, 0);
    loop {
        let rest = message.bytes();
        let Some(field) = message.next_field()? else { break };
        if field.number == 5 {
            let name = name_of(field.message("AttributeProto")?)?;
            if dropped.contains(&name) || added.iter().any(|(added, _)| *added == name) {
                continue;
            }
        }
        changed.extend_from_slice(&rest[..rest.len() - message.bytes().len()]);
    }
    for (name, value) in added {
        put_bytes(&mut changed, 5, &attribute(name, value));
    }
    Ok(changed)
}

/// A model in which some nodes, wherever they are, are replaced by others: `replacement` of the
/// bytes of a node, as [`super::Node::bytes`] borrows them from `bytes`, gives them. Types of tensors inside are left out of
/// graphs, since they may change.
///
/// # Errors
/// `Model` when `bytes` are not of the format.
pub(in super::super) fn with_replaced_nodes<'a, 'r>(
    bytes: &'a [u8],
    replacement: &impl Fn(&'a [u8]) -> Option<&'r [Vec<u8>]>,
) -> Result<Vec<u8>> {
    replace_graph(bytes, |graph| graph_with_replaced(graph, replacement))
}

fn graph_with_replaced<'a, 'r>(
    mut message: Message<'a>,
    replacement: &impl Fn(&'a [u8]) -> Option<&'r [Vec<u8>]>,
) -> Result<Vec<u8>> {
    let mut graph = Vec::with_capacity(message.bytes().len());
    loop {
        let rest = message.bytes();
        let Some(field) = message.next_field()? else { return Ok(graph) };
        match field.number {
            1 => {
                let node = field.bytes()?;
                match replacement(node) {
                    Some(nodes) => nodes.iter().for_each(|node| put_bytes(&mut graph, 1, node)),
                    None => put_bytes(
                        &mut graph,
                        1,
                        &within(field.message("NodeProto")?, &[5], &|attribute| {
                            within(attribute, &[6, 11], &|graph| {
                                graph_with_replaced(graph, replacement)
                            })
                        })?,
                    ),
                }
            }
            13 => {}
            _ => graph.extend_from_slice(&rest[..rest.len() - message.bytes().len()]),
        }
    }
}

/// A message in which the messages in some fields are others.
fn within<'a>(
    mut message: Message<'a>,
    fields: &[u64],
    changed: &dyn Fn(Message<'a>) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let mut written = Vec::with_capacity(message.bytes().len());
    loop {
        let rest = message.bytes();
        let Some(field) = message.next_field()? else { return Ok(written) };
        if fields.contains(&field.number) {
            put_bytes(&mut written, field.number, &changed(field.message("message")?)?);
        } else {
            written.extend_from_slice(&rest[..rest.len() - message.bytes().len()]);
        }
    }
}

/// The structure of a model: large constants become inputs of the same type and shape, and every
/// name of `outputs` an output. Outputs of the file and types of tensors inside are left out.
///
/// # Errors
/// `Model` when `bytes` are not of the format.
pub(in super::super) fn structure(
    bytes: &[u8],
    large: &[&Tensor<'_>],
    outputs: &[&str],
) -> Result<Vec<u8>> {
    replace_graph(bytes, |mut message| {
        let mut graph = Vec::new();
        loop {
            let rest = message.bytes();
            let Some(field) = message.next_field()? else { break };
            let is_large = || {
                let entry = field.bytes().ok();
                entry.is_some_and(|entry| {
                    large.iter().any(|tensor| std::ptr::eq(tensor.bytes, entry))
                })
            };
            match field.number {
                12 | 13 => {}
                5 if is_large() => {}
                _ => graph.extend_from_slice(&rest[..rest.len() - message.bytes().len()]),
            }
        }
        for tensor in large {
            let info = tensor_info(tensor.name, tensor.data_type.number(), Some(&tensor.dims));
            put_bytes(&mut graph, 11, &info);
        }
        for name in outputs {
            put_bytes(&mut graph, 12, &named(name));
        }
        Ok(graph)
    })
}

/// A ValueInfoProto without a type.
fn named(name: &str) -> Vec<u8> {
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

fn name_of(mut message: Message<'_>) -> Result<&str> {
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

/// A ValueInfoProto of a tensor of f32.
fn value_info(name: &str, shape: Option<[usize; 4]>) -> Vec<u8> {
    let shape = shape.map(|shape| shape.map(|dim| dim as i64));
    tensor_info(name, 1, shape.as_ref().map(|shape| &shape[..]))
}

/// A ValueInfoProto of a tensor.
fn tensor_info(name: &str, data_type: i64, shape: Option<&[i64]>) -> Vec<u8> {
    let mut tensor = Vec::new();
    put_int(&mut tensor, 1, data_type.cast_unsigned());
    if let Some(shape) = shape {
        let mut dims = Vec::new();
        for dim in shape {
            let mut dimension = Vec::new();
            put_int(&mut dimension, 1, dim.cast_unsigned());
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

fn put_int(to: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(to, field << 3 | VARINT);
    put_varint(to, value);
}

fn put_bytes(to: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(to, field << 3 | BYTES);
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
