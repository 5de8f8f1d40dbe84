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

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UnpackArgs<'a> {
    /// The cloud's bytes.
    pub data: In<'a, u8>,
    /// One value, the rows of the clouds before, at most `capacity`; empty without clouds before.
    pub before: In<'a, u32>,
    /// Rows of floats.
    pub points: Out<'a, f32>,
    /// Their number, together with the clouds before.
    pub num: Out<'a, u32>,
    /// The counts of this cloud, or empty.
    pub counts: Out<'a, u32>,
    /// The counters of the frame.
    pub counters: Out<'a, u32>,
    /// One value: the ticket of the next tile, and the epoch of the launch.
    pub ticket: Out<'a, u64>,
    /// By tile, its aggregate and the epoch of the launch.
    pub aggregates: Out<'a, u64>,
    /// Bytes from row to row.
    pub row_step: u64,
    /// Points per row, at least 1.
    pub width: u32,
    /// Points of the cloud.
    pub num_points: u32,
    /// Bytes from point to point.
    pub point_step: u32,
    /// Values per point, including x, y, z.
    pub num_channels: u32,
    /// Not 0: values are big-endian.
    pub big_endian: u32,
    /// Not 0: values of 4 bytes and more are aligned to 4 bytes.
    pub is_aligned: u32,
    /// Not 0: points outside `min` to `max` are dropped.
    pub has_range: u32,
    /// Smallest x, y, z.
    pub min: [f32; 3],
    /// Largest x, y, z, exclusive.
    pub max: [f32; 3],
    /// The maximum number of rows.
    pub capacity: u32,
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

/// The parameter: `MovingArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MovingArgs<'a> {
    /// The cloud; without a usable time its points are moved by its matrix.
    pub cloud: UnpackArgs<'a>,
    /// By tile, the points without a time and the epoch of the launch.
    pub time_aggregates: Out<'a, u64>,
    /// The time at the stamp of the cloud.
    pub time_base: f64,
    /// Seconds of a unit of the times.
    pub time_unit_s: f64,
    /// Bytes from the start of a point to its time.
    pub time_offset: u32,
    /// `Datatype` in the kernel.
    pub time_datatype: u32,
    /// The largest usable time from the stamp.
    pub max_time_s: f32,
    /// The time of the first knot from the stamp.
    pub first_s: f32,
    /// Knots per second.
    pub knots_per_s: f32,
    /// The matrices of the knots.
    pub knots: [[f32; NUM_ROW_VALUES]; NUM_KNOTS],
    /// Without a meaning.
    pub reserved: u32,
}

mirrors!(PointSource, "cloud/unpack.cu", "Source");
mirrors!(UnpackArgs<'_>, "cloud/unpack.cu", "Args");
mirrors!(MovingArgs<'_>, "cloud/unpack.cu", "MovingArgs");

impl UnpackArgs<'_> {
    /// Whether all values of 4 bytes and more are aligned to 4 bytes.
    pub fn can_read_words(&self) -> bool {
        let in_steps = self.row_step.is_multiple_of(4) || self.width >= self.num_points;
        in_steps
            && self.point_step.is_multiple_of(4)
            // A payload that is read in place may begin anywhere.
            && self.data.is_aligned_to(4)
            && self.used_sources().iter().all(PointSource::is_aligned)
    }

    fn used_sources(&self) -> &[PointSource] {
        &self.sources[..(self.num_channels as usize).min(MAX_CHANNELS)]
    }

    /// Bytes up to the end of the last point; `None` when a value exceeds its point.
    fn num_bytes(&self) -> Option<u64> {
        let step = u64::from(self.point_step);
        let fits = |source: &PointSource| source.end().is_some_and(|end| end <= step);
        if !self.used_sources().iter().all(fits) {
            return None;
        }
        let Some(last) = self.num_points.checked_sub(1) else { return Some(0) };
        let rows = self.row_step.checked_mul(u64::from(last.checked_div(self.width)?))?;
        rows.checked_add(step.checked_mul(u64::from(self.width.min(self.num_points)))?)
    }
}

impl MovingArgs<'_> {
    /// Whether all values of 4 bytes and more are aligned to 4 bytes.
    pub fn can_read_words(&self) -> bool {
        self.cloud.can_read_words() && is_aligned(self.time_offset, self.time_datatype)
    }
}

/// `unpack_points`.
pub struct Unpack;

/// `unpack_moving_points`.
pub struct UnpackMoving;

// SAFETY: `UnpackArgs` mirrors `unpack::Args` (compared). Threads without a point read nothing; the
// others read values that end within their point (checked), which is within the length of `data`
// (checked), by words only where `is_aligned` holds (checked, with the address of `data`). Rows are
// compared with `capacity`, for which `points` is large enough (checked). `before` and `counts` are
// read and written only where they are not empty, within their length (checked). Blocks wait for
// aggregates of tiles that were taken before theirs: those blocks run and publish before they wait.
unsafe impl KernelSpec for Unpack {
    const NAME: &'static str = "unpack_points";
    type Args<'a> = UnpackArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        if args.is_aligned != 0 && !args.can_read_words() {
            return Err(refused(Self::NAME, "values are not aligned to 4 bytes"));
        }
        check_cloud(Self::NAME, args, grid)
    }
}

// SAFETY: as `Unpack`, of which `MovingArgs` has the parameter (compared). The time ends within its
// point (checked) and is read by words only where it is aligned (checked). The matrices that are
// read are two of `knots`, since the first is at most the one before the last; it is a number, as
// the times that are not are left out. `time_aggregates` is as long as `aggregates` (checked).
unsafe impl KernelSpec for UnpackMoving {
    const NAME: &'static str = "unpack_moving_points";
    type Args<'a> = MovingArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        if args.cloud.is_aligned != 0 && !args.can_read_words() {
            return Err(refused(Self::NAME, "values are not aligned to 4 bytes"));
        }
        let end = end_of(args.time_offset, args.time_datatype);
        let is_within = end.is_some_and(|end| end <= u64::from(args.cloud.point_step));
        // An offset of NaN would choose any matrix.
        if !(is_within || args.cloud.num_points == 0)
            || !(args.first_s.is_finite() && args.knots_per_s.is_finite())
        {
            let found = format!(
                "a time of type {} at {}, from {} s on, {} per s",
                args.time_datatype, args.time_offset, args.first_s, args.knots_per_s
            );
            return Err(refused(Self::NAME, &found));
        }
        check_cloud(Self::NAME, &args.cloud, grid)?;
        let num_blocks = args.cloud.num_points.div_ceil(THREADS_PER_BLOCK).max(1);
        check_lens(
            Self::NAME,
            [("time_aggregates", args.time_aggregates.len(), num_blocks as usize)],
        )
    }
}

fn check_cloud(name: &'static str, args: &UnpackArgs<'_>, grid: &Grid) -> Result<()> {
    check_threads(name, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let num_blocks = args.num_points.div_ceil(THREADS_PER_BLOCK).max(1);
    let num_channels = args.num_channels as usize;
    if grid.num_blocks != [num_blocks, 1] || !(3..=MAX_CHANNELS).contains(&num_channels) {
        let [x, y] = grid.num_blocks;
        let found = format!("{x} x {y} blocks, {num_channels} channels");
        return Err(refused(name, &found));
    }
    let needed = args.num_bytes().and_then(|needed| usize::try_from(needed).ok());
    let needed = needed
        .ok_or_else(|| refused(name, &format!("points of {} bytes do not fit", args.point_step)))?;
    let num_values = (args.capacity as usize).saturating_mul(num_channels);
    let num_counts = if args.counts.is_empty() { 0 } else { NUM_COUNTS };
    let slices = [
        ("data", args.data.len(), needed),
        ("points", args.points.len(), num_values),
        ("num", args.num.len(), 1),
        ("counts", args.counts.len(), num_counts),
        ("counters", args.counters.len(), Count::ALL.len()),
        ("ticket", args.ticket.len(), 1),
        ("aggregates", args.aggregates.len(), num_blocks as usize),
    ];
    check_lens(name, slices)
}
