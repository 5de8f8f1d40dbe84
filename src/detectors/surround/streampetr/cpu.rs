//! StreamPETR on the CPU.

use nalgebra::{Isometry3, Matrix4};

use super::memory::{Memory, Updated};
use super::signature::{HeadInput, HeadOutput, PositionInput, Signature, Specs};
use crate::detectors::surround::ego_motion::Step;
use crate::error::{Error, ErrorKind, Result};
use crate::infer::Engine;
use crate::ops::decode_streampetr::StreamPetrOutputs;
use crate::types::{ElementType, Size, Stamp, TensorValues, TensorView};

/// The largest number of inputs of a network.
const MAX_INPUTS: usize = 11;

/// StreamPETR's position embedding, head and memory.
pub struct StreamPetr {
    position: Box<dyn Engine>,
    head: Box<dyn Engine>,
    signature: Signature,
    memory: Memory,
    /// Whether the position network has run.
    is_embedded: bool,
}

/// The matrices of all cameras, row by row, as the position network takes them.
#[derive(Clone, Copy, Debug)]
pub struct CameraMatrices<'a> {
    /// Intrinsic matrices of the network's pictures, [N, 4, 4].
    pub intrinsics: &'a [f32],
    /// Transforms from (u·z, v·z, z, 1) to the target frame, [N, 4, 4].
    pub target_from_picture: &'a [f32],
}

impl StreamPetr {
    /// The networks behind a backbone, for a number of classes. `stated` are the number of
    /// cameras and the picture size of the head file.
    ///
    /// # Errors
    /// `Model` when a network does not fit the others.
    pub fn new(
        backbone: &mut dyn Engine,
        mut position: Box<dyn Engine>,
        mut head: Box<dyn Engine>,
        num_classes: usize,
        stated: (Option<usize>, Option<Size>),
    ) -> Result<Self> {
        let specs = |engine: &dyn Engine| (engine.inputs().to_vec(), engine.outputs().to_vec());
        let [of_backbone, of_position, of_head] =
            [specs(backbone), specs(position.as_ref()), specs(head.as_ref())];
        let [backbone_specs, position_specs, head_specs] = [&of_backbone, &of_position, &of_head]
            .map(|(inputs, outputs)| Specs { inputs, outputs });
        let signature =
            Signature::new(backbone_specs, position_specs, head_specs, num_classes, stated)?;
        backbone.use_outputs(&[signature.features])?;
        position.use_outputs(&signature.position_outputs)?;
        head.use_outputs(&signature.head_outputs)?;
        let memory = Memory::new(&signature.lengths);
        Ok(Self { position, head, signature, memory, is_embedded: false })
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
        let Self { position, signature, is_embedded, .. } = self;
        *is_embedded = false;
        let Size { width, height } = signature.lengths.picture;
        let shape = [height as i32, width as i32, 3];
        let wide_shape = shape.map(i64::from);
        let mut inputs = [TensorView::default(); MAX_INPUTS];
        let num_inputs = signature.position_inputs.len();
        for (index, input) in signature.position_inputs.iter().enumerate() {
            let dims = &signature.position_shapes[index];
            inputs[index] = match input {
                PositionInput::PictureShape => match position.inputs()[index].element {
                    Some(ElementType::I64) => {
                        TensorView::new(dims, TensorValues::I64(&wide_shape))?
                    }
                    _ => TensorView::new(dims, TensorValues::I32(&shape))?,
                },
                PositionInput::Intrinsics => floats(dims, matrices.intrinsics)?,
                PositionInput::TargetFromPicture => floats(dims, matrices.target_from_picture)?,
                PositionInput::Features => *features,
            };
        }
        position.run(&inputs[..num_inputs])?;
        *is_embedded = true;
        Ok(())
    }

    /// Whether [`StreamPetr::embed`] has succeeded.
    pub fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    /// Runs both networks once, on matrices of zeros. Keeps no state.
    ///
    /// # Errors
    /// Those of [`StreamPetr::embed`] and [`StreamPetr::run`].
    pub fn warm_up(&mut self, features: &TensorView<'_>) -> Result<()> {
        let zeros = vec![0.0; 16 * self.signature.lengths.num_cameras];
        self.embed(&CameraMatrices { intrinsics: &zeros, target_from_picture: &zeros }, features)?;
        self.run(features, Stamp::default(), &Step::First)?;
        self.is_embedded = false;
        Ok(())
    }

    /// Runs the head on the features of a frame and moves the memory to it. The outputs are
    /// valid until the next call. After an error the memory is that of the frame before.
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
        let Self { position, head, signature, memory, is_embedded } = self;
        if !*is_embedded {
            let message = "a frame before the position embedding";
            return Err(Error::new(ErrorKind::Argument, "streampetr", message));
        }
        let current_from_previous = match step {
            Step::First => {
                memory.clear(stamp);
                Isometry3::identity()
            }
            Step::Next { current_from_previous, .. } => *current_from_previous,
        };
        memory.age_to(stamp);
        let identity = rows_of(&Matrix4::identity());
        let inverse = rows_of(&current_from_previous.to_homogeneous());
        let mut inputs = [TensorView::default(); MAX_INPUTS];
        for (index, input) in signature.head_inputs.iter().enumerate() {
            let dims = &signature.head_shapes[index];
            inputs[index] = match input {
                HeadInput::Features => *features,
                HeadInput::PositionEmbedding => position.output(signature.position_outputs[0])?,
                HeadInput::Cone => position.output(signature.position_outputs[1])?,
                HeadInput::Pose => floats(dims, &identity)?,
                HeadInput::InversePose => floats(dims, &inverse)?,
                HeadInput::Time => match head.inputs()[index].element {
                    Some(ElementType::F64) => TensorView::new(dims, TensorValues::F64(&[0.0]))?,
                    _ => floats(dims, &[0.0])?,
                },
                HeadInput::MemoryEmbedding => floats(dims, &memory.embedding)?,
                HeadInput::MemoryReferencePoint => floats(dims, &memory.reference_point)?,
                HeadInput::MemoryAge => floats(dims, &memory.age)?,
                HeadInput::MemoryPose => floats(dims, &memory.pose)?,
                HeadInput::MemoryVelocity => floats(dims, &memory.velocity)?,
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
        Ok(StreamPetrOutputs {
            logits: output(HeadOutput::Logits)?,
            boxes: output(HeadOutput::Boxes)?,
        })
    }
}

fn floats<'a>(dims: &'a [usize], values: &'a [f32]) -> Result<TensorView<'a>> {
    TensorView::new(dims, TensorValues::F32(values))
}

/// A matrix row by row.
fn rows_of(matrix: &Matrix4<f64>) -> [f32; 16] {
    std::array::from_fn(|i| matrix[(i / 4, i % 4)] as f32)
}
