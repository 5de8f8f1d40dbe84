//! The CUDA implementation of [`to_map`](super::to_map): equal to the CPU.

use half::f16;

use super::kernels::{Bf16, CHANNELS_PER_THREAD, MapArgs, THREADS_PER_BLOCK, Write};
use super::map_shape;
use crate::device::cuda::{
    DeviceBuffer, DeviceTensor, DeviceValues, Grid as Blocks, Plain, Stream, blocks, not_floats,
};
use crate::sparse::conv::ByPrecision;
use crate::sparse::conv::cuda::DeviceFeatures;
use crate::sparse::rulebook::cuda::DeviceSites;
use det_post_types::{Error, ErrorKind, Result};

/// Kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    to_f32: Writes<f32>,
    to_f16: Writes<f16>,
}

/// The kernels that write a map of `To`.
type Writes<To> = ByPrecision<Write<f32, To>, Write<f16, To>, Write<Bf16, To>>;

impl Workspace {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            stream: stream.clone(),
            to_f32: ByPrecision::load(device)?,
            to_f16: ByPrecision::load(device)?,
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
                "a map of {:?} from features of {} bytes; {shape:?} from {} rows of \
                 {num_channels} channels is required",
                out.shape(),
                features.num_bytes(),
                sites.capacity()
            );
            return Err(Error::new(ErrorKind::Argument, "to_map", message));
        }
        let map = Map { stream: &self.stream, features, sites, axes, num_channels };
        let precision = features.precision();
        match out.values_mut() {
            DeviceValues::F32(to) => {
                let (grid, args) = map.launch(to)?;
                self.to_f32.enqueue(precision, &self.stream, grid, args)
            }
            DeviceValues::F16(to) => {
                let (grid, args) = map.launch(to)?;
                self.to_f16.enqueue(precision, &self.stream, grid, args)
            }
            DeviceValues::I8(_) => Err(not_floats()),
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

impl<'a> Map<'a> {
    fn launch<To: Plain>(&self, to: &'a mut DeviceBuffer<To>) -> Result<(Blocks, MapArgs<'a, To>)> {
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
        Ok((Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args))
    }
}
