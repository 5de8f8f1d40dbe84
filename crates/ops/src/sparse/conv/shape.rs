//! What the kernels of convolutions are compiled for, and what a launch of each takes.

use crate::device::cuda::kernel_constant;

/// Threads per block of kernels with matrix instructions.
const THREADS_PER_BLOCK: u32 = kernel_constant!("sparse/conv_tiles.cuh", "kThreads");
/// Threads per block of f32 kernels.
const F32_THREADS_PER_BLOCK: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32Threads");
/// Taps of the weights that a staged kernel has in shared memory at once.
const STAGES: u32 = kernel_constant!("sparse/conv_staged.cuh", "kStages");
/// Bytes of a row that a step of a warpgroup kernel multiplies.
pub const WARPGROUP_STEP_BYTES: u32 =
    kernel_constant!("sparse/conv_warpgroup.cuh", "kWarpgroupStepBytes");
/// Warpgroups of a block and steps in shared memory, for 64 output channels and for 128.
const WARPGROUPS: [[u32; 2]; 2] = [
    [
        kernel_constant!("sparse/conv_warpgroup.cuh", "kWarpgroups64"),
        kernel_constant!("sparse/conv_warpgroup.cuh", "kWarpgroupStages64"),
    ],
    [
        kernel_constant!("sparse/conv_warpgroup.cuh", "kWarpgroups128"),
        kernel_constant!("sparse/conv_warpgroup.cuh", "kWarpgroupStages128"),
    ],
];
const WARPGROUP_THREADS: u32 = kernel_constant!("sparse/conv_warpgroup.cuh", "kWarpgroupLanes");
/// Stages of an f32 kernel, their input channels for up to 32 output channels and for more, and
/// the values between the channels of two pairs.
const F32_STAGES: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32Stages");
const F32_NARROW_DEPTH: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32NarrowDepth");
const F32_DEPTH: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32Depth");
const F32_PADDING: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32Padding");
/// Sums in the registers of an f32 block, for 16 output channels and for more.
const F32_NARROW_SUMS: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32NarrowSums");
const F32_SUMS: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32Sums");
/// Blocks per multiprocessor for 16 output channels.
const F32_NARROW_BLOCKS: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32NarrowBlocks");
/// Words per row whose pairs an f32 kernel lists at once, and their taps at most.
const F32_BATCH: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32Batch");
const F32_BATCH_TAPS: u32 = kernel_constant!("sparse/conv_exact.cuh", "kF32BatchTaps");
/// The rows of an f32 block are a multiple of this, the pairs that a warp reads side by side at
/// most: it reads none beyond those of a stage.
const F32_ROW_MULTIPLE: u32 = 16;
/// Input channels of f32 weights are padded to a multiple of this.
pub const F32_INPUT_MULTIPLE: u32 = 8;
/// Bytes of shared memory that the driver takes for each block (1024), and more than an f32
/// kernel declares.
const OTHER_SHARED_BYTES: u32 = 1280;
/// Taps of which a warp has the rows in shared memory at once.
const BATCH_TAPS: u32 = kernel_constant!("sparse/conv.cuh", "kBatchTaps");
const WARPS_PER_BLOCK: u32 = THREADS_PER_BLOCK / 32;

/// How a kernel goes through the taps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// All weights in shared memory.
    Resident,
    /// Some taps of the weights in shared memory.
    Staged,
    /// Matrix instructions of warpgroups, which read the weights from shared memory.
    Warpgroup,
    /// f32 in the order of the CPU.
    Exact,
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// How it goes through the taps.
    pub method: Method,
    /// Bytes of a value of the features and the weights.
    pub element_bytes: u32,
    /// Output channels of a block.
    pub channels: u32,
    /// Bytes of a row that a step loads.
    pub chunk_bytes: u32,
}

impl Shape {
    /// Bytes of the weights of a tap that a block reads.
    pub fn tap_bytes(self, num_chunks: u32) -> u32 {
        num_chunks * self.chunk_bytes * self.channels
    }

    /// Bytes of shared memory of a block. `max_rows` counts only for f32 kernels.
    pub fn shared_bytes_for(self, num_taps: u32, num_chunks: u32, max_rows: u32) -> u32 {
        let tap = self.tap_bytes(num_chunks);
        // By tap the places of a warp's rows.
        let offsets = |num_warps: u32, num_rows: u32| num_warps * BATCH_TAPS * 4 * num_rows;
        match self.method {
            Method::Resident => num_taps * tap + offsets(WARPS_PER_BLOCK, 32),
            Method::Staged => {
                let columns = self.channels.div_ceil(64);
                STAGES * tap + offsets(WARPS_PER_BLOCK / columns, 64)
            }
            Method::Warpgroup => {
                let [_, num_stages] = self.warpgroups();
                num_stages * self.chunk_bytes * self.channels
                    + offsets(self.threads_per_block() / 32, 16)
            }
            Method::Exact => {
                let [weights, pair, row] = self.exact_bytes();
                weights + max_rows.min(self.max_pairs()) * pair + max_rows * row
            }
        }
    }

    /// The most rows that a block of an f32 kernel sums at once where blocks may have
    /// `shared_bytes` of shared memory; 0 for other kernels.
    pub fn max_rows(self, shared_bytes: u32) -> u32 {
        if self.method != Method::Exact {
            return 0;
        }
        let [weights, pair, row] = self.exact_bytes();
        let num_blocks = if self.channels == 16 { F32_NARROW_BLOCKS } else { 1 };
        let left = (shared_bytes / num_blocks).saturating_sub(OTHER_SHARED_BYTES + weights);
        let with_pairs = left / (pair + row);
        let max_rows = if with_pairs <= self.max_pairs() {
            with_pairs
        } else {
            (left - self.max_pairs() * pair) / row
        };
        max_rows / F32_ROW_MULTIPLE * F32_ROW_MULTIPLE
    }

    /// Bytes of shared memory of an f32 block: of the weights, per pair, per row.
    fn exact_bytes(self) -> [u32; 3] {
        let depth = if self.channels <= 32 { F32_NARROW_DEPTH } else { F32_DEPTH };
        let weights = F32_STAGES * depth * self.channels * 4;
        let pair = F32_STAGES * (depth + F32_PADDING) * 4;
        [weights, pair, self.channels * 4 + F32_BATCH * 4 + F32_BATCH_TAPS * 2]
    }

    /// The most pairs of a tap that a block of an f32 kernel multiplies at once.
    fn max_pairs(self) -> u32 {
        let sums = if self.channels == 16 { F32_NARROW_SUMS } else { F32_SUMS };
        sums / self.channels
    }

    /// Threads per block.
    pub fn threads_per_block(self) -> u32 {
        match self.method {
            Method::Resident | Method::Staged => THREADS_PER_BLOCK,
            Method::Warpgroup => self.warpgroups()[0] * WARPGROUP_THREADS,
            Method::Exact => F32_THREADS_PER_BLOCK,
        }
    }

    /// Warpgroups of a block and stages of its ring.
    fn warpgroups(self) -> [u32; 2] {
        WARPGROUPS[usize::from(self.channels == 128)]
    }
}
