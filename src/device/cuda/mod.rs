//! One CUDA GPU: its context, its kernels, and what runs on them.
//!
//! Floors, lower never names higher: the driver's library (`cudarc`), memory
//! and streams, kernels with their checked parameters ([`abi`]), and the ops
//! outside this room, which have no unsafe code. A [`Stream`] owns all memory
//! that is taken on it and gives it back when the last of its buffers, graphs
//! and handles is gone; therefore no queued work outlives its memory.

pub mod abi;
mod candidates;
mod graph;
mod image;
mod kernel;
mod memory;
mod open;
mod stream;
mod tensor;

use std::fmt;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaModule, DriverError};

pub use candidates::DeviceCandidates;
pub use graph::Graph;
pub(crate) use graph::recording;
pub use image::{DeviceImage, ImageLayout};
pub(crate) use kernel::blocks;
pub use kernel::{Grid, Kernel, KernelSpec};
pub use memory::{DeviceBuffer, In, MappedBuffer, Out, PinnedBuffer, Plain};
pub use stream::{Event, Stream};
pub use tensor::{DeviceTensor, DeviceValues, PinnedTensor};

use super::error;
use crate::error::{Error, Result};

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
    /// it share it. After a fault, the first to open it when all have let go of
    /// it has it reset.
    ///
    /// # Errors
    /// `Device`: no kernels in this build, no driver library, a driver older
    /// than CUDA 12.6, no GPU of that number, a fault while others still hold
    /// it, or what the driver says.
    pub fn open(ordinal: u32) -> Result<Self> {
        open::open(ordinal)
    }

    /// Whether GPU `ordinal` has failed and somebody still holds it.
    pub fn is_held_after_fault(ordinal: u32) -> bool {
        open::held(ordinal).is_some_and(|device| device.check().is_err())
    }

    /// Whether the GPU still answers: after a fault of any kernel on it, none
    /// of its streams, buffers and graphs does anything any more.
    ///
    /// # Errors
    /// `Device` with the fault.
    pub fn check(&self) -> Result<()> {
        open::check(self.context()).map_err(|e| failed("use the GPU", e))
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
    error(format!("cannot {what}")).with_source(driver)
}
