//! The plan of a network for given capacities: which rulebooks are made, what
//! is fused into one step, and which buffer holds which tensor.

mod buffers;
mod capacity;
mod fuse;

use super::operation::{Operator, Origin, SparseNetwork};
use super::refuse;
use det_post_ops::sparse::conv::ConvParameters;
use det_post_ops::sparse::merge::MAX_SOURCES;
use det_post_ops::sparse::rulebook::{Geometry, Mode, Scaled, Table};
use det_post_types::Result;

pub use capacity::Memory;

/// A network, laid out for one frame after another without allocation.
///
/// A frame goes: voxels to the sites of level 0; the sites of the other levels
/// in their order; the rulebooks; the steps; the map, where there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    network: SparseNetwork,
    capacities: Vec<usize>,
    rulebooks: Vec<PlannedRulebook>,
    steps: Vec<Step>,
    /// For each tensor its buffer; `None` for one inside a fused step.
    buffer_of: Vec<Option<usize>>,
    num_buffers: usize,
}

/// A rulebook. All convolutions and poolings that join the same levels in the
/// same way share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlannedRulebook {
    /// Index of the level of the inputs.
    pub input_level: usize,
    /// Index of the level of the outputs.
    pub output_level: usize,
    /// Which sites it joins.
    pub mode: Mode,
    /// Kernel, stride, padding, dilation.
    pub geometry: Geometry,
}

/// One launch: an operation with what is fused into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the operation that names the step and has its parameters.
    pub operation: usize,
    /// What it computes and from which tensors.
    pub kind: StepKind,
    /// Whether a ReLU ends it.
    pub relu: bool,
    /// Index of the tensor that it writes.
    pub output: usize,
}

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A convolution: products, bias, residual.
    Convolution {
        /// Index of the input tensor.
        input: usize,
        /// Index of the rulebook.
        rulebook: usize,
        /// Index of the tensor that is added, row by row.
        residual: Option<usize>,
    },
    /// A max pooling.
    MaxPool {
        /// Index of the input tensor.
        input: usize,
        /// Index of the rulebook.
        rulebook: usize,
    },
    /// A sum that no convolution can take in.
    Add {
        /// Indices of the tensors.
        inputs: [usize; 2],
    },
    /// A ReLU that no other step can take in.
    Relu {
        /// Index of the tensor.
        input: usize,
    },
    /// The merging of levels.
    Merge {
        /// Indices of the tensors, in the order of the levels.
        inputs: [Option<usize>; MAX_SOURCES],
    },
}

impl StepKind {
    /// Indices of the tensors that the step reads.
    pub fn inputs(&self) -> impl Iterator<Item = usize> {
        let inputs = match *self {
            Self::Convolution { input, residual, .. } => [Some(input), residual, None],
            Self::MaxPool { input, .. } | Self::Relu { input } => [Some(input), None, None],
            Self::Add { inputs: [a, b] } => [Some(a), Some(b), None],
            Self::Merge { inputs } => inputs,
        };
        inputs.into_iter().flatten()
    }
}

impl Plan {
    /// The largest capacity of a level: the rows that a word of a rulebook's
    /// table tells apart.
    pub const MAX_CAPACITY: usize = 1 << 29;

    /// Lays out a network for so many sites of each level. A capacity above the
    /// number of cells of a level is lowered to it.
    ///
    /// # Errors
    /// `Model` when there are not as many capacities as levels, or one is 0 or
    /// above [`Self::MAX_CAPACITY`].
    pub fn new(network: SparseNetwork, capacities: &[usize]) -> Result<Self> {
        let num_levels = network.levels.len();
        if capacities.len() != num_levels {
            return refuse(format!(
                "found {} capacities for {num_levels} levels",
                capacities.len()
            ));
        }
        for (level, &capacity) in capacities.iter().enumerate() {
            if !(1..=Self::MAX_CAPACITY).contains(&capacity) {
                let max = Self::MAX_CAPACITY;
                return refuse(format!(
                    "the capacity of sites at level {level} must be 1 to {max}, found {capacity}"
                ));
            }
        }
        let capacities = network.levels.iter().zip(capacities);
        let capacities =
            capacities.map(|(level, &capacity)| capacity.min(level.num_cells())).collect();
        let rulebooks = rulebooks(&network);
        let steps = fuse::steps(&network, &rulebooks);
        let (buffer_of, num_buffers) = buffers::assign(&network, &steps);
        Ok(Self { network, capacities, rulebooks, steps, buffer_of, num_buffers })
    }

    /// The network.
    pub fn network(&self) -> &SparseNetwork {
        &self.network
    }

    /// The most sites of each level.
    pub fn capacities(&self) -> &[usize] {
        &self.capacities
    }

    /// The rulebooks, each made once a frame.
    pub fn rulebooks(&self) -> &[PlannedRulebook] {
        &self.rulebooks
    }

    /// The steps in their order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The parameters of a step's convolution; `None` for other steps.
    pub fn parameters(&self, step: &Step) -> Option<ConvParameters<'_>> {
        let operation = &self.network.operations[step.operation];
        let Operator::Convolution(convolution) = &operation.operator else { return None };
        let num_inputs = self.network.tensors[convolution.input].channels;
        let num_outputs = self.network.tensors[operation.output].channels;
        let sizes = [num_outputs, convolution.geometry.num_taps(), num_inputs];
        ConvParameters::new(sizes, &convolution.weight, convolution.bias.as_deref()).ok()
    }

    /// The levels that a step merges; none for other steps.
    pub fn merged(&self, step: &Step) -> impl Iterator<Item = Scaled<usize>> + use<> {
        let level = self.network.tensors[step.output].level;
        let from = match (&self.network.levels[level].origin, step.kind) {
            (Origin::Merged { from }, StepKind::Merge { .. }) => *from,
            _ => [None; MAX_SOURCES],
        };
        from.into_iter().flatten()
    }

    /// The buffer that holds a tensor; `None` for a tensor inside a fused step.
    /// Tensor 0, the voxel features, the map's input and outputs on sites have one.
    pub fn buffer_of(&self, tensor: usize) -> Option<usize> {
        self.buffer_of[tensor]
    }

    /// Number of buffers.
    pub fn num_buffers(&self) -> usize {
        self.num_buffers
    }

    /// The largest `capacity · row_len(channels)` of the tensors of a buffer:
    /// the values that it has to hold when rows of that many channels take
    /// `row_len(channels)` values.
    pub fn buffer_len(&self, buffer: usize, row_len: impl Fn(usize) -> usize) -> usize {
        let tensors = self.network.tensors.iter().zip(&self.buffer_of);
        let held = tensors.filter(|(_, of)| **of == Some(buffer));
        held.map(|(tensor, _)| self.capacities[tensor.level] * row_len(tensor.channels))
            .max()
            .unwrap_or(0)
    }
}

/// The rulebooks of a network in the order in which they are first needed.
fn rulebooks(network: &SparseNetwork) -> Vec<PlannedRulebook> {
    let mut rulebooks = Vec::new();
    for operation in &network.operations {
        let Some(rulebook) = rulebook_of(network, operation.output, &operation.operator) else {
            continue;
        };
        if !rulebooks.contains(&rulebook) {
            rulebooks.push(rulebook);
        }
    }
    rulebooks
}

fn rulebook_of(
    network: &SparseNetwork,
    output: usize,
    operator: &Operator,
) -> Option<PlannedRulebook> {
    let (input, mode, geometry) = match operator {
        Operator::Convolution(convolution) => {
            (convolution.input, convolution.mode, convolution.geometry)
        }
        Operator::MaxPool { input, geometry } => (*input, Mode::Strided, *geometry),
        Operator::Add { .. } | Operator::Relu { .. } | Operator::Merge { .. } => return None,
    };
    let [input_level, output_level] = [input, output].map(|tensor| network.tensors[tensor].level);
    Some(PlannedRulebook { input_level, output_level, mode, geometry })
}

impl PlannedRulebook {
    /// Words of the table of each output row.
    pub fn words_per_row(&self) -> usize {
        self.geometry.num_taps() / Table::taps_per_word_of(&self.geometry, self.mode)
    }
}
