//! Other nodes in a model: new ones, changed ones, ones in place of others.

use super::Tensor;
use super::wire::Message;
use super::write::{name_of, named, put_bytes, put_int, put_varint, replace_graph, tensor_info};
use det_post_types::Result;

const FOUR_BYTES: u64 = 5;

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

/// A node with its attributes, for another operator, inputs and output.
///
/// # Errors
/// `Model` when `node` is not of the format.
pub(in super::super) fn of_operator(
    node: &[u8],
    operator: &str,
    inputs: &[&str],
    output: &str,
) -> Result<Vec<u8>> {
    let mut changed = Vec::with_capacity(node.len() + 64);
    inputs.iter().for_each(|input| put_bytes(&mut changed, 1, input.as_bytes()));
    put_bytes(&mut changed, 2, output.as_bytes());
    put_bytes(&mut changed, 4, operator.as_bytes());
    let mut message = Message::new("NodeProto", node, 0);
    loop {
        let rest = message.bytes();
        let Some(field) = message.next_field()? else { return Ok(changed) };
        if !matches!(field.number, 1 | 2 | 4) {
            changed.extend_from_slice(&rest[..rest.len() - message.bytes().len()]);
        }
    }
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
