//! The parameters of `kernels/layer_chain.cu`.

use half::f16;

use crate::device::cuda::{In, Out, assert_mirrors, kernel_constant};

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("layer_chain.cuh", "kThreads");
/// Thread blocks per cluster.
pub const CLUSTER_BLOCKS: u32 = kernel_constant!("layer_chain.cuh", "kBlocks");
/// Channels of normalized columns.
pub const CHANNELS: u32 = kernel_constant!("layer_chain.cuh", "kChannels");
/// Columns of the rows.
pub const COLUMNS: u32 = kernel_constant!("layer_chain.cuh", "kColumns");
/// Outputs of a matrix instruction.
pub const TILE_OUTPUTS: u32 = kernel_constant!("layer_chain.cuh", "kTileOutputs");
/// Inputs whose weights are copied to shared memory together.
pub const STAGE_INPUTS: u32 = kernel_constant!("layer_chain.cuh", "kStageInputs");
/// The most steps.
pub const MAX_STEPS: usize = kernel_constant!("layer_chain.cuh", "kMaxSteps") as usize;
/// The most inputs in device memory.
pub const MAX_LOADS: usize = kernel_constant!("layer_chain.cuh", "kMaxLoads") as usize;
/// Values of an anchor.
pub const BOX_LEN: u32 = kernel_constant!("layer_chain.cuh", "kBoxLen");
/// Parts of the encoder.
pub const ENCODER_PARTS: usize = kernel_constant!("layer_chain.cuh", "kParts") as usize;

/// What becomes of a step's results: `Target` in the kernels.
pub mod target {
    use crate::device::cuda::kernel_constant;

    /// Rows of f16.
    pub const ROWS: u32 = kernel_constant!("layer_chain.cuh", "kToRows");
    /// A row of f16 per output.
    pub const COLUMNS: u32 = kernel_constant!("layer_chain.cuh", "kToColumns");
    /// Rows of f32.
    pub const VALUES: u32 = kernel_constant!("layer_chain.cuh", "kToValues");
    /// Rows of f32 that are added to the anchors.
    pub const ANCHORS: u32 = kernel_constant!("layer_chain.cuh", "kToAnchors");
    /// Columns of the rows.
    pub const ALL: u32 = kernel_constant!("layer_chain.cuh", "kToAll");
    /// No layer: the anchors are encoded.
    pub const ENCODE: u32 = kernel_constant!("layer_chain.cuh", "kToEncode");
}

/// Rows that are read: `Load` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LoadArgs<'a> {
    /// The rows.
    pub rows: In<'a, f16>,
    /// Values from one row to the next.
    pub stride: u32,
    /// The first column that they are copied to.
    pub column: u32,
    /// Rows; those beyond are zeros.
    pub num_rows: u32,
    /// The logarithm of the columns to the base 2: 8 or 9.
    pub log_len: u32,
}

/// What follows columns of the rows: `After` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AfterArgs<'a> {
    /// A normalization, packed; empty: none.
    pub norm: In<'a, f32>,
    /// Where the rows are stored after that; empty: nowhere.
    pub rows: Out<'a, f16>,
    /// Values from one of these rows to the next.
    pub stride: u32,
    /// These rows.
    pub num_rows: u32,
    /// The first column.
    pub column: u32,
    /// 1; 2 for 512 columns that are normalized together; 0 for the encoder's parts.
    pub norm_parts: u32,
    /// The first of the columns that are added.
    pub addend: u32,
    /// Where the sum is stored; 0: nowhere.
    pub sum: u32,
}

/// A step: `Step` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StepArgs<'a> {
    /// Packed weights.
    pub weights: In<'a, u8>,
    /// One per output, padded.
    pub bias: In<'a, f32>,
    /// What follows columns of the rows.
    pub after: AfterArgs<'a>,
    /// Results in f16.
    pub rows: Out<'a, f16>,
    /// Results in f32.
    pub values: Out<'a, f32>,
    /// The first column of the input.
    pub input: u32,
    /// Columns of the input.
    pub num_inputs: u32,
    /// Tiles of [`TILE_OUTPUTS`] outputs per thread block.
    pub num_tiles: u32,
    /// One of [`target`].
    pub target: u32,
    /// The first column of the results.
    pub output: u32,
    /// Whether a ReLU follows.
    pub has_relu: u32,
    /// Values from one row of results to the next.
    pub stride: u32,
    /// Results of a row.
    pub num_values: u32,
    /// Rows of results.
    pub num_rows: u32,
    /// 1 + the index of rows that are read from here on; 0: none.
    pub load: u32,
}

/// A chain: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ChainArgs<'a> {
    /// The steps.
    pub steps: [StepArgs<'a>; MAX_STEPS],
    /// Rows that are read.
    pub loads: [LoadArgs<'a>; MAX_LOADS],
    /// Anchors; empty: none.
    pub anchors: In<'a, f32>,
    /// What divides the last values of their deltas.
    pub interval: In<'a, f32>,
    /// The encoder's first layer, packed.
    pub encoder: In<'a, f32>,
    /// Where the encoder's parts end, in groups of 8 channels.
    pub encoder_ends: [u32; ENCODER_PARTS],
    /// Steps.
    pub num_steps: u32,
    /// Rows that are read when the chain begins.
    pub num_loads: u32,
    /// Rows.
    pub num_rows: u32,
    /// The first delta that is divided.
    pub first_divided: u32,
    /// Added to variances.
    pub epsilon: f32,
    /// Padding.
    pub reserved: u32,
}

assert_mirrors!(LoadArgs<'_>, "layer_chain.cuh", "Load");
assert_mirrors!(AfterArgs<'_>, "layer_chain.cuh", "After");
assert_mirrors!(StepArgs<'_>, "layer_chain.cuh", "Step");
assert_mirrors!(ChainArgs<'_>, "layer_chain.cuh", "Args");

impl LoadArgs<'_> {
    /// Nothing.
    pub fn empty() -> Self {
        Self { rows: In::empty(), stride: 0, column: 0, num_rows: 0, log_len: 8 }
    }
}

impl StepArgs<'_> {
    /// A step without a layer.
    pub fn empty() -> Self {
        let after = AfterArgs {
            norm: In::empty(),
            rows: Out::empty(),
            stride: 0,
            num_rows: 0,
            column: 0,
            norm_parts: 1,
            addend: 0,
            sum: 0,
        };
        Self {
            weights: In::empty(),
            bias: In::empty(),
            after,
            rows: Out::empty(),
            values: Out::empty(),
            input: 0,
            num_inputs: 0,
            num_tiles: 1,
            target: target::ENCODE,
            output: 0,
            has_relu: 0,
            stride: 0,
            num_values: 0,
            num_rows: 0,
            load: 0,
        }
    }

    /// Outputs, padded.
    pub fn num_outputs(&self) -> u32 {
        CLUSTER_BLOCKS * TILE_OUTPUTS * self.num_tiles
    }
}
