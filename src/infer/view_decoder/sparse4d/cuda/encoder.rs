//! The launch that encodes anchors.

use super::super::AnchorEncoder;
use super::rows::{BOX_LEN, Element};
use crate::device::cuda::{DeviceBuffer, Stream};
use crate::error::Result;
use crate::ops::layer_stack::cuda::{DeviceStack, StackArgs, StackKernel};
use crate::ops::linear::cuda::DeviceRows;

/// Queues the encoder of anchors.
pub(super) fn enqueue_encoder<T: Element>(
    stream: &Stream,
    kernel: &StackKernel<T>,
    encoder: &[DeviceStack; 4],
    anchors: &DeviceBuffer<f32>,
    embeddings: &mut DeviceRows<T>,
) -> Result<()> {
    let num_anchors = anchors.len() / BOX_LEN;
    let anchors = (anchors.input(stream)?, BOX_LEN);
    let stride = embeddings.stride();
    let output = embeddings.output(stream)?;
    let mut jobs = [StackArgs::empty(); 4];
    let mut first = 0;
    for ((job, stack), columns) in jobs.iter_mut().zip(encoder).zip(AnchorEncoder::COLUMNS) {
        let [_, output] = output.split_at(first);
        *job = stack.over_columns(stream, anchors, columns.start, num_anchors)?;
        (job.output, job.output_stride) = (output, stride);
        first += job.num_values as usize;
    }
    kernel.enqueue(stream, &jobs)
}
