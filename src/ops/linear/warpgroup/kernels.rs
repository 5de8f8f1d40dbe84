//! The kernels of `kernels/linear_f16.cuh`, by columns of a block.

use std::marker::PhantomData;

use super::super::job::{PartArgs, TILE_ROWS};
use super::super::kernels::Element;
use crate::device::cuda::{
    CudaDevice, Grid, In, Kernel, KernelSpec, Out, OverlappingKernel, Plain, Stream,
    assert_mirrors, check_lens, check_threads, kernel_constant, refused,
};
use crate::error::Result;
use crate::ops::sparse_conv::Precision;

const MAX_JOBS: usize = kernel_constant!("linear.cuh", "kMaxJobs") as usize;
const MAX_PARTS: usize = kernel_constant!("linear_f16_inputs.cuh", "kMaxParts") as usize;
const THREADS_PER_BLOCK: u32 = kernel_constant!("linear_f16_inputs.cuh", "kPlainThreads");
/// With those of a normalization.
const THREADS_WITH_NORM: u32 = kernel_constant!("linear_f16_inputs.cuh", "kAllThreads");
const ROWS_PER_BLOCK: u32 = kernel_constant!("linear_f16_inputs.cuh", "kRows");
const CHUNK_INPUTS: u32 = kernel_constant!("linear_f16_inputs.cuh", "kChunkInputs");
/// The most inputs of a block.
const MAX_INPUTS: u32 = CHUNK_INPUTS * kernel_constant!("linear_f16_inputs.cuh", "kMaxChunks");
const ALIGNMENT: u32 = kernel_constant!("linear_f16_inputs.cuh", "kAlignment");
/// What a lane or a bulk copy moves at a time, or a multiple of it.
const VECTOR_BYTES: u64 = 16;
/// Barriers, at the start of a block's shared memory.
const BARRIER_BYTES: u32 = 256;
/// The most shared memory of a block.
const MAX_SHARED_BYTES: u32 = 227 << 10;
/// Multiprocessors of the GPUs that have the kernels.
const MULTIPROCESSORS: u32 = 132;

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
    pub(super) reserved: u32,
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

assert_mirrors!(WarpgroupJob<'_, f32>, "linear_f16_inputs.cuh", "Job");
assert_mirrors!(WarpgroupArgs<'_, f32>, "linear_f16_inputs.cuh", "Args");

/// A kernel: columns of a block, and blocks of a cluster that have a part of the inputs each.
#[derive(Clone, Copy)]
struct Tile {
    num_columns: u32,
    num_splits: u32,
}

const SQUARE: Tile = Tile { num_columns: 64, num_splits: 1 };
const WIDE: Tile = Tile { num_columns: 128, num_splits: 1 };
const HALVES: Tile = Tile { num_columns: 64, num_splits: 2 };

impl<T: Plain> WarpgroupJob<'_, T> {
    pub(in crate::ops::linear) fn empty() -> Self {
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
            reserved: 0,
        }
    }

    fn num_inputs(&self) -> u32 {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Blocks of its rows.
    fn num_row_blocks(&self) -> u32 {
        self.num_rows.div_ceil(ROWS_PER_BLOCK)
    }

    fn fits(&self, tile: Tile) -> bool {
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

    fn check(&self, kernel: &str, tile: Tile) -> Result<()> {
        if !self.fits(tile) {
            let message = format!(
                "{} rows, parts of {:?} inputs, {} outputs, a norm of {} values",
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

impl<'a, T: Plain> WarpgroupArgs<'a, T> {
    fn new(jobs: &[WarpgroupJob<'a, T>], tile: Tile) -> Self {
        let mut args = Self {
            num_jobs: jobs.len() as u32,
            end_blocks: [0; MAX_JOBS],
            reserved: 0,
            jobs: [WarpgroupJob::empty(); MAX_JOBS],
        };
        let mut end = 0;
        for ((job, to), end_block) in jobs.iter().zip(&mut args.jobs).zip(&mut args.end_blocks) {
            end += job.num_outputs.div_ceil(tile.num_columns);
            (*to, *end_block) = (*job, end);
        }
        args
    }

    fn jobs(&self) -> &[WarpgroupJob<'a, T>] {
        &self.jobs[..(self.num_jobs as usize).min(MAX_JOBS)]
    }

    fn grid(&self, tile: Tile) -> Grid {
        let jobs = self.jobs();
        let rows = jobs.iter().map(WarpgroupJob::num_row_blocks).max().unwrap_or(0);
        let columns = jobs.len().checked_sub(1).map_or(0, |last| self.end_blocks[last]);
        let has_norm = jobs.iter().any(|job| !job.sums.is_empty());
        let threads_per_block = if has_norm { THREADS_WITH_NORM } else { THREADS_PER_BLOCK };
        Grid { num_blocks: [rows * tile.num_splits, columns], threads_per_block }
    }

    fn shared_bytes(&self, tile: Tile) -> u32 {
        self.jobs().iter().map(|job| job.shared_bytes(tile)).max().unwrap_or(0)
    }
}

macro_rules! tiles {
    ($($spec:ident: $name:literal, $tile:ident;)+) => {$(
        #[doc = concat!("`", $name, "`; launches with rows of other elements are refused.")]
        pub struct $spec<T>(PhantomData<T>);

        // SAFETY: `WarpgroupArgs`, `WarpgroupJob` and `PartArgs` mirror the structs of the
        // kernels (sizes asserted, `#[repr(C)]` in the same order), whose elements are f16
        // (checked). Rows at and beyond `num_rows` are neither read nor written, but for the rows
        // up to the next multiple of 16 of a transposed output; columns are below those of the parts
        // and the padded outputs. The slices are long enough for them, and what moves 16 bytes at a
        // time has lengths, strides and addresses of multiples of 16 bytes (checked). A block finds its layer by
        // `end_blocks`, which `WarpgroupArgs::new` alone sets; the grid is compared with them.
        // Shared memory is what `shared_bytes` says, as in `Layout`. The two blocks of a cluster
        // have as many inputs each (checked), are in the same layer and rows, and wait for each other
        // alone; a cluster's blocks run at the same time. Blocks of a normalized layer have the threads that
        // compute scales, for which the others wait (`grid`).
        unsafe impl<T: Element> KernelSpec for $spec<T> {
            const NAME: &'static str = $name;
            type Args<'a> = WarpgroupArgs<'a, T>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                let expected = args.grid($tile);
                check_threads(Self::NAME, grid.threads_per_block, expected.threads_per_block)?;
                let is_f16 = T::PRECISION == Precision::F16 && size_of::<T>() == 2;
                if args.num_jobs == 0 || grid.num_blocks != expected.num_blocks || !is_f16 {
                    let message = format!(
                        "{:?} blocks of {:?}, needed are {:?} of f16",
                        grid.num_blocks,
                        T::PRECISION,
                        expected.num_blocks
                    );
                    return Err(refused(Self::NAME, &message));
                }
                args.jobs().iter().try_for_each(|job| job.check(Self::NAME, $tile))
            }
            fn shared_bytes(args: &Self::Args<'_>) -> u32 {
                args.shared_bytes($tile)
            }
        }

        // SAFETY: before they wait, the kernels read weights, bias, sums and norms, which no launch
        // writes, and write their own shared memory.
        unsafe impl<T: Element> OverlappingKernel for $spec<T> {}
    )+};
}

tiles! {
    Square: "linear_64x64_f16", SQUARE;
    Wide: "linear_64x128_f16", WIDE;
    Halves: "linear_64x64_halves_f16", HALVES;
}

/// The loaded kernels.
pub(in crate::ops::linear) struct WarpgroupKernels<T: Element> {
    square: Kernel<Square<T>>,
    wide: Kernel<Wide<T>>,
    halves: Kernel<Halves<T>>,
}

impl<T: Element> WarpgroupKernels<T> {
    /// Whether the GPU has the kernels, for these elements.
    ///
    /// # Errors
    /// As [`CudaDevice::kernel_if_present`].
    pub(in crate::ops::linear) fn are_present(device: &CudaDevice) -> Result<bool> {
        let kernel: Option<Kernel<Square<T>>> = device.kernel_if_present()?;
        Ok(T::PRECISION == Precision::F16 && kernel.is_some())
    }

    /// Loads the kernels; `None` for elements other than f16, or where the GPU has none.
    ///
    /// # Errors
    /// As [`CudaDevice::kernel_if_present`], and [`Kernel::reserve_shared`].
    pub(in crate::ops::linear) fn load(device: &CudaDevice) -> Result<Option<Self>> {
        if T::PRECISION != Precision::F16 {
            return Ok(None);
        }
        let kernels =
            (device.kernel_if_present()?, device.kernel_if_present()?, device.kernel_if_present()?);
        let (Some(square), Some(wide), Some(halves)) = kernels else { return Ok(None) };
        let loaded = Self { square, wide, halves };
        loaded.square.reserve_shared(MAX_SHARED_BYTES, THREADS_WITH_NORM)?;
        loaded.wide.reserve_shared(MAX_SHARED_BYTES, THREADS_WITH_NORM)?;
        loaded.halves.reserve_shared(MAX_SHARED_BYTES, THREADS_PER_BLOCK)?;
        Ok(Some(loaded))
    }

    /// Queues layers that do not depend on each other; `false` where they are not for these
    /// kernels.
    ///
    /// # Errors
    /// As [`Kernel::enqueue`].
    pub(in crate::ops::linear) fn enqueue(
        &self,
        stream: &Stream,
        jobs: &[WarpgroupJob<'_, T>],
    ) -> Result<bool> {
        if jobs.is_empty() || jobs.len() > MAX_JOBS {
            return Ok(false);
        }
        let fits = |tile| jobs.iter().all(|job| job.fits(tile));
        let num_blocks = |tile: Tile| {
            let of_job = |job: &WarpgroupJob<'_, T>| {
                job.num_row_blocks() * job.num_outputs.div_ceil(tile.num_columns)
            };
            jobs.iter().map(of_job).sum::<u32>()
        };
        // Measured on an H200 for 512 and 900 rows (decision 0006): half of the GPU is better than
        // all inputs in one block, and wide blocks are better than two rounds.
        let divides = jobs.iter().all(|job| job.num_inputs() >= 8 * CHUNK_INPUTS);
        if divides && fits(HALVES) && num_blocks(HALVES) <= MULTIPROCESSORS / 2 {
            let args = WarpgroupArgs::new(jobs, HALVES);
            self.halves.enqueue_overlapping(stream, args.grid(HALVES), args)?;
        } else if fits(SQUARE) && (num_blocks(SQUARE) <= MULTIPROCESSORS || !fits(WIDE)) {
            let args = WarpgroupArgs::new(jobs, SQUARE);
            self.square.enqueue_overlapping(stream, args.grid(SQUARE), args)?;
        } else if fits(WIDE) {
            let args = WarpgroupArgs::new(jobs, WIDE);
            self.wide.enqueue_overlapping(stream, args.grid(WIDE), args)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}
