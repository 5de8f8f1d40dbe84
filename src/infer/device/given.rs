//! Answers that stand before they are asked for: no network runs.

use super::{fixed_shape, named};
use crate::device::cuda::{DeviceTensor, Stream};
use crate::error::Result;
use crate::types::{ElementType, Tensor, TensorSpec};

/// Inputs that nobody reads and outputs that were written once: what remains of
/// a channel when its network takes no time.
pub struct GivenAnswers {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    input_tensors: Vec<DeviceTensor>,
    answers: Vec<DeviceTensor>,
}

impl GivenAnswers {
    pub(super) fn new(
        stream: &Stream,
        inputs: Vec<TensorSpec>,
        answers: &[(&str, &Tensor)],
    ) -> Result<Self> {
        let input = |spec: &TensorSpec| {
            let element = spec.element.unwrap_or(ElementType::F32);
            DeviceTensor::zeros(stream, element, &fixed_shape(spec)?)
        };
        let answer = |(_, tensor): &(&str, &Tensor)| {
            let mut on_device = DeviceTensor::zeros(stream, tensor.element(), tensor.shape())?;
            on_device.write(&tensor.view())?;
            Ok(on_device)
        };
        Ok(Self {
            input_tensors: inputs.iter().map(input).collect::<Result<_>>()?,
            inputs,
            outputs: answers.iter().map(|(name, tensor)| named(name, tensor)).collect(),
            answers: answers.iter().map(answer).collect::<Result<_>>()?,
        })
    }

    pub(super) fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    pub(super) fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    pub(super) fn input(&mut self, index: usize) -> Option<&mut DeviceTensor> {
        self.input_tensors.get_mut(index)
    }

    pub(super) fn output(&self, index: usize) -> Option<&DeviceTensor> {
        self.answers.get(index)
    }
}
