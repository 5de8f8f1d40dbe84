//! The CUDA implementation of [`arg_max`](super::arg_max()): one launch, equal to the CPU.

use super::ArgMax;
use super::kernels::{ArgMaxArgs, Rows};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, check_floats, row_grid};
use crate::dense::layout::RowLayout;
use crate::dense::reduce::check_reduced;
use crate::device::cuda::{CudaDevice, Kernel};
use det_post_types::{ElementType, Error, ErrorKind, Result};

/// The loaded kernel.
pub struct ArgMaxes {
    rows: Kernel<Rows>,
}

impl ArgMaxes {
    /// Loads the kernel.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { rows: device.kernel()? })
    }

    /// Queues the search in a tensor of f16 or f32; positions are i32.
    ///
    /// # Errors
    /// `Argument` when the axis is not there, the dims of the output are not the dims of the input
    /// with 1 along the axis, or the windows are not within their buffers, overlap, are of other
    /// elements or have 2^32; `Device` when the launch fails.
    pub fn enqueue(
        &self,
        arena: &Arena,
        search: &ArgMax,
        input: &Region,
        output: &Region,
    ) -> Result<()> {
        check_reduced("arg_max", input, &[search.axis], output)?;
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        check_disjoint("arg_max", &[&output], &[&input], InPlace::Refused)?;
        check_floats("arg_max", &[input.element()])?;
        if output.element() != ElementType::I32 {
            let message = format!("an output of {}, i32 required", output.element());
            return Err(Error::new(ErrorKind::Argument, "arg_max", message));
        }
        let (source, target) = (&input.region().window, &output.region().window);
        if target.is_empty() {
            return Ok(());
        }
        let strides = [source.strides(), target.strides()];
        let layout = RowLayout::new(source.dims(), &[search.axis], strides)?;
        let args = ArgMaxArgs {
            source: Source::new(&input, layout.strides[0]),
            target: Target::new(&output, layout.strides[1]),
            dims: layout.dims,
            is_smallest: u32::from(search.is_smallest),
            is_last: u32::from(search.is_last),
        };
        self.rows.enqueue_dependent(arena.stream(), row_grid(&args.dims), args)
    }
}
