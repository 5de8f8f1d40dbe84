//! Decoding of camera heads on a GPU.

use super::YoloHead;
use det_post_infer::device::{DeviceEngine, StagedOutput, may_vary};
use det_post_ops::decode::mask::Coefficients;
use det_post_ops::decode::mask::cuda::Outputs as MaskTensors;
use det_post_ops::decode::yolo::cuda::{Decoded, Workspace};
use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{ElementType, KeypointRows, Result};

impl YoloHead {
    /// Lets an engine upload the outputs that kernels cannot read where it writes them: labels as
    /// integers, and rows of a number that differs between frames. Kernels read tensors of one
    /// type: all outputs, then.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceEngine::stage`].
    pub fn stage(&self, engine: &mut DeviceEngine) -> Result<()> {
        let has_labels = self.outputs.len() == 3;
        let layout = self.layout.outputs(self.num_classes, self.network, has_labels)?;
        let (mut staged, mut is_needed) = (Vec::new(), false);
        for (&position, output) in self.outputs.iter().zip(&layout) {
            let Some(spec) = engine.outputs().get(position) else { continue };
            let rows = output.shapes.iter().find_map(|dims| dims.iter().position(Option::is_none));
            let rows = rows.filter(|&rows| self.layout.has_varying_rows() && may_vary(spec, rows));
            let is_float = matches!(spec.element, Some(ElementType::F32));
            is_needed |= rows.is_some() || (output.is_labels && !is_float);
            staged.push(StagedOutput { position, rows });
        }
        if is_needed { engine.stage(&staged) } else { Ok(()) }
    }

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
        let outputs = self.tensors(self.decoded_outputs(), engine)?;
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
        decoder.enqueue(&self.tensors(self.decoded_outputs(), engine)?, candidates, counters)
    }

    /// The outputs of a network that masks are computed from; `None` for a head without masks.
    ///
    /// # Errors
    /// `Inference` when an output has another shape than declared.
    pub fn masks<'a>(&self, engine: &'a DeviceEngine) -> Result<Option<MaskTensors<'a>>> {
        let Some(coefficients) = Coefficients::of(&self.layout, self.num_classes) else {
            return Ok(None);
        };
        let [predictions, prototypes] = self.mask_outputs()?;
        let [predictions, prototypes] = [engine.output(predictions)?, engine.output(prototypes)?];
        Ok(Some(MaskTensors { predictions, coefficients, prototypes }))
    }

    /// The output of a network that keypoints are in, and where; `None` for a head without
    /// keypoints.
    ///
    /// # Errors
    /// `Inference` when the output has another shape than declared.
    pub fn keypoints<'a>(
        &self,
        engine: &'a DeviceEngine,
    ) -> Result<Option<(&'a DeviceTensor, KeypointRows)>> {
        let Some(rows) = self.layout.keypoints(self.num_classes) else { return Ok(None) };
        Ok(Some((engine.output(self.keypoint_output()?)?, rows)))
    }

    fn tensors<'a>(
        &self,
        positions: &[usize],
        engine: &'a DeviceEngine,
    ) -> Result<Vec<&'a DeviceTensor>> {
        positions.iter().map(|&output| engine.output(output)).collect()
    }
}
