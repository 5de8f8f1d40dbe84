//! Channels on GPUs: networks there, faults, several GPUs. Without a GPU the
//! suite says so and passes, unless `DET_POST_REQUIRE=cuda` makes that a
//! failure; without a library of ONNX Runtime that has a CUDA provider it runs
//! the engines on the CPU.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common::{network, onnx, require};
use std::sync::{Mutex, MutexGuard, PoisonError};

use det_post_ops::device::Device;
use det_post_ops::device::cuda::CudaDevice;
use det_post_types::DeviceChoice;
use require::Need;

mod engine;
mod faults;
mod frames_in_flight;
mod kernels;
mod own_memory;
mod uploads;
#[cfg(feature = "video")]
mod video;

/// Times and memory of one test do not mix with another's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// GPU 0 for only one test, or `None` with the reason printed.
fn gpu() -> Option<(MutexGuard<'static, ()>, CudaDevice)> {
    let single = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match Device::open(DeviceChoice::Cuda(0)) {
        Ok(Device::Cuda(device)) => Some((single, device)),
        Ok(Device::Cpu) => unreachable!("a GPU was asked for by number"),
        Err(reason) => {
            require::skip(Need::Cuda, reason);
            None
        }
    }
}

/// A network in a file of its own.
fn saved(graph: &onnx::Graph) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".onnx").tempfile().unwrap();
    graph.save(file.path()).unwrap();
    file
}
