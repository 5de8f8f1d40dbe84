//! ONNX Runtime on a GPU: on our stream, in our memory.
//!
//! The CUDA provider runs the network, or the TensorRT provider with the CUDA
//! provider behind it. Kernels queue on the engine's stream, between ours;
//! inputs and outputs lie where ours read and write them, and nothing is
//! copied. Algorithms are chosen by rule and not by measurement, so that the
//! same input gives the same bytes in every process. ONNX Runtime keeps its
//! recording per thread: the first run on another thread records again.

use std::path::Path;
use std::thread::{self, ThreadId};

use ort::environment::Environment;
use ort::ep::cuda::ConvAlgorithmSearch;
use ort::ep::{self, ExecutionProvider, ExecutionProviderDispatch};
use ort::session::Session;

use super::binding::{Bound, cuda_provider, tensorrt_provider};
use super::failed;
use crate::device::cuda::{DeviceTensor, Stream, recording};
use crate::error::{Error, ErrorKind, Result};
use crate::infer::check_file;
use crate::infer::ort::{environment, spec};
use crate::types::{CudaGraph, Dim, ElementType, EngineOptions, Provider, TensorSpec};

const STAGE: &str = "onnxruntime";

/// A network in ONNX Runtime on the GPU of a stream.
pub struct OrtCudaEngine {
    // Dropped first: works in the memory of the tensors.
    bound: Box<Bound>,
    inputs: Vec<DeviceTensor>,
    /// One an output; `None` where it does not hold floats.
    outputs: Vec<Option<DeviceTensor>>,
    input_specs: Vec<TensorSpec>,
    output_specs: Vec<TensorSpec>,
    name: String,
    /// The thread for which ONNX Runtime has recorded.
    thread: ThreadId,
    stream: Stream,
}

/// Whether the library of ONNX Runtime was built with the CUDA provider.
pub(super) fn has_cuda(library: &Path) -> Result<bool> {
    environment(library)?;
    Ok(ep::CUDA::is_available().unwrap_or(false))
}

impl OrtCudaEngine {
    pub(super) fn load(
        model: &Path,
        library: &Path,
        options: &EngineOptions,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        check_file(model)?;
        let environment = environment(library)?;
        let provider = options.gpu.provider;
        check_provider(provider, library)?;
        let attempts: &[bool] = match options.gpu.cuda_graph {
            CudaGraph::Always => &[true],
            CudaGraph::Never => &[false],
            // What TensorRT leaves to CUDA would lie outside the graph.
            CudaGraph::Auto if provider == Provider::TensorRt => &[false],
            CudaGraph::Auto => &[true, false],
        };
        let file = library.file_name().unwrap_or(library.as_os_str()).to_string_lossy();
        let provider = if provider == Provider::TensorRt { "TensorRT" } else { "CUDA" };
        let _alone = recording();
        let mut refused = None;
        for &graph in attempts {
            let suffix = if graph { ", one CUDA graph" } else { "" };
            let name = format!("onnxruntime ({file}) on {provider}{suffix}");
            let session = open(&environment, model, options, stream, graph);
            match session.and_then(|session| Self::start(session, name, stream, &shape_of)) {
                Ok(engine) => {
                    if let Some(refused) = refused {
                        tracing::info!("{} is not one CUDA graph: {refused}", model.display());
                    }
                    return Ok(engine);
                }
                Err(cause) => refused = Some(cause),
            }
        }
        Err(refused.unwrap_or_else(|| model_error(format!("cannot load {}", model.display()))))
    }

    /// Gives a session its memory and runs it until nothing more is to be taken
    /// or recorded.
    fn start(
        session: Session,
        name: String,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let input_specs: Vec<_> = session.inputs().iter().map(spec).collect();
        let output_specs: Vec<_> = session.outputs().iter().map(spec).collect();
        let mut bound = Box::new(Bound::new(session, stream).map_err(first_run_failed)?);
        let inputs = inputs(&input_specs, stream, shape_of)?;
        for (spec, tensor) in input_specs.iter().zip(&inputs) {
            bound.bind_input(&spec.name, tensor).map_err(first_run_failed)?;
        }
        let outputs = bind_outputs(&mut bound, &output_specs, stream)?;
        bound.warm_up().map_err(first_run_failed)?;
        stream.synchronize()?;
        let (thread, stream) = (thread::current().id(), stream.clone());
        Ok(Self { bound, inputs, outputs, input_specs, output_specs, name, thread, stream })
    }

    pub(super) fn inputs(&self) -> &[TensorSpec] {
        &self.input_specs
    }

    pub(super) fn outputs(&self) -> &[TensorSpec] {
        &self.output_specs
    }

    pub(super) fn input(&mut self, index: usize) -> Option<&mut DeviceTensor> {
        self.inputs.get_mut(index)
    }

    pub(super) fn output(&self, index: usize) -> Option<&DeviceTensor> {
        self.outputs.get(index)?.as_ref()
    }

    pub(super) fn enqueue(&mut self) -> Result<()> {
        let current = thread::current().id();
        let run = if self.thread == current {
            self.bound.enqueue()
        } else {
            self.thread = current;
            let _alone = recording();
            self.bound.warm_up()
        };
        run.map_err(|cause| match self.stream.device().check() {
            Ok(()) => failed("the run failed").with_source(cause),
            Err(fault) => fault,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Refuses a provider that the library was built without.
fn check_provider(provider: Provider, library: &Path) -> Result<()> {
    let (name, is_there) = match provider {
        Provider::TensorRt => ("TensorRT", ep::TensorRT::is_available()),
        _ => ("CUDA", ep::CUDA::is_available()),
    };
    if is_there.unwrap_or(false) {
        return Ok(());
    }
    let library = library.display();
    Err(model_error(format!(
        "{library} was built without the {name} provider; name a library of onnxruntime-gpu, or set \
         engine.provider to cpu"
    )))
}

/// A session of the network, on our stream.
fn open(
    environment: &Environment,
    model: &Path,
    options: &EngineOptions,
    stream: &Stream,
    graph: bool,
) -> Result<Session> {
    let session = || -> ort::Result<Session> {
        let mut builder = Session::builder(environment)?
            .with_deterministic_compute(true)?
            .with_execution_providers(providers(options, stream, graph))?;
        if let Some(num) = options.threads {
            builder = builder.with_intra_threads(num.max(1))?;
        }
        builder.commit_from_file(model)
    };
    session().map_err(|cause| {
        let message = format!("cannot load {}", model.display());
        model_error(message + &advice(&cause.to_string())).with_source(cause)
    })
}

fn providers(
    options: &EngineOptions,
    stream: &Stream,
    graph: bool,
) -> Vec<ExecutionProviderDispatch> {
    let gpu = &options.gpu;
    let ordinal = i32::try_from(stream.device().ordinal()).unwrap_or(i32::MAX);
    let is_tensorrt = gpu.provider == Provider::TensorRt;
    let cuda = cuda_provider(stream)
        .with_device_id(ordinal)
        .with_tf32(gpu.tf32)
        .with_conv_algorithm_search(ConvAlgorithmSearch::Heuristic)
        .with_cuda_graph(graph && !is_tensorrt);
    let mut providers = vec![cuda.build().error_on_failure()];
    if is_tensorrt {
        let mut tensorrt = tensorrt_provider(stream)
            .with_device_id(ordinal)
            .with_fp16(gpu.fp16)
            .with_cuda_graph(graph);
        if let Some(folder) = &gpu.cache_folder {
            let folder = folder.display();
            tensorrt = tensorrt
                .with_engine_cache(true)
                .with_engine_cache_path(&folder)
                .with_timing_cache(true)
                .with_timing_cache_path(&folder);
        }
        providers.insert(0, tensorrt.build().error_on_failure());
    }
    providers
}

fn inputs(
    specs: &[TensorSpec],
    stream: &Stream,
    shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
) -> Result<Vec<DeviceTensor>> {
    let shapes = super::shapes(specs, shape_of)?;
    let tensors = specs.iter().zip(&shapes).map(|(spec, shape)| match spec.element {
        Some(element @ (ElementType::F32 | ElementType::F16)) => {
            DeviceTensor::zeros(stream, element, shape)
        }
        _ => Err(model_error(format!("input {spec} does not take floats"))),
    });
    tensors.collect()
}

/// Memory for every output of floats, bound.
fn bind_outputs(
    bound: &mut Bound,
    specs: &[TensorSpec],
    stream: &Stream,
) -> Result<Vec<Option<DeviceTensor>>> {
    let fixed = |spec: &TensorSpec| {
        let dims = spec.shape.as_ref()?.iter().map(|dim| match dim {
            Dim::Fixed(n) => Some(*n),
            Dim::Dynamic => None,
        });
        Some((Some(spec.element?), dims.collect::<Option<Vec<_>>>()?))
    };
    let found = match specs.iter().map(fixed).collect::<Option<Vec<_>>>() {
        Some(found) => found,
        None => {
            let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
            bound.probe(&names).map_err(first_run_failed)?
        }
    };
    let bind = |(spec, (element, shape)): (&TensorSpec, (Option<ElementType>, Vec<usize>))| {
        let Some(element @ (ElementType::F32 | ElementType::F16)) = element else {
            return Ok(None);
        };
        let tensor = DeviceTensor::zeros(stream, element, &shape)?;
        bound.bind_output(&spec.name, &tensor).map_err(first_run_failed)?;
        Ok(Some(tensor))
    };
    specs.iter().zip(found).map(bind).collect()
}

/// What to do about a cause that ONNX Runtime gives.
fn advice(cause: &str) -> String {
    if let Some(library) = missing_library(cause) {
        let package = match library {
            name if name.starts_with("libcudnn") => "cuDNN",
            name if name.starts_with("libnvinfer") => "TensorRT",
            _ => "the CUDA toolkit",
        };
        return format!(
            ": the loader does not find {library}, which belongs to {package}; install that version \
             or add its folder to LD_LIBRARY_PATH"
        );
    }
    if cause.contains("graph capture") {
        return ": not all of it runs on the GPU; set engine.cuda_graph to auto or never".into();
    }
    String::new()
}

/// `libcudnn.so.9` of `libcudnn.so.9: cannot open shared object file …`.
fn missing_library(cause: &str) -> Option<&str> {
    let before = cause.split(": cannot open shared object file").next()?;
    if before.len() == cause.len() {
        return None;
    }
    before.rsplit([' ', ':']).next().filter(|name| name.starts_with("lib"))
}

fn first_run_failed(cause: ort::Error) -> Error {
    failed("the first run failed").with_source(cause)
}

fn model_error(message: String) -> Error {
    Error::new(ErrorKind::Model, STAGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_libraries_are_named_with_what_they_belong_to() {
        for (cause, words) in [
            (
                "Failed to load library libonnxruntime_providers_cuda.so with error: \
                 libcublasLt.so.13: cannot open shared object file: No such file or directory",
                ["libcublasLt.so.13", "the CUDA toolkit"],
            ),
            (
                "x: libcudnn.so.9: cannot open shared object file: No such",
                ["libcudnn.so.9", "cuDNN"],
            ),
            ("libnvinfer.so.10: cannot open shared object file", ["libnvinfer.so.10", "TensorRT"]),
        ] {
            let advice = advice(cause);
            assert!(words.iter().all(|word| advice.contains(word)), "{advice}");
        }
        assert_eq!(advice("out of memory"), "");
        assert!(advice("This session cannot use the graph capture feature").contains("cuda_graph"));
    }
}
