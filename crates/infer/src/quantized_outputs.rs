//! The scales of a network's int8 outputs, from its file.

use std::path::Path;

use super::efficient_nms::read_if_named;
use super::onnx::{AttributeValue, DataType, Graph, Model, Node, Source};
use super::{check_file, target_sizes};
use det_post_types::{Error, ErrorKind, NetworkPart, Result};

const STAGE: &str = "infer";

/// The number of int8 among the element types of the schema.
const I8: i64 = 3;

/// Operators that move values and keep them.
const MOVES: [&str; 7] =
    ["Transpose", "Reshape", "Identity", "Flatten", "Squeeze", "Unsqueeze", "SpaceToDepth"];

/// By output, the value of 1 where the output is written by `QuantizeLinear` as int8, with nothing
/// behind it but operators that move values, and the file states one scale; else `None`.
///
/// # Errors
/// `Model` when the file cannot be read or is not of the format, or such an output has a zero point other
/// than 0, several scales, or one that is not positive and finite.
pub fn output_scales(path: &Path) -> Result<Vec<Option<f32>>> {
    check_file(path)?;
    let bytes = match target_sizes::adapted(path, NetworkPart::Whole, None)? {
        Some(bytes) => bytes,
        None => std::fs::read(path).map_err(|cause| {
            Error::new(ErrorKind::Model, STAGE, format!("cannot read {}", path.display()))
                .with_source(cause)
        })?,
    };
    let in_file = |error: Error| {
        Error::new(ErrorKind::Model, STAGE, format!("{}: {}", path.display(), error.message()))
    };
    let model = Model::parse_with_functions(&bytes).map_err(in_file)?;
    let outputs = model.graph.outputs.iter();
    outputs.map(|output| scale_of(&model.graph, output.name).map_err(in_file)).collect()
}

/// Refuses a network with quantizing nodes, as training for int8 leaves them.
///
/// # Errors
/// `Model` when the file cannot be read or is not of the format, or has such a node, with its name.
pub fn refuse_quantized(path: &Path) -> Result<()> {
    const QUANTIZES: [&str; 2] = ["QuantizeLinear", "DequantizeLinear"];
    let Some(bytes) = read_if_named(path, QUANTIZES[0])? else { return Ok(()) };
    let in_file = |message: String| {
        Error::new(ErrorKind::Model, STAGE, format!("{}: {message}", path.display()))
    };
    let model = Model::parse_with_functions(&bytes).map_err(|e| in_file(e.message().to_owned()))?;
    let is_one = |node: &&Node<'_>| QUANTIZES.contains(&node.operator);
    match model.graph.nodes.iter().find(is_one) {
        None => Ok(()),
        Some(node) => Err(in_file(format!(
            "{node} quantizes: int8 is not supported here; use the file of the fp16 export (`--fp16`)"
        ))),
    }
}

fn scale_of(graph: &Graph<'_>, output: &str) -> Result<Option<f32>> {
    let Some(node) = quantizer_of(graph, output) else { return Ok(None) };
    let refuse = |reason: String| {
        let message = format!("output {output} is quantized by {node}: {reason}");
        Err(Error::new(ErrorKind::Model, STAGE, message))
    };
    let zero = node.inputs.get(2).filter(|name| !name.is_empty());
    match zero.map(|name| constant(graph, name)) {
        Some(Some(zero)) if zero.data_type != DataType::Other(I8) => return Ok(None),
        Some(Some(zero)) if zero.is_all_zero() => {}
        Some(_) => return refuse("a zero point other than the constant 0".into()),
        // Without a zero point it is uint8, unless the node says otherwise.
        None if node.attribute("output_dtype") != Some(&AttributeValue::Int(I8)) => {
            return Ok(None);
        }
        None => {}
    }
    let Some(scale) = node.inputs.get(1).and_then(|name| constant(graph, name)) else {
        return Ok(None);
    };
    if scale.is_in_other_file() {
        return refuse("the scale is in another file".into());
    }
    let mut values = Vec::new();
    match scale.data_type {
        DataType::F32 => scale.each_float(|value| values.push(value))?,
        _ => values = scale.floats()?,
    }
    match values[..] {
        [scale] if scale > 0.0 && scale.is_finite() => Ok(Some(scale)),
        [scale] => refuse(format!("a scale of {scale}; it has to be positive and finite")),
        _ => {
            refuse(format!("{} scales, of an axis; feature maps need one per output", values.len()))
        }
    }
}

/// The node that quantizes an output.
fn quantizer_of<'g, 'a>(graph: &'g Graph<'a>, output: &str) -> Option<&'g Node<'a>> {
    let mut name = output;
    // A file has no cycles, but may claim one.
    for _ in 0..=graph.nodes.len() {
        let Some(Source::Node(at)) = graph.source(name) else { return None };
        let node = graph.nodes.get(at)?;
        match node.operator {
            "QuantizeLinear" => return Some(node),
            operator if MOVES.contains(&operator) => name = node.inputs.first()?,
            _ => return None,
        }
    }
    None
}

/// An initializer, or the value of a node `Constant`.
fn constant<'g, 'a>(graph: &'g Graph<'a>, name: &str) -> Option<&'g super::onnx::Tensor<'a>> {
    match graph.source(name)? {
        Source::Initializer(at) => graph.initializers.get(at),
        Source::Node(at) => match graph.nodes.get(at)?.attribute("value")? {
            AttributeValue::Tensor(tensor) => Some(tensor),
            _ => None,
        },
        Source::Input(_) => None,
    }
}
