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
mod stream;
mod tensor;

use std::fmt;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaModule, DriverError, result, sys};
use cudarc::nvrtc::Ptx;

pub use candidates::DeviceCandidates;
pub use graph::Graph;
pub use image::{DeviceImage, ImageLayout};
pub(crate) use kernel::blocks;
pub use kernel::{Grid, Kernel, KernelSpec};
pub use memory::{DeviceBuffer, In, MappedBuffer, Out, PinnedBuffer, Plain};
pub use stream::{Event, Stream};
pub use tensor::{DeviceTensor, DeviceValues, PinnedTensor};

use super::error;
use crate::error::{Error, Result};

/// The lowest driver, by the CUDA version that it implements: 12.6.
const MIN_DRIVER: i32 = 12_060;

#[cfg(kernels)]
const FATBIN: Option<&[u8]> = Some(include_bytes!(env!("DET_POST_FATBIN")));
#[cfg(not(kernels))]
const FATBIN: Option<&[u8]> = None;

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
    /// Opens GPU `ordinal`, without a panic whatever is missing.
    ///
    /// # Errors
    /// `Device`: no kernels in this build, no driver library, a driver older
    /// than CUDA 12.6, no GPU of that number, or what the driver says.
    pub fn open(ordinal: u32) -> Result<Self> {
        let fatbin = FATBIN.ok_or_else(|| {
            error("this program was built without kernels: no nvcc was found when it was built")
        })?;
        // SAFETY: loads the driver's library, whose initialisers are trusted as
        // far as any system library's; the call has no other precondition.
        if !unsafe { sys::is_culib_present() } {
            return Err(error("no CUDA driver library (libcuda) on this machine"));
        }
        result::init().map_err(|e| failed("start the driver", e))?;
        let mut version = 0;
        // SAFETY: the library is loaded (checked above) and writes one int into
        // a live local.
        unsafe { sys::cuDriverGetVersion(&raw mut version).result() }
            .map_err(|e| failed("ask for the driver's version", e))?;
        if version < MIN_DRIVER {
            let (found, needed) = (dotted(version), dotted(MIN_DRIVER));
            return Err(error(format!("the driver is for CUDA {found}, needed is {needed}")));
        }
        let num = CudaContext::device_count().map_err(|e| failed("count the GPUs", e))?;
        if i64::from(ordinal) >= i64::from(num) {
            return Err(error(format!("no GPU {ordinal}: this machine has {num}")));
        }
        let context = CudaContext::new(ordinal as usize).map_err(|e| failed("open the GPU", e))?;
        // SAFETY: turns off cudarc's own event book-keeping. All our memory is
        // used on the one stream that owns it, where the order of launches is
        // the order of execution, so there is nothing for it to keep.
        unsafe { context.disable_event_tracking() };
        let module = context
            .load_module(Ptx::from_binary(fatbin.to_vec()))
            .map_err(|e| failed("load the kernels", e))?;
        let name = context.name().map_err(|e| failed("ask for the GPU's name", e))?;
        Ok(Self { inner: Arc::new(Inner { module, context, name }) })
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

fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// What the driver says, with what was tried.
fn failed(what: &str, driver: DriverError) -> Error {
    error(format!("cannot {what}")).with_source(driver)
}
