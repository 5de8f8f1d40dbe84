//! Sparse4D v3: anchors that are refined block by block, the best of which join those of
//! the next frame.
//!
//! With C channels, feature `f`, box `a` and embedding `e = encode(a)` of an anchor, a
//! block has some of these steps:
//!
//! | step | blocks | |
//! |---|---|---|
//! | temporal attention | after the single-frame blocks | `f = F_a (q + attention(q, [f', e'], F_b f'))`, `q = [f, e]` |
//! | attention | all but the first | the same among the anchors; then `f = LN(f)` |
//! | view sampling | all | key points of `a`, weights from `f + e` and the cameras; `h = LN([W_p g, f])` |
//! | feed forward | all | `f = LN(W_i h + W_4 ReLU(W_3 h))` |
//! | refinement | all | `a = a + d(f + e)`, the velocity's part over the interval; `e = encode(a)` |
//!
//! `f'`, `a'` are those of the cached anchors, `e'` the embeddings of the first as many
//! anchors, which the cached ones become after the single-frame blocks: there the best
//! anchors by class logit stay beside them. Without a memory temporal attention is
//! among the anchors themselves, its values `[f, e]` without `F_b`, as in the published
//! code. After the last block the anchors with the highest confidence are cached.
//!
//! Folded in f64: `F_b` into the projection of values; `F_a` into that of the output,
//! which then reads `[attention, f, e]`; the two sums of the feed-forward layers into
//! one; the scale after the refinement into its last layer; the part of the weights that
//! depends only on the camera, `W c_n`, into rows of logits that change with the
//! calibration.
//!
//! Tensors are those of the published state dict without `head.` (and without
//! `instance_bank.anchor_handler.fix_scale`, which is stored twice).

mod block;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod memory;

pub use block::{AnchorEncoder, Block, FeedForward, GraphAttention, Refinement, ViewAttention};
pub use cpu::CpuDecoder;
#[cfg(feature = "cuda")]
pub use cuda::{Activation, CudaDecoder};
pub use memory::AnchorMemory;

use super::reader::Reader;
use super::refuse;
use crate::safetensors::SafeTensors;
use det_post_ops::view::linear::LinearLayer;
use det_post_types::{QueryBox, Result, Sparse4d};

/// A Sparse4D decoder in f32, folded.
#[derive(Clone, Debug)]
pub struct Network {
    facts: Sparse4d,
    anchors: Vec<QueryBox>,
    features: Vec<f32>,
    encoder: AnchorEncoder,
    blocks: Vec<Block>,
}

impl Network {
    /// Reads a decoder from the tensors of a state dict.
    ///
    /// # Errors
    /// `Model` when the facts contradict each other, or a tensor is missing, left over,
    /// of another shape or not finite; the message names it.
    pub fn read(tensors: &SafeTensors<'_>, facts: Sparse4d) -> Result<Self> {
        check(&facts)?;
        let &Sparse4d { num_anchors, num_channels, .. } = &facts;
        let mut reader = Reader::new(tensors);
        let anchors = reader.values("instance_bank.anchor", &[num_anchors, 11])?;
        let shape = [num_anchors, num_channels];
        let features = reader.values("instance_bank.instance_feature", &shape)?;
        let encoder = AnchorEncoder::read(&mut reader, num_channels)?;
        let before = reader.matrix("fc_before.weight", [2 * num_channels, num_channels])?;
        let after = reader.matrix("fc_after.weight", [num_channels, 2 * num_channels])?;
        let mut layer = 0;
        let blocks = (0..facts.num_blocks)
            .map(|index| Block::read(&mut reader, index, &mut layer, &facts, [&before, &after]));
        let blocks = blocks.collect::<Result<_>>()?;
        reader.finish()?;
        Ok(Self { anchors: anchors.as_chunks().0.to_vec(), features, encoder, blocks, facts })
    }

    /// The facts.
    pub fn facts(&self) -> &Sparse4d {
        &self.facts
    }

    /// The anchors before the first block.
    pub fn anchors(&self) -> &[QueryBox] {
        &self.anchors
    }

    /// Their features, `[Q, C]`.
    pub fn features(&self) -> &[f32] {
        &self.features
    }

    /// The encoder of anchors.
    pub fn encoder(&self) -> &AnchorEncoder {
        &self.encoder
    }

    /// The blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }
}

fn check(facts: &Sparse4d) -> Result<()> {
    let &Sparse4d { num_views, num_levels, num_channels, num_heads, num_groups, .. } = facts;
    let &Sparse4d { num_anchors, num_cached, num_blocks, num_single_frame_blocks, .. } = facts;
    let counts = [
        num_views,
        num_levels,
        num_channels,
        num_heads,
        num_groups,
        num_anchors,
        num_cached,
        num_blocks,
        num_single_frame_blocks,
        facts.num_classes,
    ];
    let fits = counts.iter().all(|&count| (1..=LinearLayer::MAX_CHANNELS).contains(&count))
        && (2 * num_channels).is_multiple_of(num_heads)
        && num_channels.is_multiple_of(num_groups)
        && num_cached < num_anchors
        && num_single_frame_blocks < num_blocks
        && facts.min_depth_m > 0.0
        && facts.min_depth_m.is_finite()
        && (0.0..=1.0).contains(&facts.confidence_decay)
        && facts.default_interval_s > 0.0;
    if fits { Ok(()) } else { refuse(format!("these facts contradict each other: {facts:?}")) }
}
