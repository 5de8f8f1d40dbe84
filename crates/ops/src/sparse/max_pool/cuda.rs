//! The CUDA implementation of [`sparse_max_pool`](super::sparse_max_pool): equal to the
//! CPU.

use super::kernels::{PoolArgs, PoolBf16, PoolF16, PoolF32, THREADS_PER_BLOCK};
use crate::device::cuda::{Grid as Blocks, Stream, blocks};
use crate::sparse::conv::ByPrecision;
use crate::sparse::conv::cuda::DeviceFeatures;
use crate::sparse::rulebook::cuda::{DeviceSites, DeviceTable};
use det_post_types::{Error, ErrorKind, Result};

/// Kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    pool: ByPrecision<PoolF32, PoolF16, PoolBf16>,
}

impl Workspace {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn new(stream: &Stream) -> Result<Self> {
        Ok(Self { stream: stream.clone(), pool: ByPrecision::load(stream.device())? })
    }

    /// Queues the writing of the rows of `out`, which are of the level of `sites`, from
    /// rows of `num_channels` of the level that the table reads.
    ///
    /// # Errors
    /// `Argument` when the table has too few rows or the features are stored otherwise;
    /// `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &self,
        features: &DeviceFeatures,
        num_channels: usize,
        (table, sites): (&DeviceTable, &DeviceSites),
        out: &mut DeviceFeatures,
    ) -> Result<()> {
        let precision = out.precision();
        let row_len = DeviceFeatures::row_len(num_channels);
        let fits = features.precision() == precision && table.capacity() >= sites.capacity();
        if !fits {
            let message = format!(
                "a table of {} rows for {} sites, {:?} to {precision:?}",
                table.capacity(),
                sites.capacity(),
                features.precision()
            );
            return Err(Error::new(ErrorKind::Argument, "sparse_max_pool", message));
        }
        let stream = &self.stream;
        let [width, num_groups, stride] = table.layout();
        let args = PoolArgs {
            features: features.bytes.input(stream)?,
            words: table.words(stream)?,
            counts: sites.counts(stream)?,
            output: out.bytes.output(stream)?,
            num_groups,
            width,
            stride,
            num_channels: row_len as u32,
            capacity: sites.capacity() as u32,
            num_input_rows: table.input_capacity() as u32,
        };
        let num_blocks = [blocks(sites.capacity() * row_len, THREADS_PER_BLOCK), 1];
        let grid = Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        self.pool.enqueue(precision, stream, grid, args)
    }
}
