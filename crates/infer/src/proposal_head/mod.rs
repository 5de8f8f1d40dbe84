//! The head of NVIDIA's CUDA-BEVFusion, `head.bbox.onnx`, with standard nodes and the outputs of other
//! heads with proposals.
//!
//! Its outputs for P proposals, as `export-transfuser.py` and the `decode_kernel` of `TransBBox` have them:
//!
//! | output | shape | content |
//! |---|---|---|
//! | `score` | `[1, C, P]` | scores by class |
//! | `reg` | `[1, 2, P]` | x, y of the centre in cells of the map |
//! | `height` | `[1, 1, P]` | z of the centre, m |
//! | `dim` | `[1, 3, P]` | logarithms of width, length, height in m |
//! | `rot` | `[1, 2, P]` | sine and cosine of an angle that turns clockwise from -y |
//! | `vel` | `[1, 2, P]` | velocity along x and y, m/s |
//!
//! They become boxes `[10, P]`, scores `[P]` and labels `[P]`
//! ([`ProposalLayout::BevFusion`](det_post_types::ProposalLayout::BevFusion)): length and width change
//! places, a clockwise angle a of (s, c) is the yaw -a - pi/2, of (-c, -s), and the score is the greatest
//! one, of the first class that has it.
//!
//! `nv::CustomLayerNormalization`, a plugin of TensorRT (`LayerNormPlugin`), is the layer normalization
//! over the last axis, with weight and bias; it becomes the standard nodes of its formula, which every
//! operator set has.

use std::borrow::Cow;
use std::path::Path;

use super::STAGE;
use super::efficient_nms::{read, read_if_named};
use super::onnx::replace::{self, Value};
use super::onnx::write::{self, Pieces};
use super::onnx::{AttributeValue, Model, Node};
use det_post_types::{Error, ErrorKind, Result};

const OPERATOR: &str = "CustomLayerNormalization";
const DOMAIN: &str = "nv";
/// The outputs, with the length of their second dimension where it is known.
const OUTPUTS: [(&str, Option<i64>); 6] = [
    ("score", None),
    ("reg", Some(2)),
    ("height", Some(1)),
    ("dim", Some(3)),
    ("rot", Some(2)),
    ("vel", Some(2)),
];
/// The names of boxes, scores and labels.
const NAMES: [&str; 3] = ["proposals.boxes", "proposals.scores", "proposals.labels"];
/// The first operator set in which the axes of ReduceMean and ReduceMax are an input.
const AXES_AS_INPUT: i64 = 18;
/// Where the epsilon of the plugin is left out.
const EPSILON: f32 = 1e-5;
const OF_CLASSES: [i64; 1] = [1];
const LAST: [i64; 1] = [-1];

/// The network with standard nodes in place of NVIDIA's layer normalization; `None` where there is none.
///
/// # Errors
/// `Model` when the file cannot be read or is not of the format, or such a node has other inputs or
/// another axis than the last.
pub(super) fn with_standard_nodes(path: &Path) -> Result<Option<Vec<u8>>> {
    let Some(bytes) = read_if_named(path, OPERATOR)? else { return Ok(None) };
    standard(&bytes).map_err(|error| in_file(path, &error))
}

/// The head with boxes, scores and labels as outputs.
///
/// # Errors
/// As [`with_standard_nodes`]; `Model` when one of the six outputs is missing or has another shape.
pub(super) fn of_proposals(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    let head = || match standard(&bytes)? {
        Some(bytes) => joined(&bytes),
        None => joined(&bytes),
    };
    head().map_err(|error| in_file(path, &error))
}

fn standard(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let model = Model::parse_with_functions(bytes)?;
    let nodes = &model.graph.nodes;
    let is_ours = |node: &Node<'_>| node.domain == DOMAIN && node.operator == OPERATOR;
    if !nodes.iter().any(is_ours) {
        return Ok(None);
    }
    let set = model.operator_set("").unwrap_or(AXES_AS_INPUT);
    let mut initializers = vec![Cow::Owned(write::integers("layer_norm.axes", &LAST))];
    let mut norms = Vec::new();
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| is_ours(node)) {
        let epsilon = epsilon_of(node)?;
        let names = Names::new(at);
        initializers.push(Cow::Owned(write::floats(&names.of("epsilon"), &[1], &[epsilon])));
        norms.push((at, layer_norm(node, &names, set)));
    }
    let bytes = write::with_nodes(bytes, &[], |at| {
        let norm = norms.iter().find(|(of, _)| *of == at);
        Ok(norm.map_or_else(|| vec![nodes[at].bytes.to_vec()], |(_, nodes)| nodes.clone()))
    })?;
    write::with_pieces(&bytes, &Pieces { initializers, ..Pieces::default() }).map(Some)
}

/// Checks a node of NVIDIA's layer normalization.
fn epsilon_of(node: &Node<'_>) -> Result<f32> {
    if node.inputs.len() != 3 || node.outputs.len() != 1 {
        let (inputs, outputs) = (node.inputs.len(), node.outputs.len());
        return refuse(format!(
            "{node}: {inputs} inputs and {outputs} outputs; allowed: a tensor, weight and bias, one output"
        ));
    }
    match node.attribute("axis") {
        None | Some(AttributeValue::Int(-1)) => {}
        Some(found) => return refuse(format!("{node}: axis {found:?}; allowed: -1")),
    }
    match node.attribute("epsilon") {
        None => Ok(EPSILON),
        Some(&AttributeValue::Float(epsilon)) if epsilon.is_finite() && epsilon >= 0.0 => {
            Ok(epsilon)
        }
        Some(found) => refuse(format!("{node}: epsilon {found:?}; allowed: a float of 0 and more")),
    }
}

/// The names of tensors in place of a node.
struct Names(usize);

impl Names {
    fn new(node: usize) -> Self {
        Self(node)
    }

    fn of(&self, what: &str) -> String {
        format!("layer_norm.{}.{what}", self.0)
    }
}

/// `(x - mean) / sqrt(mean of squares + epsilon) * weight + bias`
fn layer_norm(node: &Node<'_>, names: &Names, set: i64) -> Vec<Vec<u8>> {
    let (x, weight, bias) = (node.inputs[0], node.inputs[1], node.inputs[2]);
    let steps = ["mean", "centered", "squares", "variance", "shifted", "root", "normal", "scaled"];
    let [mean, centered, squares, variance, shifted, root, normal, scaled] =
        steps.map(|step| names.of(step));
    let epsilon = names.of("epsilon");
    let reduced = |from: &str, to: &str| reduction("ReduceMean", (from, to), set, true);
    let plain = |operator: &str, inputs: &[&str], output: &str| {
        replace::node(output, operator, inputs, &[output], &[])
    };
    vec![
        reduced(x, &mean),
        plain("Sub", &[x, &mean], &centered),
        plain("Mul", &[&centered, &centered], &squares),
        reduced(&squares, &variance),
        plain("Add", &[&variance, &epsilon], &shifted),
        plain("Sqrt", &[&shifted], &root),
        plain("Div", &[&centered, &root], &normal),
        plain("Mul", &[&normal, weight], &scaled),
        plain("Add", &[&scaled, bias], node.outputs[0]),
    ]
}

/// ReduceMean over the last axis, which stays, or ReduceMax over the classes, which do not.
fn reduction(operator: &str, (from, to): (&str, &str), set: i64, is_norm: bool) -> Vec<u8> {
    let (axes, constant) = match is_norm {
        true => (&LAST, "layer_norm.axes"),
        false => (&OF_CLASSES, "proposals.axes"),
    };
    let keeps = ("keepdims", Value::Int(i64::from(is_norm)));
    match set >= AXES_AS_INPUT {
        true => replace::node(to, operator, &[from, constant], &[to], &[keeps]),
        false => {
            let axes = ("axes", Value::Ints(axes));
            replace::node(to, operator, &[from], &[to], &[keeps, axes])
        }
    }
}

fn joined(bytes: &[u8]) -> Result<Vec<u8>> {
    let model = Model::parse_with_functions(bytes)?;
    check_outputs(&model)?;
    let set = model.operator_set("").unwrap_or(AXES_AS_INPUT);
    let along = |axis| [("axis", Value::Int(axis))];
    let node = |operator: &str, inputs: &[&str], output: &str, attributes: &[(&str, Value<'_>)]| {
        Cow::Owned(replace::node(output, operator, inputs, &[output], attributes))
    };
    let [boxes, scores, labels] = NAMES;
    let nodes = vec![
        node("Gather", &["dim", "proposals.length_first"], "proposals.extents", &along(1)),
        node("Gather", &["rot", "proposals.cosine_first"], "proposals.turned", &along(1)),
        node("Neg", &["proposals.turned"], "proposals.direction", &[]),
        node(
            "Concat",
            &["reg", "height", "proposals.extents", "proposals.direction", "vel"],
            "proposals.numbers",
            &along(1),
        ),
        node("Reshape", &["proposals.numbers", "proposals.rows"], boxes, &[]),
        Cow::Owned(reduction("ReduceMax", ("score", "proposals.greatest"), set, false)),
        node("Reshape", &["proposals.greatest", "proposals.row"], scores, &[]),
        node(
            "ArgMax",
            &["score"],
            "proposals.classes",
            &[("axis", Value::Int(1)), ("keepdims", Value::Int(0))],
        ),
        node("Reshape", &["proposals.classes", "proposals.row"], labels, &[]),
    ];
    let integers = |name, values: &[i64]| Cow::Owned(write::integers(name, values));
    let num = num_proposals(&model);
    let info = |name, element, dims: &[i64]| {
        Cow::Owned(match num {
            Some(num) => write::tensor_info(name, element, Some(&[dims, &[num]].concat())),
            None => write::tensor_info(name, element, None),
        })
    };
    let (f32, i64) = (1, 7);
    let added = Pieces {
        nodes,
        initializers: vec![
            integers("proposals.length_first", &[1, 0, 2]),
            integers("proposals.cosine_first", &[1, 0]),
            integers("proposals.rows", &[10, -1]),
            integers("proposals.row", &[-1]),
            integers("proposals.axes", &OF_CLASSES),
        ],
        inputs: Vec::new(),
        outputs: vec![info(boxes, f32, &[10]), info(scores, f32, &[]), info(labels, i64, &[])],
    };
    write::with_pieces(bytes, &added)
}

fn check_outputs(model: &Model<'_>) -> Result<()> {
    let outputs = &model.graph.outputs;
    for (name, num_channels) in OUTPUTS {
        let Some(output) = outputs.iter().find(|output| output.name == name) else {
            let found: Vec<&str> = outputs.iter().map(|output| output.name).collect();
            return refuse(format!(
                "there is no output {name}; found: {}; allowed: `head.bbox.onnx` of CUDA-BEVFusion, with score, reg, \
                 height, dim, rot and vel",
                found.join(", ")
            ));
        };
        let Some(shape) = &output.shape else { continue };
        let fits = |found: Option<i64>, expected: Option<i64>| {
            found.zip(expected).is_none_or(|(found, expected)| found == expected)
        };
        match shape[..] {
            [batch, channels, _] if fits(batch, Some(1)) && fits(channels, num_channels) => {}
            _ => {
                let channels = num_channels.map_or("C".into(), |num| num.to_string());
                let allowed = format!("[1, {channels}, P]");
                return refuse(format!(
                    "output {name} is {shape:?} (None: any); allowed: {allowed}"
                ));
            }
        }
    }
    Ok(())
}

/// The number of proposals, where an output says it.
fn num_proposals(model: &Model<'_>) -> Option<i64> {
    let is_ours = |name: &str| OUTPUTS.iter().any(|(known, _)| *known == name);
    let outputs = model.graph.outputs.iter().filter(|output| is_ours(output.name));
    outputs.filter_map(|output| *output.shape.as_ref()?.last()?).next()
}

fn in_file(path: &Path, error: &Error) -> Error {
    Error::new(error.kind(), error.stage(), format!("{}: {}", path.display(), error.message()))
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

#[cfg(test)]
mod tests;
