//! The tiles of the kernels whose sums are in the order of the contract.

use super::job::Job;
use super::tiling::{Limits, num_tiles, tile_x_log2};
use crate::device::cuda::kernel_constant;

pub(super) const DEPTHWISE_THREADS: u32 =
    kernel_constant!("dense/conv_exact.cuh", "kDepthwiseThreads");

/// The tile of a kernel: the arguments of `ExactShape` in kernels/dense/conv_exact.cuh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExactTiling {
    pub(super) name: &'static str,
    pub(super) pixels: u32,
    pub(super) columns: u32,
    /// Rows of a thread.
    rows: u32,
}

/// The kernels of kernels/dense/conv.cu, in its order.
pub(super) const TILINGS: [ExactTiling; 3] = [
    ExactTiling { name: "dense_conv_exact_64x64", pixels: 64, columns: 64, rows: 8 },
    ExactTiling { name: "dense_conv_exact_32x32", pixels: 32, columns: 32, rows: 4 },
    ExactTiling { name: "dense_conv_exact_64x16", pixels: 64, columns: 16, rows: 4 },
];

impl ExactTiling {
    pub(super) fn threads_per_block(&self) -> u32 {
        self.columns / 4 * (self.pixels / self.rows)
    }
}

/// What a tiling makes of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExactLayout {
    pub(super) index: usize,
    pub(super) column_blocks: u32,
    pub(super) tiles: [u32; 2],
    pub(super) tile_x_log2: u32,
}

impl ExactLayout {
    fn new(job: &Job, index: usize) -> Self {
        let tiling = &TILINGS[index];
        let log2 = tile_x_log2(job, tiling.pixels, |_| 0);
        Self {
            index,
            column_blocks: job.columns().div_ceil(tiling.columns),
            tiles: num_tiles(job, tiling.pixels, log2),
            tile_x_log2: log2,
        }
    }

    pub(super) fn num_blocks(&self, job: &Job) -> [u32; 2] {
        [job.items * self.tiles[0] * self.tiles[1], self.column_blocks * job.groups]
    }

    /// Cycles by products, of which a multiprocessor computes 128 each at most.
    fn num_cycles(&self, job: &Job, limits: Limits) -> u64 {
        let tiling = &TILINGS[self.index];
        let blocks: u32 = self.num_blocks(job).iter().product();
        let products = u64::from(job.kernel[0] * job.kernel[1] * job.inputs)
            * u64::from(tiling.pixels * tiling.columns);
        // A thread of 8 rows loads fewer factors for a product than one of 4.
        let percent = if tiling.rows == 8 { 60 } else { 45 };
        u64::from(blocks.div_ceil(limits.num_multiprocessors)) * products * 100 / percent
    }
}

/// All layouts, best first.
pub(super) fn layouts(job: &Job, limits: Limits) -> Vec<ExactLayout> {
    let layouts = (0..TILINGS.len()).map(|index| ExactLayout::new(job, index));
    let mut layouts: Vec<_> = layouts.collect();
    layouts.sort_by_key(|layout| layout.num_cycles(job, limits));
    layouts
}
