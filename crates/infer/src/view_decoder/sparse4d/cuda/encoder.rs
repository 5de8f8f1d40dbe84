//! The launch that encodes anchors.

use super::super::AnchorEncoder;
use super::rows::{Activation, BOX_LEN};
use det_post_ops::device::cuda::{DeviceBuffer, Stream};
use det_post_ops::view::layer_stack::cuda::{DeviceStack, StackArgs, StackKernel};
use det_post_ops::view::layer_stack::folded::FoldedStacks;
use det_post_ops::view::linear::LinearLayer;
use det_post_ops::view::linear::cuda::DeviceRows;
use det_post_types::Result;

/// The encoder of anchors in device memory.
pub(super) struct Encoder<T: Activation> {
    parts: [DeviceStack; 4],
    /// The same, where the GPU and the network allow it.
    folded: Option<FoldedStacks<T>>,
}

impl<T: Activation> Encoder<T> {
    pub(super) fn new(stream: &Stream, encoder: &AnchorEncoder) -> Result<Self> {
        let [centre, extents, yaw, velocity] = &encoder.parts;
        let part = |layers: &[_; 4]| DeviceStack::of_columns::<T>(stream, layers);
        Ok(Self {
            parts: [part(centre)?, part(extents)?, part(yaw)?, part(velocity)?],
            folded: FoldedStacks::new(stream, &[], &columns(encoder))?,
        })
    }

    /// Queues the encoding of anchors.
    pub(super) fn enqueue(
        &self,
        stream: &Stream,
        kernel: &StackKernel<T>,
        anchors: &DeviceBuffer<f32>,
        embeddings: &mut DeviceRows<T>,
    ) -> Result<()> {
        let num_anchors = anchors.len() / BOX_LEN;
        let anchors = (anchors.input(stream)?, BOX_LEN);
        let stride = embeddings.stride();
        let mut output = embeddings.output(stream)?;
        if let Some(folded) = &self.folded {
            return folded.enqueue_over_columns(stream, anchors, num_anchors, (output, stride));
        }
        let mut jobs = [StackArgs::empty(); 4];
        let parts = self.parts.iter().zip(AnchorEncoder::COLUMNS);
        for (job, (stack, columns)) in jobs.iter_mut().zip(parts) {
            *job = stack.over_columns(stream, anchors, columns.start, num_anchors)?;
            (job.output, job.output_stride) = (output, stride);
            [_, output] = output.split_at(job.num_values as usize);
        }
        kernel.enqueue(stream, &jobs)
    }

    /// Bytes of device memory.
    pub(super) fn num_bytes(&self) -> usize {
        let parts = self.parts.iter().map(DeviceStack::num_bytes).sum::<usize>();
        parts + self.folded.as_ref().map_or(0, FoldedStacks::num_bytes)
    }
}

/// The encoder's parts and the first columns that they read.
pub(super) fn columns(encoder: &AnchorEncoder) -> [(usize, &[LinearLayer]); 4] {
    let [centre, extents, yaw, velocity] = AnchorEncoder::COLUMNS.map(|columns| columns.start);
    let [a, b, c, d] = &encoder.parts;
    [(centre, a), (extents, b), (yaw, c), (velocity, d)]
}
