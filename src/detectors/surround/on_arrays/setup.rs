//! What follows from a configuration, and from the cameras of a caller.

use nalgebra::Matrix4;

use super::types::{ArrayCamera, QUERY_BOX, ViewSizes};
use crate::config::SurroundConfig;
use crate::detectors::surround::ViewFamily;
use crate::detectors::surround::matrices::ViewMatrices;
use crate::detectors::surround::views::input_size;
use det_post_infer::view_decoder::ViewNetwork;
use det_post_types::{Dim, ElementType, Result, TensorSpec};

/// The lengths of a network of our own layers, and rows and channels of its memory.
pub(super) fn sizes_of_views(
    family: &ViewFamily<'_>,
    network: &ViewNetwork,
) -> Result<(ViewSizes, [usize; 2])> {
    let [num_cameras, _, _] = network.map_sizes();
    let [num_queries, num_classes] = network.query_sizes();
    let memory = match network {
        ViewNetwork::Detr3d(_) => [0; 2],
        ViewNetwork::Sparse4d(network) => {
            [network.facts().num_cached, network.facts().num_channels]
        }
    };
    let sizes = ViewSizes {
        num_cameras,
        input_size: input_size(&family.config.facts)?,
        num_maps: family.facts.level_strides.len(),
        num_queries,
        num_classes,
        box_len: QUERY_BOX,
        has_quality: network.has_quality(),
        has_memory: memory != [0; 2],
        needs_intrinsics: false,
    };
    Ok((sizes, memory))
}

/// Inputs and outputs of the backbone of a StreamPETR: as the head file states them, else as the
/// backbone's file does.
pub(super) fn backbone_tensors(config: &SurroundConfig) -> Result<[Vec<TensorSpec>; 2]> {
    let (Some(num_cameras), Some(size)) = (config.facts.num_cameras, config.facts.input_size)
    else {
        let backbone = det_post_infer::load(&config.model_path, &config.engine)?;
        return Ok([backbone.inputs().to_vec(), backbone.outputs().to_vec()]);
    };
    let tensor = |name: &str, dims: Vec<Dim>| {
        let element = Some(ElementType::F32);
        vec![TensorSpec { name: name.into(), element, shape: Some(dims) }]
    };
    let fixed = |num: usize| Dim::Fixed(num);
    let [height, width] = [size.height, size.width].map(|side| fixed(side as usize));
    let images = vec![fixed(1), fixed(num_cameras), fixed(3), height, width];
    let [a, b, c] = [(); 3].map(|()| Dim::Dynamic);
    let features = vec![fixed(1), fixed(num_cameras), a, b, c];
    Ok([tensor("img", images), tensor("img_feats", features)])
}

/// The matrices of a camera in the forms that decoders take.
///
/// # Errors
/// The reason, without the camera.
pub(super) fn matrices_of(
    camera: &ArrayCamera,
    needs_intrinsics: bool,
) -> std::result::Result<ViewMatrices, String> {
    let rows = camera.image_from_base;
    let image_from_target = Matrix4::from_fn(|row, column| match rows.get(row) {
        Some(values) => values[column],
        None => f64::from(column == 3),
    });
    if image_from_target.iter().any(|value| !value.is_finite()) {
        return Err("a value of its matrix is NaN or infinite".into());
    }
    if !needs_intrinsics {
        let [intrinsics, target_from_image] = [Matrix4::zeros(); 2];
        return Ok(ViewMatrices { intrinsics, image_from_target, target_from_image });
    }
    let Some(of_camera) = camera.intrinsics else {
        return Err("a head of kind streampetr needs its intrinsic matrix".into());
    };
    if !camera.is_present {
        return Err("is missing; a head of kind streampetr needs every camera".into());
    }
    let intrinsics = Matrix4::from_fn(|row, column| match of_camera.get(row) {
        Some(values) => values.get(column).copied().unwrap_or(0.0),
        None => f64::from(column == 3),
    });
    match image_from_target.try_inverse() {
        Some(target_from_image) if intrinsics.iter().all(|value| value.is_finite()) => {
            Ok(ViewMatrices { intrinsics, image_from_target, target_from_image })
        }
        Some(_) => Err("a value of its intrinsic matrix is NaN or infinite".into()),
        None => Err("its matrix has no inverse".into()),
    }
}
