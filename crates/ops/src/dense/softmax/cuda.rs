//! The CUDA implementation of [`softmax`](super::softmax()): one launch.

use super::Softmax;
use super::kernels::{MAX_SHORT, Rows, SHORT_THREADS, Short16, Short32, SoftmaxArgs};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, check_floats, is_aligned, row_grid};
use crate::dense::layout::RowLayout;
use crate::device::cuda::{CudaDevice, Grid, Kernel};
use det_post_types::{ElementType, Result};

/// The loaded kernels.
pub struct Softmaxes {
    rows: Kernel<Rows>,
    short_16: Kernel<Short16>,
    short_32: Kernel<Short32>,
}

impl Softmaxes {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { rows: device.kernel()?, short_16: device.kernel()?, short_32: device.kernel()? })
    }

    /// Queues the softmax of a tensor of f16 or f32 to one of either.
    ///
    /// # Errors `Argument` when the dims do not fit or have no such axis, or the windows are not
    /// within their buffers, overlap without being the same, are of i32 or have 2^32 elements;
    /// `Device` when the launch fails.
    pub fn enqueue(
        &self,
        arena: &Arena,
        softmax: &Softmax,
        input: &Region,
        output: &Region,
    ) -> Result<()> {
        softmax.check(input, output)?;
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        let weights = softmax.weights.as_ref().map(|region| arena.input(region)).transpose()?;
        let in_place = if weights.is_some() { InPlace::Refused } else { InPlace::SameWindow };
        check_disjoint("softmax", &[&output], &[&input], in_place)?;
        let weights_or_input = weights.unwrap_or(input);
        check_disjoint("softmax", &[&output], &[&weights_or_input], in_place)?;
        check_floats("softmax", &[input.element(), weights_or_input.element(), output.element()])?;
        let (source, target) = (&input.region().window, &output.region().window);
        if target.is_empty() {
            return Ok(());
        }
        let of_weights = weights_or_input.region().window.strides();
        let strides = [source.strides(), target.strides(), of_weights];
        let layout = RowLayout::new(source.dims(), &[softmax.axis], strides)?;
        let (kept, row) = layout.strides[0].split_at(layout.dims.num_kept as usize);
        let is_vector =
            row[0] == 1 && is_aligned(input.bytes().is_aligned_to(16), kept.iter().copied());
        let args = SoftmaxArgs {
            source: Source::new(&input, layout.strides[0]),
            weights: weights
                .map_or_else(Source::none, |weights| Source::new(&weights, layout.strides[2])),
            target: Target::new(&output, layout.strides[1]),
            dims: layout.dims,
            is_log: u32::from(softmax.is_log),
            is_fast: u32::from(output.element() == ElementType::F16),
            is_vector: u32::from(is_vector),
            reserved: 0,
        };
        let num_blocks = [args.dims.num_rows.div_ceil(SHORT_THREADS), 1];
        let grid = Grid { num_blocks, threads_per_block: SHORT_THREADS };
        let stream = arena.stream();
        match MAX_SHORT.map(|most| args.is_short(most)) {
            [true, _] => self.short_16.enqueue_dependent(stream, grid, args),
            [_, true] => self.short_32.enqueue_dependent(stream, grid, args),
            _ => self.rows.enqueue_dependent(stream, row_grid(&args.dims), args),
        }
    }
}
