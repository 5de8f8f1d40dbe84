//! The network of position embeddings, on the host.

use super::CameraMatrices;
use super::signature::{PositionInput, Signature};
use det_post_infer::Engine;
use det_post_types::{ElementType, Error, ErrorKind, Result, Size, TensorValues, TensorView};

/// The largest number of its inputs.
const MAX_INPUTS: usize = 4;

/// The network that turns matrices into position embeddings and cones, and its last outputs.
pub(super) struct PositionEmbedding {
    engine: Box<dyn Engine>,
    inputs: Vec<PositionInput>,
    /// The shape of each input.
    shapes: Vec<Vec<usize>>,
    /// Embedding and cone.
    outputs: [usize; 2],
    input_size: Size,
    is_valid: bool,
}

impl PositionEmbedding {
    /// A network whose tensors are those of the signature.
    pub(super) fn new(mut engine: Box<dyn Engine>, signature: &Signature) -> Result<Self> {
        engine.use_outputs(&signature.position_outputs)?;
        Ok(Self {
            engine,
            inputs: signature.position_inputs.clone(),
            shapes: signature.position_shapes.clone(),
            outputs: signature.position_outputs,
            input_size: signature.lengths.input_size,
            is_valid: false,
        })
    }

    /// Computes the embeddings of the cameras. Of the features it uses the shape.
    ///
    /// # Errors
    /// `Argument` for another number of matrices; `Inference` when the network fails.
    pub(super) fn compute(
        &mut self,
        matrices: &CameraMatrices<'_>,
        features: &TensorView<'_>,
    ) -> Result<()> {
        self.is_valid = false;
        let shape = [self.input_size.height as i32, self.input_size.width as i32, 3];
        let wide_shape = shape.map(i64::from);
        let mut inputs = [TensorView::default(); MAX_INPUTS];
        for (index, input) in self.inputs.iter().enumerate() {
            let dims = &self.shapes[index];
            let values = match input {
                PositionInput::ImageShape => match self.engine.inputs()[index].element {
                    Some(ElementType::I64) => TensorValues::I64(&wide_shape),
                    _ => TensorValues::I32(&shape),
                },
                PositionInput::Intrinsics => TensorValues::F32(matrices.intrinsics),
                PositionInput::TargetFromImage => TensorValues::F32(matrices.target_from_image),
                PositionInput::Features => {
                    inputs[index] = *features;
                    continue;
                }
            };
            inputs[index] = TensorView::new(dims, values)?;
        }
        self.engine.run(&inputs[..self.inputs.len()])?;
        self.is_valid = true;
        Ok(())
    }

    /// Whether there are embeddings.
    pub(super) fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Discards the embeddings.
    pub(super) fn invalidate(&mut self) {
        self.is_valid = false;
    }

    /// The embedding and the cone.
    ///
    /// # Errors
    /// `Argument` when there are none.
    pub(super) fn outputs(&self) -> Result<[TensorView<'_>; 2]> {
        if !self.is_valid {
            let message = "a frame comes before the position embedding is computed";
            return Err(Error::new(ErrorKind::Argument, "streampetr", message));
        }
        let [embedding, cone] = self.outputs;
        Ok([self.engine.output(embedding)?, self.engine.output(cone)?])
    }
}
