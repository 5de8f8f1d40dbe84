//! Page-locked host memory that belongs to no stream: any thread may write it, any
//! stream of the GPU may upload from it.

use cudarc::driver::{result, sys};

use super::pointer::PointerInfo;
use crate::device::cuda::{CudaDevice, failed};
use det_post_types::Result;

/// Bytes of page-locked memory, owned.
#[derive(Debug)]
pub struct PageLocked {
    address: usize,
    len: usize,
    /// Keeps the context in which the pages are locked.
    device: CudaDevice,
}

impl PageLocked {
    /// Allocates `len` bytes, all zero.
    ///
    /// # Errors
    /// `Device` when there is not enough memory, `DeviceLost` after a fault.
    pub fn zeros(device: &CudaDevice, len: usize) -> Result<Self> {
        device.bind()?;
        let num_bytes = len.max(1);
        // SAFETY: no precondition but a current context, which was made above.
        let address = unsafe { result::malloc_host(num_bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }
            .map_err(|e| failed(&format!("allocate {num_bytes} bytes of page-locked memory"), e))?;
        // SAFETY: the allocation has this many bytes and is not yet shared.
        unsafe { address.cast::<u8>().write_bytes(0, num_bytes) };
        Ok(Self { address: address as usize, len, device: device.clone() })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the allocation has `len` bytes, was zeroed, and lives until `self`
        // is dropped. It is written only through `&mut self`; an upload only reads
        // it and completes before its borrow ends.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `self` is borrowed exclusively, so that no upload reads.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.len) }
    }
}

impl Drop for PageLocked {
    fn drop(&mut self) {
        // A lost context has no memory to free.
        if self.device.bind().is_ok() {
            // SAFETY: allocated by `malloc_host` and owned only here; no upload reads
            // it (see `bytes`).
            let _ = unsafe { result::free_host(self.address as *mut _) };
        }
    }
}

/// Whether values are in page-locked memory, from which the GPU can read
/// asynchronously, whichever library has allocated it.
pub(super) fn is_page_locked<T>(values: &[T]) -> bool {
    let bytes = values.as_ptr_range();
    let ends = [bytes.start as usize, (bytes.end as usize).wrapping_sub(1)];
    // One allocation has both ends of a slice, and all between.
    !values.is_empty() && ends.iter().all(|&end| PointerInfo::of(end as u64).is_page_locked)
}
