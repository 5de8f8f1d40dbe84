//! What comes after the encoder, as a model.

use std::borrow::Cow;

use super::cameras::Cameras;
use super::part::{between, to_bytes};
use crate::onnx::{Model, write};
use det_post_types::Result;

/// The nodes between the map and the outputs of the graph, with the constants that they read, as the
/// bytes of an ONNX model whose inputs are the map and, of a network with cameras, their map as
/// `[1, levels * channels, rows, columns]`. `None` where the map is the only output.
///
/// # Errors
/// `Model` when an output depends on another input, or a node holds a graph.
pub(super) fn after(
    model: &Model<'_>,
    map: &str,
    map_shape: [usize; 4],
    cameras: Option<&Cameras<'_>>,
) -> Result<Option<Vec<u8>>> {
    let graph = &model.graph;
    if graph.outputs.iter().all(|output| output.name == map) {
        return Ok(None);
    }
    let outputs: Vec<&str> = graph.outputs.iter().map(|output| output.name).collect();
    let known: Vec<&str> = [map].into_iter().chain(cameras.map(|cameras| cameras.pooled)).collect();
    let mut pieces = between(model, &known, &outputs)?;
    let map_shape = map_shape.map(|size| Some(size as i64));
    pieces.inputs.push(Cow::Owned(write::value_info(map, Some(&map_shape))));
    if let Some(cameras) = cameras {
        cameras.add_map(&mut pieces);
    }
    pieces.outputs = graph.outputs.iter().map(|output| Cow::Borrowed(output.bytes)).collect();
    Ok(Some(to_bytes(model, &pieces)))
}
