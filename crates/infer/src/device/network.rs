//! The tensors of a network in device memory.

pub(super) use super::errors::{failed, model_error};
use super::staged::{Staged, StagedOutput};
use crate::signature;
use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_types::{Dim, ElementType, Result, TensorSpec, TensorView};

/// The inputs and outputs of a network for one frame at a time, in the memory of its stream.
/// Shapes and addresses never change.
pub(super) struct Network {
    pub(super) name: String,
    pub(super) input_specs: Vec<TensorSpec>,
    pub(super) output_specs: Vec<TensorSpec>,
    pub(super) inputs: Vec<DeviceTensor>,
    /// One per output; `None` for an output that holds neither floats nor int8.
    pub(super) outputs: Vec<Option<DeviceTensor>>,
    /// The shape of each output in the first run.
    pub(super) shapes: Vec<Vec<usize>>,
    /// The outputs that are read through host memory: no others, then.
    pub(super) staged: Vec<Staged>,
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
        let outputs = self.outputs.iter().map(copied_output).collect::<Result<Vec<_>>>()?;
        let staged = self.staged.iter().map(|staged| {
            let target = outputs.get(staged.output.position).and_then(Option::as_ref);
            let target = target.ok_or_else(|| failed("a staged output has no tensor"))?;
            Staged::of(stream, staged.output, target)
        });
        let copy = Self {
            name: self.name.clone(),
            input_specs: self.input_specs.clone(),
            output_specs: self.output_specs.clone(),
            inputs: self.inputs.iter().map(copied).collect::<Result<_>>()?,
            shapes: self.shapes.clone(),
            staged: staged.collect::<Result<_>>()?,
            outputs,
        };
        stream.synchronize()?;
        Ok(copy)
    }

    /// Reads outputs, and no others, through host memory.
    pub(super) fn stage(&mut self, stream: &Stream, outputs: &[StagedOutput]) -> Result<()> {
        let mut tensors: Vec<_> = self.output_specs.iter().map(|_| None).collect();
        let mut all = Vec::with_capacity(outputs.len());
        for &output in outputs {
            let known =
                self.output_specs.get(output.position).zip(self.shapes.get(output.position));
            let (Some((spec, first)), Some(tensor)) = (known, tensors.get_mut(output.position))
            else {
                return Err(failed(format!("no output {} to be staged", output.position)));
            };
            let (staged, target) = Staged::new(stream, output, spec, first)?;
            *tensor = Some(target);
            all.push(staged);
        }
        (self.outputs, self.staged) = (tensors, all);
        Ok(())
    }

    /// Queues the upload of what a run wrote of a staged output, by its place among them, in their
    /// order.
    ///
    /// # Errors
    /// `Inference` for another shape, or another number of rows than the first one has; `Device`
    /// when the upload fails.
    pub(super) fn enqueue_staged(&mut self, place: usize, found: &TensorView<'_>) -> Result<()> {
        let first = self.staged.first().and_then(Staged::num_rows);
        let staged = self.staged.get_mut(place);
        let staged = staged.ok_or_else(|| failed(format!("no staged output {place}")))?;
        let own = staged.output.rows.and_then(|rows| found.shape().get(rows));
        if let (true, Some(first), Some(&own)) = (place > 0, first, own)
            && own != first
        {
            return Err(failed(format!("{own} rows of an output, but {first} of the first")));
        }
        match self.outputs.get_mut(staged.output.position) {
            Some(Some(target)) => staged.enqueue(found.shape(), found.values(), target),
            _ => Err(failed("a staged output has no tensor")),
        }
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

/// Allocates an output, if it holds floats or int8.
///
/// # Errors
/// `Device` when there is not enough memory.
pub(super) fn allocate_output(
    stream: &Stream,
    element: Option<ElementType>,
    shape: &[usize],
) -> Result<Option<DeviceTensor>> {
    match element {
        Some(element @ (ElementType::F32 | ElementType::F16 | ElementType::I8)) => {
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
