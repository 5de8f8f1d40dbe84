//! The CUDA implementation of [`grid_sample`](super::grid_sample()): one launch, equal to the CPU.

use super::kernels::{GridSampleArgs, One, THREADS_PER_BLOCK, Vector};
use super::{GridSample, Method, Padding};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, are_vectors, check_floats, map_dims, map_grid, padded};
use crate::device::cuda::{CudaDevice, Kernel};
use det_post_types::Result;

/// The loaded kernels.
pub struct GridSampling {
    one: Kernel<One>,
    vector: Kernel<Vector>,
}

impl GridSampling {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { one: device.kernel()?, vector: device.kernel()? })
    }

    /// Queues the sampling of a map of f16 or f32 to one of either.
    ///
    /// # Errors
    /// `Argument` when the dims do not fit, or the windows are not within their buffers, overlap,
    /// are of i32 or have 2^32 elements; `Device` when the launch fails.
    pub fn enqueue(
        &self,
        arena: &Arena,
        op: &GridSample,
        input: &Region,
        grid: &Region,
        output: &Region,
    ) -> Result<()> {
        let sizes = op.check(input, grid, output)?;
        if output.window.is_empty() {
            return Ok(());
        }
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        let places = arena.input(grid)?;
        check_disjoint("grid_sample", &[&output], &[&input, &places], InPlace::Refused)?;
        check_floats("grid_sample", &[input.element(), places.element(), output.element()])?;
        let strides = [input.region().window.strides(), output.region().window.strides()];
        let args = GridSampleArgs {
            source: Source::new(&input, padded(strides[0])),
            grid: Source::new(&places, padded(places.region().window.strides())),
            target: Target::new(&output, padded(strides[1])),
            dims: map_dims(sizes.to, strides[1])?,
            size: [sizes.from[2] as u32, sizes.from[3] as u32],
            is_nearest: u32::from(op.method == Method::Nearest),
            has_border: u32::from(op.padding == Padding::Border),
            aligns_corners: u32::from(op.aligns_corners),
            reserved: 0,
        };
        if are_vectors(&input, &output) {
            let grid = map_grid(&args.dims, THREADS_PER_BLOCK, true)?;
            return self.vector.enqueue_dependent(arena.stream(), grid, args);
        }
        let grid = map_grid(&args.dims, THREADS_PER_BLOCK, false)?;
        self.one.enqueue_dependent(arena.stream(), grid, args)
    }
}
