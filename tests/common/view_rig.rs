//! Small DETR3D and Sparse4D decoders with random weights for a simulated drive of six cameras.

use det_post_types::{Detr3d, Sparse4d};

use super::streampetr::backbone;
use super::surround_rig::{Fixture, SIZES};
use super::view_networks::{StateDict, detr3d, detr3d_facts, sparse4d, sparse4d_facts};

const HEAD: &str = "sensor: surround
class_names: [car, truck, pedestrian]
cameras: 6
input_size: [96, 48]
channel_order: rgb
mean: [120.0, 120.0, 120.0]
std: [60.0, 60.0, 60.0]
level_strides: [8]
extra_level: true
size_order: length_width_height
yaw: counter_clockwise
defaults: {nms: {kind: none}}
";

/// Writes a backbone of one output, a head and weights.
fn fixture(facts: &str, weights: &StateDict) -> Fixture {
    let fixture = Fixture::with_drive();
    let path = |name: &str| fixture.path(name).display().to_string();
    backbone(&SIZES, 11).save(&fixture.path("backbone.onnx")).unwrap();
    std::fs::write(fixture.path("head.yaml"), format!("{HEAD}{facts}")).unwrap();
    std::fs::write(fixture.path("weights.safetensors"), weights.to_safetensors()).unwrap();
    fixture.write_parameters(&format!(
        "      head: {}
      model_path: {}
      weights_path: {}",
        path("head.yaml"),
        path("backbone.onnx"),
        path("weights.safetensors")
    ));
    fixture
}

/// A drive, DETR3D and its parameters.
pub fn detr3d_fixture() -> Fixture {
    let weights = detr3d(&Detr3d { num_views: 6, ..detr3d_facts() });
    let facts = "kind: detr3d
point_range_m: [-30, -30, -3, 30, 30, 3]
decoder: {channels: 16, heads: 2, queries: 12, blocks: 2, min_depth_m: 0.01}
";
    fixture(facts, &weights)
}

/// A drive, Sparse4D and its parameters.
pub fn sparse4d_fixture() -> Fixture {
    let mut weights = sparse4d(&Sparse4d { num_views: 6, ..sparse4d_facts() });
    // Around the vehicle, so that every camera sees some.
    let is_anchors = |(name, ..): &&mut (String, _, _)| name == "instance_bank.anchor";
    let (.., anchors) = weights.tensors.iter_mut().find(is_anchors).unwrap();
    for (index, anchor) in anchors.chunks_exact_mut(11).enumerate() {
        let angle = std::f32::consts::FRAC_PI_3 * index as f32;
        [anchor[0], anchor[1]] = [8.0 * angle.cos(), 8.0 * angle.sin()];
    }
    let facts = "kind: sparse4d
decoder: {channels: 16, heads: 4, groups: 2, anchors: 10, cached: 6, blocks: 3}
";
    fixture(facts, &weights)
}
