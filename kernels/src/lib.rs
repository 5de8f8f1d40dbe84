//! The CUDA kernels of det_post: their sources, and the machine code that the build made of them.
//!
//! The sources are in one folder per family, beside this crate's manifest. Where the build finds
//! nvcc, [`IMAGES`] has their machine code for the architectures of `DET_POST_CUDA_ARCHS`, else
//! for every architecture from 8.0 to 12.0 that the toolkit knows; without nvcc it is empty.
//! This crate calls no driver: `det_post_ops` loads and launches.
//!
//! ```
//! use det_post_kernels::{constant, source};
//!
//! // Rust reads the constants that it shares with a kernel from the kernel's text.
//! const THREADS: u32 = constant(source("cloud/unpack.cu"), "kThreads = ");
//! assert!(THREADS.is_multiple_of(32));
//! ```

mod mirror;
mod shared;

pub use mirror::{Field, Kind, RustField, Struct};
pub use shared::{constant, enumerator, num_enumerators};

/// Kernels that are loaded together.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// The name: `camera`, `lidar`, `sparse`, `surround`, `dense`, or `frames` for what every channel uses.
    pub name: &'static str,
    /// Machine code and PTX, as `cuModuleLoadData` takes them.
    pub fatbin: &'static [u8],
    /// The names of its kernels, one a line.
    pub kernels: &'static str,
}

#[cfg(kernels)]
macro_rules! image {
    ($name:literal) => {
        Image {
            name: $name,
            fatbin: include_bytes!(concat!(env!("DET_POST_KERNELS"), "/", $name, ".fatbin")),
            kernels: include_str!(concat!(env!("DET_POST_KERNELS"), "/", $name, ".kernels")),
        }
    };
}

/// The images of this build; none when it found no nvcc.
#[cfg(kernels)]
pub const IMAGES: &[Image] = &[
    image!("frames"),
    image!("camera"),
    image!("lidar"),
    image!("sparse"),
    image!("surround"),
    image!("dense"),
];
/// The images of this build; none when it found no nvcc.
#[cfg(not(kernels))]
pub const IMAGES: &[Image] = &[];

/// The path of every source below this folder, such as `nms/args.cuh`, and its text.
pub const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

include!(concat!(env!("OUT_DIR"), "/structs.rs"));

/// The text of a source by its path, such as `nms/args.cuh`.
///
/// # Panics
/// When there is no such source: in a constant, an error of the compiler.
#[expect(clippy::panic, reason = "it is called while compiling")]
pub const fn source(path: &str) -> &'static str {
    let mut i = 0;
    while i < SOURCES.len() {
        if mirror::is_equal(SOURCES[i].0, path) {
            return SOURCES[i].1;
        }
        i += 1;
    }
    panic!("there is no source of this path in kernels/")
}
