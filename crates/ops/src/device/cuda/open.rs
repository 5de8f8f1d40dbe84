//! Opening GPUs: one context each for the whole process.
//!
//! ONNX Runtime uses the primary context of a GPU; this program uses it, too, and
//! all channels on a GPU share it. A fault of any kernel makes the GPU unusable
//! for all of them: every later call of the driver returns that error, in this
//! context and in any other context of the process, even after a reset. Only a
//! new process can use the GPU again.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};
use cudarc::driver::{CudaContext, result};

use super::modules::{Modules, check_built};
use super::{CudaDevice, Inner, error, failed};
use det_post_types::Result;

/// The oldest supported driver, by the CUDA version that it implements: 12.6.
const MIN_DRIVER: i32 = 12_060;

/// The GPUs that are open.
static OPEN: Mutex<Vec<(u32, Weak<Inner>)>> = Mutex::new(Vec::new());

/// The GPU of this number: shared if it is open already.
pub(super) fn open(ordinal: u32) -> Result<CudaDevice> {
    check_present(ordinal)?;
    let mut gpus = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    gpus.retain(|(_, inner)| inner.strong_count() > 0);
    let open = gpus.iter().find(|(number, _)| *number == ordinal);
    if let Some(inner) = open.and_then(|(_, inner)| inner.upgrade()) {
        let device = CudaDevice { inner };
        return device.check().map(|()| device);
    }
    let context = CudaContext::new(ordinal as usize).map_err(|e| failed("open the GPU", e))?;
    check(&context)?;
    // SAFETY: disables cudarc's own event tracking. All memory is used on the
    // one stream that owns it, where launches execute in order, so that there is
    // nothing to track.
    unsafe { context.disable_event_tracking() };
    let modules = Modules::new(&context)?;
    let name = context.name().map_err(|e| failed("query the GPU's name", e))?;
    let number = |attribute| {
        let value = context.attribute(attribute);
        value.map(i32::unsigned_abs).map_err(|e| failed("query the GPU's multiprocessors", e))
    };
    let num_multiprocessors = number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let threads_of_one =
        number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
    let resident_threads = num_multiprocessors.saturating_mul(threads_of_one);
    let inner = Arc::new(Inner { modules, context, name, num_multiprocessors, resident_threads });
    gpus.push((ordinal, Arc::downgrade(&inner)));
    Ok(CudaDevice { inner })
}

/// The GPUs that are open.
pub(super) fn opened() -> Vec<CudaDevice> {
    let gpus = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = gpus.iter().filter_map(|(_, inner)| inner.upgrade());
    open.map(|inner| CudaDevice { inner }).collect()
}

/// Requests 32 connections to the GPU for the streams of this process, the most that the driver
/// makes, in place of 8: streams that share a connection wait for each other, and a camera has
/// three. A value of `CUDA_DEVICE_MAX_CONNECTIONS` in the environment takes precedence.
///
/// The driver reads the variable when it starts. A program calls this before it starts threads;
/// with several threads it does nothing.
pub fn request_connections() {
    const VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    let is_alone = std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1);
    if is_alone && std::env::var_os(VARIABLE).is_none() {
        // SAFETY: no other thread reads or writes the environment, since there is none.
        unsafe { std::env::set_var(VARIABLE, "32") };
    }
}

/// The number of GPUs.
pub(super) fn count() -> Result<u32> {
    start_driver()?;
    let num = CudaContext::device_count().map_err(|e| failed("count the GPUs", e))?;
    Ok(u32::try_from(num).unwrap_or(0))
}

/// Checks that there are kernels, a supported driver and a GPU of this number.
pub(super) fn check_present(ordinal: u32) -> Result<()> {
    check_built()?;
    let num = count()?;
    if ordinal >= num {
        return Err(error(format!("no GPU {ordinal}: this machine has {num}")));
    }
    Ok(())
}

/// Starts the driver, if it is supported.
fn start_driver() -> Result<()> {
    // SAFETY: loads the driver's library, whose initialisers are trusted as
    // far as any system library's; the call has no other precondition.
    if !unsafe { sys::is_culib_present() } {
        return Err(error("this machine has no CUDA driver library (libcuda)"));
    }
    result::init().map_err(|e| failed("start the driver", e))?;
    let mut version = 0;
    // SAFETY: the library is loaded (checked above) and writes one int into
    // a live local.
    unsafe { sys::cuDriverGetVersion(&raw mut version).result() }
        .map_err(|e| failed("query the driver's version", e))?;
    if version < MIN_DRIVER {
        let (found, needed) = (dotted(version), dotted(MIN_DRIVER));
        return Err(error(format!("driver supports CUDA {found}; {needed} or newer is required")));
    }
    Ok(())
}

/// Checks that the context is usable.
pub(super) fn check(context: &CudaContext) -> Result<()> {
    context.bind_to_thread().map_err(|e| failed("use the GPU", e))?;
    // SAFETY: queries the default stream, which every context has.
    match unsafe { sys::cuStreamQuery(std::ptr::null_mut()) } {
        CUresult::CUDA_ERROR_NOT_READY => Ok(()),
        status => status.result().map_err(|e| failed("use the GPU", e)),
    }
}

fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
