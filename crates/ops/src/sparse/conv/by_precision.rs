//! A kernel for each way in which features are stored.

use super::Precision;
use crate::device::cuda::{CudaDevice, Grid, Kernel, KernelSpec, Stream};
use det_post_types::Result;

/// A kernel in three versions, which differ only in the stored element.
pub(crate) struct ByPrecision<F32, F16, Bf16> {
    f32: Kernel<F32>,
    f16: Kernel<F16>,
    bf16: Kernel<Bf16>,
}

impl<F32, F16, Bf16> ByPrecision<F32, F16, Bf16>
where
    F32: KernelSpec,
    F16: for<'a> KernelSpec<Args<'a> = F32::Args<'a>>,
    Bf16: for<'a> KernelSpec<Args<'a> = F32::Args<'a>>,
{
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub(crate) fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { f32: device.kernel()?, f16: device.kernel()?, bf16: device.kernel()? })
    }

    /// Queues the version for features of a precision.
    ///
    /// # Errors
    /// As [`Kernel::enqueue`].
    pub(crate) fn enqueue(
        &self,
        precision: Precision,
        stream: &Stream,
        grid: Grid,
        args: F32::Args<'_>,
    ) -> Result<()> {
        match precision {
            Precision::F32 | Precision::Tf32 => self.f32.enqueue(stream, grid, args),
            Precision::F16 => self.f16.enqueue(stream, grid, args),
            Precision::Bf16 => self.bf16.enqueue(stream, grid, args),
        }
    }
}
