//! The weights of a Sparse4D decoder in device memory.

use super::super::{AnchorEncoder, Block, GraphAttention};
use super::encoder::columns;
use crate::view_decoder::STAGE;
use det_post_ops::device::cuda::{DeviceBuffer, Stream};
use det_post_ops::view::layer_norm::LayerNorm;
use det_post_ops::view::layer_stack::cuda::{DeviceStack, StackElement};
use det_post_ops::view::layer_stack::folded::FoldedStacks;
use det_post_ops::view::linear::LinearLayer;
use det_post_ops::view::linear::cuda::{DeviceLayer, FirstPart, device_norm};
use det_post_types::{Error, ErrorKind, Result};

/// An attention among rows `[f, e]`.
pub(super) struct DeviceAttention {
    pub queries: DeviceLayer,
    pub keys: DeviceLayer,
    pub values: DeviceLayer,
    /// The values of temporal attention without a memory.
    pub unfolded_values: DeviceLayer,
    pub output: DeviceLayer,
    /// After the output, where there is one.
    pub norm: Option<DeviceBuffer<f32>>,
}

/// A block.
pub(super) struct DeviceBlock<T: StackElement> {
    pub temporal: Option<DeviceAttention>,
    pub attention: Option<DeviceAttention>,
    /// `[P', 3]` shares of the extents.
    pub fixed_points: DeviceBuffer<f32>,
    pub learned_points: DeviceLayer,
    pub weight_logits: DeviceLayer,
    pub view_logits: DeviceStack,
    pub view_output: DeviceLayer,
    pub feed_forward: [DeviceLayer; 2],
    /// Before the feed-forward layers, and after them.
    pub norms: [DeviceBuffer<f32>; 2],
    pub deltas: DeviceStack,
    /// The deltas and the encoder of the refined anchors in one launch, where another block follows
    /// and the GPU and the network allow it.
    pub refinement: Option<FoldedStacks<T>>,
    /// The deltas, the classes and, in the last block, the quality in one launch, likewise.
    pub outputs: Option<FoldedStacks<T>>,
    pub classes: DeviceStack,
    pub quality: Option<DeviceStack>,
}

impl DeviceAttention {
    fn new<T: StackElement>(stream: &Stream, attention: &GraphAttention) -> Result<Self> {
        let layer = |layer: &LinearLayer| DeviceLayer::folded::<T>(stream, layer, None);
        let norm = attention.output.finish().norm();
        Ok(Self {
            queries: layer(&attention.queries)?,
            keys: layer(&attention.keys)?,
            values: layer(&attention.values)?,
            unfolded_values: layer(&attention.unfolded_values)?,
            output: layer(&attention.output)?,
            norm: norm.map(|norm| device_norm(stream, norm)).transpose()?,
        })
    }

    fn num_bytes(&self) -> usize {
        let layers = [&self.queries, &self.keys, &self.values, &self.unfolded_values, &self.output];
        layers.into_iter().map(DeviceLayer::num_bytes).sum()
    }
}

impl<T: StackElement> DeviceBlock<T> {
    /// Packs a block; `encoder` is absent for the last. `classifies`: whether the block gives
    /// classes.
    pub(super) fn new(
        stream: &Stream,
        block: &Block,
        encoder: Option<&AnchorEncoder>,
        classifies: bool,
    ) -> Result<Self> {
        let layer = |layer: &LinearLayer| DeviceLayer::folded::<T>(stream, layer, None);
        let after_norm = |layer: &LinearLayer, norm: Option<&LayerNorm>, has_addend| {
            let first = norm.map(|norm| FirstPart { norm, has_addend });
            DeviceLayer::folded::<T>(stream, layer, first)
        };
        let attention = |attention: &Option<GraphAttention>| {
            let attention = attention.as_ref();
            attention.map(|attention| DeviceAttention::new::<T>(stream, attention)).transpose()
        };
        let Block { views, feed_forward, refinement, .. } = block;
        let fixed = views.fixed_points.as_flattened();
        let mut fixed_points = DeviceBuffer::zeros(stream, fixed.len())?;
        fixed_points.write(fixed)?;
        let Some(after) = feed_forward.output.finish().norm() else {
            let message = "the feed-forward layers have no normalization";
            return Err(Error::new(ErrorKind::Model, STAGE, message));
        };
        let quality = refinement.quality.as_ref();
        let mut outputs = vec![&refinement.deltas[..], &refinement.classes];
        outputs.extend(quality.filter(|_| encoder.is_none()).map(|quality| &quality[..]));
        let of_attention = block.attention.as_ref().and_then(|a| a.output.finish().norm());
        Ok(Self {
            temporal: attention(&block.temporal)?,
            attention: attention(&block.attention)?,
            fixed_points,
            learned_points: after_norm(&views.learned_points, of_attention, false)?,
            weight_logits: after_norm(&views.weight_logits, of_attention, true)?,
            view_logits: DeviceStack::of_columns::<T>(stream, &views.view_logits)?,
            view_output: layer(&views.output)?,
            feed_forward: [
                after_norm(&feed_forward.hidden, Some(&feed_forward.norm), false)?,
                layer(&feed_forward.output)?,
            ],
            norms: [device_norm(stream, &feed_forward.norm)?, device_norm(stream, after)?],
            deltas: DeviceStack::new::<T>(stream, &refinement.deltas)?,
            refinement: match encoder {
                Some(encoder) => {
                    FoldedStacks::new(stream, &[&refinement.deltas], &columns(encoder))?
                }
                None => None,
            },
            outputs: match classifies {
                true => FoldedStacks::new(stream, &outputs, &[])?,
                false => None,
            },
            classes: DeviceStack::new::<T>(stream, &refinement.classes)?,
            quality: quality.map(|q| DeviceStack::new::<T>(stream, q)).transpose()?,
        })
    }

    /// Bytes of device memory.
    pub(super) fn num_bytes(&self) -> usize {
        let attentions = [&self.temporal, &self.attention].into_iter().flatten();
        let layers = [&self.learned_points, &self.weight_logits, &self.view_output];
        let layers = layers.into_iter().chain(&self.feed_forward);
        let stacks = [&self.view_logits, &self.deltas, &self.classes];
        let stacks = stacks.into_iter().chain(&self.quality);
        attentions.map(DeviceAttention::num_bytes).sum::<usize>()
            + layers.map(DeviceLayer::num_bytes).sum::<usize>()
            + stacks.map(DeviceStack::num_bytes).sum::<usize>()
            + self.refinement.as_ref().map_or(0, FoldedStacks::num_bytes)
            + self.outputs.as_ref().map_or(0, FoldedStacks::num_bytes)
    }
}
