//! Running a plan on a GPU.

mod steps;

use steps::{BoundKind, BoundStep, Ops, buffer_of};

use super::operation::{Origin, merged};
use super::plan::Plan;
use super::{EncoderCounts, refuse};
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, Stream};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::conv::cuda::{DeviceFeatures, Workspace as Features};
use det_post_ops::sparse::max_pool::cuda::Workspace as MaxPool;
use det_post_ops::sparse::merge::cuda::Workspace as Merge;
use det_post_ops::sparse::rulebook::cuda::{
    Cells, DeviceSites, DeviceTable, PublishedCounts, Workspace as Rulebooks,
};
use det_post_ops::sparse::rulebook::{Mode, OutputCounts, SiteGrid};
use det_post_ops::sparse::to_map::cuda::Workspace as ToMap;
use det_post_types::Result;

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
    merge: Merge,
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
            merge: Merge::new(stream)?,
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
            BoundKind::MaxPool { .. } | BoundKind::Add { .. } | BoundKind::Merge { .. } => 0,
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
        let network = self.plan.network();
        if !network.site_outputs.is_empty() {
            return refuse("the network ends on sites, not in a map".into());
        }
        let (tensor, axes) = (network.tensors[network.map.input], network.map.axes);
        self.enqueue_on_sites(cells, num, features)?;
        let (features, sites) = (&self.buffers[self.map_buffer], &self.levels[tensor.level]);
        self.to_map.enqueue(features, sites, axes, tensor.channels, map)
    }

    /// Queues the computing of the outputs of a network that ends on sites, from voxels as
    /// [`Self::enqueue`].
    ///
    /// # Errors
    /// As [`Self::enqueue`].
    pub fn enqueue_on_sites(
        &mut self,
        cells: Cells<'_>,
        num: &DeviceBuffer<u32>,
        features: &DeviceBuffer<f32>,
    ) -> Result<()> {
        self.enqueue_sites_and_tables(cells, num)?;
        let num_channels = self.plan.network().input_channels();
        let input = &mut self.buffers[self.input_buffer];
        self.features.enqueue_input(features, num_channels, &self.levels[0], input)?;
        for step in &self.steps {
            let Self { features, max_pool, merge, .. } = self;
            let ops = Ops { features, max_pool, merge };
            step.enqueue(ops, &self.levels, &self.tables, &mut self.buffers)?;
        }
        Ok(())
    }

    /// The output at a position of the network's `site_outputs`, rows in the order of
    /// [`Self::last_sites`]; `None` where there is no such output.
    pub fn site_output(&self, position: usize) -> Option<&DeviceFeatures> {
        let output = self.plan.network().site_outputs.get(position)?;
        Some(&self.buffers[self.plan.buffer_of(output.tensor)?])
    }

    /// The sites of the map, or of the outputs.
    pub fn last_sites(&self) -> &DeviceSites {
        &self.levels[self.plan.network().last_level()]
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
            // A level comes after those that it is derived from.
            let (before, rest) = self.levels.split_at_mut(index);
            let (from, geometry, mode) = match level.origin {
                Origin::Voxels => continue,
                Origin::Strided { from, geometry } => (from, geometry, Mode::Strided),
                Origin::Transposed { from, geometry } => (from, geometry, Mode::Transposed),
                Origin::Merged { from } => {
                    let (sources, num) = merged(&from, before);
                    self.rulebooks.enqueue_merged(&sources[..num], &mut rest[0])?;
                    continue;
                }
            };
            self.rulebooks.enqueue_output(&before[from], &geometry, mode, &mut rest[0])?;
        }
        for (rulebook, table) in self.plan.rulebooks().iter().zip(&mut self.tables) {
            let [input, output] = [rulebook.input_level, rulebook.output_level];
            self.rulebooks.enqueue_table(&self.levels[input], &self.levels[output], table)?;
        }
        Ok(())
    }
}
