//! Networks with inputs and outputs in device memory.
//!
//! A [`DeviceEngine`] belongs to one stream. The kernels before the network write
//! [`DeviceEngine::input`], [`DeviceEngine::enqueue`] queues the run, the kernels after it
//! read [`DeviceEngine::output`]: the same memory in every frame, so that the kernels
//! before and after may be recorded as graphs. The run itself must not be recorded.
//!
//! | made by | where the network runs | copies per run |
//! | --- | --- | --- |
//! | [`DeviceEngine::load`] with ONNX Runtime and its CUDA provider | on the stream's GPU | none |
//! | [`DeviceEngine::load`] otherwise, [`DeviceEngine::on_host`] | an [`Engine`] on the CPU | every input down, every output up, and one wait |
//! | [`DeviceEngine::fixed`] | nowhere: the outputs are constant | none |

#[expect(unsafe_code, reason = "ONNX Runtime is a C library; each block argues why it is sound")]
mod binding;
mod host;
mod network;
mod onnx_runtime;

use std::path::Path;

use host::HostRunner;
pub use host::NumBytes;
use network::Network;
pub use network::fixed_shape;
use network::{allocate_inputs, failed};
use onnx_runtime::OrtRunner;

use super::{Choice, Engine, LIBRARY_VARIABLE, OrtEngine, RtenEngine};
use crate::device::cuda::{DeviceTensor, Stream};
use crate::error::Result;
use crate::types::{Dim, EngineOptions, Provider, Tensor, TensorSpec};

/// A loaded network with its inputs and outputs in the memory of a stream.
pub struct DeviceEngine {
    // Dropped first: works in the memory of the tensors.
    runner: Runner,
    network: Network,
}

/// The runtime of a network.
enum Runner {
    /// ONNX Runtime on the GPU of the stream.
    OnnxRuntime(OrtRunner),
    /// An engine on the CPU, with copies through page-locked memory.
    Host(HostRunner),
    /// None: the outputs are constant.
    Fixed,
}

impl DeviceEngine {
    /// Loads a network for a stream and logs which engine runs it, and why.
    ///
    /// `shape_of` gives the shape that an input has in every frame; [`fixed_shape`] for a
    /// network without dynamic dimensions. The shapes of the outputs follow from a run
    /// on zeros, which also warms the network up.
    ///
    /// # Errors
    /// `Model` when the network cannot be loaded, the library of ONNX Runtime lacks the
    /// configured provider, or a shape does not fit an input; `Inference` when the first
    /// runs fail; `Device` when there is not enough memory.
    pub fn load(
        model: &Path,
        options: &EngineOptions,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let choice = super::choose(options, std::env::var_os(LIBRARY_VARIABLE).as_deref());
        let provider = options.gpu.provider;
        let Choice { library, reason } = choice;
        let on_gpu = match (&library, provider) {
            (Some(library), Provider::Auto) => onnx_runtime::has_cuda(library)?,
            (_, provider) => matches!(provider, Provider::Cuda | Provider::TensorRt),
        };
        let engine = match &library {
            Some(library) if on_gpu => {
                let (runner, network) = OrtRunner::load(model, library, options, stream, shape_of)?;
                Self { runner: Runner::OnnxRuntime(runner), network }
            }
            None if on_gpu => {
                return Err(network::model_error(format!(
                    "a network on the GPU needs a library of ONNX Runtime, but {reason}: name one \
                     in engine.library or in {LIBRARY_VARIABLE}"
                )));
            }
            Some(library) => {
                let engine = OrtEngine::load(model, library, options.threads)?;
                Self::on_host(Box::new(engine), stream, shape_of)?
            }
            None => {
                let engine = RtenEngine::load(model, options.threads)?;
                Self::on_host(Box::new(engine), stream, shape_of)?
            }
        };
        let reason = match provider {
            Provider::Cpu => "the options ask for the CPU",
            _ => reason,
        };
        let (model, device) = (model.display(), stream.device());
        tracing::info!("model {model} for {device} on {}: {reason}", engine.name());
        Ok(engine)
    }

    /// A network in an engine that runs on the CPU.
    ///
    /// # Errors
    /// As [`DeviceEngine::load`].
    pub fn on_host(
        engine: Box<dyn Engine>,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let (runner, network) = HostRunner::new(engine, stream, shape_of)?;
        Ok(Self { runner: Runner::Host(runner), network })
    }

    /// Inputs that are not read and outputs, by name, that are constant: for measuring a
    /// channel without its network.
    ///
    /// # Errors
    /// `Model` when an input has a dynamic dimension; `Device` when there is not enough
    /// memory.
    pub fn fixed(
        stream: &Stream,
        input_specs: Vec<TensorSpec>,
        outputs: &[(&str, &Tensor)],
    ) -> Result<Self> {
        let spec = |(name, tensor): &(&str, &Tensor)| TensorSpec {
            name: (*name).to_owned(),
            element: Some(tensor.element()),
            shape: Some(tensor.shape().iter().map(|&n| Dim::Fixed(n)).collect()),
        };
        let upload = |(_, tensor): &(&str, &Tensor)| {
            let mut on_device = DeviceTensor::zeros(stream, tensor.element(), tensor.shape())?;
            on_device.write(&tensor.view())?;
            Ok(Some(on_device))
        };
        let network = Network {
            name: "fixed outputs".to_owned(),
            inputs: allocate_inputs(stream, &input_specs, fixed_shape)?,
            input_specs,
            output_specs: outputs.iter().map(spec).collect(),
            outputs: outputs.iter().map(upload).collect::<Result<_>>()?,
        };
        Ok(Self { runner: Runner::Fixed, network })
    }

    /// The inputs of the network.
    pub fn inputs(&self) -> &[TensorSpec] {
        &self.network.input_specs
    }

    /// The outputs of the network.
    pub fn outputs(&self) -> &[TensorSpec] {
        &self.network.output_specs
    }

    /// The input at a position of [`DeviceEngine::inputs`], to be written by kernels of
    /// the engine's stream. Shape and address never change.
    ///
    /// # Errors
    /// `Inference` when there is no such input.
    pub fn input(&mut self, index: usize) -> Result<&mut DeviceTensor> {
        let num = self.network.inputs.len();
        let tensor = self.network.inputs.get_mut(index);
        tensor.ok_or_else(|| failed(format!("no input {index}: the network has {num}")))
    }

    /// Queues the network, which reads the inputs after the kernels queued before it have
    /// written them; kernels queued after it read the outputs.
    ///
    /// # Errors
    /// `Inference` when the engine fails; `Device` when the GPU does.
    pub fn enqueue(&mut self) -> Result<()> {
        match &mut self.runner {
            Runner::OnnxRuntime(runner) => runner.enqueue(),
            Runner::Host(runner) => runner.enqueue(&mut self.network),
            Runner::Fixed => Ok(()),
        }
    }

    /// The output at a position of [`DeviceEngine::outputs`]. Shape and address never
    /// change.
    ///
    /// # Errors
    /// `Inference` when there is no such output or it does not hold floats.
    pub fn output(&self, index: usize) -> Result<&DeviceTensor> {
        let Network { outputs, output_specs, .. } = &self.network;
        match outputs.get(index) {
            Some(Some(tensor)) => Ok(tensor),
            Some(None) => {
                Err(failed(format!("output {} does not hold floats", output_specs[index])))
            }
            None => Err(failed(format!("no output {index}: the network has {}", outputs.len()))),
        }
    }

    /// Queues a copy of the first values of an output into an input, which the next run reads:
    /// for networks with a memory.
    ///
    /// # Errors
    /// `Inference` when there is no such input or output, or the output does not hold floats;
    /// `Argument` when their types differ; `Device` when the copy fails.
    pub fn enqueue_feedback(&mut self, output: usize, input: usize) -> Result<()> {
        let Network { inputs, outputs, .. } = &mut self.network;
        let source = outputs.get(output).and_then(Option::as_ref);
        match inputs.get_mut(input).zip(source) {
            Some((target, source)) => target.enqueue_copy(source),
            None => Err(failed(format!("no floats in output {output}, or no input {input}"))),
        }
    }

    /// Bytes that one run copies between device and host.
    pub fn copies(&self) -> NumBytes {
        match &self.runner {
            Runner::OnnxRuntime(_) | Runner::Fixed => NumBytes::default(),
            Runner::Host(runner) => runner.copies(),
        }
    }

    /// Name and version for logs and reports.
    pub fn name(&self) -> &str {
        &self.network.name
    }
}
