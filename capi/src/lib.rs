//! The C ABI: detectors and operations for programs in C and C++.
//!
//! `include/det_post.h` is generated from this module: its functions, structs and constants,
//! with their documentation. `docs/cpp.md` states what the ABI promises.
//!
//! - [`call`]: one call from C. Pointers are checked and read only there; a panic becomes a
//!   status.
//! - `handles`: objects by number. A number of a closed object is refused, and so is a call
//!   on an object that another thread is using.
//! - [`status`]: errors by number. [`log`]: the log of the library.
//! - [`configuration`], [`frame`], [`detections`], [`report`], [`detector`]: detectors.
//! - [`workspace`], [`suppression`], [`letterbox`], [`voxels`], [`decoding`]: operations.
//!   [`sites`], [`rulebooks`], [`sparse_weights`], [`sparse`]: sparse convolution. [`views`], [`view_arrays`]: decoders of feature
//!   maps.
//! - [`node`], [`graph`]: the live node in a ROS graph of the caller.
//!
//! Names of Rust become names of C: `Frame` is `det_post_frame`. Structs hold numbers,
//! pointers and such structs only, so that any bits are a value.

#![expect(unsafe_code, reason = "exported names; memory of the caller, only in call.rs and gpu.rs")]

pub mod call;
pub mod configuration;
pub mod decoding;
mod decoding_gpu;
pub mod decoding_settings;
pub mod detections;
pub mod detector;
mod endpoints;
pub mod frame;
mod gate;
mod gpu;
pub mod graph;
mod handles;
pub mod letterbox;
pub mod log;
pub mod node;
pub mod report;
pub mod rulebooks;
pub mod sites;
pub mod sparse;
pub mod sparse_arrays;
mod sparse_gpu;
mod sparse_memory;
pub mod sparse_weights;
pub mod status;
pub mod suppression;
pub mod tensors;
pub mod view_arrays;
pub mod views;
pub mod voxels;
pub mod workspace;

use call::{ConstText, Out, run};
use status::Status;

/// Version of the ABI. A program that was compiled with this header runs with every library
/// whose `det_post_abi_version` is the same.
pub const ABI_VERSION: u32 = 1;

/// The version of the ABI that the library has.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_abi_version() -> u32 {
    ABI_VERSION
}

/// The version of the library, such as `0.1.0`. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_version() -> ConstText {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    ConstText::of_static(VERSION)
}

/// The message of the last call that failed: on the object `id` (`detector.id`), or,
/// if `id` is 0, of this thread among the calls without an object (those that open one or whose
/// object is closed) and the calls on nodes, on which other threads may be in calls as well.
/// Writes at most `capacity` bytes to `buffer`, the last of them 0, and returns the length of the
/// whole message, without that 0: 0 if no call has failed. `buffer` may be `NULL` if `capacity`
/// is 0. Can be called while another thread uses the object.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_error_message(id: u64, buffer: Out<u8>, capacity: usize) -> usize {
    let message = status::message(id);
    let write = |call: &call::Call| call.write_text(buffer, capacity, &message);
    match run(0, write) {
        status::OK => message.len(),
        _ => 0,
    }
}

/// The name of a status, such as `unsupported_encoding`: what reports count dropped frames
/// under. `unknown` for other numbers. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_status_name(status: Status) -> ConstText {
    ConstText::of_static(status::name(status))
}
