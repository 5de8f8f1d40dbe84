//! The CUDA implementation of [`scatter_nd`](super::scatter_nd()): one launch, equal to the CPU.

use super::Scatter;
use super::kernels::{Elements, ScatterArgs, THREADS_PER_BLOCK};
use crate::dense::MAX_RANK;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, check_indices, check_same_kind, item_grid};
use crate::dense::layout::Layout;
use crate::device::cuda::{CudaDevice, Kernel};
use det_post_types::Result;

/// The loaded kernel.
pub struct Scatters {
    elements: Kernel<Elements>,
}

impl Scatters {
    /// Loads the kernel.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { elements: device.kernel()? })
    }

    /// Queues the writing of updates at indices, which name no element twice.
    ///
    /// # Errors
    /// `Argument` when the dims do not fit, updates and output are not both of floats or both of
    /// i32, or the windows are not within their buffers, overlap or have 2^32 elements; `Device`
    /// when the launch fails.
    pub fn enqueue(&self, arena: &Arena, scatter: &Scatter) -> Result<()> {
        let num_axes = scatter.check()?;
        let (indices, updates) = (arena.input(&scatter.indices)?, arena.input(&scatter.updates)?);
        let output = arena.output(&scatter.output)?;
        check_disjoint("scatter_nd", &[&output], &[&indices, &updates], InPlace::Refused)?;
        check_indices("scatter_nd", indices.element())?;
        check_same_kind("scatter_nd", updates.element(), output.element())?;
        let [of_indices, of_updates, target] =
            [&scatter.indices, &scatter.updates, &scatter.output].map(|region| &region.window);
        if of_updates.is_empty() {
            return Ok(());
        }
        // The dims of the updates: the dims of the tuples, then the output's from `num_axes` on.
        let num_tuples = of_indices.rank() - 1;
        let mut strides = [[0; MAX_RANK]; 2];
        strides[0][..num_tuples].copy_from_slice(&of_indices.strides()[..num_tuples]);
        let rest = &target.strides()[num_axes..];
        strides[1][num_tuples..num_tuples + rest.len()].copy_from_slice(rest);
        let strides = [&strides[0][..], of_updates.strides(), &strides[1][..]];
        let layout = Layout::new(of_updates.dims(), strides).merged();
        let mut axis_lens = [0; MAX_RANK];
        for (to, &dim) in axis_lens.iter_mut().zip(&target.dims()[..num_axes]) {
            *to = dim as u32;
        }
        let mut axis_strides = [0; MAX_RANK];
        for (to, &stride) in axis_strides.iter_mut().zip(&target.strides()[..num_axes]) {
            *to = stride as u32;
        }
        let args = ScatterArgs {
            indices: Source::new(&indices, layout.strides[0]),
            updates: Source::new(&updates, layout.strides[1]),
            target: Target::new(&output, layout.strides[2]),
            dims: layout.dims()?,
            axis_lens,
            axis_strides,
            num_axes: num_axes as u32,
            number_stride: of_indices.strides()[num_tuples] as u32,
            num_items: layout.len() as u32,
            reserved: 0,
        };
        let grid = item_grid(args.num_items, THREADS_PER_BLOCK);
        self.elements.enqueue_dependent(arena.stream(), grid, args)
    }
}
