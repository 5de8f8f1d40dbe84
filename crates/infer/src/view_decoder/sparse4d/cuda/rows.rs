//! The memory of a Sparse4D decoder on a GPU: rows of the anchors, and those of past frames.

use super::super::Network;
use det_post_ops::device::cuda::{DeviceBuffer, Stream};
use det_post_ops::view::attention::cuda::{AttentionElement, value_stride};
use det_post_ops::view::layer_stack::cuda::StackElement;
use det_post_ops::view::linear::cuda::DeviceRows;
use det_post_ops::view::sample::cuda::PointElement;
use det_post_ops::view::top_rows::cuda::RowElement;
use det_post_types::{QueryBox, Result, Sparse4d};

/// Elements of the activations: f32 or f16. Sums, normalizations, key points, boxes, confidences
/// and results are f32 in both.
pub trait Activation: AttentionElement + PointElement + StackElement + RowElement {}
impl<T: AttentionElement + PointElement + StackElement + RowElement> Activation for T {}

pub(super) const BOX_LEN: usize = size_of::<QueryBox>() / size_of::<f32>();
/// The first value of a box that is divided by the interval: the velocity.
pub(super) const FIRST_DIVIDED: u32 = 8;
/// Where the interval is in the values of a frame, after the rows of the motion.
pub(super) const INTERVAL: usize = 12;

/// The state before the first block.
pub(super) struct Start<T> {
    pub features: DeviceRows<T>,
    pub anchors: DeviceBuffer<f32>,
    pub embeddings: DeviceRows<T>,
    pub sampling: SamplingRows<T>,
}

/// What view sampling reads and is joined to.
pub(super) struct SamplingRows<T> {
    pub learned_points: DeviceBuffer<f32>,
    pub weight_logits: DeviceRows<T>,
    /// The output of the sampling beside the features.
    pub wide: DeviceRows<T>,
}

/// Rows of the anchors.
pub(super) struct Buffers<T> {
    /// After a block.
    pub features: DeviceRows<T>,
    /// After the anchors of the memory have joined.
    pub joined: DeviceRows<T>,
    pub joined_anchors: DeviceBuffer<f32>,
    /// Embeddings of the anchors that even and odd blocks read; the first block has its own.
    pub embeddings: [DeviceRows<T>; 2],
    pub queries: DeviceRows<T>,
    pub keys: DeviceRows<T>,
    pub values: DeviceBuffer<T>,
    pub cached_values: DeviceBuffer<T>,
    pub attended: DeviceRows<T>,
    /// After the temporal attention.
    pub temporal: DeviceRows<T>,
    /// After the attention, before its normalization.
    pub attended_features: DeviceRows<T>,
    /// Of the blocks after the first, which has its own.
    pub sampling: SamplingRows<T>,
    pub gathered: DeviceRows<T>,
    /// The output of the sampling beside the features, normalized.
    pub normalized: DeviceRows<T>,
    pub hidden: DeviceRows<T>,
    /// After a block, before its normalization.
    pub output: DeviceRows<T>,
}

/// The anchors that the next frame joins.
pub(super) struct Memory<T> {
    pub is_empty: bool,
    pub features: DeviceRows<T>,
    pub anchors: DeviceBuffer<f32>,
    pub confidence: DeviceBuffer<f32>,
    pub next_confidence: DeviceBuffer<f32>,
    /// The rows that stay beside the cached ones.
    pub kept_rows: DeviceBuffer<u32>,
    /// The rows that were cached last.
    pub cached_rows: DeviceBuffer<u32>,
}

impl<T: Activation> SamplingRows<T> {
    pub(super) fn new(stream: &Stream, network: &Network) -> Result<Self> {
        let &Sparse4d { num_anchors, num_channels, num_levels, num_groups, .. } = network.facts();
        let views = network.blocks().iter().map(|block| &block.views);
        let num_points = views.clone().map(|views| views.num_points()).max().unwrap_or(0);
        let num_learned = views.map(|views| views.learned_points.num_outputs()).max();
        let rows = |columns| DeviceRows::zeros(stream, num_anchors, columns);
        Ok(Self {
            learned_points: DeviceBuffer::zeros(stream, num_anchors * num_learned.unwrap_or(0))?,
            weight_logits: rows(num_levels * num_points * num_groups)?,
            wide: rows(2 * num_channels)?,
        })
    }
}

impl<T: Activation> Buffers<T> {
    pub(super) fn new(stream: &Stream, network: &Network, hidden: usize) -> Result<Self> {
        let &Sparse4d { num_anchors, num_cached, num_channels, .. } = network.facts();
        let rows = |columns| DeviceRows::zeros(stream, num_anchors, columns);
        let values = |num| DeviceBuffer::zeros(stream, 2 * num_channels * value_stride(num));
        Ok(Self {
            features: rows(num_channels)?,
            joined: rows(num_channels)?,
            joined_anchors: DeviceBuffer::zeros(stream, num_anchors * BOX_LEN)?,
            embeddings: [rows(num_channels)?, rows(num_channels)?],
            queries: rows(2 * num_channels)?,
            keys: rows(2 * num_channels)?,
            values: values(num_anchors)?,
            cached_values: values(num_cached)?,
            attended: rows(2 * num_channels)?,
            temporal: rows(num_channels)?,
            attended_features: rows(num_channels)?,
            sampling: SamplingRows::new(stream, network)?,
            gathered: rows(num_channels)?,
            normalized: rows(2 * num_channels)?,
            hidden: rows(hidden)?,
            output: rows(num_channels)?,
        })
    }
}

impl<T: Activation> Memory<T> {
    /// An empty memory.
    pub(super) fn new(stream: &Stream, facts: &Sparse4d) -> Result<Self> {
        let &Sparse4d { num_anchors, num_cached, num_channels, .. } = facts;
        Ok(Self {
            is_empty: true,
            features: DeviceRows::zeros(stream, num_cached, num_channels)?,
            anchors: DeviceBuffer::zeros(stream, num_cached * BOX_LEN)?,
            confidence: DeviceBuffer::zeros(stream, num_cached)?,
            next_confidence: DeviceBuffer::zeros(stream, num_cached)?,
            kept_rows: DeviceBuffer::zeros(stream, num_anchors - num_cached)?,
            cached_rows: DeviceBuffer::zeros(stream, num_cached)?,
        })
    }
}
