//! Shapes of the tensors of a network, from rten's inference.
//!
//! rten loads the structure of the network, with large constants as inputs, so that this takes
//! little time and memory.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rten::{Dimension, Model as Network};

use crate::onnx::{Model, Tensor, replace};
use det_post_types::Result;

/// Constants of more bytes are inputs of the structure.
const MAX_CONSTANT_BYTES: usize = 4096;

/// A shape, open dimensions as `None`.
pub(super) type Shape = Vec<Option<i64>>;

/// Shapes by the names of tensors, found at the first question.
#[derive(Default)]
pub(super) struct Shapes(OnceCell<HashMap<String, Shape>>);

impl Shapes {
    /// The shape of an output of a node of the outermost graph; `None` where rten does not know it.
    pub(super) fn of(&self, bytes: &[u8], model: &Model<'_>, name: &str) -> Option<&Shape> {
        self.0.get_or_init(|| infer(bytes, model).unwrap_or_default()).get(name)
    }
}

fn infer(bytes: &[u8], model: &Model<'_>) -> Result<HashMap<String, Shape>> {
    let graph = &model.graph;
    let is_large =
        |tensor: &&Tensor<'_>| tensor.bytes.len() > MAX_CONSTANT_BYTES || tensor.is_in_other_file();
    let large: Vec<_> = graph.initializers.iter().filter(is_large).collect();
    let outputs = graph.nodes.iter().filter(|node| node.operator != "Constant");
    let outputs = outputs.flat_map(|node| &node.outputs).filter(|name| !name.is_empty());
    let outputs: Vec<&str> = outputs.copied().collect();
    let structure = replace::structure(bytes, &large, &outputs)?;
    // rten's inference panics on some networks that it does not compute.
    let network = catch_unwind(AssertUnwindSafe(|| Network::load(structure)));
    let Ok(Ok(network)) = network else { return Ok(HashMap::new()) };
    let shape = |(&id, name): (_, &&str)| {
        let dims = network.node_info(id)?.shape()?;
        let dims = dims.iter().map(|dim| match dim {
            Dimension::Fixed(size) => i64::try_from(*size).ok(),
            Dimension::Symbolic(_) => None,
        });
        Some(((*name).to_owned(), dims.collect()))
    };
    Ok(network.output_ids().iter().zip(&outputs).filter_map(shape).collect())
}
