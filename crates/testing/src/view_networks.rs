//! State dicts of small view decoders with random weights, as files of safetensors.
#![allow(dead_code, reason = "each suite uses its part")]

use det_post_infer::view_decoder::View;
use det_post_ops::view::sample::{FeatureLevel, FeatureMaps, Texels};
use det_post_types::{AttentionResidual, CachedYaw, Detr3d, Motion, PointRange, Sparse4d};
use half::f16;

/// Tensors by name, with their shapes.
#[derive(Clone)]
pub struct StateDict {
    pub tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
    seed: u32,
}

/// Numbers in -1 to 1 that look random.
pub fn noise(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    let next = move || {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

impl StateDict {
    /// Tensors by name, with their shapes and values.
    pub fn of(tensors: Vec<(String, Vec<usize>, Vec<f32>)>) -> Self {
        Self { tensors, seed: 0 }
    }

    /// Any tensor, scaled by its last dimension.
    fn add(&mut self, name: String, shape: &[usize]) {
        self.seed += 1;
        let num_inputs = shape.last().copied().unwrap_or(1) as f32;
        let scale = if shape.len() > 1 { 1.5 / num_inputs.sqrt() } else { 0.1 };
        let values = noise(shape.iter().product(), self.seed).iter().map(|x| x * scale).collect();
        self.tensors.push((name, shape.to_vec(), values));
    }

    fn linear(&mut self, name: &str, num_outputs: usize, num_inputs: usize) {
        self.add(format!("{name}.weight"), &[num_outputs, num_inputs]);
        self.add(format!("{name}.bias"), &[num_outputs]);
    }

    fn norm(&mut self, name: &str, len: usize) {
        self.add(format!("{name}.weight"), &[len]);
        let (.., factors) = self.tensors.last_mut().unwrap();
        factors.iter_mut().for_each(|x| *x += 1.0);
        self.add(format!("{name}.bias"), &[len]);
    }

    fn attention(&mut self, name: &str, len: usize) {
        self.add(format!("{name}.attn.in_proj_weight"), &[3 * len, len]);
        self.add(format!("{name}.attn.in_proj_bias"), &[3 * len]);
        self.linear(&format!("{name}.attn.out_proj"), len, len);
    }

    /// The file.
    pub fn to_safetensors(&self) -> Vec<u8> {
        let mut header = serde_json::Map::new();
        let mut data = Vec::new();
        for (name, shape, values) in &self.tensors {
            let begin = data.len();
            values.iter().for_each(|x| data.extend(x.to_le_bytes()));
            let offsets = [begin, data.len()];
            let entry =
                serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
            header.insert(name.clone(), entry);
        }
        let header = serde_json::Value::Object(header).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
    }
}

/// Two cameras, two levels, 16 channels.
pub fn detr3d_facts() -> Detr3d {
    Detr3d {
        num_views: 2,
        num_levels: 2,
        num_channels: 16,
        num_heads: 2,
        num_queries: 12,
        num_blocks: 2,
        num_classes: 3,
        range: PointRange::from_bounds([-30.0, -30.0, -3.0, 30.0, 30.0, 3.0]),
        min_depth_m: 1e-2,
        attention_residual: AttentionResidual::Query,
    }
}

/// A DETR3D decoder, feed-forward layers 24 wide.
pub fn detr3d(facts: &Detr3d) -> StateDict {
    detr3d_of_width(facts, 24)
}

/// A DETR3D decoder with feed-forward layers of a width.
pub fn detr3d_of_width(facts: &Detr3d, hidden: usize) -> StateDict {
    let c = facts.num_channels;
    let mut dict = StateDict { tensors: Vec::new(), seed: 100 };
    dict.add("query_embedding.weight".into(), &[facts.num_queries, 2 * c]);
    dict.linear("transformer.reference_points", 3, c);
    for block in 0..facts.num_blocks {
        let name = format!("transformer.decoder.layers.{block}");
        dict.attention(&format!("{name}.attentions.0"), c);
        let views = format!("{name}.attentions.1");
        dict.linear(&format!("{views}.attention_weights"), facts.num_views * facts.num_levels, c);
        dict.linear(&format!("{views}.output_proj"), c, c);
        dict.linear(&format!("{views}.position_encoder.0"), c, 3);
        dict.norm(&format!("{views}.position_encoder.1"), c);
        dict.linear(&format!("{views}.position_encoder.3"), c, c);
        dict.norm(&format!("{views}.position_encoder.4"), c);
        dict.linear(&format!("{name}.ffns.0.layers.0.0"), hidden, c);
        dict.linear(&format!("{name}.ffns.0.layers.1"), c, hidden);
        (0..3).for_each(|norm| dict.norm(&format!("{name}.norms.{norm}"), c));
        for (layer, num_outputs) in [(0, c), (2, c), (4, 10)] {
            dict.linear(&format!("reg_branches.{block}.{layer}"), num_outputs, c);
        }
    }
    let name = format!("cls_branches.{}", facts.num_blocks - 1);
    for layer in [0, 3] {
        dict.linear(&format!("{name}.{layer}"), c, c);
        dict.norm(&format!("{name}.{}", layer + 1), c);
    }
    dict.linear(&format!("{name}.6"), facts.num_classes, c);
    dict
}

/// Two cameras, two levels, 16 channels.
pub fn sparse4d_facts() -> Sparse4d {
    Sparse4d {
        num_views: 2,
        num_levels: 2,
        num_channels: 16,
        num_heads: 4,
        num_groups: 2,
        num_anchors: 10,
        num_cached: 6,
        num_blocks: 3,
        num_single_frame_blocks: 1,
        num_classes: 3,
        min_depth_m: 1e-5,
        cached_yaw: CachedYaw::SinCos,
        has_quality: true,
        confidence_decay: 0.6,
        default_interval_s: 0.5,
    }
}

/// A Sparse4D decoder with 7 + 2 key points, feed-forward layers 24 wide.
pub fn sparse4d(facts: &Sparse4d) -> StateDict {
    sparse4d_of(facts, 2, 24)
}

/// A Sparse4D decoder with 7 + `num_learned` key points, feed-forward layers so wide.
pub fn sparse4d_of(facts: &Sparse4d, num_learned: usize, width: usize) -> StateDict {
    let c = facts.num_channels;
    let mut dict = StateDict { tensors: Vec::new(), seed: 500 };
    dict.add("instance_bank.anchor".into(), &[facts.num_anchors, 11]);
    let (.., anchors) = dict.tensors.last_mut().unwrap();
    for (index, anchor) in anchors.chunks_exact_mut(11).enumerate() {
        anchor[0] = 4.0 + 2.0 * index as f32;
        anchor[7] += 1.0;
    }
    dict.add("instance_bank.instance_feature".into(), &[facts.num_anchors, c]);
    // The published shares. A part of two channels would be normalized to a step, which makes a
    // large error of a small one.
    for (part, num_inputs, part_width) in
        [("pos", 3, c / 2), ("size", 3, c / 8), ("yaw", 2, c / 8), ("vel", 3, c / 4)]
    {
        for layer in 0..4 {
            let num_inputs = if layer == 0 { num_inputs } else { part_width };
            dict.linear(&format!("anchor_encoder.{part}_fc.{}", 3 * layer), part_width, num_inputs);
            dict.norm(&format!("anchor_encoder.{part}_fc.{}", 3 * layer + 2), part_width);
        }
    }
    dict.add("fc_before.weight".into(), &[2 * c, c]);
    dict.add("fc_after.weight".into(), &[c, 2 * c]);
    let mut layer = 0;
    let mut next = || {
        layer += 1;
        format!("layers.{}", layer - 1)
    };
    for block in 0..facts.num_blocks {
        if block >= facts.num_single_frame_blocks {
            dict.attention(&next(), 2 * c);
        }
        if block > 0 {
            dict.attention(&next(), 2 * c);
            dict.norm(&next(), c);
        }
        let views = next();
        dict.add(format!("{views}.kps_generator.fix_scale"), &[7, 3]);
        dict.linear(&format!("{views}.kps_generator.learnable_fc"), 3 * num_learned, c);
        dict.linear(&format!("{views}.camera_encoder.0"), c, 12);
        dict.norm(&format!("{views}.camera_encoder.2"), c);
        dict.linear(&format!("{views}.camera_encoder.3"), c, c);
        dict.norm(&format!("{views}.camera_encoder.5"), c);
        let num_logits = facts.num_levels * (7 + num_learned) * facts.num_groups;
        dict.linear(&format!("{views}.weights_fc"), num_logits, c);
        dict.linear(&format!("{views}.output_proj"), c, c);
        let name = next();
        dict.norm(&format!("{name}.pre_norm"), 2 * c);
        dict.linear(&format!("{name}.identity_fc"), c, 2 * c);
        dict.linear(&format!("{name}.layers.0.0"), width, 2 * c);
        dict.linear(&format!("{name}.layers.1"), c, width);
        dict.norm(&next(), c);
        let name = next();
        for layer in [0, 2, 5, 7] {
            dict.linear(&format!("{name}.layers.{layer}"), c, c);
        }
        dict.norm(&format!("{name}.layers.4"), c);
        dict.norm(&format!("{name}.layers.9"), c);
        dict.linear(&format!("{name}.layers.10"), 11, c);
        dict.add(format!("{name}.layers.11.scale"), &[11]);
        let heads = [("cls", facts.num_classes), ("quality", 2)];
        for &(head, num_outputs) in &heads[..1 + usize::from(facts.has_quality)] {
            for layer in [0, 3] {
                dict.linear(&format!("{name}.{head}_layers.{layer}"), c, c);
                dict.norm(&format!("{name}.{head}_layers.{}", layer + 2), c);
            }
            dict.linear(&format!("{name}.{head}_layers.6"), num_outputs, c);
        }
    }
    dict
}

/// Sparse4D of the published width: 256 channels, feed-forward layers of 1024. All anchors but one
/// are of the memory, so that no rows change places.
pub fn sparse4d_of_256_channels() -> (Sparse4d, StateDict) {
    let facts = Sparse4d {
        num_channels: 256,
        num_heads: 8,
        num_groups: 8,
        num_anchors: 18,
        num_cached: 17,
        ..sparse4d_facts()
    };
    let mut dict = sparse4d_of(&facts, 6, 1024);
    spread_anchors(&mut dict);
    (facts, dict)
}

/// Places the anchors around the vehicle, so that both of [`two_views`] see some.
pub fn spread_anchors(dict: &mut StateDict) {
    let is_anchors = |(name, ..): &&mut (String, _, _)| name == "instance_bank.anchor";
    let (.., anchors) = dict.tensors.iter_mut().find(is_anchors).unwrap();
    let places = noise(anchors.len(), 9);
    for (anchor, place) in anchors.chunks_exact_mut(11).zip(places.chunks_exact(11)) {
        [anchor[0], anchor[1], anchor[2]] = [15.0 * place[0], 6.0 * place[1], 2.0 * place[2]];
    }
}

/// The motion of a vehicle that turns a little.
pub fn turn() -> Motion {
    Motion {
        interval_s: 0.1,
        current_from_past: [
            [0.999, -0.04, 0.0, -0.8],
            [0.04, 0.999, 0.0, 0.05],
            [0.0, 0.0, 1.0, 0.01],
        ],
    }
}

/// A camera ahead and one behind, 90 degrees wide, images of 64 x 32.
pub fn two_views() -> [View; 2] {
    [1.0, -1.0].map(|side| View {
        pixels_from_base: [
            [32.0 * side, -32.0 * side, 0.0, 0.0],
            [16.0 * side, 0.0, -32.0, 0.0],
            [side, 0.0, 0.0, 0.0],
        ],
        size: [64, 32],
        is_present: true,
    })
}

/// The elements of maps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum As {
    F32,
    F16,
    I8,
}

/// Smooth maps of random waves, of two views and two levels: a point that moves a little reads
/// about the same.
pub fn maps(channels: usize, texels: As) -> FeatureMaps {
    let level = |size: [usize; 2], seed| {
        let phases = noise(2 * channels, seed);
        let [width, height] = size;
        let value = |at: usize| {
            let (texel, c) = (at / channels, at % channels);
            let (x, y) = (texel % width, texel / width % height);
            let (u, v) = (x as f32 / width as f32, y as f32 / height as f32);
            (3.0 * phases[2 * c] * u + 2.0 * phases[2 * c + 1] * v + c as f32).sin()
        };
        let values: Vec<f32> = (0..2 * width * height * channels).map(value).collect();
        let halves = |values: &[f32]| values.iter().map(|&v| f16::from_f32(v)).collect();
        let texels = match texels {
            As::F32 => Texels::F32(values.iter().map(|&v| f16::from_f32(v).to_f32()).collect()),
            As::F16 => Texels::F16(halves(&values)),
            As::I8 => {
                let values = values.iter().map(|v| (v * 127.0).round() as i8).collect();
                Texels::I8 { values, scale: 1.0 / 127.0 }
            }
        };
        FeatureLevel::new(size, texels)
    };
    FeatureMaps::new(2, channels, vec![level([16, 8], 1), level([8, 4], 2)]).unwrap()
}

/// Maps of two views, two levels and 16 channels.
pub fn two_maps(seed: u32) -> FeatureMaps {
    let level = |size: [usize; 2], seed| {
        FeatureLevel::new(size, Texels::F32(noise(2 * size[0] * size[1] * 16, seed)))
    };
    FeatureMaps::new(2, 16, vec![level([8, 4], seed), level([4, 2], seed + 1)]).unwrap()
}
