//! ONNX Runtime on the stream and in the memory of a [`DeviceEngine`](super::DeviceEngine).
//!
//! The CUDA provider runs the network, or the TensorRT provider with the CUDA provider
//! for the operators that it does not support. Its kernels are queued on the stream;
//! inputs and outputs are bound in place, and nothing is copied. Algorithms are selected
//! by heuristics, not by measurement, so that the same input gives the same bytes in
//! every process.
//!
//! Where the CUDA provider can record a run as a graph, the graph is recorded here: the
//! provider waits for the GPU after each launch of its own graph, and records per thread.
//! TensorRT records its own: there, the first run on another thread records again.

use std::path::Path;
use std::thread::{self, ThreadId};

use ort::ep::{self, ExecutionProvider};
use ort::session::{Session, SessionOutputs};

use super::binding::Bound;
use super::network::{Network, allocate_inputs, allocate_output, failed};
use super::session::{ONE_GRAPH, Way, check_provider, model_error, open, rewritten, ways};
use crate::check_file;
use crate::ort::{environment, spec, view};
use det_post_ops::device::cuda::{CaptureLock, DeviceTensor, Graph, Stream, lock_capture};
use det_post_types::{Dim, ElementType, EngineOptions, Error, Provider, Result, TensorSpec};

/// The maximum number of dimensions of a staged output.
const MAX_DIMS: usize = 8;

/// A session of ONNX Runtime on the GPU of a stream.
pub(super) struct OrtRunner {
    /// The run with each set of tensors, if it is recorded here. Dropped before the session, in
    /// whose memory they work.
    graphs: Vec<Graph>,
    bound: Box<Bound>,
    recorder: Recorder,
    /// The thread for which ONNX Runtime is warm.
    thread: ThreadId,
    stream: Stream,
}

/// Whether the library of ONNX Runtime was built with the CUDA provider.
pub(super) fn has_cuda(library: &Path) -> Result<bool> {
    environment(library)?;
    Ok(ep::CUDA::is_available().unwrap_or(false))
}

impl OrtRunner {
    pub(super) fn load(
        model: &Path,
        library: &Path,
        options: &EngineOptions,
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<(Self, Network)> {
        check_file(model)?;
        let environment = environment(library)?;
        let provider = options.gpu.provider;
        check_provider(provider, library)?;
        let file = library.file_name().unwrap_or(library.as_os_str()).to_string_lossy();
        let on = if provider == Provider::TensorRt { "TensorRT" } else { "CUDA" };
        let rewritten = rewritten(model, options)?;
        let network = (model, rewritten.as_deref());
        let lock = lock_capture();
        let mut refused = None;
        for way in ways(&options.gpu) {
            let name = format!("onnxruntime ({file}) on {on}{way}");
            let recorder = Recorder::of(way, provider);
            let session = open(&environment, network, options, stream, way);
            match session.and_then(|session| {
                Self::start((session, name), (recorder, &lock), stream, &shape_of)
            }) {
                Ok(engine) => {
                    if let Some((refused, cause)) = refused {
                        let model = model.display();
                        tracing::info!("model {model} does not run on {on}{refused}: {cause}");
                    }
                    return Ok(engine);
                }
                Err(cause) => refused = Some((way, cause)),
            }
        }
        let refused = refused.map(|(_, cause)| cause);
        Err(refused.unwrap_or_else(|| model_error(format!("cannot load {}", model.display()))))
    }

    /// Binds a session to its memory and runs it until it allocates and records no more.
    fn start(
        (session, name): (Session, String),
        (recorder, lock): (Recorder, &CaptureLock),
        stream: &Stream,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<(Self, Network)> {
        let input_specs: Vec<_> = session.inputs().iter().map(spec).collect();
        let output_specs: Vec<_> = session.outputs().iter().map(spec).collect();
        let bound = Bound::new(session, stream, recorder == Recorder::Provider);
        let mut bound = Box::new(bound.map_err(first_run_failed)?);
        let inputs = allocate_inputs(stream, &input_specs, shape_of)?;
        for (spec, tensor) in input_specs.iter().zip(&inputs) {
            bound.bind_input(&spec.name, tensor).map_err(first_run_failed)?;
        }
        let (shapes, outputs) = bind_outputs(&mut bound, &output_specs, stream)?;
        let (graphs, thread) = (Vec::new(), thread::current().id());
        let mut runner = Self { graphs, bound, recorder, thread, stream: stream.clone() };
        runner.warm_up(lock, 0)?;
        let staged = Vec::new();
        let network = Network { name, input_specs, output_specs, inputs, outputs, shapes, staged };
        Ok((runner, network))
    }

    /// Runs with a set of tensors until ONNX Runtime allocates no more, and records it.
    fn warm_up(&mut self, lock: &CaptureLock, number: usize) -> Result<()> {
        self.bound.warm_up(number).map_err(first_run_failed)?;
        self.stream.synchronize()?;
        if self.recorder == Recorder::This {
            self.graphs.push(self.bound.record(lock, number)?);
        }
        Ok(())
    }

    /// Binds further tensors, which a run with [`Self::enqueue`] then uses by their number.
    pub(super) fn add(&mut self, network: &Network) -> Result<()> {
        if self.recorder == Recorder::Provider {
            return Err(failed("TensorRT records a graph for one set of tensors"));
        }
        let lock = lock_capture();
        let number = self.bound.add_binding().map_err(first_run_failed)?;
        let Network { input_specs, inputs, output_specs, outputs, staged, .. } = network;
        for (spec, tensor) in input_specs.iter().zip(inputs) {
            self.bound.bind_input(&spec.name, tensor).map_err(first_run_failed)?;
        }
        if !staged.is_empty() {
            self.bind_staged(network)?;
            return self.warm_up(&lock, number);
        }
        for (spec, tensor) in output_specs.iter().zip(outputs) {
            if let Some(tensor) = tensor {
                self.bound.bind_output(&spec.name, tensor).map_err(first_run_failed)?;
            }
        }
        self.warm_up(&lock, number)
    }

    /// Writes the staged outputs, and no others, to host memory: a run is no graph any more.
    pub(super) fn stage(&mut self, network: &mut Network) -> Result<()> {
        if self.recorder == Recorder::Provider {
            return Err(failed("TensorRT records a graph, which writes no outputs to host memory"));
        }
        let lock = lock_capture();
        self.stream.synchronize()?;
        self.graphs.clear();
        self.recorder = Recorder::None;
        self.bound.forget_recordings();
        if network.name.ends_with(ONE_GRAPH) {
            network.name.truncate(network.name.len() - ONE_GRAPH.len());
        }
        self.bind_staged(network)?;
        self.warm_up(&lock, 0)
    }

    fn bind_staged(&mut self, network: &Network) -> Result<()> {
        let names = network.staged.iter().filter_map(|staged| {
            network.output_specs.get(staged.output.position).map(|spec| spec.name.as_str())
        });
        self.bound.bind_host_outputs(names).map_err(first_run_failed)
    }

    /// Queues a run with the tensors of a number, which are those of the network.
    pub(super) fn enqueue(&mut self, network: &mut Network, number: usize) -> Result<()> {
        if let Some(graph) = self.graphs.get(number) {
            return graph.enqueue();
        }
        let current = thread::current().id();
        let run = if self.thread == current {
            if !network.staged.is_empty() {
                return self.enqueue_staged(network, number);
            }
            self.bound.enqueue(number)
        } else {
            let _lock = lock_capture();
            let run = self.bound.warm_up(number);
            if run.is_ok() {
                self.thread = current;
            }
            run
        };
        run.map_err(|cause| self.run_failed(cause))?;
        if network.staged.is_empty() { Ok(()) } else { self.enqueue_staged(network, number) }
    }

    /// Runs, waits, and queues the upload of the staged outputs.
    fn enqueue_staged(&mut self, network: &mut Network, number: usize) -> Result<()> {
        let upload = |outputs: &SessionOutputs<'_>| -> Result<()> {
            for place in 0..network.staged.len() {
                let mut shape = [0; MAX_DIMS];
                let found = view(&outputs[place], &mut shape)?;
                network.enqueue_staged(place, &found)?;
            }
            Ok(())
        };
        match self.bound.run_to_host(number, upload) {
            Ok(uploaded) => uploaded,
            Err(cause) => Err(self.run_failed(cause)),
        }
    }

    fn run_failed(&self, cause: ort::Error) -> Error {
        match self.stream.device().check() {
            Ok(()) => failed("the run failed").with_source(cause),
            Err(fault) => fault,
        }
    }
}

/// What records the run of a network as a graph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recorder {
    None,
    This,
    Provider,
}

impl Recorder {
    fn of(way: Way, provider: Provider) -> Self {
        match provider {
            _ if !way.graph => Self::None,
            Provider::TensorRt => Self::Provider,
            Provider::Auto | Provider::Cuda | Provider::Cpu => Self::This,
        }
    }
}

/// One per output; `None` for an output that holds neither floats nor int8.
type Outputs = Vec<Option<DeviceTensor>>;

/// Allocates and binds every output that holds floats or int8; also returns the shapes of all.
fn bind_outputs(
    bound: &mut Bound,
    specs: &[TensorSpec],
    stream: &Stream,
) -> Result<(Vec<Vec<usize>>, Outputs)> {
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
        let tensor = allocate_output(stream, element, &shape)?;
        if let Some(tensor) = &tensor {
            bound.bind_output(&spec.name, tensor).map_err(first_run_failed)?;
        }
        Ok((shape, tensor))
    };
    specs.iter().zip(found).map(bind).collect()
}

fn first_run_failed(cause: ort::Error) -> Error {
    failed("the first run failed").with_source(cause)
}
