//! Decoding of camera heads on a GPU.

use super::YoloHead;
use det_post_infer::device::DeviceEngine;
use det_post_ops::decode::yolo::cuda::{Decoded, Workspace};
use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::Result;

impl YoloHead {
    /// Kernels and memory to decode the outputs of an engine on a stream.
    ///
    /// # Errors
    /// `Argument` when the outputs do not fit the layout; `Device` when there is
    /// not enough memory.
    pub fn decoder<B: Decoded>(
        &self,
        stream: &Stream,
        engine: &DeviceEngine,
    ) -> Result<Workspace<B>> {
        let outputs = self.outputs(engine)?;
        let shapes: Vec<&[usize]> = outputs.iter().map(|output| output.shape()).collect();
        Workspace::new(stream, &self.layout, self.network, self.num_classes, &shapes)
    }

    /// Queues the decoding of an engine's outputs into `candidates`, for a recording:
    /// allocates.
    ///
    /// # Errors
    /// `Inference` or `Argument` when an output has another shape than declared;
    /// `Device` when the launch fails.
    pub fn enqueue_decode<B: Decoded>(
        &self,
        engine: &DeviceEngine,
        decoder: &mut Workspace<B>,
        candidates: &mut DeviceCandidates<B>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        decoder.enqueue(&self.outputs(engine)?, candidates, counters)
    }

    fn outputs<'a>(&self, engine: &'a DeviceEngine) -> Result<Vec<&'a DeviceTensor>> {
        self.outputs.iter().map(|&output| engine.output(output)).collect()
    }
}
