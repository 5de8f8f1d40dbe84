//! The CUDA implementation of [`survivors`](super::survivors) for boxes in space.

use super::kernels::{Survivors, SurvivorsArgs, THREADS_PER_BLOCK};
use crate::device::cuda::{DeviceBuffer, Grid, Kernel, Out, Stream, blocks};
use crate::nms::cuda::NmsCounts;
use crate::shared::DeviceCandidates;
use det_post_types::{Box3d, Kept, Result};

/// Kernel and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    kernel: Kernel<Survivors>,
    survivors: DeviceCandidates<Box3d>,
    places: DeviceBuffer<u32>,
}

impl Workspace {
    /// Loads the kernel and allocates memory for `capacity` candidates.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel or there is not enough memory.
    pub fn new(stream: &Stream, capacity: usize) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            kernel: stream.device().kernel()?,
            survivors: DeviceCandidates::with_capacity(stream, capacity)?,
            places: DeviceBuffer::zeros(stream, capacity)?,
        })
    }

    /// Queues the copying of the survivors `kept` of `candidates`, and of their `places`:
    /// by candidate its index in other lists. Survivors over the capacity are left out. The
    /// footprints of the survivors are written, too, where memory for them is given: for as
    /// many candidates as the capacity, vector by vector.
    ///
    /// # Errors
    /// `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        candidates: &DeviceCandidates<Box3d>,
        places: Option<&DeviceBuffer<u32>>,
        (kept, nms_counts): (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>),
        footprints: Option<Out<'_, [f32; 4]>>,
    ) -> Result<()> {
        let stream = &self.stream;
        let num_blocks = [blocks(self.places.len(), THREADS_PER_BLOCK).max(1), 1];
        let args = SurvivorsArgs {
            candidates: candidates.items.input(stream)?,
            places: places.unwrap_or(&candidates.num).input(stream)?,
            kept: kept.input(stream)?,
            nms_counts: nms_counts.input(stream)?,
            survivors: self.survivors.items.output(stream)?,
            survivor_places: self.places.output(stream)?,
            num: self.survivors.num.output(stream)?,
            footprints: footprints.unwrap_or_else(Out::empty),
        };
        self.kernel.enqueue(stream, Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args)
    }

    /// The survivors, best first, and their places.
    pub fn survivors(&self) -> (&DeviceCandidates<Box3d>, &DeviceBuffer<u32>) {
        (&self.survivors, &self.places)
    }
}
