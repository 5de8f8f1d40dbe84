//! The layers of a Sparse4D decoder, read and folded.

use nalgebra::DMatrix;

use super::super::reader::{Affine, Reader, side_by_side};
use super::super::refuse;
use det_post_ops::view::layer_norm::LayerNorm;
use det_post_ops::view::linear::{Finish, LinearLayer};
use det_post_types::{Result, Sparse4d};

/// The encoder of anchors: four stacks of four layers, each with ReLU and then a
/// normalization, whose outputs side by side are the embedding.
#[derive(Clone, Debug)]
pub struct AnchorEncoder {
    /// From the centre, the extents, the yaw and the velocity.
    pub parts: [[LinearLayer; 4]; 4],
}

impl AnchorEncoder {
    /// The columns of a box that each part reads.
    pub const COLUMNS: [std::ops::Range<usize>; 4] = [0..3, 3..6, 6..8, 8..11];

    pub(super) fn read(reader: &mut Reader<'_>, num_channels: usize) -> Result<Self> {
        let mut part = |name: &str, num_inputs: usize| {
            let name = format!("anchor_encoder.{name}_fc");
            let [width, _] = reader.shape(&format!("{name}.0.weight"))?;
            let mut layer = |index: usize, num_inputs: usize| {
                let names = [3 * index, 3 * index + 2].map(|index| format!("{name}.{index}"));
                let names = [names[0].as_str(), names[1].as_str()];
                reader.layer_and_norm(names, [width, num_inputs], Finish::ReluNorm)
            };
            Ok([layer(0, num_inputs)?, layer(1, width)?, layer(2, width)?, layer(3, width)?])
        };
        let parts = [part("pos", 3)?, part("size", 3)?, part("yaw", 2)?, part("vel", 3)?];
        let width: usize = parts.iter().map(|[first, ..]| first.num_outputs()).sum();
        if width != num_channels {
            return refuse(format!("the anchor encoder has {width} channels, not {num_channels}"));
        }
        Ok(Self { parts })
    }
}

/// A block; C channels, L levels, P points, G groups.
#[derive(Clone, Debug)]
pub struct Block {
    /// Attention to the cached anchors; absent in single-frame blocks.
    pub temporal: Option<GraphAttention>,
    /// Attention among the anchors, normalized; absent in the first block.
    pub attention: Option<GraphAttention>,
    /// Sampling of the views.
    pub views: ViewAttention,
    /// Feed-forward layers.
    pub feed_forward: FeedForward,
    /// Refinement of the anchors, and the heads.
    pub refinement: Refinement,
}

impl Block {
    pub(super) fn read(
        reader: &mut Reader<'_>,
        index: usize,
        layer: &mut usize,
        facts: &Sparse4d,
        folded: [&DMatrix<f64>; 2],
    ) -> Result<Self> {
        let channels = facts.num_channels;
        // Layers are numbered through all blocks.
        let mut next = || {
            *layer += 1;
            format!("layers.{}", *layer - 1)
        };
        let temporal = (index >= facts.num_single_frame_blocks)
            .then(|| GraphAttention::read(reader, &next(), channels, folded, Finish::None))
            .transpose()?;
        let attention = (index > 0)
            .then(|| {
                let name = next();
                let norm = reader.norm(&next(), channels)?;
                GraphAttention::read(reader, &name, channels, folded, Finish::Norm(norm))
            })
            .transpose()?;
        let views = ViewAttention::read(reader, &next(), facts)?;
        let feed_forward = next();
        let norm = reader.norm(&next(), channels)?;
        Ok(Self {
            temporal,
            attention,
            views,
            feed_forward: FeedForward::read(reader, &feed_forward, channels, norm)?,
            refinement: Refinement::read(reader, &next(), facts)?,
        })
    }
}

/// An attention among rows `[f, e]` of 2C columns.
#[derive(Clone, Debug)]
pub struct GraphAttention {
    /// Queries from `[f, e]`, `[2C, 2C]`.
    pub queries: LinearLayer,
    /// Keys from `[f', e']`, `[2C, 2C]`.
    pub keys: LinearLayer,
    /// Values from `f'`, `[2C, C]`.
    pub values: LinearLayer,
    /// Values from `[f, e]`, `[2C, 2C]`: those of temporal attention without a memory.
    pub unfolded_values: LinearLayer,
    /// The new feature from `[attention, f, e]`, `[C, 4C]`.
    pub output: LinearLayer,
}

impl GraphAttention {
    fn read(
        reader: &mut Reader<'_>,
        name: &str,
        channels: usize,
        [before, after]: [&DMatrix<f64>; 2],
        finish: Finish,
    ) -> Result<Self> {
        let attention = reader.attention(name, 2 * channels)?;
        let output = Affine {
            weights: side_by_side([&(after * &attention.output.weights), after]),
            bias: after * &attention.output.bias,
        };
        Ok(Self {
            queries: attention.queries.layer(Finish::None)?,
            keys: attention.keys.layer(Finish::None)?,
            values: attention.values.after(before).layer(Finish::None)?,
            unfolded_values: attention.values.layer(Finish::None)?,
            output: output.layer(finish)?,
        })
    }
}

/// Sampling of the views.
#[derive(Clone, Debug)]
pub struct ViewAttention {
    /// Shares of the extents at which the first key points are.
    pub fixed_points: Vec<[f32; 3]>,
    /// Logits of the shares of the other key points from `f`, `[3 P', C]`.
    pub learned_points: LinearLayer,
    /// Logits of the weights from `f + e`, `[L * P * G, C]`.
    pub weight_logits: LinearLayer,
    /// What a view adds to them, from the 12 numbers of its matrix in pixels: to C, to C,
    /// each with ReLU and then a normalization, and to the logits, without a bias.
    pub view_logits: [LinearLayer; 3],
    /// The output `W_p g`, `[C, C]`.
    pub output: LinearLayer,
}

impl ViewAttention {
    fn read(reader: &mut Reader<'_>, name: &str, facts: &Sparse4d) -> Result<Self> {
        let channels = facts.num_channels;
        let fixed = format!("{name}.kps_generator.fix_scale");
        let [num_fixed, _] = reader.shape(&fixed)?;
        let fixed = reader.values(&fixed, &[num_fixed, 3])?;
        let learned = format!("{name}.kps_generator.learnable_fc");
        let [num_outputs, _] = reader.shape(&format!("{learned}.weight"))?;
        let learned_points = reader.layer(&learned, [num_outputs, channels], Finish::None)?;
        if !num_outputs.is_multiple_of(3) {
            return refuse(format!("{learned} has {num_outputs} outputs, no multiple of 3"));
        }
        let mut camera = |layer: usize, num_inputs: usize| {
            let names = [layer, layer + 2].map(|index| format!("{name}.camera_encoder.{index}"));
            let names = [names[0].as_str(), names[1].as_str()];
            reader.layer_and_norm(names, [channels, num_inputs], Finish::ReluNorm)
        };
        let (first, second) = (camera(0, 12)?, camera(3, channels)?);
        let num_points = num_fixed + num_outputs / 3;
        let num_logits = facts.num_levels * num_points * facts.num_groups;
        let weights = reader.affine(&format!("{name}.weights_fc"), [num_logits, channels])?;
        Ok(Self {
            fixed_points: fixed.as_chunks().0.to_vec(),
            learned_points,
            weight_logits: weights.layer(Finish::None)?,
            view_logits: [first, second, weights.unbiased_layer()?],
            output: reader.layer(&format!("{name}.output_proj"), [channels; 2], Finish::None)?,
        })
    }

    /// Key points of an anchor.
    pub fn num_points(&self) -> usize {
        self.fixed_points.len() + self.learned_points.num_outputs() / 3
    }
}

/// The feed-forward layers.
#[derive(Clone, Debug)]
pub struct FeedForward {
    /// The normalization of `[W_p g, f]`, 2C channels: `h`.
    pub norm: LayerNorm,
    /// From `h` through any width, ReLU.
    pub hidden: LinearLayer,
    /// From `[h, hidden]` to C, normalized.
    pub output: LinearLayer,
}

impl FeedForward {
    fn read(reader: &mut Reader<'_>, name: &str, channels: usize, norm: LayerNorm) -> Result<Self> {
        let hidden = format!("{name}.layers.0.0");
        let [width, _] = reader.shape(&format!("{hidden}.weight"))?;
        let last = reader.affine(&format!("{name}.layers.1"), [channels, width])?;
        let identity = reader.affine(&format!("{name}.identity_fc"), [channels, 2 * channels])?;
        let output = Affine {
            weights: side_by_side([&identity.weights, &last.weights]),
            bias: identity.bias + last.bias,
        };
        Ok(Self {
            norm: reader.norm(&format!("{name}.pre_norm"), 2 * channels)?,
            hidden: reader.layer(&hidden, [width, 2 * channels], Finish::Relu)?,
            output: output.layer(Finish::Norm(norm))?,
        })
    }
}

/// The refinement of anchors and the heads of a block.
#[derive(Clone, Debug)]
pub struct Refinement {
    /// Deltas from `f + e`: to C, ReLU, to C, ReLU and normalized, the same again, to 11.
    pub deltas: [LinearLayer; 5],
    /// Class logits from `f`: to C, ReLU and normalized, twice, then to the classes.
    pub classes: [LinearLayer; 3],
    /// Logits of centreness and yawness from `f + e`, in the same way.
    pub quality: Option<[LinearLayer; 3]>,
}

impl Refinement {
    fn read(reader: &mut Reader<'_>, name: &str, facts: &Sparse4d) -> Result<Self> {
        let channels = facts.num_channels;
        let square = [channels; 2];
        let mut pair = |layer: usize| {
            let names = [layer, layer + 2, layer + 4].map(|i| format!("{name}.layers.{i}"));
            let first = reader.layer(&names[0], square, Finish::Relu)?;
            let names = [names[1].as_str(), names[2].as_str()];
            Ok([first, reader.layer_and_norm(names, square, Finish::ReluNorm)?])
        };
        let [[a, b], [c, d]] = [pair(0)?, pair(5)?];
        let mut last = reader.affine(&format!("{name}.layers.10"), [11, channels])?;
        let scale = reader.vector(&format!("{name}.layers.11.scale"), 11)?;
        last.weights.row_iter_mut().zip(&scale).for_each(|(mut row, scale)| row *= *scale);
        last.bias.component_mul_assign(&scale);
        let mut head = |head: &str, num_outputs: usize| {
            let name = format!("{name}.{head}_layers");
            let mut hidden = |layer: usize| {
                let names = [layer, layer + 2].map(|index| format!("{name}.{index}"));
                reader.layer_and_norm([&names[0], &names[1]], square, Finish::ReluNorm)
            };
            let (first, second) = (hidden(0)?, hidden(3)?);
            let last = reader.layer(&format!("{name}.6"), [num_outputs, channels], Finish::None)?;
            Ok([first, second, last])
        };
        let classes = head("cls", facts.num_classes)?;
        let quality = facts.has_quality.then(|| head("quality", 2)).transpose()?;
        Ok(Self { deltas: [a, b, c, d, last.layer(Finish::None)?], classes, quality })
    }
}
