//! The kernels of the program on one GPU, in modules that are loaded when they are used.
//!
//! Loading takes two milliseconds for each megabyte of machine code, most of them to decompress
//! it. Therefore `det_post_kernels` compiles the kernels into several images, and the first kernel of an
//! image loads it.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, DriverError};
use cudarc::nvrtc::Ptx;

use det_post_kernels::{IMAGES, Image};

use super::stream::ignore_other_recordings;
use super::{error, failed};
use det_post_types::Result;

/// The modules of a context, by image.
pub(super) struct Modules {
    context: Arc<CudaContext>,
    loaded: Mutex<Vec<Option<Arc<CudaModule>>>>,
}

impl Modules {
    /// None is loaded yet.
    ///
    /// # Errors
    /// `Device` when this build has no kernels.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        check_built()?;
        let loaded = Mutex::new(IMAGES.iter().map(|_| None).collect());
        Ok(Self { context: context.clone(), loaded })
    }

    /// The kernel of this name, whose image is loaded with it; `None` when it is not compiled
    /// for this GPU.
    ///
    /// # Errors
    /// `Device`: no image for this GPU, or an error of the driver.
    pub(super) fn find(&self, kernel: &str) -> Result<Option<CudaFunction>> {
        let has_kernel = |image: &&Image| image.kernels.lines().any(|name| name == kernel);
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places = IMAGES.iter().zip(loaded.iter_mut());
        let Some((image, module)) = places.find(|(image, _)| has_kernel(image)) else {
            return Ok(None);
        };
        // The driver may load code for a kernel of a loaded image, too.
        self.context.bind_to_thread().map_err(|e| failed("use the GPU", e))?;
        ignore_other_recordings()?;
        let module = match module {
            Some(module) => module,
            None => {
                let fatbin = Ptx::from_binary(image.fatbin.to_vec());
                let new = self.context.load_module(fatbin);
                module.insert(new.map_err(|e| failed("load the kernels", e))?)
            }
        };
        match module.load_function(kernel) {
            Err(DriverError(CUresult::CUDA_ERROR_NOT_FOUND)) => Ok(None),
            found => found.map(Some).map_err(|e| failed(&format!("find the kernel {kernel}"), e)),
        }
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
