//! DETR3D: queries with a reference point each, refined block by block.
//!
//! A block, with C channels, content `x` and position `pos` of the queries, and
//! references `r` in 0 to 1 of the range:
//!
//! | step | |
//! |---|---|
//! | attention | `x = LN(W_o attention(x + pos, x + pos, x) + b_o + x)` |
//! | view sampling | `x = LN(W_p view_sample(r, sigmoid(W_a (x + pos) + b_a)) + b_p + x + PE(r))` |
//! | feed forward | `x = LN(W_4 ReLU(W_3 x + b_3) + b_4 + x)` |
//! | refinement | `d = W_7 ReLU(W_6 ReLU(W_5 x))`, `r = sigmoid(d[0, 1, 4] + inverse_sigmoid(r))` |
//!
//! `PE(r) = ReLU LN(W_2 ReLU LN(W_1 inverse_sigmoid(r)))`. After the last block a head
//! gives class logits, and the boxes are read from `r` and `d`.
//!
//! `pos` is a constant, so that its part of the queries, the keys and the logits of the
//! weights is one, too: `W (x + pos) + b = W x + (W pos + b)`, the bracket one row per
//! query, folded in f64.
//!
//! Tensors are those of the published state dict without `pts_bbox_head.`; class
//! branches before the last block are not used and have to be left out. In place of
//! `transformer.reference_points`, its constant result `reference_points`, `[Q, 3]` in 0 to 1,
//! is read, too.
//!
//! The last layer of the refinement has 8 outputs or more: without the last two of 10 the
//! velocity is 0, what is after 10 is not computed.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

pub use cpu::CpuDecoder;
#[cfg(feature = "cuda")]
pub use cuda::{Activation, CudaDecoder};

use nalgebra::DMatrix;

use super::reader::{Affine, Reader, rounded};
use super::refuse;
use crate::safetensors::SafeTensors;
use det_post_ops::decode::logit::sigmoid;
use det_post_ops::view::linear::{Finish, LinearLayer};
use det_post_types::{AttentionResidual, Detr3d, Result};

/// The references before the first block, where a file has them in place of the layer that gives
/// them.
const REFERENCES: &str = "reference_points";

/// The outputs of the refinement that are computed.
const NUM_REGRESSED: usize = 10;
/// The widths of the refinement that are read: from centre, extents and yaw.
const REGRESSION_WIDTHS: std::ops::RangeInclusive<usize> = 8..=64;

/// A DETR3D decoder in f32, folded.
#[derive(Clone, Debug)]
pub struct Network {
    facts: Detr3d,
    start: Start,
    blocks: Vec<Block>,
    classes: [LinearLayer; 3],
}

/// What the queries are before the first block.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Contents, `[Q, C]`.
    pub contents: Vec<f32>,
    /// Positions, `[Q, C]`.
    pub positions: Vec<f32>,
    /// References in 0 to 1 of the range, `[Q]`.
    pub references: Vec<[f32; 3]>,
}

/// A block; Q queries, C channels, N views, L levels.
#[derive(Clone, Debug)]
pub struct Block {
    /// Queries, keys and values from `x`, `[3C, C]`, without a bias.
    pub in_projection: LinearLayer,
    /// What is added to them, `[Q, 3C]`: `W_q pos + b_q`, `W_k pos + b_k`, `b_v`.
    pub in_offsets: Vec<f32>,
    /// The output of the attention, `[C, C]`, normalized.
    pub attention_output: LinearLayer,
    /// Logits of the weights, `[N * L, C]`, view by view, without a bias.
    pub weight_logits: LinearLayer,
    /// What is added to them, `[Q, N * L]`: `W_a pos + b_a`.
    pub weight_offsets: Vec<f32>,
    /// The output of view sampling, `[C, C]`, normalized.
    pub view_output: LinearLayer,
    /// PE: from 3 to C to C, normalized, ReLU.
    pub position_encoder: [LinearLayer; 2],
    /// From C through any width, ReLU, to C, normalized.
    pub feed_forward: [LinearLayer; 2],
    /// From C to C, ReLU, to C, ReLU, to 10, whatever the width in the file.
    pub regression: [LinearLayer; 3],
}

impl Start {
    /// The constants of a state dict: `query_embedding` (positions first, then contents)
    /// and `transformer.reference_points`.
    fn read(reader: &mut Reader<'_>, facts: &Detr3d) -> Result<Self> {
        let &Detr3d { num_queries, num_channels, .. } = facts;
        let shape = [num_queries, 2 * num_channels];
        let embedding = reader.matrix("query_embedding.weight", shape)?;
        let positions = embedding.columns(0, num_channels).into_owned();
        let contents = embedding.columns(num_channels, num_channels).into_owned();
        let references = if reader.has(REFERENCES) {
            let values = reader.values(REFERENCES, &[num_queries, 3])?;
            if values.iter().any(|value| !(0.0..=1.0).contains(value)) {
                return refuse(format!("tensor {REFERENCES} has values outside 0 to 1"));
            }
            values.as_chunks().0.to_vec()
        } else {
            let points = reader.affine("transformer.reference_points", [3, num_channels])?;
            let logits = points.of_constants(&positions);
            logits.as_chunks().0.iter().map(|row: &[f32; 3]| row.map(sigmoid)).collect()
        };
        Ok(Self { contents: rounded(&contents), positions: rounded(&positions), references })
    }

    fn fits(&self, facts: &Detr3d) -> bool {
        let len = facts.num_queries * facts.num_channels;
        self.contents.len() == len
            && self.positions.len() == len
            && self.references.len() == facts.num_queries
    }
}

impl Network {
    /// Reads a decoder and its start from the tensors of a state dict.
    ///
    /// # Errors
    /// `Model` when the facts contradict each other, or a tensor is missing, left over,
    /// of another shape or not finite; the message names it.
    pub fn read(tensors: &SafeTensors<'_>, facts: Detr3d) -> Result<Self> {
        check(&facts)?;
        let mut reader = Reader::new(tensors);
        let start = Start::read(&mut reader, &facts)?;
        Self::read_blocks(reader, facts, start)
    }

    /// Reads a decoder from the tensors of a state dict without the constants of the
    /// start, which are given.
    ///
    /// # Errors
    /// As [`Self::read`], and when the start does not fit the facts.
    pub fn with_start(tensors: &SafeTensors<'_>, facts: Detr3d, start: Start) -> Result<Self> {
        check(&facts)?;
        if !start.fits(&facts) {
            let lens = (start.contents.len(), start.positions.len(), start.references.len());
            return refuse(format!("a start of {lens:?} values does not fit {facts:?}"));
        }
        Self::read_blocks(Reader::new(tensors), facts, start)
    }

    fn read_blocks(mut reader: Reader<'_>, facts: Detr3d, start: Start) -> Result<Self> {
        let &Detr3d { num_blocks, num_channels, num_classes, num_queries, .. } = &facts;
        let positions = start.positions.iter().map(|&x| f64::from(x));
        let positions = DMatrix::from_row_iterator(num_queries, num_channels, positions);
        let blocks =
            (0..num_blocks).map(|index| Block::read(&mut reader, index, &facts, &positions));
        let blocks = blocks.collect::<Result<_>>()?;
        let name = format!("cls_branches.{}", num_blocks - 1);
        let square = [num_channels; 2];
        let mut hidden = |layer: usize| {
            let names = [layer, layer + 1].map(|index| format!("{name}.{index}"));
            reader.layer_and_norm([&names[0], &names[1]], square, Finish::NormRelu)
        };
        let (first, second) = (hidden(0)?, hidden(3)?);
        let last = reader.layer(&format!("{name}.6"), [num_classes, num_channels], Finish::None)?;
        reader.finish()?;
        Ok(Self { facts, start, blocks, classes: [first, second, last] })
    }

    /// The facts.
    pub fn facts(&self) -> &Detr3d {
        &self.facts
    }

    /// What the queries are before the first block.
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// The blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The head of the classes: from C to C, normalized, ReLU, twice, then to the logits.
    pub fn classes(&self) -> &[LinearLayer; 3] {
        &self.classes
    }
}

impl Block {
    fn read(
        reader: &mut Reader<'_>,
        index: usize,
        facts: &Detr3d,
        positions: &DMatrix<f64>,
    ) -> Result<Self> {
        let channels = facts.num_channels;
        let square = [channels; 2];
        let name = format!("transformer.decoder.layers.{index}");
        let norm = |reader: &mut Reader<'_>, index: usize| {
            Ok(Finish::Norm(reader.norm(&format!("{name}.norms.{index}"), channels)?))
        };

        let attention = reader.attention(&format!("{name}.attentions.0"), channels)?;
        let in_projection =
            Affine::stacked(&[&attention.queries, &attention.keys, &attention.values]);
        // Values are only of the content.
        let mut of_position = in_projection.clone();
        of_position.weights.rows_mut(2 * channels, channels).fill(0.0);

        let views = format!("{name}.attentions.1");
        let num_logits = facts.num_views * facts.num_levels;
        let weights =
            reader.affine(&format!("{views}.attention_weights"), [num_logits, channels])?;
        let encoder = |reader: &mut Reader<'_>, layer: usize, num_inputs: usize| {
            let names = [layer, layer + 1].map(|index| format!("{views}.position_encoder.{index}"));
            let names = [names[0].as_str(), names[1].as_str()];
            reader.layer_and_norm(names, [channels, num_inputs], Finish::NormRelu)
        };
        let position_encoder = [encoder(reader, 0, 3)?, encoder(reader, 3, channels)?];

        let hidden = format!("{name}.ffns.0.layers.0.0");
        let [width, _] = reader.shape(&format!("{hidden}.weight"))?;
        let hidden = reader.layer(&hidden, [width, channels], Finish::Relu)?;
        let after_norms = [norm(reader, 0)?, norm(reader, 1)?, norm(reader, 2)?];
        let [after_attention, after_views, after_feed_forward] = after_norms;
        let feed_forward = format!("{name}.ffns.0.layers.1");
        let feed_forward = reader.layer(&feed_forward, [channels, width], after_feed_forward)?;
        let regression = |reader: &mut Reader<'_>, layer: usize, num_outputs: usize, finish| {
            let name = format!("reg_branches.{index}.{layer}");
            reader.layer(&name, [num_outputs, channels], finish)
        };
        Ok(Self {
            in_offsets: of_position.of_constants(positions),
            in_projection: in_projection.unbiased_layer()?,
            attention_output: attention.output.layer(after_attention)?,
            weight_offsets: weights.of_constants(positions),
            weight_logits: weights.unbiased_layer()?,
            view_output: reader.layer(&format!("{views}.output_proj"), square, after_views)?,
            position_encoder,
            feed_forward: [hidden, feed_forward],
            regression: [
                regression(reader, 0, channels, Finish::Relu)?,
                regression(reader, 2, channels, Finish::Relu)?,
                last_regression(reader, &format!("reg_branches.{index}.4"), channels)?,
            ],
        })
    }
}

/// The last layer of the refinement, of any width, with [`NUM_REGRESSED`] outputs: those that it
/// lacks are 0.
fn last_regression(reader: &mut Reader<'_>, name: &str, channels: usize) -> Result<LinearLayer> {
    let [width, _] = reader.shape(&format!("{name}.weight"))?;
    if !REGRESSION_WIDTHS.contains(&width) {
        let allowed = format!("{} to {}", REGRESSION_WIDTHS.start(), REGRESSION_WIDTHS.end());
        return refuse(format!("tensor {name}.weight has {width} rows; allowed: {allowed}"));
    }
    reader.affine(name, [width, channels])?.with_outputs(NUM_REGRESSED).layer(Finish::None)
}

/// Whether the residual of the attention is only the content.
fn adds_position(facts: &Detr3d) -> bool {
    facts.attention_residual == AttentionResidual::QueryWithPosition
}

fn check(facts: &Detr3d) -> Result<()> {
    let &Detr3d { num_views, num_levels, num_channels, num_heads, .. } = facts;
    let &Detr3d { num_queries, num_blocks, num_classes, range, min_depth_m, .. } = facts;
    let counts =
        [num_views, num_levels, num_channels, num_heads, num_queries, num_blocks, num_classes];
    let fits = counts.iter().all(|&count| (1..=LinearLayer::MAX_CHANNELS).contains(&count))
        && num_channels.is_multiple_of(num_heads)
        && (0..3).all(|axis| range.min[axis] < range.max[axis])
        && min_depth_m > 0.0
        && min_depth_m.is_finite();
    if fits { Ok(()) } else { refuse(format!("these facts contradict each other: {facts:?}")) }
}
