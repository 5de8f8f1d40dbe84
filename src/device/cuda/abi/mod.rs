//! The parameters of every kernel: mirrors of the structs in `kernels/`, and
//! what must hold before a launch.

pub mod decode_anchor;
pub mod decode_center;
pub mod decode_yolo;
pub mod densify;
pub mod empty;
pub mod fault;
pub mod gather;
pub mod letterbox;
pub mod nms;
pub mod pillar_features;
pub mod scatter;
pub mod select;
pub mod unpack;
pub mod voxelize;

use crate::error::{Error, ErrorKind, Result};

/// Refuses a slice that is shorter than the kernel needs.
fn check_len(kernel: &str, slice: &str, found: usize, needed: usize) -> Result<()> {
    if found >= needed {
        return Ok(());
    }
    Err(refused(kernel, &format!("{slice} has {found} places, needed are {needed}")))
}

/// Refuses a block that is not what the kernel's shared memory is laid out for.
fn check_threads(kernel: &str, found: u32, needed: u32) -> Result<()> {
    if found == needed {
        return Ok(());
    }
    Err(refused(kernel, &format!("{found} threads a block, needed are {needed}")))
}

fn refused(kernel: &str, message: &str) -> Error {
    Error::new(ErrorKind::Argument, "device", format!("kernel {kernel}: {message}"))
}
