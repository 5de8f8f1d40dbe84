//! The CUDA implementation of [`conv`](super): equal to the CPU bit for bit with f32 products
//! and exact activations, within the tolerance of docs/numerics.md with f16, and the same from run
//! to run.

pub use super::launch::Tile;

use super::job::Job;
use super::launch::Launch;
use super::pack::Source;
use super::{Conv, ConvRegions};
use crate::dense::arena::Arena;
use det_post_types::Result;

/// A convolution between windows of an arena, with its weights in device memory.
pub struct DeviceConv {
    launch: Launch,
}

impl DeviceConv {
    /// Packs the weights for the kernel that suits the windows best.
    ///
    /// # Errors
    /// `Argument` when windows do not fit the convolution or their buffers; `Device` when this
    /// build has no such kernels or there is not enough memory.
    pub fn new(arena: &Arena, conv: &Conv, regions: &ConvRegions) -> Result<Self> {
        Self::build(arena, conv, regions, None)
    }

    /// As [`Self::new`], by one of [`Self::tiles`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_tile(
        arena: &Arena,
        conv: &Conv,
        regions: &ConvRegions,
        tile: Tile,
    ) -> Result<Self> {
        Self::build(arena, conv, regions, Some(tile))
    }

    /// The kernels that compute the convolution, the one that [`Self::new`] takes first. All of
    /// them give the same bytes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn tiles(arena: &Arena, conv: &Conv, regions: &ConvRegions) -> Result<Vec<Tile>> {
        Launch::tiles(arena, &Self::job(arena, conv, regions)?)
    }

    fn job(arena: &Arena, conv: &Conv, regions: &ConvRegions) -> Result<Job> {
        let element = |buffer| Ok(arena.buffer(buffer)?.element());
        Ok(Job::of_conv(conv, regions, element)?.flattened())
    }

    fn build(
        arena: &Arena,
        conv: &Conv,
        regions: &ConvRegions,
        tile: Option<Tile>,
    ) -> Result<Self> {
        let job = Self::job(arena, conv, regions)?;
        let outputs = job.outputs;
        let weight = |group: u32, column: u32, tap: [u32; 2], input: u32| {
            let output = (group * outputs + column) as usize;
            conv.weight(output, input as usize, tap.map(|v| v as usize))
        };
        let bias = |group, column| conv.bias()[(group * outputs + column) as usize];
        let source = Source { weight: &weight, bias: &bias };
        Ok(Self { launch: Launch::new(arena, job, &source, tile)? })
    }

    /// The name of the kernel.
    pub fn kernel(&self) -> &'static str {
        self.launch.kernel()
    }

    /// Queues the convolution.
    ///
    /// # Errors
    /// `Argument` when windows are not within the arena's buffers or overlap; `Device` when the
    /// arena belongs to another stream, or the launch fails.
    pub fn enqueue(&self, arena: &Arena) -> Result<()> {
        self.launch.enqueue(arena)
    }
}
