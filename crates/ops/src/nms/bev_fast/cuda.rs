//! The one-pass suppression of candidates that another suppression has ranked.

use super::kernels::{NmsBevFastRanked, RANKED_ROWS, RANKED_THREADS, RankedArgs};
use crate::device::cuda::{DeviceBuffer, Grid, Kernel, Stream, blocks};
use crate::nms::cuda::kernels::Family;
use crate::nms::cuda::scratch::Sizes;
use crate::nms::cuda::workspace::Memory;
use crate::nms::cuda::{Capacity, NmsCounts};
use crate::shared::DeviceCandidates;
use det_post_types::{Box3d, Kept, NmsBevFast, Result};

const OP: &str = NmsBevFast::OP;
/// Blocks for few candidates: about as many as a large GPU runs side by side.
const MIN_BLOCKS: u32 = 128;

/// Kernel and memory of the suppression of ranked candidates on one stream: one launch,
/// since neither are ranks counted nor are survivors copied.
pub(crate) struct Ranked {
    stream: Stream,
    kernel: Kernel<NmsBevFastRanked>,
    memory: Memory,
}

impl Ranked {
    /// Loads the kernel, allocates the memory and writes the parameters.
    ///
    /// # Errors
    /// `Argument` as on the CPU, for an empty list of thresholds, or for more thresholds,
    /// groups or pairs than fit; `Device` when this build has no such kernel or there is
    /// not enough memory.
    pub fn new(stream: &Stream, params: &NmsBevFast, capacity: Capacity) -> Result<Self> {
        let mut memory = Memory::new(stream, capacity, Sizes::of_ranked(capacity.candidates))?;
        memory.set(OP, &params.parameters()?)?;
        Ok(Self { stream: stream.clone(), kernel: stream.device().kernel()?, memory })
    }

    /// Writes parameters to the device and waits; recorded graphs follow them.
    ///
    /// # Errors
    /// `Argument` as [`Ranked::new`].
    pub fn set(&mut self, params: &NmsBevFast) -> Result<()> {
        self.memory.set(OP, &params.parameters()?)
    }

    /// Queues the suppression of the `ranked` of `candidates`, best first in the total order.
    ///
    /// # Errors
    /// `Argument` when the candidates' capacity is above the workspace's; `Device` when a
    /// buffer is of another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        candidates: &DeviceCandidates<Box3d>,
        (ranked, ranked_counts): (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>),
    ) -> Result<()> {
        let Self { stream, kernel, memory } = self;
        let num_blocks = blocks(candidates.capacity(), RANKED_ROWS).max(MIN_BLOCKS);
        let (items, num) = (candidates.items.input(stream)?, candidates.num.input(stream)?);
        let args = RankedArgs {
            nms: memory.args(OP, stream, items, num)?,
            ranked: ranked.input(stream)?,
            ranked_counts: ranked_counts.input(stream)?,
        };
        let grid = Grid { num_blocks: [num_blocks, 1], threads_per_block: RANKED_THREADS };
        kernel.enqueue(stream, grid, args)
    }

    /// The survivors, best first, as indices of the candidates, and their number.
    pub fn kept(&self) -> (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>) {
        self.memory.kept()
    }
}
