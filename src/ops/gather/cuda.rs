//! The CUDA side of [`gather_2d`](super::gather_2d): the last kernel of a
//! camera frame, which writes detections and counts where the host reads them.
//! Equal to the CPU, bit for bit.

use crate::device::cuda::abi::decode_yolo::DecodeCounts;
use crate::device::cuda::abi::gather::{
    FrameCounts, Gather2d, GatherArgs, GatherSettings, THREADS_PER_BLOCK,
};
use crate::device::cuda::abi::nms::NmsCounts;
use crate::device::cuda::{DeviceBuffer, DeviceCandidates, Grid, Kernel, MappedBuffer, Stream};
use crate::error::Result;
use crate::types::{Affine2, Box2d, Detection2d, Kept, Size};

/// Kernel and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    kernel: Kernel<Gather2d>,
    settings: DeviceBuffer<GatherSettings>,
    detections: MappedBuffer<Detection2d>,
    counts: MappedBuffer<FrameCounts>,
    read_counts: Vec<FrameCounts>,
    max_detections: usize,
}

impl Workspace {
    /// Takes the kernel and room for `max_detections`. Until
    /// [`Workspace::set_placement`] says how large the image is, no box has an
    /// area inside it.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel or there is not enough
    /// memory.
    pub fn new(stream: &Stream, max_detections: usize) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            kernel: stream.device().kernel()?,
            settings: DeviceBuffer::zeros(stream, 1)?,
            detections: MappedBuffer::zeros(stream, max_detections)?,
            counts: MappedBuffer::zeros(stream, 1)?,
            read_counts: Vec::with_capacity(1),
            max_detections,
        })
    }

    /// Writes the way to source pixels to the device and waits: needed when
    /// the picture's size changes. Recorded graphs follow it.
    ///
    /// # Errors
    /// `Device` when the copy fails.
    pub fn set_placement(&mut self, source_from_network: &Affine2, source: Size) -> Result<()> {
        self.settings.write(&[GatherSettings {
            scale: source_from_network.scale,
            offset: source_from_network.offset,
            size: [source.width as f32, source.height as f32],
            max_detections: u32::try_from(self.max_detections).unwrap_or(u32::MAX),
            reserved: 0,
        }])
    }

    /// Queues the gathering of the survivors `kept` of `candidates`, as
    /// `nms::cuda::DeviceWorkspace::kept` gives them. What decoding counted
    /// goes with the counts of the frame.
    ///
    /// # Errors
    /// `Device` when a buffer is another stream's or the launch fails.
    pub fn enqueue(
        &mut self,
        candidates: &DeviceCandidates<Box2d>,
        (kept, nms_counts): (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>),
        decode_counts: &DeviceBuffer<DecodeCounts>,
    ) -> Result<()> {
        let stream = &self.stream;
        let args = GatherArgs {
            candidates: candidates.items.input(stream)?,
            kept: kept.input(stream)?,
            nms_counts: nms_counts.input(stream)?,
            decode_counts: decode_counts.input(stream)?,
            settings: self.settings.input(stream)?,
            published: self.detections.output(stream)?,
            published_counts: self.counts.output(stream)?,
        };
        let grid = Grid { num_blocks: [1, 1], threads_per_block: THREADS_PER_BLOCK };
        self.kernel.enqueue(stream, grid, args)
    }

    /// Waits for the queued frame, once, and replaces the contents of `out` by
    /// its detections. With room for the maximum nothing is allocated.
    ///
    /// # Errors
    /// `Device` when queued work failed; `out` is empty then.
    pub fn read(&mut self, out: &mut Vec<Detection2d>) -> Result<FrameCounts> {
        out.clear();
        self.stream.synchronize()?;
        self.read_counts.clear();
        self.counts.copy_to(1, &mut self.read_counts);
        let counts = self.read_counts.first().copied().unwrap_or_default();
        self.detections.copy_to(counts.num_detections as usize, out);
        Ok(counts)
    }
}
