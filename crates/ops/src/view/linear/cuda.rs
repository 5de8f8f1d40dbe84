//! The CUDA implementation of [`linear`](super): several layers in one launch, each with
//! what precedes and follows it. Within the tolerance of docs/numerics.md of the CPU, and the
//! same from run to run.
//!
//! A normalization is computed by the layers that read its rows: a block has whole rows of
//! its input, but not of its output.

pub use super::job::{JobArgs, PartArgs, padded, shared_bytes};
pub use super::kernels::{Element, LinearArgs};
pub use super::layer::DeviceLayer;
pub use super::warpgroup::FirstPart;

use super::job::THREADS_PER_BLOCK;
use super::kernels::MAX_JOBS;
use super::warpgroup::{WarpgroupJob, WarpgroupKernels};
use crate::device::cuda::{CudaDevice, DeviceBuffer, Grid, In, Kernel, Out, Stream, refused};
use crate::view::layer_norm::LayerNorm;
use det_post_types::Result;

/// Rows in device memory, their columns padded with zeros to a multiple of 16.
#[derive(Debug)]
pub struct DeviceRows<T> {
    values: DeviceBuffer<T>,
    num_columns: u32,
}

impl<T: Element> DeviceRows<T> {
    /// Rows of zeros.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn zeros(stream: &Stream, num_rows: usize, num_columns: usize) -> Result<Self> {
        let num_columns = padded(num_columns);
        let values = DeviceBuffer::zeros(stream, num_rows * num_columns)?;
        Ok(Self { values, num_columns: num_columns as u32 })
    }

    /// Rows of values `[R, num_columns]`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory or the copy fails.
    pub fn from_host(stream: &Stream, values: &[f32], num_columns: usize) -> Result<Self> {
        let mut rows = Self::zeros(stream, values.len() / num_columns.max(1), num_columns)?;
        rows.write(values, num_columns)?;
        Ok(rows)
    }

    /// Replaces the first rows and waits.
    ///
    /// # Errors
    /// `Argument` when there are more than these; `Device` when the copy fails.
    pub fn write(&mut self, values: &[f32], num_columns: usize) -> Result<()> {
        let mut rows = Vec::with_capacity(values.len());
        for row in values.chunks(num_columns.max(1)) {
            rows.extend(row.iter().map(|&value| T::from_f32(value)));
            rows.resize(rows.len().next_multiple_of(self.num_columns as usize), T::default());
        }
        self.values.write(&rows)
    }

    /// Waits, then copies the first `num_columns` of every row to new host memory.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self, num_columns: usize) -> Result<Vec<f32>> {
        let values = self.values.read()?;
        let rows = values.chunks_exact(self.num_columns as usize);
        Ok(rows.flat_map(|row| row.iter().take(num_columns).map(|v| v.to_f32())).collect())
    }

    /// Values from one row to the next.
    pub fn stride(&self) -> u32 {
        self.num_columns
    }

    /// What a kernel reads.
    ///
    /// # Errors
    /// `Device` when they belong to another stream.
    pub fn input(&self, stream: &Stream) -> Result<In<'_, T>> {
        self.values.input(stream)
    }

    /// What a kernel writes.
    ///
    /// # Errors
    /// `Device` when they belong to another stream.
    pub fn output(&mut self, stream: &Stream) -> Result<Out<'_, T>> {
        self.values.output(stream)
    }

    /// All columns as a part of a layer's input.
    ///
    /// # Errors
    /// `Device` when they belong to another stream.
    pub fn part(&self, stream: &Stream) -> Result<PartArgs<'_, T>> {
        let rows = self.values.input(stream)?;
        Ok(PartArgs { rows, stride: self.num_columns, len: self.num_columns })
    }
}

/// A normalization's factors and summands in device memory.
///
/// # Errors
/// `Device` when there is not enough memory or the copy fails.
pub fn device_norm(stream: &Stream, norm: &LayerNorm) -> Result<DeviceBuffer<f32>> {
    let values = [norm.gamma(), norm.beta()].concat();
    let mut buffer = DeviceBuffer::zeros(stream, values.len())?;
    buffer.write(&values)?;
    Ok(buffer)
}

/// The loaded kernels.
pub struct LinearKernels<T: Element> {
    tiles_1: Kernel<T::Tiles1>,
    tiles_2: Option<Kernel<T::Tiles2>>,
    tiles_4: Option<Kernel<T::Tiles4>>,
    warpgroups: Option<WarpgroupKernels<T>>,
}

/// Blocks of a multiprocessor up to which small tiles are taken: measured on an H200.
fn max_small_blocks<T>() -> u32 {
    if size_of::<T>() == 2 { 8 } else { 3 }
}

impl<T: Element> LinearKernels<T> {
    /// Loads the kernels for layers of at most so many inputs, of which at most
    /// `max_norm` channels are normalized.
    ///
    /// # Errors
    /// `Device` when this build has no kernels, or the GPU has too little shared memory.
    pub fn load(device: &CudaDevice, max_inputs: u32, max_norm: u32) -> Result<Self> {
        let bytes = |tiles| shared_bytes::<T>(tiles, max_inputs, [2 * max_norm; 2]);
        let tiles_1: Kernel<T::Tiles1> = device.kernel()?;
        tiles_1.reserve_shared(bytes(1), THREADS_PER_BLOCK)?;
        let tiles_2: Kernel<T::Tiles2> = device.kernel()?;
        let tiles_4: Kernel<T::Tiles4> = device.kernel()?;
        // A smaller GPU runs with smaller tiles.
        let fits_2 = tiles_2.reserve_shared(bytes(2), THREADS_PER_BLOCK).is_ok();
        let fits_4 = tiles_4.reserve_shared(bytes(4), THREADS_PER_BLOCK).is_ok();
        Ok(Self {
            tiles_1,
            tiles_2: fits_2.then_some(tiles_2),
            tiles_4: fits_4.then_some(tiles_4),
            warpgroups: WarpgroupKernels::load(device)?,
        })
    }

    /// Whether the GPU has kernels for layers that [`DeviceLayer::folded`] packs.
    pub fn has_folded(&self) -> bool {
        self.warpgroups.is_some()
    }

    /// As [`Self::enqueue`], by the kernels for folded layers where they do what is asked for.
    /// Returns whether they do.
    ///
    /// # Errors
    /// As [`Kernel::enqueue`].
    pub fn enqueue_folded(
        &self,
        stream: &Stream,
        jobs: &[(JobArgs<'_, T>, &DeviceLayer)],
    ) -> Result<bool> {
        if jobs.len() > MAX_JOBS {
            let message = format!("{} layers exceed the limit of {MAX_JOBS}", jobs.len());
            return Err(refused("linear", &message));
        }
        if let Some(kernels) = &self.warpgroups
            && let Some(folded) = folded_jobs(stream, jobs)?
            && kernels.enqueue(stream, &folded[..jobs.len()])?
        {
            return Ok(true);
        }
        let mut args = [JobArgs::empty(); MAX_JOBS];
        args.iter_mut().zip(jobs).for_each(|(to, (job, _))| *to = *job);
        self.enqueue(stream, &args[..jobs.len()])?;
        Ok(false)
    }

    /// Queues layers that do not depend on each other.
    ///
    /// # Errors
    /// As [`Kernel::enqueue`].
    pub fn enqueue(&self, stream: &Stream, jobs: &[JobArgs<'_, T>]) -> Result<()> {
        let args = LinearArgs::new(jobs)?;
        let columns = args.num_column_blocks();
        let grid = |tiles| Grid {
            num_blocks: [args.num_row_blocks(tiles), columns],
            threads_per_block: THREADS_PER_BLOCK,
        };
        let most = stream.device().num_multiprocessors().saturating_mul(max_small_blocks::<T>());
        let is_small = |tiles| args.num_row_blocks(tiles) * columns <= most;
        match (&self.tiles_2, &self.tiles_4) {
            (Some(_), Some(kernel)) if !is_small(1) && !is_small(2) => {
                kernel.enqueue_dependent(stream, grid(4), args)
            }
            (Some(kernel), _) if !is_small(1) => kernel.enqueue_dependent(stream, grid(2), args),
            _ => self.tiles_1.enqueue_dependent(stream, grid(1), args),
        }
    }
}

/// Layers for the kernels of folded layers; `None` where one of them is not for these.
fn folded_jobs<'a, T: Element>(
    stream: &Stream,
    jobs: &[(JobArgs<'a, T>, &'a DeviceLayer)],
) -> Result<Option<[WarpgroupJob<'a, T>; MAX_JOBS]>> {
    let mut folded = [WarpgroupJob::empty(); MAX_JOBS];
    for (to, (job, layer)) in folded.iter_mut().zip(jobs) {
        match layer.folded_job(stream, job)? {
            Some(job) => *to = job,
            None => return Ok(None),
        }
    }
    Ok(Some(folded))
}
