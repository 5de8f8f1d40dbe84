//! Stacks whose normalizations are folded into the layers that follow them, in one launch: a stack
//! over rows, then stacks over columns of its values; or several stacks over rows.
//!
//! Only GPUs of compute capability 9.0 have the kernel, and only for f16; others, and layers
//! that do not fit it, take [`StackKernel`](super::cuda::StackKernel). A block takes 8 rows through
//! all layers; every warp reads the weights of its outputs as one stream. Results are within
//! the bounds of those stacks, and the same from run to run. Rows are not normalized: the moments of
//! a row correct the sums of the layer after it. The variance is a difference of mean squares, so
//! that rows whose mean is more than some hundred times their deviation lose digits.

mod args;
mod check;
#[expect(unsafe_code, reason = "the block argues that the kernel fits its parameters")]
mod kernels;
mod layout;
mod pack;
#[cfg(test)]
mod tests;

pub use args::{BOX_LEN, MAX_COLUMNS, MAX_JOBS, MAX_LAYERS};

use args::{FoldedArgs, MAX_ROW_STACKS, SHARED_BYTES, StreamArgs, THREADS_PER_BLOCK, WARPS};
use kernels::{Folded, num_blocks};
use layout::{Layout, Stack};

use super::cuda::StackArgs;
use crate::device::cuda::{DeviceBuffer, Grid, In, Kernel, Out, Stream};
use crate::sparse::conv::Precision;
use crate::view::linear::LinearLayer;
use crate::view::linear::cuda::Element;
use det_post_types::{Error, ErrorKind, Result};

/// Stacks of one launch in device memory, with their kernel.
pub struct FoldedStacks<T: Element> {
    kernel: Kernel<Folded<T>>,
    streams: DeviceBuffer<u8>,
    warps: [[StreamArgs; WARPS]; MAX_ROW_STACKS],
    /// Of stacks over rows, then of those over columns.
    layouts: Vec<Layout>,
    num_of_rows: usize,
}

impl<T: Element> FoldedStacks<T> {
    /// Packs stacks over rows, and stacks over columns of f32: of the values of the one stack over
    /// rows, or, without that, of rows that the launch reads. Each of `columns` is the first column
    /// and the layers, the first of which has a ReLU and a normalization.
    ///
    /// `None` when the elements are not f16, the GPU has no such kernel, or the kernel no such stacks:
    /// rows of 32 to 256 channels in steps of 32 to at most [`BOX_LEN`] values without a
    /// normalization; 2 or 3 columns to a multiple of 8 outputs; at most 256 channels between
    /// layers, and of all stacks over columns together, each in whole steps of 32; no ReLU after a
    /// normalization; three stacks over rows, without columns after more than one; weights that times the
    /// factor of the normalization are finite in f16.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn new(
        stream: &Stream,
        rows: &[&[LinearLayer]],
        columns: &[(usize, &[LinearLayer])],
    ) -> Result<Option<Self>> {
        if T::PRECISION != Precision::F16 {
            return Ok(None);
        }
        let Some(stacks) = layouts(rows, columns) else { return Ok(None) };
        let kernel: Option<Kernel<Folded<T>>> = stream.device().kernel_if_present()?;
        let fits =
            |kernel: &Kernel<_>| kernel.reserve_shared(SHARED_BYTES, THREADS_PER_BLOCK).is_ok();
        let Some(kernel) = kernel.filter(fits) else { return Ok(None) };
        let num_of_rows = rows.len();
        let Some(packed) = pack::pack(sets(&stacks, num_of_rows)) else { return Ok(None) };
        let mut streams = DeviceBuffer::zeros(stream, packed.streams.len())?;
        streams.write(&packed.streams)?;
        let layouts = stacks.into_iter().map(|(_, layout)| layout).collect();
        Ok(Some(Self { kernel, streams, warps: packed.warps, layouts, num_of_rows }))
    }

    /// Queues stacks over rows, and those over columns of the values of one. `rows` are as
    /// [`StackKernel`](super::cuda::StackKernel) takes them, with values and as many rows each, but
    /// their layers are those that are packed here. An interval has to be written only by copies,
    /// not by another kernel. The outputs of stacks over columns are side by side in rows of `stride`
    /// values from `output` on.
    ///
    /// # Errors
    /// `Argument` when there are other stacks over rows, or rows, values or outputs do not fit the
    /// stacks; `Device` when something belongs to another stream or the launch fails.
    pub fn enqueue(
        &self,
        stream: &Stream,
        rows: &[StackArgs<'_, T>],
        output: (Out<'_, T>, u32),
    ) -> Result<()> {
        let num_rows = rows.first().map_or(0, |first| first.num_rows);
        let are_possible = rows.len() == self.num_of_rows
            && rows.iter().all(|rows| rows.columns.is_empty() && rows.num_rows == num_rows);
        if self.num_of_rows == 0 || !are_possible {
            return argument(&format!(
                "{} stacks over rows, packed are {}; of as many rows each",
                rows.len(),
                self.num_of_rows
            ));
        }
        let mut args = self.args(stream, num_rows, output)?;
        for (job, rows) in args.jobs.iter_mut().zip(rows) {
            job.rows = rows.rows;
            (job.row_stride, job.row_len) = (rows.row_stride, rows.row_len);
            job.norm = rows.norm;
            (job.normalized, job.normalized_stride) = (rows.normalized, rows.normalized_stride);
            (job.addend, job.addend_stride) = (rows.addend, rows.addend_stride);
            (job.values, job.output_stride) = (rows.values, rows.output_stride);
            (job.summand, job.interval) = (rows.summand, rows.interval);
            let is_divided = !rows.interval.is_empty();
            job.first_divided = if is_divided { rows.first_divided } else { u32::MAX };
        }
        self.launch(stream, &args)
    }

    /// Queues stacks over columns of `num_rows` rows of `stride` values; outputs are as those of
    /// [`Self::enqueue`].
    ///
    /// # Errors
    /// As [`Self::enqueue`], and when there is a stack over rows.
    pub fn enqueue_over_columns(
        &self,
        stream: &Stream,
        (columns, stride): (In<'_, f32>, usize),
        num_rows: usize,
        output: (Out<'_, T>, u32),
    ) -> Result<()> {
        if self.num_of_rows > 0 {
            return argument("a stack over rows is not allowed here");
        }
        let mut args = self.args(stream, num_rows as u32, output)?;
        for (index, (job, layout)) in args.jobs.iter_mut().zip(&self.layouts).enumerate() {
            job.columns = columns.from(layout.first_column);
            job.column_stride = stride as u32;
            // Where the kernel places them.
            job.first_column = (MAX_COLUMNS * index) as u32;
        }
        self.launch(stream, &args)
    }

    /// The stacks without what they read, and the values of the first.
    fn args<'a>(
        &'a self,
        stream: &Stream,
        num_rows: u32,
        (mut output, stride): (Out<'a, T>, u32),
    ) -> Result<FoldedArgs<'a, T>> {
        let mut args = FoldedArgs {
            streams: self.streams.input(stream)?,
            warps: self.warps,
            num_jobs: self.layouts.len() as u32,
            num_row_jobs: self.num_of_rows as u32,
            num_rows,
            ..FoldedArgs::empty()
        };
        for (to, layout) in args.jobs.iter_mut().zip(&self.layouts) {
            *to = layout.args();
            if layout.num_columns > 0 {
                (to.output, to.output_stride) = (output, stride);
                [_, output] = output.split_at(layout.num_values);
            }
        }
        Ok(args)
    }

    fn launch(&self, stream: &Stream, args: &FoldedArgs<'_, T>) -> Result<()> {
        let grid = Grid { num_blocks: num_blocks(args), threads_per_block: THREADS_PER_BLOCK };
        self.kernel.enqueue_dependent(stream, grid, *args)
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        self.streams.len()
    }
}

/// The stacks with their layouts; `None` when the kernel has no such stacks.
fn layouts<'a>(
    rows: &[&'a [LinearLayer]],
    columns: &[(usize, &'a [LinearLayer])],
) -> Option<Vec<(Stack<'a>, Layout)>> {
    let mut stacks = Vec::with_capacity(MAX_JOBS);
    for layers in rows {
        let stack = Stack { first: None, layers };
        stacks.push((stack, Layout::new(stack, 0)?));
    }
    let num_values = stacks.first().map(|(_, layout)| layout.num_values);
    let mut first_warp = 0;
    for &(column, layers) in columns {
        let (first, layers) = layers.split_first()?;
        let stack = Stack { first: Some((first, column)), layers };
        let layout = Layout::new(stack, first_warp)?;
        if num_values.is_some_and(|num| column + layout.num_columns > num) {
            return None;
        }
        first_warp += layout.num_warps;
        stacks.push((stack, layout));
    }
    // One place is that of a stack over rows.
    let fits = !stacks.is_empty()
        && columns.len() < MAX_JOBS
        && rows.len() <= MAX_ROW_STACKS
        && (rows.len() <= 1 || columns.is_empty());
    fits.then_some(stacks)
}

/// The stacks of each block.
fn sets<'a>(
    stacks: &'a [(Stack<'a>, Layout)],
    num_of_rows: usize,
) -> std::slice::Chunks<'a, (Stack<'a>, Layout)> {
    stacks.chunks(if num_of_rows > 1 { 1 } else { stacks.len() })
}

fn argument<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "layer_stack", message))
}
