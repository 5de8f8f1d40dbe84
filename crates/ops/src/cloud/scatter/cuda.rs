//! The CUDA implementation of [`scatter`](super::scatter): equal to the CPU, bit for
//! bit.

use half::f16;

use super::kernels::{
    CELLS_PER_BLOCK, CHANNELS_PER_THREAD, Place, PlaceArgs, THREADS_PER_BLOCK, Write, WriteArgs,
    WriteRows,
};
use super::{argument, map_shape};
use crate::cloud::voxelize::cuda::DeviceVoxels;
use crate::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceTensor, DeviceValues, Grid as Blocks, Kernel, KernelSpec,
    Plain, Stream, blocks, not_floats,
};
use det_post_types::{Grid, MapLayout, Result};

/// Kernels and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    place: Kernel<Place>,
    f32: OfElements<f32, f32>,
    f16: OfElements<f16, f16>,
    f32_to_f16: OfElements<f32, f16>,
    f16_to_f32: OfElements<f16, f32>,
    pillars: DeviceBuffer<u32>,
    grid: Grid,
    layout: MapLayout,
}

/// The kernels that read features of one type and write a map of another.
struct OfElements<From: Plain, To: Plain>
where
    Write<From, To>: KernelSpec,
    WriteRows<From, To>: KernelSpec,
{
    planes: Kernel<Write<From, To>>,
    rows: Kernel<WriteRows<From, To>>,
}

impl<From: Plain, To: Plain> OfElements<From, To>
where
    Write<From, To>: KernelSpec,
    WriteRows<From, To>: KernelSpec,
{
    fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { planes: device.kernel()?, rows: device.kernel()? })
    }
}

impl Workspace {
    /// Loads the kernels and allocates memory for the cells of a grid.
    ///
    /// # Errors
    /// `Argument` when the grid is more than one cell high, or the layout of blocks; `Device` when this
    /// build has no such kernels or there is not enough memory.
    pub fn new(stream: &Stream, grid: &Grid, layout: MapLayout) -> Result<Self> {
        map_shape(grid, layout, 1)?;
        if grid.num_cells() > u64::from(u32::MAX) {
            return argument(format!(
                "the map has {} cells; at most 2^32 - 1 are allowed",
                grid.num_cells()
            ));
        }
        let num_cells = grid.num_cells() as usize;
        let device = stream.device();
        Ok(Self {
            stream: stream.clone(),
            place: device.kernel()?,
            f32: OfElements::load(device)?,
            f16: OfElements::load(device)?,
            f32_to_f16: OfElements::load(device)?,
            f16_to_f32: OfElements::load(device)?,
            pillars: DeviceBuffer::zeros(stream, num_cells)?,
            grid: *grid,
            layout,
        })
    }

    /// Queues the writing of all values of `out`, `[1, C, ny, nx]` or `[1, ny, nx, C]`, from `features`,
    /// `[V, C]`, `[V, 1, C]` or `[V, C, 1]` with V at least the capacity of the voxels.
    ///
    /// # Errors
    /// `Argument` for other shapes, voxels of another grid, or with channels last a number of channels that is no
    /// multiple of 8;
    /// `Device` when a buffer belongs to another stream or a launch fails.
    pub fn enqueue(
        &mut self,
        features: &DeviceTensor,
        voxels: &DeviceVoxels,
        out: &mut DeviceTensor,
    ) -> Result<()> {
        let capacity = voxels.params().voxel_capacity;
        let shape = match *features.shape() {
            [rows, n] | [rows, 1, n] | [rows, n, 1] if rows >= capacity => Some([rows, n]),
            _ => None,
        };
        let [grid_size, own] = [&voxels.params().grid, &self.grid].map(Grid::grid_size);
        let fits = |&[_, n]: &[usize; 2]| {
            let expected = map_shape(&self.grid, self.layout, n);
            n > 0 && grid_size == own && expected.is_ok_and(|expected| *out.shape() == expected)
        };
        let Some([num_rows, num_channels]) = shape.filter(fits) else {
            return argument(format!(
                "features of {:?} of up to {capacity} voxels on a grid of {grid_size:?} do not fit \
                 a map of {:?} for a grid of {own:?}",
                features.shape(),
                out.shape()
            ));
        };
        let is_vector = num_channels.is_multiple_of(CHANNELS_PER_THREAD as usize);
        if self.layout == MapLayout::ChannelsLast && !is_vector {
            return argument(format!(
                "there are {num_channels} channels; with channels last a multiple of {CHANNELS_PER_THREAD} is required"
            ));
        }
        let stream = &self.stream;
        let args = PlaceArgs {
            cells: voxels.cells.input(stream)?,
            num_voxels: voxels.num.input(stream)?,
            pillars: self.pillars.output(stream)?,
        };
        let num_blocks = [blocks(capacity, THREADS_PER_BLOCK), 1];
        let grid = Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        self.place.enqueue(stream, grid, args)?;
        let num_cells = self.pillars.len();
        let (pillars, layout) = (&mut self.pillars, self.layout);
        let mut map = Map { stream, pillars, layout, num_rows, num_channels, num_cells };
        match (features.values(), out.values_mut()) {
            (DeviceValues::F32(from), DeviceValues::F32(to)) => map.enqueue(&self.f32, from, to),
            (DeviceValues::F16(from), DeviceValues::F16(to)) => map.enqueue(&self.f16, from, to),
            (DeviceValues::F32(from), DeviceValues::F16(to)) => {
                map.enqueue(&self.f32_to_f16, from, to)
            }
            (DeviceValues::F16(from), DeviceValues::F32(to)) => {
                map.enqueue(&self.f16_to_f32, from, to)
            }
            (DeviceValues::I8(_), _) | (_, DeviceValues::I8(_)) => Err(not_floats()),
        }
    }
}

/// The map and the pillars on it.
struct Map<'a> {
    stream: &'a Stream,
    pillars: &'a mut DeviceBuffer<u32>,
    layout: MapLayout,
    num_rows: usize,
    num_channels: usize,
    num_cells: usize,
}

impl Map<'_> {
    fn enqueue<From: Plain, To: Plain>(
        &mut self,
        kernels: &OfElements<From, To>,
        from: &DeviceBuffer<From>,
        to: &mut DeviceBuffer<To>,
    ) -> Result<()>
    where
        Write<From, To>: for<'a> KernelSpec<Args<'a> = WriteArgs<'a, From, To>>,
        WriteRows<From, To>: for<'a> KernelSpec<Args<'a> = WriteArgs<'a, From, To>>,
    {
        let args = WriteArgs {
            features: from.input(self.stream)?,
            pillars: self.pillars.output(self.stream)?,
            map: to.output(self.stream)?,
            num_rows: self.num_rows as u32,
            num_cells: self.num_cells as u32,
            num_channels: self.num_channels as u32,
            reserved: 0,
        };
        let grid = |cells_per_block| Blocks {
            num_blocks: [blocks(self.num_cells, cells_per_block), 1],
            threads_per_block: THREADS_PER_BLOCK,
        };
        match self.layout {
            MapLayout::ChannelsLast => {
                kernels.rows.enqueue(self.stream, grid(CELLS_PER_BLOCK), args)
            }
            _ => kernels.planes.enqueue(self.stream, grid(THREADS_PER_BLOCK), args),
        }
    }
}
