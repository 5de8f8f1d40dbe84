//! The parameters of `kernels/cloud/unpack.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::{Count, Datatype, Result};

/// Threads per block, and points per tile.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("cloud/unpack.cu", "kThreads");
/// The maximum number of channels of a point, including x, y, z.
pub const MAX_CHANNELS: usize = kernel_constant!("cloud/unpack.cu", "kMaxChannels") as usize;

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
        let datatype = match datatype {
            Datatype::I8 => kernel_constant!("cloud/unpack.cu", "kI8"),
            Datatype::U8 => kernel_constant!("cloud/unpack.cu", "kU8"),
            Datatype::I16 => kernel_constant!("cloud/unpack.cu", "kI16"),
            Datatype::U16 => kernel_constant!("cloud/unpack.cu", "kU16"),
            Datatype::I32 => kernel_constant!("cloud/unpack.cu", "kI32"),
            Datatype::U32 => kernel_constant!("cloud/unpack.cu", "kU32"),
            Datatype::F32 => kernel_constant!("cloud/unpack.cu", "kF32"),
            Datatype::F64 => kernel_constant!("cloud/unpack.cu", "kF64"),
        };
        Self { offset, datatype, scale }
    }

    /// Zero for every point.
    pub fn zero() -> Self {
        Self::default()
    }

    /// The end of the value in the point; `None` if the datatype is invalid.
    fn end(&self) -> Option<u64> {
        let size = *[0, 1, 1, 2, 2, 4, 4, 4, 8].get(self.datatype as usize)?;
        Some(if size == 0 { 0 } else { u64::from(self.offset) + size })
    }

    /// Whether the value may be read by words of 4 bytes.
    fn is_aligned(&self) -> bool {
        self.datatype < 5 || self.offset.is_multiple_of(4)
    }
}

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UnpackArgs<'a> {
    /// The cloud's bytes.
    pub data: In<'a, u8>,
    /// Rows of floats.
    pub points: Out<'a, f32>,
    /// Their number.
    pub num: Out<'a, u32>,
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
    /// The maximum number of points written.
    pub capacity: u32,
    /// The sources of the values.
    pub sources: [PointSource; MAX_CHANNELS],
}

mirrors!(PointSource, "cloud/unpack.cu", "Source");
mirrors!(UnpackArgs<'_>, "cloud/unpack.cu", "Args");

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

/// `unpack_points`.
pub struct Unpack;

// SAFETY: `UnpackArgs` mirrors `unpack::Args` (compared). Threads without a point read nothing; the
// others read values that end within their point (checked), which is within the length of `data`
// (checked), by words only where `is_aligned` holds (checked, with the address of `data`). Rows are
// compared with `capacity`, for which `points` is large enough (checked). Blocks wait for
// aggregates of tiles that were taken before theirs: those blocks run and publish before they wait.
unsafe impl KernelSpec for Unpack {
    const NAME: &'static str = "unpack_points";
    type Args<'a> = UnpackArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let num_blocks = args.num_points.div_ceil(THREADS_PER_BLOCK).max(1);
        let num_channels = args.num_channels as usize;
        if grid.num_blocks != [num_blocks, 1] || !(3..=MAX_CHANNELS).contains(&num_channels) {
            let [x, y] = grid.num_blocks;
            let found = format!("{x} x {y} blocks, {num_channels} channels");
            return Err(refused(Self::NAME, &found));
        }
        if args.is_aligned != 0 && !args.can_read_words() {
            return Err(refused(Self::NAME, "values are not aligned to 4 bytes"));
        }
        let needed = args.num_bytes().and_then(|needed| usize::try_from(needed).ok());
        let needed = needed.ok_or_else(|| {
            refused(Self::NAME, &format!("points of {} bytes do not fit", args.point_step))
        })?;
        let num_values = (args.capacity as usize).saturating_mul(num_channels);
        let slices = [
            ("data", args.data.len(), needed),
            ("points", args.points.len(), num_values),
            ("num", args.num.len(), 1),
            ("counters", args.counters.len(), Count::ALL.len()),
            ("ticket", args.ticket.len(), 1),
            ("aggregates", args.aggregates.len(), num_blocks as usize),
        ];
        check_lens(Self::NAME, slices)
    }
}
