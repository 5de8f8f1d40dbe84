//! DETR3D as one node of an ONNX file: `SvTransformerDecoder`, the plugin of a TensorRT engine.
//!
//! Its inputs are the feature maps of a backbone in the same file, the matrices of the cameras and
//! maybe weights as initializers; other weights are attributes, tensors or lists of floats in the
//! order of torch. [`NAMES`] lists the names. The weights become a file of safetensors; engines
//! load the file without the node ([`cut`]), so that it is backbone and weights at once.
//!
//! Attributes of one integer that are known have to agree with the facts; others are not read. The
//! attention of this decoder is added to content and position.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, json};

use super::refuse;
use crate::efficient_nms::{contains, read_if_named};
use crate::onnx::{AttributeValue, DataType, Model, Node, Source, Tensor, ValueInfo, write};
use det_post_types::{AttentionResidual, Detr3d, Result, ViewDecoder};

/// The operator.
const OPERATOR: &str = "SvTransformerDecoder";

/// The names of tensors.
pub(super) const NAMES: &str = include_str!("sv_transformer_names.txt");

/// The most names in a message.
const MAX_SHOWN: usize = 8;

/// A tensor of the node; without a shape where the file has a list.
struct Found {
    shape: Option<Vec<usize>>,
    values: Vec<f32>,
}

/// The file of safetensors that the node of an ONNX file holds; `None` for bytes that are none
/// with such a node.
///
/// # Errors
/// `Model` when a name is unknown or the node contradicts the facts.
pub(super) fn weights(bytes: &[u8], facts: &ViewDecoder) -> Result<Option<Vec<u8>>> {
    // A file of safetensors has the length of its header, then the header.
    if bytes.get(8) == Some(&b'{') || !contains(bytes, OPERATOR.as_bytes()) {
        return Ok(None);
    }
    let model = Model::parse(bytes)?;
    let Some(node) = node_of(&model)? else { return Ok(None) };
    let ViewDecoder::Detr3d(facts) = facts else {
        return refuse(format!("{node} is a decoder of kind detr3d; the head is of another kind"));
    };
    check_settings(node, facts)?;
    let mut found = tensors_of(&model, node)?;
    let state = state_dict(&mut found, facts)?;
    Ok(Some(file_of(&state)))
}

/// The network without the node, and the matrices of the cameras a constant: a backbone. `None`
/// where there is no such node.
///
/// # Errors
/// `Model` when the file cannot be read or is not of the format.
pub(crate) fn cut(path: &Path) -> Result<Option<Vec<u8>>> {
    let Some(bytes) = read_if_named(path, OPERATOR)? else { return Ok(None) };
    let model = Model::parse(&bytes)?;
    let Some(node) = node_of(&model)? else { return Ok(None) };
    let source = |name: &&str| model.graph.source(name);
    let is_map = |name: &&&str| matches!(source(name), Some(Source::Node(_)));
    let maps: Vec<&str> = node.inputs.iter().filter(is_map).copied().collect();
    let mut backbone = write::without_node(&bytes, node.bytes, &maps)?;
    for input in &node.inputs {
        let Some(Source::Input(at)) = source(input) else { continue };
        let is_read = |other: &Node<'_>| other.bytes != node.bytes && other.inputs.contains(input);
        if !model.graph.nodes.iter().any(is_read) {
            backbone = without_input(&backbone, &model.graph.inputs[at])?;
        }
    }
    Ok(Some(backbone))
}

/// The model with zeros in place of an input that nothing reads.
fn without_input(bytes: &[u8], input: &ValueInfo<'_>) -> Result<Vec<u8>> {
    let dims = input.shape.iter().flatten();
    let dims: Vec<i64> =
        dims.map(|dim| dim.filter(|&dim| (1..=4096).contains(&dim)).unwrap_or(1)).collect();
    let num: i64 = dims.iter().fold(1, |num: i64, &dim| num.saturating_mul(dim));
    let num_bytes = if input.data_type == Some(DataType::F16) { 2 } else { 4 };
    match usize::try_from(num).ok().filter(|&num| num <= 1 << 20) {
        Some(num) => write::with_constant(bytes, input, &dims, &vec![0; num * num_bytes]),
        None => refuse(format!("input {} of {OPERATOR} has {dims:?} values", input.name)),
    }
}

fn node_of<'m, 'a>(model: &'m Model<'a>) -> Result<Option<&'m Node<'a>>> {
    let mut nodes = model.graph.nodes.iter().filter(|node| node.operator == OPERATOR);
    match (nodes.next(), nodes.next()) {
        (Some(node), Some(other)) => refuse(format!("two decoders: {node}, {other}")),
        (node, _) => Ok(node),
    }
}

/// Compares attributes of one integer with the facts.
fn check_settings(node: &Node<'_>, facts: &Detr3d) -> Result<()> {
    if facts.attention_residual != AttentionResidual::QueryWithPosition {
        return refuse(format!(
            "{node} adds content and position to its attention: \
             decoder.attention_residual: query_with_position is required"
        ));
    }
    let known: [(&[&str], usize); 5] = [
        (&["num_cam", "num_cams", "num_cameras"], facts.num_views),
        (&["seq_len", "num_query", "num_queries"], facts.num_queries),
        (&["num_classes"], facts.num_classes),
        (&["head_num", "num_heads"], facts.num_heads),
        (&["num_layer", "num_layers", "num_blocks"], facts.num_blocks),
    ];
    for attribute in &node.attributes {
        let value = match &attribute.value {
            AttributeValue::Int(value) => *value,
            AttributeValue::Ints(values) if values.len() == 1 => values[0],
            _ => continue,
        };
        let of_name = known.iter().find(|(names, _)| names.contains(&attribute.name));
        if let Some((_, fact)) = of_name.filter(|(_, fact)| usize::try_from(value) != Ok(*fact)) {
            return refuse(format!("{node}: {} is {value}; the head says {fact}", attribute.name));
        }
    }
    Ok(())
}

/// The weights of the node by the names of the file.
fn tensors_of(model: &Model<'_>, node: &Node<'_>) -> Result<BTreeMap<String, Found>> {
    let mut found = BTreeMap::new();
    for attribute in &node.attributes {
        let tensor = match &attribute.value {
            AttributeValue::Floats(values) => Found { shape: None, values: values.clone() },
            AttributeValue::Tensor(tensor) => read(tensor, attribute.name)?,
            _ => continue,
        };
        found.insert(attribute.name.to_owned(), tensor);
    }
    for name in &node.inputs {
        if let Some(tensor) = model.graph.initializer(name) {
            found.insert((*name).to_owned(), read(tensor, name)?);
        }
    }
    Ok(found)
}

/// A tensor without leading dimensions of 1 beyond two.
fn read(tensor: &Tensor<'_>, name: &str) -> Result<Found> {
    let mut values = Vec::new();
    match tensor.data_type {
        DataType::F16 => values = tensor.floats()?,
        DataType::F32 => tensor.each_float(|value| values.push(value))?,
        other => return refuse(format!("tensor {name} is {other}; f32 and f16 are read")),
    }
    let mut shape: Vec<usize> =
        tensor.dims.iter().map(|&dim| usize::try_from(dim).unwrap_or(0)).collect();
    while shape.len() > 2 && shape[0] == 1 {
        shape.remove(0);
    }
    let num = shape.iter().try_fold(1_usize, |num, &dim| num.checked_mul(dim));
    if num != Some(values.len()) {
        let len = values.len();
        return refuse(format!("tensor {name} is {shape:?} with {len} values in the file"));
    }
    Ok(Found { shape: Some(shape), values })
}

/// Every path that a line of [`NAMES`] allows, whether it is of a block, and its module.
fn modules() -> BTreeMap<(bool, String), &'static str> {
    let mut all = BTreeMap::new();
    let lines = NAMES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let mut words = line.split_whitespace();
        let (Some(of), Some(module)) = (words.next(), words.next()) else { continue };
        let mut paths = vec![String::new()];
        for part in words {
            let longer = |path: &String| -> Vec<String> {
                let dot = if path.is_empty() { "" } else { "." };
                part.split('|').map(|name| format!("{path}{dot}{name}")).collect()
            };
            paths = paths.iter().flat_map(longer).collect();
        }
        all.extend(paths.into_iter().map(|path| ((of == "block", path), module)));
    }
    all
}

/// A name of the file, taken apart: the block, the path of the module, `weight` or `bias` or nothing.
fn parts_of(name: &str) -> (Option<usize>, String, Option<&'static str>) {
    let name = name.replace("__", ".").replace("in_proj_", "in_proj.");
    let mut parts: Vec<&str> = name.split('.').collect();
    let end = parts.last().and_then(|last| ["weight", "bias"].into_iter().find(|end| end == last));
    if end.is_some() {
        parts.pop();
        if parts.last().is_some_and(|last| ["fc", "linear"].contains(last)) {
            parts.pop();
        }
    }
    let index = |part: &str| part.strip_prefix("block_").and_then(|index| index.parse().ok());
    let at = parts.iter().position(|part| index(part).is_some());
    let block = at.and_then(|at| index(parts[at]));
    let path = at.map_or(&parts[..], |at| &parts[at + 1..]).join(".");
    (block, path, end)
}

/// The tensors under the names of DETR3D's state dict.
fn state_dict(
    found: &mut BTreeMap<String, Found>,
    facts: &Detr3d,
) -> Result<BTreeMap<String, Found>> {
    let modules = modules();
    let first_block = found.keys().filter_map(|name| parts_of(name).0).min().unwrap_or(0);
    let mut state = BTreeMap::new();
    let mut unknown = Vec::new();
    for (name, tensor) in std::mem::take(found) {
        let (block, path, end) = parts_of(&name);
        let constant = ["query", "query_pos", "reference_points"].contains(&path.as_str());
        let module = modules.get(&(block.is_some(), path.clone()));
        let standard = match (block, module, end) {
            (None, _, None) if constant => path,
            (Some(block), Some(module), Some(end)) => of_block(block - first_block, module, end),
            // The class branch of the last block, where a file has them in its blocks.
            (None, Some(module), Some(end)) => of_network(module, end, facts),
            (Some(block), None, Some(end)) => {
                match modules.get(&(false, path)).filter(|module| module.starts_with("cls.")) {
                    Some(module) if block - first_block + 1 == facts.num_blocks => {
                        of_network(module, end, facts)
                    }
                    Some(_) => continue,
                    None => String::new(),
                }
            }
            _ => String::new(),
        };
        if standard.is_empty() {
            unknown.push(name);
        } else if state.insert(standard.clone(), tensor).is_some() {
            return refuse(format!("{OPERATOR}: {name} is a second {standard}"));
        }
    }
    if !unknown.is_empty() {
        let shown = unknown.iter().take(MAX_SHOWN).cloned().collect::<Vec<_>>().join(", ");
        return refuse(format!(
            "{} tensors of {OPERATOR} have unknown names: {shown}; \
             tools/export_view_decoder.py --names gives them known ones",
            unknown.len()
        ));
    }
    stack_projections(&mut state)?;
    give_shapes(&mut state, facts)?;
    join_queries(&mut state)?;
    Ok(state)
}

fn of_block(block: usize, module: &str, end: &str) -> String {
    if let Some(layer) = module.strip_prefix("reg.") {
        return format!("reg_branches.{block}.{layer}.{end}");
    }
    let module = format!("transformer.decoder.layers.{block}.{module}");
    // As torch names the joined projections.
    let dot = if module.ends_with("in_proj") { '_' } else { '.' };
    format!("{module}{dot}{end}")
}

fn of_network(module: &str, end: &str, facts: &Detr3d) -> String {
    match module.strip_prefix("cls.") {
        Some(layer) => format!("cls_branches.{}.{layer}.{end}", facts.num_blocks - 1),
        None => format!("{module}.{end}"),
    }
}

/// Joins projections of queries, keys and values that a file has one by one.
fn stack_projections(state: &mut BTreeMap<String, Found>) -> Result<()> {
    let firsts = state.keys().filter(|name| name.contains("in_proj/0."));
    for first in firsts.cloned().collect::<Vec<_>>() {
        let joined = first.replace("in_proj/0.", "in_proj_");
        let mut values = Vec::new();
        for index in 0..3 {
            let name = first.replace("in_proj/0.", &format!("in_proj/{index}."));
            match state.remove(&name) {
                Some(part) => values.extend(part.values),
                None => return refuse(format!("{OPERATOR} has no {name} beside {first}")),
            }
        }
        state.insert(joined, Found { shape: None, values });
    }
    Ok(())
}

/// Gives lists the shapes that follow from their lengths and the lengths of their biases.
fn give_shapes(state: &mut BTreeMap<String, Found>, facts: &Detr3d) -> Result<()> {
    let lens: BTreeMap<String, usize> =
        state.iter().map(|(name, tensor)| (name.clone(), tensor.values.len())).collect();
    let is_norm = |name: &str| {
        let of_encoder =
            name.contains(".position_encoder.1.") || name.contains(".position_encoder.4.");
        let of_classes = name.starts_with("cls_branches.")
            && (name.ends_with(".1.weight") || name.ends_with(".4.weight"));
        name.contains(".norms.") || of_encoder || of_classes
    };
    for (name, tensor) in state.iter_mut().filter(|(_, tensor)| tensor.shape.is_none()) {
        let len = tensor.values.len();
        let num_rows = match name.as_str() {
            "query" | "query_pos" | "reference_points" | "query_embedding.weight" => {
                Some(facts.num_queries)
            }
            _ if is_norm(name) => None,
            _ => name
                .strip_suffix("weight")
                .map(|module| lens.get(&format!("{module}bias")).copied().unwrap_or(0)),
        };
        tensor.shape = match num_rows {
            None => Some(vec![len]),
            Some(rows) if rows > 0 && len.is_multiple_of(rows) => Some(vec![rows, len / rows]),
            Some(rows) => {
                return refuse(format!(
                    "{OPERATOR}: {name} has {len} values, which are not {rows} rows"
                ));
            }
        };
    }
    Ok(())
}

/// Joins positions and contents of the queries that a file has one by one.
fn join_queries(state: &mut BTreeMap<String, Found>) -> Result<()> {
    let (positions, contents) = match (state.remove("query_pos"), state.remove("query")) {
        (None, None) => return Ok(()),
        (Some(positions), Some(contents)) => (positions, contents),
        _ => return refuse(format!("{OPERATOR} has one of query and query_pos, not both")),
    };
    let (rows, columns) = match (positions.shape.as_deref(), contents.shape.as_deref()) {
        (Some(&[rows, columns]), Some(other)) if *other == [rows, columns] && columns > 0 => {
            (rows, columns)
        }
        shapes => return refuse(format!("{OPERATOR}: query_pos and query are {shapes:?}")),
    };
    let pairs = positions.values.chunks(columns).zip(contents.values.chunks(columns));
    let values = pairs.flat_map(|(position, content)| [position, content].concat()).collect();
    let joined = Found { shape: Some(vec![rows, 2 * columns]), values };
    state.insert("query_embedding.weight".into(), joined);
    Ok(())
}

/// A file of safetensors.
fn file_of(state: &BTreeMap<String, Found>) -> Vec<u8> {
    let mut header = Map::new();
    let mut data = Vec::new();
    for (name, Found { shape, values }) in state {
        let begin = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}
