//! What the kernels of convolutions are compiled for, and what a launch of each takes.

use crate::device::cuda::kernel_constant;

/// Threads per block of kernels with matrix instructions.
const THREADS_PER_BLOCK: u32 = kernel_constant!("sparse_conv_tiles.cuh", "kThreads");
/// Threads per block of f32 kernels.
const F32_THREADS_PER_BLOCK: u32 = kernel_constant!("sparse_conv_exact.cuh", "kF32Threads");
/// Taps of the weights that a staged kernel has in shared memory at once.
const STAGES: u32 = kernel_constant!("sparse_conv_staged.cuh", "kStages");
/// Bytes of a row that a step of a warpgroup kernel multiplies.
pub const WARPGROUP_STEP_BYTES: u32 =
    kernel_constant!("sparse_conv_warpgroup.cuh", "kWarpgroupStepBytes");
/// Warpgroups of a block and steps in shared memory, for 64 output channels and for 128.
const WARPGROUPS: [[u32; 2]; 2] = [
    [
        kernel_constant!("sparse_conv_warpgroup.cuh", "kWarpgroups64"),
        kernel_constant!("sparse_conv_warpgroup.cuh", "kWarpgroupStages64"),
    ],
    [
        kernel_constant!("sparse_conv_warpgroup.cuh", "kWarpgroups128"),
        kernel_constant!("sparse_conv_warpgroup.cuh", "kWarpgroupStages128"),
    ],
];
const WARPGROUP_THREADS: u32 = kernel_constant!("sparse_conv_warpgroup.cuh", "kWarpgroupLanes");
/// Stages of the ring of an f32 kernel, and their input channels.
const F32_STAGES: u32 = kernel_constant!("sparse_conv_exact.cuh", "kF32Stages");
const F32_STAGE_CHANNELS: u32 = kernel_constant!("sparse_conv_exact.cuh", "kF32StageChannels");
/// Taps of which a warp has the rows in shared memory at once.
const BATCH_TAPS: u32 = kernel_constant!("sparse_conv.cuh", "kBatchTaps");
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

    /// Bytes of shared memory of a block.
    pub fn shared_bytes_for(self, num_taps: u32, num_chunks: u32) -> u32 {
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
                let num_rows = if self.channels <= 32 { 64 } else { 32 };
                F32_STAGES * F32_STAGE_CHANNELS * 4 * self.channels
                    + offsets(F32_THREADS_PER_BLOCK / 32, num_rows)
            }
        }
    }

    /// Threads per block.
    pub fn threads_per_block(self) -> u32 {
        match self.method {
            Method::Resident | Method::Staged => THREADS_PER_BLOCK,
            Method::Warpgroup => self.warpgroups()[0] * WARPGROUP_THREADS,
            Method::Exact => F32_THREADS_PER_BLOCK,
        }
    }

    /// Of an f32 kernel: input channels are padded to a multiple of this.
    pub fn input_multiple(self) -> u32 {
        if matches!(self.channels, 32 | 64) { 16 } else { 8 }
    }

    /// Warpgroups of a block and stages of its ring.
    fn warpgroups(self) -> [u32; 2] {
        WARPGROUPS[usize::from(self.channels == 128)]
    }
}
