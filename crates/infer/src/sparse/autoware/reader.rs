//! What is known of a file while its nodes are interpreted.

use std::collections::HashMap;

use super::super::builder::NetworkBuilder;
use super::super::constants::Constants;
use super::super::operation::GridAxes;
use super::super::refuse;
use crate::onnx::{Graph, Node, Source};
use det_post_ops::sparse::rulebook::{Geometry, Mode};
use det_post_types::Result;

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

/// What a tensor of the file is.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Points of voxels [voxels, points, channels].
    Points { channels: usize },
    /// Points of each voxel `[voxels]`.
    Counts,
    /// Sums over the points of each voxel [voxels, channels].
    PointSums { channels: usize },
    /// Features of the voxels.
    Features { channels: usize },
    /// Coordinates [sites, columns].
    Indices { of: Sites, columns: Vec<Column> },
    /// A column of coordinates `[sites]`.
    Column { of: Sites, column: Column },
    /// Linear indices `[sites]`: the sum of the columns (batch, axes) times these.
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

/// The map of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map<'a> {
    pub(super) name: &'a str,
    pub(super) tensor: usize,
    pub(super) axes: [usize; 3],
}

/// The state of reading a file.
pub(super) struct Reader<'g, 'a> {
    pub(super) graph: &'g Graph<'a>,
    pub(super) builder: NetworkBuilder,
    pub(super) constants: Constants<'g, 'a>,
    pub(super) values: HashMap<&'a str, Value>,
    pub(super) rulebooks: Vec<Rulebook>,
    pub(super) axes: Option<GridAxes>,
    pub(super) map: Option<Map<'a>>,
}

impl<'a> Reader<'_, 'a> {
    /// An error about an input that has to be `expected`. It names the node from
    /// which on the file is not understood.
    pub(super) fn not_understood<T>(
        &self,
        node: &Node<'_>,
        name: &str,
        expected: &str,
    ) -> Result<T> {
        let found = match self.graph.source(name) {
            Some(Source::Node(at)) => {
                let first = self.first_unknown(at);
                format!("is not understood as {expected}, from {} on", self.graph.nodes[first])
            }
            Some(Source::Input(_)) => format!("is an input of the graph, not {expected}"),
            Some(Source::Initializer(_)) => format!("is a constant, not {expected}"),
            None => "is not in the file".into(),
        };
        refuse(format!("{node}: input {name} {found}"))
    }

    /// The node that a node with unknown outputs goes back to: all of its inputs
    /// are known.
    fn first_unknown(&self, mut node: usize) -> usize {
        let unknown_input = |node: usize| {
            self.graph.nodes[node].inputs.iter().find_map(|&input| {
                match self.graph.source(input)? {
                    // A node stands before those that read its outputs.
                    Source::Node(at) if at < node && !self.values.contains_key(input) => Some(at),
                    _ => None,
                }
            })
        };
        while let Some(earlier) = unknown_input(node) {
            node = earlier;
        }
        node
    }

    /// A node that no rule knows: its outputs are unknown.
    ///
    /// # Errors
    /// When it reads features of sites, which would be lost.
    pub(super) fn unknown(&self, node: &Node<'_>) -> Result<()> {
        let reads_features = |name: &&&str| {
            matches!(
                self.values.get(**name),
                Some(Value::Sparse(_) | Value::Rows(_) | Value::Dense { .. })
            )
        };
        match node.inputs.iter().find(reads_features) {
            Some(name) if !["Shape", "Size"].contains(&node.operator) => refuse(format!(
                "{node}: it reads {name}, which holds features of sites, in a way that is not \
                 understood"
            )),
            _ => Ok(()),
        }
    }
}
