//! A DETR3D decoder of random weights, and what its cameras see.

use std::sync::Arc;

use half::f16;

use crate::bench::inputs::Random;
use crate::error::{Error, ErrorKind, Result};
use crate::infer::view_decoder::detr3d::Network;
use crate::infer::view_decoder::{View, ViewNetwork, parse};
use crate::ops::view_sample::{FeatureLevel, FeatureMaps, Texels};
use crate::types::{AttentionResidual, Detr3d, PointRange, ViewDecoder};

const NUM_VIEWS: usize = 6;
const CHANNELS: usize = 256;
const HIDDEN: usize = 512;
const PICTURE: [u32; 2] = [736, 288];
/// Columns and rows at strides of 8 to 64.
const LEVELS: [[usize; 2]; 4] = [[92, 36], [46, 18], [23, 9], [12, 5]];

/// The elements of the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapElement {
    F32,
    F16,
    Int8,
}

/// The facts of DETR3D with these blocks and queries.
fn facts(num_blocks: usize, num_queries: usize) -> Detr3d {
    Detr3d {
        num_views: NUM_VIEWS,
        num_levels: LEVELS.len(),
        num_channels: CHANNELS,
        num_heads: 8,
        num_queries,
        num_blocks,
        num_classes: 10,
        range: PointRange::from_bounds([-51.2, -51.2, -5.0, 51.2, 51.2, 3.0]),
        min_depth_m: 1e-5,
        attention_residual: AttentionResidual::Query,
    }
}

/// A state dict in the making, as a file of safetensors.
struct Weights {
    random: Random,
    header: serde_json::Map<String, serde_json::Value>,
    data: Vec<u8>,
}

impl Weights {
    fn add(&mut self, name: &str, shape: &[usize], value: impl Fn(f32) -> f32) {
        let begin = self.data.len();
        for _ in 0..shape.iter().product() {
            self.data.extend(value(self.random.range(-1.0, 1.0)).to_le_bytes());
        }
        let offsets = [begin, self.data.len()];
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
        self.header.insert(name.to_owned(), entry);
    }

    fn linear(&mut self, name: &str, num_outputs: usize, num_inputs: usize) {
        let scale = 1.0 / (num_inputs as f32).sqrt();
        self.add(&format!("{name}.weight"), &[num_outputs, num_inputs], |x| scale * x);
        self.add(&format!("{name}.bias"), &[num_outputs], |x| 0.1 * x);
    }

    fn norm(&mut self, name: &str) {
        self.add(&format!("{name}.weight"), &[CHANNELS], |x| 1.0 + 0.1 * x);
        self.add(&format!("{name}.bias"), &[CHANNELS], |x| 0.1 * x);
    }

    fn block(&mut self, index: usize) {
        let name = format!("transformer.decoder.layers.{index}");
        let attention = format!("{name}.attentions.0.attn");
        let square = [3 * CHANNELS, CHANNELS];
        self.add(&format!("{attention}.in_proj_weight"), &square, |x| x / 16.0);
        self.add(&format!("{attention}.in_proj_bias"), &[3 * CHANNELS], |x| 0.1 * x);
        self.linear(&format!("{attention}.out_proj"), CHANNELS, CHANNELS);
        let views = format!("{name}.attentions.1");
        self.linear(&format!("{views}.attention_weights"), NUM_VIEWS * LEVELS.len(), CHANNELS);
        self.linear(&format!("{views}.output_proj"), CHANNELS, CHANNELS);
        self.linear(&format!("{views}.position_encoder.0"), CHANNELS, 3);
        self.norm(&format!("{views}.position_encoder.1"));
        self.linear(&format!("{views}.position_encoder.3"), CHANNELS, CHANNELS);
        self.norm(&format!("{views}.position_encoder.4"));
        self.linear(&format!("{name}.ffns.0.layers.0.0"), HIDDEN, CHANNELS);
        self.linear(&format!("{name}.ffns.0.layers.1"), CHANNELS, HIDDEN);
        (0..3).for_each(|norm| self.norm(&format!("{name}.norms.{norm}")));
        for (layer, num_outputs) in [(0, CHANNELS), (2, CHANNELS), (4, 10)] {
            self.linear(&format!("reg_branches.{index}.{layer}"), num_outputs, CHANNELS);
        }
    }

    fn bytes(self) -> Vec<u8> {
        let header = serde_json::Value::Object(self.header).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &self.data].concat()
    }
}

/// A decoder whose reference points are spread over the range.
pub(super) fn network(num_blocks: usize, num_queries: usize) -> Result<Arc<Network>> {
    let facts = facts(num_blocks, num_queries);
    let mut weights =
        Weights { random: Random::new(7), header: serde_json::Map::new(), data: Vec::new() };
    let embedding = [num_queries, 2 * CHANNELS];
    weights.add("query_embedding.weight", &embedding, |x| x);
    // Logits with a deviation of 1.8: a wide distribution after the sigmoid.
    weights.add("transformer.reference_points.weight", &[3, CHANNELS], |x| x / 3.0);
    weights.add("transformer.reference_points.bias", &[3], |_| 0.0);
    (0..num_blocks).for_each(|block| weights.block(block));
    let classes = format!("cls_branches.{}", num_blocks - 1);
    for layer in [0, 3] {
        weights.linear(&format!("{classes}.{layer}"), CHANNELS, CHANNELS);
        weights.norm(&format!("{classes}.{}", layer + 1));
    }
    weights.linear(&format!("{classes}.6"), facts.num_classes, CHANNELS);
    match parse(&weights.bytes(), &ViewDecoder::Detr3d(facts))? {
        ViewNetwork::Detr3d(network) => Ok(network),
        ViewNetwork::Sparse4d(_) => {
            Err(Error::new(ErrorKind::Model, "bench", "the decoder is of another family"))
        }
    }
}

/// Cameras in a ring, 60 degrees apart, each 71 degrees wide.
pub(super) fn views() -> Vec<View> {
    let [width, height] = PICTURE.map(f64::from);
    let focal = 0.5 * width / 35.5_f64.to_radians().tan();
    let view = |index: usize| {
        let (sin, cos) = (60.0 * index as f64).to_radians().sin_cos();
        // Depth is ahead, columns grow to the right, rows downwards.
        let [ahead, right, down] =
            [[cos, sin, 0.0, 0.0], [sin, -cos, 0.0, 0.0], [0.0, 0.0, -1.0, 1.6]];
        let row = |axis: [f64; 4], centre: f64| {
            std::array::from_fn(|i| focal * axis[i] + centre * ahead[i])
        };
        View {
            pixels_from_base: [row(right, 0.5 * width), row(down, 0.5 * height), ahead],
            size: PICTURE,
            is_present: true,
        }
    };
    (0..NUM_VIEWS).map(view).collect()
}

/// Random maps.
pub(super) fn maps(element: MapElement) -> Result<FeatureMaps> {
    let mut random = Random::new(11);
    let level = |size: [usize; 2]| {
        let num = NUM_VIEWS * size[0] * size[1] * CHANNELS;
        let values = std::iter::repeat_with(|| random.range(-1.0, 1.0)).take(num);
        let texels = match element {
            MapElement::F32 => Texels::F32(values.collect()),
            MapElement::F16 => Texels::F16(values.map(f16::from_f32).collect()),
            MapElement::Int8 => Texels::I8 {
                values: values.map(|x| (127.0 * x) as i8).collect(),
                scale: 1.0 / 127.0,
            },
        };
        FeatureLevel::new(size, texels)
    };
    FeatureMaps::new(NUM_VIEWS, CHANNELS, LEVELS.map(level).into())
}
