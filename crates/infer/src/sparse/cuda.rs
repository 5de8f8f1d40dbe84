//! Running a plan on a GPU.

use super::operation::Origin;
use super::plan::{Plan, Step, StepKind};
use super::{EncoderCounts, refuse};
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, Stream};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::conv::cuda::{Convolution, DeviceFeatures, Workspace as Features};
use det_post_ops::sparse::max_pool::cuda::Workspace as MaxPool;
use det_post_ops::sparse::rulebook::cuda::{
    Cells, DeviceSites, DeviceTable, PublishedCounts, Workspace as Rulebooks,
};
use det_post_ops::sparse::rulebook::{Mode, OutputCounts, SiteGrid};
use det_post_ops::sparse::to_map::cuda::Workspace as ToMap;
use det_post_types::{Error, ErrorKind, Result};

/// A network of sparse convolutions on a GPU.
///
/// All memory is taken when it is made, for the capacities of its plan. A frame waits for
/// nothing on the host and reads no number there, so that it can be recorded as one graph:
/// the numbers of sites stay on the device.
///
/// In f32 a frame is equal to that of [`CpuEncoder`](super::CpuEncoder), bit for bit. In
/// f16 and bf16 the features of the voxels are multiplied as sums of two and three 16-bit
/// parts, so that coordinates keep their places.
pub struct CudaEncoder {
    plan: Plan,
    rulebooks: Rulebooks,
    features: Features,
    max_pool: MaxPool,
    to_map: ToMap,
    levels: Vec<DeviceSites>,
    tables: Vec<DeviceTable>,
    steps: Vec<BoundStep>,
    buffers: Vec<DeviceFeatures>,
    input_buffer: usize,
    map_buffer: usize,
    published: PublishedCounts,
    counts: EncoderCounts,
}

/// A step with the buffers that hold its tensors.
struct BoundStep {
    kind: BoundKind,
    relu: bool,
    /// Index of the buffer that it writes.
    output: usize,
    /// Index of the level of its output.
    level: usize,
    num_channels: usize,
}

/// What a step computes from which buffers.
enum BoundKind {
    Convolution { input: usize, residual: Option<usize>, table: usize, weights: Box<Convolution> },
    MaxPool { input: usize, table: usize },
    Add { input: usize, other: Option<usize> },
}

impl BoundStep {
    fn new(stream: &Stream, plan: &Plan, step: &Step, precision: Precision) -> Result<Self> {
        let buffer = |tensor| buffer_of(plan, tensor);
        let kind = match step.kind {
            StepKind::Convolution { input, rulebook, residual } => {
                let Some(parameters) = plan.parameters(step) else {
                    return refuse(format!("operation {} has no parameters", step.operation));
                };
                let weights = if input == 0 {
                    Convolution::of_input(stream, &parameters, precision)?
                } else {
                    Convolution::new(stream, &parameters, precision)?
                };
                BoundKind::Convolution {
                    input: buffer(input)?,
                    residual: residual.map(buffer).transpose()?,
                    table: rulebook,
                    weights: Box::new(weights),
                }
            }
            StepKind::MaxPool { input, rulebook } => {
                BoundKind::MaxPool { input: buffer(input)?, table: rulebook }
            }
            StepKind::Add { inputs: [a, b] } => {
                BoundKind::Add { input: buffer(a)?, other: Some(buffer(b)?) }
            }
            StepKind::Relu { input } => BoundKind::Add { input: buffer(input)?, other: None },
        };
        let reads_parts = match step.kind {
            StepKind::Convolution { residual, .. } => residual == Some(0),
            kind => kind.inputs().any(|tensor| tensor == 0),
        };
        if reads_parts && matches!(precision, Precision::F16 | Precision::Bf16) {
            return refuse(format!(
                "operation {} reads the features of the voxels; only convolutions can in \
                 {precision:?}",
                plan.network().operations[step.operation].name
            ));
        }
        let tensor = plan.network().tensors[step.output];
        let relu = step.relu || matches!(step.kind, StepKind::Relu { .. });
        let output = buffer(step.output)?;
        Ok(Self { kind, relu, output, level: tensor.level, num_channels: tensor.channels })
    }

    fn enqueue(
        &self,
        (features, max_pool): (&Features, &MaxPool),
        levels: &[DeviceSites],
        tables: &[DeviceTable],
        buffers: &mut [DeviceFeatures],
    ) -> Result<()> {
        let sites = &levels[self.level];
        let (first, second) = match self.kind {
            BoundKind::Convolution { input, residual, .. } => (input, residual),
            BoundKind::MaxPool { input, .. } => (input, None),
            BoundKind::Add { input, other } => (input, other),
        };
        let (first, second, out) = borrow(buffers, first, second, self.output)?;
        match &self.kind {
            BoundKind::Convolution { table, weights, .. } => {
                weights.enqueue(first, (&tables[*table], sites), second, self.relu, out)
            }
            // Never negative, so that a ReLU changes nothing.
            BoundKind::MaxPool { table, .. } => {
                max_pool.enqueue(first, self.num_channels, (&tables[*table], sites), out)
            }
            BoundKind::Add { .. } => {
                features.enqueue_add((first, second), self.num_channels, sites, self.relu, out)
            }
        }
    }
}

/// The buffers that a step reads, and the one that it writes.
fn borrow(
    buffers: &mut [DeviceFeatures],
    first: usize,
    second: Option<usize>,
    output: usize,
) -> Result<(&DeviceFeatures, Option<&DeviceFeatures>, &mut DeviceFeatures)> {
    let same_buffer = |_| {
        let message = format!("a step reads and writes buffer {output}");
        Error::new(ErrorKind::Model, "sparse_network", message)
    };
    match second {
        Some(second) if second != first => {
            let [first, second, out] =
                buffers.get_disjoint_mut([first, second, output]).map_err(same_buffer)?;
            Ok((first, Some(second), out))
        }
        second => {
            let [first, out] = buffers.get_disjoint_mut([first, output]).map_err(same_buffer)?;
            let first = &*first;
            Ok((first, second.map(|_| first), out))
        }
    }
}

impl CudaEncoder {
    /// Loads the kernels, packs the weights and takes the memory of a plan.
    ///
    /// # Errors
    /// `Argument` when a level's grid is too large; `Model` when the plan is not of its
    /// network, or an operation of 16 bits other than a convolution reads the features of
    /// the voxels; `Device` when this build has no kernels, the GPU has too little shared
    /// memory for the channels of a convolution, or there is not enough memory.
    pub fn new(stream: &Stream, plan: Plan, precision: Precision) -> Result<Self> {
        let network = plan.network();
        let levels = network.levels.iter().zip(plan.capacities()).enumerate();
        let levels = levels.map(|(index, (level, &capacity))| {
            let grid = SiteGrid::new(1, level.shape)?;
            match index {
                0 => DeviceSites::input(stream, grid, capacity),
                _ => DeviceSites::output(stream, grid, capacity),
            }
        });
        let tables = plan.rulebooks().iter().map(|rulebook| {
            let levels = [rulebook.input_level, rulebook.output_level];
            let capacities = levels.map(|level| plan.capacities()[level]);
            DeviceTable::new(stream, &rulebook.geometry, rulebook.mode, capacities)
        });
        let input_buffer = buffer_of(&plan, 0)?;
        let input_len = plan.capacities()[0]
            * DeviceFeatures::input_row_len(network.input_channels(), precision);
        let buffers = (0..plan.num_buffers()).map(|buffer| {
            let len = plan.buffer_len(buffer, DeviceFeatures::row_len);
            let len = if buffer == input_buffer { len.max(input_len) } else { len };
            DeviceFeatures::new(stream, precision, len)
        });
        let steps = plan.steps().iter().map(|step| BoundStep::new(stream, &plan, step, precision));
        Ok(Self {
            rulebooks: Rulebooks::new(stream)?,
            features: Features::new(stream)?,
            max_pool: MaxPool::new(stream)?,
            to_map: ToMap::new(stream)?,
            levels: levels.collect::<Result<_>>()?,
            tables: tables.collect::<Result<_>>()?,
            steps: steps.collect::<Result<_>>()?,
            buffers: buffers.collect::<Result<_>>()?,
            input_buffer,
            map_buffer: buffer_of(&plan, network.map.input)?,
            published: PublishedCounts::new(stream, network.levels.len())?,
            counts: EncoderCounts {
                levels: vec![OutputCounts::default(); network.levels.len().saturating_sub(1)],
                ..EncoderCounts::default()
            },
            plan,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The sites of each level in the frame before.
    pub fn levels(&self) -> &[DeviceSites] {
        &self.levels
    }

    /// The tables of the plan's rulebooks in the frame before.
    pub fn tables(&self) -> &[DeviceTable] {
        &self.tables
    }

    /// The features that the map was made from in the frame before.
    pub fn map_features(&self) -> &DeviceFeatures {
        &self.buffers[self.map_buffer]
    }

    /// Bytes of device memory, the map aside.
    pub fn num_bytes(&self) -> usize {
        let levels = self.levels.iter().map(DeviceSites::num_bytes);
        let tables = self.tables.iter().map(DeviceTable::num_bytes);
        let buffers = self.buffers.iter().map(DeviceFeatures::num_bytes);
        let weights = self.steps.iter().map(|step| match &step.kind {
            BoundKind::Convolution { weights, .. } => weights.num_bytes(),
            BoundKind::MaxPool { .. } | BoundKind::Add { .. } => 0,
        });
        levels.chain(tables).chain(buffers).chain(weights).sum()
    }

    /// Waits, then returns what became of the sites of the frame before.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn counts(&self) -> Result<EncoderCounts> {
        let (input, others) = match self.levels.split_first() {
            Some((input, others)) => (input.entrance_counts()?, others),
            None => return Ok(EncoderCounts::default()),
        };
        let levels = others.iter().map(DeviceSites::output_counts).collect::<Result<_>>()?;
        Ok(EncoderCounts { entrance: input, levels })
    }

    /// Queues the copying of the counts of the frame to memory of the host, for
    /// [`Self::published_counts`].
    ///
    /// # Errors
    /// `Device` when a copy fails.
    pub fn enqueue_counts(&mut self) -> Result<()> {
        self.published.enqueue(&self.levels)
    }

    /// What became of the sites of the last frame after which [`Self::enqueue_counts`] was
    /// queued; the caller has waited for the stream.
    pub fn published_counts(&mut self) -> &EncoderCounts {
        self.counts.entrance = self.published.entrance();
        for (level, counts) in self.counts.levels.iter_mut().enumerate() {
            *counts = self.published.output(level + 1);
        }
        &self.counts
    }

    /// Bytes that [`Self::enqueue_counts`] copies.
    pub fn num_count_bytes(&self) -> usize {
        PublishedCounts::num_bytes(self.levels.len())
    }

    /// Queues the writing of all of `map`, of the network's `map_shape`, from `num` voxels:
    /// their cells on the grid of level 0 and features, in rows of the network's
    /// `input_channels`.
    ///
    /// # Errors
    /// `Argument` when there are fewer features than cells, or the map has another shape;
    /// `Device` when a buffer belongs to another stream or a launch fails.
    pub fn enqueue(
        &mut self,
        cells: Cells<'_>,
        num: &DeviceBuffer<u32>,
        features: &DeviceBuffer<f32>,
        map: &mut DeviceTensor,
    ) -> Result<()> {
        self.enqueue_sites_and_tables(cells, num)?;
        let network = self.plan.network();
        let num_channels = network.input_channels();
        let input = &mut self.buffers[self.input_buffer];
        self.features.enqueue_input(features, num_channels, &self.levels[0], input)?;
        for step in &self.steps {
            let ops = (&self.features, &self.max_pool);
            step.enqueue(ops, &self.levels, &self.tables, &mut self.buffers)?;
        }
        let tensor = network.tensors[network.map.input];
        let (features, sites) = (&self.buffers[self.map_buffer], &self.levels[tensor.level]);
        self.to_map.enqueue(features, sites, network.map.axes, tensor.channels, map)
    }

    /// Queues the making of the sites of every level and of the tables of every rulebook: the
    /// first part of [`Self::enqueue`].
    ///
    /// # Errors
    /// `Device` when a buffer belongs to another stream or a launch fails.
    pub fn enqueue_sites_and_tables(
        &mut self,
        cells: Cells<'_>,
        num: &DeviceBuffer<u32>,
    ) -> Result<()> {
        self.rulebooks.enqueue_clear(&mut self.levels)?;
        self.rulebooks.enqueue_input(cells, num, &mut self.levels[0])?;
        for (index, level) in self.plan.network().levels.iter().enumerate().skip(1) {
            let (from, geometry, mode) = match level.origin {
                Origin::Voxels => continue,
                Origin::Strided { from, geometry } => (from, geometry, Mode::Strided),
                Origin::Transposed { from, geometry } => (from, geometry, Mode::Transposed),
            };
            // A level comes after the one that it is derived from.
            let (before, rest) = self.levels.split_at_mut(index);
            self.rulebooks.enqueue_output(&before[from], &geometry, mode, &mut rest[0])?;
        }
        for (rulebook, table) in self.plan.rulebooks().iter().zip(&mut self.tables) {
            let [input, output] = [rulebook.input_level, rulebook.output_level];
            self.rulebooks.enqueue_table(&self.levels[input], &self.levels[output], table)?;
        }
        Ok(())
    }
}

/// The buffer of a tensor that a step reads or writes.
fn buffer_of(plan: &Plan, tensor: usize) -> Result<usize> {
    plan.buffer_of(tensor).map_or_else(|| refuse(format!("tensor {tensor} has no buffer")), Ok)
}
