//! The CUDA implementation of [`unpack`](super::unpack): one kernel that reads the
//! bytes of the message. Equal to the CPU bit for bit, in the same order.

use super::kernels::{
    MAX_CHANNELS as MAX_SOURCES, PointSource, THREADS_PER_BLOCK, Unpack, UnpackArgs,
};
use super::{Layout, MAX_CHANNELS, Source, UnpackParams, check_channels};
use crate::cloud::{DeviceCloud, DevicePoints};
use crate::device::cuda::{DeviceBuffer, Grid, Kernel, Stream, blocks};
use crate::shared::DeviceCounters;
use det_post_types::{Error, ErrorKind, PointFields, Result};

const _: () = assert!(MAX_CHANNELS == MAX_SOURCES);

/// Kernel and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    kernel: Kernel<Unpack>,
    ticket: DeviceBuffer<u64>,
    aggregates: DeviceBuffer<u64>,
    max_points: usize,
}

impl Workspace {
    /// Loads the kernel and allocates memory for clouds of up to `max_points`, valid or
    /// not.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel or there is not enough
    /// memory.
    pub fn new(stream: &Stream, max_points: usize) -> Result<Self> {
        let num_blocks = blocks(max_points, THREADS_PER_BLOCK).max(1) as usize;
        Ok(Self {
            stream: stream.clone(),
            kernel: stream.device().kernel()?,
            ticket: DeviceBuffer::zeros(stream, 1)?,
            aggregates: DeviceBuffer::zeros(stream, num_blocks)?,
            max_points,
        })
    }

    /// The maximum number of points of a cloud.
    pub fn max_points(&self) -> usize {
        self.max_points
    }

    /// Grows the memory to clouds of up to `max_points`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn reserve(&mut self, max_points: usize) -> Result<()> {
        if max_points > self.max_points {
            let num_tiles = blocks(max_points, THREADS_PER_BLOCK).max(1) as usize;
            self.aggregates = DeviceBuffer::zeros(&self.stream, num_tiles)?;
            self.max_points = max_points;
        }
        Ok(())
    }

    /// Queues the unpacking of the uploaded `cloud`, whose fields are `fields`,
    /// into `out`. Dropped points are added to `counters`.
    ///
    /// # Errors
    /// Returns the errors of [`unpack`](super::unpack); `Argument` when no cloud was uploaded or
    /// it has more than [`Workspace::max_points`]; `Device` when a buffer belongs to
    /// another stream or the launch fails. Nothing is queued after an error.
    pub fn enqueue(
        &mut self,
        cloud: &DeviceCloud,
        fields: &PointFields<'_>,
        params: &UnpackParams,
        out: &mut DevicePoints,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        check_channels(params, out.num_channels())?;
        let at = cloud.layout()?;
        let num_points = at.width * at.height;
        if num_points > self.max_points || u32::try_from(num_points).is_err() {
            let message = format!("{num_points} points exceed the limit of {}", self.max_points);
            return Err(Error::new(ErrorKind::Argument, "unpack", message));
        }
        let sources = match num_points {
            0 => [PointSource::zero(); MAX_CHANNELS],
            _ => Layout::new(fields, at.point_step, params)?.sources.map(PointSource::from),
        };
        let stream = &self.stream;
        let (num_channels, capacity) = (out.num_channels(), out.capacity());
        let mut args = UnpackArgs {
            data: cloud.input(stream)?,
            points: out.values.output(stream)?,
            num: out.num.output(stream)?,
            counters: counters.output(stream)?,
            ticket: self.ticket.output(stream)?,
            aggregates: self.aggregates.output(stream)?,
            row_step: at.row_step as u64,
            width: at.width.max(1) as u32,
            num_points: num_points as u32,
            point_step: at.point_step as u32,
            num_channels: num_channels as u32,
            big_endian: u32::from(at.big_endian),
            is_aligned: 0,
            has_range: u32::from(params.range.is_some()),
            min: params.range.map_or([0.0; 3], |range| range.min),
            max: params.range.map_or([0.0; 3], |range| range.max),
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            sources,
        };
        args.is_aligned = u32::from(args.can_read_words());
        let num_blocks = [blocks(num_points, THREADS_PER_BLOCK).max(1), 1];
        self.kernel.enqueue(stream, Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args)
    }
}

impl From<Source> for PointSource {
    fn from(source: Source) -> Self {
        match source {
            Source::Zero => Self::zero(),
            // Within a point, whose step is a u32.
            Source::Field { offset, datatype, scale } => {
                Self::field(offset as u32, datatype, scale)
            }
        }
    }
}
