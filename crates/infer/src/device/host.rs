//! A network on the CPU between kernels on the device, with explicit copies.

use super::network::{Network, allocate_inputs, allocate_output, failed};
use crate::Engine;
use det_post_ops::device::cuda::{DeviceTensor, PinnedTensor, Stream};
use det_post_types::{Result, Tensor, TensorSpec, TensorValues, TensorView};

/// The maximum number of inputs.
const MAX_INPUTS: usize = 16;

/// Bytes that one run copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumBytes {
    /// From the device to the host.
    pub to_host: usize,
    /// From the host to the device.
    pub to_device: usize,
}

/// An engine on the CPU, and page-locked memory for the copies of its tensors.
pub(super) struct HostRunner {
    stream: Stream,
    engine: Box<dyn Engine>,
    inputs: Vec<PinnedTensor>,
    /// One per output; `None` for an output that holds neither floats nor int8.
    outputs: Vec<Option<PinnedTensor>>,
    copies: NumBytes,
}

impl HostRunner {
    pub(super) fn new(
        mut engine: Box<dyn Engine>,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<(Self, Network)> {
        let inputs = allocate_inputs(stream, engine.inputs(), shape_of)?;
        if inputs.len() > MAX_INPUTS {
            let num = inputs.len();
            return Err(failed(format!("{num} inputs exceed the limit of {MAX_INPUTS}")));
        }
        let zeros = inputs.iter().map(|input| Tensor::zeros(input.element(), input.shape()));
        let zeros = zeros.collect::<Result<Vec<_>>>()?;
        engine.run(&zeros.iter().map(Tensor::view).collect::<Vec<_>>())?;
        let outputs = (0..engine.outputs().len()).map(|index| {
            let output = engine.output(index)?;
            let element = Some(output.values().element());
            Ok((output.shape().to_vec(), allocate_output(stream, element, output.shape())?))
        });
        let (shapes, outputs) = outputs.collect::<Result<(Vec<_>, Vec<_>)>>()?;
        let network = Network {
            name: format!("{} on the CPU", engine.name()),
            input_specs: engine.inputs().to_vec(),
            output_specs: engine.outputs().to_vec(),
            inputs,
            outputs,
            shapes,
            staged: Vec::new(),
        };
        let pinned = |tensor: &DeviceTensor| PinnedTensor::like(stream, tensor);
        let runner = Self {
            stream: stream.clone(),
            inputs: network.inputs.iter().map(pinned).collect::<Result<_>>()?,
            outputs: network
                .outputs
                .iter()
                .map(|output| output.as_ref().map(pinned).transpose())
                .collect::<Result<_>>()?,
            copies: NumBytes {
                to_host: network.inputs.iter().map(DeviceTensor::num_bytes).sum(),
                to_device: network.outputs.iter().flatten().map(DeviceTensor::num_bytes).sum(),
            },
            engine,
        };
        let NumBytes { to_host, to_device } = runner.copies;
        tracing::info!(
            "{} runs between kernels of {}: every frame copies {to_host} bytes down and {to_device} up, \
             and waits once more",
            network.name,
            stream.device(),
        );
        Ok((runner, network))
    }

    /// An engine whose inputs are in host memory and may have another shape in each run
    /// ([`HostRunner::run`]). It runs once on `first`, from which the shapes of the outputs follow.
    pub(super) fn of_host_inputs(
        mut engine: Box<dyn Engine>,
        stream: &Stream,
        first: &[TensorView<'_>],
    ) -> Result<(Self, Network)> {
        engine.run(first)?;
        let shape_of = |index| Ok(engine.output(index)?.shape().to_vec());
        let shapes = (0..engine.outputs().len()).map(shape_of).collect::<Result<Vec<_>>>()?;
        let network = Network {
            name: format!("{} on the CPU", engine.name()),
            input_specs: engine.inputs().to_vec(),
            output_specs: engine.outputs().to_vec(),
            inputs: Vec::new(),
            outputs: shapes.iter().map(|_| None).collect(),
            shapes,
            staged: Vec::new(),
        };
        let (name, device) = (&network.name, stream.device());
        tracing::info!(
            "{name} runs between kernels of {device}: its inputs are of another shape in every frame"
        );
        let copies = NumBytes::default();
        let runner =
            Self { stream: stream.clone(), engine, inputs: vec![], outputs: vec![], copies };
        Ok((runner, network))
    }

    /// Runs on tensors in host memory and queues the upload of the outputs.
    pub(super) fn run(&mut self, network: &mut Network, inputs: &[TensorView<'_>]) -> Result<()> {
        self.engine.run(inputs)?;
        self.copies.to_host = inputs.iter().map(num_bytes).sum();
        self.enqueue_outputs(network)
    }

    /// Copies no outputs but those that are staged.
    pub(super) fn stage(&mut self) {
        self.outputs.clear();
        self.copies.to_device = 0;
    }

    /// Waits once for all inputs, runs, and queues the upload of the outputs.
    pub(super) fn enqueue(&mut self, network: &mut Network) -> Result<()> {
        let Self { stream, engine, inputs, .. } = self;
        let num_inputs = inputs.len();
        for (pinned, input) in inputs.iter_mut().zip(&network.inputs) {
            pinned.enqueue_download(input)?;
        }
        stream.synchronize()?;
        let mut views = [TensorView::default(); MAX_INPUTS];
        for (view, pinned) in views.iter_mut().zip(inputs.iter()) {
            *view = pinned.view()?;
        }
        engine.run(&views[..num_inputs])?;
        self.enqueue_outputs(network)
    }

    /// Queues the upload of the outputs of the last run.
    fn enqueue_outputs(&mut self, network: &mut Network) -> Result<()> {
        let Self { engine, outputs, .. } = self;
        for (index, (pinned, target)) in outputs.iter_mut().zip(&mut network.outputs).enumerate() {
            let (Some(pinned), Some(target)) = (pinned, target) else { continue };
            let output = engine.output(index)?;
            if output.shape() != target.shape() {
                let (found, first) = (output.shape(), target.shape());
                return Err(failed(format!(
                    "output {index} is {found:?}; it was {first:?} in the first run"
                )));
            }
            pinned.enqueue_upload(output, target)?;
        }
        for place in 0..network.staged.len() {
            let output = engine.output(network.staged[place].output.position)?;
            network.enqueue_staged(place, &output)?;
        }
        Ok(())
    }

    pub(super) fn copies(&self) -> NumBytes {
        self.copies
    }
}

fn num_bytes(tensor: &TensorView<'_>) -> usize {
    match tensor.values() {
        TensorValues::F32(values) => size_of_val(values),
        TensorValues::F16(values) => size_of_val(values),
        TensorValues::I32(values) => size_of_val(values),
        TensorValues::I64(values) => size_of_val(values),
        TensorValues::F64(values) => size_of_val(values),
        TensorValues::I8(values) => size_of_val(values),
    }
}
