//! StreamPETR on the CPU.

use nalgebra::{Isometry3, Matrix4};

use super::CameraMatrices;
use super::memory::{Memory, MemoryValues, Updated};
use super::position::PositionEmbedding;
use super::signature::{HeadInput, HeadOutput, Signature, Specs, StatedImages};
use crate::detectors::surround::ego_motion::Step;
use det_post_infer::Engine;
use det_post_ops::decode::streampetr::StreamPetrOutputs;
use det_post_types::{ElementType, Result, Stamp, TensorValues, TensorView, rounded_rows};

/// The largest number of inputs of the head.
const MAX_INPUTS: usize = 11;

/// StreamPETR's position embedding, head and memory.
pub struct StreamPetr {
    position: PositionEmbedding,
    head: Box<dyn Engine>,
    signature: Signature,
    memory: Memory,
}

impl StreamPetr {
    /// The networks behind a backbone, for a number of classes. `stated` are the number of
    /// cameras and the image size of the head file.
    ///
    /// # Errors
    /// `Model` when a network does not fit the others.
    pub fn new(
        backbone: &mut dyn Engine,
        position: Box<dyn Engine>,
        head: Box<dyn Engine>,
        num_classes: usize,
        stated: StatedImages,
    ) -> Result<Self> {
        let signature = Signature::new(
            Specs { inputs: backbone.inputs(), outputs: backbone.outputs() },
            Specs { inputs: position.inputs(), outputs: position.outputs() },
            Specs { inputs: head.inputs(), outputs: head.outputs() },
            num_classes,
            stated,
        )?;
        backbone.use_outputs(&[signature.features])?;
        Self::with_signature(signature, position, head)
    }

    /// The networks behind features that a caller has, by their tensors.
    ///
    /// # Errors
    /// `Inference` when an engine fails.
    pub fn with_signature(
        signature: Signature,
        position: Box<dyn Engine>,
        mut head: Box<dyn Engine>,
    ) -> Result<Self> {
        head.use_outputs(&signature.head_outputs)?;
        Ok(Self {
            position: PositionEmbedding::new(position, &signature)?,
            head,
            memory: Memory::new(&signature.lengths),
            signature,
        })
    }

    /// The tensors of the networks.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Computes the embeddings of the cameras. Needed before the first frame, and whenever
    /// a matrix changes.
    ///
    /// # Errors
    /// `Argument` for another number of matrices; `Inference` when the network fails.
    pub fn embed(
        &mut self,
        matrices: &CameraMatrices<'_>,
        features: &TensorView<'_>,
    ) -> Result<()> {
        self.position.compute(matrices, features)
    }

    /// Whether [`StreamPetr::embed`] has succeeded.
    pub fn is_embedded(&self) -> bool {
        self.position.is_valid()
    }

    /// Runs both networks once, on matrices of zeros. Keeps no state.
    ///
    /// # Errors
    /// Returns the errors of [`StreamPetr::embed`] and [`StreamPetr::run`].
    pub fn warm_up(&mut self, features: &TensorView<'_>) -> Result<()> {
        let zeros = vec![0.0; 16 * self.signature.lengths.num_cameras];
        self.embed(&CameraMatrices { intrinsics: &zeros, target_from_image: &zeros }, features)?;
        self.run(features, Stamp::default(), &Step::First)?;
        self.position.invalidate();
        Ok(())
    }

    /// Runs the head on the features of a frame and moves the memory to it. The outputs are
    /// valid until the next call. After an error the memory is that of the frame before, or
    /// empty at a first frame.
    ///
    /// # Errors
    /// `Argument` before the cameras are embedded; `Inference` when a network fails or its
    /// outputs do not fit the memory.
    pub fn run(
        &mut self,
        features: &TensorView<'_>,
        stamp: Stamp,
        step: &Step,
    ) -> Result<StreamPetrOutputs<TensorView<'_>>> {
        let Self { position, head, signature, memory } = self;
        let [embedding, cone] = position.outputs()?;
        if *step == Step::First {
            memory.clear(stamp);
        }
        memory.ages.age_to(stamp);
        let (identity, inverse) = poses(step);
        let mut inputs = [TensorView::default(); MAX_INPUTS];
        for (index, input) in signature.head_inputs.iter().enumerate() {
            let dims = &signature.head_shapes[index];
            let floats = |values| TensorView::new(dims, TensorValues::F32(values));
            inputs[index] = match input {
                HeadInput::Features => *features,
                HeadInput::PositionEmbedding => embedding,
                HeadInput::Cone => cone,
                HeadInput::Pose => floats(&identity)?,
                HeadInput::InversePose => floats(&inverse)?,
                HeadInput::Time => match head.inputs()[index].element {
                    Some(ElementType::F64) => TensorView::new(dims, TensorValues::F64(&[0.0]))?,
                    _ => floats(&[0.0])?,
                },
                HeadInput::MemoryEmbedding => floats(&memory.embedding)?,
                HeadInput::MemoryReferencePoint => floats(&memory.reference_point)?,
                HeadInput::MemoryAge => floats(&memory.ages.seconds)?,
                HeadInput::MemoryPose => floats(&memory.pose)?,
                HeadInput::MemoryVelocity => floats(&memory.velocity)?,
            };
        }
        head.run(&inputs[..signature.head_inputs.len()])?;
        let output = |output: HeadOutput| head.output(signature.head_outputs[output as usize]);
        let updated = Updated {
            embedding: output(HeadOutput::MemoryEmbedding)?,
            reference_point: output(HeadOutput::MemoryReferencePoint)?,
            pose: output(HeadOutput::MemoryPose)?,
            velocity: output(HeadOutput::MemoryVelocity)?,
        };
        memory.update(&updated, stamp)?;
        self.outputs()
    }

    /// The memory, and the ages of its rows at the time of the last frame.
    pub fn memory(&self, stamp: Stamp) -> MemoryValues {
        let Memory { embedding, reference_point, pose, velocity, ages } = &self.memory;
        [embedding.clone(), reference_point.clone(), pose.clone(), velocity.clone(), ages.at(stamp)]
    }

    /// Replaces the memory by one of the same lengths.
    pub fn set_memory(&mut self, values: MemoryValues, stamp: Stamp) {
        let [embedding, reference_point, pose, velocity, ages] = values;
        let memory = &mut self.memory;
        (memory.embedding, memory.reference_point) = (embedding, reference_point);
        (memory.pose, memory.velocity) = (pose, velocity);
        memory.ages.set(&ages, stamp);
    }

    /// The outputs of the last frame.
    ///
    /// # Errors
    /// `Inference` before the first frame.
    pub fn outputs(&self) -> Result<StreamPetrOutputs<TensorView<'_>>> {
        let output =
            |output: HeadOutput| self.head.output(self.signature.head_outputs[output as usize]);
        let (logits, boxes) = (output(HeadOutput::Logits)?, output(HeadOutput::Boxes)?);
        Ok(StreamPetrOutputs { logits, boxes })
    }
}

/// The pose of the vehicle and its inverse, relative to the previous frame.
pub(super) fn poses(step: &Step) -> ([f32; 16], [f32; 16]) {
    let current_from_previous = match step {
        Step::First => Isometry3::identity(),
        Step::Next { current_from_previous, .. } => *current_from_previous,
    };
    let inverse = current_from_previous.to_homogeneous();
    (rounded_rows(&Matrix4::identity(), None), rounded_rows(&inverse, None))
}
