//! The CUDA implementation of [`bev_pool`](super::bev_pool()): one kernel, equal to the CPU but for the
//! bits of a NaN.

use half::f16;

use super::kernels::{MAX_SLAB, Pool, PoolArgs, WIDE};
use super::schedule::Schedule;
use super::shape::{FrustumShape, MapShape};
use super::table::{Packing, PoolTable};
use super::{check_shapes, error, mask_of};
use crate::device::cuda::{
    DeviceBuffer, DeviceFloat, DeviceTensor, DeviceValues, In, Kernel, KernelSpec, PinnedBuffer,
    Plain, Stream,
};
use det_post_types::Result;

/// Kernels and memory of the op on one stream, for the table of a calibration.
pub struct Workspace {
    stream: Stream,
    kernels: Kernels,
    table: Table,
    sizes: Sizes,
    max_channels: usize,
    present: DeviceBuffer<u32>,
    written_present: PinnedBuffer<u32>,
}

struct Kernels {
    f32: Kernel<Pool<f32, f32>>,
    f16: Kernel<Pool<f16, f16>>,
    f32_to_f16: Kernel<Pool<f32, f16>>,
    f16_to_f32: Kernel<Pool<f16, f32>>,
}

/// The sizes of a table.
#[derive(Clone, Copy)]
struct Sizes {
    frustum: FrustumShape,
    map: MapShape,
    packing: Packing,
}

impl Sizes {
    fn of(table: &PoolTable) -> Self {
        Self { frustum: *table.frustum(), map: *table.map(), packing: table.packing() }
    }
}

/// A list in device memory with room for more.
struct List {
    values: DeviceBuffer<u32>,
    len: usize,
}

impl List {
    /// An empty list with room for `capacity` values.
    fn with_capacity(stream: &Stream, capacity: usize) -> Result<Self> {
        Ok(Self { values: DeviceBuffer::zeros(stream, capacity)?, len: 0 })
    }

    /// Copies values to the list, which grows, and waits.
    fn write(&mut self, stream: &Stream, values: &[u32]) -> Result<()> {
        grow(stream, &mut self.values, values.len())?;
        self.len = values.len();
        if values.is_empty() { Ok(()) } else { self.values.write(values) }
    }

    fn input(&self, stream: &Stream) -> Result<In<'_, u32>> {
        Ok(self.values.input(stream)?.until(self.len))
    }
}

/// Replaces a buffer that is too short by one of zeros: its memory is freed with the stream.
fn grow<T: Plain>(stream: &Stream, buffer: &mut DeviceBuffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        *buffer = DeviceBuffer::zeros(stream, len)?;
    }
    Ok(())
}

/// A table in device memory, and the scratch memory of its long cells.
struct Table {
    points: List,
    starts: List,
    tiles: List,
    parts: List,
    long_cells: List,
    long_starts: List,
    sums: DeviceBuffer<f32>,
    tickets: DeviceBuffer<u32>,
}

impl Table {
    /// No cells, with room for `num_points` points.
    fn with_capacity(stream: &Stream, num_points: usize) -> Result<Self> {
        let list = || List::with_capacity(stream, 0);
        Ok(Self {
            points: List::with_capacity(stream, num_points)?,
            starts: list()?,
            tiles: list()?,
            parts: list()?,
            long_cells: list()?,
            long_starts: list()?,
            sums: DeviceBuffer::zeros(stream, 0)?,
            tickets: DeviceBuffer::zeros(stream, 0)?,
        })
    }

    fn write(&mut self, stream: &Stream, table: &PoolTable) -> Result<()> {
        let Schedule { tiles, parts, long_cells, long_starts } = Schedule::of(table);
        self.points.write(stream, table.points())?;
        self.starts.write(stream, table.starts())?;
        self.tiles.write(stream, &tiles)?;
        self.parts.write(stream, &parts)?;
        self.long_cells.write(stream, &long_cells)?;
        self.long_starts.write(stream, &long_starts)
    }

    /// Makes the scratch memory large enough for so many channels.
    fn reserve(&mut self, stream: &Stream, num_channels: usize) -> Result<()> {
        // No number of channels up to this one has more blocks.
        let num_slabs = num_channels.div_ceil(MAX_SLAB as usize);
        grow(stream, &mut self.sums, self.parts.len.saturating_mul(num_channels))?;
        grow(stream, &mut self.tickets, self.long_cells.len.saturating_mul(num_slabs))
    }
}

/// Channels of a block: as few blocks as possible, with about as many channels each.
fn slab(num_channels: usize) -> u32 {
    let num_slabs = num_channels.div_ceil(MAX_SLAB as usize).max(1);
    (num_channels.div_ceil(num_slabs) as u32).next_multiple_of(WIDE)
}

impl Workspace {
    /// Loads the kernels and copies a table to the device, for features of up to `max_channels`
    /// channels.
    ///
    /// # Errors
    /// Errors of [`Self::reserve`]; `Device` when this build has no such kernels.
    pub fn new(stream: &Stream, table: &PoolTable, max_channels: usize) -> Result<Self> {
        let device = stream.device();
        let mut workspace = Self {
            stream: stream.clone(),
            kernels: Kernels {
                f32: device.kernel()?,
                f16: device.kernel()?,
                f32_to_f16: device.kernel()?,
                f16_to_f32: device.kernel()?,
            },
            table: Table::with_capacity(stream, table.frustum().num_points())?,
            sizes: Sizes::of(table),
            max_channels: 1,
            present: DeviceBuffer::zeros(stream, 1)?,
            written_present: PinnedBuffer::zeros(stream, 1)?,
        };
        workspace.present.write(&[u32::MAX])?;
        workspace.set_table(table)?;
        workspace.reserve(max_channels)?;
        Ok(workspace)
    }

    /// Makes the memory large enough for features of up to `max_channels` channels, before graphs
    /// are captured.
    ///
    /// # Errors
    /// `Argument` for no channels or 2^16 or more; `Device` when there is not enough memory.
    pub fn reserve(&mut self, max_channels: usize) -> Result<()> {
        if max_channels == 0 || max_channels > usize::from(u16::MAX) {
            return Err(error(format!("{max_channels} channels: 1 to 65535 are required")));
        }
        self.max_channels = max_channels.max(self.max_channels);
        self.table.reserve(&self.stream, self.max_channels)
    }

    /// Copies another table to the device and waits: when a calibration changes, not for frames. A
    /// table of the same sizes takes the memory of the one before, but for scratch memory where it has
    /// more cells of more than [`PART_POINTS`](super::PART_POINTS) points; a graph that was captured before
    /// is captured again.
    ///
    /// # Errors
    /// `Device` when there is not enough memory or the copy fails.
    pub fn set_table(&mut self, table: &PoolTable) -> Result<()> {
        self.table.write(&self.stream, table)?;
        self.sizes = Sizes::of(table);
        self.table.reserve(&self.stream, self.max_channels)
    }

    /// Queues which cameras are there in the launches that follow; at first all are.
    ///
    /// # Errors
    /// `Argument` unless there is one value per camera; `Device` when earlier work or the upload
    /// fails.
    pub fn enqueue_present(&mut self, present: &[bool]) -> Result<()> {
        let mask = mask_of(present, self.sizes.frustum.num_cameras)?;
        self.written_present.enqueue_upload(&[mask], &mut self.present)
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Queues the writing of all values of `out`, `[1, levels * C, rows, columns]`, from depth
    /// `[cameras, D, H, W]` and features `[cameras, H, W, C]`.
    ///
    /// # Errors
    /// `Argument` for other shapes, more channels than are reserved, or depth and features of
    /// different element types; `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        depth: &DeviceTensor,
        features: &DeviceTensor,
        out: &mut DeviceTensor,
    ) -> Result<()> {
        let Sizes { frustum, map, .. } = &self.sizes;
        let shapes = [depth.shape(), features.shape(), out.shape()];
        let num_channels = check_shapes(frustum, map, shapes)?;
        if num_channels > self.max_channels {
            let message =
                format!("{num_channels} channels: at most {} required", self.max_channels);
            return Err(error(message));
        }
        let inputs = [depth, features];
        let is_f16 = matches!(features.values(), DeviceValues::F16(_));
        let Self { stream, kernels, table, sizes, present, .. } = self;
        let mut launch = Launch { stream, table, sizes, present, num_channels };
        match (is_f16, out.values_mut()) {
            (false, DeviceValues::F32(map)) => launch.enqueue(&kernels.f32, inputs, map),
            (false, DeviceValues::F16(map)) => launch.enqueue(&kernels.f32_to_f16, inputs, map),
            (true, DeviceValues::F32(map)) => launch.enqueue(&kernels.f16_to_f32, inputs, map),
            (true, DeviceValues::F16(map)) => launch.enqueue(&kernels.f16, inputs, map),
            (_, DeviceValues::I8(_)) => Err(error("the map is i8: f32 or f16 is required".into())),
        }
    }
}

/// What a launch is made of, apart from its tensors.
struct Launch<'a> {
    stream: &'a Stream,
    table: &'a mut Table,
    sizes: &'a Sizes,
    present: &'a DeviceBuffer<u32>,
    num_channels: usize,
}

impl Launch<'_> {
    fn enqueue<From: DeviceFloat, To: Plain>(
        &mut self,
        kernel: &Kernel<Pool<From, To>>,
        [depth, features]: [&DeviceTensor; 2],
        map: &mut DeviceBuffer<To>,
    ) -> Result<()>
    where
        Pool<From, To>: for<'a> KernelSpec<Args<'a> = PoolArgs<'a, From, To>>,
    {
        let stream = self.stream;
        let Sizes { frustum, map: shape, packing } = *self.sizes;
        let Table { points, starts, tiles, parts, long_cells, long_starts, sums, tickets } =
            &mut *self.table;
        let args = PoolArgs {
            depth: depth.input(stream)?,
            features: features.input(stream)?,
            present: self.present.input(stream)?,
            points: points.input(stream)?,
            starts: starts.input(stream)?,
            tiles: tiles.input(stream)?,
            parts: parts.input(stream)?,
            long_cells: long_cells.input(stream)?,
            long_starts: long_starts.input(stream)?,
            sums: sums.output(stream)?,
            tickets: tickets.output(stream)?,
            map: map.output(stream)?,
            num_cameras: frustum.num_cameras as u32,
            num_depths: frustum.num_depths as u32,
            num_pixels: frustum.num_pixels() as u32,
            num_channels: self.num_channels as u32,
            slab: slab(self.num_channels),
            depth_bits: packing.depth_bits,
            pixel_bits: packing.pixel_bits,
            num_rows: (shape.levels * shape.rows) as u32,
            level_rows: shape.rows as u32,
            num_columns: shape.columns as u32,
        };
        kernel.enqueue(stream, args.grid(), args)
    }
}

#[cfg(test)]
mod tests {
    use super::slab;

    #[test]
    fn channels_are_divided_evenly() {
        for (num_channels, expected) in
            [(1, 4), (4, 4), (80, 80), (96, 96), (97, 52), (128, 64), (256, 88), (1000, 92)]
        {
            assert_eq!(slab(num_channels), expected, "{num_channels}");
        }
    }
}
