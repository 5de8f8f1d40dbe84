//! Addresses at which kernels read host memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pointer::PointerInfo;

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
    PointerInfo::of(address as u64).device_address
}
