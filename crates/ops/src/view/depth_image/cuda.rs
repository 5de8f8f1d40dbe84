//! The CUDA implementation of [`depth_image`](super::depth_image()): equal to the CPU, bit for bit.
//! The number of points stays on the device; views and range are parameters of the launches.

use super::kernels::{Clear, DepthImageArgs, Finish, Project, ViewArgs};
use super::{DepthImageParams, MAX_VIEWS, MIN_DEPTH_M, argument};
use crate::cloud::DevicePoints;
use crate::device::cuda::{DeviceTensor, DeviceValues, Kernel, Stream};
use det_post_types::Result;

/// The kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    clear: Kernel<Clear>,
    project: Kernel<Project>,
    finish: Kernel<Finish>,
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
            clear: device.kernel()?,
            project: device.kernel()?,
            finish: device.kernel()?,
        })
    }

    /// Queues the writing of all values of `out`, f32 of the shape of the parameters.
    ///
    /// # Errors
    /// `Argument` for no or too many views, or a tensor that is not f32 of this shape; `Device` when
    /// a buffer belongs to another stream or a launch fails.
    pub fn enqueue(
        &mut self,
        points: &DevicePoints,
        params: &DepthImageParams,
        out: &mut DeviceTensor,
    ) -> Result<()> {
        params.check(out.shape())?;
        let DeviceValues::F32(images) = out.values_mut() else {
            return argument("the images are not f32".into());
        };
        let Self { stream, clear, project, finish } = self;
        let points = points.slices(stream)?;
        let mut views = [ViewArgs { rows: [0.0; 12] }; MAX_VIEWS];
        let mut present = 0;
        for ((bit, args), view) in views.iter_mut().enumerate().zip(&params.views) {
            args.rows.copy_from_slice(view.pixels_from_points.as_flattened());
            present |= u32::from(view.is_present) << bit;
        }
        let args = DepthImageArgs {
            points: points.values,
            num_points: points.num,
            images: images.output(stream)?,
            views,
            range_min: params.range.min,
            range_max: params.range.max,
            min_depth: MIN_DEPTH_M,
            present,
            num_views: params.views.len() as u32,
            width: params.size.width,
            height: params.size.height,
            num_channels: points.num_channels as u32,
            point_capacity: points.capacity as u32,
            reserved: 0,
        };
        clear.enqueue(stream, args.of_pixels(), args)?;
        project.enqueue(stream, args.of_points(), args)?;
        finish.enqueue(stream, args.of_pixels(), args)
    }
}
