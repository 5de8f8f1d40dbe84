//! The CUDA side of [`pillar_features`](super::pillar_features): equal to the
//! CPU, bit for bit (a NaN, which only finite points that overflow give, may
//! have other bits).

use half::f16;

use super::num_features;
use crate::device::cuda::abi::pillar_features::{
    FEW_VALUES, FEW_VOXELS_PER_BLOCK, FeatureArgs, Few, MANY_VALUES, MANY_VOXELS_PER_BLOCK, Many,
    THREADS_PER_BLOCK,
};
use crate::device::cuda::abi::voxelize::GridArgs;
use crate::device::cuda::{
    CudaDevice, DevicePoints, DeviceTensor, DeviceValues, Grid as Blocks, Kernel, KernelSpec, Out,
    Stream, blocks,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::voxelize::cuda::DeviceVoxels;

/// The kernels of the op on one GPU.
pub struct Kernels {
    few_f32: Kernel<Few<f32>>,
    few_f16: Kernel<Few<f16>>,
    many_f32: Kernel<Many<f32>>,
    many_f16: Kernel<Many<f16>>,
}

impl Kernels {
    /// Takes the kernels from a device.
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
}

/// Queues the writing of all of `out`, `[V, P, F]` with room for as many voxels
/// as there may be. `points` are those that the voxels were made from.
///
/// # Errors
/// `Argument` when `out` has another shape, or a voxel's row more than
/// [`MANY_VALUES`] values; `Device` when a buffer is another stream's or
/// the launch fails.
pub fn enqueue_pillar_features(
    stream: &Stream,
    kernels: &Kernels,
    (points, voxels): (&DevicePoints, &DeviceVoxels),
    center_offset_z: bool,
    out: &mut DeviceTensor,
) -> Result<()> {
    let num_slots = voxels.params().max_points_per_voxel;
    let num_features = num_features(points.num_channels(), center_offset_z);
    let num_rows = match *out.shape() {
        [rows, slots, features]
            if rows >= voxels.params().voxel_capacity
                && slots == num_slots
                && features == num_features =>
        {
            rows
        }
        _ => {
            return argument(format!(
                "up to {} voxels of {num_slots} points of {num_features} features do not fit a \
                 tensor of {:?}",
                voxels.params().voxel_capacity,
                out.shape()
            ));
        }
    };
    let num_values = num_slots * num_features;
    if num_values > MANY_VALUES {
        return argument(format!("{num_values} values a voxel; at most {MANY_VALUES}"));
    }
    let is_few = num_values <= FEW_VALUES;
    let voxels_per_block = if is_few { FEW_VOXELS_PER_BLOCK } else { MANY_VOXELS_PER_BLOCK };
    let rows = Rows { stream, points, voxels, num_rows, num_features, voxels_per_block };
    match out.values_mut() {
        DeviceValues::F32(out) if is_few => rows.enqueue(&kernels.few_f32, out.output(stream)?),
        DeviceValues::F32(out) => rows.enqueue(&kernels.many_f32, out.output(stream)?),
        DeviceValues::F16(out) if is_few => rows.enqueue(&kernels.few_f16, out.output(stream)?),
        DeviceValues::F16(out) => rows.enqueue(&kernels.many_f16, out.output(stream)?),
    }
}

/// Arguments that fit together.
struct Rows<'a> {
    stream: &'a Stream,
    points: &'a DevicePoints,
    voxels: &'a DeviceVoxels,
    num_rows: usize,
    num_features: usize,
    voxels_per_block: u32,
}

impl Rows<'_> {
    fn enqueue<T: 'static, K>(&self, kernel: &Kernel<K>, out: Out<'_, T>) -> Result<()>
    where
        K: for<'a> KernelSpec<Args<'a> = FeatureArgs<'a, T>>,
    {
        let Self { stream, points, voxels, num_rows, num_features, voxels_per_block } = *self;
        let args = FeatureArgs {
            points: points.values.input(stream)?,
            cells: voxels.cells.input(stream)?,
            num_points_per_voxel: voxels.num_points_per_voxel.input(stream)?,
            point_indices: voxels.point_indices.input(stream)?,
            num_voxels: voxels.num.input(stream)?,
            out,
            grid: GridArgs::new(&voxels.params().grid),
            num_rows: num_rows as u32,
            max_points_per_voxel: voxels.params().max_points_per_voxel as u32,
            num_channels: points.num_channels() as u32,
            num_features: num_features as u32,
            point_capacity: points.capacity() as u32,
        };
        let num_blocks = [blocks(num_rows, voxels_per_block), 1];
        kernel.enqueue(stream, Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args)
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "pillar_features", message))
}
