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
//! | [`DeviceEngine::Host`] | an [`Engine`] on the CPU | every input down, every output up, and one wait |

mod host;

use std::path::Path;

pub use host::{HostEngine, NumBytes};

use super::Engine;
use crate::device::cuda::{DeviceTensor, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Dim, EngineOptions, TensorSpec};

/// A loaded network with its inputs and outputs in the memory of a stream.
pub enum DeviceEngine {
    /// An engine on the CPU, with copies through page-locked memory.
    Host(HostEngine),
}

impl DeviceEngine {
    /// Loads a network for a stream and logs which engine runs it, and why.
    ///
    /// `shape_of` is asked once per input for the shape that it is to have in
    /// every frame; [`fixed_shape`] is the answer for a network that leaves
    /// nothing open. The shapes of the outputs follow: the network is run once
    /// on zeros, which also brings it to speed.
    ///
    /// # Errors
    /// `Model` when the network cannot be loaded or a shape does not fit an
    /// input; `Inference` when that first run fails; `Device` when there is not
    /// enough memory.
    pub fn load(
        model: &Path,
        options: &EngineOptions,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        Self::on_host(super::load(model, options)?, stream, shape_of)
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

    /// What the network takes.
    pub fn inputs(&self) -> &[TensorSpec] {
        match self {
            Self::Host(engine) => engine.inputs(),
        }
    }

    /// What the network gives.
    pub fn outputs(&self) -> &[TensorSpec] {
        match self {
            Self::Host(engine) => engine.outputs(),
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
            Self::Host(engine) => engine.input(index),
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
            Self::Host(engine) => engine.enqueue(),
        }
    }

    /// The output at a position of [`DeviceEngine::outputs`]. Shape and address
    /// never change.
    ///
    /// # Errors
    /// `Inference` when there is no such output or it does not hold floats.
    pub fn output(&self, index: usize) -> Result<&DeviceTensor> {
        let tensor = match self {
            Self::Host(engine) => engine.output(index),
        };
        tensor.ok_or_else(|| match self.outputs().get(index) {
            Some(spec) => failed(format!("output {spec} does not hold floats")),
            None => failed(format!("no output {index}: the network has {}", self.outputs().len())),
        })
    }

    /// Bytes that one run copies between device and host.
    pub fn copies(&self) -> NumBytes {
        match self {
            Self::Host(engine) => engine.copies(),
        }
    }

    /// Name and version for logs and reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(engine) => engine.name(),
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
