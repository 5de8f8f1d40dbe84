//! Points to voxels.

use det_post_ops::arrays::voxels::cuda::{PointGrouping, PointIndices, VoxelColumns};
use det_post_ops::arrays::voxels::voxel_arrays;
use det_post_ops::cloud::voxelize::cuda::MAX_POINTS;
use det_post_ops::cloud::voxelize::{
    VoxelizeCounts, VoxelizeParams, Voxels as Grouped, Workspace as Cells, voxelize as group,
};
use det_post_ops::device::cuda::{DeviceBuffer, In as ValuesOnGpu};
use det_post_types::{Grid, PointRange, Points as Cloud};

use super::call::{Call, Const, In, Out, run};
use super::gpu::{Gpu, finish, in_order, rounded_up, values_of};
use super::status::{Failure, Status};
use super::workspace::{Opened, WORKSPACES, Workspace};

/// A grid of voxels and its limits. In host memory, whatever the device.
#[repr(C)]
pub struct VoxelGrid {
    /// Edge lengths of a voxel along x, y, z in metres.
    pub voxel_size_m: [f32; 3],
    /// Smallest x, y, z, then largest, exclusive, in metres.
    pub range_m: [f32; 6],
    /// The first points that a voxel keeps; 0 is no limit.
    pub max_points_per_voxel: usize,
    /// The first voxels that are kept; 0 is no limit.
    pub max_voxels: usize,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// Points of several values each.
#[repr(C)]
pub struct Points {
    /// `num_points` times `num_channels` values: x, y, z first.
    pub values: In<f32>,
    /// Number of points, below 2^32.
    pub num_points: usize,
    /// Values of a point, 3 to 16.
    pub num_channels: usize,
}

/// Points grouped by voxel, in the order of the voxels' first points.
#[repr(C)]
pub struct Voxels {
    /// Per voxel, its cell along x, y, z.
    pub cells: Const<u32>,
    /// Per voxel, the number of its points, at least 1.
    pub num_points_per_voxel: Const<u32>,
    /// Voxel by voxel, the positions of its points, ascending.
    pub point_indices: Const<u32>,
    /// Number of voxels.
    pub num_voxels: usize,
    /// Number of `point_indices`.
    pub num_point_indices: usize,
    /// Points outside the grid.
    pub num_out_of_range: usize,
    /// Voxels over `max_voxels`.
    pub num_voxels_over_capacity: usize,
    /// Points that their voxel drops, which is full.
    pub num_points_over_voxel: usize,
    /// Points whose voxel is over `max_voxels`.
    pub num_points_over_voxel_capacity: usize,
}

/// The memory of voxelization, which grows to the largest call.
#[derive(Default)]
pub(super) struct Memory {
    of: Option<Of>,
    on_gpu: Option<OnGpu>,
    point_indices: Vec<u32>,
    public: Option<Voxels>,
}

/// Memory for a grid, limits and a number of points.
struct Of {
    params: VoxelizeParams,
    points: Cloud,
    cells: Cells,
    grouped: Grouped,
}

/// Memory on a GPU for a grid, limits and a number of points.
struct OnGpu {
    grouping: PointGrouping,
    cells: DeviceBuffer<u32>,
    num_points: DeviceBuffer<u32>,
    point_indices: DeviceBuffer<u32>,
}

impl OnGpu {
    fn new(gpu: &Gpu, params: &VoxelizeParams, capacity: usize) -> Result<Self, det_post::Error> {
        let stream = gpu.stream()?;
        Ok(Self {
            grouping: PointGrouping::new(&stream, params, capacity)?,
            cells: DeviceBuffer::zeros(&stream, 3 * params.voxel_capacity)?,
            num_points: DeviceBuffer::zeros(&stream, params.voxel_capacity)?,
            point_indices: DeviceBuffer::zeros(&stream, capacity)?,
        })
    }

    /// Groups points, waits for the sizes, and queues the writing of the arrays.
    fn group(
        &mut self,
        values: ValuesOnGpu<'_, f32>,
        num_channels: usize,
    ) -> Result<(VoxelizeCounts, [usize; 2]), det_post::Error> {
        let (counts, sizes) = self.grouping.group(values, num_channels)?;
        let [num_voxels, num_points] = sizes;
        let stream = self.grouping.stream().clone();
        let [point_indices, _] = self.point_indices.output(&stream)?.split_at(num_points);
        self.grouping.enqueue(VoxelColumns {
            cells: self.cells.output(&stream)?.split_at(3 * num_voxels)[0],
            num_points: self.num_points.output(&stream)?.split_at(num_voxels)[0],
            point_indices: PointIndices::U32(point_indices),
        })?;
        Ok((counts, sizes))
    }
}

impl Points {
    fn check(&self) -> Result<(), Failure> {
        let Self { num_points, num_channels, .. } = *self;
        if (3..=16).contains(&num_channels) && u32::try_from(num_points).is_ok() {
            return Ok(());
        }
        let message = format!("found {num_points} points of {num_channels} values");
        Err(Failure::argument(format!(
            "{message}; at most 2^32 - 1 points of 3 to 16 values are allowed"
        )))
    }
}

impl VoxelGrid {
    fn params(&self, num_points: usize) -> Result<VoxelizeParams, Failure> {
        if self.reserved != [0; 4] {
            return Err(Failure::argument("grid.reserved is not 0"));
        }
        let or_all = |limit: usize, all: usize| if limit == 0 { all } else { limit };
        Ok(VoxelizeParams {
            grid: Grid::new(PointRange::from_bounds(self.range_m), self.voxel_size_m)?,
            max_points_per_voxel: or_all(self.max_points_per_voxel, VoxelizeParams::ALL_POINTS),
            voxel_capacity: or_all(self.max_voxels, num_points).min(num_points),
        })
    }
}

impl Of {
    fn new(params: VoxelizeParams, num_channels: usize, capacity: usize) -> Self {
        Self {
            params,
            points: Cloud::with_capacity(num_channels, capacity),
            cells: Cells::new(&params.grid, capacity),
            grouped: Grouped::new(&params),
        }
    }

    fn fits(&self, params: &VoxelizeParams, points: &Points) -> bool {
        self.params == *params
            && self.points.num_channels() == points.num_channels
            && self.points.capacity() >= points.num_points
    }
}

impl Memory {
    fn voxelize(
        &mut self,
        call: &Call,
        grid: &VoxelGrid,
        points: &Points,
    ) -> Result<Const<Voxels>, Failure> {
        points.check()?;
        let Points { values, num_points, num_channels } = *points;
        let values = call.slice(values, num_points * num_channels, "points.values")?;
        // A power of two, so that clouds of about the same size have the same memory.
        let capacity = num_points.max(1).next_power_of_two();
        let params = grid.params(capacity)?;
        let Self { of, point_indices, public, .. } = self;
        let of = match of.take().filter(|of| of.fits(&params, points)) {
            Some(of_before) => of.insert(of_before),
            None => of.insert(Of::new(params, num_channels, capacity)),
        };
        of.points.clear();
        values.chunks_exact(num_channels).for_each(|point| {
            of.points.push(point);
        });
        let counts = group(&of.points, &params, &mut of.cells, &mut of.grouped)?;
        let grouped = &of.grouped;
        voxel_arrays(grouped, point_indices);
        Ok(Const::one(public.insert(Voxels {
            cells: Const::of(grouped.coordinates().as_flattened()),
            num_points_per_voxel: Const::of(grouped.num_points_per_voxel()),
            point_indices: Const::of(point_indices),
            num_voxels: grouped.len(),
            num_point_indices: point_indices.len(),
            num_out_of_range: counts.num_out_of_range,
            num_voxels_over_capacity: counts.num_voxels_over_capacity,
            num_points_over_voxel: counts.num_points_over_voxel,
            num_points_over_voxel_capacity: counts.num_points_over_voxel_capacity,
        })))
    }
}

impl Memory {
    fn voxelize_on(
        &mut self,
        gpu: &Gpu,
        call: &Call,
        grid: &VoxelGrid,
        points: &Points,
    ) -> Result<Const<Voxels>, Failure> {
        points.check()?;
        let Points { values, num_points, num_channels } = *points;
        let capacity = rounded_up(num_points).min(MAX_POINTS.max(num_points));
        let params = grid.params(capacity)?;
        let fits = |of: &OnGpu| {
            *of.grouping.params() == params && of.grouping.point_capacity() == capacity
        };
        let on_gpu = match self.on_gpu.take() {
            Some(of_before) if fits(&of_before) => self.on_gpu.insert(of_before),
            other => {
                other.map(|of| finish(of.grouping.stream(), gpu.caller)).transpose()?;
                self.on_gpu.insert(OnGpu::new(gpu, &params, capacity)?)
            }
        };
        let stream = on_gpu.grouping.stream().clone();
        let values = values_of(call, &stream, values, num_points * num_channels)?;
        let (counts, [num_voxels, num_point_indices]) =
            in_order(&stream, gpu.caller, || on_gpu.group(values, num_channels))?;
        Ok(Const::one(self.public.insert(Voxels {
            cells: Const::on_device(on_gpu.cells.address()),
            num_points_per_voxel: Const::on_device(on_gpu.num_points.address()),
            point_indices: Const::on_device(on_gpu.point_indices.address()),
            num_voxels,
            num_point_indices,
            num_out_of_range: counts.num_out_of_range,
            num_voxels_over_capacity: counts.num_voxels_over_capacity,
            num_points_over_voxel: counts.num_points_over_voxel,
            num_points_over_voxel_capacity: counts.num_points_over_voxel_capacity,
        })))
    }
}

/// Groups points into the voxels of a grid. On a GPU up to 2^22 - 1 points, of which a voxel keeps
/// up to 256, or all.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_voxelize(
    workspace: Workspace,
    grid: In<VoxelGrid>,
    points: In<Points>,
    voxels: Out<Const<Voxels>>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(voxels, "voxels")?;
        let (grid, points) = (call.one(grid, "grid")?, call.one(points, "points")?);
        let found = WORKSPACES.with(workspace.id, |opened| {
            let Opened { gpu, voxels: memory, .. } = opened;
            match gpu {
                None => memory.voxelize(call, grid, points),
                Some(gpu) => memory.voxelize_on(gpu, call, grid, points),
            }
        })?;
        call.write(voxels, found, "voxels")
    })
}
