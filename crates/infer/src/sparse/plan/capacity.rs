//! Capacities of levels and the memory that they take.

use super::Plan;
use crate::sparse::operation::{Level, Origin, SparseNetwork};
use det_post_ops::sparse::rulebook::RankWord;

/// Sites of a level as a share of the voxel capacity, by the number of strided
/// levels that lead to it. Thin clouds grow most: one nuScenes sweep has 1.68,
/// 1.23, 0.64 and 0.53 times its voxels at levels 1 to 4, but few voxels; ten
/// sweeps have 1.06, 0.52, 0.20 and 0.17.
const SHARES: [f64; 5] = [1.0, 1.75, 1.25, 0.7, 0.6];

impl Level {
    /// Number of cells.
    pub fn num_cells(&self) -> usize {
        self.shape.iter().map(|&cells| cells as usize).product()
    }
}

impl SparseNetwork {
    /// The capacities of all levels that go with a capacity of `num_voxels` at
    /// level 0, where the configuration gives none. Level 0 has `num_voxels`,
    /// strided levels a share of it that clouds of driving stay below, and
    /// transposed and merged ones, and any with a stride of 1, every cell that can be reached. No level has more
    /// than its cells.
    pub fn default_capacities(&self, num_voxels: usize) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::new();
        let mut capacities: Vec<usize> = Vec::new();
        for level in &self.levels {
            let (depth, capacity) = match level.origin {
                Origin::Voxels => (0, num_voxels),
                // Sites grow by the kernel: every cell that can be reached.
                Origin::Strided { from, geometry } if geometry.stride == [1; 3] => {
                    (depths[from], capacities[from].saturating_mul(geometry.num_taps()))
                }
                Origin::Merged { from } => {
                    let levels = from.iter().flatten().map(|source| source.level);
                    let depth = levels.clone().map(|level| depths[level]).min().unwrap_or(0);
                    (depth, levels.map(|level| capacities[level]).sum())
                }
                Origin::Strided { from, .. } => {
                    let depth = depths[from] + 1;
                    let share = SHARES[depth.min(SHARES.len() - 1)];
                    (depth, (num_voxels as f64 * share).ceil() as usize)
                }
                Origin::Transposed { from, geometry } => {
                    let reached = capacities[from].saturating_mul(geometry.num_taps());
                    (depths[from].saturating_sub(1), reached)
                }
            };
            depths.push(depth);
            capacities.push(capacity.clamp(1, Plan::MAX_CAPACITY).min(level.num_cells()));
        }
        capacities
    }
}

/// The memory of a plan in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Feature buffers.
    pub features: usize,
    /// Tables of the rulebooks.
    pub tables: usize,
    /// Bitmaps with ranks and lists of sites.
    pub sites: usize,
    /// Weights and biases.
    pub weights: usize,
    /// The map.
    pub map: usize,
}

impl Memory {
    /// All of it.
    pub fn total(&self) -> usize {
        self.features + self.tables + self.sites + self.weights + self.map
    }
}

impl Plan {
    /// The memory that the plan takes when features, weights and the map have
    /// elements of `element_bytes`. Rows that an engine pads take more.
    pub fn memory(&self, element_bytes: usize) -> Memory {
        let features = (0..self.num_buffers).map(|buffer| self.buffer_len(buffer, |n| n));
        let tables = self.rulebooks.iter().map(|rulebook| {
            self.capacities[rulebook.output_level] * rulebook.words_per_row() * size_of::<u32>()
        });
        let sites = self.network.levels.iter().zip(&self.capacities).map(|(level, capacity)| {
            let words = level.num_cells().div_ceil(u32::BITS as usize);
            words * size_of::<RankWord>() + capacity * size_of::<u32>()
        });
        Memory {
            features: features.sum::<usize>() * element_bytes,
            tables: tables.sum(),
            sites: sites.sum(),
            weights: self.network.num_parameters() * element_bytes,
            map: match self.network.site_outputs.is_empty() {
                true => self.network.map_shape().iter().product::<usize>() * element_bytes,
                false => 0,
            },
        }
    }
}
