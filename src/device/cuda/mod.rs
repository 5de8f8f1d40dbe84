//! One CUDA GPU: its context, its kernels, and what runs on them.
//!
//! Floors, lower never names higher: the driver's library (`cudarc`), memory
//! and streams, kernels whose parameters are checked ([`KernelSpec`]), and the
//! ops outside this room, which say what their kernels take. A [`Stream`] owns all memory
//! that is taken on it and gives it back when the last of its buffers, graphs
//! and handles is gone; therefore no queued work outlives its memory.

mod candidates;
mod cloud;
pub mod diagnostic;
mod graph;
mod image;
mod kernel;
mod memory;
mod open;
mod points;
pub(crate) mod shared;
mod stream;
mod tensor;

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaModule, DriverError};

pub use candidates::DeviceCandidates;
pub use cloud::{CloudLayout, DeviceCloud, num_bytes};
pub use graph::Graph;
pub(crate) use graph::recording;
pub use image::{DeviceImage, ImageLayout, TAIL_BYTES};
pub use kernel::{Grid, Kernel, KernelSpec};
pub(crate) use kernel::{blocks, check_len, check_threads, refused};
pub use memory::{
    DeviceBuffer, In, Lender, Loans, MappedBuffer, Out, PageLocked, PinnedBuffer, Plain,
};
pub use points::DevicePoints;
pub(crate) use shared::{assert_mirrors, kernel_constant, kernel_struct_size};
pub use stream::{Event, Stream};
pub use tensor::{DeviceTensor, DeviceValues, PinnedTensor};

use super::error;
use crate::error::{Error, ErrorKind, Result};

/// A GPU, opened, with this program's kernels loaded. Clones share it.
#[derive(Clone)]
pub struct CudaDevice {
    inner: Arc<Inner>,
}

struct Inner {
    // Dropped in this order: the module belongs to the context.
    module: Arc<CudaModule>,
    context: Arc<CudaContext>,
    name: String,
}

impl CudaDevice {
    /// Opens GPU `ordinal`, without a panic whatever is missing. All who open
    /// it share it.
    ///
    /// # Errors
    /// `Device`: no kernels in this build, no driver library, a driver older
    /// than CUDA 12.6, no GPU of that number, or what the driver says;
    /// `DeviceLost` after a fault.
    pub fn open(ordinal: u32) -> Result<Self> {
        open::open(ordinal)
    }

    /// Whether the GPU still answers: after a fault of any kernel on it, none
    /// of its streams, buffers and graphs does anything any more.
    ///
    /// # Errors
    /// `DeviceLost` with the fault.
    pub fn check(&self) -> Result<()> {
        open::check(self.context())
    }

    /// A new stream: a queue of work with memory of its own.
    ///
    /// # Errors
    /// `Device` with what the driver says.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// The handle of a kernel, checked against its declaration.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel, or one with parameters of
    /// another size or number.
    pub fn kernel<K: KernelSpec>(&self) -> Result<Kernel<K>> {
        Kernel::load(self)
    }

    /// Bytes of memory that nobody has taken, of all programs.
    ///
    /// # Errors
    /// `Device` with what the driver says.
    pub fn free_memory(&self) -> Result<usize> {
        let (free, _) =
            self.context().mem_get_info().map_err(|e| failed("ask for the free memory", e))?;
        Ok(free)
    }

    /// The number of this GPU.
    pub fn ordinal(&self) -> usize {
        self.inner.context.ordinal()
    }

    fn context(&self) -> &Arc<CudaContext> {
        &self.inner.context
    }

    fn module(&self) -> &Arc<CudaModule> {
        &self.inner.module
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

/// What the driver says, with what was tried.
fn failed(what: &str, driver: DriverError) -> Error {
    let kind = if is_fault(driver.0) { ErrorKind::DeviceLost } else { ErrorKind::Device };
    Error::new(kind, "device", format!("cannot {what}")).with_source(driver)
}

/// Whether an answer of the driver means that a kernel, or the GPU itself, has
/// failed: then it is the answer to everything from now on.
fn is_fault(answer: CUresult) -> bool {
    matches!(
        answer,
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
