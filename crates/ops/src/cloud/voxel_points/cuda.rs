//! The CUDA implementation of [`voxel_points`](super::voxel_points): equal to the CPU, bit for
//! bit. The number of voxels stays on the device; rows beyond it keep what they held.

use super::argument;
use super::kernels::{THREADS_PER_BLOCK, VoxelPointArgs, Write};
use crate::cloud::DevicePoints;
use crate::cloud::voxelize::VoxelizeParams;
use crate::cloud::voxelize::cuda::DeviceVoxels;
use crate::cloud::voxelize::kernels::GridArgs;
use crate::device::cuda::{DeviceBuffer, Grid as Blocks, Kernel, Stream, blocks};
use det_post_types::{Result, VoxelCoordinates};

/// The tensors of a frame in device memory, for as many voxels as the parameters allow, of which
/// the first belong to the frame.
#[derive(Debug)]
pub struct DeviceVoxelPoints {
    /// Points and zeros, `[capacity, P, C]`.
    pub values: DeviceBuffer<f32>,
    /// Points per voxel, `[capacity]`.
    pub numbers: DeviceBuffer<i32>,
    /// Cells, `[capacity, 3 or 4]`.
    pub coordinates: DeviceBuffer<i32>,
    columns: VoxelCoordinates,
    num_channels: usize,
}

impl DeviceVoxelPoints {
    /// Memory for the voxels of `params` and points of `num_channels` floats.
    ///
    /// # Errors
    /// `Argument` when voxels keep all of their points; `Device` when there is not enough memory.
    pub fn new(
        stream: &Stream,
        params: &VoxelizeParams,
        num_channels: usize,
        columns: VoxelCoordinates,
    ) -> Result<Self> {
        let VoxelizeParams { max_points_per_voxel, voxel_capacity, .. } = *params;
        if max_points_per_voxel == VoxelizeParams::ALL_POINTS {
            return argument("a limit on the points of a voxel is required".into());
        }
        let num_values =
            voxel_capacity.saturating_mul(max_points_per_voxel).saturating_mul(num_channels);
        let num_coordinates = voxel_capacity.saturating_mul(columns.num_columns());
        Ok(Self {
            values: DeviceBuffer::zeros(stream, num_values)?,
            numbers: DeviceBuffer::zeros(stream, voxel_capacity)?,
            coordinates: DeviceBuffer::zeros(stream, num_coordinates)?,
            columns,
            num_channels,
        })
    }
}

/// The kernel of the op on one stream.
pub struct Workspace {
    stream: Stream,
    kernel: Kernel<Write>,
}

impl Workspace {
    /// Loads the kernel.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel.
    pub fn new(stream: &Stream) -> Result<Self> {
        Ok(Self { stream: stream.clone(), kernel: stream.device().kernel()? })
    }

    /// Queues the writing of the points of voxels, which were made from `points`.
    ///
    /// # Errors
    /// `Argument` when `out` was made for other limits or another number of channels; `Device` when
    /// a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        points: &DevicePoints,
        voxels: &DeviceVoxels,
        out: &mut DeviceVoxelPoints,
    ) -> Result<()> {
        let stream = &self.stream;
        let VoxelizeParams { grid, max_points_per_voxel, voxel_capacity } = *voxels.params();
        let (points, columns) = (points.slices(stream)?, out.columns.num_columns());
        let num_values = voxel_capacity * max_points_per_voxel * points.num_channels;
        if out.values.len() != num_values
            || out.numbers.len() != voxel_capacity
            || out.num_channels != points.num_channels
        {
            return argument(format!(
                "{voxel_capacity} voxels of {max_points_per_voxel} points of {} channels do not fit \
                 the tensors",
                points.num_channels
            ));
        }
        let args = VoxelPointArgs {
            points: points.values,
            cells: voxels.cells.input(stream)?,
            num_points_per_voxel: voxels.num_points_per_voxel.input(stream)?,
            point_indices: voxels.point_indices.input(stream)?,
            num_voxels: voxels.num.input(stream)?,
            values: out.values.output(stream)?,
            numbers: out.numbers.output(stream)?,
            coordinates: out.coordinates.output(stream)?,
            grid: GridArgs::new(&grid),
            voxel_capacity: voxel_capacity as u32,
            max_points_per_voxel: max_points_per_voxel as u32,
            num_channels: points.num_channels as u32,
            num_columns: columns as u32,
            point_capacity: points.capacity as u32,
        };
        let num_blocks = [blocks(voxel_capacity * max_points_per_voxel, THREADS_PER_BLOCK), 1];
        self.kernel.enqueue(
            stream,
            Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK },
            args,
        )
    }
}
