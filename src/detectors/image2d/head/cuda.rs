//! The side of a camera head that runs on a GPU.

use super::YoloHead;
use crate::device::cuda::{DeviceCandidates, DeviceCounters, DeviceTensor, Stream};
use crate::error::Result;
use crate::infer::device::DeviceEngine;
use crate::ops::decode_yolo::cuda::{Decoded, Workspace};

impl YoloHead {
    /// Kernels and memory to decode the answers of an engine on a stream.
    ///
    /// # Errors
    /// `Argument` when the answers do not fit the layout; `Device` when there is
    /// not enough memory.
    pub fn decoder<B: Decoded>(
        &self,
        stream: &Stream,
        engine: &DeviceEngine,
    ) -> Result<Workspace<B>> {
        let answers = self.answers(engine)?;
        let shapes: Vec<&[usize]> = answers.iter().map(|answer| answer.shape()).collect();
        Workspace::new(stream, &self.layout, self.network, self.num_classes, &shapes)
    }

    /// Queues the decoding of an engine's answers into `candidates`: to be
    /// recorded, not for every frame.
    ///
    /// # Errors
    /// `Inference` or `Argument` when the answers have not the shapes that
    /// were promised; `Device` when the launch fails.
    pub fn enqueue_decode<B: Decoded>(
        &self,
        engine: &DeviceEngine,
        decoder: &mut Workspace<B>,
        candidates: &mut DeviceCandidates<B>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        decoder.enqueue(&self.answers(engine)?, candidates, counters)
    }

    fn answers<'a>(&self, engine: &'a DeviceEngine) -> Result<Vec<&'a DeviceTensor>> {
        self.outputs.iter().map(|&output| engine.output(output)).collect()
    }
}
