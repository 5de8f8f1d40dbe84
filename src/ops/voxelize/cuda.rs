//! The CUDA side of [`voxelize`](super::voxelize): the same voxels in the same
//! order, with the same points, and the same counts.
//!
//! The number of points is read on the device, and the number of voxels stays
//! there: all steps can be recorded as one graph.

use super::VoxelizeParams;
use super::kernels::{
    CROWDED_BLOCKS, Claim, Entry, Fill, GridArgs, Lost, MAX_POINTS, MAX_POINTS_PER_VOXEL,
    MAX_UNCROWDED, NUMBER_THREADS_PER_BLOCK, Number, Order, Room, THREADS_PER_BLOCK, VoxelizeArgs,
};
use crate::device::cuda::{
    DeviceBuffer, DeviceCounters, DevicePoints, Grid as Blocks, Kernel, KernelSpec, Stream, blocks,
};
use crate::error::{Error, ErrorKind, Result};

/// Threads that a large GPU runs side by side.
const MAX_THREADS: u32 = 132 * 2048;

/// Points grouped by voxel, as indices into the [`DevicePoints`] that were
/// given, all in device memory.
#[derive(Debug)]
pub struct DeviceVoxels {
    /// Per voxel, the linear index of its cell ([`crate::types::Grid::index_of`]).
    pub cells: DeviceBuffer<u32>,
    /// Per voxel, how many points it keeps.
    pub num_points_per_voxel: DeviceBuffer<u32>,
    /// Per voxel `max_points_per_voxel` places; its points, in order of arrival,
    /// are in the first of them.
    pub point_indices: DeviceBuffer<u32>,
    /// One number: how many voxels there are.
    pub num: DeviceBuffer<u32>,
    params: VoxelizeParams,
}

impl DeviceVoxels {
    /// No voxels, with memory for as many as the parameters allow.
    ///
    /// # Errors
    /// `Argument` when a limit is zero or a voxel may have more points than
    /// [`MAX_POINTS_PER_VOXEL`]; `Device` when there is not enough memory.
    pub fn new(stream: &Stream, params: &VoxelizeParams) -> Result<Self> {
        let VoxelizeParams { max_points_per_voxel, voxel_capacity, .. } = *params;
        if voxel_capacity == 0 || !(1..=MAX_POINTS_PER_VOXEL).contains(&max_points_per_voxel) {
            return argument(format!(
                "limits of {voxel_capacity} voxels of {max_points_per_voxel} points; 1 or more of \
                 1 to {MAX_POINTS_PER_VOXEL} are possible"
            ));
        }
        let num_places = voxel_capacity.saturating_mul(max_points_per_voxel);
        Ok(Self {
            cells: DeviceBuffer::zeros(stream, voxel_capacity)?,
            num_points_per_voxel: DeviceBuffer::zeros(stream, voxel_capacity)?,
            point_indices: DeviceBuffer::zeros(stream, num_places)?,
            num: DeviceBuffer::zeros(stream, 1)?,
            params: *params,
        })
    }

    /// The grid and the limits.
    pub fn params(&self) -> &VoxelizeParams {
        &self.params
    }
}

/// Kernels and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    claim: Kernel<Claim>,
    number: Kernel<Number>,
    fill: Kernel<Fill>,
    order: Kernel<Order>,
    params: VoxelizeParams,
    point_capacity: usize,
    hash_shift: u32,
    entries: DeviceBuffer<Entry>,
    entry_of: DeviceBuffer<u32>,
    place_of: DeviceBuffer<u32>,
    members: DeviceBuffer<u32>,
    rooms: DeviceBuffer<Room>,
    crowded: DeviceBuffer<u32>,
    num_crowded: DeviceBuffer<u32>,
    turns: DeviceBuffer<u64>,
    numbers: DeviceBuffer<u64>,
    lost: DeviceBuffer<Lost>,
}

impl Workspace {
    /// Takes the kernels and memory to group up to `point_capacity` points: 16
    /// bytes a cell of the grid or, where that is less, 32 bytes a point, up to
    /// the next power of two.
    ///
    /// # Errors
    /// `Argument` when the grid has more cells than a u32 can number or there
    /// are more points than that; `Device` when this build has no such kernels
    /// or there is not enough memory.
    pub fn new(stream: &Stream, params: &VoxelizeParams, point_capacity: usize) -> Result<Self> {
        let num_cells = params.grid.num_cells();
        if num_cells > u64::from(u32::MAX) || point_capacity > MAX_POINTS {
            return argument(format!(
                "{num_cells} cells for {point_capacity} points; at most {} cells and {MAX_POINTS} \
                 points are possible",
                u32::MAX
            ));
        }
        let num_hashed = (2 * point_capacity.max(1)).next_power_of_two();
        let (num_entries, hash_shift) = match usize::try_from(num_cells) {
            Ok(num_cells) if num_cells <= num_hashed => (num_cells, 0),
            _ => (num_hashed, u32::BITS - num_hashed.trailing_zeros()),
        };
        let device = stream.device();
        let num_turns = blocks(point_capacity, NUMBER_THREADS_PER_BLOCK).max(1) as usize;
        Ok(Self {
            stream: stream.clone(),
            claim: device.kernel()?,
            number: device.kernel()?,
            fill: device.kernel()?,
            order: device.kernel()?,
            params: *params,
            point_capacity,
            hash_shift,
            entries: DeviceBuffer::zeros(stream, num_entries)?,
            entry_of: DeviceBuffer::zeros(stream, point_capacity)?,
            place_of: DeviceBuffer::zeros(stream, point_capacity)?,
            members: DeviceBuffer::zeros(stream, point_capacity)?,
            rooms: DeviceBuffer::zeros(stream, params.voxel_capacity)?,
            crowded: DeviceBuffer::zeros(stream, point_capacity / (MAX_UNCROWDED + 1))?,
            num_crowded: DeviceBuffer::zeros(stream, 1)?,
            turns: DeviceBuffer::zeros(stream, 1)?,
            numbers: DeviceBuffer::zeros(stream, num_turns)?,
            lost: DeviceBuffer::zeros(stream, num_turns)?,
        })
    }

    /// Queues the grouping of `points` into `voxels`. What is dropped goes to
    /// `counters`.
    ///
    /// # Errors
    /// `Argument` when there may be more points than the workspace was made
    /// for, or `voxels` were made for another grid or other limits; `Device`
    /// when a buffer is another stream's or a launch fails.
    pub fn enqueue(
        &mut self,
        points: &DevicePoints,
        voxels: &mut DeviceVoxels,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        if points.capacity() > self.point_capacity || voxels.params != self.params {
            return argument(format!(
                "up to {} points into {:?}, the workspace is for {} and {:?}",
                points.capacity(),
                voxels.params,
                self.point_capacity,
                self.params
            ));
        }
        let stream = &self.stream;
        let VoxelizeParams { grid, max_points_per_voxel, voxel_capacity } = self.params;
        let point_capacity = points.capacity();
        let args = VoxelizeArgs {
            points: points.values.input(stream)?,
            num_points: points.num.input(stream)?,
            cells: voxels.cells.output(stream)?,
            num_points_per_voxel: voxels.num_points_per_voxel.output(stream)?,
            point_indices: voxels.point_indices.output(stream)?,
            num_voxels: voxels.num.output(stream)?,
            counters: counters.output(stream)?,
            entries: self.entries.output(stream)?,
            entry_of: self.entry_of.output(stream)?,
            place_of: self.place_of.output(stream)?,
            members: self.members.output(stream)?,
            rooms: self.rooms.output(stream)?,
            crowded: self.crowded.output(stream)?,
            num_crowded: self.num_crowded.output(stream)?,
            turns: self.turns.output(stream)?,
            numbers: self.numbers.output(stream)?,
            lost: self.lost.output(stream)?,
            grid: GridArgs::new(&grid),
            num_channels: points.num_channels() as u32,
            point_capacity: point_capacity as u32,
            max_points_per_voxel: max_points_per_voxel as u32,
            voxel_capacity: u32::try_from(voxel_capacity).unwrap_or(u32::MAX),
            hash_shift: self.hash_shift,
        };
        launch(&self.claim, stream, [THREADS_PER_BLOCK, 0], args)?;
        launch(&self.number, stream, [NUMBER_THREADS_PER_BLOCK, 0], args)?;
        launch(&self.fill, stream, [THREADS_PER_BLOCK, 0], args)?;
        launch(&self.order, stream, [THREADS_PER_BLOCK, CROWDED_BLOCKS], args)
    }
}

/// A thread for some points, and further blocks.
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
    // At least one block, which writes that there are no voxels; no more than run
    // side by side, since there are mostly fewer points than the capacity.
    let for_points = blocks(args.point_capacity as usize, threads_per_block);
    let for_points = for_points.clamp(1, MAX_THREADS / threads_per_block);
    let num_blocks = [for_points + further_blocks, 1];
    kernel.enqueue(stream, Blocks { num_blocks, threads_per_block }, args)
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "voxelize", message))
}
