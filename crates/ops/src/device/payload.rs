//! Host memory for the payloads of messages.

use super::Device;
#[cfg(feature = "cuda")]
use super::copy::copy;
#[cfg(feature = "cuda")]
use super::cuda::{CudaDevice, PageLocked, TAIL_BYTES};

/// The smallest page-locked allocation; larger ones are powers of two.
#[cfg(feature = "cuda")]
const MIN_PAGE_LOCKED: usize = 1 << 16;

/// Memory for one payload at a time, grown to the largest payload and reused. For
/// a GPU it is page-locked, so that the payload is uploaded without another copy.
/// If page-locked memory cannot be allocated, a warning is logged and pageable
/// memory is used, at the cost of that copy.
#[derive(Debug, Default)]
pub struct PayloadMemory {
    storage: HostStorage,
    len: usize,
}

#[derive(Debug)]
enum HostStorage {
    Pageable(Vec<u8>),
    #[cfg(feature = "cuda")]
    PageLocked {
        device: CudaDevice,
        memory: Option<PageLocked>,
    },
}

impl Default for HostStorage {
    fn default() -> Self {
        Self::Pageable(Vec::new())
    }
}

impl PayloadMemory {
    /// Memory for payloads that are processed on a device; nothing is allocated yet.
    pub fn of(device: &Device) -> Self {
        let storage = match device {
            Device::Cpu => HostStorage::default(),
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => {
                HostStorage::PageLocked { device: device.clone(), memory: None }
            }
        };
        Self { storage, len: 0 }
    }

    /// Replaces the payload by a copy of `data`, made by several threads if it is large and
    /// for a GPU, for which the copy is a large part of a frame's time.
    pub fn copy_from(&mut self, data: &[u8]) {
        #[cfg(feature = "cuda")]
        self.lock_pages(data.len());
        self.len = data.len();
        match &mut self.storage {
            HostStorage::Pageable(bytes) => {
                bytes.clear();
                bytes.extend_from_slice(data);
            }
            #[cfg(feature = "cuda")]
            HostStorage::PageLocked { memory: Some(memory), .. } => {
                copy(data, &mut memory.bytes_mut()[..data.len()]);
            }
            #[cfg(feature = "cuda")]
            HostStorage::PageLocked { memory: None, .. } => {}
        }
    }

    /// Bytes that the memory holds without growing.
    pub fn capacity(&self) -> usize {
        match &self.storage {
            HostStorage::Pageable(bytes) => bytes.len(),
            #[cfg(feature = "cuda")]
            HostStorage::PageLocked { memory, .. } => {
                memory.as_ref().map_or(0, |memory| memory.bytes().len().saturating_sub(TAIL_BYTES))
            }
        }
    }

    /// Grows the memory to at least `num_bytes`. The payload is lost where it grows.
    pub fn reserve(&mut self, num_bytes: usize) {
        #[cfg(feature = "cuda")]
        self.lock_pages(num_bytes);
        if let HostStorage::Pageable(bytes) = &mut self.storage
            && bytes.len() < num_bytes
        {
            bytes.resize(num_bytes, 0);
        }
    }

    /// Makes the payload the first `len` bytes of the memory, as they are, or all of it where it
    /// is smaller: see [`PayloadMemory::reserve`].
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity());
    }

    /// Grows page-locked memory to at least `num_bytes`.
    #[cfg(feature = "cuda")]
    fn lock_pages(&mut self, num_bytes: usize) {
        let HostStorage::PageLocked { device, memory } = &mut self.storage else { return };
        if memory.as_ref().is_some_and(|memory| memory.bytes().len() >= num_bytes) {
            return;
        }
        let capacity = num_bytes.max(MIN_PAGE_LOCKED);
        let capacity = capacity.checked_next_power_of_two().unwrap_or(capacity);
        // Kernels that read images in place may read some bytes after them.
        match PageLocked::zeros(device, capacity.saturating_add(TAIL_BYTES)) {
            Ok(larger) => *memory = Some(larger),
            Err(error) => {
                tracing::warn!("payloads for {device} are copied twice: {error}");
                *self = Self::default();
            }
        }
    }

    /// The payload.
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            HostStorage::Pageable(bytes) => &bytes[..self.len],
            #[cfg(feature = "cuda")]
            HostStorage::PageLocked { memory: Some(memory), .. } => &memory.bytes()[..self.len],
            #[cfg(feature = "cuda")]
            HostStorage::PageLocked { memory: None, .. } => &[],
        }
    }

    /// The payload, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.storage {
            HostStorage::Pageable(bytes) => &mut bytes[..self.len],
            #[cfg(feature = "cuda")]
            HostStorage::PageLocked { memory: Some(memory), .. } => {
                &mut memory.bytes_mut()[..self.len]
            }
            #[cfg(feature = "cuda")]
            HostStorage::PageLocked { memory: None, .. } => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_replaces_the_previous_one() {
        let mut memory = PayloadMemory::of(&Device::Cpu);
        assert!(memory.bytes().is_empty());
        memory.copy_from(&[1; 100]);
        let address = memory.bytes().as_ptr();
        for payload in [&[2; 40][..], &[], &[3; 100]] {
            memory.copy_from(payload);
            assert_eq!(memory.bytes(), payload);
        }
        assert_eq!(memory.bytes().as_ptr(), address);
    }

    #[test]
    fn a_payload_is_written_in_place() {
        let mut memory = PayloadMemory::default();
        memory.set_len(9);
        assert_eq!((memory.capacity(), memory.bytes()), (0, &[][..]));
        memory.reserve(100);
        let address = memory.bytes().as_ptr();
        for len in [100, 3, 80] {
            memory.set_len(len);
            memory.bytes_mut().fill(len as u8);
            assert_eq!(memory.bytes(), vec![len as u8; len]);
            assert_eq!((memory.bytes().as_ptr(), memory.capacity()), (address, 100));
        }
        memory.copy_from(&[5; 7]);
        assert_eq!(memory.bytes(), [5; 7]);
    }
}
