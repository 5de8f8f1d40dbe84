//! Running a plan on the CPU.

use super::operation::{Origin, merged};
use super::plan::{Plan, Step, StepKind};
use super::refuse;
use det_post_ops::sparse::conv::{
    Epilogue, PackedWeights, Precision, Workspace, relu, sparse_conv,
};
use det_post_ops::sparse::max_pool::sparse_max_pool;
use det_post_ops::sparse::merge::{MAX_SOURCES, Source, sparse_merge};
use det_post_ops::sparse::rulebook::{
    EntranceCounts, Mode, OutputCounts, Scaled, SiteGrid, Sites, Table, fill_table, merged_sites,
    output_sites, sites_of_coordinates,
};
use det_post_ops::sparse::to_map::to_map;
use det_post_types::{Error, ErrorKind, Result, Tensor};

/// A network of sparse convolutions on the CPU.
///
/// All memory is taken when it is made, for the capacities of its plan; a frame
/// allocates nothing but what starting threads takes. Results do not depend on
/// the number of threads.
///
/// With a precision of 16 bits the first convolution multiplies the voxel
/// features as they are, in f32: coordinates of 100 m lose centimetres in f16.
#[derive(Clone, Debug)]
pub struct CpuEncoder {
    plan: Plan,
    precision: Precision,
    levels: Vec<Sites>,
    tables: Vec<Table>,
    steps: Vec<BoundStep>,
    buffers: Vec<Vec<f32>>,
    input_buffer: usize,
    map_buffer: usize,
    input_rows: Vec<u32>,
    workspace: Workspace,
    counts: EncoderCounts,
}

/// What became of the sites of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncoderCounts {
    /// The voxels.
    pub entrance: EntranceCounts,
    /// The levels after the first.
    pub levels: Vec<OutputCounts>,
}

/// A step with the buffers that hold its tensors.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
enum BoundKind {
    Convolution { input: usize, residual: Option<usize>, table: usize, weights: PackedWeights },
    MaxPool { input: usize, table: usize },
    Add { inputs: [usize; 2] },
    Relu { input: usize },
    Merge { inputs: Vec<MergeInput> },
}

/// A tensor that is merged: its buffer, and its level with the scale.
#[derive(Clone, Copy, Debug)]
struct MergeInput {
    buffer: usize,
    from: Scaled<usize>,
}

impl BoundStep {
    fn new(plan: &Plan, step: &Step, precision: Precision) -> Result<Self> {
        let buffer = |tensor| buffer_of(plan, tensor);
        let kind = match step.kind {
            StepKind::Convolution { input, rulebook, residual } => {
                let Some(parameters) = plan.parameters(step) else {
                    return refuse(format!("operation {} has no parameters", step.operation));
                };
                let products = match precision {
                    Precision::F16 | Precision::Bf16 if input == 0 => Precision::F32,
                    precision => precision,
                };
                BoundKind::Convolution {
                    input: buffer(input)?,
                    residual: residual.map(buffer).transpose()?,
                    table: rulebook,
                    weights: PackedWeights::new(&parameters, products)?,
                }
            }
            StepKind::MaxPool { input, rulebook } => {
                BoundKind::MaxPool { input: buffer(input)?, table: rulebook }
            }
            StepKind::Add { inputs: [a, b] } => BoundKind::Add { inputs: [buffer(a)?, buffer(b)?] },
            StepKind::Relu { input } => BoundKind::Relu { input: buffer(input)? },
            StepKind::Merge { inputs } => {
                let sources = inputs.iter().flatten().zip(plan.merged(step));
                let bound =
                    sources.map(|(&input, from)| Ok(MergeInput { buffer: buffer(input)?, from }));
                BoundKind::Merge { inputs: bound.collect::<Result<_>>()? }
            }
        };
        let tensor = plan.network().tensors[step.output];
        let output = buffer(step.output)?;
        let (level, num_channels) = (tensor.level, tensor.channels);
        Ok(Self { kind, relu: step.relu, output, level, num_channels })
    }

    /// Writes all of `out`, which is not among the buffers that it reads.
    fn run(
        &self,
        buffers: &[Vec<f32>],
        (levels, tables): (&[Sites], &[Table]),
        precision: Precision,
        workspace: &mut Workspace,
        out: &mut [f32],
    ) -> Result<()> {
        match &self.kind {
            BoundKind::Convolution { input, residual, table, weights } => {
                let residual = residual.map(|buffer| &buffers[buffer][..]);
                let epilogue = Epilogue { residual, relu: self.relu, stored: precision };
                let (input, table) = (&buffers[*input], &tables[*table]);
                return sparse_conv(input, table, weights, epilogue, workspace, out);
            }
            BoundKind::MaxPool { input, table } => {
                sparse_max_pool(&buffers[*input], &tables[*table], self.num_channels, out)?;
            }
            BoundKind::Merge { inputs } => {
                let sources: [Source<'_>; MAX_SOURCES] = std::array::from_fn(|place| {
                    let &MergeInput { buffer, from } = inputs.get(place).unwrap_or(&inputs[0]);
                    let sites = Scaled { level: &levels[from.level], scale: from.scale };
                    Source { sites, features: &buffers[buffer] }
                });
                let (sources, plane) = (&sources[..inputs.len()], &levels[self.level]);
                sparse_merge(sources, self.num_channels, plane, out)?;
            }
            BoundKind::Add { inputs: [a, b] } => {
                let sums = buffers[*a].iter().zip(&buffers[*b]).map(|(a, b)| a + b);
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum);
            }
            BoundKind::Relu { input } => {
                out.iter_mut().zip(&buffers[*input]).for_each(|(out, value)| *out = relu(*value));
            }
        }
        if self.relu {
            out.iter_mut().for_each(|out| *out = relu(*out));
        }
        out.iter_mut().for_each(|out| *out = precision.round_stored(*out));
        Ok(())
    }
}

impl CpuEncoder {
    /// An encoder that runs on `num_threads` threads.
    ///
    /// # Errors
    /// `Argument` when a level's grid is too large; `Model` when the plan is not of
    /// its network.
    pub fn new(plan: Plan, precision: Precision, num_threads: usize) -> Result<Self> {
        let network = plan.network();
        let levels = network.levels.iter().zip(plan.capacities());
        let levels: Vec<Sites> = levels
            .map(|(level, &capacity)| Ok(Sites::new(SiteGrid::new(1, level.shape)?, capacity)))
            .collect::<Result<_>>()?;
        let tables = plan.rulebooks().iter().map(|rulebook| {
            let capacity = plan.capacities()[rulebook.output_level];
            Table::new(&rulebook.geometry, rulebook.mode, capacity)
        });
        let steps = plan.steps().iter().map(|step| BoundStep::new(&plan, step, precision));
        let buffers = (0..plan.num_buffers())
            .map(|buffer| Vec::with_capacity(plan.buffer_len(buffer, |num_channels| num_channels)));
        Ok(Self {
            precision,
            tables: tables.collect(),
            steps: steps.collect::<Result<_>>()?,
            buffers: buffers.collect(),
            input_buffer: buffer_of(&plan, 0)?,
            map_buffer: buffer_of(&plan, network.map.input)?,
            input_rows: Vec::with_capacity(levels[0].capacity()),
            workspace: Workspace::new(num_threads),
            counts: EncoderCounts {
                levels: vec![OutputCounts::default(); levels.len() - 1],
                ..EncoderCounts::default()
            },
            levels,
            plan,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The sites of each level in the frame before.
    pub fn levels(&self) -> &[Sites] {
        &self.levels
    }

    /// The tables of the plan's rulebooks in the frame before.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// What became of the sites of the frame before.
    pub fn counts(&self) -> &EncoderCounts {
        &self.counts
    }

    /// Writes all of `map`, of the network's `map_shape`, from voxels: their
    /// cells (0, c0, c1, c2), in the order of the grid's axes, and features, in
    /// rows of the network's `input_channels`.
    ///
    /// # Errors
    /// `Argument` when the features are not those of the coordinates, or the
    /// map has another shape.
    pub fn run(
        &mut self,
        coordinates: &[[i32; 4]],
        features: &[f32],
        map: &mut Tensor,
    ) -> Result<()> {
        self.run_observed(coordinates, features, map, |_, _| {})
    }

    /// Like [`Self::run`]. Calls `observe` after each step with the features
    /// that it wrote.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_observed(
        &mut self,
        coordinates: &[[i32; 4]],
        features: &[f32],
        map: &mut Tensor,
        observe: impl FnMut(&Step, &[f32]),
    ) -> Result<()> {
        if !self.plan.network().site_outputs.is_empty() {
            return refuse("the network ends on sites, not in a map".into());
        }
        self.run_layers(coordinates, features, observe)?;
        let network = self.plan.network();
        let tensor = network.tensors[network.map.input];
        let (features, sites) = (&self.buffers[self.map_buffer], &self.levels[tensor.level]);
        to_map(features, sites, network.map.axes, tensor.channels, map)
    }

    /// Computes the outputs of a network that ends on sites, from voxels as [`Self::run`].
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_on_sites(&mut self, coordinates: &[[i32; 4]], features: &[f32]) -> Result<()> {
        self.run_layers(coordinates, features, |_, _| {})
    }

    /// The output at a position of the network's `site_outputs` in the frame before, `[M, C]`,
    /// rows in the order of [`Self::last_sites`]; `None` where there is no such output.
    pub fn site_output(&self, position: usize) -> Option<&[f32]> {
        let output = self.plan.network().site_outputs.get(position)?;
        Some(&self.buffers[self.plan.buffer_of(output.tensor)?])
    }

    /// The sites of the map, or of the outputs, in the frame before.
    pub fn last_sites(&self) -> &Sites {
        &self.levels[self.plan.network().last_level()]
    }

    fn run_layers(
        &mut self,
        coordinates: &[[i32; 4]],
        features: &[f32],
        mut observe: impl FnMut(&Step, &[f32]),
    ) -> Result<()> {
        let num_channels = self.plan.network().input_channels();
        if coordinates.len().checked_mul(num_channels) != Some(features.len()) {
            let message = format!(
                "{} features do not match {} voxels of {num_channels} channels",
                features.len(),
                coordinates.len()
            );
            return Err(Error::new(ErrorKind::Argument, "sparse_network", message));
        }
        self.make_rulebooks(coordinates)?;
        let rows = self.input_rows.iter().map(|&row| row as usize * num_channels);
        let rows = rows.flat_map(|start| &features[start..start + num_channels]);
        let input = &mut self.buffers[self.input_buffer];
        input.clear();
        input.extend(rows);
        for (step, planned) in self.steps.iter().zip(self.plan.steps()) {
            let mut out = std::mem::take(&mut self.buffers[step.output]);
            out.resize(self.levels[step.level].len() * step.num_channels, 0.0);
            let (sites, workspace) = ((&*self.levels, &*self.tables), &mut self.workspace);
            let written = step.run(&self.buffers, sites, self.precision, workspace, &mut out);
            self.buffers[step.output] = out;
            written?;
            observe(planned, &self.buffers[step.output]);
        }
        Ok(())
    }

    fn make_rulebooks(&mut self, coordinates: &[[i32; 4]]) -> Result<()> {
        self.counts.entrance =
            sites_of_coordinates(coordinates, &mut self.levels[0], &mut self.input_rows);
        let origins = self.plan.network().levels.iter().enumerate().skip(1);
        for ((level, planned), counts) in origins.zip(&mut self.counts.levels) {
            // A level comes after those that it is derived from.
            let (before, rest) = self.levels.split_at_mut(level);
            let (from, geometry, mode) = match planned.origin {
                Origin::Voxels => continue,
                Origin::Strided { from, geometry } => (from, geometry, Mode::Strided),
                Origin::Transposed { from, geometry } => (from, geometry, Mode::Transposed),
                Origin::Merged { from } => {
                    let (sources, num) = merged(&from, before);
                    *counts = merged_sites(&sources[..num], &mut rest[0])?;
                    continue;
                }
            };
            *counts = output_sites(&before[from], &geometry, mode, &mut rest[0])?;
        }
        for (rulebook, table) in self.plan.rulebooks().iter().zip(&mut self.tables) {
            let [input, output] = [rulebook.input_level, rulebook.output_level];
            fill_table(&self.levels[input], &self.levels[output], table)?;
        }
        Ok(())
    }
}

/// The buffer of a tensor that a step reads or writes.
fn buffer_of(plan: &Plan, tensor: usize) -> Result<usize> {
    plan.buffer_of(tensor).map_or_else(|| refuse(format!("tensor {tensor} has no buffer")), Ok)
}
