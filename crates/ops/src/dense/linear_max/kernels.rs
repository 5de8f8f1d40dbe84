//! The parameters of `kernels/dense/linear_max.cu`.

use super::LinearMax;
use crate::dense::activation::ActivationArgs;
use crate::dense::launch::{Source, Target, check_count, reach};
use crate::device::cuda::{
    DependentKernel, Grid, In, KernelSpec, check_len, check_threads, kernel_constant, mirrors,
    refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("dense/linear_max.cu", "kThreads");
/// Groups of a block.
pub const BLOCK_GROUPS: u32 =
    THREADS_PER_BLOCK / COLUMNS * kernel_constant!("dense/linear_max.cu", "kWarpGroups");
/// Columns of a block.
pub const COLUMNS: u32 = 32;
const MAX_INPUTS: u32 = kernel_constant!("dense/linear_max.cu", "kMaxInputs");

const _: () = assert!(MAX_INPUTS as usize == LinearMax::MAX_CHANNELS[0]);

/// The parameter of `dense_linear_max_groups`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LinearMaxArgs<'a> {
    /// `[G, S, K]`.
    pub source: Source<'a>,
    /// `[G, N]`.
    pub target: Target<'a>,
    /// `[K, N]`.
    pub weights: In<'a, f32>,
    /// `[N]`.
    pub bias: In<'a, f32>,
    /// G.
    pub num_groups: u32,
    /// S.
    pub num_rows: u32,
    /// K.
    pub num_inputs: u32,
    /// N.
    pub num_outputs: u32,
    /// What follows the sum.
    pub activation: ActivationArgs,
    /// Whether activations are within the precision of f16.
    pub is_fast: u32,
}

mirrors!(LinearMaxArgs<'_>, "dense/linear_max.cu", "Args");

/// The launch for groups and columns.
pub fn grid(num_groups: u32, num_outputs: u32) -> Grid {
    let num_blocks = [num_groups.div_ceil(BLOCK_GROUPS), num_outputs.div_ceil(COLUMNS)];
    Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK }
}

fn check(kernel: &str, args: &LinearMaxArgs<'_>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [groups, rows, inputs, outputs] =
        [args.num_groups, args.num_rows, args.num_inputs, args.num_outputs];
    check_count([groups, rows, inputs].iter().map(|&size| size as usize).product())?;
    if *grid != self::grid(groups, outputs) || rows == 0 || !(1..=MAX_INPUTS).contains(&inputs) {
        return Err(refused(kernel, &format!("{grid:?} for {groups} of {rows}, {inputs} inputs")));
    }
    check_len(kernel, "weights", args.weights.len(), inputs as usize * outputs as usize)?;
    check_len(kernel, "the bias", args.bias.len(), outputs as usize)?;
    args.source.check(
        kernel,
        "the source",
        reach(&[groups, rows, inputs], &args.source.strides, 1),
    )?;
    args.target.check(kernel, "the target", reach(&[groups, outputs], &args.target.strides, 1))
}

/// `dense_linear_max_groups`.
pub struct Groups;

// SAFETY: `LinearMaxArgs` mirrors the kernel's struct. Warps read rows of groups below their number
// and weights of columns below theirs, and write the columns of a group; the slices are long enough
// (checked), and the inputs of a row are as many as a warp has room for (checked). No block waits for
// another.
unsafe impl KernelSpec for Groups {
    const NAME: &'static str = "dense_linear_max_groups";
    type Args<'a> = LinearMaxArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check(Self::NAME, args, grid)
    }
}

// SAFETY: the kernel reads weights and the bias, which no launch writes, and waits before it reads or
// writes anything else but its parameters.
unsafe impl DependentKernel for Groups {}
