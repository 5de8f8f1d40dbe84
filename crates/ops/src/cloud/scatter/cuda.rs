//! The CUDA implementation of [`scatter`](super::scatter): equal to the CPU, bit for
//! bit.

use half::f16;

use super::kernels::{Place, PlaceArgs, THREADS_PER_BLOCK, Write, WriteArgs};
use crate::cloud::voxelize::cuda::DeviceVoxels;
use crate::device::cuda::{
    DeviceBuffer, DeviceTensor, DeviceValues, Grid as Blocks, Kernel, KernelSpec, Plain, Stream,
    blocks, not_floats,
};
use det_post_types::{Error, ErrorKind, Grid, Result};

/// Kernels and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    place: Kernel<Place>,
    f32: Kernel<Write<f32, f32>>,
    f16: Kernel<Write<f16, f16>>,
    f32_to_f16: Kernel<Write<f32, f16>>,
    f16_to_f32: Kernel<Write<f16, f32>>,
    pillars: DeviceBuffer<u32>,
    size: [usize; 2],
}

impl Workspace {
    /// Loads the kernels and allocates memory for the cells of a grid.
    ///
    /// # Errors
    /// `Argument` when the grid is more than one cell high; `Device` when this
    /// build has no such kernels or there is not enough memory.
    pub fn new(stream: &Stream, grid: &Grid) -> Result<Self> {
        let [nx, ny, nz] = grid.grid_size().map(|n| n as usize);
        if nz != 1 || grid.num_cells() > u64::from(u32::MAX) {
            return argument(format!("the grid must be one cell high, found {nx}x{ny}x{nz}"));
        }
        let device = stream.device();
        Ok(Self {
            stream: stream.clone(),
            place: device.kernel()?,
            f32: device.kernel()?,
            f16: device.kernel()?,
            f32_to_f16: device.kernel()?,
            f16_to_f32: device.kernel()?,
            pillars: DeviceBuffer::zeros(stream, nx * ny)?,
            size: [nx, ny],
        })
    }

    /// Queues the writing of all values of `out`, `[1, C, ny, nx]`, from `features`,
    /// `[V, C]`, `[V, 1, C]` or `[V, C, 1]` with V at least the capacity of the voxels.
    ///
    /// # Errors
    /// `Argument` for other shapes, or voxels of another grid;
    /// `Device` when a buffer belongs to another stream or a launch fails.
    pub fn enqueue(
        &mut self,
        features: &DeviceTensor,
        voxels: &DeviceVoxels,
        out: &mut DeviceTensor,
    ) -> Result<()> {
        let [nx, ny] = self.size;
        let capacity = voxels.params().voxel_capacity;
        let shape = match *features.shape() {
            [rows, n] | [rows, 1, n] | [rows, n, 1] if rows >= capacity => Some([rows, n]),
            _ => None,
        };
        let grid_size = voxels.params().grid.grid_size().map(|n| n as usize);
        let Some([num_rows, num_channels]) = shape
            .filter(|&[_, n]| *out.shape() == [1, n, ny, nx] && n > 0 && grid_size == [nx, ny, 1])
        else {
            return argument(format!(
                "features of {:?} of up to {capacity} voxels on a grid of {grid_size:?} do not fit \
                 a map of {:?} for a grid of {nx}x{ny}",
                features.shape(),
                out.shape()
            ));
        };
        let stream = &self.stream;
        let args = PlaceArgs {
            cells: voxels.cells.input(stream)?,
            num_voxels: voxels.num.input(stream)?,
            pillars: self.pillars.output(stream)?,
        };
        let num_blocks = [blocks(capacity, THREADS_PER_BLOCK), 1];
        let grid = Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        self.place.enqueue(stream, grid, args)?;
        let mut map =
            Map { stream, pillars: &mut self.pillars, num_rows, num_channels, num_cells: nx * ny };
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
    num_rows: usize,
    num_channels: usize,
    num_cells: usize,
}

impl Map<'_> {
    fn enqueue<From: Plain, To: Plain, K>(
        &mut self,
        kernel: &Kernel<K>,
        from: &DeviceBuffer<From>,
        to: &mut DeviceBuffer<To>,
    ) -> Result<()>
    where
        K: for<'a> KernelSpec<Args<'a> = WriteArgs<'a, From, To>>,
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
        let num_blocks = [blocks(self.num_cells, THREADS_PER_BLOCK), 1];
        let grid = Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        kernel.enqueue(self.stream, grid, args)
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "scatter", message))
}
