//! The rows with the largest values on a GPU, copied in their order: the rows that stay beside
//! those of a memory, which are moved into the current frame, and the rows that a memory keeps.
//! The order is that of the CPU; values and boxes are computed as there, bit for bit.

pub use super::kernels::{MAX_ROWS, RowElement, TopRowsArgs};

use super::kernels::{ROWS_PER_BLOCK, THREADS_PER_BLOCK, shared_bytes};
use crate::device::cuda::{CudaDevice, Grid, Kernel, Stream};
use det_post_types::Result;

/// The loaded kernel.
pub struct TopRows<T: RowElement> {
    kernel: Kernel<T::TopRows>,
}

impl<T: RowElement> TopRows<T> {
    /// Loads the kernel for at most `max_rows` rows.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel, or the GPU has too little shared memory.
    pub fn load(device: &CudaDevice, max_rows: usize) -> Result<Self> {
        let kernel: Kernel<T::TopRows> = device.kernel()?;
        kernel.reserve_shared(shared_bytes(max_rows as u32), THREADS_PER_BLOCK)?;
        Ok(Self { kernel })
    }

    /// Queues the choice and the copies.
    ///
    /// # Errors
    /// `Argument` when the slices do not fit the rows; `Device` when the launch fails.
    pub fn enqueue(&self, stream: &Stream, args: TopRowsArgs<'_, T>) -> Result<()> {
        let num_blocks = [args.num_rows.div_ceil(ROWS_PER_BLOCK), 1];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        self.kernel.enqueue_dependent(stream, grid, args)
    }
}
