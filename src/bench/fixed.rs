//! Networks with fixed outputs, which take no time.

use det_post_infer::Engine;
#[cfg(feature = "cuda")]
use det_post_infer::device::DeviceEngine;
#[cfg(feature = "cuda")]
use det_post_ops::device::cuda::Stream;
use det_post_types::{Dim, ElementType, Result, Tensor, TensorSpec, TensorView};

/// The input and the outputs of a network.
pub(super) struct Network {
    pub(super) input: (&'static str, Vec<usize>),
    pub(super) outputs: Vec<(&'static str, Tensor)>,
}

impl Network {
    /// As an engine on the CPU.
    pub(super) fn on_cpu(self) -> Box<dyn Engine> {
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|(name, tensor)| spec(name, tensor.element(), tensor.shape()));
        Box::new(Fixed {
            inputs: vec![self.input()],
            outputs: outputs.collect(),
            tensors: self.outputs.into_iter().map(|(_, tensor)| tensor).collect(),
        })
    }

    /// As an engine of a stream.
    #[cfg(feature = "cuda")]
    pub(super) fn on_device(&self, stream: &Stream) -> Result<DeviceEngine> {
        let outputs: Vec<_> = self.outputs.iter().map(|(name, tensor)| (*name, tensor)).collect();
        DeviceEngine::fixed(stream, vec![self.input()], &outputs)
    }

    fn input(&self) -> TensorSpec {
        let (name, shape) = &self.input;
        spec(name, ElementType::F32, shape)
    }
}

fn spec(name: &str, element: ElementType, shape: &[usize]) -> TensorSpec {
    let shape = Some(shape.iter().map(|&n| Dim::Fixed(n)).collect());
    TensorSpec { name: name.to_owned(), element: Some(element), shape }
}

struct Fixed {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    tensors: Vec<Tensor>,
}

impl Engine for Fixed {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, _inputs: &[TensorView<'_>]) -> Result<()> {
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        Ok(self.tensors.get(index).map_or_else(TensorView::default, Tensor::view))
    }

    fn name(&self) -> &str {
        "fixed outputs"
    }
}
