//! The CUDA implementation of [`cumsum`](super::cumsum()): one launch, equal to the CPU.

use super::CumSum;
use super::kernels::{CumSumArgs, Rows, THREADS_PER_BLOCK};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, check_same_kind, item_grid};
use crate::dense::layout::RowLayout;
use crate::device::cuda::{CudaDevice, Kernel};
use det_post_types::Result;

/// The loaded kernel.
pub struct CumSums {
    rows: Kernel<Rows>,
}

impl CumSums {
    /// Loads the kernel.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { rows: device.kernel()? })
    }

    /// Queues the sums of a tensor.
    ///
    /// # Errors
    /// `Argument` when the dims differ or have no such axis, or the windows are not within their
    /// buffers, overlap without being the same, are not both of floats or both of i32, or have
    /// 2^32 elements; `Device` when the launch fails.
    pub fn enqueue(
        &self,
        arena: &Arena,
        op: &CumSum,
        input: &Region,
        output: &Region,
    ) -> Result<()> {
        op.check(input, output)?;
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        check_disjoint("cumsum", &[&output], &[&input], InPlace::SameWindow)?;
        check_same_kind("cumsum", input.element(), output.element())?;
        let (source, target) = (&input.region().window, &output.region().window);
        if target.is_empty() {
            return Ok(());
        }
        let strides = [source.strides(), target.strides()];
        let layout = RowLayout::new(source.dims(), &[op.axis], strides)?;
        let args = CumSumArgs {
            source: Source::new(&input, layout.strides[0]),
            target: Target::new(&output, layout.strides[1]),
            dims: layout.dims,
            is_exclusive: u32::from(op.is_exclusive),
            is_reversed: u32::from(op.is_reversed),
        };
        let grid = item_grid(args.dims.num_rows, THREADS_PER_BLOCK);
        self.rows.enqueue_dependent(arena.stream(), grid, args)
    }
}
