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

use det_post_ops::sparse::merge::MAX_SOURCES;
use det_post_ops::sparse::rulebook::{Geometry, Mode, Scaled};
use det_post_types::{Dim, ElementType, TensorSpec};

/// A network from the features of voxels to a dense map, or to features of sites on a plane.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseNetwork {
    /// What the axes of the grid are.
    pub axes: GridAxes,
    /// Sets of sites. A level comes after the level that it is derived from.
    pub levels: Vec<Level>,
    /// The voxel features, then the output of each operation.
    pub tensors: Vec<SparseTensor>,
    /// The operations in an order in which every input is written before it is
    /// read.
    pub operations: Vec<Operation>,
    /// The last step: the dense map. Of a network that ends on sites: its first output, whose map
    /// is not made.
    pub map: ToMap,
    /// Of a network that ends on sites its outputs, all of one level, which is a plane of rows
    /// and columns. None: the network ends in the map.
    pub site_outputs: Vec<SiteOutput>,
}

/// A tensor that is an output of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteOutput {
    /// Its name in the file.
    pub name: String,
    /// Index of the tensor.
    pub tensor: usize,
}

/// Levels that are merged, in the order of their sums, each with its scale.
pub type MergedLevels = [Option<Scaled<usize>>; MAX_SOURCES];

/// A set of sites (active cells) of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Cells along each axis of the grid, slowest axis first.
    pub shape: [u32; 3],
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
    /// Cells of a plane that are under sites of levels.
    Merged {
        /// The finer levels.
        from: MergedLevels,
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

/// The levels that are merged among `levels`, with their number; those beyond repeat the first.
pub(super) fn merged<'a, S>(
    from: &MergedLevels,
    levels: &'a [S],
) -> ([Scaled<&'a S>; MAX_SOURCES], usize) {
    let at = |place: usize| {
        // A merged level has at least one source.
        let source = from[place].or(from[0]).unwrap_or(Scaled { level: 0, scale: 1 });
        Scaled { level: &levels[source.level], scale: source.scale }
    };
    (std::array::from_fn(at), from.iter().flatten().count())
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
    /// The sums of the features above each site of a merged level.
    Merge {
        /// Indices of the tensors, in the order of the levels.
        inputs: [Option<usize>; MAX_SOURCES],
    },
}

/// A convolution: `sum over taps k of weight[.., k, ..] · input[pair(k)]`, plus
/// the bias.
#[derive(Clone, PartialEq)]
pub struct Convolution {
    /// Index of the input tensor.
    pub input: usize,
    /// Which sites it joins. Submanifold: both levels are one. Strided or
    /// transposed: the output level has that origin. Inverse: the input level is
    /// strided from the output level.
    pub mode: Mode,
    /// Kernel, stride, padding, dilation; of an inverse convolution those of the
    /// convolution that it inverts.
    pub geometry: Geometry,
    /// Weights [out, taps, in], taps in row-major order of the kernel.
    pub weight: Arc<[f32]>,
    /// Bias `[out]`.
    pub bias: Option<Arc<[f32]>>,
}

/// Writes a tensor to a dense map and zeros everywhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToMap {
    /// Index of the tensor.
    pub input: usize,
    /// The axes of the grid that become depth, rows and columns of the map
    /// [1, channels · depth, rows, columns]: channel `c · depth + d` of the map
    /// holds channel `c` of the cells at depth `d`.
    pub axes: [usize; 3],
}

/// What the axes of a network's grid are, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GridAxes {
    /// z y x: OpenPCDet, det3d, mmdet3d.
    Zyx,
    /// x y z: BEVFusion.
    Xyz,
    /// y x z: encoders of autoware-ml.
    Yxz,
}

impl GridAxes {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Zyx, Self::Xyz, Self::Yxz];

    /// For each axis of the grid its place in (z, y, x).
    pub fn of_zyx(self) -> [usize; 3] {
        match self {
            Self::Zyx => [0, 1, 2],
            Self::Xyz => [2, 1, 0],
            Self::Yxz => [1, 2, 0],
        }
    }
}

impl std::fmt::Display for GridAxes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Zyx => "z y x",
            Self::Xyz => "x y z",
            Self::Yxz => "y x z",
        })
    }
}

impl SparseNetwork {
    /// The most values of a map: 1 GiB of f32.
    pub const MAX_MAP_VALUES: usize = 1 << 28;

    /// Channels of the voxel features.
    pub fn input_channels(&self) -> usize {
        self.tensors[0].channels
    }

    /// The tensors that its last steps read or give.
    pub fn ends(&self) -> impl Iterator<Item = usize> {
        let outputs = self.site_outputs.iter().map(|output| output.tensor);
        std::iter::once(self.map.input).chain(outputs)
    }

    /// The outputs on sites as tensors `[sites, channels]`; none of a network that ends in a map.
    pub fn site_specs(&self) -> Vec<TensorSpec> {
        let spec = |output: &SiteOutput| TensorSpec {
            name: output.name.clone(),
            element: Some(ElementType::F32),
            shape: Some(vec![Dim::Dynamic, Dim::Fixed(self.tensors[output.tensor].channels)]),
        };
        self.site_outputs.iter().map(spec).collect()
    }

    /// Index of the level of the map, or of the outputs on sites.
    pub fn last_level(&self) -> usize {
        self.tensors[self.map.input].level
    }

    /// Shape of the map: [1, channels · depth, rows, columns].
    pub fn map_shape(&self) -> [usize; 4] {
        let SparseTensor { level, channels } = self.tensors[self.map.input];
        let shape = self.levels[level].shape;
        let [depth, rows, columns] = self.map.axes.map(|axis| shape[axis] as usize);
        [1, channels * depth, rows, columns]
    }

    /// Number of weights and biases, each shared array counted once.
    pub fn num_parameters(&self) -> usize {
        let mut counted: Vec<*const f32> = Vec::new();
        let mut num = 0;
        for operation in &self.operations {
            let Operator::Convolution(convolution) = &operation.operator else { continue };
            for values in
                [Some(&convolution.weight), convolution.bias.as_ref()].into_iter().flatten()
            {
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
        let inputs = match *self {
            Self::Convolution(Convolution { input, .. })
            | Self::Relu { input }
            | Self::MaxPool { input, .. } => [Some(input), None, None],
            Self::Add { inputs: [a, b] } => [Some(a), Some(b), None],
            Self::Merge { inputs } => inputs,
        };
        inputs.into_iter().flatten()
    }
}

impl std::fmt::Debug for Convolution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Convolution")
            .field("input", &self.input)
            .field("mode", &self.mode)
            .field("geometry", &self.geometry)
            .field("num_weights", &self.weight.len())
            .field("has_bias", &self.bias.is_some())
            .finish()
    }
}
