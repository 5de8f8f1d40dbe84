//! The runtimes of networks between kernels.

use std::path::Path;

use super::dense::DenseRunner;
use super::host::{HostRunner, NumBytes};
use super::network::{Network, failed, model_error};
use super::onnx_runtime::{self, OrtRunner};
use crate::dense::{PlanOptions, Study};
use crate::{Choice, LIBRARY_VARIABLE, OrtEngine, RtenEngine, choose};
use det_post_ops::device::cuda::Stream;
use det_post_types::{
    EngineKind, EngineOptions, Error, ErrorKind, MapLayout, Provider, Result, TensorSpec,
};

/// The runtime of a network.
pub(super) enum Runner {
    /// Dense layers of our own on the GPU of the stream.
    Dense(Box<DenseRunner>),
    /// ONNX Runtime on the GPU of the stream.
    OnnxRuntime(OrtRunner),
    /// An engine on the CPU, with copies through page-locked memory.
    Host(HostRunner),
    /// None: the outputs are constant.
    Fixed,
}

impl Runner {
    /// Loads a network for a stream; see `DeviceEngine::load`.
    pub(super) fn load(
        model: &Path,
        options: &EngineOptions,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<(Self, Network)> {
        if let Some(loaded) = dense(model, options, stream, &shape_of)? {
            return Ok(loaded);
        }
        let choice = choose(options, std::env::var_os(LIBRARY_VARIABLE).as_deref());
        let provider = options.gpu.provider;
        let Choice { library, reason } = choice;
        let on_gpu = match (&library, provider) {
            (Some(library), Provider::Auto) => onnx_runtime::has_cuda(library)?,
            (_, provider) => matches!(provider, Provider::Cuda | Provider::TensorRt),
        };
        let (runner, network) = match &library {
            Some(library) if on_gpu => {
                let (runner, network) = OrtRunner::load(model, library, options, stream, shape_of)?;
                (Self::OnnxRuntime(runner), network)
            }
            None if on_gpu => {
                return Err(model_error(format!(
                    "a network on the GPU needs a library of ONNX Runtime, but {reason}: name one \
                     in engine.library or in {LIBRARY_VARIABLE}"
                )));
            }
            Some(library) => {
                let engine = OrtEngine::with_options(model, library, options)?;
                let (runner, network) = HostRunner::new(Box::new(engine), stream, shape_of)?;
                (Self::Host(runner), network)
            }
            None => {
                let engine = RtenEngine::with_options(model, options)?;
                let (runner, network) = HostRunner::new(Box::new(engine), stream, shape_of)?;
                (Self::Host(runner), network)
            }
        };
        let reason = match provider {
            Provider::Cpu => "the options ask for the CPU",
            _ => reason,
        };
        let (model, device) = (model.display(), stream.device());
        tracing::info!("model {model} for {device} on {}: {reason}", network.name);
        Ok((runner, network))
    }

    /// Prepares for runs with further tensors, the next number of [`Runner::enqueue`].
    ///
    /// # Errors
    /// `Inference` when the engine runs with one set of tensors only, or the first runs fail;
    /// `Device` when there is not enough memory.
    pub(super) fn add(&mut self, network: &Network) -> Result<()> {
        match self {
            Self::Dense(runner) => runner.add(network),
            Self::OnnxRuntime(runner) => runner.add(network),
            Self::Host(_) | Self::Fixed => Ok(()),
        }
    }

    /// Writes the staged outputs of a network to host memory.
    ///
    /// # Errors
    /// `Inference` when the outputs are constant, or the first runs fail.
    pub(super) fn stage(&mut self, network: &mut Network) -> Result<()> {
        match self {
            Self::Dense(_) => Err(failed(
                "the engine cuda writes outputs of fixed shapes; allowed: the engines auto, onnxruntime, rten",
            )),
            Self::OnnxRuntime(runner) => runner.stage(network),
            Self::Host(runner) => {
                runner.stage();
                Ok(())
            }
            Self::Fixed => Err(failed("constant outputs are not staged")),
        }
    }

    /// Queues a run with tensors, those of `number` by the order in which they were added.
    pub(super) fn enqueue(&mut self, network: &mut Network, number: usize) -> Result<()> {
        match self {
            Self::OnnxRuntime(runner) => runner.enqueue(network, number),
            Self::Dense(runner) => runner.enqueue(number),
            Self::Host(runner) => runner.enqueue(network),
            Self::Fixed => Ok(()),
        }
    }

    /// The layout of the input at a position.
    pub(super) fn input_layout(&self, position: usize) -> MapLayout {
        match self {
            Self::Dense(runner) => runner.network().plan.input_layout(position),
            Self::OnnxRuntime(_) | Self::Host(_) | Self::Fixed => MapLayout::Planar,
        }
    }

    /// Bytes that a run copies between device and host.
    pub(super) fn copies(&self) -> NumBytes {
        match self {
            Self::Dense(_) | Self::OnnxRuntime(_) | Self::Fixed => NumBytes::default(),
            Self::Host(runner) => runner.copies(),
        }
    }
}

/// The network in dense layers of our own, where the options ask for them, or leave the choice and every
/// node is covered.
fn dense(
    model: &Path,
    options: &EngineOptions,
    stream: &Stream,
    shape_of: &impl Fn(&TensorSpec) -> Result<Vec<usize>>,
) -> Result<Option<(Runner, Network)>> {
    let EngineOptions { kind, library, gpu, .. } = options;
    let is_choice_open =
        *kind == EngineKind::Auto && gpu.provider == Provider::Auto && library.is_none();
    if *kind != EngineKind::Cuda && !is_choice_open {
        return Ok(None);
    }
    if options.class_vectors.is_some() {
        return match kind {
            EngineKind::Cuda => Err(model_error(
                "the engine cuda runs no networks with vectors of classes; allowed: the engines auto, onnxruntime, rten"
                    .to_owned(),
            )),
            _ => Ok(None),
        };
    }
    let (path, device) = (model.display(), stream.device());
    match DenseRunner::load((model, options.part), PlanOptions::from(gpu), stream, shape_of) {
        Ok((mut runner, network)) => {
            if let Some(study) = &options.study {
                let name = format!("{} ({device})", network.name);
                runner.begin_study(Study::begin(study, model, &name, runner.network()));
            }
            let reason = match kind {
                EngineKind::Cuda => "the options ask for cuda",
                _ => "every node is covered",
            };
            tracing::info!("model {path} for {device} on {}: {reason}", network.name);
            Ok(Some((Runner::Dense(Box::new(runner)), network)))
        }
        // No other engine keeps layers.
        Err(error) if is_choice_open && gpu.keep_f32.is_empty() && !has_failed(&error) => {
            tracing::info!(
                "model {path} does not run in dense layers on {device}: {}",
                error.message()
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether an error is the GPU's, which no other engine mends.
fn has_failed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Device | ErrorKind::DeviceLost)
}
