//! Networks that end in `EfficientNMS_TRT`, a suppression of TensorRT that no other engine
//! runs.
//!
//! The engines load such a network without that node: its inputs, boxes and scores, are the
//! outputs. [`EfficientNms`] holds the settings of the node.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::check_file;
use super::onnx::{AttributeValue, Model, Node, write};
use det_post_types::{Error, ErrorKind, Result};

const OPERATOR: &str = "EfficientNMS_TRT";
/// The most bytes of a network that is cut.
const MAX_BYTES: u64 = 1 << 30;
const STAGE: &str = "infer";

/// The suppression at the end of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct EfficientNms {
    /// Name of the boxes, `[1, N, 4]`: x1, y1, x2, y2 in pixels of the network's input.
    pub boxes: String,
    /// Name of the scores, `[1, N, C]`.
    pub scores: String,
    /// Boxes with a lower score are dropped.
    pub score_threshold: f32,
    /// A box is suppressed when its IoU with a better one is above this.
    pub iou_threshold: f32,
    /// Most boxes of an image.
    pub max_output_boxes: usize,
    /// Whether boxes of different classes suppress each other.
    pub is_class_agnostic: bool,
    /// The class whose boxes are dropped.
    pub background_class: Option<u32>,
    /// Whether scores are logits.
    pub has_logits: bool,
}

impl EfficientNms {
    /// The suppression at the end of a network; `None` where there is none.
    ///
    /// # Errors
    /// `Model` when the file cannot be read, is not of the format, or its suppression has
    /// settings that are not supported.
    pub fn of_file(path: &Path) -> Result<Option<Self>> {
        let Some(bytes) = read_if_named(path, OPERATOR)? else { return Ok(None) };
        let model = Model::parse(&bytes)?;
        last(&model).map(Self::of_node).transpose()
    }

    fn of_node(node: &Node<'_>) -> Result<Self> {
        let &[boxes, scores] = &node.inputs[..] else {
            return refuse(format!("{node}: {} inputs, allowed: boxes, scores", node.inputs.len()));
        };
        if integer(node, "box_coding", 0) != 0 {
            return refuse(format!("{node}: box_coding 1 (centre and size) is not built"));
        }
        Ok(Self {
            boxes: boxes.to_owned(),
            scores: scores.to_owned(),
            score_threshold: float(node, "score_threshold", 0.25),
            iou_threshold: float(node, "iou_threshold", 0.5),
            max_output_boxes: usize::try_from(integer(node, "max_output_boxes", 100)).unwrap_or(0),
            is_class_agnostic: integer(node, "class_agnostic", 0) != 0,
            background_class: u32::try_from(integer(node, "background_class", -1)).ok(),
            has_logits: integer(node, "score_activation", 0) != 0,
        })
    }
}

/// The network without the suppression at its end; `None` where there is none.
pub(super) fn cut(path: &Path) -> Result<Option<Vec<u8>>> {
    let Some(bytes) = read_if_named(path, OPERATOR)? else { return Ok(None) };
    let model = Model::parse(&bytes)?;
    let Some(node) = last(&model) else { return Ok(None) };
    write::without_node(&bytes, node.bytes, &node.inputs).map(Some)
}

/// The node whose outputs are the network's.
fn last<'m, 'a>(model: &'m Model<'a>) -> Option<&'m Node<'a>> {
    let is_output = |name: &&str| model.graph.outputs.iter().any(|output| output.name == *name);
    let is_last =
        |node: &&Node<'_>| node.operator == OPERATOR && node.outputs.iter().any(&is_output);
    model.graph.nodes.iter().find(is_last)
}

fn integer(node: &Node<'_>, name: &str, otherwise: i64) -> i64 {
    match node.attribute(name) {
        Some(AttributeValue::Int(value)) => *value,
        _ => otherwise,
    }
}

fn float(node: &Node<'_>, name: &str, otherwise: f32) -> f32 {
    match node.attribute(name) {
        Some(AttributeValue::Float(value)) => *value,
        _ => otherwise,
    }
}

/// The bytes of a file that holds a name, of an operator or of an input; `None` for others, which
/// are not held in memory.
pub(super) fn read_if_named(path: &Path, name: &str) -> Result<Option<Vec<u8>>> {
    let unreadable = |cause| {
        Error::new(ErrorKind::Model, STAGE, format!("cannot read {}", path.display()))
            .with_source(cause)
    };
    check_file(path)?;
    let mut file = File::open(path).map_err(unreadable)?;
    let mut buffer = vec![0; 1 << 20];
    let mut kept = 0;
    loop {
        let num = file.read(&mut buffer[kept..]).map_err(unreadable)?;
        if num == 0 {
            return Ok(None);
        }
        let filled = kept + num;
        if contains(&buffer[..filled], name.as_bytes()) {
            break;
        }
        // The name may be split between two reads.
        kept = filled.min(name.len() - 1);
        buffer.copy_within(filled - kept..filled, 0);
    }
    if file.metadata().map_err(unreadable)?.len() > MAX_BYTES {
        return refuse(format!(
            "{}: a network with {name} has more than {MAX_BYTES} bytes",
            path.display()
        ));
    }
    std::fs::read(path).map(Some).map_err(unreadable)
}

/// The bytes of a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    check_file(path)?;
    std::fs::read(path).map_err(|cause| {
        Error::new(ErrorKind::Model, STAGE, format!("cannot read {}", path.display()))
            .with_source(cause)
    })
}

pub(super) fn contains(bytes: &[u8], word: &[u8]) -> bool {
    let first = word[0];
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(word) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, message))
}
