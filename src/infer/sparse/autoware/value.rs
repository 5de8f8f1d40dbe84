//! What the tensors of Autoware's files stand for.

use super::super::operation::GridAxes;
use crate::ops::rulebook::{Geometry, Mode};

/// What a tensor of the file is.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Points of voxels [voxels, points, channels].
    Points { channels: usize },
    /// Points of each voxel [voxels].
    Counts,
    /// Sums over the points of each voxel [voxels, channels].
    PointSums { channels: usize },
    /// Features of the voxels.
    Features { channels: usize },
    /// Coordinates [sites, columns].
    Indices { of: Sites, columns: Vec<Column> },
    /// A column of coordinates [sites].
    Column { of: Sites, column: Column },
    /// Linear indices [sites]: the sum of the columns (batch, axes) times these.
    LinearIndex { of: Sites, strides: [i64; 4] },
    /// Zeros of a shape that is known only where it is constant.
    Zeros { dims: Option<Vec<i64>> },
    /// An output of a node that makes a rulebook: which rulebook and output.
    Rulebook { rulebook: usize, output: usize },
    /// Features of sites.
    Sparse(usize),
    /// A dense tensor [cells, channels], cells in row-major order of the grid.
    Rows(usize),
    /// A dense tensor; `order` are the dimensions of [batch, channels, grid]
    /// that stand at each place.
    Dense { tensor: usize, order: [usize; 5] },
}

/// Whose coordinates a tensor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sites {
    /// The graph's input: the axes are z y x, whatever the grid's.
    Input,
    /// A level: the axes are the grid's.
    Level(usize),
}

/// A column of coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// The number of the scene, which is 0.
    Batch,
    /// An axis: of z y x in the graph's input, else of the grid.
    Axis(usize),
}

impl Column {
    /// The batch, then the axes in their order.
    pub(super) const IN_ORDER: [Self; 4] =
        [Self::Batch, Self::Axis(0), Self::Axis(1), Self::Axis(2)];

    /// What the axes of the grid are, from columns of the graph's input.
    pub(super) fn grid_axes(columns: &[Self]) -> Option<GridAxes> {
        let [Self::Batch, Self::Axis(a), Self::Axis(b), Self::Axis(c)] = *columns else {
            return None;
        };
        GridAxes::ALL.into_iter().find(|axes| axes.of_zyx() == [a, b, c])
    }
}

/// A rulebook of the file.
#[derive(Clone, Debug)]
pub(super) struct Rulebook {
    /// The node that makes it, or the name of the inputs.
    pub(super) name: String,
    /// Levels of its inputs and outputs.
    pub(super) levels: [usize; 2],
    pub(super) mode: Mode,
    pub(super) geometry: Geometry,
    pub(super) output_padding: [u32; 3],
}

/// The map of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map<'a> {
    /// Name of the tensor in the file.
    pub(super) name: &'a str,
    /// Index of the tensor that is scattered.
    pub(super) tensor: usize,
    /// The axes of the grid that become depth, rows and columns.
    pub(super) axes: [usize; 3],
}
