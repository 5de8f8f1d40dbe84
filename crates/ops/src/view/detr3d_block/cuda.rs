//! The CUDA implementation of [`detr3d_block`](super), in f16: a cluster of two thread blocks
//! has 8 or 16 queries. Within the tolerance of docs/numerics.md of the operations on the CPU,
//! and the same from run to run.

use half::f16;

pub use super::kernels::{
    BlockArgs, CHANNELS, HEADS, HIDDEN, LayerArgs, LayersArgs, MAX_CLASSES, NormsArgs,
    keys_values_len,
};

use super::kernels::{Block, BlockSpec, CLUSTER_BLOCKS, THREADS_PER_BLOCK};
use crate::device::cuda::{CudaDevice, Grid, Kernel, Stream};
use crate::view::sample::cuda::Texel;
use det_post_types::{Error, ErrorKind, Result};

/// The loaded kernels for a number of queries.
pub struct Detr3dBlock(Clusters);

/// By the queries of a cluster; for texels of f16 and int8.
enum Clusters {
    /// Faster while all clusters run at the same time.
    Small(Kernel<Block<f16, 8>>, Kernel<Block<i8, 8>>),
    Large(Kernel<Block<f16, 16>>, Kernel<Block<i8, 16>>),
}

impl Detr3dBlock {
    /// Loads the kernels; `None` when the GPU has no clusters or too little shared memory.
    ///
    /// # Errors
    /// `Device` when this build has no kernels.
    pub fn load(device: &CudaDevice, num_queries: usize) -> Result<Option<Self>> {
        let small: Option<(Kernel<Block<f16, 8>>, u32)> = find(device)?;
        let Some((small, num_resident)) = small else { return Ok(None) };
        let num_blocks = num_queries.div_ceil(8) * CLUSTER_BLOCKS as usize;
        if num_blocks <= num_resident as usize {
            return Ok(find(device)?.map(|(smaller, _)| Self(Clusters::Small(small, smaller))));
        }
        Ok(find(device)?
            .zip(find(device)?)
            .map(|((large, _), (smaller, _))| Self(Clusters::Large(large, smaller))))
    }

    /// Queues a block over maps with texels of one type; every block but the first may begin
    /// while the one before ends.
    ///
    /// # Errors
    /// `Argument` when no kernel reads such texels; else as [`Kernel::enqueue`].
    pub fn enqueue(&self, stream: &Stream, texel: Texel, args: &BlockArgs<'_>) -> Result<()> {
        match (&self.0, texel) {
            (Clusters::Small(kernel, _), Texel::F16) => enqueue(kernel, stream, args),
            (Clusters::Small(_, kernel), Texel::I8) => enqueue(kernel, stream, args),
            (Clusters::Large(kernel, _), Texel::F16) => enqueue(kernel, stream, args),
            (Clusters::Large(_, kernel), Texel::I8) => enqueue(kernel, stream, args),
            (_, Texel::F32) => {
                let message = "texels must be F16 or I8, found F32";
                Err(Error::new(ErrorKind::Argument, "detr3d_block", message))
            }
        }
    }
}

/// The kernel and the number of its thread blocks that are resident, where the GPU has it.
fn find<K: BlockSpec>(device: &CudaDevice) -> Result<Option<(Kernel<K>, u32)>> {
    let kernel: Option<Kernel<K>> = device.kernel_if_present()?;
    Ok(kernel.and_then(|kernel| {
        let num_resident = kernel.reserve_shared(K::SHARED_BYTES, THREADS_PER_BLOCK).ok()?;
        Some((kernel, num_resident))
    }))
}

fn enqueue<K: BlockSpec>(kernel: &Kernel<K>, stream: &Stream, args: &BlockArgs<'_>) -> Result<()> {
    let num_clusters = args.num_queries.div_ceil(K::CLUSTER_QUERIES);
    let num_blocks = [num_clusters * CLUSTER_BLOCKS, 1];
    let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
    let is_first = !args.attended.is_empty();
    if is_first {
        kernel.enqueue(stream, grid, *args)
    } else {
        kernel.enqueue_dependent(stream, grid, *args)
    }
}
