//! Tensors of a message in place of a network's outputs.

use super::Engine;
use det_post_types::{
    Error, ErrorKind, OwnedTensor, ReceivedTensors, Result, TensorSpec, TensorView,
};

const STAGE: &str = "tensors";

/// The outputs of a network that runs elsewhere and publishes its tensors.
#[derive(Debug)]
pub struct External {
    outputs: Vec<TensorSpec>,
    tensors: Vec<OwnedTensor>,
    is_filled: bool,
}

impl External {
    /// Takes the tensors of these names.
    pub fn new(names: &[String]) -> Self {
        let spec = |name: &String| TensorSpec { name: name.clone(), element: None, shape: None };
        Self {
            outputs: names.iter().map(spec).collect(),
            tensors: vec![OwnedTensor::default(); names.len()],
            is_filled: false,
        }
    }

    /// Copies the tensors of a message, whose elements are not aligned there.
    ///
    /// # Errors
    /// `Layout` when the message does not have a tensor, or it has a type that is not decoded.
    pub fn receive(&mut self, received: &ReceivedTensors<'_>) -> Result<()> {
        self.is_filled = false;
        for (spec, tensor) in self.outputs.iter().zip(&mut self.tensors) {
            let Some((entry, bytes)) = received.find(&spec.name) else {
                let (name, found) = (&spec.name, received.describe());
                let message = format!("there is no tensor {name}; found: {found}");
                return Err(Error::new(ErrorKind::Layout, STAGE, message));
            };
            tensor.fill(entry, bytes)?;
        }
        self.is_filled = true;
        Ok(())
    }
}

impl Engine for External {
    fn inputs(&self) -> &[TensorSpec] {
        &[]
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, _: &[TensorView<'_>]) -> Result<()> {
        let message = "tensors are received, no network runs here";
        Err(Error::new(ErrorKind::Inference, STAGE, message))
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        match self.tensors.get(index).filter(|_| self.is_filled) {
            Some(tensor) => TensorView::new(tensor.shape(), tensor.values()),
            None => Err(Error::new(ErrorKind::Inference, STAGE, "no tensors were received")),
        }
    }

    fn name(&self) -> &'static str {
        "external"
    }
}
