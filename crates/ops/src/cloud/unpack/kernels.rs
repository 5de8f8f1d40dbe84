//! The parameters of `kernels/cloud/unpack.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::{Count, Datatype, Result};

/// Threads per block, and points per tile.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("cloud/unpack.cu", "kThreads");
/// The maximum number of channels of a point, including x, y, z.
pub const MAX_CHANNELS: usize = kernel_constant!("cloud/unpack.cu", "kMaxChannels") as usize;
/// The times of a sweep with a matrix.
pub const NUM_KNOTS: usize = kernel_constant!("cloud/unpack.cu", "kKnots") as usize;
/// The values of three rows of a matrix.
pub const NUM_ROW_VALUES: usize = kernel_constant!("cloud/unpack.cu", "kRows") as usize;
/// The clouds of a launch.
pub const MAX_CLOUDS: usize = kernel_constant!("cloud/unpack.cu", "kMaxClouds") as usize;
/// The counts of a cloud.
pub const NUM_COUNTS: usize = kernel_constant!("cloud/unpack.cu", "kNumCounts") as usize;

/// The source of one value of a point: `Source` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct PointSource {
    offset: u32,
    /// `Datatype` in the kernel; 0 for none.
    datatype: u32,
    scale: f32,
}

impl PointSource {
    /// A value at an offset in the point, multiplied by `scale`.
    pub fn field(offset: u32, datatype: Datatype, scale: f32) -> Self {
        Self { offset, datatype: number_of(datatype), scale }
    }

    /// Zero for every point.
    pub fn zero() -> Self {
        Self::default()
    }

    /// The end of the value in the point; `None` if the datatype is invalid.
    fn end(&self) -> Option<u64> {
        end_of(self.offset, self.datatype)
    }

    /// Whether the value may be read by words of 4 bytes.
    fn is_aligned(&self) -> bool {
        is_aligned(self.offset, self.datatype)
    }
}

/// `Datatype` in the kernel.
pub fn number_of(datatype: Datatype) -> u32 {
    match datatype {
        Datatype::I8 => kernel_constant!("cloud/unpack.cu", "kI8"),
        Datatype::U8 => kernel_constant!("cloud/unpack.cu", "kU8"),
        Datatype::I16 => kernel_constant!("cloud/unpack.cu", "kI16"),
        Datatype::U16 => kernel_constant!("cloud/unpack.cu", "kU16"),
        Datatype::I32 => kernel_constant!("cloud/unpack.cu", "kI32"),
        Datatype::U32 => kernel_constant!("cloud/unpack.cu", "kU32"),
        Datatype::F32 => kernel_constant!("cloud/unpack.cu", "kF32"),
        Datatype::F64 => kernel_constant!("cloud/unpack.cu", "kF64"),
    }
}

/// The end of a value at an offset in its point; `None` if the datatype is invalid.
fn end_of(offset: u32, datatype: u32) -> Option<u64> {
    let size = *[0, 1, 1, 2, 2, 4, 4, 4, 8].get(datatype as usize)?;
    Some(if size == 0 { 0 } else { u64::from(offset) + size })
}

/// Whether a value may be read by words of 4 bytes.
fn is_aligned(offset: u32, datatype: u32) -> bool {
    datatype < 5 || offset.is_multiple_of(4)
}

/// A cloud: `Cloud` in the kernel.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct UnpackCloud<'a> {
    /// Its bytes.
    pub data: In<'a, u8>,
    /// Bytes from row to row.
    pub row_step: u64,
    /// The tiles of the clouds before it.
    pub first_tile: u32,
    /// Points of the cloud.
    pub num_points: u32,
    /// Points per row, at least 1.
    pub width: u32,
    /// Bytes from point to point.
    pub point_step: u32,
    /// Not 0: values are big-endian.
    pub big_endian: u32,
    /// Not 0: values of 4 bytes and more are aligned to 4 bytes.
    pub is_aligned: u32,
    /// Where its counts are among the counts of all.
    pub counts_row: u32,
    /// Not 0: its points are moved by the matrices of their times.
    pub is_moving: u32,
    /// Not 0: points are moved by `rows`.
    pub has_rows: u32,
    /// Not 0: points from `crop_min` to `crop_max` are dropped.
    pub has_crop: u32,
    /// Three rows of a matrix.
    pub rows: [f32; NUM_ROW_VALUES],
    /// Smallest x, y, z.
    pub crop_min: [f32; 3],
    /// Largest x, y, z, exclusive.
    pub crop_max: [f32; 3],
    /// The sources of the values.
    pub sources: [PointSource; MAX_CHANNELS],
}

/// The motion of a sensor while it measured: `Sweep` in the kernel.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct UnpackSweep {
    /// The time at the stamp of the cloud.
    pub time_base: f64,
    /// Seconds of a unit of the times.
    pub time_unit_s: f64,
    /// Bytes from the start of a point to its time.
    pub time_offset: u32,
    /// `Datatype` in the kernel.
    pub time_datatype: u32,
    /// The time of the first knot from the stamp.
    pub first_s: f32,
    /// Knots per second.
    pub knots_per_s: f32,
    /// The matrices of the knots.
    pub knots: [[f32; NUM_ROW_VALUES]; NUM_KNOTS],
}

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UnpackArgs<'a> {
    /// Rows of floats.
    pub points: Out<'a, f32>,
    /// One value, the rows of the launches before, at most `capacity`; empty without any.
    pub before: In<'a, u32>,
    /// Their number, together with the launches before.
    pub num: Out<'a, u32>,
    /// The counts by cloud, or empty.
    pub counts: Out<'a, u32>,
    /// The counters of the frame.
    pub counters: Out<'a, u32>,
    /// One value: the ticket of the next tile, and the epoch of the launch.
    pub ticket: Out<'a, u64>,
    /// By tile, its aggregate and the epoch of the launch.
    pub aggregates: Out<'a, u64>,
    /// The clouds.
    pub num_clouds: u32,
    /// Values per point, including x, y, z.
    pub num_channels: u32,
    /// The maximum number of rows.
    pub capacity: u32,
    /// Not 0: points outside `min` to `max` are dropped.
    pub has_range: u32,
    /// Smallest x, y, z.
    pub min: [f32; 3],
    /// Largest x, y, z, exclusive.
    pub max: [f32; 3],
    /// The clouds in their order, with nothing after the last one.
    pub clouds: [UnpackCloud<'a>; MAX_CLOUDS],
}

/// The parameter: `MovingArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MovingArgs<'a> {
    /// The clouds; points without a usable time are moved by the matrix of their cloud.
    pub args: UnpackArgs<'a>,
    /// By tile, the points without a time and the epoch of the launch.
    pub time_aggregates: Out<'a, u64>,
    /// The largest usable time from the stamp.
    pub max_time_s: f32,
    /// Without a meaning.
    pub reserved: u32,
    /// By cloud that moves.
    pub sweeps: [UnpackSweep; MAX_CLOUDS],
}

mirrors!(PointSource, "cloud/unpack.cu", "Source");
mirrors!(UnpackCloud<'_>, "cloud/unpack.cu", "Cloud");
mirrors!(UnpackSweep, "cloud/unpack.cu", "Sweep");
mirrors!(UnpackArgs<'_>, "cloud/unpack.cu", "Args");
mirrors!(MovingArgs<'_>, "cloud/unpack.cu", "MovingArgs");

impl UnpackCloud<'_> {
    /// Its tiles: at least one, which writes its counts.
    pub fn num_tiles(&self) -> u32 {
        self.num_points.div_ceil(THREADS_PER_BLOCK).max(1)
    }

    /// Whether all values of 4 bytes and more are aligned to 4 bytes, the time of `sweep` as well.
    pub fn can_read_words(&self, num_channels: u32, sweep: Option<&UnpackSweep>) -> bool {
        let in_steps = self.row_step.is_multiple_of(4) || self.width >= self.num_points;
        in_steps
            && self.point_step.is_multiple_of(4)
            // A payload that is read in place may begin anywhere.
            && self.data.is_aligned_to(4)
            && self.used_sources(num_channels).iter().all(PointSource::is_aligned)
            && sweep.is_none_or(|sweep| is_aligned(sweep.time_offset, sweep.time_datatype))
    }

    fn used_sources(&self, num_channels: u32) -> &[PointSource] {
        &self.sources[..(num_channels as usize).min(MAX_CHANNELS)]
    }

    /// Bytes up to the end of the last point; `None` when a value exceeds its point.
    fn num_bytes(&self, num_channels: u32) -> Option<u64> {
        let step = u64::from(self.point_step);
        let fits = |source: &PointSource| source.end().is_some_and(|end| end <= step);
        if !self.used_sources(num_channels).iter().all(fits) {
            return None;
        }
        let Some(last) = self.num_points.checked_sub(1) else { return Some(0) };
        let rows = self.row_step.checked_mul(u64::from(last.checked_div(self.width)?))?;
        rows.checked_add(step.checked_mul(u64::from(self.width.min(self.num_points)))?)
    }
}

impl UnpackSweep {
    /// Checks that the kernel reads times within their points, and matrices within theirs.
    fn check(&self, name: &'static str, cloud: &UnpackCloud<'_>) -> Result<()> {
        let end = end_of(self.time_offset, self.time_datatype);
        let is_within = end.is_some_and(|end| end <= u64::from(cloud.point_step));
        // An offset of NaN would choose any matrix.
        if is_within && self.first_s.is_finite() && self.knots_per_s.is_finite() {
            return Ok(());
        }
        let Self { time_offset, time_datatype, first_s, knots_per_s, .. } = self;
        let found = format!(
            "a time of type {time_datatype} at {time_offset}, from {first_s} s on, {knots_per_s} per s"
        );
        Err(refused(name, &found))
    }
}

impl<'a> UnpackArgs<'a> {
    fn clouds(&self) -> &[UnpackCloud<'a>] {
        &self.clouds[..(self.num_clouds as usize).min(MAX_CLOUDS)]
    }
}

/// `unpack_points`.
pub struct Unpack;

/// `unpack_moving_points`.
pub struct UnpackMoving;

// SAFETY: `UnpackArgs` mirrors `unpack::Args` (compared). The tiles of the clouds follow each other and
// are the blocks of the grid (checked). Threads without a point read nothing; the
// others read values that end within their point (checked), which is within the length of `data`
// (checked), by words only where `is_aligned` holds (checked, with the address of `data`). Rows are
// compared with `capacity`, for which `points` is large enough (checked). `before` and `counts` are
// read and written only where they are not empty, within their length (checked). Blocks wait for
// aggregates of tiles that were taken before theirs: those blocks run and publish before they wait.
unsafe impl KernelSpec for Unpack {
    const NAME: &'static str = "unpack_points";
    type Args<'a> = UnpackArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check(Self::NAME, args, grid, &[])
    }
}

// SAFETY: as for `Unpack`, with the same fields. Times of clouds that move end within their point (checked)
// and are read as its values; a matrix is chosen by a finite time (checked) within
// their number. `time_aggregates` is as long as `aggregates` (checked).
unsafe impl KernelSpec for UnpackMoving {
    const NAME: &'static str = "unpack_moving_points";
    type Args<'a> = MovingArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check(Self::NAME, &args.args, grid, &args.sweeps)?;
        let num_tiles = grid.num_blocks[0] as usize;
        check_lens(Self::NAME, [("time_aggregates", args.time_aggregates.len(), num_tiles)])
    }
}

/// Checks the clouds of a launch; without sweeps none moves.
fn check(
    name: &'static str,
    args: &UnpackArgs<'_>,
    grid: &Grid,
    sweeps: &[UnpackSweep],
) -> Result<()> {
    check_threads(name, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let (num_channels, num_clouds) = (args.num_channels as usize, args.num_clouds as usize);
    let (mut num_tiles, mut num_counts) = (0, 0);
    for (index, cloud) in args.clouds().iter().enumerate() {
        let sweep = sweeps.get(index).filter(|_| cloud.is_moving != 0);
        if cloud.first_tile != num_tiles {
            return Err(refused(name, "tiles of clouds do not follow each other"));
        }
        num_tiles = num_tiles.saturating_add(cloud.num_tiles());
        num_counts = num_counts.max((cloud.counts_row as usize + 1) * NUM_COUNTS);
        if cloud.is_aligned != 0 && !cloud.can_read_words(args.num_channels, sweep) {
            return Err(refused(name, "values are not aligned to 4 bytes"));
        }
        if let Some(sweep) = sweep {
            sweep.check(name, cloud)?;
        }
        let needed = cloud.num_bytes(args.num_channels);
        let needed = needed.and_then(|needed| usize::try_from(needed).ok()).ok_or_else(|| {
            refused(name, &format!("points of {} bytes do not fit", cloud.point_step))
        })?;
        check_lens(name, [("data", cloud.data.len(), needed)])?;
    }
    let is_known = (1..=MAX_CLOUDS).contains(&num_clouds);
    if grid.num_blocks != [num_tiles, 1] || !is_known || !(3..=MAX_CHANNELS).contains(&num_channels)
    {
        let [x, y] = grid.num_blocks;
        let found = format!("{x} x {y} blocks, {num_clouds} clouds, {num_channels} channels");
        return Err(refused(name, &found));
    }
    let num_values = (args.capacity as usize).saturating_mul(num_channels);
    let slices = [
        ("points", args.points.len(), num_values),
        ("num", args.num.len(), 1),
        ("counts", args.counts.len(), if args.counts.is_empty() { 0 } else { num_counts }),
        ("counters", args.counters.len(), Count::ALL.len()),
        ("ticket", args.ticket.len(), 1),
        ("aggregates", args.aggregates.len(), num_tiles as usize),
    ];
    check_lens(name, slices)
}
