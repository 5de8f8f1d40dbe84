//! Building a [`SparseNetwork`] operation by operation, each one checked.

use std::sync::Arc;

use super::operation::{
    Convolution, GridAxes, Level, Operation, Operator, Origin, SparseNetwork, SparseTensor, ToMap,
};
use det_post_ops::sparse::conv::ConvParameters;
use det_post_ops::sparse::rulebook::{Geometry, Mode, SiteGrid};
use det_post_types::{Error, ErrorKind, Result};

const STAGE: &str = "sparse_network";

/// The most operations of a network.
const MAX_OPERATIONS: usize = 1024;

/// The most levels of a network.
const MAX_LEVELS: usize = 64;

/// The most weights that batch normalization is folded into.
const MAX_FOLDED: usize = 1 << 26;

/// Adds operations to a network. Tensors are known by the index that the
/// operation which writes them returned; 0 is the voxel features.
///
/// Errors have the kind `Model` and name the operation.
#[derive(Clone, Debug)]
pub struct NetworkBuilder {
    pub(super) levels: Vec<Level>,
    pub(super) tensors: Vec<SparseTensor>,
    pub(super) operations: Vec<Operation>,
    num_folded: usize,
}

/// The parameters of a convolution, with batch normalization folded in.
#[derive(Clone, Debug)]
pub struct Weights {
    /// Channels of the output.
    pub num_outputs: usize,
    /// [out, taps, in], taps in row-major order of the kernel.
    pub weight: Arc<[f32]>,
    /// `[out]`; zero where absent.
    pub bias: Option<Arc<[f32]>>,
}

impl NetworkBuilder {
    /// A network on a grid of `shape` cells, whose voxels have `channels`
    /// features.
    ///
    /// # Errors
    /// When the grid has no cell or too many ([`SiteGrid::new`]), or there are
    /// no channels or too many.
    pub fn new(shape: [u32; 3], channels: usize) -> Result<Self> {
        check_grid("input", shape)?;
        if !(1..=ConvParameters::MAX_CHANNELS).contains(&channels) {
            let max = ConvParameters::MAX_CHANNELS;
            return refuse("input", &format!("must have 1 to {max} channels, found {channels}"));
        }
        Ok(Self {
            levels: vec![Level { shape, origin: Origin::Voxels }],
            tensors: vec![SparseTensor { level: 0, channels }],
            operations: Vec::new(),
            num_folded: 0,
        })
    }

    /// A level.
    pub fn level(&self, level: usize) -> &Level {
        &self.levels[level]
    }

    /// The level of a tensor.
    pub fn level_of(&self, tensor: usize) -> &Level {
        &self.levels[self.tensors[tensor].level]
    }

    /// Channels of a tensor.
    pub fn channels_of(&self, tensor: usize) -> usize {
        self.tensors[tensor].channels
    }

    /// Index of the level of a tensor.
    pub fn level_index_of(&self, tensor: usize) -> usize {
        self.tensors[tensor].level
    }

    /// Adds a submanifold convolution with an odd kernel.
    ///
    /// # Errors
    /// When the geometry or the number of weights is wrong.
    pub fn submanifold(
        &mut self,
        name: &str,
        input: usize,
        kernel: [u32; 3],
        dilation: [u32; 3],
        weights: Weights,
    ) -> Result<usize> {
        let geometry = Geometry { dilation, ..Geometry::submanifold(kernel) };
        named(name, geometry.check(Mode::Submanifold))?;
        let level = self.tensors[input].level;
        self.convolution(name, (input, level), Mode::Submanifold, geometry, weights)
    }

    /// Adds a strided convolution. One of a single tap that neither moves nor
    /// drops a cell becomes a submanifold one, which has the same output.
    ///
    /// # Errors
    /// When the geometry or the number of weights is wrong.
    pub fn strided(
        &mut self,
        name: &str,
        input: usize,
        geometry: Geometry,
        weights: Weights,
    ) -> Result<usize> {
        if keeps_sites(&geometry) {
            return self.submanifold(name, input, [1; 3], [1; 3], weights);
        }
        let level = self.strided_level(name, self.tensors[input].level, geometry)?;
        self.convolution(name, (input, level), Mode::Strided, geometry, weights)
    }

    /// Adds a transposed convolution, which opens a level of its own.
    ///
    /// # Errors
    /// When the geometry or the number of weights is wrong.
    pub fn transposed(
        &mut self,
        name: &str,
        input: usize,
        geometry: Geometry,
        output_padding: [u32; 3],
        weights: Weights,
    ) -> Result<usize> {
        let from = self.tensors[input].level;
        let level = self.transposed_level(name, from, geometry, output_padding)?;
        self.convolution(name, (input, level), Mode::Transposed, geometry, weights)
    }

    /// Adds an inverse convolution: back from a strided level to the level that
    /// it is derived from.
    ///
    /// # Errors
    /// When the input is not at a strided level, or the number of weights is
    /// wrong.
    pub fn inverse(&mut self, name: &str, input: usize, weights: Weights) -> Result<usize> {
        match self.level_of(input).origin {
            Origin::Strided { from, geometry } => {
                self.convolution(name, (input, from), Mode::Inverse, geometry, weights)
            }
            _ => refuse(name, "its input does not come from a strided convolution"),
        }
    }

    /// Adds the sum of two tensors.
    ///
    /// # Errors
    /// When they differ in level or channels.
    pub fn add(&mut self, name: &str, inputs: [usize; 2]) -> Result<usize> {
        let [a, b] = inputs;
        if self.tensors[a] != self.tensors[b] {
            let shown = |tensor: usize| {
                let SparseTensor { level, channels } = self.tensors[tensor];
                let shape = self.levels[level].shape;
                let operation = tensor.checked_sub(1).map(|at| self.operations[at].name.as_str());
                let from = operation.unwrap_or("input");
                format!("{from} ({channels} channels at level {level} {shape:?})")
            };
            return refuse(
                name,
                &format!("the terms of a sum do not match: {} and {}", shown(a), shown(b)),
            );
        }
        self.push(name, Operator::Add { inputs }, self.tensors[a])
    }

    /// Adds a ReLU.
    ///
    /// # Errors
    /// When there are too many operations.
    pub fn relu(&mut self, name: &str, input: usize) -> Result<usize> {
        self.push(name, Operator::Relu { input }, self.tensors[input])
    }

    /// Adds a max pooling.
    ///
    /// # Errors
    /// When the geometry is wrong.
    pub fn max_pool(&mut self, name: &str, input: usize, geometry: Geometry) -> Result<usize> {
        let level = self.strided_level(name, self.tensors[input].level, geometry)?;
        let channels = self.tensors[input].channels;
        self.push(name, Operator::MaxPool { input, geometry }, SparseTensor { level, channels })
    }

    /// The network that writes a tensor to the map; `map_axes` are the axes of
    /// the grid that become its depth, rows and columns.
    ///
    /// # Errors
    /// When `map_axes` is no permutation, levels are merged and the axes are not z y x, the map
    /// has too many cells, or the output of an operation is not used.
    pub fn finish(
        self,
        input: usize,
        axes: GridAxes,
        map_axes: [usize; 3],
    ) -> Result<SparseNetwork> {
        if (0..3).any(|axis| !map_axes.contains(&axis)) {
            return refuse("map", &format!("axes {map_axes:?} are no permutation"));
        }
        self.check_used(&[input])?;
        let is_merged = |level: &Level| matches!(level.origin, Origin::Merged { .. });
        if axes != GridAxes::Zyx && self.levels.iter().any(is_merged) {
            return refuse("map", &format!("axes {axes}; levels are merged along z of z y x"));
        }
        let Self { levels, tensors, operations, .. } = self;
        let map = ToMap { input, axes: map_axes };
        let site_outputs = Vec::new();
        let network = SparseNetwork { axes, levels, tensors, operations, map, site_outputs };
        let num_values = network.map_shape().iter().try_fold(1_usize, |product, &dim| {
            product.checked_mul(dim).filter(|&num| num <= SparseNetwork::MAX_MAP_VALUES)
        });
        match num_values {
            Some(_) => Ok(network),
            None => refuse(
                "map",
                &format!(
                    "a map of {:?} is larger than {} values",
                    network.map_shape(),
                    SparseNetwork::MAX_MAP_VALUES
                ),
            ),
        }
    }

    /// Refuses operations whose output is neither read nor among `outputs`.
    pub(super) fn check_used(&self, outputs: &[usize]) -> Result<()> {
        let mut is_used = vec![false; self.tensors.len()];
        let read = self.operations.iter().flat_map(|operation| operation.operator.inputs());
        for tensor in outputs.iter().copied().chain(read) {
            is_used[tensor] = true;
        }
        match is_used.iter().position(|is_used| !is_used) {
            Some(0) => refuse("input", "it is not used"),
            Some(tensor) => refuse(&self.operations[tensor - 1].name, "its output is not used"),
            None => Ok(()),
        }
    }

    /// The level that a strided convolution leads to.
    pub(super) fn strided_level(
        &mut self,
        name: &str,
        from: usize,
        geometry: Geometry,
    ) -> Result<usize> {
        if keeps_sites(&geometry) {
            return Ok(from);
        }
        let shape = named(name, geometry.strided_shape(self.levels[from].shape))?;
        self.derive(name, Level { shape, origin: Origin::Strided { from, geometry } })
    }

    /// The level that a transposed convolution leads to.
    pub(super) fn transposed_level(
        &mut self,
        name: &str,
        from: usize,
        geometry: Geometry,
        output_padding: [u32; 3],
    ) -> Result<usize> {
        let shape = geometry.transposed_shape(self.levels[from].shape, output_padding);
        let shape = named(name, shape)?;
        self.derive(name, Level { shape, origin: Origin::Transposed { from, geometry } })
    }

    /// The index of a level: equal ones are one.
    pub(super) fn derive(&mut self, name: &str, level: Level) -> Result<usize> {
        if let Some(known) = self.levels.iter().position(|known| *known == level) {
            return Ok(known);
        }
        check_grid(name, level.shape)?;
        if self.levels.len() == MAX_LEVELS {
            return refuse(name, &format!("the network exceeds the limit of {MAX_LEVELS} levels"));
        }
        self.levels.push(level);
        Ok(self.levels.len() - 1)
    }

    /// Folds `scale · x + shift`, per channel, into the convolution that writes
    /// a tensor, in f64 with one rounding.
    ///
    /// # Errors
    /// When no convolution writes the tensor, something reads it already, or
    /// the result is not finite.
    pub(super) fn fold(
        &mut self,
        name: &str,
        tensor: usize,
        scale: &[f64],
        shift: &[f64],
    ) -> Result<()> {
        let mut operators = self.operations.iter().map(|operation| &operation.operator);
        if operators.any(|operator| operator.inputs().any(|input| input == tensor)) {
            return refuse(name, "its input has another reader");
        }
        let operation = tensor.checked_sub(1).and_then(|at| self.operations.get_mut(at));
        let Some(Operator::Convolution(convolution)) =
            operation.map(|operation| &mut operation.operator)
        else {
            return refuse(name, "its input is not written by a convolution");
        };
        let bias = convolution.bias.as_deref();
        let bias: Vec<f32> = (0..scale.len())
            .map(|c| bias.map_or(0.0, |bias| f64::from(bias[c])) * scale[c] + shift[c])
            .map(|bias| bias as f32)
            .collect();
        let is_scaled = scale.iter().any(|&scale| scale != 1.0);
        if is_scaled {
            self.num_folded += convolution.weight.len();
            if self.num_folded > MAX_FOLDED {
                return refuse(
                    name,
                    &format!("normalizations fold more than {MAX_FOLDED} weights"),
                );
            }
            let per_channel = convolution.weight.len() / scale.len();
            let weights = convolution.weight.iter().enumerate();
            convolution.weight = weights
                .map(|(at, &weight)| (f64::from(weight) * scale[at / per_channel]) as f32)
                .collect();
        }
        let scaled = if is_scaled { &convolution.weight[..] } else { &[] };
        if scaled.iter().chain(&bias).any(|value| !value.is_finite()) {
            return refuse(name, "weights that are not finite when it is folded into them");
        }
        convolution.bias = Some(bias.into());
        Ok(())
    }

    fn convolution(
        &mut self,
        name: &str,
        (input, level): (usize, usize),
        mode: Mode,
        geometry: Geometry,
        weights: Weights,
    ) -> Result<usize> {
        let Weights { num_outputs, weight, bias } = weights;
        let sizes = [num_outputs, geometry.num_taps(), self.tensors[input].channels];
        named(name, ConvParameters::new(sizes, &weight, bias.as_deref()))?;
        let operator = Operator::Convolution(Convolution { input, mode, geometry, weight, bias });
        self.push(name, operator, SparseTensor { level, channels: num_outputs })
    }

    pub(super) fn push(
        &mut self,
        name: &str,
        operator: Operator,
        tensor: SparseTensor,
    ) -> Result<usize> {
        if self.operations.len() == MAX_OPERATIONS {
            return refuse(
                name,
                &format!("the network exceeds the limit of {MAX_OPERATIONS} operations"),
            );
        }
        let output = self.tensors.len();
        self.tensors.push(tensor);
        self.operations.push(Operation { name: name.to_owned(), operator, output });
        Ok(output)
    }
}

/// Whether a strided convolution has the sites of its input and one tap.
fn keeps_sites(geometry: &Geometry) -> bool {
    geometry.num_taps() == 1 && geometry.stride == [1; 3] && geometry.padding == [0; 3]
}

pub(super) fn check_grid(name: &str, shape: [u32; 3]) -> Result<()> {
    named(name, SiteGrid::new(1, shape)).map(drop)
}

/// A result of an operation's own contract, with the name of the node.
pub(super) fn named<T>(name: &str, result: Result<T>) -> Result<T> {
    result.or_else(|error| refuse(name, error.message()))
}

pub(super) fn refuse<T>(name: &str, message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, format!("{name}: {message}")))
}
