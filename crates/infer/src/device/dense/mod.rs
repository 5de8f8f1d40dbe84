//! Dense layers of our own on the GPU of a stream: a plan, recorded as one graph for each set of tensors.

use std::path::Path;

use det_post_ops::dense::Region;
use det_post_ops::dense::arena::{Arena, ArenaBuffer};
use det_post_ops::dense::arg_max::cuda::ArgMaxes;
use det_post_ops::dense::conv::cuda::DeviceConv;
use det_post_ops::dense::conv_transpose::cuda::DeviceConvTranspose;
use det_post_ops::dense::gather::cuda::Gathers;
use det_post_ops::dense::grid_sample::cuda::GridSampling;
use det_post_ops::dense::layer_norm::LayerNorm;
use det_post_ops::dense::layer_norm::cuda::LayerNorms;
use det_post_ops::dense::linear_max::cuda::DeviceLinearMax;
use det_post_ops::dense::matmul::cuda::DeviceMatMul;
use det_post_ops::dense::pointwise::Job;
use det_post_ops::dense::pointwise::cuda::Pointwise;
use det_post_ops::dense::pool::cuda::Pooling;
use det_post_ops::dense::reduce::cuda::Reductions;
use det_post_ops::dense::resize::cuda::Resizing;
use det_post_ops::dense::softmax::cuda::Softmaxes;
use det_post_ops::dense::top_k::cuda::TopKs;
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, DeviceValues, Graph, Stream};

use crate::STAGE;
use crate::dense::{self, Kind, Plan, PlanOptions, Precision, Role, Study};
use crate::device::network::{Network, allocate_inputs, allocate_output, model_error};
use det_post_types::{ElementType, Error, MapLayout, NetworkPart, Result, TensorSpec};

/// A network of dense layers.
pub(super) struct DenseRunner {
    // Dropped first: the work of the others.
    graphs: Vec<Graph>,
    arenas: Vec<Arena>,
    layers: Vec<Layer>,
    operations: Operations,
    network: dense::Network,
    stream: Stream,
    study: Option<Study>,
}

/// A convolution with its weights in device memory, or a step that needs none.
enum Layer {
    Conv(Box<DeviceConv>),
    Transposed(DeviceConvTranspose),
    MatMul(DeviceMatMul),
    LinearMax(DeviceLinearMax),
    Other,
}

/// The kernels of all other operations.
struct Operations {
    arg_max: ArgMaxes,
    gather: Gathers,
    grid_sample: GridSampling,
    layer_norm: LayerNorms,
    pointwise: Pointwise,
    pool: Pooling,
    reduce: Reductions,
    resize: Resizing,
    softmax: Softmaxes,
    top_k: TopKs,
}

impl DenseRunner {
    /// Lays a network out for a stream, uploads its weights and records it. Outputs of integers are f32.
    ///
    /// # Errors
    /// `Model` when the file cannot be read or a node is not covered; `Device` when there is not enough memory or the
    /// GPU fails.
    pub(super) fn load(
        (model, part): (&Path, NetworkPart),
        options: PlanOptions<'_>,
        stream: &Stream,
        shape_of: &dyn Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<(Self, Network)> {
        // Kernels behind a network read floats.
        let options = PlanOptions { integers_as_floats: true, ..options };
        let network = dense::Network::of_file(model, part, options, shape_of)?;
        Self::start(network, options.precision, stream)
    }

    fn start(
        network: dense::Network,
        precision: Precision,
        stream: &Stream,
    ) -> Result<(Self, Network)> {
        let device = stream.device();
        let outputs = network.outputs.iter().zip(&network.output_shapes);
        let outputs = outputs.map(|(spec, shape)| {
            let element = spec.element.filter(|element| *element != ElementType::I32);
            allocate_output(stream, element.or(Some(ElementType::F32)), shape)
        });
        let tensors = Network {
            name: format!("dense layers of {} on CUDA", shown(precision, &network.plan)),
            input_specs: network.inputs.clone(),
            output_specs: network.outputs.clone(),
            inputs: inputs_of(&network, stream)?,
            outputs: outputs.collect::<Result<_>>()?,
            shapes: network.output_shapes.clone(),
            staged: Vec::new(),
        };
        let operations = Operations {
            arg_max: ArgMaxes::load(device)?,
            gather: Gathers::load(device)?,
            grid_sample: GridSampling::load(device)?,
            layer_norm: LayerNorms::load(device)?,
            pointwise: Pointwise::load(device)?,
            pool: Pooling::load(device)?,
            reduce: Reductions::load(device)?,
            resize: Resizing::load(device)?,
            softmax: Softmaxes::load(device)?,
            top_k: TopKs::load(device)?,
        };
        let arena = first_arena(&network.plan, stream, &tensors)?;
        let layer = |step: &dense::Step| match &step.kind {
            Kind::Conv { conv, regions } => {
                DeviceConv::new(&arena, conv, regions).map(|conv| Layer::Conv(Box::new(conv)))
            }
            Kind::Transposed { conv, regions, .. } => {
                DeviceConvTranspose::new(&arena, conv, regions).map(Layer::Transposed)
            }
            Kind::MatMul { product, regions, .. } => {
                DeviceMatMul::new(&arena, product, regions).map(Layer::MatMul)
            }
            Kind::LinearMax { layer, .. } => {
                DeviceLinearMax::new(&arena, layer).map(Layer::LinearMax)
            }
            _ => Ok(Layer::Other),
        };
        let layers = network.plan.steps().iter().map(layer).collect::<Result<_>>()?;
        let (graphs, arenas, stream) = (Vec::new(), Vec::new(), stream.clone());
        let study = None;
        let mut runner = Self { graphs, arenas, layers, operations, network, stream, study };
        runner.record(arena)?;
        Ok((runner, tensors))
    }

    /// Runs once, which shows that all launches work, and records a run.
    fn record(&mut self, arena: Arena) -> Result<()> {
        self.enqueue_steps(&arena, self.layers.len())?;
        self.stream.synchronize()?;
        let follows = self.network.plan.follows();
        let graph =
            Graph::capture_steps(&self.stream, follows, |at| self.enqueue_step(&arena, at))?;
        self.graphs.push(graph);
        self.arenas.push(arena);
        Ok(())
    }

    /// Queues the first steps with the buffers of an arena.
    pub(super) fn enqueue_steps(&self, arena: &Arena, num: usize) -> Result<()> {
        (0..num.min(self.layers.len())).try_for_each(|at| self.enqueue_step(arena, at))
    }

    fn enqueue_step(&self, arena: &Arena, at: usize) -> Result<()> {
        let operations = &self.operations;
        let (step, layer) = (&self.network.plan.steps()[at], &self.layers[at]);
        match (&step.kind, layer) {
            (_, Layer::Conv(conv)) => conv.enqueue(arena),
            (_, Layer::Transposed(conv)) => conv.enqueue(arena),
            (_, Layer::MatMul(product)) => product.enqueue(arena),
            (Kind::LinearMax { input, output, .. }, Layer::LinearMax(layer)) => {
                layer.enqueue(arena, input, output)
            }
            (Kind::Pool { pool, input, output }, _) => {
                operations.pool.enqueue(arena, pool, input, output)
            }
            (Kind::Resize { resize, input, output }, _) => {
                operations.resize.enqueue(arena, resize, input, output)
            }
            (Kind::Pointwise(jobs), _) => {
                let jobs: Vec<Job<'_>> = jobs.iter().map(job).collect();
                operations.pointwise.enqueue_jobs(arena, &jobs)
            }
            (Kind::Reduce { reduction, axes, input, output }, _) => {
                operations.reduce.enqueue(arena, *reduction, axes, input, output)
            }
            (Kind::Softmax { softmax, input, output }, _) => {
                operations.softmax.enqueue(arena, softmax, input, output)
            }
            (Kind::LayerNorm { axes, epsilon, scales, shifts, input, output }, _) => {
                let norm =
                    LayerNorm { axes, epsilon: *epsilon, scales: *scales, shifts: Some(*shifts) };
                operations.layer_norm.enqueue(arena, &norm, input, output)
            }
            (Kind::Gather { gather, input, indices, output }, _) => {
                operations.gather.enqueue(arena, gather, input, indices, output)
            }
            (Kind::TopK { top_k, input, chosen }, _) => {
                operations.top_k.enqueue(arena, top_k, input, chosen)
            }
            (Kind::GridSample { sample, input, grid, output }, _) => {
                operations.grid_sample.enqueue(arena, sample, input, grid, output)
            }
            (Kind::ArgMax { search, input, output }, _) => {
                operations.arg_max.enqueue(arena, search, input, output)
            }
            // Their layers are above.
            (
                Kind::Conv { .. }
                | Kind::Transposed { .. }
                | Kind::MatMul { .. }
                | Kind::LinearMax { .. },
                _,
            ) => Ok(()),
        }
        .map_err(|error| {
            // Of the same kind: a device that fails is no network that does not fit.
            let message = format!("{}: {}", step.name, error.message());
            Error::new(error.kind(), STAGE, message).with_source(error)
        })
    }

    /// Records a run with further tensors, which has the next number.
    ///
    /// # Errors
    /// `Device` when there is not enough memory or the GPU fails.
    pub(super) fn add(&mut self, tensors: &Network) -> Result<()> {
        let Some(first) = self.arenas.first() else {
            return Err(model_error("nothing is recorded".into()));
        };
        let mut arena = Arena::new(&self.stream);
        for (number, buffer) in self.network.plan.buffers().iter().enumerate() {
            // Runs follow each other in the stream: memory between steps serves all of them.
            let shared = match buffer.role {
                Role::Input(_) | Role::Output(_) => {
                    end_buffer(&buffer.role, buffer.element, buffer.len, &self.stream, tensors)?
                }
                _ => same(first.buffer(number)?, &self.stream)?,
            };
            arena.push(shared)?;
        }
        self.record(arena)
    }

    /// Queues a run with the tensors of a number.
    ///
    /// # Errors
    /// `Device` when the GPU fails.
    pub(super) fn enqueue(&self, number: usize) -> Result<()> {
        match self.graphs.get(number) {
            Some(_) if self.study.is_some() => self.run_studied(&self.arenas[number]),
            Some(graph) => graph.enqueue(),
            None => Err(model_error(format!("there are no tensors of number {number}"))),
        }
    }

    /// Runs one step after another from now on, and writes down what each writes.
    pub(super) fn begin_study(&mut self, study: Study) {
        self.study = Some(study);
    }

    fn run_studied(&self, arena: &Arena) -> Result<()> {
        for at in 0..self.layers.len() {
            self.enqueue_step(arena, at)?;
            if let Some(study) = &self.study {
                study.see(at, |target| read(arena, target))?;
            }
        }
        Ok(())
    }

    /// The dense network.
    pub(super) fn network(&self) -> &dense::Network {
        &self.network
    }

    /// The plan that runs.
    #[cfg(test)]
    pub(super) fn plan(&self) -> &Plan {
        &self.network.plan
    }

    /// The buffers of the first tensors.
    #[cfg(test)]
    pub(super) fn first_arena(&self) -> &Arena {
        &self.arenas[0]
    }
}

fn job(job: &dense::Job) -> Job<'_> {
    Job { program: &job.program, sources: &job.sources, targets: &job.targets }
}

/// `f16`, `f16 with 3 layers of f32` or `f32`.
fn shown(precision: Precision, plan: &Plan) -> String {
    let products = plan.steps().iter().filter_map(|step| match &step.kind {
        Kind::LinearMax { .. } => None,
        kind => kind.products(),
    });
    match (precision, products.filter(|element| *element == ElementType::F32).count()) {
        (Precision::F32, _) => "f32".to_owned(),
        (Precision::F16, 0) => "f16".to_owned(),
        (Precision::F16, 1) => "f16 with a layer of f32".to_owned(),
        (Precision::F16, num) => format!("f16 with {num} layers of f32"),
    }
}

/// The floats of a window, once the work that was queued is done.
fn read(arena: &Arena, region: &Region) -> Result<Vec<f32>> {
    let values = match arena.buffer(region.buffer)? {
        ArenaBuffer::F32(buffer) => buffer.read()?,
        ArenaBuffer::F16(buffer) => buffer.read()?.into_iter().map(f32::from).collect(),
        ArenaBuffer::I32(_) => Vec::new(),
    };
    let mut read = Vec::with_capacity(region.window.len());
    region.window.for_each_offset(|offset| read.extend(values.get(offset)));
    Ok(read)
}

/// Memory for the inputs.
fn inputs_of(network: &dense::Network, stream: &Stream) -> Result<Vec<DeviceTensor>> {
    let shape_at = |spec: &TensorSpec| {
        let at = network.inputs.iter().position(|other| other == spec).unwrap_or_default();
        Ok(network.input_shapes[at].clone())
    };
    let mut inputs = allocate_inputs(stream, &network.inputs, shape_at)?;
    for buffer in network.plan.buffers() {
        let Role::Input(at) = buffer.role else { continue };
        if let (MapLayout::ChannelsLast, &[n, c, h, w]) =
            (network.plan.input_layout(at), &*network.input_shapes[at])
        {
            inputs[at] = DeviceTensor::zeros(stream, buffer.element, &[n, h, w, c])?;
        }
    }
    Ok(inputs)
}

/// All buffers of a plan: inputs and outputs are the buffers of the tensors.
fn first_arena(plan: &Plan, stream: &Stream, tensors: &Network) -> Result<Arena> {
    let mut arena = Arena::new(stream);
    for buffer in plan.buffers() {
        let made = match &buffer.role {
            Role::Input(_) | Role::Output(_) => {
                end_buffer(&buffer.role, buffer.element, buffer.len, stream, tensors)?
            }
            Role::Floats(values) => {
                let mut on_device = DeviceBuffer::zeros(stream, values.len())?;
                on_device.write(values)?;
                ArenaBuffer::F32(on_device)
            }
            Role::Integers(values) => {
                let mut on_device = DeviceBuffer::zeros(stream, values.len())?;
                on_device.write(values)?;
                ArenaBuffer::I32(on_device)
            }
            Role::Work => ArenaBuffer::zeros(stream, buffer.element, buffer.len)?,
        };
        arena.push(made)?;
    }
    Ok(arena)
}

/// The memory of an input or output; memory that no kernel reads for an output that holds no floats.
fn end_buffer(
    role: &Role,
    element: ElementType,
    len: usize,
    stream: &Stream,
    tensors: &Network,
) -> Result<ArenaBuffer> {
    let tensor: Option<&DeviceTensor> = match role {
        Role::Input(at) => tensors.inputs.get(*at),
        Role::Output(at) => tensors.outputs.get(*at).and_then(Option::as_ref),
        _ => None,
    };
    match tensor.map(DeviceTensor::values) {
        Some(DeviceValues::F32(values)) => Ok(ArenaBuffer::F32(values.on(stream)?)),
        Some(DeviceValues::F16(values)) => Ok(ArenaBuffer::F16(values.on(stream)?)),
        Some(DeviceValues::I8(_)) => Err(model_error("a tensor of i8; f32 or f16 expected".into())),
        None => ArenaBuffer::zeros(stream, element, len),
    }
}

/// The same memory as another buffer.
fn same(buffer: &ArenaBuffer, stream: &Stream) -> Result<ArenaBuffer> {
    Ok(match buffer {
        ArenaBuffer::F32(buffer) => ArenaBuffer::F32(buffer.on(stream)?),
        ArenaBuffer::F16(buffer) => ArenaBuffer::F16(buffer.on(stream)?),
        ArenaBuffer::I32(buffer) => ArenaBuffer::I32(buffer.on(stream)?),
    })
}

#[cfg(test)]
mod tests;
