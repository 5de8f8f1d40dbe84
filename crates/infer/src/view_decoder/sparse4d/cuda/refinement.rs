//! The launches that refine anchors and encode them.

use super::CudaDecoder;
use super::rows::{Activation, BOX_LEN, FIRST_DIVIDED, INTERVAL};
use det_post_ops::device::cuda::Out;
use det_post_ops::view::layer_stack::cuda::StackArgs;
use det_post_types::{Result, Sparse4d};

impl<T: Activation> CudaDecoder<T> {
    /// Refines the anchors and normalizes the features; then class logits and, in the last block, the
    /// quality, where they are asked for, otherwise the embeddings that the next block reads.
    pub(super) fn enqueue_refinement(
        &mut self,
        index: usize,
        uses_memory: bool,
        classifies: bool,
    ) -> Result<()> {
        let facts = self.network.facts();
        let &Sparse4d { num_anchors, num_classes, num_single_frame_blocks, .. } = facts;
        let is_joined = uses_memory && index == num_single_frame_blocks;
        let is_last = index + 1 == facts.num_blocks;
        let Self {
            stream,
            blocks,
            rows,
            start,
            kernels,
            encoder,
            anchors,
            frame,
            logits,
            quality,
            ..
        } = self;
        let stream = &*stream;
        let block = &blocks[index];
        let [even, odd] = &mut rows.embeddings;
        let (embeddings, next) = if index.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        let embeddings = if index == 0 { &start.embeddings } else { &*embeddings };
        let addend = embeddings.input(stream)?;
        let input = rows.output.part(stream)?;
        let norm = block.norms[1].input(stream)?;
        let [even, odd] = anchors;
        let (before, refined) = if index.is_multiple_of(2) { (odd, even) } else { (even, odd) };
        let before = match index {
            0 => &start.anchors,
            _ if is_joined => &rows.joined_anchors,
            _ => &*before,
        };
        let deltas = StackArgs {
            norm,
            normalized: rows.features.output(stream)?,
            normalized_stride: embeddings.stride(),
            addend,
            addend_stride: embeddings.stride(),
            values: refined.output(stream)?,
            output_stride: BOX_LEN as u32,
            summand: before.input(stream)?,
            interval: frame.input(stream)?.from(INTERVAL),
            first_divided: FIRST_DIVIDED,
            ..block.deltas.of_rows(stream, input, num_anchors)?
        };
        if !classifies {
            if let Some(stacks) = &block.refinement {
                let stride = next.stride();
                return stacks.enqueue(stream, &[deltas], (next.output(stream)?, stride));
            }
            kernels.stack.enqueue(stream, &[deltas])?;
            return encoder.enqueue(stream, &kernels.stack, refined, next);
        }
        let classes = StackArgs {
            norm,
            values: logits.output(stream)?,
            output_stride: num_classes as u32,
            ..block.classes.of_rows(stream, input, num_anchors)?
        };
        let mut jobs = [deltas, classes, StackArgs::empty()];
        let jobs = match block.quality.as_ref().filter(|_| is_last) {
            None => &jobs[..2],
            Some(stack) => {
                jobs[2] = StackArgs {
                    norm,
                    addend,
                    addend_stride: embeddings.stride(),
                    values: quality.output(stream)?,
                    output_stride: 2,
                    ..stack.of_rows(stream, input, num_anchors)?
                };
                &jobs[..]
            }
        };
        match &block.outputs {
            Some(stacks) => stacks.enqueue(stream, jobs, (Out::empty(), 0)),
            None => kernels.stack.enqueue(stream, jobs),
        }
    }

    /// Encodes the anchors among which are those of the memory, for the block after `index`.
    pub(super) fn enqueue_joined_embeddings(&mut self, index: usize) -> Result<()> {
        let Self { stream, encoder, kernels, rows, .. } = self;
        let embeddings = &mut rows.embeddings[(index + 1) % 2];
        encoder.enqueue(stream, &kernels.stack, &rows.joined_anchors, embeddings)
    }
}
