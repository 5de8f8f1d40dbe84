//! Addresses at which kernels read host memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys;

/// Host memory that kernels may read while a scope lasts.
#[derive(Debug)]
pub(super) struct Borrowed {
    pub(super) address: u64,
    pub(super) len: u64,
    /// The scopes that had ended when it was borrowed, and that have ended now.
    pub(super) scope: u64,
    pub(super) scopes: Arc<AtomicU64>,
}

impl Borrowed {
    /// Whether the scope lasts.
    pub(super) fn is_alive(&self) -> bool {
        self.scopes.load(Ordering::Relaxed) == self.scope
    }
}

/// The address at which kernels read host memory that is page-locked or registered, if all of
/// it is contiguous there.
pub(super) fn device_address(address: usize, len: usize) -> Option<u64> {
    let first = pointer(address)?;
    let last = pointer(address + len.checked_sub(1)?)?;
    (last.checked_sub(first)? == len as u64 - 1).then_some(first)
}

/// The address at which kernels read a byte of host memory, if they can.
pub(super) fn pointer(address: usize) -> Option<u64> {
    let mut on_device = 0_u64;
    let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    // SAFETY: writes one address into a live local; any address may be queried, an unknown one
    // returns an error.
    let result = unsafe {
        sys::cuPointerGetAttribute((&raw mut on_device).cast(), attribute, address as u64)
    };
    (result.result().is_ok() && on_device != 0).then_some(on_device)
}
