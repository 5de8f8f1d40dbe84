//! The parameters of `layer_stack_folded_f16` in `kernels/view/layer_stack.cu`.

use half::f16;

use super::super::cuda::MAX_WIDTH;
use crate::device::cuda::{In, Mirror, Out, Plain, kernel_constant, mirrors};
use crate::view::layer_norm::EPSILON;

/// Rows per block.
pub const ROWS_PER_BLOCK: u32 = kernel_constant!("view/layer_stack_folded.cuh", "kRows");
/// Outputs of a warp.
pub const WIDTH: usize = kernel_constant!("view/layer_stack_folded.cuh", "kWidth") as usize;
/// Warps that have outputs.
pub const WARPS: usize = MAX_WIDTH / WIDTH;
/// Warps that bring rows.
const ROW_WARPS: u32 = kernel_constant!("view/layer_stack_folded.cuh", "kRowWarps");
/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = 32 * (WARPS as u32 + ROW_WARPS);
/// The most layers of a stack after one over columns of f32.
pub const MAX_LAYERS: usize =
    kernel_constant!("view/layer_stack_folded.cuh", "kMaxLayers") as usize;
/// The most stacks, those over rows first.
pub const MAX_JOBS: usize = kernel_constant!("view/layer_stack_folded.cuh", "kMaxJobs") as usize;
/// The most stacks over rows.
pub const MAX_ROW_STACKS: usize =
    kernel_constant!("view/layer_stack_folded.cuh", "kMaxRowJobs") as usize;
/// The most layers of a warp in all stacks, a last normalization among them.
pub const MAX_CONSTANTS: usize =
    kernel_constant!("view/layer_stack_folded.cuh", "kMaxConstants") as usize;
/// The most values of a row that a stack over rows gives.
pub const BOX_LEN: usize = kernel_constant!("view/layer_stack_folded.cuh", "kBoxLen") as usize;
/// The most columns of f32 of a stack.
pub const MAX_COLUMNS: usize =
    kernel_constant!("view/layer_stack_folded.cuh", "kMaxColumns") as usize;
/// Bytes of shared memory per block.
pub const SHARED_BYTES: u32 = kernel_constant!("view/layer_stack_folded.cuh", "kSharedBytes");
/// Inputs of a step.
pub const STEP_INPUTS: usize = 16;
/// Bytes of a warp's weights in a step.
pub const STEP_BYTES: usize = STEP_INPUTS * WIDTH * size_of::<f16>();
/// Bytes before a warp's weights: the constants of its layers and of a first layer.
pub const CONSTANT_BYTES: usize = det_post_kernels::constant(
    det_post_kernels::source("view/layer_stack_folded.cuh"),
    "static_assert(sizeof(Constants) == ",
) as usize;

/// A layer: `Layer` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct FoldedLayerArgs {
    /// Steps of [`STEP_INPUTS`] inputs, an even number.
    pub num_steps: u8,
    /// Warps that have outputs; of a stack's values, that have inputs.
    pub num_warps: u8,
    /// Whether a ReLU follows.
    pub has_relu: u8,
    /// Padding.
    pub reserved: u8,
    /// One over the channels of its inputs' normalization; 0: none.
    pub inverse_len: f32,
}

/// A stack: `Job` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FoldedStackArgs<'a, T> {
    /// The input of a stack over rows.
    pub rows: In<'a, T>,
    /// Factors and summands of its normalization; empty: none.
    pub norm: In<'a, f32>,
    /// Where it is stored after that; empty: nowhere.
    pub normalized: Out<'a, T>,
    /// Rows that are then added; empty: none.
    pub addend: In<'a, T>,
    /// The input of the others; empty: the values of the first one.
    pub columns: In<'a, f32>,
    /// Output rows; empty: `values`.
    pub output: Out<'a, T>,
    /// Outputs of a stack over rows in f32.
    pub values: Out<'a, f32>,
    /// Rows that are added to them; empty: none.
    pub summand: In<'a, f32>,
    /// One value, by which outputs from `first_divided` on are divided before that; empty: none.
    pub interval: In<'a, f32>,
    /// The layers.
    pub layers: [FoldedLayerArgs; MAX_LAYERS],
    /// The normalization of the output: its inputs and their number.
    pub last: FoldedLayerArgs,
    /// Values from one row to the next.
    pub row_stride: u32,
    /// Channels of the input.
    pub row_len: u32,
    /// Values from one row to the next.
    pub normalized_stride: u32,
    /// As above.
    pub addend_stride: u32,
    /// As above.
    pub column_stride: u32,
    /// Columns of a row.
    pub num_columns: u32,
    /// The first of them in the values of the first stack; without one, a place of its own.
    pub first_column: u32,
    /// Values from one row of the output, or of `values`, to the next.
    pub output_stride: u32,
    /// Outputs of a row that are stored.
    pub num_values: u32,
    /// As above.
    pub first_divided: u32,
    /// Layers.
    pub num_layers: u32,
    /// The first warp of the stack.
    pub first_warp: u32,
    /// Its warps.
    pub num_warps: u32,
    /// Padding.
    pub reserved: u32,
}

/// What a warp reads: `Stream` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct StreamArgs {
    /// Where it begins, in bytes.
    pub begin: u64,
    /// Pairs of steps of the warp's layers, four bits each, the first lowest.
    pub plan: u64,
}

/// The stacks of a launch: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FoldedArgs<'a, T> {
    /// The streams of all warps.
    pub streams: In<'a, u8>,
    /// By stack over rows and warp; without one the first.
    pub warps: [[StreamArgs; WARPS]; MAX_ROW_STACKS],
    /// The stacks.
    pub jobs: [FoldedStackArgs<'a, T>; MAX_JOBS],
    /// Stacks.
    pub num_jobs: u32,
    /// How many of them, the first ones, are over rows; at most one with stacks over columns.
    pub num_row_jobs: u32,
    /// Rows.
    pub num_rows: u32,
    /// Added to variances.
    pub epsilon: f32,
}

mirrors!(FoldedLayerArgs, "view/layer_stack_folded.cuh", "Layer");
mirrors!(
    FoldedStackArgs<'_, T> as FoldedStackArgs<'_, f16>,
    "view/layer_stack_folded.cuh", "Job"; where T: Mirror
);
mirrors!(StreamArgs, "view/layer_stack_folded.cuh", "Stream");
mirrors!(
    FoldedArgs<'_, T> as FoldedArgs<'_, f16>,
    "view/layer_stack_folded.cuh", "Args"; where T: Mirror
);

impl<T: Plain> FoldedStackArgs<'_, T> {
    /// A stack without layers.
    pub fn empty() -> Self {
        Self {
            rows: In::empty(),
            norm: In::empty(),
            normalized: Out::empty(),
            addend: In::empty(),
            columns: In::empty(),
            output: Out::empty(),
            values: Out::empty(),
            summand: In::empty(),
            interval: In::empty(),
            layers: [FoldedLayerArgs::default(); MAX_LAYERS],
            last: FoldedLayerArgs::default(),
            row_stride: 0,
            row_len: 0,
            normalized_stride: 0,
            addend_stride: 0,
            column_stride: 0,
            num_columns: 0,
            first_column: 0,
            output_stride: 0,
            num_values: 0,
            first_divided: 0,
            num_layers: 0,
            first_warp: 0,
            num_warps: 0,
            reserved: 0,
        }
    }
}

impl<T: Plain> FoldedArgs<'_, T> {
    /// No stacks.
    pub fn empty() -> Self {
        Self {
            streams: In::empty(),
            warps: [[StreamArgs::default(); WARPS]; MAX_ROW_STACKS],
            jobs: [FoldedStackArgs::empty(); MAX_JOBS],
            num_jobs: 0,
            num_row_jobs: 0,
            num_rows: 0,
            epsilon: EPSILON,
        }
    }
}
