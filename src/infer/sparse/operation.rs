//! A network of sparse convolutions as a flat list of operations.
//!
//! Both file formats are read into this list, and the planner, both engines
//! and the reports work on it. It holds no rulebook, buffer or capacity; those
//! belong to the plan.
//!
//! A *level* is a set of sites on a grid. A *tensor* holds one row of channels
//! for each site of its level, in ascending order of the sites' linear indices.
//! Tensor 0 holds the features of the voxels at level 0, and operation `i`
//! writes tensor `i + 1`.

use std::sync::Arc;

use crate::ops::rulebook::Geometry;

/// A network from the features of voxels to a dense map.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseNetwork {
    /// Sets of sites. A level comes after the level that it is derived from.
    pub levels: Vec<Level>,
    /// The voxel features, then the output of each operation.
    pub tensors: Vec<SparseTensor>,
    /// The operations in an order in which every input is written before it is
    /// read.
    pub operations: Vec<Operation>,
    /// The last step: the dense map.
    pub map: ToMap,
}

/// A set of sites (active cells) of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Cells along each axis, slowest axis first: z y x, or x y z in networks
    /// that index so (see [`MapLayout`]).
    pub shape: [usize; 3],
    /// What the sites are.
    pub origin: Origin,
}

/// Which cells of a level are sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The voxels of the frame.
    Voxels,
    /// Cells that have at least one site of level `from` under the kernel.
    Strided {
        /// Index of the finer level.
        from: usize,
        /// The convolution or pooling that leads to this level.
        geometry: Geometry,
    },
    /// Cells that a site of level `from` reaches in a transposed convolution.
    Transposed {
        /// Index of the coarser level.
        from: usize,
        /// The convolution that leads to this level.
        geometry: Geometry,
    },
}

/// The level and width of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseTensor {
    /// Index of its level.
    pub level: usize,
    /// Channels of each row.
    pub channels: usize,
}

/// One step of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Name of the node in the file, or its output where it has no name.
    pub name: String,
    /// What it computes and from which tensors.
    pub operator: Operator,
    /// Index of the tensor that it writes.
    pub output: usize,
}

/// What an operation computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Operator {
    /// A convolution without activation.
    Convolution(Convolution),
    /// The sum of two tensors of one level and width.
    Add {
        /// Indices of the tensors.
        inputs: [usize; 2],
    },
    /// `max(x, 0)`; NaN stays NaN.
    Relu {
        /// Index of the tensor.
        input: usize,
    },
    /// The maximum under a kernel, channel by channel; an absent site counts
    /// as 0. Leads to a strided level.
    MaxPool {
        /// Index of the tensor.
        input: usize,
        /// Kernel, stride, padding, dilation.
        geometry: Geometry,
    },
}

/// Which sites a convolution pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// The output has the sites of the input. The geometry has stride 1, an odd
    /// kernel and the padding that centres it.
    Submanifold,
    /// The output level is [`Origin::Strided`] from the input level.
    Strided,
    /// The output level is [`Origin::Transposed`] from the input level.
    Transposed,
    /// The pairs of the strided convolution (or pooling) that leads from the
    /// output level to the input level, with the roles exchanged at the same
    /// tap number. The geometry is that convolution's.
    Inverse,
}

/// A convolution: `sum over taps k of weight[.., k, ..] · input[pair(k)]`, plus
/// the bias.
#[derive(Clone, PartialEq)]
pub struct Convolution {
    /// Index of the input tensor.
    pub input: usize,
    /// Which sites it pairs.
    pub pairing: Pairing,
    /// Kernel, stride, padding, dilation, axes as in [`Level::shape`].
    pub geometry: Geometry,
    /// Weights [out, taps, in], taps in row-major order of the kernel.
    pub weight: Arc<[f32]>,
    /// Bias [out].
    pub bias: Option<Arc<[f32]>>,
}

/// Writes a tensor to a dense map and zeros everywhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToMap {
    /// Index of the tensor.
    pub input: usize,
    /// Which axis of the grid becomes what.
    pub layout: MapLayout,
}

/// Axes of the grid in the map [1, channels · depth, rows, columns]. Channel
/// `c · depth + d` of the map holds channel `c` of the cells at depth `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapLayout {
    /// Grid z y x; rows are y, columns x.
    ZyxRowsY,
    /// Grid z y x; rows are x, columns y.
    ZyxRowsX,
    /// Grid x y z; rows are x, columns y.
    XyzRowsX,
}

impl MapLayout {
    /// Index of the grid's axis that becomes depth, rows and columns.
    pub fn axes(self) -> [usize; 3] {
        match self {
            Self::ZyxRowsY => [0, 1, 2],
            Self::ZyxRowsX => [0, 2, 1],
            Self::XyzRowsX => [2, 0, 1],
        }
    }
}

impl SparseNetwork {
    /// Channels of the voxel features.
    pub fn input_channels(&self) -> usize {
        self.tensors[0].channels
    }

    /// Shape of the map: [1, channels · depth, rows, columns].
    pub fn map_shape(&self) -> [usize; 4] {
        let SparseTensor { level, channels } = self.tensors[self.map.input];
        let [depth, rows, columns] = self.map.layout.axes().map(|axis| self.levels[level].shape[axis]);
        [1, channels * depth, rows, columns]
    }

    /// Number of weights and biases, each shared array counted once.
    pub fn num_parameters(&self) -> usize {
        let mut counted: Vec<*const f32> = Vec::new();
        let mut num = 0;
        for operation in &self.operations {
            let Operator::Convolution(convolution) = &operation.operator else { continue };
            for values in [Some(&convolution.weight), convolution.bias.as_ref()].into_iter().flatten() {
                if !counted.contains(&values.as_ptr()) {
                    counted.push(values.as_ptr());
                    num += values.len();
                }
            }
        }
        num
    }
}

impl Operator {
    /// Indices of the tensors that it reads.
    pub fn inputs(&self) -> impl Iterator<Item = usize> {
        let [first, second] = match *self {
            Self::Convolution(Convolution { input, .. })
            | Self::Relu { input }
            | Self::MaxPool { input, .. } => [Some(input), None],
            Self::Add { inputs: [a, b] } => [Some(a), Some(b)],
        };
        first.into_iter().chain(second)
    }
}

impl std::fmt::Debug for Convolution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Convolution")
            .field("input", &self.input)
            .field("pairing", &self.pairing)
            .field("geometry", &self.geometry)
            .field("num_weights", &self.weight.len())
            .field("has_bias", &self.bias.is_some())
            .finish()
    }
}
