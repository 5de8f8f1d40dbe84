//! The CUDA implementation of [`unpack`](super::unpack): one kernel that reads the
//! bytes of the message. Equal to the CPU bit for bit, in the same order.

use super::kernels::{
    MAX_CHANNELS as MAX_SOURCES, MovingArgs, NUM_COUNTS, NUM_KNOTS as NUM_MATRICES, NUM_ROW_VALUES,
    PointSource, THREADS_PER_BLOCK, Unpack, UnpackArgs, UnpackMoving, number_of,
};
use super::placement::{NUM_KNOTS, Placement, Rows, Sweep};
use super::{Layout, MAX_CHANNELS, Source, UnpackCounts, UnpackParams, check_channels};
use crate::cloud::{CloudLayout, DeviceCloud, DevicePoints};
use crate::device::cuda::{DeviceBuffer, Grid, In, Kernel, MappedBuffer, Out, Stream, blocks};
use crate::shared::DeviceCounters;
use det_post_types::{Error, ErrorKind, MAX_POINT_TIME_S, PointFields, Result};

const _: () = assert!(MAX_CHANNELS == MAX_SOURCES && NUM_KNOTS == NUM_MATRICES);

/// Kernels and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    kernel: Kernel<Unpack>,
    /// Loaded with the first sweep that moves.
    moving_kernel: Option<Kernel<UnpackMoving>>,
    ticket: DeviceBuffer<u64>,
    aggregates: DeviceBuffer<u64>,
    /// Of points without a time; empty until a sweep moves.
    time_aggregates: DeviceBuffer<u64>,
    /// The rows after each cloud of a frame but the last, in turns.
    ends: [DeviceBuffer<u32>; 2],
    max_points: usize,
}

/// A cloud of a frame.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The uploaded cloud.
    pub cloud: &'a DeviceCloud,
    /// Its fields.
    pub fields: &'a PointFields<'a>,
    /// Where its points go.
    pub placement: &'a Placement,
    /// How many clouds of the frame are before it.
    pub index: usize,
    /// Whether it is the last cloud of the frame.
    pub is_last: bool,
}

/// The counts of a cloud in memory that the host reads.
#[derive(Debug)]
pub struct CloudCounts(MappedBuffer<u32>);

impl CloudCounts {
    /// Counts of 0.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn new(stream: &Stream) -> Result<Self> {
        MappedBuffer::zeros(stream, NUM_COUNTS).map(Self)
    }

    /// The counts of the last cloud; the caller has waited for the stream.
    pub fn read(&self) -> UnpackCounts {
        let count = |index| self.0.get(index).unwrap_or(0) as usize;
        UnpackCounts {
            num_points: count(0),
            num_not_finite: count(1),
            num_cropped: count(2),
            num_out_of_range: count(3),
            num_over_capacity: count(4),
            num_without_time: count(5),
        }
    }
}

impl Workspace {
    /// Loads the kernel and allocates memory for clouds of up to `max_points`, valid or
    /// not.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel or there is not enough
    /// memory.
    pub fn new(stream: &Stream, max_points: usize) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            kernel: stream.device().kernel()?,
            moving_kernel: None,
            ticket: DeviceBuffer::zeros(stream, 1)?,
            aggregates: DeviceBuffer::zeros(stream, num_tiles(max_points))?,
            time_aggregates: DeviceBuffer::zeros(stream, 0)?,
            ends: [DeviceBuffer::zeros(stream, 1)?, DeviceBuffer::zeros(stream, 1)?],
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
            self.aggregates = DeviceBuffer::zeros(&self.stream, num_tiles(max_points))?;
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
        let placement = Placement::default();
        let part = Part { cloud, fields, placement: &placement, index: 0, is_last: true };
        self.enqueue_part(&part, params, out, counters, None)
    }

    /// Queues the unpacking of one of the clouds of a frame, in their order: after the points of
    /// those before in `out`, whose number is right after the last one. The counts of the cloud are
    /// also written to `counts`.
    ///
    /// # Errors
    /// As [`Workspace::enqueue`] and [`append`](super::append).
    pub fn enqueue_part(
        &mut self,
        part: &Part<'_>,
        params: &UnpackParams,
        out: &mut DevicePoints,
        counters: &mut DeviceCounters,
        counts: Option<&mut CloudCounts>,
    ) -> Result<()> {
        check_channels(params, out.num_channels())?;
        let at = part.cloud.layout()?;
        let num_points = at.width * at.height;
        if num_points > self.max_points || u32::try_from(num_points).is_err() {
            let message = format!("{num_points} points exceed the limit of {}", self.max_points);
            return Err(Error::new(ErrorKind::Argument, "unpack", message));
        }
        let sources = match num_points {
            0 => [PointSource::zero(); MAX_CHANNELS],
            _ => Layout::new(part.fields, at.point_step, params)?.sources.map(PointSource::from),
        };
        let sweep = part.placement.sweep.as_ref().filter(|_| num_points > 0);
        if sweep.is_some() {
            part.placement.check(at.point_step)?;
            self.prepare_sweeps()?;
        }
        let Self {
            stream, kernel, moving_kernel, ticket, aggregates, time_aggregates, ends, ..
        } = self;
        let [even, odd] = ends;
        let (before, end) = if part.index.is_multiple_of(2) { (odd, even) } else { (even, odd) };
        let mut args = UnpackArgs {
            data: part.cloud.input(stream)?,
            before: if part.index == 0 { In::empty() } else { before.input(stream)? },
            capacity: u32::try_from(out.capacity()).unwrap_or(u32::MAX),
            num_channels: out.num_channels() as u32,
            points: out.values.output(stream)?,
            num: if part.is_last { &mut out.num } else { end }.output(stream)?,
            counts: counts
                .map_or_else(|| Ok(Out::empty()), |CloudCounts(counts)| counts.output(stream))?,
            counters: counters.output(stream)?,
            ticket: ticket.output(stream)?,
            aggregates: aggregates.output(stream)?,
            sources,
            ..UnpackArgs::of(&at, num_points, params, part.placement)
        };
        let num_blocks = [num_tiles(num_points) as u32, 1];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        match sweep.zip(moving_kernel.as_ref()) {
            None => {
                args.is_aligned = u32::from(args.can_read_words());
                kernel.enqueue(stream, grid, args)
            }
            Some((sweep, kernel)) => {
                let mut args = MovingArgs::of(&args, sweep, time_aggregates.output(stream)?);
                args.cloud.is_aligned = u32::from(args.can_read_words());
                kernel.enqueue(stream, grid, args)
            }
        }
    }

    /// Loads the kernel for sweeps that move, and its memory.
    fn prepare_sweeps(&mut self) -> Result<()> {
        if self.moving_kernel.is_none() {
            self.moving_kernel = Some(self.stream.device().kernel()?);
        }
        let num_tiles = self.aggregates.len();
        if self.time_aggregates.len() < num_tiles {
            self.time_aggregates = DeviceBuffer::zeros(&self.stream, num_tiles)?;
        }
        Ok(())
    }
}

/// The tiles of a cloud: at least one, which writes the number of points.
fn num_tiles(num_points: usize) -> usize {
    blocks(num_points, THREADS_PER_BLOCK).max(1) as usize
}

fn flat(rows: &Rows) -> [f32; NUM_ROW_VALUES] {
    let mut values = [0.0; NUM_ROW_VALUES];
    values.copy_from_slice(rows.as_flattened());
    values
}

impl UnpackArgs<'_> {
    /// The parameters of a cloud, without slices and sources.
    fn of(at: &CloudLayout, num_points: usize, params: &UnpackParams, to: &Placement) -> Self {
        Self {
            data: In::empty(),
            before: In::empty(),
            points: Out::empty(),
            num: Out::empty(),
            counts: Out::empty(),
            counters: Out::empty(),
            ticket: Out::empty(),
            aggregates: Out::empty(),
            row_step: at.row_step as u64,
            width: at.width.max(1) as u32,
            num_points: num_points as u32,
            point_step: at.point_step as u32,
            num_channels: 0,
            big_endian: u32::from(at.big_endian),
            is_aligned: 0,
            has_range: u32::from(params.range.is_some()),
            min: params.range.map_or([0.0; 3], |range| range.min),
            max: params.range.map_or([0.0; 3], |range| range.max),
            capacity: 0,
            has_rows: u32::from(to.rows.is_some()),
            has_crop: u32::from(to.crop.is_some()),
            rows: to.rows.as_ref().map_or([0.0; NUM_ROW_VALUES], flat),
            crop_min: to.crop.map_or([0.0; 3], |crop| crop.min),
            crop_max: to.crop.map_or([0.0; 3], |crop| crop.max),
            sources: [PointSource::zero(); MAX_CHANNELS],
        }
    }
}

impl<'a> MovingArgs<'a> {
    fn of(cloud: &UnpackArgs<'a>, sweep: &Sweep, time_aggregates: Out<'a, u64>) -> Self {
        Self {
            cloud: *cloud,
            time_aggregates,
            time_base: sweep.times.base,
            time_unit_s: sweep.times.unit_s,
            time_offset: sweep.times.offset,
            time_datatype: number_of(sweep.times.datatype),
            max_time_s: MAX_POINT_TIME_S,
            first_s: sweep.first_s,
            knots_per_s: sweep.knots_per_s,
            knots: sweep.knots.each_ref().map(flat),
            reserved: 0,
        }
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
