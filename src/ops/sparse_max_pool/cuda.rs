//! The CUDA implementation of [`sparse_max_pool`](super::sparse_max_pool): equal to the
//! CPU.

use super::kernels::{PoolArgs, PoolBf16, PoolF16, PoolF32, THREADS_PER_BLOCK};
use crate::device::cuda::{Grid as Blocks, Kernel, Stream, blocks};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::rulebook::cuda::{DeviceSites, DeviceTable};
use crate::ops::sparse_conv::Precision;
use crate::ops::sparse_conv::cuda::DeviceFeatures;

/// Kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    f32: Kernel<PoolF32>,
    f16: Kernel<PoolF16>,
    bf16: Kernel<PoolBf16>,
}

impl Workspace {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            stream: stream.clone(),
            f32: device.kernel()?,
            f16: device.kernel()?,
            bf16: device.kernel()?,
        })
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
        let fits = features.precision() == precision
            && table.capacity() >= sites.capacity()
            && features.holds(table.input_capacity(), row_len);
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
            reserved: 0,
        };
        let num_blocks = [blocks(sites.capacity() * row_len, THREADS_PER_BLOCK), 1];
        let grid = Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        match precision {
            Precision::F32 | Precision::Tf32 => self.f32.enqueue(stream, grid, args),
            Precision::F16 => self.f16.enqueue(stream, grid, args),
            Precision::Bf16 => self.bf16.enqueue(stream, grid, args),
        }
    }
}
