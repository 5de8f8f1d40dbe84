//! The CUDA implementation of [`voxel_arrays`](super::voxel_arrays()): equal to the CPU.

use super::kernels::{StartArgs, Starts, THREADS_PER_BLOCK, Write, WriteArgs};
use crate::cloud::PointSlices;
use crate::cloud::pillar_features::cuda::Kernels;
use crate::cloud::voxelize::cuda::{DeviceVoxels, Workspace as Grouping};
use crate::cloud::voxelize::{VoxelizeCounts, VoxelizeParams};
use crate::device::cuda::{
    DeviceBuffer, DeviceTensor, Grid as Blocks, In, Kernel, KernelSpec, MappedBuffer, Out, Stream,
    blocks,
};
use crate::shared::DeviceCounters;
use crate::sparse::voxel_mean::cuda::Workspace as Means;
use det_post_types::{Count, Error, ErrorKind, Result};

/// Arrays of voxels in device memory.
#[derive(Clone, Copy, Debug)]
pub struct VoxelColumns<'a> {
    /// The cell along x, y, z, voxel by voxel.
    pub cells: Out<'a, u32>,
    /// The number of points, by voxel.
    pub num_points: Out<'a, u32>,
    /// The positions of all points, voxel by voxel; empty: none are written.
    pub point_indices: PointIndices<'a>,
}

/// Positions of points in device memory.
#[derive(Clone, Copy, Debug)]
pub enum PointIndices<'a> {
    /// Unsigned integers of 32 bits.
    U32(Out<'a, u32>),
    /// The bits of signed integers of 64 bits.
    I64(Out<'a, u64>),
}

/// Kernels and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    starts_of_voxels: Kernel<Starts>,
    write_u32: Kernel<Write<u32>>,
    write_i64: Kernel<Write<u64>>,
    starts: DeviceBuffer<u32>,
    ticket: DeviceBuffer<u64>,
    aggregates: DeviceBuffer<u64>,
    sizes: MappedBuffer<u32>,
}

impl Workspace {
    /// Loads the kernels and allocates memory for up to `voxel_capacity` voxels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels or there is not enough memory.
    pub fn new(stream: &Stream, voxel_capacity: usize) -> Result<Self> {
        let device = stream.device();
        let num_tiles = blocks(voxel_capacity, THREADS_PER_BLOCK).max(1) as usize;
        Ok(Self {
            stream: stream.clone(),
            starts_of_voxels: device.kernel()?,
            write_u32: device.kernel()?,
            write_i64: device.kernel()?,
            starts: DeviceBuffer::zeros(stream, voxel_capacity)?,
            ticket: DeviceBuffer::zeros(stream, 1)?,
            aggregates: DeviceBuffer::zeros(stream, num_tiles)?,
            sizes: MappedBuffer::zeros(stream, 2)?,
        })
    }

    /// Queues the counting of voxels and their points. [`Self::sizes`] has the result.
    ///
    /// # Errors
    /// `Argument` when the capacity of `voxels` is above that of the workspace; `Device` when a
    /// buffer belongs to another stream or the launch fails.
    pub fn enqueue_sizes(&mut self, voxels: &DeviceVoxels) -> Result<()> {
        let stream = &self.stream;
        let voxel_capacity = voxels.params().voxel_capacity;
        if voxel_capacity > self.starts.len() {
            let most = self.starts.len();
            return argument(format!("{voxel_capacity} voxels, the workspace is for {most}"));
        }
        let args = StartArgs {
            num_points_per_voxel: voxels.num_points_per_voxel.input(stream)?,
            num_voxels: voxels.num.input(stream)?,
            starts: self.starts.output(stream)?,
            ticket: self.ticket.output(stream)?,
            aggregates: self.aggregates.output(stream)?,
            sizes: self.sizes.output(stream)?,
        };
        let num_blocks = blocks(voxel_capacity, THREADS_PER_BLOCK);
        let num_blocks = num_blocks.clamp(1, stream.device().resident_blocks(THREADS_PER_BLOCK));
        self.starts_of_voxels.enqueue(stream, grid(num_blocks), args)
    }

    /// The numbers of voxels and of their points; the caller has waited for the stream.
    pub fn sizes(&self) -> [usize; 2] {
        [0, 1].map(|position| self.sizes.get(position).unwrap_or(0) as usize)
    }

    /// Queues the writing of `columns`, which have the sizes of the last count, of the same
    /// voxels.
    ///
    /// # Errors
    /// `Argument` when the columns are not of these sizes; `Device` when a buffer belongs to
    /// another stream or the launch fails.
    pub fn enqueue(&self, voxels: &DeviceVoxels, columns: VoxelColumns<'_>) -> Result<()> {
        let (num_voxels, num_points) = (columns.num_points.len(), columns.point_indices.len());
        let sizes = self.sizes();
        let fits = num_voxels == sizes[0]
            && columns.cells.len() == 3 * num_voxels
            && (num_points == 0 || num_points == sizes[1]);
        if !fits {
            let num_cells = columns.cells.len();
            return argument(format!(
                "arrays of {num_cells}, {num_voxels} and {num_points} values do not fit {} voxels \
                 of {} points",
                sizes[0], sizes[1]
            ));
        }
        if num_voxels == 0 {
            return Ok(());
        }
        match columns.point_indices {
            PointIndices::U32(out) => self.write(&self.write_u32, voxels, columns, out),
            PointIndices::I64(out) => self.write(&self.write_i64, voxels, columns, out),
        }
    }

    fn write<Index: 'static>(
        &self,
        kernel: &Kernel<Write<Index>>,
        voxels: &DeviceVoxels,
        columns: VoxelColumns<'_>,
        indices: Out<'_, Index>,
    ) -> Result<()>
    where
        Write<Index>: for<'a> KernelSpec<Args<'a> = WriteArgs<'a, Index>>,
    {
        let stream = &self.stream;
        let params = voxels.params();
        let [x, y, _] = params.grid.grid_size();
        let num_threads = columns.num_points.len().max(indices.len());
        let args = WriteArgs {
            linear_cells: voxels.cells.input(stream)?,
            num_points_per_voxel: voxels.num_points_per_voxel.input(stream)?,
            point_indices: voxels.point_indices.input(stream)?,
            starts: self.starts.input(stream)?,
            cells: columns.cells,
            num_points: columns.num_points,
            indices,
            size: [x, y],
            stride: if voxels.has_all_points() { 0 } else { voxels.max_points_per_voxel() },
            reserved: 0,
        };
        kernel.enqueue(stream, grid(blocks(num_threads, THREADS_PER_BLOCK)), args)
    }
}

impl PointIndices<'_> {
    /// Number of positions.
    fn len(&self) -> usize {
        match self {
            Self::U32(indices) => indices.len(),
            Self::I64(indices) => indices.len(),
        }
    }
}

/// Points in memory of any owner to arrays of voxels: the operations in a row, with the
/// memory that they need, on one stream.
pub struct PointGrouping {
    params: VoxelizeParams,
    point_capacity: usize,
    grouping: Grouping,
    voxels: DeviceVoxels,
    counters: DeviceCounters,
    arrays: Workspace,
    num_points: DeviceBuffer<u32>,
    /// What `num_points` holds.
    num_written: usize,
}

impl PointGrouping {
    /// Loads the kernels and allocates memory for up to `point_capacity` points.
    ///
    /// # Errors
    /// Returns the errors of [`voxelize::cuda::Workspace::new`](Grouping::new),
    /// [`DeviceVoxels::new`] and [`Workspace::new`].
    pub fn new(stream: &Stream, params: &VoxelizeParams, point_capacity: usize) -> Result<Self> {
        Ok(Self {
            params: *params,
            point_capacity,
            grouping: Grouping::new(stream, params, point_capacity)?,
            voxels: DeviceVoxels::new(stream, params, point_capacity)?,
            counters: DeviceCounters::new(stream)?,
            arrays: Workspace::new(stream, params.voxel_capacity)?,
            num_points: DeviceBuffer::zeros(stream, 1)?,
            num_written: 0,
        })
    }

    /// The grid and the limits.
    pub fn params(&self) -> &VoxelizeParams {
        &self.params
    }

    /// The maximum number of points.
    pub fn point_capacity(&self) -> usize {
        self.point_capacity
    }

    /// The stream of all memory.
    pub fn stream(&self) -> &Stream {
        &self.arrays.stream
    }

    /// Groups all points of `values`, of `num_channels` each, and waits. Returns the counts,
    /// and the numbers of voxels and of their points.
    ///
    /// # Errors
    /// `Argument` when there are more points than the capacity; `Device` when a launch or earlier
    /// work fails.
    pub fn group(
        &mut self,
        values: In<'_, f32>,
        num_channels: usize,
    ) -> Result<(VoxelizeCounts, [usize; 2])> {
        let num_all = values.len() / num_channels.max(1);
        if self.num_written != num_all {
            self.num_points.write(&[u32::try_from(num_all).unwrap_or(u32::MAX)])?;
            self.num_written = num_all;
        }
        let Self { grouping, voxels, counters, arrays, num_points, .. } = self;
        let points = PointSlices {
            values,
            num: num_points.input(&arrays.stream)?,
            num_channels,
            capacity: num_all,
        };
        // A failed call may have added to them.
        counters.enqueue_clear()?;
        grouping.enqueue_slices(&points, voxels, counters)?;
        arrays.enqueue_sizes(voxels)?;
        let report = counters.take()?;
        let sizes = arrays.sizes();
        let count = |count| report.count(count) as usize;
        let num_out_of_range = count(Count::PointsOutOfRange);
        let counts = VoxelizeCounts {
            num_in_range: num_all - num_out_of_range,
            num_out_of_range,
            num_voxels: sizes[0],
            num_voxels_over_capacity: count(Count::VoxelsOverCapacity),
            num_points_over_voxel: count(Count::PointsOverVoxel),
            num_points_over_voxel_capacity: count(Count::PointsOverVoxelCapacity),
        };
        Ok((counts, sizes))
    }

    /// Queues the writing of the features of the voxels of the last call to all values of `out`,
    /// `[V, P, F]`, as [`pillar_features`](crate::cloud::pillar_features::pillar_features()).
    /// `values` belong to that call.
    ///
    /// # Errors
    /// As [`Kernels::enqueue_all`].
    pub fn enqueue_features(
        &self,
        kernels: &Kernels,
        (values, num_channels): (In<'_, f32>, usize),
        center_offset_z: bool,
        out: &mut DeviceTensor,
    ) -> Result<()> {
        let stream = &self.arrays.stream;
        let points = PointSlices {
            values,
            num: self.num_points.input(stream)?,
            num_channels,
            capacity: values.len() / num_channels.max(1),
        };
        let [num_voxels, _] = self.arrays.sizes();
        kernels.enqueue_all(stream, (&points, &self.voxels), num_voxels, center_offset_z, out)
    }

    /// Queues the writing of the means of the voxels of the last call to all values of `out`,
    /// `[V, C]`, as [`voxel_mean`](crate::sparse::voxel_mean::voxel_mean). `values` belong to
    /// that call.
    ///
    /// # Errors
    /// As [`Means::enqueue_rows`].
    pub fn enqueue_means(
        &self,
        means: &Means,
        points: (In<'_, f32>, usize),
        out: Out<'_, f32>,
    ) -> Result<()> {
        let [num_voxels, _] = self.arrays.sizes();
        means.enqueue_rows(points, &self.voxels, num_voxels, out)
    }

    /// Queues the writing of the arrays of the last call.
    ///
    /// # Errors
    /// As [`Workspace::enqueue`].
    pub fn enqueue(&self, columns: VoxelColumns<'_>) -> Result<()> {
        self.arrays.enqueue(&self.voxels, columns)
    }
}

fn grid(num_blocks: u32) -> Blocks {
    Blocks { num_blocks: [num_blocks, 1], threads_per_block: THREADS_PER_BLOCK }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "voxel_arrays", message))
}
