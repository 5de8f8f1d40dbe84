//! The tensors of a network in device memory.

use crate::{STAGE, signature};
use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_types::{Dim, ElementType, Error, ErrorKind, Result, TensorSpec};

/// The inputs and outputs of a network for one frame at a time, in the memory of its stream.
/// Shapes and addresses never change.
pub(super) struct Network {
    pub(super) name: String,
    pub(super) input_specs: Vec<TensorSpec>,
    pub(super) output_specs: Vec<TensorSpec>,
    pub(super) inputs: Vec<DeviceTensor>,
    /// One per output; `None` for an output that does not hold floats.
    pub(super) outputs: Vec<Option<DeviceTensor>>,
}

impl Network {
    /// Other tensors like these, with their values, for a frame in flight beside that of these.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub(super) fn duplicate(&self, stream: &Stream) -> Result<Self> {
        let copied = |tensor: &DeviceTensor| {
            let mut copy = DeviceTensor::zeros(stream, tensor.element(), tensor.shape())?;
            copy.enqueue_copy(tensor)?;
            Ok(copy)
        };
        let copied_output = |output: &Option<_>| output.as_ref().map(copied).transpose();
        let copy = Self {
            name: self.name.clone(),
            input_specs: self.input_specs.clone(),
            output_specs: self.output_specs.clone(),
            inputs: self.inputs.iter().map(copied).collect::<Result<_>>()?,
            outputs: self.outputs.iter().map(copied_output).collect::<Result<_>>()?,
        };
        stream.synchronize()?;
        Ok(copy)
    }
}

/// Allocates the inputs of a network, whose shapes `shape_of` gives.
///
/// # Errors
/// Returns the errors of `shape_of`; `Model` for an input that does not take floats or a shape that
/// does not fit it; `Device` when there is not enough memory.
pub(super) fn allocate_inputs(
    stream: &Stream,
    specs: &[TensorSpec],
    shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
) -> Result<Vec<DeviceTensor>> {
    let allocate = |spec: &TensorSpec| {
        let shape = shape_of(spec)?;
        match spec.element {
            _ if !signature::shape_fits(spec, &shape) => {
                Err(model_error(format!("input {spec} cannot have the shape {shape:?}")))
            }
            Some(element @ (ElementType::F32 | ElementType::F16)) => {
                DeviceTensor::zeros(stream, element, &shape)
            }
            _ => Err(model_error(format!("input {spec} does not take floats"))),
        }
    };
    specs.iter().map(allocate).collect()
}

/// Allocates an output, if it holds floats.
///
/// # Errors
/// `Device` when there is not enough memory.
pub(super) fn allocate_output(
    stream: &Stream,
    element: Option<ElementType>,
    shape: &[usize],
) -> Result<Option<DeviceTensor>> {
    match element {
        Some(element @ (ElementType::F32 | ElementType::F16)) => {
            DeviceTensor::zeros(stream, element, shape).map(Some)
        }
        _ => Ok(None),
    }
}

/// The shape of an input whose dimensions are all fixed.
///
/// # Errors
/// `Model` for an input with a dynamic dimension.
pub fn fixed_shape(spec: &TensorSpec) -> Result<Vec<usize>> {
    let fixed = |dim: &Dim| match dim {
        Dim::Fixed(n) => Some(*n),
        Dim::Dynamic => None,
    };
    let shape = spec.shape.as_ref().and_then(|dims| dims.iter().map(fixed).collect());
    shape.ok_or_else(|| {
        model_error(format!("input {spec} has a dynamic dimension: its shape must be given"))
    })
}

pub(super) fn model_error(message: String) -> Error {
    Error::new(ErrorKind::Model, STAGE, message)
}

pub(super) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Inference, STAGE, message)
}
