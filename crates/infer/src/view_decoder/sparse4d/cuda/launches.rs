//! The launches of a frame.

use super::rows::{Buffers, SamplingRows, Start};
use super::weights::{DeviceAttention, DeviceBlock};
use super::{Activation, CudaDecoder};
use det_post_ops::device::cuda::{DeviceBuffer, In, Out, Stream};
use det_post_ops::view::attention::cuda::{
    AttentionArgs, AttentionKernel, score_scale, value_stride,
};
use det_post_ops::view::layer_stack::cuda::{MAX_JOBS, StackArgs};
use det_post_ops::view::linear::cuda::{DeviceRows, JobArgs, LinearKernels, PartArgs};
use det_post_ops::view::sample::cuda::{DeviceMaps, PointsArgs};
use det_post_ops::view::top_rows::cuda::TopRowsArgs;
use det_post_types::{CachedYaw, Result, Sparse4d};

/// The rows that an attention reads and writes, beside the features.
struct AttentionRows<'a, T> {
    queries: &'a mut DeviceRows<T>,
    keys: &'a mut DeviceRows<T>,
    /// Transposed.
    values: &'a mut DeviceBuffer<T>,
    attended: &'a mut DeviceRows<T>,
    output: &'a mut DeviceRows<T>,
}

/// The keys of an attention: features and embeddings of the first rows.
struct Keys<'a, T> {
    features: PartArgs<'a, T>,
    embeddings: PartArgs<'a, T>,
    num: usize,
    values: Values,
}

/// The values of an attention.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    /// Of features and embeddings.
    OfBoth,
    OfFeatures,
    /// Computed before.
    Given,
}

impl<T: Activation> CudaDecoder<T> {
    /// Attention to the memory, then among the anchors, in the blocks that have them.
    pub(super) fn enqueue_attentions(&mut self, index: usize, uses_memory: bool) -> Result<()> {
        let facts = self.network.facts();
        let &Sparse4d { num_anchors, num_cached, .. } = facts;
        let is_joined = uses_memory && index == facts.num_single_frame_blocks;
        let Self { stream, blocks, rows, memory, kernels, .. } = self;
        let block = &blocks[index];
        let Buffers { features, joined, embeddings, temporal, attended_features, .. } = rows;
        let Buffers { queries, keys, values, cached_values, attended, .. } = rows;
        let features = if is_joined { &*joined } else { &*features };
        let mut input = features.part(stream)?;
        let embeddings = embeddings[index % 2].part(stream)?;
        let kernels = (&kernels.linear, &kernels.attention);
        if let Some(layers) = &block.temporal {
            let (of_keys, values) = if uses_memory {
                let features = memory.features.part(stream)?;
                let keys = Keys { features, embeddings, num: num_cached, values: Values::Given };
                (keys, &mut *cached_values)
            } else {
                let (num, values) = (num_anchors, &mut *values);
                (Keys { features: input, embeddings, num, values: Values::OfBoth }, values)
            };
            let to = AttentionRows { queries, keys, values, attended, output: temporal };
            enqueue_attention(stream, kernels, facts, layers, [input, embeddings], &of_keys, to)?;
            input = temporal.part(stream)?;
        }
        let Some(layers) = &block.attention else { return Ok(()) };
        let of_keys =
            Keys { features: input, embeddings, num: num_anchors, values: Values::OfFeatures };
        let to = AttentionRows { queries, keys, values, attended, output: attended_features };
        enqueue_attention(stream, kernels, facts, layers, [input, embeddings], &of_keys, to)
    }

    /// Key points and weights of view sampling, after the attention.
    pub(super) fn enqueue_weights(&mut self, index: usize) -> Result<()> {
        let num_anchors = self.network.facts().num_anchors;
        let Self { stream, blocks, rows, kernels, .. } = self;
        let block = &blocks[index];
        let Some(attention) = &block.attention else { return Ok(()) };
        let Buffers { attended_features, embeddings, sampling, .. } = rows;
        // The features before their normalization, which both layers compute.
        let norm = attention.norm.as_ref().map_or(Ok(In::empty()), |norm| norm.input(stream))?;
        let input = (attended_features.part(stream)?, norm, num_anchors);
        enqueue_weights(stream, &kernels.linear, block, input, &embeddings[index % 2], sampling)
    }

    /// Queues the weights of the first block, which are the same in all frames.
    pub(super) fn enqueue_first_weights(&mut self) -> Result<()> {
        let num_anchors = self.network.facts().num_anchors;
        let Self { stream, blocks, start, kernels, .. } = self;
        let Some(block) = blocks.first() else { return Ok(()) };
        let Start { features, embeddings, sampling, .. } = start;
        let input = (features.part(stream)?, In::empty(), num_anchors);
        enqueue_weights(stream, &kernels.linear, block, input, embeddings, sampling)
    }

    /// View sampling through the key points.
    pub(super) fn enqueue_points(
        &mut self,
        index: usize,
        maps: &DeviceMaps<'_>,
        uses_memory: bool,
    ) -> Result<()> {
        let facts = self.network.facts();
        let &Sparse4d { num_anchors, num_groups, .. } = facts;
        let is_joined = uses_memory && index == facts.num_single_frame_blocks;
        let Self {
            stream, blocks, rows, start, kernels, anchors, projections, view_logits, ..
        } = self;
        let block = &blocks[index];
        let sampling = if index == 0 { &start.sampling } else { &rows.sampling };
        let SamplingRows { learned_points, weight_logits, .. } = sampling;
        let gathered = &mut rows.gathered;
        let num_learned = learned_points.len() / num_anchors;
        let anchors = match index.checked_sub(1) {
            None => &start.anchors,
            Some(_) if is_joined => &rows.joined_anchors,
            Some(before) => &anchors[before % 2],
        };
        let output_stride = gathered.stride();
        let args = PointsArgs {
            anchors: anchors.input(stream)?,
            fixed: block.fixed_points.input(stream)?,
            learned: learned_points.input(stream)?,
            logits: weight_logits.input(stream)?,
            view_logits: view_logits[index].input(stream)?,
            output: gathered.output(stream)?,
            maps: maps.args(stream, projections.device(), facts.min_depth_m)?,
            logit_stride: weight_logits.stride(),
            output_stride,
            num_queries: num_anchors as u32,
            num_fixed: (block.fixed_points.len() / 3) as u32,
            num_learned: (num_learned / 3) as u32,
            num_groups: num_groups as u32,
        };
        kernels.sampling.enqueue(stream, args, maps.texel()?)
    }

    /// The output of the sampling beside the features, and the feed-forward layers; with the first,
    /// the values of the memory for the next block's attention to it.
    pub(super) fn enqueue_feed_forward(&mut self, index: usize, uses_memory: bool) -> Result<()> {
        let &Sparse4d { num_anchors, num_cached, .. } = self.network.facts();
        let Self { stream, blocks, rows, start, memory, kernels, .. } = self;
        let block = &blocks[index];
        let Buffers { gathered, normalized, hidden, output, cached_values, sampling, .. } = rows;
        let wide = if index == 0 { &mut start.sampling.wide } else { &mut sampling.wide };
        let sampled = JobArgs {
            output_stride: wide.stride(),
            output: wide.output(stream)?,
            ..block.view_output.job(stream, gathered.part(stream)?, num_anchors)?
        };
        let sampled = (sampled, &block.view_output);
        let next = blocks.get(index + 1).and_then(|block| block.temporal.as_ref());
        match next.filter(|_| uses_memory) {
            None => kernels.linear.enqueue_folded(stream, &[sampled])?,
            Some(DeviceAttention { values, .. }) => {
                let job = JobArgs {
                    is_transposed: 1,
                    output_stride: value_stride(num_cached) as u32,
                    output: cached_values.output(stream)?,
                    ..values.job(stream, memory.features.part(stream)?, num_cached)?
                };
                kernels.linear.enqueue_folded(stream, &[sampled, (job, values)])?
            }
        };
        let [first, second] = &block.feed_forward;
        let job = JobArgs {
            norm: block.norms[0].input(stream)?,
            normalized_stride: normalized.stride(),
            normalized: normalized.output(stream)?,
            has_relu: 1,
            output_stride: hidden.stride(),
            output: hidden.output(stream)?,
            ..first.job(stream, wide.part(stream)?, num_anchors)?
        };
        kernels.linear.enqueue_folded(stream, &[(job, first)])?;
        let normalized = normalized.part(stream)?;
        // The padded columns of a narrower block's hidden rows are beyond its inputs.
        let hidden = PartArgs { len: second.num_inputs() - normalized.len, ..hidden.part(stream)? };
        let mut job = second.job(stream, normalized, num_anchors)?;
        job.parts[1] = hidden;
        job.output_stride = output.stride();
        job.output = output.output(stream)?;
        kernels.linear.enqueue_folded(stream, &[(job, second)])?;
        Ok(())
    }

    /// Puts the cached anchors, moved, before the best of the frame.
    pub(super) fn enqueue_join(&mut self, index: usize) -> Result<()> {
        let facts = self.network.facts();
        let &Sparse4d { num_anchors, num_cached, num_classes, num_channels, .. } = facts;
        let Self { stream, rows, memory, kernels, anchors, frame, logits, .. } = self;
        let args = TopRowsArgs {
            logits: logits.input(stream)?,
            features: rows.features.input(stream)?,
            boxes: anchors[index % 2].input(stream)?,
            confidence: In::empty(),
            to_features: rows.joined.output(stream)?,
            to_boxes: rows.joined_anchors.output(stream)?,
            to_confidence: Out::empty(),
            rows: memory.kept_rows.output(stream)?,
            memory_features: memory.features.input(stream)?,
            memory_boxes: memory.anchors.input(stream)?,
            motion: frame.input(stream)?,
            num_rows: num_anchors as u32,
            num_classes: num_classes as u32,
            num_chosen: (num_anchors - num_cached) as u32,
            num_memory: num_cached as u32,
            num_channels: num_channels as u32,
            swaps_yaw: u32::from(facts.cached_yaw == CachedYaw::CosSin),
            decay: 1.0,
            reserved: 0,
        };
        kernels.top_rows.enqueue(stream, args)
    }

    /// Caches the anchors with the highest confidence.
    pub(super) fn enqueue_store(&mut self, uses_memory: bool) -> Result<()> {
        let facts = self.network.facts();
        let &Sparse4d { num_anchors, num_cached, num_classes, num_channels, .. } = facts;
        let last = facts.num_blocks - 1;
        let Self { stream, rows, memory, kernels, anchors, logits, .. } = self;
        let confidence = memory.confidence.input(stream)?;
        let args = TopRowsArgs {
            logits: logits.input(stream)?,
            features: rows.features.input(stream)?,
            boxes: anchors[last % 2].input(stream)?,
            confidence: if uses_memory { confidence } else { In::empty() },
            to_features: memory.features.output(stream)?,
            to_boxes: memory.anchors.output(stream)?,
            to_confidence: memory.next_confidence.output(stream)?,
            rows: memory.cached_rows.output(stream)?,
            memory_features: In::empty(),
            memory_boxes: In::empty(),
            motion: In::empty(),
            num_rows: num_anchors as u32,
            num_classes: num_classes as u32,
            num_chosen: num_cached as u32,
            num_memory: 0,
            num_channels: num_channels as u32,
            swaps_yaw: 0,
            decay: facts.confidence_decay,
            reserved: 0,
        };
        kernels.top_rows.enqueue(stream, args)?;
        // The next frame's decay is of these.
        memory.confidence.enqueue_copy(&memory.next_confidence)
    }

    /// Queues what the views add to the logits of the weights, in all blocks.
    pub(super) fn enqueue_view_logits(&mut self) -> Result<()> {
        let num_views = self.network.facts().num_views;
        let Self { stream, blocks, kernels, matrices, view_logits, .. } = self;
        let columns = (matrices.input(stream)?, 12);
        let launches = blocks.chunks(MAX_JOBS).zip(view_logits.chunks_mut(MAX_JOBS));
        for (blocks, logits) in launches {
            let mut jobs = [StackArgs::<T>::empty(); MAX_JOBS];
            for ((job, block), logits) in jobs.iter_mut().zip(blocks).zip(logits) {
                let num_columns = logits.len() / num_views;
                *job = StackArgs {
                    values: logits.output(stream)?,
                    output_stride: num_columns as u32,
                    ..block.view_logits.over_columns(stream, columns, 0, num_views)?
                };
            }
            kernels.stack.enqueue(stream, &jobs[..blocks.len()])?;
        }
        Ok(())
    }
}

/// Queues the layers of key points and weights, over features that a normalization makes of
/// `input`.
fn enqueue_weights<T: Activation>(
    stream: &Stream,
    linear: &LinearKernels<T>,
    block: &DeviceBlock<T>,
    (input, norm, num_rows): (PartArgs<'_, T>, In<'_, f32>, usize),
    embeddings: &DeviceRows<T>,
    to: &mut SamplingRows<T>,
) -> Result<()> {
    let SamplingRows { learned_points, weight_logits, wide } = to;
    let [_, beside] = wide.output(stream)?.split_at(input.len as usize);
    let num_learned = learned_points.len() / num_rows;
    let learned = JobArgs {
        norm,
        values: learned_points.output(stream)?,
        values_stride: num_learned as u32,
        num_values: num_learned as u32,
        ..block.learned_points.job(stream, input, num_rows)?
    };
    let weights = JobArgs {
        norm,
        normalized: beside,
        normalized_stride: 2 * input.len,
        addend: embeddings.input(stream)?,
        output_stride: weight_logits.stride(),
        output: weight_logits.output(stream)?,
        ..block.weight_logits.job(stream, input, num_rows)?
    };
    let layers = [(learned, &block.learned_points), (weights, &block.weight_logits)];
    linear.enqueue_folded(stream, &layers)?;
    Ok(())
}

/// Queues projections, attention and its output.
fn enqueue_attention<T: Activation>(
    stream: &Stream,
    (linear, attention): (&LinearKernels<T>, &AttentionKernel<T>),
    facts: &Sparse4d,
    layers: &DeviceAttention,
    [features, embeddings]: [PartArgs<'_, T>; 2],
    of_keys: &Keys<'_, T>,
    to: AttentionRows<'_, T>,
) -> Result<()> {
    let &Sparse4d { num_anchors, num_heads, .. } = facts;
    let AttentionRows { queries, keys, values, attended, output } = to;
    let mut of_queries = layers.queries.job(stream, features, num_anchors)?;
    of_queries.parts[1] = embeddings;
    of_queries.output_stride = queries.stride();
    of_queries.output = queries.output(stream)?;
    let mut job = layers.keys.job(stream, of_keys.features, of_keys.num)?;
    job.parts[1] = of_keys.embeddings;
    job.output_stride = keys.stride();
    job.output = keys.output(stream)?;
    let layer = match of_keys.values {
        Values::OfBoth => &layers.unfolded_values,
        Values::OfFeatures | Values::Given => &layers.values,
    };
    let mut of_values = layer.job(stream, of_keys.features, of_keys.num)?;
    if of_keys.values == Values::OfBoth {
        of_values.parts[1] = of_keys.embeddings;
    }
    of_values.is_transposed = 1;
    of_values.output_stride = value_stride(of_keys.num) as u32;
    of_values.output = values.output(stream)?;
    let jobs = [(of_queries, &layers.queries), (job, &layers.keys), (of_values, layer)];
    let num_jobs = if of_keys.values == Values::Given { 2 } else { 3 };
    linear.enqueue_folded(stream, &jobs[..num_jobs])?;

    let of_keys = (&*keys, &*values, of_keys.num);
    let args = attention_args(stream, queries, of_keys, attended, [num_anchors, num_heads])?;
    attention.enqueue(stream, args, num_heads as u32, &[])?;

    let mut job = layers.output.job(stream, attended.part(stream)?, num_anchors)?;
    job.parts[1..].copy_from_slice(&[features, embeddings]);
    job.output_stride = output.stride();
    job.output = output.output(stream)?;
    linear.enqueue_folded(stream, &[(job, &layers.output)])?;
    Ok(())
}

/// An attention of so many queries and heads to keys and their transposed values.
fn attention_args<'a, T: Activation>(
    stream: &Stream,
    queries: &'a DeviceRows<T>,
    (keys, values, num_keys): (&'a DeviceRows<T>, &'a DeviceBuffer<T>, usize),
    attended: &'a mut DeviceRows<T>,
    [num_queries, num_heads]: [usize; 2],
) -> Result<AttentionArgs<'a, T>> {
    let head_len = attended.stride() as usize / num_heads;
    Ok(AttentionArgs {
        queries: queries.input(stream)?,
        keys: keys.input(stream)?,
        values: values.input(stream)?,
        query_stride: queries.stride(),
        key_stride: keys.stride(),
        value_stride: value_stride(num_keys) as u32,
        output_stride: attended.stride(),
        output: attended.output(stream)?,
        num_queries: num_queries as u32,
        num_keys: num_keys as u32,
        head_len: head_len as u32,
        scale: score_scale(head_len),
    })
}
