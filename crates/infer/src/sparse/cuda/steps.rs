//! Steps with their buffers on a GPU.

use super::{Features, MaxPool, Merge};
use crate::sparse::plan::{Plan, Step, StepKind};
use crate::sparse::refuse;
use det_post_ops::device::cuda::Stream;
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::conv::cuda::{Convolution, DeviceFeatures};
use det_post_ops::sparse::merge::MAX_SOURCES;
use det_post_ops::sparse::merge::cuda::DeviceSource;
use det_post_ops::sparse::rulebook::Scaled;
use det_post_ops::sparse::rulebook::cuda::{DeviceSites, DeviceTable};
use det_post_types::{Error, ErrorKind, Result};

/// A step with the buffers that hold its tensors.
pub(super) struct BoundStep {
    pub(super) kind: BoundKind,
    relu: bool,
    /// Index of the buffer that it writes.
    output: usize,
    /// Index of the level of its output.
    level: usize,
    num_channels: usize,
}

/// What a step computes from which buffers.
pub(super) enum BoundKind {
    Convolution { input: usize, residual: Option<usize>, table: usize, weights: Box<Convolution> },
    MaxPool { input: usize, table: usize },
    Add { input: usize, other: Option<usize> },
    Merge { buffers: Vec<usize>, from: Vec<Scaled<usize>> },
}

/// The kernels of steps that have no weights.
#[derive(Clone, Copy)]
pub(super) struct Ops<'a> {
    pub(super) features: &'a Features,
    pub(super) max_pool: &'a MaxPool,
    pub(super) merge: &'a Merge,
}

impl BoundStep {
    pub(super) fn new(
        stream: &Stream,
        plan: &Plan,
        step: &Step,
        precision: Precision,
    ) -> Result<Self> {
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
            StepKind::Merge { inputs } => BoundKind::Merge {
                buffers: inputs.into_iter().flatten().map(buffer).collect::<Result<_>>()?,
                from: plan.merged(step).collect(),
            },
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

    pub(super) fn enqueue(
        &self,
        ops: Ops<'_>,
        levels: &[DeviceSites],
        tables: &[DeviceTable],
        buffers: &mut [DeviceFeatures],
    ) -> Result<()> {
        let sites = &levels[self.level];
        let (first, second) = match self.kind {
            BoundKind::Convolution { input, residual, .. } => (input, residual),
            BoundKind::MaxPool { input, .. } => (input, None),
            BoundKind::Add { input, other } => (input, other),
            BoundKind::Merge { buffers: ref inputs, ref from } => {
                let sources = (&inputs[..], &from[..]);
                return self.enqueue_merge(ops.merge, sources, levels, buffers);
            }
        };
        let (first, second, out) = borrow(buffers, first, second, self.output)?;
        match &self.kind {
            BoundKind::Convolution { table, weights, .. } => {
                weights.enqueue(first, (&tables[*table], sites), second, self.relu, out)
            }
            // Never negative, so that a ReLU changes nothing.
            BoundKind::MaxPool { table, .. } => {
                ops.max_pool.enqueue(first, self.num_channels, (&tables[*table], sites), out)
            }
            BoundKind::Add { .. } | BoundKind::Merge { .. } => {
                ops.features.enqueue_add((first, second), self.num_channels, sites, self.relu, out)
            }
        }
    }

    fn enqueue_merge(
        &self,
        merge: &Merge,
        (inputs, from): (&[usize], &[Scaled<usize>]),
        levels: &[DeviceSites],
        buffers: &mut [DeviceFeatures],
    ) -> Result<()> {
        let (before, rest) = buffers.split_at_mut(self.output);
        let Some((out, after)) = rest.split_first_mut() else {
            return refuse(format!("there is no buffer {}", self.output));
        };
        // No step writes a buffer that it reads.
        let features = |buffer: usize| match buffer.checked_sub(self.output + 1) {
            Some(place) => &after[place],
            None => &before[buffer],
        };
        let source = |place: usize| {
            let place = if place < inputs.len() { place } else { 0 };
            let Scaled { level, scale } = from[place];
            let sites = Scaled { level: &levels[level], scale };
            DeviceSource { sites, features: features(inputs[place]) }
        };
        let sources: [DeviceSource<'_>; MAX_SOURCES] = std::array::from_fn(source);
        merge.enqueue(&sources[..inputs.len()], self.num_channels, &levels[self.level], out)
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

/// The buffer of a tensor that a step reads or writes.
pub(super) fn buffer_of(plan: &Plan, tensor: usize) -> Result<usize> {
    plan.buffer_of(tensor).map_or_else(|| refuse(format!("tensor {tensor} has no buffer")), Ok)
}
