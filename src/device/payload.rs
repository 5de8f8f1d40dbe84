//! Host memory that payloads of messages are copied into.

use super::Device;
#[cfg(feature = "cuda")]
use super::cuda::{CudaDevice, PageLocked};

/// The least page-locked memory that is taken; more is taken by powers of two.
#[cfg(feature = "cuda")]
const MIN_PAGE_LOCKED: usize = 1 << 16;

/// Memory for one payload at a time, grown to the largest and used again. For a
/// GPU it is page-locked, so that the payload is uploaded from where it lies;
/// when no page-locked memory can be had, a warning says so and it is ordinary
/// memory, which costs another copy.
#[derive(Debug, Default)]
pub struct PayloadMemory {
    lies: Lies,
    len: usize,
}

#[derive(Debug)]
enum Lies {
    Pageable(Vec<u8>),
    #[cfg(feature = "cuda")]
    PageLocked {
        device: CudaDevice,
        memory: Option<PageLocked>,
    },
}

impl Default for Lies {
    fn default() -> Self {
        Self::Pageable(Vec::new())
    }
}

impl PayloadMemory {
    /// Memory for payloads that go to a device; none is taken yet.
    pub fn of(device: &Device) -> Self {
        let lies = match device {
            Device::Cpu => Lies::default(),
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => Lies::PageLocked { device: device.clone(), memory: None },
        };
        Self { lies, len: 0 }
    }

    /// Replaces the payload by a copy of `data`.
    pub fn copy_from(&mut self, data: &[u8]) {
        #[cfg(feature = "cuda")]
        self.reserve(data.len());
        self.len = data.len();
        match &mut self.lies {
            Lies::Pageable(bytes) => {
                bytes.clear();
                bytes.extend_from_slice(data);
            }
            #[cfg(feature = "cuda")]
            Lies::PageLocked { memory: Some(memory), .. } => {
                memory.bytes_mut()[..data.len()].copy_from_slice(data);
            }
            #[cfg(feature = "cuda")]
            Lies::PageLocked { memory: None, .. } => {}
        }
    }

    /// Sees to room for `num_bytes`.
    #[cfg(feature = "cuda")]
    fn reserve(&mut self, num_bytes: usize) {
        let Lies::PageLocked { device, memory } = &mut self.lies else { return };
        if memory.as_ref().is_some_and(|memory| memory.bytes().len() >= num_bytes) {
            return;
        }
        let capacity = num_bytes.max(MIN_PAGE_LOCKED);
        let capacity = capacity.checked_next_power_of_two().unwrap_or(capacity);
        match PageLocked::zeros(device, capacity) {
            Ok(larger) => *memory = Some(larger),
            Err(error) => {
                tracing::warn!("payloads for {device} are copied twice: {error}");
                self.lies = Lies::default();
            }
        }
    }

    /// The payload.
    pub fn bytes(&self) -> &[u8] {
        match &self.lies {
            Lies::Pageable(bytes) => bytes,
            #[cfg(feature = "cuda")]
            Lies::PageLocked { memory: Some(memory), .. } => &memory.bytes()[..self.len],
            #[cfg(feature = "cuda")]
            Lies::PageLocked { memory: None, .. } => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_takes_the_place_of_the_one_before() {
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
}
