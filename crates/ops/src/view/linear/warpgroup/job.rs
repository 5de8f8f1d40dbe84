//! The layers of a launch of `kernels/view/linear_f16.cuh`.

use half::f16;

use super::super::job::{PartArgs, TILE_ROWS};
use crate::device::cuda::{
    Grid, In, Mirror, Out, Plain, VECTOR_BYTES, check_lens, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

pub(super) const MAX_JOBS: usize = kernel_constant!("view/linear.cuh", "kMaxJobs") as usize;
const MAX_PARTS: usize = kernel_constant!("view/linear_f16_inputs.cuh", "kMaxParts") as usize;
pub(super) const THREADS_PER_BLOCK: u32 =
    kernel_constant!("view/linear_f16_inputs.cuh", "kPlainThreads");
/// With those of a normalization.
pub(super) const THREADS_WITH_NORM: u32 =
    kernel_constant!("view/linear_f16_inputs.cuh", "kAllThreads");
const ROWS_PER_BLOCK: u32 = kernel_constant!("view/linear_f16_inputs.cuh", "kRows");
pub(super) const CHUNK_INPUTS: u32 = kernel_constant!("view/linear_f16_inputs.cuh", "kChunkInputs");
/// Inputs of which the weights arrive together.
const WEIGHT_INPUTS: u32 =
    CHUNK_INPUTS * kernel_constant!("view/linear_f16_inputs.cuh", "kWeightChunks");
/// The most inputs of a block.
const MAX_INPUTS: u32 = CHUNK_INPUTS * kernel_constant!("view/linear_f16_inputs.cuh", "kMaxChunks");
const ALIGNMENT: u32 = kernel_constant!("view/linear_f16_inputs.cuh", "kAlignment");
/// Barriers, at the start of a block's shared memory.
const BARRIER_BYTES: u32 = 256;
/// The most shared memory of a block.
pub(super) const MAX_SHARED_BYTES: u32 = 227 << 10;
/// The most blocks of a launch that divides the inputs among two blocks each: half of an H200. It
/// decides the order of sums and therefore depends on no GPU.
pub(super) const MAX_DIVIDED_BLOCKS: u32 = 66;

/// One layer of a launch: `Job` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WarpgroupJob<'a, T> {
    /// The input, side by side.
    pub(super) parts: [PartArgs<'a, T>; MAX_PARTS],
    pub(super) weights: In<'a, u8>,
    pub(super) bias: In<'a, f32>,
    /// Empty: the first part is not normalized.
    pub(super) sums: In<'a, f32>,
    /// Empty unless the normalized part is stored.
    pub(super) norm: In<'a, f32>,
    pub(super) normalized: Out<'a, T>,
    /// Empty: `values`.
    pub(super) output: Out<'a, T>,
    pub(super) values: Out<'a, f32>,
    pub(super) normalized_stride: u32,
    pub(super) output_stride: u32,
    pub(super) values_stride: u32,
    pub(super) num_values: u32,
    pub(super) num_rows: u32,
    pub(super) num_outputs: u32,
    pub(super) has_relu: u32,
    pub(super) is_transposed: u32,
    pub(super) epsilon: f32,
    /// The layer whose columns a block computes after its own; 0: none.
    pub(super) second: u32,
}

mirrors!(
    WarpgroupJob<'_, T> as WarpgroupJob<'_, f16>,
    "view/linear_f16_inputs.cuh", "Job"; where T: Mirror
);

/// A kernel: columns of a block, and blocks of a cluster that have a part of the inputs each.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Tile {
    pub(super) num_columns: u32,
    pub(super) num_splits: u32,
}

pub(super) const SQUARE: Tile = Tile { num_columns: 64, num_splits: 1 };
pub(super) const WIDE: Tile = Tile { num_columns: 128, num_splits: 1 };
pub(super) const HALVES: Tile = Tile { num_columns: 64, num_splits: 2 };

impl<T: Plain> WarpgroupJob<'_, T> {
    pub(in crate::view::linear) fn empty() -> Self {
        Self {
            parts: [PartArgs::empty(); MAX_PARTS],
            weights: In::empty(),
            bias: In::empty(),
            sums: In::empty(),
            norm: In::empty(),
            normalized: Out::empty(),
            output: Out::empty(),
            values: Out::empty(),
            normalized_stride: 0,
            output_stride: 0,
            values_stride: 0,
            num_values: 0,
            num_rows: 0,
            num_outputs: 0,
            has_relu: 0,
            is_transposed: 0,
            epsilon: 0.0,
            second: 0,
        }
    }

    pub(super) fn num_inputs(&self) -> u32 {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Blocks of its rows.
    pub(super) fn num_row_blocks(&self) -> u32 {
        self.num_rows.div_ceil(ROWS_PER_BLOCK)
    }

    pub(super) fn fits(&self, tile: Tile) -> bool {
        let num_inputs = self.num_inputs();
        let of_block = num_inputs / tile.num_splits;
        let divides = num_inputs.is_multiple_of(CHUNK_INPUTS * tile.num_splits);
        let parts = self.parts.iter().filter(|part| part.len != 0);
        let mut strides = parts.clone().map(|part| part.stride);
        num_inputs > 0
            && num_inputs.is_multiple_of(16)
            && of_block <= MAX_INPUTS
            && (tile.num_splits == 1 || (divides && self.sums.is_empty()))
            && (self.sums.is_empty() || self.parts[0].len.is_multiple_of(CHUNK_INPUTS))
            && (self.normalized.is_empty() || !self.sums.is_empty())
            && self.norm.is_empty() == self.normalized.is_empty()
            && parts.clone().all(|part| part.len.is_multiple_of(8))
            && strides.all(|stride| stride.is_multiple_of(8))
            && self.begins_aligned()
            && self.normalized_stride.is_multiple_of(8)
            && (self.output.is_empty() || self.output_stride.is_multiple_of(8))
            && (self.is_transposed == 0 || !self.output.is_empty())
            && self.num_rows > 0
            && self.num_outputs > 0
            && self.num_outputs.is_multiple_of(16)
            && self.shared_bytes(tile) <= MAX_SHARED_BYTES
    }

    /// Whether a block of [`WIDE`] can compute another layer's columns after its own, from its rows.
    fn can_precede(&self, second: &Self) -> bool {
        let [first_part, others @ ..] = &second.parts;
        self.sums.is_empty()
            && second.sums.is_empty()
            && self.num_rows == second.num_rows
            && self.num_outputs == second.num_outputs
            // The second layer's weights take the places of the first ones that arrive.
            && self.num_inputs() > WEIGHT_INPUTS
            && first_part.len <= WEIGHT_INPUTS
            && first_part.len.is_multiple_of(CHUNK_INPUTS)
            && others.iter().all(|part| part.len == 0)
            && first_part.len == self.parts[0].len
            && first_part.stride == self.parts[0].stride
            && first_part.rows.begins_with(&self.parts[0].rows)
    }

    /// Whether what the kernels move 16 bytes at a time begins at a multiple of that.
    fn begins_aligned(&self) -> bool {
        self.parts.iter().all(|part| part.rows.is_aligned_to(VECTOR_BYTES))
            && self.weights.is_aligned_to(VECTOR_BYTES)
            && [self.bias, self.sums, self.norm].iter().all(|of| of.is_aligned_to(VECTOR_BYTES))
            && [self.normalized, self.output].iter().all(|to| to.is_aligned_to(VECTOR_BYTES))
    }

    /// `Layout` in the kernels.
    fn shared_bytes(&self, tile: Tile) -> u32 {
        let num_inputs = self.num_inputs() / tile.num_splits;
        let norm_len = self.norm.len() as u32;
        let rows = num_inputs.div_ceil(CHUNK_INPUTS) * ROWS_PER_BLOCK * CHUNK_INPUTS * 2;
        let inbox = tile.num_columns / tile.num_splits * (tile.num_splits - 1);
        BARRIER_BYTES
            + 8 * tile.num_columns
            + ROWS_PER_BLOCK * 8
            + 4 * norm_len
            + ALIGNMENT
            + rows
            + tile.num_columns * num_inputs * 2
            + ROWS_PER_BLOCK * inbox * 4
    }

    pub(super) fn check(&self, kernel: &str, tile: Tile) -> Result<()> {
        if !self.fits(tile) {
            let message = format!(
                "{} rows, parts of {:?} inputs, {} outputs, a norm of {} values do not fit",
                self.num_rows,
                self.parts.map(|part| part.len),
                self.num_outputs,
                self.norm.len()
            );
            return Err(refused(kernel, &message));
        }
        let (num_rows, num_outputs) = (self.num_rows as usize, self.num_outputs as usize);
        let rows = |stride: u32, len: usize| (num_rows - 1) * stride as usize + len;
        // What is empty is not used.
        let used = |len: usize, needed: usize| if len == 0 { 0 } else { needed };
        let part = |part: PartArgs<'_, T>| {
            let len = part.len as usize;
            ("part", part.rows.len(), used(len, rows(part.stride, len)))
        };
        let first_len = self.parts[0].len as usize;
        let output = if self.is_transposed != 0 {
            let padded = num_rows.next_multiple_of(TILE_ROWS as usize);
            (num_outputs - 1) * self.output_stride as usize + padded
        } else {
            used(self.output.len(), rows(self.output_stride, num_outputs))
        };
        let num_values = (self.num_values as usize).min(num_outputs);
        let values = if self.output.is_empty() { rows(self.values_stride, num_values) } else { 0 };
        let normalized = rows(self.normalized_stride, first_len);
        check_lens(kernel, self.parts.map(part))?;
        check_lens(
            kernel,
            [
                ("weights", self.weights.len(), 2 * self.num_inputs() as usize * num_outputs),
                ("bias", self.bias.len(), num_outputs),
                ("sums of weights", self.sums.len(), used(self.sums.len(), num_outputs)),
                ("norm", self.norm.len(), used(self.norm.len(), 2 * first_len)),
                ("normalized rows", self.normalized.len(), used(self.normalized.len(), normalized)),
                ("output", self.output.len(), output),
                ("values", self.values.len(), values),
            ],
        )
    }
}

/// The layers of a launch: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WarpgroupArgs<'a, T> {
    num_jobs: u32,
    end_blocks: [u32; MAX_JOBS],
    reserved: u32,
    jobs: [WarpgroupJob<'a, T>; MAX_JOBS],
}

mirrors!(
    WarpgroupArgs<'_, T> as WarpgroupArgs<'_, f16>,
    "view/linear_f16_inputs.cuh", "Args"; where T: Mirror
);

impl<'a, T: Plain> WarpgroupArgs<'a, T> {
    pub(super) fn new(jobs: &[WarpgroupJob<'a, T>], tile: Tile) -> Self {
        let mut args = Self {
            num_jobs: jobs.len() as u32,
            end_blocks: [0; MAX_JOBS],
            reserved: 0,
            jobs: [WarpgroupJob::empty(); MAX_JOBS],
        };
        args.jobs[..jobs.len()].copy_from_slice(jobs);
        args.divide(tile);
        args
    }

    /// The same with blocks that compute a second layer from the rows of theirs.
    pub(super) fn with_seconds(mut self) -> Self {
        for second in 1..self.jobs().len() {
            let of = self.jobs[second];
            let precedes = |job: &&mut WarpgroupJob<'a, T>| job.second == 0 && job.can_precede(&of);
            if let Some(first) = self.jobs.iter_mut().find(precedes) {
                first.second = second as u32;
            }
        }
        self.divide(WIDE);
        self
    }

    fn divide(&mut self, tile: Tile) {
        let mut end = 0;
        for job in 0..self.jobs().len() {
            if !self.is_second(job) {
                end += self.jobs[job].num_outputs.div_ceil(tile.num_columns);
            }
            self.end_blocks[job] = end;
        }
    }

    fn is_second(&self, job: usize) -> bool {
        job != 0 && self.jobs().iter().any(|first| first.second as usize == job)
    }

    /// Whether each second layer is one that its block can compute.
    pub(super) fn has_seconds_of(&self, tile: Tile) -> bool {
        self.jobs().iter().all(|job| {
            let second = self.jobs().get(job.second as usize);
            job.second == 0
                || (tile == WIDE && second.is_some_and(|second| job.can_precede(second)))
        })
    }

    pub(super) fn jobs(&self) -> &[WarpgroupJob<'a, T>] {
        &self.jobs[..(self.num_jobs as usize).min(MAX_JOBS)]
    }

    pub(super) fn grid(&self, tile: Tile) -> Grid {
        let jobs = self.jobs();
        let rows = jobs.iter().map(WarpgroupJob::num_row_blocks).max().unwrap_or(0);
        let columns = jobs.len().checked_sub(1).map_or(0, |last| self.end_blocks[last]);
        let has_norm = jobs.iter().any(|job| !job.sums.is_empty());
        let threads_per_block = if has_norm { THREADS_WITH_NORM } else { THREADS_PER_BLOCK };
        Grid { num_blocks: [rows * tile.num_splits, columns], threads_per_block }
    }

    pub(super) fn shared_bytes(&self, tile: Tile) -> u32 {
        self.jobs().iter().map(|job| job.shared_bytes(tile)).max().unwrap_or(0)
    }
}
