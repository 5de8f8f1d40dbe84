//! The CUDA implementation of [`resize`](super::resize()): one launch, equal to the CPU.

use super::kernels::{One, ResizeArgs, THREADS_PER_BLOCK, Vector, coordinates, nearest};
use super::{Method, Nearest, Resize};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, are_vectors, check_floats, map_dims, map_grid, padded};
use crate::device::cuda::{CudaDevice, Kernel};
use det_post_types::Result;

/// The loaded kernels.
pub struct Resizing {
    one: Kernel<One>,
    vector: Kernel<Vector>,
}

impl Resizing {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { one: device.kernel()?, vector: device.kernel()? })
    }

    /// Queues the change of size of a map of f16 or f32 to one of either.
    ///
    /// # Errors `Argument` when the windows are not maps of equal N and C or a scale is not above
    /// 0, or the windows are not within their buffers, overlap, are of i32 or have 2^32 elements;
    /// `Device` when the launch fails.
    pub fn enqueue(
        &self,
        arena: &Arena,
        resize: &Resize,
        input: &Region,
        output: &Region,
    ) -> Result<()> {
        let checked = resize.check(input, output)?;
        if output.window.is_empty() {
            return Ok(());
        }
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        check_disjoint("resize", &[&output], &[&input], InPlace::Refused)?;
        check_floats("resize", &[input.element(), output.element()])?;
        let strides = [input.region().window.strides(), output.region().window.strides()];
        let (is_linear, mode) = match resize.method {
            Method::Nearest(mode) => (false, mode),
            Method::Linear => (true, Nearest::Floor),
        };
        let args = ResizeArgs {
            source: Source::new(&input, padded(strides[0])),
            target: Target::new(&output, padded(strides[1])),
            dims: map_dims(checked.to, strides[1])?,
            size: [checked.from[2] as u32, checked.from[3] as u32],
            scale: checked.scales,
            shift: checked.shifts,
            coordinates: coordinates(resize.coordinates),
            nearest: nearest(mode),
            is_linear: u32::from(is_linear),
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
