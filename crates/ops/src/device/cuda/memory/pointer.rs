//! What the driver knows of an address.

use std::ffi::c_void;

use cudarc::driver::sys::{self, CUmemorytype, CUpointer_attribute as Attribute};

/// What the driver knows of an address; nothing of memory that no library has allocated or
/// registered with it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PointerInfo {
    /// The number of the GPU of the memory, or of the context that page-locked it.
    pub(super) gpu: Option<usize>,
    /// The address at which kernels on that GPU read the memory.
    pub(super) device_address: Option<u64>,
    /// Whether it is page-locked memory of the host.
    pub(super) is_page_locked: bool,
}

impl PointerInfo {
    pub(super) fn of(address: u64) -> Self {
        let (mut ordinal, mut device_address, mut kind) = (-1_i32, 0_u64, 0_u32);
        let mut attributes = [
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        ];
        let mut values: [*mut c_void; 3] =
            [(&raw mut ordinal).cast(), (&raw mut device_address).cast(), (&raw mut kind).cast()];
        // SAFETY: three attributes, whose types are those of the live locals: an int, an address
        // and an enumeration of 32 bits. Any address may be queried; the query of several
        // attributes, unlike that of one, is no error for an unknown one, which checkers report.
        let result = unsafe {
            sys::cuPointerGetAttributes(3, attributes.as_mut_ptr(), values.as_mut_ptr(), address)
        };
        if result.result().is_err() {
            return Self::default();
        }
        Self {
            gpu: usize::try_from(ordinal).ok(),
            device_address: (device_address != 0).then_some(device_address),
            is_page_locked: kind == CUmemorytype::CU_MEMORYTYPE_HOST as u32,
        }
    }
}
