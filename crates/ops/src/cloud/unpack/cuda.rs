//! The CUDA implementation of [`unpack`](super::unpack): one kernel that reads the
//! bytes of the messages of a frame. Equal to the CPU bit for bit, in the same order.

use super::kernels::{
    MAX_CHANNELS as MAX_SOURCES, MAX_CLOUDS, MovingArgs, NUM_COUNTS, NUM_KNOTS as NUM_MATRICES,
    NUM_ROW_VALUES, PointSource, THREADS_PER_BLOCK, Unpack, UnpackArgs, UnpackCloud, UnpackMoving,
    UnpackSweep, number_of,
};
use super::placement::{NUM_KNOTS, Placement, Rows, Sweep};
use super::{Layout, MAX_CHANNELS, Source, UnpackCounts, UnpackParams, check_channels};
use crate::cloud::{DeviceCloud, DevicePoints};
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
    /// The rows after each launch of a frame but the last, in turns.
    ends: [DeviceBuffer<u32>; 2],
    max_points: usize,
}

/// A cloud of a frame.
#[derive(Clone, Copy)]
pub struct Part<'c, 'p> {
    /// The uploaded cloud.
    pub cloud: &'c DeviceCloud,
    /// Its fields.
    pub fields: &'p PointFields<'p>,
    /// Where its points go.
    pub placement: &'p Placement,
    /// Its place in the counts.
    pub index: usize,
}

/// The clouds of a frame, in the order in which they are added. Launches have up to eight
/// each.
pub struct Batch<'a> {
    workspace: &'a mut Workspace,
    params: &'a UnpackParams,
    out: &'a mut DevicePoints,
    counters: &'a mut DeviceCounters,
    counts: Option<&'a mut CloudCounts>,
    /// Of the next launch.
    clouds: [UnpackCloud<'a>; MAX_CLOUDS],
    sweeps: [UnpackSweep; MAX_CLOUDS],
    num_clouds: usize,
    num_tiles: u32,
    /// Of the frame.
    num_points: usize,
    num_launches: usize,
}

/// The counts of clouds in memory that the host reads.
#[derive(Debug)]
pub struct CloudCounts(MappedBuffer<u32>);

impl CloudCounts {
    /// Counts of 0 of several clouds.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn new(stream: &Stream, num_clouds: usize) -> Result<Self> {
        MappedBuffer::zeros(stream, num_clouds * NUM_COUNTS).map(Self)
    }

    /// The counts of the last cloud of an index; the caller has waited for the stream.
    pub fn read(&self, index: usize) -> UnpackCounts {
        let count = |of| self.0.get(index * NUM_COUNTS + of).unwrap_or(0) as usize;
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
    /// Loads the kernel and allocates memory for frames of up to `max_points`, valid or
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
            aggregates: DeviceBuffer::zeros(stream, max_tiles(max_points))?,
            time_aggregates: DeviceBuffer::zeros(stream, 0)?,
            ends: [DeviceBuffer::zeros(stream, 1)?, DeviceBuffer::zeros(stream, 1)?],
            max_points,
        })
    }

    /// The maximum number of points of a frame.
    pub fn max_points(&self) -> usize {
        self.max_points
    }

    /// Grows the memory to frames of up to `max_points`.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn reserve(&mut self, max_points: usize) -> Result<()> {
        if max_points > self.max_points {
            self.aggregates = DeviceBuffer::zeros(&self.stream, max_tiles(max_points))?;
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
        let mut batch = self.batch(params, out, counters, None)?;
        batch.add(&Part { cloud, fields, placement: &Placement::default(), index: 0 })?;
        batch.enqueue()
    }

    /// Begins a frame, whose clouds follow each other in `out`. Dropped points are added to
    /// `counters`, what becomes of each cloud is written to `counts`.
    ///
    /// # Errors
    /// `Argument` when the channels do not fit `out`.
    pub fn batch<'a>(
        &'a mut self,
        params: &'a UnpackParams,
        out: &'a mut DevicePoints,
        counters: &'a mut DeviceCounters,
        counts: Option<&'a mut CloudCounts>,
    ) -> Result<Batch<'a>> {
        check_channels(params, out.num_channels())?;
        Ok(Batch {
            workspace: self,
            params,
            out,
            counters,
            counts,
            clouds: [UnpackCloud::default(); MAX_CLOUDS],
            sweeps: [UnpackSweep::default(); MAX_CLOUDS],
            num_clouds: 0,
            num_tiles: 0,
            num_points: 0,
            num_launches: 0,
        })
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

impl<'a> Batch<'a> {
    /// Adds a cloud. A launch is queued when it is full and another cloud follows.
    ///
    /// # Errors
    /// As [`append`](super::append); `Argument` when no cloud was uploaded or the frame has more
    /// than [`Workspace::max_points`]; `Device` as [`Self::enqueue`].
    pub fn add(&mut self, part: &Part<'a, '_>) -> Result<()> {
        let at = part.cloud.layout()?;
        let num_points = at.width * at.height;
        let (num_all, max_points) =
            (self.num_points.saturating_add(num_points), self.workspace.max_points);
        if num_all > max_points || u32::try_from(num_all).is_err() {
            let message = format!("{num_all} points exceed the limit of {max_points}");
            return Err(Error::new(ErrorKind::Argument, "unpack", message));
        }
        let sources = match num_points {
            0 => [PointSource::zero(); MAX_CHANNELS],
            _ => {
                Layout::new(part.fields, at.point_step, self.params)?.sources.map(PointSource::from)
            }
        };
        let to = part.placement;
        let sweep = to.sweep.as_ref().filter(|_| num_points > 0);
        if sweep.is_some() {
            to.check(at.point_step)?;
        }
        let data = part.cloud.input(&self.workspace.stream)?;
        if self.num_clouds == MAX_CLOUDS {
            self.launch(false)?;
        }
        let mut cloud = UnpackCloud {
            data,
            row_step: at.row_step as u64,
            first_tile: self.num_tiles,
            num_points: num_points as u32,
            width: at.width.max(1) as u32,
            point_step: at.point_step as u32,
            big_endian: u32::from(at.big_endian),
            is_aligned: 0,
            counts_row: u32::try_from(part.index).unwrap_or(u32::MAX),
            is_moving: u32::from(sweep.is_some()),
            has_rows: u32::from(to.rows.is_some()),
            has_crop: u32::from(to.crop.is_some()),
            rows: to.rows.as_ref().map_or([0.0; NUM_ROW_VALUES], flat),
            crop_min: to.crop.map_or([0.0; 3], |crop| crop.min),
            crop_max: to.crop.map_or([0.0; 3], |crop| crop.max),
            sources,
        };
        let sweep = sweep.map(UnpackSweep::of);
        let num_channels = self.out.num_channels() as u32;
        cloud.is_aligned = u32::from(cloud.can_read_words(num_channels, sweep.as_ref()));
        let place = self.num_clouds;
        self.clouds[place] = cloud;
        if let Some(sweep) = sweep {
            self.sweeps[place] = sweep;
        }
        self.num_clouds += 1;
        self.num_tiles += cloud.num_tiles();
        self.num_points = num_all;
        Ok(())
    }

    /// Queues the unpacking of the clouds that were added.
    ///
    /// # Errors
    /// `Argument` without clouds; `Device` when a buffer belongs to another stream or a launch fails.
    pub fn enqueue(mut self) -> Result<()> {
        self.launch(true)
    }

    fn launch(&mut self, is_last: bool) -> Result<()> {
        let is_moving = self.clouds[..self.num_clouds].iter().any(|cloud| cloud.is_moving != 0);
        if is_moving {
            self.workspace.prepare_sweeps()?;
        }
        let Self { workspace, params, out, counters, counts, .. } = self;
        let Workspace {
            stream,
            kernel,
            moving_kernel,
            ticket,
            aggregates,
            time_aggregates,
            ends,
            ..
        } = &mut **workspace;
        let [even, odd] = ends;
        let (before, end) =
            if self.num_launches.is_multiple_of(2) { (odd, even) } else { (even, odd) };
        let counts = counts.as_deref_mut().map(|CloudCounts(counts)| counts.output(stream));
        let args = UnpackArgs {
            capacity: u32::try_from(out.capacity()).unwrap_or(u32::MAX),
            num_channels: out.num_channels() as u32,
            points: out.values.output(stream)?,
            before: if self.num_launches == 0 { In::empty() } else { before.input(stream)? },
            num: if is_last { &mut out.num } else { end }.output(stream)?,
            counts: counts.unwrap_or_else(|| Ok(Out::empty()))?,
            counters: counters.output(stream)?,
            ticket: ticket.output(stream)?,
            aggregates: aggregates.output(stream)?,
            num_clouds: self.num_clouds as u32,
            has_range: u32::from(params.range.is_some()),
            min: params.range.map_or([0.0; 3], |range| range.min),
            max: params.range.map_or([0.0; 3], |range| range.max),
            clouds: self.clouds,
        };
        let grid = Grid { num_blocks: [self.num_tiles, 1], threads_per_block: THREADS_PER_BLOCK };
        match moving_kernel.as_ref().filter(|_| is_moving) {
            None => kernel.enqueue(stream, grid, args)?,
            Some(kernel) => {
                let time_aggregates = time_aggregates.output(stream)?;
                let (max_time_s, sweeps) = (MAX_POINT_TIME_S, self.sweeps);
                let args = MovingArgs { args, time_aggregates, max_time_s, reserved: 0, sweeps };
                kernel.enqueue(stream, grid, args)?;
            }
        }
        (self.num_clouds, self.num_tiles) = (0, 0);
        self.num_launches += 1;
        Ok(())
    }
}

/// The most tiles of a launch: of all points, and a part of a tile for each cloud.
fn max_tiles(num_points: usize) -> usize {
    blocks(num_points, THREADS_PER_BLOCK) as usize + MAX_CLOUDS
}

fn flat(rows: &Rows) -> [f32; NUM_ROW_VALUES] {
    let mut values = [0.0; NUM_ROW_VALUES];
    values.copy_from_slice(rows.as_flattened());
    values
}

impl UnpackSweep {
    fn of(sweep: &Sweep) -> Self {
        Self {
            time_base: sweep.times.base,
            time_unit_s: sweep.times.unit_s,
            time_offset: sweep.times.offset,
            time_datatype: number_of(sweep.times.datatype),
            first_s: sweep.first_s,
            knots_per_s: sweep.knots_per_s,
            knots: sweep.knots.each_ref().map(flat),
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
