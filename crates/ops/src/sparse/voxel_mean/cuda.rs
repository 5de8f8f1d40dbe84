//! The CUDA implementation of [`voxel_mean`](super::voxel_mean): equal to the CPU in
//! f32. Rows beyond the voxels keep what they held.
//!
//! The sum of a voxel has an order, so that its additions wait for each other. A thread per
//! channel adds; the values of voxels with more than 64 points are loaded by a block.

use super::kernels::{MAX_TRANSFORMS, Mean, MeanArgs, MeanOfAll, THREADS_PER_BLOCK};
use crate::cloud::DevicePoints;
use crate::cloud::voxelize::cuda::DeviceVoxels;
use crate::device::cuda::{DeviceBuffer, Grid as Blocks, In, Kernel, Out, Stream, blocks};
use det_post_types::{ChannelTransform, Error, ErrorKind, Result};

/// The kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    mean: Kernel<Mean>,
    mean_of_all: Kernel<MeanOfAll>,
    tanh_channels: u32,
}

impl Workspace {
    /// Loads the kernels. `transforms` are those of the channels; a channel beyond them is
    /// taken as it is.
    ///
    /// # Errors
    /// `Argument` when a channel after the 32nd has a transform; `Device` when this build
    /// has no such kernels.
    pub fn new(stream: &Stream, transforms: &[ChannelTransform]) -> Result<Self> {
        let mut tanh_channels = 0;
        for (channel, transform) in transforms.iter().enumerate() {
            match transform {
                ChannelTransform::Identity => {}
                ChannelTransform::Tanh if channel < MAX_TRANSFORMS => tanh_channels |= 1 << channel,
                ChannelTransform::Tanh => {
                    return argument(format!("{transform:?} of channel {channel}"));
                }
            }
        }
        let device = stream.device();
        Ok(Self {
            stream: stream.clone(),
            mean: device.kernel()?,
            mean_of_all: device.kernel()?,
            tanh_channels,
        })
    }

    /// Queues the writing of a row of `features` per voxel, as wide as the points that the
    /// voxels were made from.
    ///
    /// # Errors
    /// `Argument` when `features` has fewer values than there may be; `Device` when a
    /// buffer belongs to another stream, there is no limit on the points of a voxel and they
    /// have more than 256 channels, or the launch fails.
    pub fn enqueue(
        &self,
        points: &DevicePoints,
        voxels: &DeviceVoxels,
        features: &mut DeviceBuffer<f32>,
    ) -> Result<()> {
        let stream = &self.stream;
        let num_channels = points.num_channels();
        let num_voxels = voxels.params().voxel_capacity;
        let num_values = num_voxels.saturating_mul(num_channels);
        if features.len() < num_values {
            return argument(format!(
                "the features have {} values; {num_values} are required",
                features.len()
            ));
        }
        let points = (points.values.input(stream)?, num_channels);
        self.launch(points, voxels, num_voxels, features.output(stream)?)
    }

    /// Queues the writing of the rows of the first `num_voxels` voxels, of which there are no
    /// fewer, to all values of `features`. `points` are values of this many channels.
    ///
    /// # Errors
    /// As [`Self::enqueue`]; `Argument` when there are more voxels than the capacity.
    pub fn enqueue_rows(
        &self,
        (points, num_channels): (In<'_, f32>, usize),
        voxels: &DeviceVoxels,
        num_voxels: usize,
        features: Out<'_, f32>,
    ) -> Result<()> {
        let capacity = voxels.params().voxel_capacity;
        if num_voxels > capacity || features.len() != num_voxels.saturating_mul(num_channels) {
            return argument(format!(
                "{} values for {num_voxels} voxels of {num_channels} channels of up to {capacity}",
                features.len()
            ));
        }
        if num_voxels == 0 {
            return Ok(());
        }
        self.launch((points, num_channels), voxels, num_voxels, features)
    }

    fn launch(
        &self,
        (points, num_channels): (In<'_, f32>, usize),
        voxels: &DeviceVoxels,
        num_voxels: usize,
        features: Out<'_, f32>,
    ) -> Result<()> {
        let stream = &self.stream;
        let args = MeanArgs {
            points,
            point_indices: voxels.point_indices.input(stream)?,
            num_points_per_voxel: voxels.num_points_per_voxel.input(stream)?.until(num_voxels),
            num_voxels: voxels.num.input(stream)?,
            buckets: voxels.buckets.input(stream)?,
            large_voxels: voxels.large_buckets.input(stream)?,
            num_large_voxels: voxels.num_large_buckets.input(stream)?,
            features,
            num_channels: num_channels as u32,
            max_points_per_voxel: voxels.max_points_per_voxel(),
            tanh_channels: self.tanh_channels,
            num_large_blocks: stream.device().num_multiprocessors(),
        };
        let num_blocks = blocks(num_voxels.saturating_mul(num_channels), THREADS_PER_BLOCK);
        let grid = |num| Blocks { num_blocks: [num, 1], threads_per_block: THREADS_PER_BLOCK };
        if voxels.has_all_points() {
            self.mean_of_all.enqueue(stream, grid(args.num_large_blocks + num_blocks), args)
        } else {
            self.mean.enqueue(stream, grid(num_blocks), args)
        }
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "voxel_mean", message))
}
