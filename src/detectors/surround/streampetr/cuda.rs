//! StreamPETR on a GPU. The head and its memory are in device memory; the network of
//! position embeddings runs on the host, once for a set of matrices.

use super::CameraMatrices;
use super::cpu::poses;
use super::memory::{Ages, MemoryValues};
use super::position::PositionEmbedding;
use super::signature::{HeadInput, HeadOutput, Signature, Specs, StatedImages};
use crate::detectors::surround::ego_motion::Step;
use det_post_infer::Engine;
use det_post_infer::device::DeviceEngine;
use det_post_ops::decode::streampetr::StreamPetrOutputs;
use det_post_ops::device::cuda::{DeviceTensor, PinnedTensor, Stream};
use det_post_types::{Error, ErrorKind, Result, Stamp, TensorValues, TensorView};

/// Each input that holds the memory, and the output that replaces it.
const MEMORY: [(HeadInput, HeadOutput); 4] = [
    (HeadInput::MemoryEmbedding, HeadOutput::MemoryEmbedding),
    (HeadInput::MemoryReferencePoint, HeadOutput::MemoryReferencePoint),
    (HeadInput::MemoryPose, HeadOutput::MemoryPose),
    (HeadInput::MemoryVelocity, HeadOutput::MemoryVelocity),
];

/// StreamPETR's position embedding, head and memory.
pub struct DeviceStreamPetr {
    stream: Stream,
    position: PositionEmbedding,
    head: DeviceEngine,
    signature: Signature,
    ages: Ages,
    /// Rows that a frame adds to the memory.
    num_new: usize,
    /// Shape and values in place of the features, which the position network asks for their
    /// shape.
    features: (Vec<usize>, Vec<f32>),
    embedding: PinnedTensor,
    cone: PinnedTensor,
    age: PinnedTensor,
    inverse_pose: PinnedTensor,
    logits: PinnedTensor,
    boxes: PinnedTensor,
}

impl DeviceStreamPetr {
    /// As [`StreamPetr::new`](super::StreamPetr::new), for networks in the memory of a stream.
    ///
    /// # Errors
    /// `Model` when a network does not fit the others or an output of the head has a type
    /// that a GPU does not take; `Device` when there is not enough memory.
    pub fn new(
        stream: &Stream,
        backbone: Specs<'_>,
        position: Box<dyn Engine>,
        mut head: DeviceEngine,
        num_classes: usize,
        stated: StatedImages,
    ) -> Result<Self> {
        let signature = Signature::new(
            backbone,
            Specs { inputs: position.inputs(), outputs: position.outputs() },
            Specs { inputs: head.inputs(), outputs: head.outputs() },
            num_classes,
            stated,
        )?;
        let features = head.input(signature.head_input(HeadInput::Features)?)?.shape().to_vec();
        let needs_features = signature.position_shapes.iter().any(|shape| shape.len() == 5);
        let num_features = if needs_features { features.iter().product() } else { 0 };
        let updated = head.output(signature.head_outputs[HeadOutput::MemoryEmbedding as usize])?;
        let num_rows = updated.shape().get(1).copied().unwrap_or(0);
        let num_new = num_rows.checked_sub(signature.lengths.memory).ok_or_else(|| {
            let (given, needed) = (num_rows, signature.lengths.memory);
            let message = format!("the head gives {given} rows for a memory of {needed}");
            Error::new(ErrorKind::Model, "streampetr", message)
        })?;
        let (identity, _) = poses(&Step::First);
        let pose = signature.head_input(HeadInput::Pose)?;
        head.input(pose)?.write(&TensorView::new(&[1, 4, 4], TensorValues::F32(&identity))?)?;
        let mut pinned_input = |input| {
            let position = signature.head_input(input)?;
            PinnedTensor::like(stream, head.input(position)?)
        };
        let [embedding, cone, age, inverse_pose] = [
            pinned_input(HeadInput::PositionEmbedding)?,
            pinned_input(HeadInput::Cone)?,
            pinned_input(HeadInput::MemoryAge)?,
            pinned_input(HeadInput::InversePose)?,
        ];
        let pinned_output = |output: HeadOutput| {
            PinnedTensor::like(stream, head.output(signature.head_outputs[output as usize])?)
        };
        Ok(Self {
            stream: stream.clone(),
            position: PositionEmbedding::new(position, &signature)?,
            ages: Ages::new(signature.lengths.memory),
            num_new,
            features: (features, vec![0.0; num_features]),
            embedding,
            cone,
            age,
            inverse_pose,
            logits: pinned_output(HeadOutput::Logits)?,
            boxes: pinned_output(HeadOutput::Boxes)?,
            head,
            signature,
        })
    }

    /// The tensors of the networks.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The engine of the head, for reports.
    pub fn head(&self) -> &DeviceEngine {
        &self.head
    }

    /// Computes the embeddings of the cameras and queues their upload. Needed before the
    /// first frame, and whenever a matrix changes.
    ///
    /// # Errors
    /// `Argument` for another number of matrices; `Inference` when the network fails;
    /// `Device` when the upload does.
    pub fn embed(&mut self, matrices: &CameraMatrices<'_>) -> Result<()> {
        let Self { position, head, signature, features, .. } = self;
        let (shape, values) = features;
        let features = match values.is_empty() {
            true => TensorView::default(),
            false => TensorView::new(shape, TensorValues::F32(values))?,
        };
        position.compute(matrices, &features)?;
        let [embedding, cone] = position.outputs()?;
        let target = head.input(signature.head_input(HeadInput::PositionEmbedding)?)?;
        let uploaded = self.embedding.enqueue_upload(embedding, target).and_then(|()| {
            let target = head.input(signature.head_input(HeadInput::Cone)?)?;
            self.cone.enqueue_upload(cone, target)
        });
        if uploaded.is_err() {
            position.invalidate();
        }
        uploaded
    }

    /// Queues the head on the features of a frame, and the step of the memory. After an error
    /// the memory is undefined: the next frame has to be a first one.
    ///
    /// # Errors
    /// `Inference` when the head fails; `Device` when the GPU does.
    pub fn enqueue(&mut self, features: &DeviceTensor, stamp: Stamp, step: &Step) -> Result<()> {
        let Self { head, signature, ages, .. } = self;
        if *step == Step::First {
            ages.clear(stamp);
            for (input, _) in MEMORY {
                head.input(signature.head_input(input)?)?.enqueue_clear()?;
            }
        }
        ages.age_to(stamp);
        let (_, inverse) = poses(step);
        let age = TensorView::new(
            &signature.head_shapes[signature.head_input(HeadInput::MemoryAge)?],
            TensorValues::F32(&ages.seconds),
        )?;
        let target = head.input(signature.head_input(HeadInput::MemoryAge)?)?;
        self.age.enqueue_upload(age, target)?;
        let inverse = TensorView::new(&[1, 4, 4], TensorValues::F32(&inverse))?;
        let target = head.input(signature.head_input(HeadInput::InversePose)?)?;
        self.inverse_pose.enqueue_upload(inverse, target)?;
        head.input(signature.head_input(HeadInput::Features)?)?.enqueue_copy(features)?;
        head.enqueue()?;
        for (input, output) in MEMORY {
            let output = signature.head_outputs[output as usize];
            head.enqueue_feedback(output, signature.head_input(input)?)?;
        }
        ages.push(self.num_new, stamp);
        Ok(())
    }

    /// The shape of the features that the head takes.
    pub fn features_shape(&self) -> &[usize] {
        &self.features.0
    }

    /// Waits, then copies the memory, and the ages of its rows at the time of the last frame.
    ///
    /// # Errors
    /// `Device` when earlier work or a copy fails.
    pub fn memory(&mut self, stamp: Stamp) -> Result<MemoryValues> {
        let mut values: MemoryValues = Default::default();
        for ((input, _), values) in MEMORY.into_iter().zip(&mut values) {
            let tensor = self.head.input(self.signature.head_input(input)?)?.read()?;
            if let TensorValues::F32(read) = tensor.view().values() {
                *values = read.to_vec();
            }
        }
        values[4] = self.ages.at(stamp);
        Ok(values)
    }

    /// Replaces the memory by one of the same lengths, and waits.
    ///
    /// # Errors
    /// `Device` when a copy fails.
    pub fn set_memory(&mut self, values: &MemoryValues, stamp: Stamp) -> Result<()> {
        for ((input, _), values) in MEMORY.into_iter().zip(values) {
            let to = self.head.input(self.signature.head_input(input)?)?;
            let shape = to.shape().to_vec();
            to.write(&TensorView::new(&shape, TensorValues::F32(values))?)?;
        }
        self.ages.set(&values[4], stamp);
        Ok(())
    }

    /// Waits once for the queued work and the copies of the outputs to the host.
    ///
    /// # Errors
    /// `Device` when earlier work or a copy fails.
    pub fn outputs(&mut self) -> Result<StreamPetrOutputs<TensorView<'_>>> {
        let Self { stream, head, signature, logits, boxes, .. } = self;
        let output = |output: HeadOutput| head.output(signature.head_outputs[output as usize]);
        logits.enqueue_download(output(HeadOutput::Logits)?)?;
        boxes.enqueue_download(output(HeadOutput::Boxes)?)?;
        stream.synchronize()?;
        Ok(StreamPetrOutputs { logits: logits.view()?, boxes: boxes.view()? })
    }
}
