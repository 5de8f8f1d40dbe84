//! The CUDA implementation of [`gather`](super::gather()): one launch, equal to the CPU.

use super::Gather;
use super::kernels::{Elements, GatherArgs, THREADS_PER_BLOCK};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, check_indices, check_same_kind, item_grid};
use crate::dense::layout::Layout;
use crate::device::cuda::{CudaDevice, Kernel};
use det_post_types::{ElementType, Result};

/// The loaded kernel.
pub struct Gathers {
    elements: Kernel<Elements>,
}

impl Gathers {
    /// Loads the kernel.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { elements: device.kernel()? })
    }

    /// Queues the selection at indices, which are i32.
    ///
    /// # Errors
    /// `Argument` when the dims do not fit, input and output are not both of floats or both of
    /// i32, or the windows are not within their buffers, overlap or have 2^32 elements; `Device`
    /// when the launch fails.
    pub fn enqueue(
        &self,
        arena: &Arena,
        gather: &Gather,
        input: &Region,
        indices: &Region,
        output: &Region,
    ) -> Result<()> {
        let spread = gather.check(input, indices, output)?;
        let (axis_len, axis_stride) =
            (input.window.dims()[gather.axis], input.window.strides()[gather.axis]);
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        let indices = arena.input(indices)?;
        check_disjoint("gather", &[&output], &[&input, &indices], InPlace::Refused)?;
        check_indices("gather", indices.element())?;
        check_same_kind("gather", input.element(), output.element())?;
        let target = &output.region().window;
        if target.is_empty() {
            return Ok(());
        }
        let strides = [spread.input.strides(), spread.indices.strides(), target.strides()];
        let layout = Layout::new(target.dims(), strides).ordered_by(2).merged();
        let is_integer = output.element() == ElementType::I32;
        let args = GatherArgs {
            source: Source::new(&input, layout.strides[0]),
            indices: Source::new(&indices, layout.strides[1]),
            target: Target::new(&output, layout.strides[2]),
            dims: layout.dims()?,
            axis_len: axis_len as u32,
            axis_stride: axis_stride as u32,
            num_items: layout.len() as u32,
            absent: if is_integer { i32::MIN.cast_unsigned() } else { f32::NAN.to_bits() },
        };
        let grid = item_grid(args.num_items, THREADS_PER_BLOCK);
        self.elements.enqueue_dependent(arena.stream(), grid, args)
    }
}
