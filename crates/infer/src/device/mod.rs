//! Networks with inputs and outputs in device memory.
//!
//! A [`DeviceEngine`] belongs to one stream. The kernels before the network write
//! [`DeviceEngine::input`], [`DeviceEngine::enqueue`] queues the run, the kernels after it
//! read [`DeviceEngine::output`]: the same memory in every frame, or in every second one
//! ([`DeviceEngine::allow_in_flight`]), so that the kernels before and after may be recorded as
//! graphs. The run itself must not be recorded.
//!
//! | made by | where the network runs | copies per run |
//! | --- | --- | --- |
//! | [`DeviceEngine::load`] with dense layers of our own, or ONNX Runtime and its CUDA provider | on the stream's GPU | none |
//! | [`DeviceEngine::load`] otherwise, [`DeviceEngine::on_host`] | an [`Engine`] on the CPU | every input down, every output up, and one wait |
//! | [`DeviceEngine::of_host_inputs`] | an [`Engine`] on the CPU | every output up; the caller copies the inputs, whose shape may differ from run to run |
//! | [`DeviceEngine::fixed`] | nowhere: the outputs are constant | none |
//! | [`DeviceEngine::none`] | nowhere: there are no outputs | none |

#[expect(unsafe_code, reason = "ONNX Runtime is a C library; each block argues why it is sound")]
mod binding;
mod dense;
mod errors;
mod host;
mod network;
mod onnx_runtime;
mod runner;
mod session;
mod staged;

use std::path::{Path, PathBuf};

use host::HostRunner;
pub use host::NumBytes;
use network::Network;
pub use network::fixed_shape;
use network::{allocate_inputs, failed, model_error};
use runner::Runner;
pub use staged::{StagedOutput, may_vary};

use super::{Engine, NoNetwork, STAGE};
use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_types::{
    Dim, EngineOptions, Error, ErrorKind, MapLayout, Provider, Result, Tensor, TensorSpec,
    TensorView, Usage,
};

/// A loaded network with its inputs and outputs in the memory of a stream.
pub struct DeviceEngine {
    // Dropped first: works in the memory of the tensors.
    runner: Runner,
    stream: Stream,
    /// The tensors of each frame that may be in flight.
    networks: Vec<Network>,
    selected: usize,
    /// What was loaded.
    source: Option<(PathBuf, EngineOptions)>,
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
        let (runner, network) = Runner::load(model, options, stream, shape_of)?;
        let source = Some((model.to_owned(), options.clone()));
        Ok(Self { source, ..Self::new(runner, stream, network) })
    }

    /// Loads the network once more, with tensors of its own, to run in another queue of the stream
    /// at the same time. The same inputs give the same bytes. `None` where it runs on the host, was
    /// not made by [`DeviceEngine::load`], or is TensorRT's, whose loading can take minutes.
    ///
    /// # Errors
    /// As of [`DeviceEngine::load`]; `Model` when it cannot be loaded in the same way again.
    pub fn duplicate(&self, queue: &Stream) -> Result<Option<Self>> {
        let Some((model, options)) = &self.source else { return Ok(None) };
        if !matches!(self.runner, Runner::OnnxRuntime(_) | Runner::Dense(_)) {
            return Ok(None);
        }
        if options.gpu.provider == Provider::TensorRt {
            return Ok(None);
        }
        let Network { name, input_specs, inputs, staged, .. } = &self.networks[0];
        let mut again = Self::load(model, options, queue, |input| {
            let known = input_specs.iter().zip(inputs).find(|(spec, _)| *spec == input);
            let changed = || model_error(format!("{} has changed: {input}", model.display()));
            known.map(|(_, tensor)| tensor.shape().to_vec()).ok_or_else(changed)
        })?;
        again.stage(&staged.iter().map(|staged| staged.output).collect::<Vec<_>>())?;
        // Another layout rounds otherwise.
        if again.name() != name {
            let message = format!("{}: {}, not {name}", model.display(), again.name());
            return Err(model_error(message));
        }
        Ok(Some(again))
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
        Ok(Self::new(Runner::Host(runner), stream, network))
    }

    /// A network in an engine that runs on the CPU, with inputs in host memory that may have
    /// another shape in each run ([`DeviceEngine::run_on`]), of any element type. It runs once on
    /// `first`. No output can be read before [`DeviceEngine::stage`] names it.
    ///
    /// # Errors
    /// `Inference` when the first run fails.
    pub fn of_host_inputs(
        engine: Box<dyn Engine>,
        stream: &Stream,
        first: &[TensorView<'_>],
    ) -> Result<Self> {
        let (runner, network) = HostRunner::of_host_inputs(engine, stream, first)?;
        Ok(Self::new(Runner::Host(runner), stream, network))
    }

    /// Runs a network of [`DeviceEngine::of_host_inputs`] and queues the upload of its outputs;
    /// kernels queued after it read them.
    ///
    /// # Errors
    /// `Inference` when the engine fails, or an output has another shape than in the first run;
    /// `Argument` for any other network; `Device` when an upload fails.
    pub fn run_on(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        let Self { runner, networks, selected, .. } = self;
        match runner {
            Runner::Host(runner) => runner.run(&mut networks[*selected], inputs),
            _ => {
                let message = "the network's inputs are in device memory";
                Err(Error::new(ErrorKind::Argument, STAGE, message))
            }
        }
    }

    fn new(runner: Runner, stream: &Stream, network: Network) -> Self {
        let networks = vec![network];
        Self { runner, stream: stream.clone(), networks, selected: 0, source: None }
    }

    /// Reads outputs, and no others, through host memory from now on: where they hold integers, or
    /// the number of their rows differs between runs. [`DeviceEngine::output`] is then a tensor of
    /// f32. Every run waits for the network, which is no CUDA graph. Nothing changes for no outputs, and for
    /// integers of dense layers of our own, which are f32 on the GPU.
    ///
    /// # Errors
    /// `Argument` when there are tensors for several frames in flight already; `Model` for an
    /// output without such rows, and when the options ask for a CUDA graph; `Inference` when the
    /// first runs fail; `Device` when there is not enough memory.
    pub fn stage(&mut self, outputs: &[StagedOutput]) -> Result<()> {
        let Self { runner, stream, networks, source, .. } = self;
        let [network] = networks.as_mut_slice() else {
            let message = "outputs are staged before there are frames in flight";
            return Err(Error::new(ErrorKind::Argument, STAGE, message));
        };
        // Dense layers write integers as f32, of shapes that do not vary.
        let is_written = matches!(runner, Runner::Dense(_));
        if outputs.is_empty() || (is_written && outputs.iter().all(|output| output.rows.is_none()))
        {
            return Ok(());
        }
        let graph = source.as_ref().map(|(_, options)| options.gpu.cuda_graph);
        if matches!(runner, Runner::OnnxRuntime(_)) && graph == Some(Usage::Always) {
            return Err(model_error(
                "its outputs are integers, or rows of a number that differs between frames, which a CUDA graph \
                 cannot give: set engine.cuda_graph to auto or never"
                    .into(),
            ));
        }
        network.stage(stream, outputs)?;
        runner.stage(network)
    }

    /// Makes tensors for `num` frames in flight, so that kernels write the inputs of one and read
    /// the outputs of another while the network runs. The caller orders them by events.
    ///
    /// # Errors
    /// `Inference` for a network that TensorRT records as a graph, and when the first runs fail; `Device` when there is not enough memory.
    pub fn allow_in_flight(&mut self, num: usize) -> Result<()> {
        let Self { runner, stream, networks, .. } = self;
        while networks.len() < num {
            let network = networks[0].duplicate(stream)?;
            runner.add(&network)?;
            networks.push(network);
        }
        Ok(())
    }

    /// Selects one of the frames in flight, 0 at first: the other methods are about its tensors.
    ///
    /// # Errors
    /// `Argument` for a frame beyond those of [`DeviceEngine::allow_in_flight`].
    pub fn select(&mut self, frame: usize) -> Result<()> {
        if frame >= self.networks.len() {
            let message = format!("there are no tensors for frame {frame} in flight");
            return Err(Error::new(ErrorKind::Argument, STAGE, message));
        }
        self.selected = frame;
        Ok(())
    }

    /// The queue in which it runs.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    fn network(&self) -> &Network {
        &self.networks[self.selected]
    }

    fn network_mut(&mut self) -> &mut Network {
        &mut self.networks[self.selected]
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
            shapes: outputs.iter().map(|(_, tensor)| tensor.shape().to_vec()).collect(),
            staged: Vec::new(),
        };
        Ok(Self::new(Runner::Fixed, stream, network))
    }

    /// In place of the network of a detector whose own layers compute everything, as
    /// [`NoNetwork`] on the CPU: no inputs and no outputs.
    ///
    /// # Errors
    /// As [`DeviceEngine::fixed`].
    pub fn none(stream: &Stream) -> Result<Self> {
        let mut none = Self::fixed(stream, Vec::new(), &[])?;
        none.network_mut().name = NoNetwork::NAME.to_owned();
        Ok(none)
    }

    /// The inputs of the network.
    pub fn inputs(&self) -> &[TensorSpec] {
        &self.network().input_specs
    }

    /// The outputs of the network.
    pub fn outputs(&self) -> &[TensorSpec] {
        &self.network().output_specs
    }

    /// The layout of the input at a position. With [`MapLayout::ChannelsLast`], which only
    /// [`GpuEngineOptions::channels_last_inputs`](det_post_types::GpuEngineOptions::channels_last_inputs) allows, the
    /// tensor of an input `[N, C, H, W]` is `[N, H, W, C]` of the elements that the network computes with.
    pub fn input_layout(&self, index: usize) -> MapLayout {
        self.runner.input_layout(index)
    }

    /// The input at a position of [`DeviceEngine::inputs`], to be written by kernels of
    /// the engine's stream, in its [layout](Self::input_layout). Shape and address never change.
    ///
    /// # Errors
    /// `Inference` when there is no such input.
    pub fn input(&mut self, index: usize) -> Result<&mut DeviceTensor> {
        let inputs = &mut self.network_mut().inputs;
        let num = inputs.len();
        let tensor = inputs.get_mut(index);
        tensor.ok_or_else(|| failed(format!("no input {index}: the network has {num}")))
    }

    /// Queues the network, which reads the inputs after the kernels queued before it have
    /// written them; kernels queued after it read the outputs.
    ///
    /// # Errors
    /// `Inference` when the engine fails; `Device` when the GPU does.
    pub fn enqueue(&mut self) -> Result<()> {
        let Self { runner, networks, selected, .. } = self;
        runner.enqueue(&mut networks[*selected], *selected)
    }

    /// The output at a position of [`DeviceEngine::outputs`]. Shape and address never
    /// change.
    ///
    /// # Errors
    /// `Inference` when there is no such output, or it holds neither floats nor int8, or is not staged where
    /// others are.
    pub fn output(&self, index: usize) -> Result<&DeviceTensor> {
        let Network { outputs, output_specs, .. } = self.network();
        match outputs.get(index) {
            Some(Some(tensor)) => Ok(tensor),
            Some(None) => {
                Err(failed(format!("output {} holds neither floats nor int8", output_specs[index])))
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
        let Network { inputs, outputs, .. } = self.network_mut();
        let source = outputs.get(output).and_then(Option::as_ref);
        match inputs.get_mut(input).zip(source) {
            Some((target, source)) => target.enqueue_copy(source),
            None => Err(failed(format!(
                "output {output} has no floats, or input {input} does not exist"
            ))),
        }
    }

    /// Bytes that one run copies between device and host; of staged outputs what the last run
    /// uploaded.
    pub fn copies(&self) -> NumBytes {
        let NumBytes { to_host, to_device } = self.runner.copies();
        let staged = self.network().staged.iter().map(staged::Staged::num_bytes).sum::<usize>();
        NumBytes { to_host, to_device: to_device + staged }
    }

    /// Name and version for logs and reports.
    pub fn name(&self) -> &str {
        &self.network().name
    }
}
