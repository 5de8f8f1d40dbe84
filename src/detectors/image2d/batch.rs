//! The place of a camera among those that share a network.

use std::sync::Arc;

use det_post_infer::batch::{BatchSlot, HostWork};
#[cfg(feature = "cuda")]
use det_post_infer::device::DeviceWork;

/// A network that runs once for several cameras. It is loaded for the first of them that opens
/// on a device.
pub struct SharedNetwork {
    pub(super) on_host: BatchSlot<HostWork>,
    #[cfg(feature = "cuda")]
    pub(super) on_gpu: BatchSlot<DeviceWork>,
}

impl SharedNetwork {
    /// A network for this many cameras, which is not loaded yet.
    pub fn new(num_cameras: usize) -> Self {
        Self {
            on_host: BatchSlot::new(num_cameras),
            #[cfg(feature = "cuda")]
            on_gpu: BatchSlot::new(num_cameras),
        }
    }
}

/// The place of a camera in a batch.
#[derive(Clone)]
pub struct BatchPlace {
    /// The network.
    pub network: Arc<SharedNetwork>,
    /// From 0 on, another for each camera.
    pub place: usize,
}
