//! One CUDA GPU: context, streams, memory, graphs and kernels.
//!
//! The layers, from the bottom: the driver's library (`cudarc`); memory and
//! streams; kernels whose parameters are checked before every launch
//! ([`KernelSpec`]); containers of values in device memory. Operations, outside
//! this module, declare what their kernels take. A [`Stream`] owns all memory that
//! is allocated on it and frees it when the last of its buffers, graphs and
//! handles is dropped; therefore no queued work outlives its memory.

mod branches;
pub mod diagnostic;
mod event;
mod graph;
mod kernel;
mod memory;
mod modules;
mod open;
mod registered;
pub(crate) mod shared;
mod stream;
mod tensor;

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::{CUdevice_attribute, CUresult};
use cudarc::driver::{CudaContext, DriverError};

pub use det_post_kernels::Kind;
pub use event::Event;
pub use graph::{CaptureLock, Graph, lock_capture};
pub use kernel::{DependentKernel, Grid, Kernel, KernelSpec};
pub(crate) use kernel::{blocks, check_len, check_lens, check_threads, kernel_specs, refused};
pub(crate) use memory::Rows;
pub use memory::{
    BUFFER_ALIGNMENT, DeviceBuffer, DevicePayload, In, InPlaceUploads, MappedBuffer, Out,
    PageLocked, PinnedBuffer, Plain, TAIL_BYTES, TransferBytes, UploadScope, VECTOR_BYTES,
};
pub use open::request_connections;
pub use registered::RegisteredFiles;
pub use shared::Mirror;
pub(crate) use shared::{kernel_constant, mirrors, rust_field};
pub use stream::Stream;
pub(crate) use tensor::not_floats;
pub use tensor::{DeviceFloat, DeviceTensor, DeviceValues, PinnedTensor};

pub(crate) use super::error;
use det_post_types::{Error, ErrorKind, Result};

/// Whether this build has kernels.
pub(super) fn has_kernels() -> bool {
    modules::check_built().is_ok()
}

/// An opened GPU. Clones share it.
#[derive(Clone)]
pub struct CudaDevice {
    inner: Arc<Inner>,
}

struct Inner {
    modules: modules::Modules,
    context: Arc<CudaContext>,
    name: String,
    num_multiprocessors: u32,
    resident_threads: u32,
}

impl CudaDevice {
    /// Opens GPU `ordinal`. Everything that opens the same GPU shares it.
    ///
    /// # Errors
    /// `Device`: no kernels in this build, no driver library, a driver older
    /// than CUDA 12.6, no GPU of that number, or an error of the driver;
    /// `DeviceLost` after a fault.
    pub fn open(ordinal: u32) -> Result<Self> {
        open::open(ordinal)
    }

    /// Whether this build has kernels and this machine a supported driver and GPU `ordinal`.
    ///
    /// # Errors
    /// As [`CudaDevice::open`], before a GPU is opened.
    pub fn check_present(ordinal: u32) -> Result<()> {
        open::check_present(ordinal)
    }

    /// The number of GPUs of this machine.
    ///
    /// # Errors
    /// As [`CudaDevice::open`], before a GPU is opened.
    pub fn count() -> Result<u32> {
        open::count()
    }

    /// Whether the GPU is usable: after a fault of any kernel, all its streams,
    /// buffers and graphs fail.
    ///
    /// # Errors
    /// `DeviceLost` with the fault.
    pub fn check(&self) -> Result<()> {
        open::check(self.context())
    }

    /// A new stream: a queue of work with separate memory.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// The handle of a kernel, checked against its declaration.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel, or one with a parameter of
    /// another size.
    pub fn kernel<K: KernelSpec>(&self) -> Result<Kernel<K>> {
        Kernel::load(self)
    }

    /// The handle of a kernel that only some architectures have; `None` where this GPU's
    /// code is without it.
    ///
    /// # Errors
    /// `Device` when the kernel has a parameter of another size, or with the driver's error.
    pub fn kernel_if_present<K: KernelSpec>(&self) -> Result<Option<Kernel<K>>> {
        Kernel::find(self)
    }

    /// Bytes of memory that no program has allocated.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn free_memory(&self) -> Result<usize> {
        let (free, _) = self.memory_info()?;
        Ok(free)
    }

    /// Whether no program has allocated half of the memory.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn is_half_free(&self) -> Result<bool> {
        let (free, all) = self.memory_info()?;
        Ok(free >= all / 2)
    }

    /// Bytes of memory that are free, and of all.
    fn memory_info(&self) -> Result<(usize, usize)> {
        self.context().mem_get_info().map_err(|e| failed("query the free memory", e))
    }

    /// The most bytes of shared memory that a block may have.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn shared_bytes_per_block(&self) -> Result<u32> {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let bytes = self.context().attribute(attribute);
        Ok(bytes.map_err(|e| failed("query the shared memory of a block", e))?.unsigned_abs())
    }

    /// The number of multiprocessors: what a launch is tuned by, and no result depends on.
    pub fn num_multiprocessors(&self) -> u32 {
        self.inner.num_multiprocessors
    }

    /// The most blocks of a grid whose blocks loop over their items: as many as are resident.
    pub(crate) fn resident_blocks(&self, threads_per_block: u32) -> u32 {
        (self.inner.resident_threads / threads_per_block).max(1)
    }

    /// Whether the GPU shares its memory with the CPU.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn is_integrated(&self) -> Result<bool> {
        let attribute =
            self.context().attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED);
        Ok(attribute.map_err(|e| failed("query the kind of the GPU", e))? != 0)
    }

    /// The number of this GPU.
    pub fn ordinal(&self) -> usize {
        self.inner.context.ordinal()
    }

    /// Makes the context of this GPU that of the thread, which other threads' recordings of graphs then
    /// do not hold up.
    pub(crate) fn bind(&self) -> Result<()> {
        self.context().bind_to_thread().map_err(|e| failed("use the GPU", e))?;
        stream::ignore_other_recordings()
    }

    fn context(&self) -> &Arc<CudaContext> {
        &self.inner.context
    }

    fn modules(&self) -> &modules::Modules {
        &self.inner.modules
    }
}

impl fmt::Display for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} ({})", self.ordinal(), self.inner.name)
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A driver error, with what was attempted.
fn failed(what: &str, driver: DriverError) -> Error {
    let kind = if is_fault(driver.0) { ErrorKind::DeviceLost } else { ErrorKind::Device };
    Error::new(kind, "device", format!("cannot {what}")).with_source(driver)
}

/// Whether a result of the driver means that a kernel, or the GPU itself, has
/// failed: every later call returns it as well.
fn is_fault(result: CUresult) -> bool {
    matches!(
        result,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUresult::CUDA_ERROR_SYSTEM_NOT_READY
            | CUresult::CUDA_ERROR_UNKNOWN
    )
}
