//! The CUDA implementation of [`pool`](super::pool()): one launch, equal to the CPU.

use super::kernels::{One, PoolArgs, THREADS_PER_BLOCK, Vector};
use super::{Kind, Pool};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, are_vectors, check_floats, map_dims, map_grid, padded};
use crate::device::cuda::{CudaDevice, Kernel};
use det_post_types::Result;

/// The loaded kernels.
pub struct Pooling {
    one: Kernel<One>,
    vector: Kernel<Vector>,
}

impl Pooling {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { one: device.kernel()?, vector: device.kernel()? })
    }

    /// Queues the pooling of a map of f16 or f32 to one of either.
    ///
    /// # Errors
    /// `Argument` when the sizes are not those of the pooling, or the windows are not within their
    /// buffers, overlap, are of i32 or have 2^32 elements; `Device` when the launch fails.
    pub fn enqueue(
        &self,
        arena: &Arena,
        pool: &Pool,
        input: &Region,
        output: &Region,
    ) -> Result<()> {
        let [from, to] = pool.check(input, output)?;
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        check_disjoint("pool", &[&output], &[&input], InPlace::Refused)?;
        check_floats("pool", &[input.element(), output.element()])?;
        let strides = [input.region().window.strides(), output.region().window.strides()];
        let pair = |values: [usize; 2]| values.map(|value| value as u32);
        let pads = pool.pads;
        let args = PoolArgs {
            source: Source::new(&input, padded(strides[0])),
            target: Target::new(&output, padded(strides[1])),
            dims: map_dims(to, strides[1])?,
            size: pair([from[2], from[3]]),
            padded: pair([from[2] + pads[2], from[3] + pads[3]]),
            kernel: pair(pool.kernel),
            steps: pair(pool.steps),
            dilations: pair(pool.dilations),
            pads: pair([pads[0], pads[1]]),
            is_average: u32::from(pool.kind != Kind::Max),
            counts_padding: u32::from(pool.kind == Kind::Average { counts_padding: true }),
        };
        if are_vectors(&input, &output) {
            let grid = map_grid(&args.dims, THREADS_PER_BLOCK, true)?;
            return self.vector.enqueue_dependent(arena.stream(), grid, args);
        }
        let grid = map_grid(&args.dims, THREADS_PER_BLOCK, false)?;
        self.one.enqueue_dependent(arena.stream(), grid, args)
    }
}
