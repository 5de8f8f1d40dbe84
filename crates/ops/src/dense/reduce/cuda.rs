//! The CUDA implementation of [`reduce`](super::reduce()): one launch, equal to the CPU.

use super::kernels::{ReduceArgs, Rows, code};
use super::{Reduction, check};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, check_floats, row_grid};
use crate::dense::layout::RowLayout;
use crate::device::cuda::{CudaDevice, Kernel};
use det_post_types::Result;

/// The loaded kernel.
pub struct Reductions {
    rows: Kernel<Rows>,
}

impl Reductions {
    /// Loads the kernel.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { rows: device.kernel()? })
    }

    /// Queues the reduction of a tensor of f16 or f32 to one of either.
    ///
    /// # Errors
    /// `Argument` when the axes are not there, the dims of the output are not the dims of the input
    /// with 1 along the axes, or the windows are not within their buffers, overlap, are of i32 or
    /// have 2^32 elements; `Device` when the launch fails.
    pub fn enqueue(
        &self,
        arena: &Arena,
        reduction: Reduction,
        axes: &[usize],
        input: &Region,
        output: &Region,
    ) -> Result<()> {
        check(input, axes, output)?;
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        check_disjoint("reduce", &[&output], &[&input], InPlace::Refused)?;
        check_floats("reduce", &[input.element(), output.element()])?;
        let (source, target) = (&input.region().window, &output.region().window);
        if target.is_empty() {
            return Ok(());
        }
        let strides = [source.strides(), target.strides()];
        let layout = RowLayout::new(source.dims(), axes, strides)?;
        let args = ReduceArgs {
            source: Source::new(&input, layout.strides[0]),
            target: Target::new(&output, layout.strides[1]),
            dims: layout.dims,
            reduction: code(reduction),
            reserved: 0,
        };
        self.rows.enqueue_dependent(arena.stream(), row_grid(&args.dims), args)
    }
}
