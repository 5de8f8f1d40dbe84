//! The second input of RT-DETR, D-FINE and DEIM as their scripts export them: the size in whose
//! pixels the boxes are. It becomes a constant, the size of the network's input, so that an image
//! is the only input.

use std::path::Path;

use super::class_vectors;
use super::efficient_nms::{self, read_if_named};
use super::onnx::{DataType, Model, ValueInfo, write};
use super::proposal_head;
use super::sparse;
use super::view_decoder::plugin;
use det_post_types::{ClassVectors, Error, NetworkPart, Result};

/// The name of the input. Its two numbers are width and height.
const INPUT: &str = "orig_target_sizes";

/// The number of i32 among the element types of the schema.
const I32: i64 = 6;

/// The network as engines load it, where that is not as it is in the file: without the sparse encoder at its
/// beginning, without the suppression or the view decoder at its end, with a size or the vectors of classes in
/// place of an input, or with standard nodes in place of NVIDIA's; or another part of it.
///
/// # Errors
/// `Model` when the file cannot be read or is not of the format, has no input for the vectors, or not
/// this part.
pub(super) fn adapted(
    path: &Path,
    part: NetworkPart,
    classes: Option<&ClassVectors>,
) -> Result<Option<Vec<u8>>> {
    if let Some(classes) = classes {
        return class_vectors::with_constant(path, classes).map(Some);
    }
    match part {
        NetworkPart::Whole => {}
        NetworkPart::FloatInputs => return with_float_inputs(path),
        NetworkPart::Cameras { num_cameras, image_size } => {
            return sparse::camera_network(path, num_cameras, image_size).map(Some);
        }
        NetworkPart::Proposals => return proposal_head::of_proposals(path).map(Some),
    }
    if let Some(bytes) = efficient_nms::cut(path)? {
        return Ok(Some(bytes));
    }
    if let Some(bytes) = plugin::cut(path)? {
        return Ok(Some(bytes));
    }
    if let Some(bytes) = proposal_head::with_standard_nodes(path)? {
        return Ok(Some(bytes));
    }
    match sparse::behind_map(path)? {
        Some(bytes) => Ok(Some(bytes)),
        None => with_constant(path),
    }
}

/// The number of u8 among the element types of the schema.
const U8: i64 = 2;

/// The network with floats in place of inputs of bytes; `None` where it has none.
fn with_float_inputs(path: &Path) -> Result<Option<Vec<u8>>> {
    let bytes = efficient_nms::read(path)?;
    let in_file = |error: Error| {
        let message = format!("{}: {}", path.display(), error.message());
        Error::new(error.kind(), error.stage(), message)
    };
    let model = Model::parse_with_functions(&bytes).map_err(in_file)?;
    let has_bytes = |input: &ValueInfo<'_>| input.data_type == Some(DataType::Other(U8));
    if !model.graph.inputs.iter().any(has_bytes) {
        return Ok(None);
    }
    write::with_inputs(&bytes, |input| {
        has_bytes(input).then(|| write::value_info(input.name, input.shape.as_deref()))
    })
    .map(Some)
}

/// The network with the input as a constant; `None` where it has none, or the size of its image is open.
fn with_constant(path: &Path) -> Result<Option<Vec<u8>>> {
    let Some(bytes) = read_if_named(path, INPUT)? else { return Ok(None) };
    let Ok(model) = Model::parse_with_functions(&bytes) else { return Ok(None) };
    let [a, b] = &model.graph.inputs[..] else { return Ok(None) };
    let (image, sizes) = match (a.name, b.name) {
        (_, INPUT) => (a, b),
        (INPUT, _) => (b, a),
        _ => return Ok(None),
    };
    let Some(&[_, _, Some(height), Some(width)]) = image.shape.as_deref() else { return Ok(None) };
    let size = [width, height];
    let values: Vec<u8> = match sizes.data_type {
        Some(DataType::I64) => size.iter().flat_map(|side| side.to_le_bytes()).collect(),
        Some(DataType::Other(I32)) => {
            size.iter().flat_map(|&side| (side as i32).to_le_bytes()).collect()
        }
        Some(DataType::F32) => size.iter().flat_map(|&side| (side as f32).to_le_bytes()).collect(),
        _ => return Ok(None),
    };
    tracing::info!(
        "model {}: the input {INPUT} is {width}x{height}, the size of the input {}",
        path.display(),
        image.name
    );
    write::with_constant(&bytes, sizes, &[1, 2], &values).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::write::file_of as file;

    #[test]
    fn the_input_of_sizes_becomes_a_constant() {
        let image = ("images", 1, &[1, 3, 32, 64][..]);
        for (data_type, values) in [
            (7, [64_i64, 32].map(i64::to_le_bytes).concat()),
            (6, [64_i32, 32].map(i32::to_le_bytes).concat()),
            (1, [64_f32, 32.0].map(f32::to_le_bytes).concat()),
        ] {
            let sizes = (INPUT, data_type, &[1, 2][..]);
            for inputs in [[image, sizes], [sizes, image]] {
                let bytes =
                    adapted(file(&inputs).path(), NetworkPart::Whole, None).unwrap().unwrap();
                let found = Model::parse(&bytes).unwrap();
                let names: Vec<&str> = found.graph.inputs.iter().map(|input| input.name).collect();
                assert_eq!(names, ["images"]);
                let constant = found.graph.initializer(INPUT).unwrap();
                assert_eq!(
                    (&constant.dims[..], constant.data_type.number()),
                    (&[1, 2][..], data_type)
                );
                assert!(bytes.windows(values.len()).any(|window| window == values));
            }
        }
    }

    #[test]
    fn other_inputs_stay() {
        let image = ("images", 1, &[1, 3, 32, 64][..]);
        let other = ("im_shape", 1, &[1, 2][..]);
        let text = (INPUT, 8, &[1, 2][..]);
        for inputs in [&[image][..], &[image, other], &[image, text], &[image, other, text]] {
            assert!(adapted(file(inputs).path(), NetworkPart::Whole, None).unwrap().is_none());
        }
    }
}
