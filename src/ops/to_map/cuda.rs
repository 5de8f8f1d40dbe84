//! The CUDA implementation of [`to_map`](super::to_map): equal to the CPU.

use half::f16;

use super::kernels::{Bf16, CHANNELS_PER_THREAD, MapArgs, THREADS_PER_BLOCK, Write};
use super::map_shape;
use crate::device::cuda::{
    DeviceBuffer, DeviceTensor, DeviceValues, Grid as Blocks, Kernel, KernelSpec, Plain, Stream,
    blocks,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::rulebook::cuda::DeviceSites;
use crate::ops::sparse_conv::Precision;
use crate::ops::sparse_conv::cuda::DeviceFeatures;

/// Kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    f32: Kernel<Write<f32, f32>>,
    f32_to_f16: Kernel<Write<f32, f16>>,
    f16: Kernel<Write<f16, f16>>,
    f16_to_f32: Kernel<Write<f16, f32>>,
    bf16_to_f16: Kernel<Write<Bf16, f16>>,
    bf16_to_f32: Kernel<Write<Bf16, f32>>,
}

impl Workspace {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            stream: stream.clone(),
            f32: device.kernel()?,
            f32_to_f16: device.kernel()?,
            f16: device.kernel()?,
            f16_to_f32: device.kernel()?,
            bf16_to_f16: device.kernel()?,
            bf16_to_f32: device.kernel()?,
        })
    }

    /// Queues the writing of all of `out`, of [`map_shape`], from rows of `num_channels` of
    /// the level of `sites`.
    ///
    /// # Errors
    /// `Argument` when the shape of `out` is another; `Device` when a buffer belongs to
    /// another stream or the launch fails.
    pub fn enqueue(
        &self,
        features: &DeviceFeatures,
        sites: &DeviceSites,
        axes: [usize; 3],
        num_channels: usize,
        out: &mut DeviceTensor,
    ) -> Result<()> {
        let shape = map_shape(sites.grid(), axes, num_channels)?;
        let row_len = DeviceFeatures::row_len(num_channels);
        if *out.shape() != shape || !features.holds(sites.capacity(), row_len) {
            let message = format!(
                "a map of {:?} from features of {} bytes; {shape:?} from {} rows of {num_channels} \
                 channels is needed",
                out.shape(),
                features.num_bytes(),
                sites.capacity()
            );
            return Err(Error::new(ErrorKind::Argument, "to_map", message));
        }
        let map = Map { stream: &self.stream, features, sites, axes, num_channels };
        match (features.precision(), out.values_mut()) {
            (Precision::F32 | Precision::Tf32, DeviceValues::F32(to)) => map.enqueue(&self.f32, to),
            (Precision::F32 | Precision::Tf32, DeviceValues::F16(to)) => {
                map.enqueue(&self.f32_to_f16, to)
            }
            (Precision::F16, DeviceValues::F16(to)) => map.enqueue(&self.f16, to),
            (Precision::F16, DeviceValues::F32(to)) => map.enqueue(&self.f16_to_f32, to),
            (Precision::Bf16, DeviceValues::F16(to)) => map.enqueue(&self.bf16_to_f16, to),
            (Precision::Bf16, DeviceValues::F32(to)) => map.enqueue(&self.bf16_to_f32, to),
        }
    }
}

/// What the map is made from.
struct Map<'a> {
    stream: &'a Stream,
    features: &'a DeviceFeatures,
    sites: &'a DeviceSites,
    axes: [usize; 3],
    num_channels: usize,
}

impl Map<'_> {
    fn enqueue<To: Plain, K>(&self, kernel: &Kernel<K>, to: &mut DeviceBuffer<To>) -> Result<()>
    where
        K: for<'a> KernelSpec<Args<'a> = MapArgs<'a, To>>,
    {
        let stream = self.stream;
        let grid = self.sites.grid();
        let [s0, s1, s2] = grid.shape();
        let strides = [s1 * s2, s2, 1];
        let size = self.axes.map(|axis| grid.shape()[axis]);
        let args = MapArgs {
            features: self.features.bytes.input(stream)?,
            sites: self.sites.index(stream)?,
            map: to.output(stream)?,
            num_channels: self.num_channels as u32,
            row_stride: DeviceFeatures::row_len(self.num_channels) as u32,
            batch_size: grid.batch_size(),
            num_cells: s0 * s1 * s2,
            size,
            cell_stride: self.axes.map(|axis| strides[axis]),
        };
        let parts = args.num_channels.div_ceil(CHANNELS_PER_THREAD);
        let num_places = size[1] as usize * size[2] as usize;
        let num_blocks =
            [blocks(num_places, THREADS_PER_BLOCK), grid.batch_size() * size[0] * parts];
        kernel.enqueue(stream, Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args)
    }
}
