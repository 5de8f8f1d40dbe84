//! The CUDA implementation of [`voxelize`](super::voxelize): the same voxels in the
//! same order, with the same points, and the same counts.
//!
//! The number of points is read on the device, and the number of voxels stays
//! there: all steps can be recorded as one graph.
//!
//! Points reach the bucket of their voxel in any order. A thread per point then counts the lower
//! indices of its bucket, which takes the square of the points of a voxel; of more than
//! `MAX_SMALL_BUCKET` points a warp selects the lowest as far as the limit goes or, without a
//! limit, a block sets a bit per point and reads the bits in order. The time of that is
//! proportional to the points, even if all are in one voxel, as those of sensors that report
//! no return as the origin.

use super::VoxelizeParams;
pub use super::kernels::MAX_POINTS;
use super::kernels::{
    Claim, DroppedPoints, Entry, Fill, GridArgs, MAX_POINTS_PER_VOXEL, MAX_SMALL_BUCKET, NO_LIMIT,
    NUMBER_THREADS_PER_BLOCK, Number, Order, OrderAll, THREADS_PER_BLOCK, VoxelBucket,
    VoxelizeArgs,
};
use crate::cloud::{DevicePoints, PointSlices};
use crate::device::cuda::{DeviceBuffer, Grid as Blocks, Kernel, KernelSpec, Stream, blocks};
use crate::shared::DeviceCounters;
use det_post_types::{Error, ErrorKind, Result};

/// Points grouped by voxel, as indices into the input [`DevicePoints`], all in device
/// memory.
#[derive(Debug)]
pub struct DeviceVoxels {
    /// Per voxel, the linear index of its cell ([`det_post_types::Grid::index_of`]).
    pub cells: DeviceBuffer<u32>,
    /// Per voxel, the number of its points.
    pub num_points_per_voxel: DeviceBuffer<u32>,
    /// Per voxel `max_points_per_voxel` elements, the first of which are its points in
    /// ascending order; with [`VoxelizeParams::ALL_POINTS`] the points of all voxels without
    /// gaps, voxel by voxel.
    pub point_indices: DeviceBuffer<u32>,
    /// One value: the number of voxels.
    pub num: DeviceBuffer<u32>,
    /// Per voxel, the range of all its points among those of all voxels.
    pub(crate) buckets: DeviceBuffer<VoxelBucket>,
    /// Voxels with more than `MAX_SMALL_BUCKET` points, in any order.
    pub(crate) large_buckets: DeviceBuffer<u32>,
    /// Their number.
    pub(crate) num_large_buckets: DeviceBuffer<u32>,
    params: VoxelizeParams,
    point_capacity: usize,
}

impl DeviceVoxels {
    /// No voxels, with memory for the capacity of the parameters and up to `point_capacity`
    /// points.
    ///
    /// # Errors
    /// `Argument` when a limit is zero, or that on the points of a voxel is neither at most
    /// `MAX_POINTS_PER_VOXEL` nor [`VoxelizeParams::ALL_POINTS`]; `Device` when there is not
    /// enough memory.
    pub fn new(stream: &Stream, params: &VoxelizeParams, point_capacity: usize) -> Result<Self> {
        let VoxelizeParams { max_points_per_voxel, voxel_capacity, .. } = *params;
        let num_elements = match max_points_per_voxel {
            1..=MAX_POINTS_PER_VOXEL => voxel_capacity.saturating_mul(max_points_per_voxel),
            VoxelizeParams::ALL_POINTS => point_capacity,
            _ => 0,
        };
        if voxel_capacity == 0 || num_elements == 0 && point_capacity != 0 {
            return argument(format!(
                "limits of {voxel_capacity} voxels of {max_points_per_voxel} points; at least 1 \
                 voxel of 1 to {MAX_POINTS_PER_VOXEL} points, or of all, is required"
            ));
        }
        Ok(Self {
            cells: DeviceBuffer::zeros(stream, voxel_capacity)?,
            num_points_per_voxel: DeviceBuffer::zeros(stream, voxel_capacity)?,
            point_indices: DeviceBuffer::zeros(stream, num_elements)?,
            num: DeviceBuffer::zeros(stream, 1)?,
            buckets: DeviceBuffer::zeros(stream, voxel_capacity)?,
            large_buckets: DeviceBuffer::zeros(stream, point_capacity / (MAX_SMALL_BUCKET + 1))?,
            num_large_buckets: DeviceBuffer::zeros(stream, 1)?,
            params: *params,
            point_capacity,
        })
    }

    /// The grid and the limits.
    pub fn params(&self) -> &VoxelizeParams {
        &self.params
    }

    /// Whether voxels keep all of their points.
    pub(crate) fn has_all_points(&self) -> bool {
        self.params.max_points_per_voxel == VoxelizeParams::ALL_POINTS
    }

    /// `max_points_per_voxel` as kernels read it.
    pub(crate) fn max_points_per_voxel(&self) -> u32 {
        if self.has_all_points() { NO_LIMIT } else { self.params.max_points_per_voxel as u32 }
    }
}

/// Kernels and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    claim: Kernel<Claim>,
    number: Kernel<Number>,
    fill: Kernel<Fill>,
    order: OrderKernel,
    params: VoxelizeParams,
    point_capacity: usize,
    hash_shift: u32,
    entries: DeviceBuffer<Entry>,
    point_entries: DeviceBuffer<u32>,
    point_positions: DeviceBuffer<u32>,
    bucket_points: DeviceBuffer<u32>,
    ticket: DeviceBuffer<u64>,
    aggregates: DeviceBuffer<u64>,
    dropped: DeviceBuffer<DroppedPoints>,
}

/// The step `order`, by the limit on the points of a voxel.
enum OrderKernel {
    Limited(Kernel<Order>),
    All(Kernel<OrderAll>),
}

impl Workspace {
    /// Loads the kernels and allocates memory to group up to `point_capacity` points:
    /// 16 bytes per cell of the grid or, if that is less, 32 bytes per point, rounded
    /// up to a power of two.
    ///
    /// # Errors
    /// `Argument` when the grid has more than `u32::MAX` cells or `point_capacity` is
    /// above `MAX_POINTS`; `Device` when this build has no such kernels or there is not
    /// enough memory.
    pub fn new(stream: &Stream, params: &VoxelizeParams, point_capacity: usize) -> Result<Self> {
        let num_cells = params.grid.num_cells();
        if num_cells > u64::from(u32::MAX) || point_capacity > MAX_POINTS {
            return argument(format!(
                "{num_cells} cells for {point_capacity} points exceed the limits of {} cells and \
                 {MAX_POINTS} points",
                u32::MAX
            ));
        }
        let num_hashed = (2 * point_capacity.max(1)).next_power_of_two();
        let (num_entries, hash_shift) = match usize::try_from(num_cells) {
            Ok(num_cells) if num_cells <= num_hashed => (num_cells, 0),
            _ => (num_hashed, u32::BITS - num_hashed.trailing_zeros()),
        };
        let device = stream.device();
        let num_tiles = blocks(point_capacity, NUMBER_THREADS_PER_BLOCK).max(1) as usize;
        Ok(Self {
            stream: stream.clone(),
            claim: device.kernel()?,
            number: device.kernel()?,
            fill: device.kernel()?,
            order: match params.max_points_per_voxel {
                VoxelizeParams::ALL_POINTS => OrderKernel::All(device.kernel()?),
                _ => OrderKernel::Limited(device.kernel()?),
            },
            params: *params,
            point_capacity,
            hash_shift,
            entries: DeviceBuffer::zeros(stream, num_entries)?,
            point_entries: DeviceBuffer::zeros(stream, point_capacity)?,
            point_positions: DeviceBuffer::zeros(stream, point_capacity)?,
            bucket_points: DeviceBuffer::zeros(stream, point_capacity)?,
            ticket: DeviceBuffer::zeros(stream, 1)?,
            aggregates: DeviceBuffer::zeros(stream, num_tiles)?,
            dropped: DeviceBuffer::zeros(stream, num_tiles)?,
        })
    }

    /// Queues the grouping of `points` into `voxels`. Dropped points and voxels are
    /// added to `counters`.
    ///
    /// # Errors
    /// `Argument` when the capacity of `points` is above that of the workspace or of
    /// `voxels`, or `voxels` were made for another grid or other limits; `Device` when a buffer
    /// belongs to another stream or a launch fails.
    pub fn enqueue(
        &mut self,
        points: &DevicePoints,
        voxels: &mut DeviceVoxels,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let points = points.slices(&self.stream)?;
        self.enqueue_slices(&points, voxels, counters)
    }

    /// As [`Self::enqueue`], for points in memory of any owner. Kernels read no vectors of them.
    ///
    /// # Errors
    /// As [`Self::enqueue`].
    pub fn enqueue_slices(
        &mut self,
        points: &PointSlices<'_>,
        voxels: &mut DeviceVoxels,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let point_capacity = points.capacity;
        if point_capacity > self.point_capacity.min(voxels.point_capacity)
            || voxels.params != self.params
        {
            return argument(format!(
                "up to {point_capacity} points into {:?} of {}, the workspace is for {} and {:?}",
                voxels.params, voxels.point_capacity, self.point_capacity, self.params
            ));
        }
        let stream = &self.stream;
        let VoxelizeParams { grid, voxel_capacity, .. } = self.params;
        let max_points_per_voxel = voxels.max_points_per_voxel();
        let args = VoxelizeArgs {
            points: points.values,
            num_points: points.num,
            cells: voxels.cells.output(stream)?,
            num_points_per_voxel: voxels.num_points_per_voxel.output(stream)?,
            point_indices: voxels.point_indices.output(stream)?,
            num_voxels: voxels.num.output(stream)?,
            counters: counters.output(stream)?,
            entries: self.entries.output(stream)?,
            point_entries: self.point_entries.output(stream)?,
            point_positions: self.point_positions.output(stream)?,
            bucket_points: self.bucket_points.output(stream)?,
            buckets: voxels.buckets.output(stream)?,
            large_buckets: voxels.large_buckets.output(stream)?,
            num_large_buckets: voxels.num_large_buckets.output(stream)?,
            ticket: self.ticket.output(stream)?,
            aggregates: self.aggregates.output(stream)?,
            dropped: self.dropped.output(stream)?,
            grid: GridArgs::new(&grid),
            num_channels: u32::try_from(points.num_channels).unwrap_or(u32::MAX),
            point_capacity: point_capacity as u32,
            max_points_per_voxel,
            voxel_capacity: u32::try_from(voxel_capacity).unwrap_or(u32::MAX),
            hash_shift: self.hash_shift,
            num_large_blocks: stream.device().num_multiprocessors(),
            reserved: 0,
        };
        launch(&self.claim, stream, [THREADS_PER_BLOCK, 0], args)?;
        launch(&self.number, stream, [NUMBER_THREADS_PER_BLOCK, 0], args)?;
        launch(&self.fill, stream, [THREADS_PER_BLOCK, 0], args)?;
        let shape = [THREADS_PER_BLOCK, args.num_large_blocks];
        match &self.order {
            OrderKernel::Limited(order) => launch(order, stream, shape, args),
            OrderKernel::All(order) => launch(order, stream, shape, args),
        }
    }
}

/// Launches a step with threads for the points, and further blocks.
#[expect(clippy::large_types_passed_by_value, reason = "a kernel's arguments go into the launch")]
fn launch<K>(
    kernel: &Kernel<K>,
    stream: &Stream,
    [threads_per_block, further_blocks]: [u32; 2],
    args: VoxelizeArgs<'_>,
) -> Result<()>
where
    K: for<'a> KernelSpec<Args<'a> = VoxelizeArgs<'a>>,
{
    // At least one block, which writes the number of voxels; at most as many as are
    // resident, since there are usually fewer points than the capacity.
    let for_points = blocks(args.point_capacity as usize, threads_per_block);
    let for_points = for_points.clamp(1, stream.device().resident_blocks(threads_per_block));
    let num_blocks = [for_points + further_blocks, 1];
    kernel.enqueue(stream, Blocks { num_blocks, threads_per_block }, args)
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "voxelize", message))
}
