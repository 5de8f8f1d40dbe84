//! The CUDA implementation of [`view_sample`](super) for queries that look through one
//! reference point each (DETR3D): normalization of the queries, projection, selection,
//! weights, sampling and sums in one launch, beside the linear layer of the position
//! encoder. Selection is that of the CPU for equal points; values are within the tolerance of
//! docs/numerics.md, and the same from run to run: levels are summed apart, then added.

pub use super::device_maps::{DeviceMapSource, DeviceMaps};
pub use super::kernels::{
    LevelArgs, MAX_CHANNELS, MAX_LEVELS, MAX_VIEWS, MapsArgs, ReferenceArgs, SampleElement, Texel,
};

pub use super::points::{PointElement, PointSampling, PointsArgs};

use super::kernels::{ReferenceAndLinearArgs, THREADS_PER_BLOCK};
use super::{FeatureLevel, FeatureMaps, Texels};
use crate::device::cuda::{CudaDevice, DeviceBuffer, Grid, Kernel, Stream};
use crate::view::linear::cuda::{JobArgs, LinearArgs, shared_bytes};
use det_post_types::{Error, ErrorKind, Result};
use half::f16;

/// Feature maps in device memory, channels last.
#[derive(Debug)]
pub struct DeviceFeatureMaps {
    num_views: usize,
    num_channels: usize,
    levels: Vec<DeviceLevel>,
}

/// One level of feature maps.
#[derive(Debug)]
pub(crate) struct DeviceLevel {
    /// Width and height.
    pub size: [usize; 2],
    pub texels: DeviceTexels,
}

#[derive(Debug)]
pub(crate) enum DeviceTexels {
    F32(DeviceBuffer<f32>),
    F16(DeviceBuffer<f16>),
    I8 { values: DeviceBuffer<i8>, scale: f32 },
}

impl DeviceFeatureMaps {
    /// Maps of zeros: a width and a height per level. `scales` are those of int8 texels, one
    /// per level, and not read for others.
    ///
    /// # Errors
    /// `Argument` when a level lacks its scale; `Device` when there is not enough memory.
    pub fn zeros(
        stream: &Stream,
        [num_views, num_channels]: [usize; 2],
        sizes: &[[usize; 2]],
        texel: Texel,
        scales: &[f32],
    ) -> Result<Self> {
        let level = |(index, &size): (usize, &[usize; 2])| {
            let len = num_views * num_channels * size[0] * size[1];
            let texels = match (texel, scales.get(index)) {
                (Texel::F32, _) => DeviceTexels::F32(DeviceBuffer::zeros(stream, len)?),
                (Texel::F16, _) => DeviceTexels::F16(DeviceBuffer::zeros(stream, len)?),
                (Texel::I8, Some(&scale)) => {
                    DeviceTexels::I8 { values: DeviceBuffer::zeros(stream, len)?, scale }
                }
                (Texel::I8, None) => return argument(format!("level {index} has no scale")),
            };
            Ok(DeviceLevel { size, texels })
        };
        let levels = sizes.iter().enumerate().map(level).collect::<Result<_>>()?;
        Ok(Self { num_views, num_channels, levels })
    }

    /// The levels.
    pub(super) fn levels(&self) -> &[DeviceLevel] {
        &self.levels
    }

    /// The levels, to be written.
    pub(crate) fn levels_mut(&mut self) -> &mut [DeviceLevel] {
        &mut self.levels
    }

    /// Copies maps to the device and waits: for setup and tests.
    ///
    /// # Errors
    /// `Device` when there is not enough memory or a copy fails.
    pub fn from_host(stream: &Stream, maps: &FeatureMaps) -> Result<Self> {
        let levels = maps.levels().iter().map(|level| {
            let texels = match level.texels() {
                Texels::F32(values) => {
                    let mut buffer = DeviceBuffer::zeros(stream, values.len())?;
                    buffer.write(values)?;
                    DeviceTexels::F32(buffer)
                }
                Texels::F16(values) => {
                    let mut buffer = DeviceBuffer::zeros(stream, values.len())?;
                    buffer.write(values)?;
                    DeviceTexels::F16(buffer)
                }
                Texels::I8 { values, scale } => {
                    let mut buffer = DeviceBuffer::zeros(stream, values.len())?;
                    buffer.write(values)?;
                    DeviceTexels::I8 { values: buffer, scale: *scale }
                }
            };
            Ok(DeviceLevel { size: level.size(), texels })
        });
        Ok(Self {
            num_views: maps.num_views(),
            num_channels: maps.num_channels(),
            levels: levels.collect::<Result<_>>()?,
        })
    }

    /// Waits, then copies the maps to new host memory: for tests, not for frames.
    ///
    /// # Errors
    /// `Device` when earlier work or a copy fails.
    pub fn read(&self) -> Result<FeatureMaps> {
        let levels = self.levels.iter().map(|level| {
            let texels = match &level.texels {
                DeviceTexels::F32(values) => Texels::F32(values.read()?),
                DeviceTexels::F16(values) => Texels::F16(values.read()?),
                DeviceTexels::I8 { values, scale } => {
                    Texels::I8 { values: values.read()?, scale: *scale }
                }
            };
            Ok(FeatureLevel::new(level.size, texels))
        });
        FeatureMaps::new(self.num_views, self.num_channels, levels.collect::<Result<_>>()?)
    }

    /// Views, levels and channels.
    pub fn sizes(&self) -> [usize; 3] {
        [self.num_views, self.levels.len(), self.num_channels]
    }
}

/// The loaded kernels.
pub struct ReferenceSampling<T: SampleElement> {
    same: Kernel<T::Same>,
    smaller: Kernel<T::Smaller>,
}

impl<T: SampleElement> ReferenceSampling<T> {
    /// Loads the kernels for queries of at most so many channels.
    ///
    /// # Errors
    /// `Device` when this build has no kernels, or the GPU has too little shared memory.
    pub fn load(device: &CudaDevice, num_channels: u32) -> Result<Self> {
        let bytes = shared_bytes::<T>(1, num_channels, [2 * num_channels, 0]);
        let same: Kernel<T::Same> = device.kernel()?;
        same.reserve_shared(bytes, THREADS_PER_BLOCK)?;
        let smaller: Kernel<T::Smaller> = device.kernel()?;
        smaller.reserve_shared(bytes, THREADS_PER_BLOCK)?;
        Ok(Self { same, smaller })
    }

    /// Queues the sampling of maps with texels of one type and, beside it, layers of encoded
    /// points.
    ///
    /// # Errors
    /// `Argument` when no kernel reads such texels; else as [`Kernel::enqueue`].
    pub fn enqueue(
        &self,
        stream: &Stream,
        sample: ReferenceArgs<'_, T>,
        texel: Texel,
        jobs: &[JobArgs<'_, T>],
    ) -> Result<()> {
        let linear = LinearArgs::new(jobs)?;
        let num_row_blocks = linear.num_row_blocks(1);
        let num_blocks = sample.num_queries + num_row_blocks * linear.num_column_blocks();
        let grid = Grid { num_blocks: [num_blocks, 1], threads_per_block: THREADS_PER_BLOCK };
        let args = ReferenceAndLinearArgs { sample, linear, num_row_blocks, reserved: 0 };
        if texel == T::TEXELS[0] {
            self.same.enqueue_dependent(stream, grid, args)
        } else if texel == T::TEXELS[1] {
            self.smaller.enqueue_dependent(stream, grid, args)
        } else {
            argument(format!("texels must be {:?}, found {texel:?}", T::TEXELS))
        }
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "view_sample", message))
}
