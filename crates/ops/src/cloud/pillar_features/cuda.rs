//! The CUDA implementation of [`pillar_features`](super::pillar_features): equal to
//! the CPU, bit for bit (a NaN, which results only from finite points that overflow,
//! may have other bits).
//!
//! Most values of the tensor are zero in every frame. A workspace belongs to one
//! tensor and keeps for each row how many values may be nonzero: only these are
//! written.

use half::f16;

use super::kernels::{
    FEW_VALUES, FEW_VOXELS_PER_BLOCK, FeatureArgs, Few, MANY_VALUES, MANY_VOXELS_PER_BLOCK, Many,
    THREADS_PER_BLOCK,
};
use super::num_features;
use crate::cloud::voxelize::cuda::DeviceVoxels;
use crate::cloud::voxelize::kernels::GridArgs;
use crate::cloud::{DevicePoints, PointSlices};
use crate::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceTensor, DeviceValues, Grid as Blocks, Kernel, KernelSpec, Out,
    Stream, blocks, not_floats,
};
use det_post_types::{Error, ErrorKind, Result};

/// Kernels and memory of the op for one tensor, which only this workspace writes.
pub struct Workspace {
    stream: Stream,
    kernels: Kernels,
    /// By row, how many of its first values may be nonzero.
    written: DeviceBuffer<u32>,
    /// The address of the tensor's values.
    address: u64,
}

/// Kernels of the op, for tensors that hold any values before.
pub struct Kernels {
    few_f32: Kernel<Few<f32>>,
    few_f16: Kernel<Few<f16>>,
    many_f32: Kernel<Many<f32>>,
    many_f16: Kernel<Many<f16>>,
}

impl Workspace {
    /// Loads the kernels and allocates memory for the rows of `out`, which may hold
    /// any values.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels or there is not enough
    /// memory.
    pub fn new(stream: &Stream, out: &DeviceTensor) -> Result<Self> {
        let (&num_rows, row) = out.shape().split_first().unwrap_or((&0, &[]));
        let row_len = u32::try_from(row.iter().product::<usize>()).unwrap_or(u32::MAX);
        let mut written = DeviceBuffer::zeros(stream, num_rows)?;
        written.write(&vec![row_len; num_rows])?;
        let kernels = Kernels::load(stream.device())?;
        Ok(Self { stream: stream.clone(), kernels, written, address: out.address() })
    }

    /// Queues the computation of `out`, `[V, P, F]` with V at least the capacity of
    /// the voxels. `voxels` were made from `points`.
    ///
    /// # Errors
    /// `Argument` when `out` is not the workspace's tensor or has another shape, or a row
    /// has more than `MANY_VALUES` values; `Device` when a buffer
    /// belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        (points, voxels): (&DevicePoints, &DeviceVoxels),
        center_offset_z: bool,
        out: &mut DeviceTensor,
    ) -> Result<()> {
        if out.address() != self.address {
            return argument(
                "the tensor differs from the one that the workspace was made for".into(),
            );
        }
        let Self { stream, kernels, written, .. } = self;
        let points = points.slices(stream)?;
        let capacity = voxels.params().voxel_capacity;
        let input = Input { stream, points: &points, voxels, capacity, center_offset_z };
        kernels.enqueue(&input, written.output(stream)?, out)
    }
}

impl Kernels {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self {
            few_f32: device.kernel()?,
            few_f16: device.kernel()?,
            many_f32: device.kernel()?,
            many_f16: device.kernel()?,
        })
    }

    /// Queues the writing of all values of `out`, `[V, P, F]` with V at least `num_voxels`, the
    /// number of voxels that the caller has read. `points` are those of the voxels; kernels read
    /// no vectors of them.
    ///
    /// # Errors
    /// `Argument` when `out` has another shape, or a row more than `MANY_VALUES` values;
    /// `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue_all(
        &self,
        stream: &Stream,
        (points, voxels): (&PointSlices<'_>, &DeviceVoxels),
        num_voxels: usize,
        center_offset_z: bool,
        out: &mut DeviceTensor,
    ) -> Result<()> {
        let input = Input { stream, points, voxels, capacity: num_voxels, center_offset_z };
        self.enqueue(&input, Out::empty(), out)
    }

    fn enqueue(
        &self,
        input: &Input<'_>,
        written: Out<'_, u32>,
        out: &mut DeviceTensor,
    ) -> Result<()> {
        let Input { stream, points, voxels, .. } = *input;
        let num_features = num_features(points.num_channels, input.center_offset_z);
        let num_rows = check(out, input, num_features)?;
        if num_rows == 0 {
            return Ok(());
        }
        let num_values = voxels.params().max_points_per_voxel.saturating_mul(num_features);
        let is_few = num_values <= FEW_VALUES;
        let voxels_per_block = if is_few { FEW_VOXELS_PER_BLOCK } else { MANY_VOXELS_PER_BLOCK };
        let sizes = [num_rows, num_features];
        let rows = Rows { stream, points, voxels, written, sizes, voxels_per_block };
        match out.values_mut() {
            DeviceValues::F32(out) if is_few => rows.enqueue(&self.few_f32, out.output(stream)?),
            DeviceValues::F32(out) => rows.enqueue(&self.many_f32, out.output(stream)?),
            DeviceValues::F16(out) if is_few => rows.enqueue(&self.few_f16, out.output(stream)?),
            DeviceValues::F16(out) => rows.enqueue(&self.many_f16, out.output(stream)?),
            DeviceValues::I8(_) => Err(not_floats()),
        }
    }
}

/// Voxels and their points.
struct Input<'a> {
    stream: &'a Stream,
    points: &'a PointSlices<'a>,
    voxels: &'a DeviceVoxels,
    /// The most voxels that there may be.
    capacity: usize,
    center_offset_z: bool,
}

/// The rows of a tensor that fits the voxels.
fn check(out: &DeviceTensor, input: &Input<'_>, num_features: usize) -> Result<usize> {
    let (num_slots, capacity) = (input.voxels.params().max_points_per_voxel, input.capacity);
    let num_values = num_slots.saturating_mul(num_features);
    match *out.shape() {
        _ if num_values > MANY_VALUES => {
            argument(format!("{num_values} values of a voxel exceed the limit of {MANY_VALUES}"))
        }
        [rows, slots, features]
            if rows >= capacity && slots == num_slots && features == num_features =>
        {
            Ok(rows)
        }
        _ => argument(format!(
            "up to {capacity} voxels of {num_slots} points of {num_features} features do not fit a \
             tensor of {:?}",
            out.shape()
        )),
    }
}

/// Arguments that fit together.
struct Rows<'a> {
    stream: &'a Stream,
    points: &'a PointSlices<'a>,
    voxels: &'a DeviceVoxels,
    written: Out<'a, u32>,
    /// Rows, and features of a point.
    sizes: [usize; 2],
    voxels_per_block: u32,
}

impl Rows<'_> {
    fn enqueue<T: 'static, K>(&self, kernel: &Kernel<K>, out: Out<'_, T>) -> Result<()>
    where
        K: for<'a> KernelSpec<Args<'a> = FeatureArgs<'a, T>>,
    {
        let Self { stream, points, voxels, .. } = *self;
        let ([num_rows, num_features], voxels_per_block) = (self.sizes, self.voxels_per_block);
        let args = FeatureArgs {
            points: points.values,
            cells: voxels.cells.input(stream)?,
            num_points_per_voxel: voxels.num_points_per_voxel.input(stream)?,
            point_indices: voxels.point_indices.input(stream)?,
            num_voxels: voxels.num.input(stream)?,
            out,
            written: self.written,
            grid: GridArgs::new(&voxels.params().grid),
            num_rows: num_rows as u32,
            max_points_per_voxel: voxels.params().max_points_per_voxel as u32,
            num_channels: points.num_channels as u32,
            num_features: num_features as u32,
            point_capacity: points.capacity as u32,
        };
        let num_blocks = [blocks(num_rows, voxels_per_block), 1];
        kernel.enqueue(stream, Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args)
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "pillar_features", message))
}
