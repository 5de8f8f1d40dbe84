//! Small DETR3D and Sparse4D decoders with random weights for a simulated drive of six cameras.

use std::path::Path;

use det_post_types::{Detr3d, ElementType, MapLayout, Sparse4d};

use super::onnx::{Attr, Graph};
use super::streampetr::{Sizes, backbone, backbone_maps};
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

const DETR3D: &str = "kind: detr3d
point_range_m: [-30, -30, -3, 30, 30, 3]
decoder: {channels: 16, heads: 2, queries: 12, blocks: 2, min_depth_m: 0.01}
";
const SPARSE4D: &str = "kind: sparse4d
decoder: {channels: 16, heads: 4, groups: 2, anchors: 10, cached: 6, blocks: 3}
";

/// Channels of backbones with int8 maps.
pub const INT8_CHANNELS: usize = 32;
/// The value of 1 of their maps.
pub const INT8_SCALE: f32 = 0.05;

/// A backbone whose maps are int8 in a layout: `QuantizeLinear`, then what moves them.
pub fn int8_backbone(layout: MapLayout) -> Graph {
    let sizes = Sizes { channels: INT8_CHANNELS, ..SIZES };
    let Sizes { cameras, channels, grid: [rows, columns], .. } = sizes;
    let graph = backbone_maps(&sizes, 11)
        .constant("scale", &[], &[INT8_SCALE])
        .constant_i8("zero", &[], &[0])
        .op("QuantizeLinear", &["maps", "scale", "zero"], "quantized");
    let perm = |axes: &[i64]| [("perm", Attr::Ints(axes.to_vec()))];
    let [n, c, h, w] = [cameras, channels, rows, columns].map(|n| n as i64);
    match layout {
        MapLayout::Planar => graph.op("Identity", &["quantized"], "maps_i8").output(
            "maps_i8",
            ElementType::I8,
            &[n, c, h, w],
        ),
        MapLayout::ChannelsLast => graph
            .node("Transpose", &["quantized"], &["maps_i8"], &perm(&[0, 2, 3, 1]))
            .output("maps_i8", ElementType::I8, &[n, h, w, c]),
        MapLayout::Blocks32 => graph
            .integers("blocked", &[n, c / 32, 32, h, w])
            .op("Reshape", &["quantized", "blocked"], "in_blocks")
            .node("Transpose", &["in_blocks"], &["maps_i8"], &perm(&[0, 1, 3, 4, 2]))
            .output("maps_i8", ElementType::I8, &[n, c / 32, h, w, 32]),
    }
}

/// The name of a layout in a head file.
pub fn layout_name(layout: MapLayout) -> &'static str {
    match layout {
        MapLayout::Planar => "planar",
        MapLayout::ChannelsLast => "channels_last",
        MapLayout::Blocks32 => "blocks_32",
    }
}

/// The head file and the weights of a DETR3D or a Sparse4D for such a backbone.
pub fn int8_decoder(is_detr3d: bool, layout: MapLayout) -> (String, Vec<u8>) {
    let (facts, weights) = if is_detr3d {
        let facts = Detr3d { num_views: 6, num_channels: INT8_CHANNELS, ..detr3d_facts() };
        (DETR3D.replace("channels: 16", "channels: 32"), detr3d(&facts))
    } else {
        let facts = Sparse4d { num_views: 6, num_channels: INT8_CHANNELS, ..sparse4d_facts() };
        (SPARSE4D.replace("channels: 16", "channels: 32"), around(sparse4d(&facts)))
    };
    let head = format!("{HEAD}feature_layout: {}\n{facts}", layout_name(layout));
    (head, weights.to_safetensors())
}

/// A drive and a decoder behind a backbone with int8 maps in a layout.
pub fn int8_fixture(is_detr3d: bool, layout: MapLayout) -> Fixture {
    let (head, weights) = int8_decoder(is_detr3d, layout);
    written(&head, &weights, &int8_backbone(layout))
}

/// The same backbone without quantization, planar.
pub fn float_backbone(path: &Path) {
    backbone(&Sizes { channels: INT8_CHANNELS, ..SIZES }, 11).save(path).unwrap();
}

/// Writes a backbone of one output, a head and weights.
fn fixture(facts: &str, weights: &StateDict) -> Fixture {
    written(&format!("{HEAD}{facts}"), &weights.to_safetensors(), &backbone(&SIZES, 11))
}

fn written(head: &str, weights: &[u8], backbone: &Graph) -> Fixture {
    let fixture = Fixture::with_drive();
    let path = |name: &str| fixture.path(name).display().to_string();
    backbone.save(&fixture.path("backbone.onnx")).unwrap();
    std::fs::write(fixture.path("head.yaml"), head).unwrap();
    std::fs::write(fixture.path("weights.safetensors"), weights).unwrap();
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
    fixture(DETR3D, &weights)
}

/// A drive, Sparse4D and its parameters.
pub fn sparse4d_fixture() -> Fixture {
    fixture(SPARSE4D, &around(sparse4d(&Sparse4d { num_views: 6, ..sparse4d_facts() })))
}

/// Weights with anchors that cameras see.
fn around(mut weights: StateDict) -> StateDict {
    // Around the vehicle, so that every camera sees some.
    let is_anchors = |(name, ..): &&mut (String, _, _)| name == "instance_bank.anchor";
    let (.., anchors) = weights.tensors.iter_mut().find(is_anchors).unwrap();
    for (index, anchor) in anchors.chunks_exact_mut(11).enumerate() {
        let angle = std::f32::consts::FRAC_PI_3 * index as f32;
        [anchor[0], anchor[1]] = [8.0 * angle.cos(), 8.0 * angle.sin()];
    }
    weights
}
