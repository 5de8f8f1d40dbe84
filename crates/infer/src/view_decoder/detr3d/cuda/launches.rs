//! The launches of a frame.

use super::{Activation, BOX_LEN, CudaDecoder};
use det_post_ops::device::cuda::{In, Out};
use det_post_ops::view::attention::cuda::{AttentionArgs, score_scale, value_stride};
use det_post_ops::view::layer_norm::EPSILON;
use det_post_ops::view::linear::cuda::{JobArgs, PartArgs};
use det_post_ops::view::sample::cuda::{DeviceMaps, ReferenceArgs};
use det_post_types::Result;

impl<T: Activation> CudaDecoder<T> {
    fn num_queries(&self) -> usize {
        self.network.facts().num_queries
    }

    /// Queries, keys and values, and the first regression layer of the block before.
    pub(super) fn enqueue_projections(&mut self, index: usize) -> Result<()> {
        let num_queries = self.num_queries();
        let Self { stream, blocks, rows, start, kernels, .. } = self;
        let block = &blocks[index];
        let input = if index == 0 { &start.contents } else { &rows.output };
        let norm = match index.checked_sub(1) {
            Some(before) => blocks[before].norms[2].input(stream)?,
            None => In::empty(),
        };
        let stride = rows.queries_keys.stride();
        let queries_keys = JobArgs {
            norm,
            normalized: if index == 0 { Out::empty() } else { rows.content.output(stream)? },
            normalized_stride: input.stride(),
            residual: block.offsets.input(stream)?,
            residual_stride: stride,
            output: rows.queries_keys.output(stream)?,
            output_stride: stride,
            ..block.queries_keys.job(stream, input.part(stream)?, num_queries)?
        };
        let values = JobArgs {
            norm,
            is_transposed: 1,
            output: rows.values.output(stream)?,
            output_stride: value_stride(num_queries) as u32,
            ..block.values.job(stream, input.part(stream)?, num_queries)?
        };
        match index.checked_sub(1) {
            None => kernels.linear.enqueue(stream, &[queries_keys, values]),
            Some(before) => {
                let [hidden, _] = &mut rows.regression;
                let regression = JobArgs {
                    norm,
                    has_relu: 1,
                    output_stride: hidden.stride(),
                    output: hidden.output(stream)?,
                    ..blocks[before].regression[0].job(stream, input.part(stream)?, num_queries)?
                };
                kernels.linear.enqueue(stream, &[queries_keys, values, regression])
            }
        }
    }

    /// Attention, and the second regression layer of the block before.
    pub(super) fn enqueue_attention(&mut self, index: usize) -> Result<()> {
        let facts = self.network.facts();
        let (num_queries, channels) = (facts.num_queries, facts.num_channels);
        let num_heads = facts.num_heads;
        let Self { stream, blocks, rows, kernels, .. } = self;
        let queries = rows.queries_keys.input(stream)?;
        let attention = AttentionArgs {
            queries,
            keys: queries.from(channels),
            values: rows.values.input(stream)?,
            output: rows.gathered.output(stream)?,
            query_stride: rows.queries_keys.stride(),
            key_stride: rows.queries_keys.stride(),
            value_stride: value_stride(num_queries) as u32,
            output_stride: channels as u32,
            num_queries: num_queries as u32,
            num_keys: num_queries as u32,
            head_len: (channels / num_heads) as u32,
            scale: score_scale(channels / num_heads),
        };
        let num_heads = num_heads as u32;
        let Some(before) = index.checked_sub(1) else {
            return kernels.attention.enqueue(stream, attention, num_heads, &[]);
        };
        let job = blocks[before].second_regression(stream, &mut rows.regression, num_queries)?;
        kernels.attention.enqueue(stream, attention, num_heads, &[job])
    }

    /// The output of the attention, and the references moved by the block before.
    pub(super) fn enqueue_attention_output(&mut self, index: usize) -> Result<()> {
        let range = self.network.facts().range;
        let Self { stream, blocks, rows, start, kernels, references, .. } = self;
        let Some(before) = index.checked_sub(1) else { return Ok(()) };
        let output = blocks[index].output_job(
            stream,
            rows.gathered.part(stream)?,
            &rows.content,
            start.positions.as_ref(),
            rows.attended.output(stream)?,
        )?;
        let [even, odd] = references;
        let (of_before, moved) = if index.is_multiple_of(2) { (odd, even) } else { (even, odd) };
        let points = if before == 0 { &start.references } else { &*of_before };
        let job = JobArgs {
            moved: moved.output(stream)?,
            ..blocks[before].move_job(stream, rows.regression[1].part(stream)?, points, &range)?
        };
        kernels.linear.enqueue(stream, &[output, job])
    }

    /// View sampling, and the second layer of the position encoder.
    pub(super) fn enqueue_sampling(&mut self, index: usize, maps: &DeviceMaps<'_>) -> Result<()> {
        let facts = self.network.facts();
        let num_queries = facts.num_queries;
        let extent = std::array::from_fn(|axis| facts.range.max[axis] - facts.range.min[axis]);
        let Self { stream, blocks, rows, start, kernels, references, projections, .. } = self;
        let block = &blocks[index];
        let points = if index == 0 { &start.references } else { &references[index % 2] };
        let points = points.input(stream)?;
        let attended = if index == 0 { &start.attended } else { &rows.attended };
        let sample = ReferenceArgs {
            rows: attended.input(stream)?,
            norm: block.norms[0].input(stream)?,
            content: rows.normalized.output(stream)?,
            points,
            weights: block.sample_weights.input(stream)?,
            offsets: block.sample_offsets.input(stream)?,
            output: rows.gathered.output(stream)?,
            maps: maps.args(stream, projections.device(), facts.min_depth_m)?,
            low: facts.range.min,
            extent,
            num_queries: num_queries as u32,
            epsilon: EPSILON,
        };
        let channels = block.encoder_output.num_inputs();
        let input = PartArgs { rows: In::empty(), stride: 0, len: channels };
        let job = JobArgs {
            norm: block.encoder_norms[0].input(stream)?,
            points,
            encoder: block.encoder_input.input(stream)?,
            output: rows.encoded.output(stream)?,
            output_stride: channels,
            ..block.encoder_output.job(stream, input, num_queries)?
        };
        kernels.sampling.enqueue(stream, sample, maps.texel()?, &[job])
    }

    pub(super) fn enqueue_sampling_output(&mut self, index: usize) -> Result<()> {
        let num_queries = self.num_queries();
        let Self { stream, blocks, rows, kernels, .. } = self;
        let block = &blocks[index];
        let job = JobArgs {
            residual: rows.normalized.input(stream)?,
            residual_stride: rows.normalized.stride(),
            position: rows.encoded.input(stream)?,
            position_norm: block.encoder_norms[1].input(stream)?,
            position_stride: rows.encoded.stride(),
            output_stride: rows.sampled.stride(),
            output: rows.sampled.output(stream)?,
            ..block.view_output.job(stream, rows.gathered.part(stream)?, num_queries)?
        };
        kernels.linear.enqueue(stream, &[job])
    }

    pub(super) fn enqueue_feed_forward(&mut self, index: usize) -> Result<()> {
        let num_queries = self.num_queries();
        let Self { stream, blocks, rows, kernels, .. } = self;
        let block = &blocks[index];
        let hidden = JobArgs {
            norm: block.norms[1].input(stream)?,
            normalized_stride: rows.before_hidden.stride(),
            normalized: rows.before_hidden.output(stream)?,
            has_relu: 1,
            output_stride: rows.hidden.stride(),
            output: rows.hidden.output(stream)?,
            ..block.feed_forward[0].job(stream, rows.sampled.part(stream)?, num_queries)?
        };
        kernels.linear.enqueue(stream, &[hidden])?;
        // The padded columns of a narrower block's hidden rows are beyond its inputs.
        let input =
            PartArgs { len: block.feed_forward[1].num_inputs(), ..rows.hidden.part(stream)? };
        let output = JobArgs {
            residual: rows.before_hidden.input(stream)?,
            residual_stride: rows.before_hidden.stride(),
            output_stride: rows.output.stride(),
            output: rows.output.output(stream)?,
            ..block.feed_forward[1].job(stream, input, num_queries)?
        };
        kernels.linear.enqueue(stream, &[output])
    }

    /// The last regression and the classes.
    pub(super) fn enqueue_results(&mut self) -> Result<()> {
        let facts = self.network.facts();
        let (num_queries, num_classes, range) = (facts.num_queries, facts.num_classes, facts.range);
        let last = self.blocks.len() - 1;
        let Self { stream, blocks, rows, classes, start, kernels, references, results, .. } = self;
        let block = &blocks[last];
        let [hidden, more] = &mut rows.regression;
        let [class_hidden, class_more] = &mut rows.classes;
        let input = rows.output.part(stream)?;
        let norm = block.norms[2].input(stream)?;
        let regression = JobArgs {
            norm,
            has_relu: 1,
            output_stride: hidden.stride(),
            output: hidden.output(stream)?,
            ..block.regression[0].job(stream, input, num_queries)?
        };
        let first = JobArgs {
            norm,
            output_stride: class_hidden.stride(),
            output: class_hidden.output(stream)?,
            ..classes.layers[0].job(stream, input, num_queries)?
        };
        kernels.linear.enqueue(stream, &[regression, first])?;

        let second = JobArgs {
            norm: classes.norms[0].input(stream)?,
            has_input_relu: 1,
            output_stride: class_more.stride(),
            output: class_more.output(stream)?,
            ..classes.layers[1].job(stream, class_hidden.part(stream)?, num_queries)?
        };
        let regression = JobArgs {
            has_relu: 1,
            output_stride: more.stride(),
            output: more.output(stream)?,
            ..block.regression[1].job(stream, hidden.part(stream)?, num_queries)?
        };
        kernels.linear.enqueue(stream, &[regression, second])?;

        let points = if last == 0 { &start.references } else { &references[last % 2] };
        let [boxes, logits] = results.output(stream)?.split_at(num_queries * BOX_LEN);
        let boxes = JobArgs {
            values: boxes,
            values_stride: BOX_LEN as u32,
            ..block.move_job(stream, more.part(stream)?, points, &range)?
        };
        let logits = JobArgs {
            norm: classes.norms[1].input(stream)?,
            has_input_relu: 1,
            values: logits,
            values_stride: num_classes as u32,
            num_values: num_classes as u32,
            ..classes.layers[2].job(stream, class_more.part(stream)?, num_queries)?
        };
        kernels.linear.enqueue(stream, &[boxes, logits])
    }
}
