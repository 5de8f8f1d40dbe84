//! Networks whose inputs and outputs lie in device memory.
//!
//! A [`DeviceEngine`] belongs to one stream. What goes before the network
//! writes into [`DeviceEngine::input`], [`DeviceEngine::enqueue`] queues the
//! run, what comes after reads [`DeviceEngine::output`]: the same memory in
//! every frame, so that both sides may be recorded as graphs. The run itself
//! must not be recorded.
//!
//! | engine | where the network runs | copies a run |
//! | --- | --- | --- |
//! | [`DeviceEngine::OnnxRuntime`] | on the stream's GPU | none |
//! | [`DeviceEngine::Host`] | an [`Engine`] on the CPU | every input down, every output up, and one wait |
//! | [`DeviceEngine::Given`] | nowhere: its answers were written before | none |

#[expect(unsafe_code, reason = "ONNX Runtime is a C library; each block says why it holds")]
mod binding;
mod given;
mod host;
mod onnx_runtime;

use std::path::Path;

pub use given::GivenAnswers;
pub use host::{HostEngine, NumBytes};
pub use onnx_runtime::OrtCudaEngine;

use super::{Choice, Engine, LIBRARY_VARIABLE, OrtEngine, RtenEngine};
use crate::device::cuda::{DeviceTensor, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Dim, EngineOptions, Provider, Tensor, TensorSpec};

/// A loaded network with its inputs and outputs in the memory of a stream.
pub enum DeviceEngine {
    /// ONNX Runtime on the GPU of the stream.
    OnnxRuntime(OrtCudaEngine),
    /// An engine on the CPU, with copies through page-locked memory.
    Host(HostEngine),
    /// No engine: answers that stand already. For measuring what is around it.
    Given(GivenAnswers),
}

impl DeviceEngine {
    /// Loads a network for a stream and logs which engine runs it, and why.
    ///
    /// `shape_of` is asked once per input for the shape that it is to have in
    /// every frame; [`fixed_shape`] is the answer for a network that leaves
    /// nothing open. The shapes of the outputs follow: the network is run
    /// on zeros, which also brings it to speed.
    ///
    /// # Errors
    /// `Model` when the network cannot be loaded, the library of ONNX Runtime
    /// has not the provider that is asked for, or a shape does not fit an input;
    /// `Inference` when those first runs fail; `Device` when there is not enough
    /// memory.
    pub fn load(
        model: &Path,
        options: &EngineOptions,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let choice = super::choose(options, std::env::var_os(LIBRARY_VARIABLE).as_deref());
        let provider = options.gpu.provider;
        let log = |engine: &Self, reason| {
            let (model, device) = (model.display(), stream.device());
            tracing::info!("model {model} for {device} on {}: {reason}", engine.name());
        };
        let Choice { library, reason } = choice;
        if let Some(library) = &library
            && match provider {
                Provider::Cpu => false,
                Provider::Auto => onnx_runtime::has_cuda(library)?,
                Provider::Cuda | Provider::TensorRt => true,
            }
        {
            let engine = OrtCudaEngine::load(model, library, options, stream, shape_of)?;
            let engine = Self::OnnxRuntime(engine);
            log(&engine, reason);
            return Ok(engine);
        }
        let engine: Box<dyn Engine> = match &library {
            _ if matches!(provider, Provider::Cuda | Provider::TensorRt) => {
                return Err(Error::new(
                    ErrorKind::Model,
                    super::STAGE,
                    format!(
                        "a network on the GPU needs a library of ONNX Runtime, but {reason}: name \
                         one in engine.library or in {LIBRARY_VARIABLE}"
                    ),
                ));
            }
            Some(library) => Box::new(OrtEngine::load(model, library, options.threads)?),
            None => Box::new(RtenEngine::load(model, options.threads)?),
        };
        let engine = Self::on_host(engine, stream, shape_of)?;
        log(
            &engine,
            if provider == Provider::Cpu { "the options ask for the CPU" } else { reason },
        );
        Ok(engine)
    }

    /// Takes an engine that runs on the CPU.
    ///
    /// # Errors
    /// As [`DeviceEngine::load`].
    pub fn on_host(
        engine: Box<dyn Engine>,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let shapes = shapes(engine.inputs(), shape_of)?;
        HostEngine::new(engine, stream, &shapes).map(Self::Host)
    }

    /// Takes answers, by name, in place of a network with these inputs.
    ///
    /// # Errors
    /// `Model` when an input leaves a dimension open; `Device` when there is not
    /// enough memory.
    pub fn given(
        stream: &Stream,
        inputs: Vec<TensorSpec>,
        answers: &[(&str, &Tensor)],
    ) -> Result<Self> {
        GivenAnswers::new(stream, inputs, answers).map(Self::Given)
    }

    /// What the network takes.
    pub fn inputs(&self) -> &[TensorSpec] {
        match self {
            Self::OnnxRuntime(engine) => engine.inputs(),
            Self::Host(engine) => engine.inputs(),
            Self::Given(answers) => answers.inputs(),
        }
    }

    /// What the network gives.
    pub fn outputs(&self) -> &[TensorSpec] {
        match self {
            Self::OnnxRuntime(engine) => engine.outputs(),
            Self::Host(engine) => engine.outputs(),
            Self::Given(answers) => answers.outputs(),
        }
    }

    /// The input at a position of [`DeviceEngine::inputs`], to be written by
    /// kernels of the engine's stream. Shape and address never change.
    ///
    /// # Errors
    /// `Inference` when there is no such input.
    pub fn input(&mut self, index: usize) -> Result<&mut DeviceTensor> {
        let num = self.inputs().len();
        let tensor = match self {
            Self::OnnxRuntime(engine) => engine.input(index),
            Self::Host(engine) => engine.input(index),
            Self::Given(answers) => answers.input(index),
        };
        tensor.ok_or_else(|| failed(format!("no input {index}: the network has {num}")))
    }

    /// Queues the network: it reads what the kernels before it wrote into the
    /// inputs, and the kernels after it read its outputs.
    ///
    /// # Errors
    /// `Inference` when the engine fails; `Device` when the GPU does.
    pub fn enqueue(&mut self) -> Result<()> {
        match self {
            Self::OnnxRuntime(engine) => engine.enqueue(),
            Self::Host(engine) => engine.enqueue(),
            Self::Given(_) => Ok(()),
        }
    }

    /// The output at a position of [`DeviceEngine::outputs`]. Shape and address
    /// never change.
    ///
    /// # Errors
    /// `Inference` when there is no such output or it does not hold floats.
    pub fn output(&self, index: usize) -> Result<&DeviceTensor> {
        let tensor = match self {
            Self::OnnxRuntime(engine) => engine.output(index),
            Self::Host(engine) => engine.output(index),
            Self::Given(answers) => answers.output(index),
        };
        tensor.ok_or_else(|| match self.outputs().get(index) {
            Some(spec) => failed(format!("output {spec} does not hold floats")),
            None => failed(format!("no output {index}: the network has {}", self.outputs().len())),
        })
    }

    /// Bytes that one run copies between device and host.
    pub fn copies(&self) -> NumBytes {
        match self {
            Self::OnnxRuntime(_) | Self::Given(_) => NumBytes::default(),
            Self::Host(engine) => engine.copies(),
        }
    }

    /// Name and version for logs and reports.
    pub fn name(&self) -> &str {
        match self {
            Self::OnnxRuntime(engine) => engine.name(),
            Self::Host(engine) => engine.name(),
            Self::Given(_) => "given answers",
        }
    }
}

/// The shape of an input that leaves nothing open.
///
/// # Errors
/// `Model` when it does.
pub fn fixed_shape(spec: &TensorSpec) -> Result<Vec<usize>> {
    let open = || {
        let message = format!("input {spec} leaves a dimension open: its shape must be given");
        Error::new(ErrorKind::Model, super::STAGE, message)
    };
    let fixed = |dim: &Dim| match dim {
        Dim::Fixed(n) => Some(*n),
        Dim::Dynamic => None,
    };
    let shape = spec.shape.as_ref().and_then(|dims| dims.iter().map(fixed).collect());
    shape.ok_or_else(open)
}

/// What a tensor of this name is.
fn named(name: &str, tensor: &Tensor) -> TensorSpec {
    TensorSpec {
        name: name.to_owned(),
        element: Some(tensor.element()),
        shape: Some(tensor.shape().iter().map(|&n| Dim::Fixed(n)).collect()),
    }
}

/// The shape of every input, each checked against what the network says.
fn shapes(
    inputs: &[TensorSpec],
    shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
) -> Result<Vec<Vec<usize>>> {
    let checked = |spec: &TensorSpec| {
        let shape = shape_of(spec)?;
        if super::signature::shape_fits(spec, &shape) {
            return Ok(shape);
        }
        let message = format!("input {spec} cannot have the shape {shape:?}");
        Err(Error::new(ErrorKind::Model, super::STAGE, message))
    };
    inputs.iter().map(checked).collect()
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Inference, super::STAGE, message)
}
