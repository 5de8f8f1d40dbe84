//! The kernels of `kernels/view/linear_f16.cuh`, by columns of a block.

use std::marker::PhantomData;

use super::super::kernels::Element;
use super::job::{
    CHUNK_INPUTS, HALVES, MAX_DIVIDED_BLOCKS, MAX_JOBS, MAX_SHARED_BYTES, SQUARE,
    THREADS_PER_BLOCK, THREADS_WITH_NORM, Tile, WIDE, WarpgroupArgs, WarpgroupJob,
};
use crate::device::cuda::{
    CudaDevice, DependentKernel, Grid, Kernel, KernelSpec, Stream, check_threads, refused,
};
use crate::sparse::conv::Precision;
use det_post_types::Result;

macro_rules! tiles {
    ($($spec:ident: $name:literal, $tile:ident;)+) => {$(
        #[doc = concat!("`", $name, "`; launches with rows of other elements are refused.")]
        pub struct $spec<T>(PhantomData<T>);

        // SAFETY: `WarpgroupArgs`, `WarpgroupJob` and `PartArgs` mirror the structs of the kernels
        // (compared), whose elements are f16 (checked). Rows at and beyond `num_rows` are neither
        // read nor written, but for the rows up to the next multiple of 16 of a transposed output;
        // columns are below those of the parts and the padded outputs. The slices are long enough
        // for them, and what moves 16 bytes at a time has lengths, strides and addresses of
        // multiples of 16 bytes (checked). A block finds its layer by `end_blocks`, which
        // only `WarpgroupArgs` sets; the grid is compared with them. Shared memory is what
        // `shared_bytes` says, as in `Layout`. The two blocks of a cluster have as many inputs each
        // (checked), are in the same layer and rows, and wait only for each other; a cluster's
        // blocks run at the same time. Blocks of a normalized layer have the threads that compute
        // scales, for which the others wait (`grid`). A second layer has the rows, the part and the
        // outputs of its block's (checked).
        unsafe impl<T: Element> KernelSpec for $spec<T> {
            const NAME: &'static str = $name;
            type Args<'a> = WarpgroupArgs<'a, T>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                let expected = args.grid($tile);
                check_threads(Self::NAME, grid.threads_per_block, expected.threads_per_block)?;
                let is_f16 = T::PRECISION == Precision::F16 && size_of::<T>() == 2;
                let fits = !args.jobs().is_empty() && args.has_seconds_of($tile) && is_f16;
                if grid.num_blocks != expected.num_blocks || !fits {
                    let message = format!(
                        "{:?} blocks of {:?}, {:?} of f16 required",
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
        unsafe impl<T: Element> DependentKernel for $spec<T> {}
    )+};
}

tiles! {
    Square: "linear_64x64_f16", SQUARE;
    Wide: "linear_64x128_f16", WIDE;
    Halves: "linear_64x64_halves_f16", HALVES;
}

/// The loaded kernels.
pub(in crate::view::linear) struct WarpgroupKernels<T: Element> {
    square: Kernel<Square<T>>,
    wide: Kernel<Wide<T>>,
    halves: Kernel<Halves<T>>,
}

impl<T: Element> WarpgroupKernels<T> {
    /// Whether the GPU has the kernels, for these elements.
    ///
    /// # Errors
    /// As [`CudaDevice::kernel_if_present`].
    pub(in crate::view::linear) fn are_present(device: &CudaDevice) -> Result<bool> {
        let kernel: Option<Kernel<Square<T>>> = device.kernel_if_present()?;
        Ok(T::PRECISION == Precision::F16 && kernel.is_some())
    }

    /// Loads the kernels; `None` for elements other than f16, or where the GPU has none.
    ///
    /// # Errors
    /// As [`CudaDevice::kernel_if_present`], and [`Kernel::reserve_shared`].
    pub(in crate::view::linear) fn load(device: &CudaDevice) -> Result<Option<Self>> {
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
    pub(in crate::view::linear) fn enqueue(
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
        // all inputs in one block, and wide blocks are better than two rounds. So are blocks with
        // two layers.
        let num_multiprocessors = stream.device().num_multiprocessors();
        let divides = jobs.iter().all(|job| job.num_inputs() >= 8 * CHUNK_INPUTS);
        if divides && fits(HALVES) && num_blocks(HALVES) <= MAX_DIVIDED_BLOCKS {
            let args = WarpgroupArgs::new(jobs, HALVES);
            self.halves.enqueue_dependent(stream, args.grid(HALVES), args)?;
        } else if fits(SQUARE) && (num_blocks(SQUARE) <= num_multiprocessors || !fits(WIDE)) {
            let args = WarpgroupArgs::new(jobs, SQUARE);
            self.square.enqueue_dependent(stream, args.grid(SQUARE), args)?;
        } else if fits(WIDE) {
            let mut args = WarpgroupArgs::new(jobs, WIDE);
            if num_blocks(WIDE) > num_multiprocessors {
                args = args.with_seconds();
            }
            self.wide.enqueue_dependent(stream, args.grid(WIDE), args)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}
