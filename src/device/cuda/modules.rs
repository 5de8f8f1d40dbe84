//! The kernels of the program on one GPU, in modules that are loaded when they are used.
//!
//! Loading takes a few milliseconds for each megabyte of machine code, most of them to
//! decompress it. Kernels that few channels use are in modules of their own, therefore.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, DriverError};
use cudarc::nvrtc::Ptx;

use super::{error, failed};
use crate::error::Result;

#[cfg(kernels)]
macro_rules! image {
    ($name:literal) => {
        include_bytes!(concat!(env!("DET_POST_KERNELS"), "/", $name, ".fatbin"))
    };
}

/// What `build.rs` compiles: a kernel is looked up in this order, and a module is loaded
/// when those before it are without the kernel.
#[cfg(kernels)]
const IMAGES: &[&[u8]] = &[image!("frames"), image!("sparse"), image!("surround")];
#[cfg(not(kernels))]
const IMAGES: &[&[u8]] = &[];

/// The modules of a context.
pub(super) struct Modules {
    context: Arc<CudaContext>,
    /// Those of the first images.
    loaded: Mutex<Vec<Arc<CudaModule>>>,
}

impl Modules {
    /// Loads the kernels that every channel uses.
    ///
    /// # Errors
    /// `Device`: no kernels in this build, none for this GPU, or an error of the driver.
    pub(super) fn open(context: &Arc<CudaContext>) -> Result<Self> {
        check_built()?;
        let modules = Self { context: context.clone(), loaded: Mutex::default() };
        modules.load(&mut modules.loaded.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(modules)
    }

    /// The kernel of this name; `None` when it is not compiled for this GPU.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub(super) fn find(&self, kernel: &str) -> Result<Option<CudaFunction>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        for at in 0..IMAGES.len() {
            if at == loaded.len() {
                self.load(&mut loaded)?;
            }
            match loaded[at].load_function(kernel) {
                Err(DriverError(CUresult::CUDA_ERROR_NOT_FOUND)) => {}
                found => {
                    return found
                        .map(Some)
                        .map_err(|e| failed(&format!("find the kernel {kernel}"), e));
                }
            }
        }
        Ok(None)
    }

    /// Loads the first image that is not loaded yet.
    fn load(&self, loaded: &mut Vec<Arc<CudaModule>>) -> Result<()> {
        let image = Ptx::from_binary(IMAGES[loaded.len()].to_vec());
        loaded.push(self.context.load_module(image).map_err(|e| failed("load the kernels", e))?);
        Ok(())
    }
}

/// # Errors
/// `Device` when this build has no kernels.
pub(super) fn check_built() -> Result<()> {
    if IMAGES.is_empty() {
        return Err(error(
            "this program was built without kernels: no nvcc was found when it was built",
        ));
    }
    Ok(())
}
